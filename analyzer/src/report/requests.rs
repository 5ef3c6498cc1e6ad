//! `requests`: what was done for each request, the longest first.
//!
//! A first reading finds the scopes, which are held in memory within the budget; a second
//! counts the records of each request. *Wall* is from its first sign to its last; *busy* is the
//! time of its scopes, what overlaps on a thread once, all threads added up, also while another
//! request was entered within. Filters choose records, and scopes by their start and track; with
//! a filter of names or durations, only requests that have such records are listed.

use std::collections::{HashMap, HashSet};

use ringscope_format::{Batch, ChunkInfo, Columns, Kind, Status};

use super::{Context, hints::word};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Part, Table, count},
    requests::{Requests, in_hex, shortest_prefix},
    scan::{Visitor, scan},
};

/// Rows that people get unasked.
const USUAL_ROWS: usize = 20;
/// Bytes of a request while it is counted, by each worker; and of a row that is printed.
const BYTES_COUNTED: u64 = 2 * size_of::<Sum>() as u64 + 64;
const BYTES_PRINTED: u64 = 10 * size_of::<Cell>() as u64 + 64;

/// Options of `requests`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let context = Context::open(args.common)?;
    let (traces, budget) = (&context.traces, context.common.budget());
    let requests = Requests::find(traces, budget)?;
    let known = requests.ids().len() as u64;
    let what = || format!("requests: {} of them", count(known));
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let needed = known * traces.list.len() as u64 * BYTES_COUNTED * (workers + 1);
    budget.require(needed, what, "take a part of the trace first with analyze cut --from --to")?;
    let mut rows = sums(&context, &requests)?;
    rows.sort_by(|a, b| {
        let by_length = b.wall_ns.total_cmp(&a.wall_ns);
        by_length.then_with(|| (a.trace, a.request).cmp(&(b.trace, b.request)))
    });
    // Rows that will not be shown need not become cells, unless they are sorted first.
    let limit = context.common.limit(USUAL_ROWS);
    let made = limit.filter(|_| context.common.sort.is_none()).unwrap_or(rows.len());
    let made = made.min(rows.len());
    budget.require(made as u64 * BYTES_PRINTED, what, "give --limit")?;
    let mut table = Table::new("requests", "Requests", columns(&context));
    table.rows = rows[..made].iter().map(|row| row.cells(&context, &requests)).collect();
    let mut notes = Vec::new();
    match rows.first() {
        None => notes.push("  no requests, or none that pass the filters".to_owned()),
        Some(longest) => notes.push(format!(
            "  what took its time: analyze tree {} --request {}",
            word(&traces.list[longest.trace].path.display().to_string()),
            shortest_prefix(requests.ids(), requests.ids()[longest.request as usize]),
        )),
    }
    if made < rows.len() {
        notes.push(format!("  … {} more rows: --limit 0", count((rows.len() - made) as u64)));
    }
    table.note = notes.join("\n");
    let table = context.arrange(table, limit)?;
    let document = context.document("ringscope.requests/1", vec![Part::Table(table)]);
    Ok((context.common, document))
}

/// What is known of a request in one trace, in its ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// First start and last end.
    life: Option<(u64, u64)>,
    busy: u64,
    threads: u32,
    scopes: u64,
    events: u64,
    errors: u64,
}

impl Sum {
    fn live(&mut self, start: u64, end: u64) {
        let life = self.life.get_or_insert((start, end));
        *life = (life.0.min(start), life.1.max(end));
    }

    fn merge(&mut self, other: &Sum) {
        if let Some((start, end)) = other.life {
            self.live(start, end);
        }
        self.events += other.events;
        self.errors += other.errors;
    }
}

/// A row.
struct Row {
    trace: usize,
    request: u32,
    wall_ns: f64,
    sum: Sum,
}

impl Row {
    fn cells(&self, context: &Context, requests: &Requests) -> Vec<Cell> {
        let loaded = &context.traces.list[self.trace];
        let first = self.sum.life.map_or(0, |(first, _)| first);
        let mut cells = vec![Cell::from(in_hex(requests.ids()[self.request as usize]))];
        if context.traces.list.len() > 1 {
            cells.push(Cell::from(loaded.label.as_str()));
        }
        cells.extend([
            Cell::Ns(loaded.since_start_ns(first)),
            Cell::Ns(self.wall_ns),
            Cell::Ns(loaded.trace.clock().ns(self.sum.busy)),
            Cell::Count(u64::from(self.sum.threads)),
            Cell::Count(self.sum.scopes),
            Cell::Count(self.sum.events),
            Cell::Count(self.sum.errors),
        ]);
        cells
    }
}

fn columns(context: &Context) -> Vec<Column> {
    let mut columns = vec![Column::new("request", "request")];
    if context.traces.list.len() > 1 {
        columns.push(Column::new("trace", "trace"));
    }
    columns.extend([
        Column::new("start_ns", "began at"),
        Column::new("wall_ns", "wall"),
        Column::new("busy_ns", "busy"),
        Column::new("threads", "threads"),
        Column::new("scopes", "scopes"),
        Column::new("events", "events"),
        Column::new("errors", "errors"),
    ]);
    columns
}

/// A row for each request in each trace that has anything of it.
fn sums(context: &Context, requests: &Requests) -> Result<Vec<Row>> {
    let (traces, filter) = (&context.traces, &context.filter);
    let known = requests.ids().len();
    let columns = context.sieves.iter().fold(Requests::columns(), |all, it| all | it.columns());
    let workers = scan(traces, columns | Columns::STATUS, "counting what they did", || Counting {
        context,
        requests,
        sums: vec![Sum::default(); known * traces.list.len()],
        tracks: HashSet::new(),
    })?;
    let mut all = vec![Sum::default(); known * traces.list.len()];
    let mut tracks: HashSet<(usize, u32)> = HashSet::new();
    for worker in workers {
        all.iter_mut().zip(&worker.sums).for_each(|(sum, more)| sum.merge(more));
        tracks.extend(worker.tracks);
    }
    let by_records = !filter.names.is_empty() || filter.duration_ns.is_some();
    for trace in 0..traces.list.len() {
        // Scopes of a track come by their start: how far each request's have reached.
        let mut reached: HashMap<(u32, u32), u64> = HashMap::new();
        for scope in requests.scopes(trace) {
            let place = trace * known + scope.request as usize;
            let is_asked_for = context.sieves[trace].takes_scope(scope.track, scope.start)
                && context.sieves[trace].takes_request_of(requests.ids()[scope.request as usize])
                && !(by_records && all[place].events == 0);
            if !is_asked_for {
                continue;
            }
            let sum = &mut all[place];
            let reached = reached.entry((scope.request, scope.track)).or_default();
            let more = scope.end.saturating_sub(scope.start.max(*reached));
            sum.busy = sum.busy.saturating_add(more);
            *reached = scope.end.max(*reached);
            sum.scopes += 1;
            sum.live(scope.start, scope.end);
            tracks.insert((place, scope.track));
        }
    }
    for (place, track) in tracks {
        let label = traces.list[place / known].tracks.get(&track);
        all[place].threads += u32::from(!label.is_some_and(|label| label.is_queue));
    }
    let row = |(place, sum): (usize, Sum)| {
        let (start, end) = sum.life?;
        let (trace, request) = (place / known, (place % known) as u32);
        let wall_ns = traces.list[trace].trace.clock().ns(end - start);
        Some(Row { trace, request, wall_ns, sum })
    };
    Ok(all.into_iter().enumerate().filter_map(row).collect())
}

/// Counts the records of each request.
struct Counting<'a> {
    context: &'a Context,
    requests: &'a Requests,
    /// By trace, and by request in it.
    sums: Vec<Sum>,
    /// Where in `sums`, and the track.
    tracks: HashSet<(usize, u32)>,
}

impl Visitor for Counting<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        self.context.sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let sieve = &self.context.sieves[trace];
        let known = self.requests.ids().len();
        let mut last = None;
        for (at, slots) in batch.slot_ranges().enumerate() {
            let kind = Kind(batch.kind[at]);
            if kind == Kind::SCOPE || !(sieve.is_open() || sieve.takes_record(batch, at)) {
                continue;
            }
            let slots = batch.slots.get(slots).unwrap_or_default();
            let Some(request) = self.requests.of(trace, batch, at, slots) else { continue };
            let place = trace * known + request as usize;
            let sum = &mut self.sums[place];
            let ticks = if kind.is_timed() { (batch.value[at] as i64).max(0) as u64 } else { 0 };
            let failed = batch.status[at] & 0x0F == Status::ERROR.0 || kind == Kind::ERROR;
            sum.events += 1;
            sum.errors += u64::from(failed);
            sum.live(batch.start[at], batch.start[at].saturating_add(ticks));
            // Neighbours are of one request and track, as a rule.
            if last.replace((place, batch.track[at])) != Some((place, batch.track[at])) {
                self.tracks.insert((place, batch.track[at]));
            }
        }
    }
}
