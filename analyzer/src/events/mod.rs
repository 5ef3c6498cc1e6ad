//! Events that are chosen by kind, by name or because they failed, one by one in the order
//! in which they were recorded.
//!
//! The first look decodes little more than kinds and finds the chunks that hold any: the
//! others are not decoded, and where no name that is asked for is in the dictionary, names
//! are not either. The second look shows the events. One thread decodes while the caller's
//! adds up, so that sums of floating-point numbers are the same in every run. A few chunks
//! are held, and no event.

mod event;
mod field;

use std::{cell::Cell, collections::HashSet};

use ringscope_format::{Batch, ChunkInfo, Columns, Kind, Status};

pub(crate) use self::{
    event::{Event, Key},
    field::{LINK_KEYS, Told, link_key, number_of_point, told},
};
use crate::{
    Result,
    filter::Sieve,
    load::{Loaded, Traces},
    scan::{Order, Visitor, in_order, scan},
};

/// Which events are asked for, beside what the filter says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// Events of these kinds.
    pub(crate) kinds: fn(Kind) -> bool,
    /// Also everything with a duration that failed.
    pub(crate) failed: bool,
    /// Also events of these names.
    pub(crate) names: &'static [&'static str],
    /// Whether their fields are asked for.
    pub(crate) fields: bool,
}

impl Scope {
    /// No event.
    pub(crate) const NONE: Scope =
        Scope { kinds: |_| false, failed: false, names: &[], fields: true };
}

/// The scopes that an event is in, by their places in the list: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scopes(u32);

impl Scopes {
    /// More scopes than these have no bit.
    pub(crate) const MOST: usize = 32;

    fn only(at: usize, is_in: bool) -> Self {
        Self(u32::from(is_in) << at)
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the scope at this place is one of them.
    pub(crate) fn has(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }
}

/// Shows the events that are in one of the scopes and pass the sieves, of one trace after
/// the other, with the scopes that each is in; until `look` fails.
pub(crate) fn each(
    traces: &Traces,
    sieves: &[Sieve],
    scopes: &[Scope],
    mut look: impl FnMut(&Event<'_>, Scopes) -> Result<()>,
) -> Result<()> {
    debug_assert!(scopes.len() <= Scopes::MOST);
    let choice = Choice::new(traces, scopes);
    let chunks = choice.chunks(traces, sieves)?;
    if chunks.is_empty() {
        return Ok(());
    }
    let mut columns = choice.columns()
        | Columns::NAME
        | Columns::START
        | Columns::VALUE
        | Columns::STATUS
        | Columns::SHAPE;
    if scopes.iter().any(|scope| scope.fields) {
        columns = columns | Columns::SLOTS | Columns::LONG_TEXTS;
    }
    columns = sieves.iter().fold(columns, |columns, sieve| columns | sieve.columns());
    let wants = |trace: usize, chunk: &ChunkInfo| chunks.contains(&(trace, chunk.sequence));
    in_order(traces, columns, "reading events", Order::Recorded, wants, |trace, _, batch| {
        let sieve = &sieves[trace];
        for (at, slots) in batch.slot_ranges().enumerate() {
            let scopes = choice.scopes(trace, batch, at);
            if scopes.is_empty() || !(sieve.is_open() || sieve.takes_record(batch, at)) {
                continue;
            }
            let slots = batch.slots.get(slots).unwrap_or_default();
            look(&Event::new(traces, trace, batch, at, slots), scopes)?;
        }
        Ok(())
    })
}

/// Whether a status is that of something that failed.
pub(crate) fn is_failure(status: u8) -> bool {
    status & 0x0F == Status::ERROR.0
}

/// The scopes in the terms of the traces.
struct Choice {
    kinds: [Scopes; 256],
    failed: Scopes,
    /// By trace and id; empty if no trace knows any of the names.
    names: Vec<Vec<Scopes>>,
}

impl Choice {
    fn new(traces: &Traces, scopes: &[Scope]) -> Self {
        let all = |is_in: &dyn Fn(&Scope) -> bool| {
            let each = scopes.iter().enumerate().map(|(at, it)| Scopes::only(at, is_in(it)));
            each.fold(Scopes::default(), Scopes::and)
        };
        let by_name: Vec<Scopes> =
            traces.names.iter().map(|name| all(&|it| it.names.contains(&&**name))).collect();
        let by_id = |loaded: &Loaded| -> Vec<Scopes> {
            loaded.name_of.iter().map(|&name| by_name[name as usize]).collect()
        };
        let is_any_known = by_name.iter().any(|scopes| !scopes.is_empty());
        Self {
            kinds: std::array::from_fn(|kind| all(&|it| (it.kinds)(Kind(kind as u8)))),
            failed: all(&|it| it.failed),
            names: match is_any_known {
                true => traces.list.iter().map(by_id).collect(),
                false => Vec::new(),
            },
        }
    }

    /// Columns that say which scopes an event is in.
    fn columns(&self) -> Columns {
        let names = if self.names.is_empty() { Columns::NONE } else { Columns::NAME };
        let status = if self.failed.is_empty() { Columns::NONE } else { Columns::STATUS };
        Columns::KIND | names | status
    }

    fn of_name(&self, trace: usize, id: u32) -> Scopes {
        let names = self.names.get(trace);
        names.and_then(|names| names.get(id as usize)).copied().unwrap_or_default()
    }

    fn scopes(&self, trace: usize, batch: &Batch, at: usize) -> Scopes {
        let kind = Kind(batch.kind[at]);
        let mut scopes = self.kinds[usize::from(kind.0)];
        if !self.names.is_empty() {
            scopes = scopes.and(self.of_name(trace, batch.name[at]));
        }
        if !self.failed.is_empty() && kind.is_timed() && is_failure(batch.status[at]) {
            scopes = scopes.and(self.failed);
        }
        scopes
    }

    /// Whether an event of the batch may be in: most batches of most traces have spans
    /// alone, and are seen through at once.
    fn takes_any(&self, trace: usize, batch: &Batch) -> bool {
        batch.kind.iter().any(|&kind| !self.kinds[usize::from(kind)].is_empty())
            || batch.status.iter().any(|&status| is_failure(status))
            || batch.name.iter().any(|&id| !self.of_name(trace, id).is_empty())
    }

    /// Trace and sequence number of the chunks that hold any.
    fn chunks(&self, traces: &Traces, sieves: &[Sieve]) -> Result<HashSet<(usize, u64)>> {
        let is_never = |scopes: &Scopes| scopes.is_empty();
        if self.names.is_empty() && self.failed.is_empty() && self.kinds.iter().all(is_never) {
            return Ok(HashSet::new());
        }
        let visitors = scan(traces, self.columns(), "looking for events", || Finding {
            choice: self,
            sieves,
            current: Cell::new(0),
            found: HashSet::new(),
        })?;
        Ok(visitors.into_iter().flat_map(|visitor| visitor.found).collect())
    }
}

/// The first look.
struct Finding<'a> {
    choice: &'a Choice,
    sieves: &'a [Sieve],
    /// The chunk that comes next; whether it is wanted is asked of a shared reference.
    current: Cell<u64>,
    found: HashSet<(usize, u64)>,
}

impl Visitor for Finding<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        self.current.set(chunk.sequence);
        self.sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        if self.choice.takes_any(trace, batch) {
            self.found.insert((trace, self.current.get()));
        }
    }
}
