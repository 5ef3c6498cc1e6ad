//! What one run of a program costs: wall clock, CPU time, peak memory.
//!
//! The program is started by a child of the bench, which starts nothing else, so
//! that what the kernel says about its children is about this one. The peak
//! includes what the child itself holds when it starts the program, a few MiB.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

use crate::child;

/// A program and its arguments, as a task for a child.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Run {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
}

/// What it took.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Cost {
    pub(crate) wall_s: f64,
    /// User and system time of all threads.
    pub(crate) cpu_s: f64,
    pub(crate) peak_mib: f64,
    /// What it printed.
    pub(crate) output: String,
}

impl Run {
    pub(crate) fn new<A: Into<OsString>>(
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Run { program: program.into(), arguments }
    }

    /// Runs it in a child of the bench.
    pub(crate) fn measure(&self, scratch: &Path) -> Result<Cost> {
        let task = crate::Task::Analyze(self.clone());
        let answer = child::run(&task, &[], |_| Vec::new(), scratch);
        answer.map(|answer| answer.result).with_context(|| self.name())
    }

    fn name(&self) -> String {
        let name = Path::new(&self.program).file_name().unwrap_or_default().to_string_lossy();
        let first = self.arguments.first().map_or_else(String::new, |it| it.display().to_string());
        format!("{name} {first}")
    }
}

/// Runs the program, in the child.
pub(crate) fn answer(run: &Run) -> Result<Cost> {
    let begin = Instant::now();
    let output = Command::new(&run.program)
        .args(&run.arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| run.name())?;
    let wall_s = begin.elapsed().as_secs_f64();
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}: {}", run.name(), output.status, complaint.trim());
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    // In KiB on Linux, in bytes on Apple's systems.
    let unit = if cfg!(target_vendor = "apple") { 1.0 } else { 1_024.0 };
    Ok(Cost {
        wall_s,
        cpu_s: seconds(usage.user_time()) + seconds(usage.system_time()),
        peak_mib: usage.max_rss() as f64 * unit / (1_024.0 * 1_024.0),
        output: String::from_utf8(output.stdout).context("output is not UTF-8")?,
    })
}
