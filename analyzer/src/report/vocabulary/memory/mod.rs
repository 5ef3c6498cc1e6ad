//! `memory`: what was allocated and not released, what devices, pools and caches
//! used over time, the weights, and what of the host's memory nothing accounts for.
//!
//! Figures of several traces are told apart: they are different processes. Events are
//! recorded by many threads and so not quite in order, and what is outstanding depends on
//! the order: allocations, releases and readings are held until all have been seen.

mod allocations;
mod bandwidth;
mod floors;
mod host;
mod phases;
mod uses;
mod weights;

use ringscope_format::Kind;

use self::{
    allocations::Allocations, bandwidth::Bandwidth, host::Host, phases::Phases, uses::Uses,
    weights::Weights,
};
use super::{
    Fold, Report,
    view::{View, hide_empty_columns, optional, text},
};
use crate::{
    Result,
    events::{Event, Scope},
    output::{Part, Table},
};

pub(super) const REPORT: Report = Report {
    what: "allocations and readings of memory",
    schema: "ringscope.memory/1",
    scope: Scope {
        kinds: |kind| matches!(kind, Kind::COPY | Kind::FILL),
        names: &[
            "memory.allocate",
            "memory.release",
            "memory.device",
            "memory.pool",
            "memory.phase",
            "memory.weights",
            "kv_cache.grow",
            "process.resident_bytes",
            "process.anonymous_bytes",
            "process.peak_resident_bytes",
            "checkpoint",
            "dataset.batch",
            "dataset.load",
            "serialize",
        ],
        ..Scope::NONE
    },
    fold: |view| Box::new(Memory { in_short: InShort::new(view), rest: Rest::new(view) }),
    nothing: "nothing about memory in this trace; memory.allocate, memory.device and others \
              record it (format-spec/VOCABULARY.md)",
};

/// What was allocated, and what devices and pools used.
pub(super) const SECTION: Report = Report {
    scope: Scope {
        names: &[
            "memory.allocate",
            "memory.release",
            "memory.device",
            "memory.pool",
            "kv_cache.grow",
        ],
        ..Scope::NONE
    },
    fold: |view| Box::new(InShort::new(view)),
    ..REPORT
};

/// Whether what events of this name carry is about memory, and nothing else.
pub(super) fn is_read(name: &str) -> bool {
    name.starts_with("memory.") && REPORT.scope.names.contains(&name) || name == "kv_cache.grow"
}

struct InShort<'a> {
    allocations: Allocations<'a>,
    uses: Uses<'a>,
}

impl<'a> InShort<'a> {
    fn new(view: &'a View<'a>) -> Self {
        Self { allocations: Allocations::new(view), uses: Uses::new(view) }
    }
}

impl Fold for InShort<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        match event.name() {
            "memory.allocate" => self.allocations.event(event, false),
            "memory.release" => self.allocations.event(event, true),
            _ => self.uses.event(event),
        }
    }

    fn parts(self: Box<Self>) -> Vec<Part> {
        tables([self.allocations.in_order().table(), self.uses.table()])
    }
}

/// What the command says beside that.
struct Rest<'a> {
    host: Host<'a>,
    phases: Phases<'a>,
    weights: Weights<'a>,
    bandwidth: Bandwidth<'a>,
}

impl<'a> Rest<'a> {
    fn new(view: &'a View<'a>) -> Self {
        Self {
            host: Host::new(view),
            phases: Phases::new(view),
            weights: Weights::new(view),
            bandwidth: Bandwidth::new(view),
        }
    }
}

struct Memory<'a> {
    in_short: InShort<'a>,
    rest: Rest<'a>,
}

impl Fold for Memory<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        if event.kind.is_timed() {
            self.rest.bandwidth.event(event);
        }
        match event.name() {
            "memory.phase" => self.rest.phases.event(event),
            "memory.weights" => self.rest.weights.event(event),
            name if SECTION.scope.names.contains(&name) => self.in_short.event(event),
            name if name.starts_with("process.") => self.rest.host.event(event),
            _ => Ok(()),
        }
    }

    fn parts(self: Box<Self>) -> Vec<Part> {
        let Memory { in_short: InShort { allocations, uses }, rest } = *self;
        let groups = allocations.in_order();
        let host = rest.host.table(&groups, &rest.weights);
        tables([
            groups.table(),
            uses.table(),
            host,
            rest.phases.table(),
            rest.weights.table(),
            rest.bandwidth.table(),
        ])
    }
}

fn tables<const N: usize>(tables: [Option<Table>; N]) -> Vec<Part> {
    tables.into_iter().flatten().map(Part::Table).collect()
}

/// Whether memory of this device is the host's.
fn is_host(device: Option<&str>) -> bool {
    device.is_none_or(|device| matches!(device, "" | "cpu" | "host"))
}
