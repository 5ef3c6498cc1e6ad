//! Ringscope as its README shows it: a builder with a path, `span!`, in-flight
//! stacks on, default rings.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ringscope::{Recorder, ThreadHandle, span};

use super::subject::{NEST, Outcome, Session, Subject};

pub(crate) struct Ringscope;

struct Recording {
    recorder: Recorder,
    file: PathBuf,
}

impl Subject for Ringscope {
    fn name(&self) -> &'static str {
        "ringscope"
    }

    fn setup(&self) -> &'static str {
        "default settings, to a sealed trace file"
    }

    fn start(&self, dir: &Path) -> Result<Box<dyn Session>> {
        let file = dir.join("bench.trace");
        let recorder = Recorder::builder().path(&file).start()?;
        Ok(Box::new(Recording { recorder, file }))
    }

    fn burst(&self, spans: u32) {
        for _ in 0..spans {
            let _span = span!("span");
        }
    }

    fn handle_burst(&self) -> Option<fn(u32)> {
        Some(|spans| {
            let thread = ThreadHandle::current();
            for _ in 0..spans {
                let _span = span!(in thread, "span");
            }
        })
    }

    fn nested_burst(&self, outers: u32) {
        for _ in 0..outers {
            let _outer = span!("outer");
            for _ in 0..NEST - 1 {
                let _inner = span!("inner");
            }
        }
    }

    fn around(&self, work: &mut dyn FnMut()) {
        let _span = span!("span");
        work();
    }
}

impl Session for Recording {
    fn settle(&self) {
        self.recorder.flush();
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        let Recording { recorder, file } = *self;
        let summary = recorder.finish()?;
        Ok(Outcome {
            kept: Some(summary.stored),
            lost: Some(summary.lost),
            file_bytes: Some(fs::metadata(file)?.len()),
        })
    }
}
