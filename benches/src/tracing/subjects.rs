//! Subscribers of `tracing`. All record the same spans; they differ in how they
//! are started.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ringscope::Recorder;
use ringscope::tracing::{MetricsLayer, Subscriber};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, info_span};
use tracing_subscriber::layer::Layer;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::Registry;

use crate::counter::ticks;
use crate::record::subject::{NEST, Outcome, Session, Subject};

/// Ringscope's own subscriber.
pub(crate) const RINGSCOPE: &str = "ringscope";
/// Ringscope's layer on a registry.
pub(crate) const LAYER: &str = "ringscope-layer";
/// A registry with a layer that does nothing.
pub(crate) const NO_OP: &str = "registry-noop";
/// Subscribers that are the least there can be: they show what of a span is `tracing`'s own.
const DISPATCH: &str = "dispatch-only";
const COUNTER: &str = "dispatch-and-floor";

/// A subscriber, not installed.
pub(crate) struct Subscribed {
    pub(crate) name: &'static str,
    pub(crate) setup: &'static str,
    pub(crate) start: fn(&Path) -> Result<Box<dyn Session>>,
}

const OWN: &[Subscribed] = &[
    Subscribed {
        name: RINGSCOPE,
        setup: "stand-alone subscriber, to a sealed trace file",
        start: own,
    },
    Subscribed { name: LAYER, setup: "layer on a registry, to a sealed trace file", start: layer },
    Subscribed {
        name: NO_OP,
        setup: "registry, a layer that does nothing; records nothing",
        start: no_op,
    },
    Subscribed {
        name: DISPATCH,
        setup: "subscriber that does nothing: the dispatch of tracing alone",
        start: dispatch,
    },
    Subscribed {
        name: COUNTER,
        setup: "subscriber that reads the counter at enter and exit and stores 32 bytes",
        start: counter,
    },
];

#[cfg(feature = "peers")]
const PEERS: &[Subscribed] = super::peers::PEERS;
#[cfg(not(feature = "peers"))]
const PEERS: &[Subscribed] = &[];

pub(crate) fn all() -> impl Iterator<Item = &'static Subscribed> {
    OWN.iter().chain(PEERS)
}

pub(crate) fn find(name: &str) -> Option<&'static Subscribed> {
    all().find(|subject| subject.name == name)
}

impl Subject for Subscribed {
    fn name(&self) -> &'static str {
        self.name
    }

    fn setup(&self) -> &'static str {
        self.setup
    }

    fn start(&self, dir: &Path) -> Result<Box<dyn Session>> {
        (self.start)(dir)
    }

    /// Created, entered, left, closed.
    fn burst(&self, spans: u32) {
        for _ in 0..spans {
            let _span = info_span!("span").entered();
        }
    }

    /// Created once, entered and left again and again.
    fn handle_burst(&self) -> Option<fn(u32)> {
        Some(|spans| {
            let span = info_span!("kept");
            for _ in 0..spans {
                let _inside = span.enter();
            }
        })
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

/// A session of ringscope; the subscriber stays for good.
pub(crate) struct Recording {
    recorder: Recorder,
    file: PathBuf,
}

impl Recording {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let file = dir.join("bench.trace");
        Ok(Self { recorder: Recorder::builder().path(&file).start()?, file })
    }
}

impl Session for Recording {
    fn settle(&self) {
        self.recorder.flush();
    }

    fn finish(self: Box<Self>) -> Result<Outcome> {
        let Recording { recorder, file } = *self;
        let summary = recorder.finish()?;
        // Not `kept`: a span that is entered again has a record of its life as well.
        Ok(Outcome {
            kept: None,
            lost: Some(summary.lost),
            file_bytes: Some(fs::metadata(file)?.len()),
        })
    }
}

fn own(dir: &Path) -> Result<Box<dyn Session>> {
    let recording = Recording::start(dir)?;
    Subscriber::new().install()?;
    Ok(Box::new(recording))
}

fn layer(dir: &Path) -> Result<Box<dyn Session>> {
    let recording = Recording::start(dir)?;
    tracing_subscriber::registry().with(MetricsLayer::new()).try_init()?;
    Ok(Box::new(recording))
}

struct NoOp;

impl Layer<Registry> for NoOp {}

/// A session that has nothing to end.
pub(crate) struct Nothing;

impl Session for Nothing {
    fn finish(self: Box<Self>) -> Result<Outcome> {
        Ok(Outcome::default())
    }
}

pub(crate) fn no_op(_: &Path) -> Result<Box<dyn Session>> {
    tracing_subscriber::registry().with(NoOp).try_init()?;
    Ok(Box::new(Nothing))
}

struct Dispatched;

impl tracing::Subscriber for Dispatched {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn dispatch(_: &Path) -> Result<Box<dyn Session>> {
    tracing::subscriber::set_global_default(Dispatched)?;
    Ok(Box::new(Nothing))
}

thread_local! {
    static START: Cell<u64> = const { Cell::new(0) };
    /// Where the next one goes, and a buffer that stays in the second-level cache.
    static STORED: RefCell<(usize, Box<[[u64; 4]; 8_192]>)> =
        RefCell::new((0, Box::new([[0; 4]; 8_192])));
}

struct Counted;

impl tracing::Subscriber for Counted {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        START.set(ticks());
    }

    fn exit(&self, id: &Id) {
        let (start, end) = (START.get(), ticks());
        STORED.with_borrow_mut(|(at, stored)| {
            stored[*at % stored.len()] = [start, end.wrapping_sub(start), id.into_u64(), 1];
            *at += 1;
        });
    }
}

fn counter(_: &Path) -> Result<Box<dyn Session>> {
    tracing::subscriber::set_global_default(Counted)?;
    Ok(Box::new(Nothing))
}
