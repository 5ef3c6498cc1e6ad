//! For which request a record was: by its own link, else by the scope that it began in
//! (SPEC 10.1).
//!
//! All scopes of the traces are held in memory, within the budget; records are not. A
//! request is the same in every trace that has its id.

mod choosing;
mod finding;
mod scopes;

use std::collections::HashMap;

use ringscope_format::{Batch, Columns, Kind, Record, request_of};

pub(crate) use self::scopes::Place;
use self::scopes::{NOBODY, TrackScopes};
use crate::{Result, budget::Budget, load::Traces};

pub use self::choosing::Prefix;
pub(crate) use self::choosing::{OfRequest, choose, shortest_prefix};

/// The requests of all traces.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// By number, in order.
    ids: Vec<u128>,
    /// By trace and track.
    scopes: Vec<HashMap<u32, TrackScopes>>,
}

/// A scope, as reports see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeOf {
    pub(crate) request: u32,
    pub(crate) track: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Requests {
    /// Finds all of them; refuses those that do not fit.
    pub(crate) fn find(traces: &Traces, budget: Budget) -> Result<Self> {
        finding::find(traces, budget)
    }

    /// Columns that [`Self::of`] takes.
    pub(crate) fn columns() -> Columns {
        place_columns() | Columns::SHAPE | Columns::SLOTS
    }

    /// Ids by number, in order.
    pub(crate) fn ids(&self) -> &[u128] {
        &self.ids
    }

    /// The number of the request that a record was done for. `slots` are its own.
    pub(crate) fn of(
        &self,
        trace: usize,
        batch: &Batch,
        at: usize,
        slots: &[Record],
    ) -> Option<u32> {
        match request_of(slots) {
            Some(id) => self.number(id),
            None => self.scopes[trace].get(&batch.track[at])?.request(place(batch, at)),
        }
    }

    /// Scopes of a trace that are somebody's, of each track by start.
    pub(crate) fn scopes(&self, trace: usize) -> impl Iterator<Item = ScopeOf> {
        self.scopes[trace].iter().flat_map(|(&track, scopes)| {
            let somebodys = scopes.iter().filter(|scope| scope.request != NOBODY);
            somebodys.map(move |it| ScopeOf {
                request: it.request,
                track,
                start: it.place.start,
                end: it.place.end,
            })
        })
    }

    fn number(&self, id: u128) -> Option<u32> {
        self.ids.binary_search(&id).ok().map(|at| at as u32)
    }
}

/// An id as people see it, and give it.
pub(crate) fn in_hex(id: u128) -> String {
    format!("{id:032x}")
}

/// Columns that [`place`] takes.
fn place_columns() -> Columns {
    Columns::START | Columns::VALUE | Columns::TRACK | Columns::DEPTH | Columns::KIND
}

/// Where the `at`-th record is on its track.
pub(crate) fn place(batch: &Batch, at: usize) -> Place {
    let start = batch.start[at];
    let ticks = if Kind(batch.kind[at]).is_timed() { (batch.value[at] as i64).max(0) } else { 0 };
    Place { start, end: start.saturating_add(ticks as u64), depth: batch.depth[at] }
}
