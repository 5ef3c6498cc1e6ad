//! Filling tables from chunks, in parallel: only the tables, columns and events
//! that are asked for.
//!
//! The first look decodes little more than kinds. It counts the rows, so that
//! tables which do not fit are refused before anything is allocated, and finds
//! the chunks that hold any: the others are not decoded. Unreadable chunks are
//! left out and reported.

use std::{cell::Cell, collections::HashMap};

use polars::prelude::{DataFrame, IntoColumn, NamedFrom, NewChunkedArray, Series, StringChunked};
use ringscope_format::{
    Batch, ChunkInfo, Columns, Kind, OwnedValue, Status, TrackKind, ValueType, parse_slots,
};

use super::{
    Loaded, Traces,
    budget::Budget,
    rows::{Dictionaries, EventRows, FieldRows},
    tables::{TableName, Wanted},
};
use crate::{
    Result,
    filter::Sieve,
    scan::{Piece, Unreadable, Visitor, scan},
};

/// Which events are in, beside what the filter says. A report over a part of a
/// trace need not load the rest.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Events of these kinds.
    pub kinds: fn(Kind) -> bool,
    /// Also everything with a duration that failed.
    pub failed: bool,
    /// Also events of these names.
    pub names: &'static [&'static str],
}

impl Scope {
    /// Every event.
    pub const ALL: Scope = Scope { kinds: |_| true, failed: false, names: &[] };
}

/// What is to be filled, and from what.
pub(crate) struct Gathering<'a> {
    pub(crate) traces: &'a Traces,
    pub(crate) sieves: &'a [Sieve],
    pub(crate) wanted: &'a [Wanted],
    pub(crate) scope: &'a Scope,
    pub(crate) budget: Budget,
}

/// A device's work: kernels, copies, fills.
fn is_device_work(kind: Kind) -> bool {
    matches!(kind, Kind::KERNEL | Kind::COPY | Kind::FILL)
}

fn belongs(table: TableName, kind: Kind) -> bool {
    match table {
        TableName::Records | TableName::Fields => true,
        TableName::Spans => kind.is_timed() && !is_device_work(kind),
        TableName::Kernels => is_device_work(kind),
        TableName::Counters => matches!(kind, Kind::COUNTER | Kind::GAUGE),
        TableName::Names | TableName::Tracks => false,
    }
}

impl Gathering<'_> {
    /// The tables, one for each that is wanted, and what could not be read.
    pub(crate) fn run(&self) -> Result<(Vec<DataFrame>, Vec<Unreadable>)> {
        let plan = Plan::new(self);
        let mut frames: Vec<Option<DataFrame>> = self
            .wanted
            .iter()
            .map(|wanted| match wanted.table.table {
                TableName::Names => names(self.traces, wanted).map(Some),
                TableName::Tracks => tracks(self.traces, wanted).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<_>>()?;
        let mut unreadable = Vec::new();
        if frames.iter().any(Option::is_none) {
            let counted = plan.count()?;
            let sizes: Vec<(&Wanted, u64)> =
                self.wanted.iter().zip(counted.rows.iter().copied()).collect();
            self.budget.check(&sizes)?;
            unreadable = plan.fill(&counted, &mut frames)?;
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
        let frames = frames.into_iter().zip(self.wanted).map(empty).collect::<Result<_>>()?;
        Ok((frames, unreadable))
    }
}

/// A gathering with everything looked up.
struct Plan<'a> {
    gathering: &'a Gathering<'a>,
    texts: Dictionaries,
    /// Number of a chunk's first event, by trace and sequence number.
    first_record: HashMap<(usize, u64), u64>,
    /// Which names are in by themselves, by trace and id; none if no name is.
    names: Vec<Vec<bool>>,
    launches: bool,
    fields: bool,
}

/// What the first look found.
#[derive(Default)]
struct Counted {
    /// By wanted table.
    rows: Vec<u64>,
    /// By first record.
    chunks: std::collections::HashSet<u64>,
}

impl<'a> Plan<'a> {
    fn new(gathering: &'a Gathering<'a>) -> Self {
        let traces = gathering.traces;
        let mut first_record = HashMap::new();
        let mut next = 0;
        for (trace, loaded) in traces.list.iter().enumerate() {
            for chunk in loaded.trace.chunks() {
                first_record.insert((trace, chunk.sequence), next);
                next += u64::from(chunk.events);
            }
        }
        let listed: Vec<bool> =
            traces.names.iter().map(|name| gathering.scope.names.contains(&&**name)).collect();
        let by_id = |loaded: &Loaded| -> Vec<bool> {
            loaded.name_of.iter().map(|&name| listed[name as usize]).collect()
        };
        let names = if listed.contains(&true) {
            traces.list.iter().map(by_id).collect()
        } else {
            Vec::new()
        };
        let any = |test: fn(&Wanted) -> bool| gathering.wanted.iter().any(test);
        Self {
            gathering,
            texts: Dictionaries::new(traces),
            first_record,
            names,
            launches: any(|wanted| wanted.has("launch_ns") || wanted.has("queue_delay_ns")),
            fields: any(|wanted| wanted.table.table == TableName::Fields),
        }
    }

    /// Columns that say whether an event is in.
    fn deciding(&self) -> Columns {
        let mut columns = Columns::KIND;
        let sieves = self.gathering.sieves;
        let any = |needs: fn(&Sieve) -> bool| sieves.iter().any(needs);
        if !self.names.is_empty() || any(Sieve::needs_name) {
            columns = columns | Columns::NAME;
        }
        if any(Sieve::needs_track) {
            columns = columns | Columns::TRACK;
        }
        if any(Sieve::needs_start) {
            columns = columns | Columns::START;
        }
        if any(|sieve| !sieve.is_open()) {
            columns = columns | Columns::VALUE;
        }
        if self.gathering.scope.failed {
            columns = columns | Columns::STATUS;
        }
        if self.fields {
            columns = columns | Columns::SHAPE;
        }
        columns
    }

    fn takes(&self, trace: usize, batch: &Batch, at: usize) -> bool {
        let kind = Kind(batch.kind[at]);
        let scope = self.gathering.scope;
        let listed = || {
            let names = self.names.get(trace);
            names.is_some_and(|names| names.get(batch.name[at] as usize) == Some(&true))
        };
        let failed = || {
            scope.failed && kind.is_timed() && batch.status[at] & 0x0F == Status::ERROR.0
        };
        if !((scope.kinds)(kind) || failed() || listed()) {
            return false;
        }
        let sieve = &self.gathering.sieves[trace];
        sieve.is_open()
            || (!kind.is_timed() || sieve.takes_duration((batch.value[at] as i64).max(0) as u64))
                && (!sieve.needs_name() || sieve.takes_name(batch.name[at]))
                && (!sieve.needs_track() || sieve.takes_track(batch.track[at]))
                && (!sieve.needs_start() || sieve.takes_start(batch.start[at]))
    }

    fn count(&self) -> Result<Counted> {
        let looked = scan(self.gathering.traces, self.deciding(), "counting rows", || Counting {
            plan: self,
            current: Cell::new(0),
            counted: Counted {
                rows: vec![0; self.gathering.wanted.len()],
                ..Counted::default()
            },
        })?;
        let mut all = Counted { rows: vec![0; self.gathering.wanted.len()], ..Counted::default() };
        for visitor in looked.visitors {
            all.rows.iter_mut().zip(&visitor.counted.rows).for_each(|(sum, rows)| *sum += rows);
            all.chunks.extend(visitor.counted.chunks);
        }
        Ok(all)
    }

    fn fill(
        &self,
        counted: &Counted,
        frames: &mut [Option<DataFrame>],
    ) -> Result<Vec<Unreadable>> {
        let looked = scan(self.gathering.traces, self.columns(), "filling tables", || Filling {
            plan: self,
            counted,
            current: Cell::new(0),
            piece: Vec::new(),
            done: Vec::new(),
            launches: Vec::new(),
        })?;
        let mut done = Vec::new();
        let mut launches = Vec::new();
        for visitor in looked.visitors {
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
        Ok(looked.unreadable)
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
        columns
    }

    fn first_record(&self, trace: usize, chunk: &ChunkInfo) -> u64 {
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

/// Rows of one table from one piece.
enum Filled {
    Frame(DataFrame),
    /// Their launches may be in another piece.
    Kernels(EventRows),
}

/// A launch: trace, link and start.
type Launch = (u32, u32, i64);
/// The tables of a piece, and the number of its first event.
type Done = (u64, Result<Vec<Option<Filled>>>);

/// Rows of one chunk.
enum Rows {
    None,
    Events(EventRows),
    Fields(FieldRows),
}

/// The second look.
struct Filling<'a> {
    plan: &'a Plan<'a>,
    counted: &'a Counted,
    current: Cell<u64>,
    /// By chunk, last first, and wanted table.
    piece: Vec<Vec<Rows>>,
    done: Vec<Done>,
    launches: Vec<Launch>,
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
            self.launches.extend(launches.map(|at| {
                (trace as u32, batch.link[at], start_ns(loaded, batch.start[at]))
            }));
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
                    rows.push(trace, loaded, traces, record, parse_slots(slots), &plan.texts);
                }
                Rows::Fields(rows)
            }
            table => {
                let mut rows = EventRows::default();
                for &at in taken.iter().filter(|&&at| belongs(table, Kind(batch.kind[at]))) {
                    push_event(&mut rows, wanted, plan, trace, batch, at, first);
                }
                Rows::Events(rows)
            }
        };
        self.piece.push(plan.gathering.wanted.iter().map(of_table).collect());
    }

    fn end(&mut self, piece: &Piece) {
        let mut tables: Vec<Rows> =
            self.plan.gathering.wanted.iter().map(|_| Rows::None).collect();
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
                    Some(Filled::Kernels(rows))
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

fn push_event(
    rows: &mut EventRows,
    wanted: &Wanted,
    plan: &Plan<'_>,
    trace: usize,
    batch: &Batch,
    at: usize,
    first: u64,
) {
    let loaded = &plan.gathering.traces.list[trace];
    let kind = Kind(batch.kind[at]);
    rows.rows += 1;
    // Kernels need both to find their launch, asked for or not.
    let (mut start, mut link) = (plan.launches, plan.launches);
    for &column in &wanted.columns {
        match column {
            "trace" => rows.trace.push(trace as u32),
            "record" => rows.record.push(first + at as u64),
            "kind" => rows.kind.push(u32::from(kind.0)),
            "name" => rows.name.push(loaded.name_index(batch.name[at])),
            "track" | "queue" => rows.track.push(plan.texts.track(trace, batch.track[at])),
            "dur_ns" => {
                let ticks = (batch.value[at] as i64).max(0) as u64;
                rows.dur.push(kind.is_timed().then(|| loaded.trace.clock().ns(ticks)));
            }
            "value" => rows.value.push(number(loaded, kind, batch, at)),
            "status" => rows.status.push(u32::from(batch.status[at] & 0x0F)),
            "depth" => rows.depth.push(batch.depth[at]),
            "start_ns" => start = true,
            "link" => link = true,
            _ => {}
        }
    }
    if start {
        rows.start.push(start_ns(loaded, batch.start[at]));
    }
    if link {
        rows.link.push(batch.link[at]);
    }
    if plan.launches {
        rows.launch.push(None);
        if !wanted.has("trace") {
            rows.trace.push(trace as u32);
        }
    }
}

/// The number of an event without a duration.
fn number(loaded: &Loaded, kind: Kind, batch: &Batch, at: usize) -> Option<f64> {
    if kind.is_timed() {
        return None;
    }
    let bits = batch.value[at];
    let value_type = ValueType::from_bits(batch.shape[at] >> 5)?;
    Some(match OwnedValue::from_bits(value_type, bits)? {
        OwnedValue::U64(n) => n as f64,
        OwnedValue::I64(n) => n as f64,
        OwnedValue::F64(n) => n,
        OwnedValue::Bool(is) => f64::from(u8::from(is)),
        OwnedValue::Ticks(ticks) => ticks as f64 * loaded.trace.clock().ns_per_tick(),
        OwnedValue::Name(_) | OwnedValue::Text { .. } => return None,
    })
}

/// Each kernel's launch is the last one with its link that began before it:
/// links may be used again.
fn find_launches(rows: &mut EventRows, launches: &[Launch]) {
    for at in 0..rows.launch.len() {
        let (trace, link, start) = (rows.trace[at], rows.link[at], rows.start[at]);
        if link == 0 {
            continue;
        }
        let after = launches.partition_point(|&launch| launch <= (trace, link, start));
        let before = after.checked_sub(1).and_then(|at| launches.get(at));
        // A device's clock may be a little early.
        let found = before
            .filter(|launch| (launch.0, launch.1) == (trace, link))
            .or_else(|| launches.get(after))
            .filter(|launch| (launch.0, launch.1) == (trace, link));
        rows.launch[at] = found.map(|launch| launch.2);
    }
}

fn names(traces: &Traces, wanted: &Wanted) -> Result<DataFrame> {
    let (mut trace, mut id, mut name, mut sites) = (vec![], vec![], vec![], vec![]);
    for loaded in &traces.list {
        let names = loaded.trace.names();
        for (at, text) in names.iter() {
            trace.push(loaded.label.as_str());
            id.push(at);
            name.push(text);
            let site = |site: &ringscope_format::CallSiteEntry| {
                format!("{}:{}", names.get(site.file).unwrap_or("?"), site.line)
            };
            let places: Vec<String> = names.call_sites(at).iter().map(site).collect();
            sites.push(places.join(", "));
        }
    }
    let columns = vec![
        StringChunked::from_slice("trace".into(), &trace).into_column(),
        Series::new("id".into(), &id).into_column(),
        StringChunked::from_slice("name".into(), &name).into_column(),
        StringChunked::from_slice("call_sites".into(), &sites).into_column(),
    ];
    Ok(DataFrame::new(trace.len(), columns)?.select(wanted.columns.iter().copied())?)
}

fn tracks(traces: &Traces, wanted: &Wanted) -> Result<DataFrame> {
    let (mut trace, mut id, mut kind, mut name, mut os_id) =
        (vec![], vec![], vec![], vec![], vec![]);
    for loaded in &traces.list {
        for track in loaded.trace.tracks() {
            trace.push(loaded.label.as_str());
            id.push(track.id);
            kind.push(match track.kind {
                TrackKind::Thread => "thread",
                TrackKind::GpuQueue => "queue",
                TrackKind::Recorder => "recorder",
                TrackKind::Other | TrackKind::Unknown(_) => "other",
            });
            name.push(loaded.track_name(track.id));
            os_id.push(track.os_id);
        }
    }
    let columns = vec![
        StringChunked::from_slice("trace".into(), &trace).into_column(),
        Series::new("id".into(), &id).into_column(),
        StringChunked::from_slice("kind".into(), &kind).into_column(),
        StringChunked::from_slice("name".into(), &name).into_column(),
        Series::new("os_id".into(), &os_id).into_column(),
    ];
    Ok(DataFrame::new(trace.len(), columns)?.select(wanted.columns.iter().copied())?)
}
