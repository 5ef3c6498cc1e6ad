//! LTTng-UST, where it is installed: two tracepoints without fields a span, into
//! a channel of sixteen buffers of 1 MiB per core, which a consumer process
//! writes to disk.
//!
//! The default channel (four of 512 KiB) would discard events in a burst. A
//! session daemon that already runs is used; otherwise one is started for the
//! measurement and ended after it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::native;
use crate::process_cost;
use crate::record::subject::{Outcome, Session, Subject};

const PROVIDER: &str = include_str!("lttng_provider.c");
const EVENTS: &str = include_str!("lttng_events.h");

pub(crate) struct Lttng;

struct Tracing {
    name: String,
    output: PathBuf,
    /// Dropped last, after the session is gone.
    _daemon: Option<Daemon>,
}

/// A session daemon of our own. It ends its consumer when it is told to end.
struct Daemon {
    process: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.process.id().cast_signed()) {
            // Fails only if it has ended by itself.
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

impl Daemon {
    /// Starts one unless one answers.
    fn ensure() -> Result<Option<Self>> {
        if lttng(&["list"]).is_ok() {
            return Ok(None);
        }
        let process = Command::new("lttng-sessiond")
            .arg("--no-kernel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("lttng-sessiond")?;
        let daemon = Daemon { process };
        let begin = Instant::now();
        while lttng(&["list"]).is_err() {
            ensure!(begin.elapsed() < Duration::from_secs(5), "lttng-sessiond does not answer");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Some(daemon))
    }
}

/// Runs the control program and returns what it prints.
fn lttng(arguments: &[&str]) -> Result<String> {
    // Without this it starts a daemon of its own, which nobody would end.
    let output = Command::new("lttng").arg("--no-sessiond").args(arguments).output()?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!("lttng {}: {}", arguments.join(" "), reason.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Subject for Lttng {
    fn name(&self) -> &'static str {
        "lttng-ust"
    }

    fn version(&self) -> Option<String> {
        native::version_of("lttng")
    }

    fn setup(&self) -> &'static str {
        "two tracepoints a span, 16 buffers of 1 MiB per core, consumer writing CTF to disk"
    }

    fn loses(&self) -> Option<&'static str> {
        Some("when its buffers are full, and counts it")
    }

    fn missing(&self) -> Option<String> {
        if self.version().is_none() {
            return Some("not installed: lttng-tools".to_owned());
        }
        let found = native::compiler_finds("lttng/tracepoint.h");
        (!found).then(|| "not installed: a C compiler or liblttng-ust-dev".to_owned())
    }

    fn start(&self, dir: &Path) -> Result<Box<dyn Session>> {
        let daemon = Daemon::ensure()?;
        let name = format!("ringscope-bench-{}", std::process::id());
        let output = dir.join("ctf");
        lttng(&["create", &name, &format!("--output={}", output.display())])?;
        let tracing = Box::new(Tracing { name, output, _daemon: daemon });
        let session = format!("--session={}", tracing.name);
        let channel = ["--num-subbuf=16", "--subbuf-size=1M", "spans"];
        lttng(&[&["enable-channel", "--userspace", &session], &channel[..]].concat())?;
        lttng(&["enable-event", "--userspace", &session, "--channel=spans", "ringscope_bench:*"])?;
        lttng(&["start", &tracing.name])?;
        let sources = [("lttng_provider.c", PROVIDER), ("lttng_events.h", EVENTS)];
        // Loading registers with the daemon and waits for its answer.
        native::compile_and_load(&sources, &["-llttng-ust", "-ldl"], dir)?;
        Ok(tracing)
    }

    fn burst(&self, spans: u32) {
        native::burst(spans);
    }

    fn nested_burst(&self, outers: u32) {
        native::nested_burst(outers);
    }

    fn around(&self, work: &mut dyn FnMut()) {
        native::burst(1);
        work();
    }

    fn has_off(&self) -> bool {
        false
    }

    fn long_run_spans(&self) -> u64 {
        4_000_000
    }
}

impl Session for Tracing {
    fn settle(&self) {
        // The consumer is another process that takes buffers as they fill.
        thread::sleep(Duration::from_millis(2));
    }

    fn writer_cpu_time(&self) -> Duration {
        process_cost::cpu_time_of("lttng-consumerd")
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        // Waits until everything is on disk.
        lttng(&["stop", &self.name])?;
        let listing = lttng(&["list", &self.name])?;
        let discarded = listing
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Discarded events:"))
            .filter_map(|count| count.trim().parse::<u64>().ok())
            .sum::<u64>();
        // Two events a span; half a span is lost as well.
        let lost = Some(discarded.div_ceil(2));
        let file_bytes = Some(bytes_below(&self.output)?);
        Ok(Outcome { kept: None, lost, file_bytes })
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        if let Err(error) = lttng(&["destroy", &self.name]) {
            eprintln!("{error:#}");
        }
    }
}

/// Total size of the files in a directory and below.
fn bytes_below(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
