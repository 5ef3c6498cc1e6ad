//! From a trace to the summary of its run: three looks at its spans, and one each at
//! the work of devices, at counters and at allocations if there are any.

use std::{collections::HashMap, path::Path};

use ringscope_format::{Batch, Columns, Kind, OwnedValue, ValueType};

use super::{
    estimate::{Cell, Series},
    folding::{Fold, folded},
    ladder::{ladder, ladder_ranks},
    memory,
    run_summary::{CounterSummary, NameSummary, RunSummary, What},
};
use crate::{
    Error, Result,
    budget::Budget,
    device::is_device_work,
    filter::{Filter, Sieve},
    load::Traces,
    report::about::{is_exact, warn_damage, warn_unreadable},
    scan::{Visitor, scan},
    summary::{Group, Key, Question, cells::MOST_BOUNDS},
};

/// What of a trace is summed up, and how.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// What is in.
    pub filter: Filter,
    /// Which percentiles, in percent.
    pub percentiles: Vec<f64>,
    /// How names are folded.
    pub folds: Vec<Fold>,
}

/// Sums up the run of one trace.
pub fn summarise(path: &Path, asked: &Asked) -> Result<RunSummary> {
    read(path, asked, false)
}

/// The same; says on standard error what is damaged, if `aloud`.
pub(super) fn read(path: &Path, asked: &Asked, aloud: bool) -> Result<RunSummary> {
    if asked.percentiles.len() > MOST_BOUNDS {
        return Err(Error::new(format!("--percentiles: at most {MOST_BOUNDS} at once")));
    }
    let mut traces = Traces::open(&[path.to_owned()])?;
    if aloud {
        warn_damage(&traces);
    }
    let loaded = &traces.list[0];
    // A few pieces for each worker: fewer would leave some of them idle at the end.
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let pieces = loaded.trace.chunks().len().div_ceil(4 * workers);
    traces.chunks_in_a_piece = pieces.clamp(1, traces.chunks_in_a_piece);
    let sieve = asked.filter.sieves(&traces, Budget::default())?.remove(0);
    let (mut names, kinds) = of_kind(&traces, &sieve, asked, What::Span)?;
    let any = |is: fn(Kind) -> bool| (0..=u8::MAX).any(|it| kinds[usize::from(it)] && is(Kind(it)));
    if any(is_device_work) {
        names.extend(of_kind(&traces, &sieve, asked, What::Device)?.0);
    }
    names.sort_by(|a, b| (a.what, &a.name).cmp(&(b.what, &b.name)));
    let mut counters = if any(is_counter) { counters(&traces, &sieve, asked)? } else { Vec::new() };
    counters.extend(memory::peaks(&traces, &sieve)?);
    counters.sort_by(|a, b| a.name.cmp(&b.name));
    if aloud {
        warn_unreadable(&traces);
    }
    let loaded = &traces.list[0];
    let (trace, vitals) = (&loaded.trace, loaded.trace.vitals());
    let unreadable = traces.events_unreadable(0);
    let damaged = !trace.damage().is_empty();
    let lost = loaded.account().map_or(0, |account| account.own.total_lost());
    Ok(RunSummary {
        label: loaded.label.clone(),
        begun_unix_ns: trace.header().begun_wall_ns(),
        length_ns: loaded.length_ns(),
        events: loaded.events - unreadable.min(loaded.events),
        missing: lost
            .saturating_add(trace.events_missing().unwrap_or(0))
            .saturating_add(unreadable),
        missing_more: vitals.is_none() || (damaged && trace.events_missing().is_none()),
        finished: is_exact(loaded),
        metadata: trace.metadata().clone(),
        percentiles: asked.percentiles.clone(),
        names,
        counters,
    })
}

fn is_counter(kind: Kind) -> bool {
    matches!(kind, Kind::COUNTER | Kind::GAUGE)
}

fn is_span(kind: Kind) -> bool {
    kind.is_timed() && !is_device_work(kind) && kind != Kind::SCOPE
}

/// Folded names, and which of them each name of the trace is.
fn groups(traces: &Traces, folds: &[Fold]) -> (Vec<String>, Vec<u32>) {
    let mut index: HashMap<String, u32> = HashMap::new();
    let mut names = Vec::new();
    let mut group = |name: &String| {
        let name = folded(name, folds).into_owned();
        *index.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() as u32 - 1
        })
    };
    let of_name: Vec<u32> = traces.names.iter().map(&mut group).collect();
    let loaded = &traces.list[0];
    let ids = 0..=loaded.name_of.len() as u32;
    let group_of = ids.map(|id| of_name[loaded.name_index(id) as usize]).collect();
    (names, group_of)
}

/// Names of one kind, and which kinds of records there are at all.
fn of_kind(
    traces: &Traces,
    sieve: &Sieve,
    asked: &Asked,
    what: What,
) -> Result<(Vec<NameSummary>, [bool; 256])> {
    let (names, group_of) = groups(traces, &asked.folds);
    let ranks = ladder_ranks(&asked.percentiles);
    let question = Question {
        traces,
        sieves: vec![sieve.clone()],
        kinds: if what == What::Span { is_span } else { is_device_work },
        key: Key::Name,
        group_of: vec![group_of],
        groups: names.len(),
        percentiles: asked.percentiles.clone(),
        self_time: what == What::Span,
        top: None,
        bounds_ns: Vec::new(),
    };
    let answer = question.answer()?;
    let bounds = |group: &Group| {
        let mut bounds = [0.0; MOST_BOUNDS];
        for (at, bound) in bounds.iter_mut().take(asked.percentiles.len()).enumerate() {
            *bound = group.percentiles_ns.get(at).copied().unwrap_or(0.0);
        }
        bounds
    };
    let bounds: Vec<_> = answer.groups.iter().map(bounds).collect();
    let cells = question.cells(&bounds, asked.percentiles.len())?;
    let mut found = Vec::new();
    let series = cells.series.into_iter().zip(cells.samples);
    for ((name, group), (cells, samples)) in names.into_iter().zip(&answer.groups).zip(series) {
        if group.count == 0 {
            continue;
        }
        let cells: Vec<Cell> = cells
            .iter()
            .map(|cell| Cell {
                count: cell.count,
                sum: cell.sum_ns,
                below: cell.below[..asked.percentiles.len()]
                    .iter()
                    .map(|&n| u64::from(n))
                    .collect(),
            })
            .collect();
        let exact: Vec<(f64, f64)> = group.percentiles_ns.known(&asked.percentiles).collect();
        let ladder = ladder(&ranks, &samples, &exact);
        let (mean, std) = (group.mean_ns, group.std_ns);
        let series = Series { cells: &cells, count: group.count, mean, std, ladder: &ladder };
        let own = group.self_ns.unwrap_or(group.total_ns);
        let percentiles = &asked.percentiles;
        found.push(NameSummary::of_series(name, what, group.total_ns, own, percentiles, &series));
    }
    Ok((found, cells.kinds))
}

/// Adds up counters and gauges by group.
struct Counting<'a> {
    sieve: &'a Sieve,
    group_of: &'a [u32],
    ns_per_tick: f64,
    sums: HashMap<u32, CounterSummary>,
}

impl Visitor for Counting<'_> {
    fn chunk(&mut self, _: usize, batch: &Batch) {
        for at in (0..batch.events).filter(|&at| is_counter(Kind(batch.kind[at]))) {
            let value = ValueType::from_bits(batch.shape[at] >> 5)
                .and_then(|kind| OwnedValue::from_bits(kind, batch.value[at]));
            let value = match value {
                Some(OwnedValue::U64(n)) => n as f64,
                Some(OwnedValue::I64(n)) => n as f64,
                Some(OwnedValue::F64(n)) if n.is_finite() => n,
                Some(OwnedValue::Ticks(n)) => n as f64 * self.ns_per_tick,
                _ => continue,
            };
            if !self.sieve.takes_record(batch, at) {
                continue;
            }
            let id = batch.name[at] as usize;
            let group = self.group_of.get(id).or(self.group_of.last()).copied().unwrap_or(0);
            let sum = self.sums.entry(group).or_insert_with(|| CounterSummary {
                name: String::new(),
                count: 0,
                sum: 0.0,
                max: f64::NEG_INFINITY,
                adds_up: Kind(batch.kind[at]) == Kind::COUNTER,
            });
            sum.count += 1;
            // Sums that are no numbers could not be kept in a file.
            sum.sum = (sum.sum + value).clamp(f64::MIN, f64::MAX);
            sum.max = sum.max.max(value);
        }
    }
}

fn counters(traces: &Traces, sieve: &Sieve, asked: &Asked) -> Result<Vec<CounterSummary>> {
    let (names, group_of) = groups(traces, &asked.folds);
    let ns_per_tick = traces.list[0].trace.clock().ns_per_tick();
    let columns = Columns::KIND | Columns::NAME | Columns::VALUE | Columns::SHAPE | sieve.columns();
    let found = scan(traces, columns, "counters", || Counting {
        sieve,
        group_of: &group_of,
        ns_per_tick,
        sums: HashMap::new(),
    })?;
    let mut all: HashMap<u32, CounterSummary> = HashMap::new();
    for (group, sum) in found.into_iter().flat_map(|worker| worker.sums) {
        let name = names[group as usize].clone();
        all.entry(group)
            .and_modify(|it| {
                it.count += sum.count;
                it.sum = (it.sum + sum.sum).clamp(f64::MIN, f64::MAX);
                it.max = it.max.max(sum.max);
            })
            .or_insert(CounterSummary { name, ..sum });
    }
    Ok(all.into_values().collect())
}
