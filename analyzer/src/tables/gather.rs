//! Filling tables from chunks, in parallel: only the tables, columns and events
//! that are asked for.
//!
//! The first look decodes little more than kinds. It counts the rows, so that
//! tables which do not fit are refused before anything is allocated, and finds
//! the chunks that hold any: the others are not decoded.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
};

use polars::prelude::DataFrame;
use ringscope_format::{Batch, ChunkInfo, Columns, Kind};

use super::{
    TableName, Wanted,
    fill::{Filled, Filling, find_launches},
    listings,
    rows::Dictionaries,
};
use crate::{
    Result,
    budget::Budget,
    device::is_device_work,
    filter::Sieve,
    load::{Loaded, Traces},
    output::count,
    requests::Requests,
    scan::{Visitor, scan},
};

/// What is to be filled, and from what.
pub(crate) struct Gathering<'a> {
    pub(crate) traces: &'a Traces,
    pub(crate) sieves: &'a [Sieve],
    pub(crate) wanted: &'a [Wanted],
    pub(crate) budget: Budget,
}

/// A query works on copies: one that sorts a whole table takes three times its
/// size and a little more.
const ROOM_TO_WORK: u64 = 3;

pub(super) fn belongs(table: TableName, kind: Kind) -> bool {
    match table {
        TableName::Records | TableName::Fields => true,
        TableName::Spans => kind.is_timed() && !is_device_work(kind) && !kind.is_overlay(),
        TableName::Kernels => is_device_work(kind),
        TableName::Counters => matches!(kind, Kind::COUNTER | Kind::GAUGE),
        TableName::Names | TableName::Tracks => false,
    }
}

impl Gathering<'_> {
    /// The tables, one for each that is wanted.
    pub(crate) fn run(&self) -> Result<Vec<DataFrame>> {
        let plan = Plan::new(self)?;
        let mut frames: Vec<Option<DataFrame>> = self
            .wanted
            .iter()
            .map(|wanted| match wanted.table.table {
                TableName::Names => listings::names(self.traces, wanted).map(Some),
                TableName::Tracks => listings::tracks(self.traces, wanted).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<_>>()?;
        if frames.iter().any(Option::is_none) {
            let counted = plan.count()?;
            let sizes: Vec<(&Wanted, u64)> =
                self.wanted.iter().zip(counted.rows.iter().copied()).collect();
            self.check(&sizes, plan.long_text_bytes(&counted))?;
            plan.fill(&counted, &mut frames)?;
        }
        let empty = |(frame, wanted): (Option<DataFrame>, &Wanted)| {
            frame.map_or_else(
                || {
                    let schema = wanted.table.schema();
                    let all = DataFrame::empty_with_schema(&schema);
                    Ok(all.select(wanted.columns.iter().copied())?)
                },
                Ok,
            )
        };
        frames.into_iter().zip(self.wanted).map(empty).collect()
    }

    /// Whether so many rows of these tables fit, and so many bytes of long texts.
    fn check(&self, tables: &[(&Wanted, u64)], texts: u64) -> Result<()> {
        let size = |&(wanted, rows): &(&Wanted, u64)| rows * wanted.width();
        let needed = (tables.iter().map(size).sum::<u64>() + texts) * ROOM_TO_WORK;
        let Some(&(wanted, rows)) = tables.iter().max_by_key(|table| size(table)) else {
            return Ok(());
        };
        let what = || {
            format!(
                "table {}: {} rows of {} columns ({}), with the query over them,",
                wanted.table.name,
                count(rows),
                wanted.columns.len(),
                wanted.columns.join(", "),
            )
        };
        self.budget.require(
            needed,
            what,
            "name fewer columns, ask about a part with --from, --to, --last, --name, --track, \
             --request or --min-duration",
        )
    }
}

/// A gathering with everything looked up.
pub(super) struct Plan<'a> {
    pub(super) gathering: &'a Gathering<'a>,
    pub(super) texts: Dictionaries,
    /// If a column says for which request records were.
    pub(super) requests: Option<Requests>,
    /// Number of a chunk's first event, by trace and sequence number.
    first_record: HashMap<(usize, u64), u64>,
    pub(super) launches: bool,
    fields: bool,
    /// Whether texts are wanted that are longer than their events hold.
    long_texts: bool,
}

/// What the first look found.
#[derive(Default)]
pub(super) struct Counted {
    /// By wanted table.
    rows: Vec<u64>,
    /// By first record.
    pub(super) chunks: HashSet<u64>,
}

impl<'a> Plan<'a> {
    fn new(gathering: &'a Gathering<'a>) -> Result<Self> {
        let traces = gathering.traces;
        let mut first_record = HashMap::new();
        let mut next = 0;
        for (trace, loaded) in traces.list.iter().enumerate() {
            for chunk in loaded.trace.chunks() {
                first_record.insert((trace, chunk.sequence), next);
                next += u64::from(chunk.events);
            }
        }
        let any = |test: fn(&Wanted) -> bool| gathering.wanted.iter().any(test);
        let requests = match any(|wanted| wanted.has("request")) {
            true => Some(Requests::find(traces, gathering.budget)?),
            false => None,
        };
        Ok(Self {
            gathering,
            texts: Dictionaries::new(traces, requests.as_ref()),
            requests,
            first_record,
            launches: any(|wanted| wanted.has("launch_ns") || wanted.has("queue_delay_ns")),
            fields: any(|wanted| wanted.table.table == TableName::Fields),
            long_texts: any(|it| it.table.table == TableName::Fields && it.has("text")),
        })
    }

    /// Columns that say whether an event is in.
    fn deciding(&self) -> Columns {
        let sieves = self.gathering.sieves.iter();
        let mut columns = sieves.fold(Columns::KIND, |columns, sieve| columns | sieve.columns());
        if self.fields {
            columns = columns | Columns::SHAPE;
        }
        columns
    }

    pub(super) fn takes(&self, trace: usize, batch: &Batch, at: usize) -> bool {
        let sieve = &self.gathering.sieves[trace];
        sieve.is_open() || sieve.takes_record(batch, at)
    }

    /// Rows of each table and the chunks that hold any.
    fn count(&self) -> Result<Counted> {
        if let Some(counted) = self.count_without_looking() {
            return Ok(counted);
        }
        let looked = scan(self.gathering.traces, self.deciding(), "counting rows", || Counting {
            plan: self,
            current: Cell::new(0),
            counted: Counted { rows: vec![0; self.gathering.wanted.len()], ..Counted::default() },
        })?;
        let mut all = Counted { rows: vec![0; self.gathering.wanted.len()], ..Counted::default() };
        for visitor in looked {
            all.rows.iter_mut().zip(&visitor.counted.rows).for_each(|(sum, rows)| *sum += rows);
            all.chunks.extend(visitor.counted.chunks);
        }
        Ok(all)
    }

    /// If everything is in, the heads of the chunks say how much that is.
    fn count_without_looking(&self) -> Option<Counted> {
        let gathering = self.gathering;
        let needs_kinds = |wanted: &Wanted| {
            use TableName::{Counters, Kernels, Spans};
            matches!(wanted.table.table, Spans | Kernels | Counters)
        };
        let open = gathering.sieves.iter().all(Sieve::is_open);
        if !open || gathering.wanted.iter().any(needs_kinds) {
            return None;
        }
        let mut counted = Counted { rows: vec![0; gathering.wanted.len()], ..Counted::default() };
        for (trace, loaded) in gathering.traces.list.iter().enumerate() {
            for chunk in loaded.trace.chunks() {
                let mut any = false;
                for (rows, wanted) in counted.rows.iter_mut().zip(gathering.wanted) {
                    let more = match wanted.table.table {
                        TableName::Records => u64::from(chunk.events),
                        TableName::Fields => u64::from(chunk.slots) * 2,
                        _ => 0,
                    };
                    *rows += more;
                    any |= more > 0;
                }
                if any {
                    counted.chunks.insert(self.first_record(trace, chunk));
                }
            }
        }
        Some(counted)
    }

    fn fill(&self, counted: &Counted, frames: &mut [Option<DataFrame>]) -> Result<()> {
        let (traces, columns) = (self.gathering.traces, self.columns());
        let looked = scan(traces, columns, "filling tables", || Filling::new(self, counted))?;
        let mut done = Vec::new();
        let mut launches = Vec::new();
        for visitor in looked {
            done.extend(visitor.done);
            launches.extend(visitor.launches);
        }
        launches.sort_unstable();
        done.sort_by_key(|(first, _)| *first);
        for (_, tables) in done {
            for (at, table) in tables?.into_iter().enumerate() {
                let frame = match table {
                    None => continue,
                    Some(Filled::Frame(frame)) => frame,
                    Some(Filled::Kernels(mut rows)) => {
                        find_launches(&mut rows, &launches);
                        rows.frame(&self.gathering.wanted[at], &self.texts)?
                    }
                };
                match &mut frames[at] {
                    None => frames[at] = Some(frame),
                    Some(all) => {
                        all.vstack_mut_owned(frame)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Columns of the trace that the wanted columns are made from.
    fn columns(&self) -> Columns {
        let mut columns = self.deciding();
        let any = |keys: &[&str]| {
            let has = |wanted: &Wanted| keys.iter().any(|key| wanted.has(key));
            self.gathering.wanted.iter().any(has)
        };
        let all: [(&[&str], Columns); 8] = [
            (&["name"], Columns::NAME),
            (&["track", "queue"], Columns::TRACK),
            (&["start_ns", "launch_ns", "queue_delay_ns"], Columns::START),
            (&["dur_ns"], Columns::VALUE),
            (&["value"], Columns::VALUE | Columns::SHAPE),
            (&["status"], Columns::STATUS),
            (&["depth"], Columns::DEPTH),
            (&["link", "launch_ns", "queue_delay_ns"], Columns::LINK),
        ];
        for (keys, column) in all {
            if any(keys) {
                columns = columns | column;
            }
        }
        if self.fields {
            columns = columns | Columns::SHAPE | Columns::SLOTS;
        }
        if self.requests.is_some() {
            columns = columns | Requests::columns();
        }
        if self.long_texts {
            columns = columns | Columns::LONG_TEXTS;
        }
        columns
    }

    /// Bytes of the long texts in the chunks that are wanted, if these are.
    fn long_text_bytes(&self, counted: &Counted) -> u64 {
        if !self.long_texts {
            return 0;
        }
        let of_trace = |(trace, loaded): (usize, &Loaded)| -> u64 {
            let chunks = loaded.trace.chunks().iter();
            let wanted =
                chunks.filter(|chunk| counted.chunks.contains(&self.first_record(trace, chunk)));
            wanted.map(|chunk| u64::from(chunk.long_text_bytes)).sum()
        };
        self.gathering.traces.list.iter().enumerate().map(of_trace).sum()
    }

    pub(super) fn first_record(&self, trace: usize, chunk: &ChunkInfo) -> u64 {
        self.first_record.get(&(trace, chunk.sequence)).copied().unwrap_or(0)
    }
}

/// The first look.
struct Counting<'a> {
    plan: &'a Plan<'a>,
    /// First record of the chunk that comes next; whether it is wanted is asked
    /// of a shared reference.
    current: Cell<u64>,
    counted: Counted,
}

impl Visitor for Counting<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        self.current.set(self.plan.first_record(trace, chunk));
        self.plan.launches
            || self.plan.gathering.sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let mut any = false;
        for at in 0..batch.events {
            let kind = Kind(batch.kind[at]);
            any |= self.plan.launches && kind == Kind::LAUNCH;
            if !self.plan.takes(trace, batch, at) {
                continue;
            }
            for (rows, wanted) in self.counted.rows.iter_mut().zip(self.plan.gathering.wanted) {
                let more = match wanted.table.table {
                    // Two fields to a slot at most.
                    TableName::Fields => u64::from(batch.shape[at] & 0x1F) * 2,
                    table => u64::from(belongs(table, kind)),
                };
                *rows += more;
                any |= more > 0;
            }
        }
        if any {
            self.counted.chunks.insert(self.current.get());
        }
    }
}
