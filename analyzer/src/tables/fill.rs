//! The second look at a trace: rows from the chunks that hold any.

use std::cell::Cell;

use polars::prelude::DataFrame;
use ringscope_format::{Batch, ChunkInfo, Kind};

use super::{
    TableName, Wanted,
    gather::{Counted, Plan, belongs},
    rows::{EventRows, FieldRows},
};
use crate::{
    Result,
    device::launch_of,
    events::number_of_point,
    load::Loaded,
    scan::{Piece, Visitor},
};

/// Rows of one table from one piece.
pub(super) enum Filled {
    Frame(DataFrame),
    /// Their launches may be in another piece.
    Kernels(Box<EventRows>),
}

/// A launch: trace, link and start.
pub(super) type Launch = (u32, u32, i64);
/// The tables of a piece, and the number of its first event.
pub(super) type Done = (u64, Result<Vec<Option<Filled>>>);

/// Rows of one chunk.
enum Rows {
    None,
    Events(EventRows),
    Fields(FieldRows),
}

/// The second look.
pub(super) struct Filling<'a> {
    plan: &'a Plan<'a>,
    counted: &'a Counted,
    current: Cell<u64>,
    /// By chunk, last first, and wanted table.
    piece: Vec<Vec<Rows>>,
    pub(super) done: Vec<Done>,
    pub(super) launches: Vec<Launch>,
}

impl<'a> Filling<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, counted: &'a Counted) -> Self {
        Self {
            plan,
            counted,
            current: Cell::new(0),
            piece: Vec::new(),
            done: Vec::new(),
            launches: Vec::new(),
        }
    }
}

impl Visitor for Filling<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        let first = self.plan.first_record(trace, chunk);
        self.current.set(first);
        self.counted.chunks.contains(&first)
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let (plan, first) = (self.plan, self.current.get());
        let loaded = &plan.gathering.traces.list[trace];
        if plan.launches {
            let launches = (0..batch.events)
                .filter(|&at| Kind(batch.kind[at]) == Kind::LAUNCH && batch.link[at] != 0);
            self.launches.extend(
                launches
                    .map(|at| (trace as u32, batch.link[at], start_ns(loaded, batch.start[at]))),
            );
        }
        let taken: Vec<usize> =
            (0..batch.events).filter(|&at| plan.takes(trace, batch, at)).collect();
        let of_table = |wanted: &Wanted| match wanted.table.table {
            TableName::Names | TableName::Tracks => Rows::None,
            TableName::Fields => {
                let mut rows = FieldRows::default();
                let slots: Vec<_> = batch.slot_ranges().collect();
                for &at in taken.iter().filter(|&&at| !slots[at].is_empty()) {
                    let slots = batch.slots.get(slots[at].clone()).unwrap_or_default();
                    let (traces, record) = (plan.gathering.traces, first + at as u64);
                    rows.push(trace, loaded, traces, record, batch.details(slots), &plan.texts);
                }
                Rows::Fields(rows)
            }
            table => {
                let is_in = |&&at: &&usize| belongs(table, Kind(batch.kind[at]));
                let taken: Vec<usize> = taken.iter().filter(is_in).copied().collect();
                Rows::Events(event_rows(wanted, plan, trace, batch, &taken, first))
            }
        };
        self.piece.push(plan.gathering.wanted.iter().map(of_table).collect());
    }

    fn end(&mut self, piece: &Piece) {
        let mut tables: Vec<Rows> = self.plan.gathering.wanted.iter().map(|_| Rows::None).collect();
        for chunk in self.piece.drain(..).rev() {
            for (all, rows) in tables.iter_mut().zip(chunk) {
                match (&mut *all, rows) {
                    (_, Rows::None) => {}
                    (Rows::Events(all), Rows::Events(rows)) => all.append(rows),
                    (Rows::Fields(all), Rows::Fields(rows)) => all.append(rows),
                    (all, rows) => *all = rows,
                }
            }
        }
        let frame = |(rows, wanted): (Rows, &Wanted)| {
            Ok(match rows {
                Rows::None => None,
                Rows::Events(rows) if wanted.table.table == TableName::Kernels => {
                    Some(Filled::Kernels(Box::new(rows)))
                }
                Rows::Events(rows) => Some(Filled::Frame(rows.frame(wanted, &self.plan.texts)?)),
                Rows::Fields(rows) => Some(Filled::Frame(rows.frame(wanted, &self.plan.texts)?)),
            })
        };
        let loaded = &self.plan.gathering.traces.list[piece.trace];
        let chunk = &loaded.trace.chunks()[piece.chunks.start];
        let first = self.plan.first_record(piece.trace, chunk);
        let tables = tables.into_iter().zip(self.plan.gathering.wanted).map(frame).collect();
        self.done.push((first, tables));
    }
}

fn start_ns(loaded: &Loaded, tick: u64) -> i64 {
    loaded.since_start_ns(tick).round() as i64
}

/// Rows of one table from the events that are in.
fn event_rows(
    wanted: &Wanted,
    plan: &Plan<'_>,
    trace: usize,
    batch: &Batch,
    taken: &[usize],
    first: u64,
) -> EventRows {
    let loaded = &plan.gathering.traces.list[trace];
    let clock = loaded.trace.clock();
    let of_kernels = wanted.table.table == TableName::Kernels && plan.launches;
    let has = |column: &str| wanted.has(column);
    let each = || taken.iter().copied();
    let mut rows = EventRows { rows: taken.len(), ..EventRows::default() };
    // Kernels need these to find their launch, asked for or not.
    if has("trace") || of_kernels {
        rows.trace.resize(taken.len(), trace as u32);
    }
    if has("start_ns") || of_kernels {
        rows.start.extend(each().map(|at| start_ns(loaded, batch.start[at])));
    }
    if has("link") || of_kernels {
        rows.link.extend(each().map(|at| batch.link[at]));
    }
    if of_kernels {
        rows.launch.resize(taken.len(), None);
    }
    if has("record") {
        rows.record.extend(each().map(|at| first + at as u64));
    }
    if has("kind") {
        rows.kind.extend(each().map(|at| u32::from(batch.kind[at])));
    }
    if has("name") {
        rows.name.extend(each().map(|at| loaded.name_index(batch.name[at])));
    }
    if has("track") || has("queue") {
        // Events of a track come in runs.
        let mut last = None;
        rows.track.extend(each().map(|at| match last {
            Some((id, index)) if id == batch.track[at] => index,
            _ => {
                let index = plan.texts.track(trace, batch.track[at]);
                last = Some((batch.track[at], index));
                index
            }
        }));
    }
    if has("dur_ns") {
        rows.dur.extend(each().map(|at| {
            let ticks = (batch.value[at] as i64).max(0) as u64;
            Kind(batch.kind[at]).is_timed().then(|| clock.ns(ticks))
        }));
    }
    if has("value") {
        rows.value.extend(each().map(|at| number_of_point(loaded, batch, at)));
    }
    if has("status") {
        rows.status.extend(each().map(|at| u32::from(batch.status[at] & 0x0F)));
    }
    if has("request")
        && let Some(requests) = &plan.requests
    {
        let slots: Vec<_> = batch.slot_ranges().collect();
        rows.request.extend(each().map(|at| {
            let slots = batch.slots.get(slots[at].clone()).unwrap_or_default();
            plan.texts.request(requests.of(trace, batch, at, slots))
        }));
    }
    if has("depth") {
        rows.depth.extend(each().map(|at| batch.depth[at]));
    }
    rows
}

/// Joins kernels with their launches.
pub(super) fn find_launches(rows: &mut EventRows, launches: &[Launch]) {
    for at in 0..rows.launch.len() {
        rows.launch[at] = launch_of(launches, rows.trace[at], rows.link[at], rows.start[at]);
    }
}
