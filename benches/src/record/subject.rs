//! What is measured: a library that records spans. Ringscope, every peer and
//! the loop that records nothing are subjects of the same bench code.
//!
//! The loop over spans belongs to the subject, so that its macro expands inside
//! it as in a user's program; the bench calls it once a burst.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::machine::crate_version;

/// A library, not started. Its methods run on any thread of a child process
/// that measures nothing else.
pub(crate) trait Subject: Sync {
    /// The key under which results are printed.
    fn name(&self) -> &'static str;

    /// What was measured; a crate's version is that of the lock file.
    fn version(&self) -> Option<String> {
        crate_version(self.name()).map(str::to_owned)
    }

    /// Why it cannot be measured here, if it cannot.
    fn missing(&self) -> Option<String> {
        None
    }

    /// How it is set up, and what becomes of the spans: one line for the report.
    fn setup(&self) -> &'static str;

    /// Where and how it loses spans, if it does.
    fn loses(&self) -> Option<&'static str> {
        None
    }

    /// Variables it is configured by, for the whole child process.
    fn environment(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// A program to run the child under, with its arguments, for a tracer that
    /// works from outside. `dir` is where the child keeps its files.
    fn launcher(&self, _dir: &Path) -> Vec<OsString> {
        Vec::new()
    }

    /// Size of the file of a subject that completes it only after the child
    /// has ended.
    fn file_bytes_after(&self, _dir: &Path) -> Option<u64> {
        None
    }

    /// Starts it, with its files in `dir`.
    fn start(&self, dir: &Path) -> Result<Box<dyn Session>>;

    /// Records `spans` empty spans, one after the other.
    fn burst(&self, spans: u32);

    /// The same through an explicit handle, where there is such a thing.
    fn handle_burst(&self) -> Option<fn(u32)> {
        None
    }

    /// Records `outers` spans with four empty ones inside each: five a piece.
    fn nested_burst(&self, outers: u32);

    /// Records one span around `work`.
    fn around(&self, work: &mut dyn FnMut());

    /// Records in the one way in which it loses spans without a word, and says
    /// how many it was given.
    fn overrun(&self) -> Option<u32> {
        None
    }

    /// Whether spans may be opened before [`start`](Self::start), and then cost
    /// what the library calls off.
    fn has_off(&self) -> bool {
        true
    }

    /// Spans in a long run: fewer where each takes long or stays in memory.
    fn long_run_spans(&self) -> u64 {
        20_000_000
    }
}

/// A started subject.
pub(crate) trait Session: Sync {
    /// Untimed, on each recording thread after its burst: makes room for the
    /// next. What was recorded may be thrown away.
    fn settle_thread(&self) {}

    /// The same in a run that is to end in a file: nothing is thrown away.
    fn collect_thread(&self) {
        self.settle_thread();
    }

    /// Untimed, once after each burst: waits until what was recorded has left
    /// the recording threads' buffers, where the library lets one wait.
    fn settle(&self) {}

    /// CPU time of other processes that write for this one.
    fn writer_cpu_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Ends the recording and waits until its file, if any, is complete.
    fn finish(self: Box<Self>) -> Result<Outcome>;
}

/// What a subject says of itself at the end. `None` where it does not.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Outcome {
    /// Spans it kept.
    pub(crate) kept: Option<u64>,
    /// Spans it admits to having lost.
    pub(crate) lost: Option<u64>,
    /// Size of its file.
    pub(crate) file_bytes: Option<u64>,
}

/// Spans in a span of [`Subject::nested_burst`], itself included.
pub(crate) const NEST: u32 = 5;

/// The loop that records nothing: what every other figure is compared with when
/// the floor is not the question.
pub(crate) struct Unrecorded;

struct Nothing;

impl Subject for Unrecorded {
    fn name(&self) -> &'static str {
        "unrecorded"
    }

    fn setup(&self) -> &'static str {
        "the same loop, nothing recorded"
    }

    fn start(&self, _dir: &Path) -> Result<Box<dyn Session>> {
        Ok(Box::new(Nothing))
    }

    fn burst(&self, spans: u32) {
        for span in 0..spans {
            std::hint::black_box(span);
        }
    }

    fn nested_burst(&self, outers: u32) {
        self.burst(outers * NEST);
    }

    fn around(&self, work: &mut dyn FnMut()) {
        work();
    }
}

impl Session for Nothing {
    fn finish(self: Box<Self>) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}
