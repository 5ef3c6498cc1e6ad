//! perfetto-recorder, with `fastant` for its clock as its README suggests:
//! events pile up in a vector per thread and become a file at the end.
//!
//! Room for a burst is reserved before it (its `current_thread_reserve`, as in
//! its own benchmark), so no burst pays for moving a grown vector. Timed bursts
//! are thrown away afterwards and reuse their memory; a program that keeps all
//! of its spans would also pay for touching fresh pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Result, anyhow};
use perfetto_recorder::{EVENTS_PER_SPAN, ThreadTraceData, TraceBuilder, scope};

use crate::record::hot_path::BURST;
use crate::record::subject::{NEST, Outcome, Session, Subject};

pub(crate) struct PerfettoRecorder;

struct InMemory {
    taken: Mutex<Vec<ThreadTraceData>>,
    file: PathBuf,
}

impl Subject for PerfettoRecorder {
    fn name(&self) -> &'static str {
        "perfetto-recorder"
    }

    fn setup(&self) -> &'static str {
        "in memory with the fastant clock; .pftrace file written at the end"
    }

    fn start(&self, dir: &Path) -> Result<Box<dyn Session>> {
        perfetto_recorder::start()
            .map_err(|_| anyhow!("perfetto-recorder built without enable"))?;
        Ok(Box::new(InMemory { taken: Mutex::new(Vec::new()), file: dir.join("trace.pftrace") }))
    }

    fn burst(&self, spans: u32) {
        for _ in 0..spans {
            scope!("span");
        }
    }

    fn nested_burst(&self, outers: u32) {
        for _ in 0..outers {
            scope!("outer");
            for _ in 0..NEST - 1 {
                scope!("inner");
            }
        }
    }

    fn around(&self, work: &mut dyn FnMut()) {
        scope!("span");
        work();
    }

    fn long_run_spans(&self) -> u64 {
        1_000_000
    }
}

impl Session for InMemory {
    fn settle_thread(&self) {
        drop(ThreadTraceData::take_current_thread());
        perfetto_recorder::current_thread_reserve(BURST as usize * EVENTS_PER_SPAN);
    }

    fn collect_thread(&self) {
        let data = ThreadTraceData::take_current_thread();
        self.taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(data);
        perfetto_recorder::current_thread_reserve(BURST as usize * EVENTS_PER_SPAN);
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        let mut builder = TraceBuilder::new().map_err(|_| anyhow!("recording is off"))?;
        for data in self.taken.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            builder.process_thread_data(&data);
        }
        builder.write_to_file(&self.file)?;
        let file_bytes = Some(fs::metadata(&self.file)?.len());
        Ok(Outcome { file_bytes, ..Outcome::default() })
    }
}
