//! How the times of devices' work were taken, and work of which no time is known.
//!
//! Both are what a recorder says about it (VOCABULARY.md): the fields `source` and
//! `uncertainty` of the work, and the events `kernel.untimed`.

use std::{
    cell::Cell,
    collections::{BTreeMap, HashSet},
};

use ringscope_format::{Batch, ChunkInfo, Columns, Kind};

use super::loading::{number, text};
use crate::{
    Result,
    filter::Sieve,
    load::{Loaded, Traces},
    output::count,
    scan::{Visitor, scan},
};

/// Sources that are timestamps of the device around one piece of work alone.
const OF_THE_WORK_ALONE: [&str; 5] =
    ["stage boundary", "dispatch boundary", "pass boundary", "inside pass", "inside encoder"];
/// What an event about work without a time is called.
pub(crate) const UNTIMED: &str = "kernel.untimed";
/// Devices and reasons are told apart up to so many; a recorder knows three reasons.
const MOST_APART: usize = 1_000;
/// Reasons in a line.
const IN_WORDS: usize = 4;

/// Work whose times were taken in one way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timed {
    /// In which way, if the work says so.
    pub source: Option<String>,
    /// Pieces of work.
    pub count: u64,
    /// Their durations together.
    pub total_ns: f64,
    /// By how much the begin and end of any of them may be off, if any says so.
    pub uncertainty_ns: Option<f64>,
}

impl Timed {
    /// Whether the time is that of each piece of work alone; `None` if nobody says.
    pub fn is_of_the_work_alone(&self) -> Option<bool> {
        self.source.as_deref().map(|source| OF_THE_WORK_ALONE.contains(&source))
    }
}

/// The same in one trace's ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    ticks: u128,
    uncertainty: Option<u64>,
}

/// Sums by trace and source.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<(usize, Option<String>), Sum>);

impl Sources {
    pub(super) fn add(
        &mut self,
        trace: usize,
        source: Option<String>,
        ticks: u64,
        uncertainty: Option<u64>,
    ) {
        let sum = self.0.entry((trace, source)).or_default();
        sum.count += 1;
        sum.ticks += u128::from(ticks);
        sum.uncertainty = sum.uncertainty.max(uncertainty);
    }

    pub(super) fn append(&mut self, more: Sources) {
        for (key, more) in more.0 {
            let sum = self.0.entry(key).or_default();
            sum.count += more.count;
            sum.ticks += more.ticks;
            sum.uncertainty = sum.uncertainty.max(more.uncertainty);
        }
    }

    /// Those of all traces together, the largest first.
    pub(super) fn together(self, traces: &Traces) -> Vec<Timed> {
        let mut all: BTreeMap<Option<String>, Timed> = BTreeMap::new();
        for ((trace, source), sum) in self.0 {
            let clock = traces.list[trace].trace.clock();
            let timed =
                all.entry(source.clone()).or_insert_with(|| Timed { source, ..Timed::default() });
            timed.count += sum.count;
            timed.total_ns += sum.ticks as f64 * clock.ns_per_tick();
            let off = sum.uncertainty.map(|ticks| clock.ns(ticks));
            timed.uncertainty_ns =
                [timed.uncertainty_ns, off].into_iter().flatten().reduce(f64::max);
        }
        let mut all: Vec<Timed> = all.into_values().collect();
        all.sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns).then(b.count.cmp(&a.count)));
        all
    }
}

/// Pieces of work of which no time is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untimed {
    /// Which trace.
    pub trace: usize,
    /// Whose work; empty if nothing says so.
    pub device: String,
    /// Why; empty if nothing says so.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// Work without a time by trace, device and reason, the most first. Of the filters
/// only those of time and of requests apply: such work has neither a name nor a duration.
///
/// A trace that has no such event is not read for it.
pub fn untimed(traces: &Traces, sieves: &[Sieve]) -> Result<Vec<Untimed>> {
    let ids: Vec<Ids> = traces.list.iter().map(Ids::of).collect();
    if ids.iter().all(|ids| ids.event.is_none()) {
        return Ok(Vec::new());
    }
    let looking = |chunks| Looking {
        traces,
        sieves,
        ids: &ids,
        chunks,
        current: Cell::default(),
        found: HashSet::new(),
        sums: BTreeMap::new(),
    };
    let looked = scan(traces, Columns::NAME, "looking for work without a time", || looking(None))?;
    let chunks: HashSet<(usize, u64)> = looked.into_iter().flat_map(|it| it.found).collect();
    let columns = Columns::KIND | Columns::NAME | Columns::START | Columns::SHAPE | Columns::SLOTS;
    let columns = sieves.iter().fold(columns, |columns, sieve| columns | sieve.columns());
    let read = scan(traces, columns, "reading work without a time", || looking(Some(&chunks)))?;
    let mut sums = Sums::new();
    for (key, n) in read.into_iter().flat_map(|worker| worker.sums) {
        add(&mut sums, key, n);
    }
    let of = |((trace, device, reason), count)| Untimed { trace, device, reason, count };
    let mut all: Vec<Untimed> = sums.into_iter().map(of).collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.count));
    Ok(all)
}

/// `40 failed, 10 device lost`.
pub fn in_words(untimed: &[Untimed]) -> String {
    let mut by_reason: BTreeMap<&str, u64> = BTreeMap::new();
    for it in untimed {
        let sum = by_reason.entry(&it.reason).or_default();
        *sum = sum.saturating_add(it.count);
    }
    let mut reasons: Vec<(&str, u64)> = by_reason.into_iter().collect();
    reasons.sort_by_key(|it| std::cmp::Reverse(it.1));
    let named = |(reason, n): &(&str, u64)| match *reason {
        "" => format!("{} for unknown reasons", count(*n)),
        reason => format!("{} {}", count(*n), crate::output::shown(reason)),
    };
    let mut words: Vec<String> = reasons.iter().take(IN_WORDS).map(named).collect();
    let rest = reasons.iter().skip(IN_WORDS).fold(0_u64, |sum, it| sum.saturating_add(it.1));
    if rest > 0 {
        words.push(format!("{} for other reasons", count(rest)));
    }
    words.join(", ")
}

/// By trace, device and reason.
type Sums = BTreeMap<(usize, String, String), u64>;

fn add(sums: &mut Sums, key: (usize, String, String), n: u64) {
    let is_new = sums.len() >= MOST_APART && !sums.contains_key(&key);
    let key = if is_new { (key.0, String::new(), "other reasons".to_owned()) } else { key };
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(n);
}

/// Ids of names in a trace.
struct Ids {
    event: Option<u32>,
    device: Option<u32>,
    count: Option<u32>,
    reason: Option<u32>,
}

impl Ids {
    fn of(loaded: &Loaded) -> Self {
        let names = loaded.trace.names();
        let id = |key: &str| names.iter().find(|(_, text)| *text == key).map(|(id, _)| id);
        Self { event: id(UNTIMED), device: id("device"), count: id("count"), reason: id("reason") }
    }
}

/// The first look, which finds chunks, and the second, which has them.
struct Looking<'a> {
    traces: &'a Traces,
    sieves: &'a [Sieve],
    ids: &'a [Ids],
    chunks: Option<&'a HashSet<(usize, u64)>>,
    /// The chunk that comes next: only [`Visitor::wants`] is told which it is.
    current: Cell<u64>,
    found: HashSet<(usize, u64)>,
    sums: Sums,
}

impl Visitor for Looking<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        self.current.set(chunk.sequence);
        match self.chunks {
            Some(chunks) => chunks.contains(&(trace, chunk.sequence)),
            None => {
                self.ids[trace].event.is_some()
                    && self.sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
            }
        }
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let ids = &self.ids[trace];
        let Some(event) = ids.event else { return };
        if self.chunks.is_none() {
            if batch.name.contains(&event) {
                self.found.insert((trace, self.current.get()));
            }
            return;
        }
        let (names, sieve) = (self.traces.list[trace].trace.names(), &self.sieves[trace]);
        for (at, slots) in batch.slot_ranges().enumerate() {
            let is_in = batch.name[at] == event
                && Kind(batch.kind[at]).is_point()
                && sieve.takes_start(batch.start[at])
                && sieve.takes_request(batch, at);
            if !is_in {
                continue;
            }
            let (mut device, mut reason, mut n) = (String::new(), String::new(), 1);
            for (key, value) in batch.details(batch.slots.get(slots).unwrap_or_default()).fields {
                match Some(key) {
                    key if key == ids.device => device = text(&value, names),
                    key if key == ids.reason => reason = text(&value, names),
                    key if key == ids.count => n = number(&value).unwrap_or(1),
                    _ => {}
                }
            }
            add(&mut self.sums, (trace, device, reason), n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_that_is_exact_is_so_in_the_document() {
        let document = include_str!("../../../format-spec/VOCABULARY.md");
        let (before, _) =
            document.split_once("are the device's timestamps around this work").unwrap();
        for source in OF_THE_WORK_ALONE {
            assert!(before.contains(&format!("`{source}`")), "{source}");
        }
        assert!(document.contains(&format!("`{UNTIMED}`")));
    }

    #[test]
    fn reasons_are_summed_over_devices_and_never_overflow() {
        let of = |device: &str, reason: &str, count| Untimed {
            trace: 0,
            device: device.to_owned(),
            reason: reason.to_owned(),
            count,
        };
        let all = [of("a", "failed", 30), of("b", "device lost", 12), of("b", "failed", 10)];
        assert_eq!(in_words(&all), "40 failed, 12 device lost");
        let all = [of("a", "", u64::MAX), of("b", "", 1)];
        assert_eq!(in_words(&all), "18,446,744,073,709,551,615 for unknown reasons");
    }
}
