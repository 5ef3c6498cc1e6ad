//! fastrace with a reporter that counts spans and drops them: its documented
//! cheap case, since nothing is serialised, sent or written.
//!
//! Its README asks for a root span a task ("an endless trace will never be
//! reported"), so a burst is a row of roots with 1,000 spans below each, which
//! spreads the root's cost thin and stays clear of the limit below.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use fastrace::collector::{Config, Reporter, SpanRecord};
use fastrace::prelude::*;

use crate::record::subject::{NEST, Outcome, Session, Subject};

/// Spans below one root.
const TASK: u32 = 1_000;

pub(crate) struct Fastrace;

struct Discarding {
    reported: Arc<AtomicU64>,
}

struct Counting(Arc<AtomicU64>);

impl Reporter for Counting {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        // Relaxed: read only after `flush`, which joins a thread that held the
        // collector's lock.
        let children = spans.iter().filter(|span| span.parent_id != SpanId::default()).count();
        self.0.fetch_add(children as u64, Ordering::Relaxed);
    }
}

/// Calls `below` under one root after the other until `spans` are recorded.
fn in_tasks(spans: u32, mut below: impl FnMut(u32)) {
    let mut left = spans;
    while left > 0 {
        let now = left.min(TASK);
        let root = Span::root("task", SpanContext::random());
        let _parent = root.set_local_parent();
        below(now);
        left -= now;
    }
}

impl Subject for Fastrace {
    fn name(&self) -> &'static str {
        "fastrace"
    }

    fn setup(&self) -> &'static str {
        "discarding: a reporter that counts and drops; 1,000 spans under each root"
    }

    fn loses(&self) -> Option<&'static str> {
        Some("past 10,240 spans under one local parent, silently")
    }

    fn start(&self, _dir: &Path) -> Result<Box<dyn Session>> {
        let reported = Arc::new(AtomicU64::new(0));
        fastrace::set_reporter(Counting(Arc::clone(&reported)), Config::default());
        Ok(Box::new(Discarding { reported }))
    }

    fn burst(&self, spans: u32) {
        in_tasks(spans, |now| {
            for _ in 0..now {
                let _span = LocalSpan::enter_with_local_parent("span");
            }
        });
    }

    fn nested_burst(&self, outers: u32) {
        in_tasks(outers * NEST, |now| {
            for _ in 0..now / NEST {
                let _outer = LocalSpan::enter_with_local_parent("outer");
                for _ in 0..NEST - 1 {
                    let _inner = LocalSpan::enter_with_local_parent("inner");
                }
            }
        });
    }

    fn around(&self, work: &mut dyn FnMut()) {
        let _span = LocalSpan::enter_with_local_parent("span");
        work();
    }

    fn overrun(&self) -> Option<u32> {
        let spans = 20_480;
        let root = Span::root("task", SpanContext::random());
        let _parent = root.set_local_parent();
        for _ in 0..spans {
            let _span = LocalSpan::enter_with_local_parent("span");
        }
        Some(spans)
    }
}

impl Session for Discarding {
    fn settle(&self) {
        fastrace::flush();
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        fastrace::flush();
        let kept = self.reported.load(Ordering::Relaxed);
        Ok(Outcome { kept: Some(kept), ..Outcome::default() })
    }
}
