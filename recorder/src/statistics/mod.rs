//! Rolling figures in process: latencies by name and by path, and memory, for a
//! user interface that wants them while the program runs.
//!
//! An exporter like any other, so off the hot path: it sees what the drain has
//! written and adds it up on a thread of its own.
//!
//! ```
//! use ringscope::Recorder;
//! use std::time::Duration;
//!
//! # let path = std::env::temp_dir().join(format!("ringscope-statistics-doc-{}.trace", std::process::id()));
//! let recorder = Recorder::builder().path(&path).start()?;
//! let statistics = recorder.statistics(Duration::from_secs(10));
//! for _ in 0..100 {
//!     let _span = ringscope::span!("forward");
//!     let _span = ringscope::span!("attention");
//! }
//! # recorder.flush();
//! # std::thread::sleep(Duration::from_millis(50));
//! for row in statistics.by_name() {
//!     println!("{}: {} times, p99 {:?}", row.path[0], row.count, row.p99);
//! }
//! # assert_eq!(statistics.by_name().len(), 2);
//! # recorder.finish()?;
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! Counts, means, minima and maxima are exact; percentiles are those of a histogram,
//! within 1 %. A window moves on by a quarter of its length at a time. Past 4,096
//! different paths further ones are one row. Events that the exporter was too slow for
//! are missing here and counted in [`Statistics::lost`]; the trace has them.

mod latency;
mod memory;
mod rolling;
#[cfg(not(feature = "off"))]
mod rows_file;

pub use latency::{LatencyOf, LatencyRow};
pub use memory::MemoryRow;
#[cfg(not(feature = "off"))]
pub(crate) use rows_file::RowsFile;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use self::{latency::Latencies, memory::Memory};
#[cfg(not(feature = "off"))]
use crate::handlers::ExportFilter;
use crate::handlers::{Event, ExportError, MetricExporter};

/// What is known so far; made by [`Recorder::statistics`](crate::Recorder::statistics). A handle: clones see the same.
#[derive(Clone, Debug)]
pub struct Statistics {
    figures: Arc<Mutex<Figures>>,
    lost: Arc<dyn Lost>,
}

/// How much the exporter behind it was too slow for.
trait Lost: std::fmt::Debug + Send + Sync {
    fn lost(&self) -> u64;
}

#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) latencies: Latencies,
    pub(crate) memory: Memory,
}

impl Figures {
    pub(crate) fn new(window: Duration) -> Self {
        Self { latencies: Latencies::new(window), memory: Memory::default() }
    }

    pub(crate) fn take(&mut self, event: &Event, now: Instant) {
        self.latencies.take(event, now);
        self.memory.take(event);
    }
}

impl Statistics {
    /// Latencies by name, the name that took the most time first. A name of different
    /// things has a row of each: see [`LatencyOf`].
    pub fn by_name(&self) -> Vec<LatencyRow> {
        self.lock().latencies.by_name(Instant::now())
    }

    /// Latencies by path: each row comes after the row of the span around it. That has none
    /// while it is open for the first time, nor if nothing of it ended within the window.
    pub fn by_path(&self) -> Vec<LatencyRow> {
        self.lock().latencies.by_path(Instant::now())
    }

    /// Memory: of the process, what was allocated and not released, devices, pools,
    /// caches, weights. Each row comes after the row that it is a part of.
    pub fn memory(&self) -> Vec<MemoryRow> {
        self.lock().memory.rows()
    }

    /// Events that are missing in these figures because they came too fast, also when the
    /// recording is over.
    pub fn lost(&self) -> u64 {
        self.lost.lost()
    }

    fn lock(&self) -> MutexGuard<'_, Figures> {
        // Whatever panicked did so between whole events.
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct StatisticsExporter(Arc<Mutex<Figures>>);

impl MetricExporter for StatisticsExporter {
    fn export(&mut self, event: &Event) -> Result<(), ExportError> {
        let mut figures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        figures.take(event, Instant::now());
        Ok(())
    }

    fn name(&self) -> String {
        "statistics".to_owned()
    }
}

/// What statistics want to see.
#[cfg(not(feature = "off"))]
pub(crate) fn filter() -> ExportFilter {
    ExportFilter::all().with_readings()
}

#[cfg(not(feature = "off"))]
mod recorder {
    use super::*;
    use crate::{Recorder, handlers::Attached};

    impl Lost for Attached {
        fn lost(&self) -> u64 {
            self.report().lost
        }
    }

    impl Recorder {
        /// Keeps figures over the last `window`, from now on.
        pub fn statistics(&self, window: Duration) -> Statistics {
            let figures = Arc::new(Mutex::new(Figures::new(window)));
            let exporter = StatisticsExporter(Arc::clone(&figures));
            Statistics { figures, lost: self.attach_counted(exporter, filter()) }
        }
    }
}

#[cfg(feature = "off")]
mod recorder {
    use super::*;
    use crate::Recorder;

    #[derive(Debug)]
    struct Nothing;

    impl Lost for Nothing {
        fn lost(&self) -> u64 {
            0
        }
    }

    impl Recorder {
        /// Keeps no figures: there are none.
        pub fn statistics(&self, window: Duration) -> Statistics {
            let figures = Arc::new(Mutex::new(Figures::new(window)));
            drop(StatisticsExporter(Arc::clone(&figures)));
            Statistics { figures, lost: Arc::new(Nothing) }
        }
    }
}
