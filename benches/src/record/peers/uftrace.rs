//! uftrace, where it is installed: empty functions compiled with `-pg`, in a
//! child process that runs under `uftrace record`, which writes a file a thread.
//!
//! One call is one span. Buffers are 4 MiB instead of 128 KiB, so that a burst
//! fits, and calls into libraries are not traced.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::native;
use crate::process_cost;
use crate::record::subject::{Outcome, Session, Subject};

const FUNCTIONS: &str = include_str!("uftrace_functions.c");
/// Below the child's own directory.
const DATA: &str = "uftrace.data";

pub(crate) struct Uftrace;

struct Recording;

impl Subject for Uftrace {
    fn name(&self) -> &'static str {
        "uftrace"
    }

    fn version(&self) -> Option<String> {
        native::version_of("uftrace")
    }

    fn setup(&self) -> &'static str {
        "functions compiled with -pg under uftrace record, buffers of 4 MiB, no library calls"
    }

    fn missing(&self) -> Option<String> {
        if self.version().is_none() {
            return Some("not installed: uftrace".to_owned());
        }
        let found = native::compiler_finds("stddef.h");
        (!found).then(|| "not installed: a C compiler".to_owned())
    }

    fn launcher(&self, dir: &Path) -> Vec<OsString> {
        // `--force`: the program itself has no instrumented function, only the
        // library that it will load.
        let mut command: Vec<OsString> =
            ["uftrace", "record", "--force", "--no-libcall", "--no-event", "--buffer=4m", "-d"]
                .map(OsString::from)
                .into();
        command.push(dir.join(DATA).into());
        command
    }

    fn file_bytes_after(&self, dir: &Path) -> Option<u64> {
        // The calls only: beside them lie symbol tables of every library.
        let files = fs::read_dir(dir.join(DATA)).ok()?.flatten();
        let calls = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "dat"));
        calls.map(|file| file.metadata().map(|data| data.len()).ok()).sum()
    }

    fn start(&self, dir: &Path) -> Result<Box<dyn Session>> {
        let sources = [("uftrace_functions.c", FUNCTIONS)];
        native::compile_and_load(&sources, &["-pg"], dir)?;
        Ok(Box::new(Recording))
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

impl Session for Recording {
    fn settle(&self) {
        // Its writer is another process that takes buffers as they fill.
        thread::sleep(Duration::from_millis(2));
    }

    fn writer_cpu_time(&self) -> Duration {
        process_cost::cpu_time_of("uftrace")
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        // The file is complete only when this process has ended.
        Ok(Outcome::default())
    }
}
