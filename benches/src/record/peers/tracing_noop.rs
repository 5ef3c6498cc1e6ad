//! `tracing` with a registry and a layer that does nothing: what any subscriber
//! built on `tracing-subscriber` starts from. Not started, it is `tracing`
//! without a subscriber, the figure for off.

use std::path::Path;

use anyhow::Result;
use tracing::info_span;

use crate::machine::crate_version;
use crate::record::subject::{NEST, Session, Subject};
use crate::tracing::subjects::no_op;

pub(crate) struct TracingNoop;

impl Subject for TracingNoop {
    fn name(&self) -> &'static str {
        "tracing-noop"
    }

    fn version(&self) -> Option<String> {
        crate_version("tracing").map(str::to_owned)
    }

    fn setup(&self) -> &'static str {
        "tracing registry with a layer that does nothing; create, enter, exit, close"
    }

    fn start(&self, dir: &Path) -> Result<Box<dyn Session>> {
        no_op(dir)
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
}
