//! tracing-chrome as in its README: a layer that sends every enter and exit
//! through an unbounded channel to a thread that writes JSON.
//!
//! The thread is several times slower than the loop, so without a wait its
//! queue grows for as long as the loop runs; bursts wait for it, untimed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use tracing::info_span;
use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::prelude::*;

use crate::record::subject::{NEST, Outcome, Session, Subject};

pub(crate) struct TracingChrome;

struct Writing {
    // `FlushGuard` is not `Sync`.
    guard: Mutex<FlushGuard>,
    flushes: Arc<AtomicU64>,
    file: PathBuf,
}

/// The trace file, and how often its writer was asked to flush: the layer's own
/// `flush` only sends the request.
struct CountingFlushes {
    file: File,
    flushes: Arc<AtomicU64>,
}

impl Write for CountingFlushes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.file.flush()
    }
}

impl Subject for TracingChrome {
    fn name(&self) -> &'static str {
        "tracing-chrome"
    }

    fn setup(&self) -> &'static str {
        "tracing spans to a JSON file, default settings"
    }

    fn start(&self, dir: &Path) -> Result<Box<dyn Session>> {
        let path = dir.join("trace.json");
        let flushes = Arc::new(AtomicU64::new(0));
        let writer = CountingFlushes { file: File::create(&path)?, flushes: Arc::clone(&flushes) };
        let (layer, guard) = ChromeLayerBuilder::new().writer(writer).build();
        tracing_subscriber::registry().with(layer).try_init()?;
        Ok(Box::new(Writing { guard: Mutex::new(guard), flushes, file: path }))
    }

    fn burst(&self, spans: u32) {
        for _ in 0..spans {
            let _span = info_span!("span").entered();
        }
    }

    fn nested_burst(&self, outers: u32) {
        for _ in 0..outers {
            let _outer = info_span!("outer").entered();
            for _ in 0..NEST - 1 {
                let _inner = info_span!("inner").entered();
            }
        }
    }

    fn around(&self, work: &mut dyn FnMut()) {
        let _span = info_span!("span").entered();
        work();
    }

    // Shared with every subscriber of `tracing`; `tracing_noop` measures it.
    fn has_off(&self) -> bool {
        false
    }

    fn long_run_spans(&self) -> u64 {
        500_000
    }
}

impl Writing {
    fn guard(&self) -> MutexGuard<'_, FlushGuard> {
        self.guard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Session for Writing {
    fn settle(&self) {
        let before = self.flushes.load(Ordering::Relaxed);
        self.guard().flush();
        while self.flushes.load(Ordering::Relaxed) == before {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        let Writing { guard, file, .. } = *self;
        // Joins the writing thread, which ends the file.
        drop(guard);
        Ok(Outcome { file_bytes: Some(fs::metadata(file)?.len()), ..Outcome::default() })
    }
}
