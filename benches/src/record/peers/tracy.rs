//! Tracy's client without a profiler connected, as a program runs until someone
//! looks: every event stays in a queue that only grows.
//!
//! A connected profiler would read the queue from another process; there is no
//! packaged one that speaks this protocol version, so its cost is not in the
//! figures, and there is no file to weigh.

use std::path::Path;

use anyhow::Result;
use tracy_client::{Client, span};

use crate::record::subject::{NEST, Outcome, Session, Subject};

pub(crate) struct Tracy;

struct Running {
    _client: Client,
}

impl Subject for Tracy {
    fn name(&self) -> &'static str {
        "tracy-client"
    }

    fn setup(&self) -> &'static str {
        "in memory, no profiler connected; call stacks, sampling and system tracing off"
    }

    fn start(&self, _dir: &Path) -> Result<Box<dyn Session>> {
        Ok(Box::new(Running { _client: Client::start() }))
    }

    fn burst(&self, spans: u32) {
        for _ in 0..spans {
            let _span = span!("span");
        }
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

    // `span!` panics while the client is not running.
    fn has_off(&self) -> bool {
        false
    }

    fn long_run_spans(&self) -> u64 {
        4_000_000
    }
}

impl Session for Running {
    fn finish(self: Box<Self>) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}
