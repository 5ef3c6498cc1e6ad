//! Spans that were entered and left in slices: from creation to close, and how
//! much of that they were busy.
//!
//! Their slices are spans on tracks and stand among the others; here one row is
//! one name of whole tasks. Reused spans, whose slices are calls of their own, are only
//! counted.

use ringscope_format::{Batch, Columns, Kind, OwnedValue, parse_slots};

use super::{
    Context,
    spans::{Labels, percent, percentile_key},
};
use crate::{
    Result,
    filter::Sieve,
    load::{Loaded, Traces},
    output::{Cell, Column, Table, count},
    scan::{Visitor, scan},
};

/// The keys of what a life tells, as VOCABULARY.md has them.
const KEYS: [&str; 3] = ["busy", "slices", "moves"];
/// And of what it says if its creation is not known.
const FROM_FIRST_ENTER: &str = "from_first_enter";

/// Whether a life's field of this key is one of these.
pub(super) fn is_read(key: &str) -> bool {
    KEYS.contains(&key) || key == FROM_FIRST_ENTER
}

/// Sums over the tasks of one name, in one trace's ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    busy_ns: f64,
    slices: u64,
    moves: u64,
}

/// The ids of [`KEYS`] in a trace, and of [`FROM_FIRST_ENTER`] or 0; none if it cannot have tasks.
fn keys(loaded: &Loaded) -> Option<[u32; 4]> {
    let names = loaded.trace.names();
    let id = |key: &str| names.iter().find(|(_, text)| *text == key).map(|(id, _)| id);
    let [busy, slices, moves] = KEYS.map(id);
    Some([busy?, slices?, moves?, id(FROM_FIRST_ENTER).unwrap_or(0)])
}

struct Lives<'a> {
    traces: &'a Traces,
    sieves: &'a [Sieve],
    keys: &'a [Option<[u32; 4]>],
    by_name: Vec<Sum>,
    reused: u64,
    /// Tasks that begin with their first enter.
    from_first_enter: u64,
}

impl Visitor for Lives<'_> {
    fn wants(&self, trace: usize, chunk: &ringscope_format::ChunkInfo) -> bool {
        self.keys[trace].is_some()
            && self.sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let (loaded, sieve) = (&self.traces.list[trace], &self.sieves[trace]);
        let Some([busy, slices, moves, late]) = self.keys[trace] else { return };
        if !batch.kind.contains(&Kind::TASK.0) && !batch.kind.contains(&Kind::REUSED.0) {
            return;
        }
        for (at, (record, units)) in batch.records().enumerate() {
            if !record.kind.is_life() || !sieve.takes_record(batch, at) {
                continue;
            }
            if record.kind == Kind::REUSED {
                self.reused += 1;
                continue;
            }
            let sum = &mut self.by_name[loaded.name_index(record.name) as usize];
            for (key, value) in parse_slots(units).fields {
                match value {
                    OwnedValue::Ticks(ticks) if key == busy => {
                        sum.busy_ns += loaded.trace.clock().ns(ticks);
                    }
                    OwnedValue::U64(number) if key == slices => sum.slices += number,
                    OwnedValue::U64(number) if key == moves => sum.moves += number,
                    OwnedValue::Bool(true) if key == late => self.from_first_enter += 1,
                    _ => {}
                }
            }
        }
    }
}

/// The table of tasks, if there are any.
pub(super) fn section(context: &Context, limit: Option<usize>) -> Result<Option<Table>> {
    let traces = &context.traces;
    let keys: Vec<_> = traces.list.iter().map(keys).collect();
    if keys.iter().all(Option::is_none) {
        return Ok(None);
    }
    let lives = scan(traces, Columns::ALL, "reading tasks", || Lives {
        traces,
        sieves: &context.sieves,
        keys: &keys,
        by_name: vec![Sum::default(); traces.names.len()],
        reused: 0,
        from_first_enter: 0,
    })?;
    let mut by_name = vec![Sum::default(); traces.names.len()];
    let (mut reused, mut from_first_enter) = (0, 0);
    for worker in lives {
        reused += worker.reused;
        from_first_enter += worker.from_first_enter;
        for (sum, more) in by_name.iter_mut().zip(worker.by_name) {
            sum.busy_ns += more.busy_ns;
            sum.slices += more.slices;
            sum.moves += more.moves;
        }
    }
    let labels = Labels::by_name(context, false);
    let mut question = labels.question(context, |kind| kind == Kind::TASK, None);
    question.self_time = false;
    question.bounds_ns = Vec::new();
    let answer = question.answer()?;
    let mut order: Vec<usize> =
        (0..answer.groups.len()).filter(|&at| answer.groups[at].count > 0).collect();
    if order.is_empty() {
        return Ok(None);
    }
    order.sort_by(|&a, &b| {
        let by_total = answer.groups[b].total_ns.total_cmp(&answer.groups[a].total_ns);
        by_total.then_with(|| a.cmp(&b))
    });
    let title = "Tasks: spans that were entered and left, from creation to close";
    let mut table = Table::new("tasks", title, columns(context));
    for at in order {
        let (group, sum) = (&answer.groups[at], &by_name[at]);
        let mut row = vec![
            Cell::from(labels.names[at].as_str()),
            Cell::Count(group.count),
            Cell::Count(sum.slices),
            Cell::Count(sum.moves),
            Cell::Ns(group.total_ns),
            Cell::Ns(sum.busy_ns),
            Cell::Ns((group.total_ns - sum.busy_ns).max(0.0)),
            percent(sum.busy_ns, group.total_ns),
            Cell::Ns(group.mean_ns),
        ];
        for percentile in 0..context.common.percentiles.len() {
            let ns = group.percentiles_ns.get(percentile);
            row.push(ns.map_or(Cell::None, |&ns| Cell::Ns(ns)));
        }
        row.push(Cell::Ns(group.max_ns));
        table.rows.push(row);
    }
    // Not arranged as asked for: columns and order are those of the table above it.
    let mut notes = Vec::new();
    if let Some(hidden) = table.rows.len().checked_sub(limit.unwrap_or(usize::MAX)) {
        table.rows.truncate(table.rows.len() - hidden);
        if hidden > 0 {
            notes.push(format!("  … {} more: --limit 0", count(hidden as u64)));
        }
    }
    if from_first_enter > 0 {
        notes.push(format!(
            "  {} of them last from their first enter: when they were created was not looked up",
            count(from_first_enter)
        ));
    }
    if reused > 0 {
        notes.push(format!(
            "  {} spans that were used again and again are no tasks: their slices are spans of \
             their own",
            count(reused)
        ));
    }
    table.note = notes.join("\n");
    Ok(Some(table))
}

fn columns(context: &Context) -> Vec<Column> {
    let mut columns = vec![
        Column::new("name", "name"),
        Column::new("count", "count"),
        Column::new("slices", "slices"),
        Column::new("moves", "moves"),
        Column::new("total_ns", "total"),
        Column::new("busy_ns", "busy"),
        Column::new("idle_ns", "idle"),
        Column::new("busy_percent", "busy %"),
        Column::new("mean_ns", "mean"),
    ];
    for percentile in &context.common.percentiles {
        columns.push(Column::new(percentile_key(*percentile), format!("p{percentile}")));
    }
    columns.push(Column::new("max_ns", "max"));
    columns
}
