//! hotpath with its background worker, which folds every measurement into a
//! histogram per name: a profile, not a trace, so there are no spans to weigh.
//!
//! Its worker sweeps the threads' queues at an interval and offers no way to
//! wait for that; a loop that outruns it makes the queue grow, never lose. The
//! interval is set to 5 ms instead of 50, which its source recommends for
//! "high-traffic apps": a burst then finds its queue empty and allocated.

// No block here is unsafe: for every literal label `measure_block!` exports a
// symbol, to have the linker refuse a second one, and the lint covers that too.
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use hotpath::{Format, HotpathGuard, HotpathGuardBuilder, measure_block};

use crate::record::subject::{NEST, Outcome, Session, Subject};

pub(crate) struct Hotpath;

struct Profiling {
    // In a mutex only because a session is shared between threads.
    guard: Mutex<HotpathGuard>,
}

impl Subject for Hotpath {
    fn name(&self) -> &'static str {
        "hotpath"
    }

    fn setup(&self) -> &'static str {
        "histograms per name in a background worker; report switched off, no trace"
    }

    fn start(&self, _dir: &Path) -> Result<Box<dyn Session>> {
        let guard = HotpathGuardBuilder::new("bench").format(Format::None).build();
        Ok(Box::new(Profiling { guard: Mutex::new(guard) }))
    }

    fn burst(&self, spans: u32) {
        for _ in 0..spans {
            measure_block!("span", ());
        }
    }

    fn nested_burst(&self, outers: u32) {
        for _ in 0..outers {
            measure_block!("outer", {
                for _ in 0..NEST - 1 {
                    measure_block!("inner", ());
                }
            });
        }
    }

    fn environment(&self) -> &'static [(&'static str, &'static str)] {
        &[("HOTPATH_DRAIN_INTERVAL_MS", "5"), ("HOTPATH_METRICS_SERVER_OFF", "1")]
    }

    fn around(&self, work: &mut dyn FnMut()) {
        measure_block!("around", work());
    }
}

impl Session for Profiling {
    fn settle(&self) {
        // Two sweeps: one may have just begun.
        thread::sleep(Duration::from_millis(12));
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        drop(self.guard);
        Ok(Outcome::default())
    }
}
