//! One line of time for traces of several clocks.
//!
//! Every trace is moved as a whole: by its wall clock, and then, if there are events
//! that all traces share, so that these coincide. Nothing is stretched, so durations
//! stay what they are, and clocks that run apart show as an error that is told.
//!
//! Limits: wall clocks of different hosts are as far apart as their owners let them be,
//! and no trace knows it. A machine that slept, or whose wall clock was set, is
//! right at the middle of its readings and off by what is told elsewhere.

use ringscope_format::{Batch, ChunkInfo, Columns, Kind};

use crate::{
    Error, Result,
    load::{Loaded, Traces},
    scan::{Visitor, scan},
};

/// Shared events that are looked at, from the first on: more make nothing more exact.
const MOST_SHARED: usize = 1 << 20;
/// Ticks of a picosecond reach this far; longer than that, and they are nanoseconds.
const LONGEST_IN_PICOSECONDS_NS: i128 = 10_000_000_000_000_000;

/// How the ticks of one trace become those of the new one.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// A tick of the trace.
    from: u64,
    /// The same in the new one.
    to: i128,
    ns_per_tick: f64,
    /// Ticks of the new one in a nanosecond.
    per_ns: i128,
}

impl Line {
    /// A point in time.
    pub(super) fn tick(&self, tick: u64) -> u64 {
        let since = self.length(i128::from(tick) - i128::from(self.from));
        let moved = self.to.saturating_add(since);
        moved.clamp(0, i128::from(u64::MAX)) as u64
    }

    /// A number of ticks.
    pub(super) fn ticks(&self, ticks: u64) -> u64 {
        self.length(i128::from(ticks)).clamp(0, i128::from(u64::MAX)) as u64
    }

    fn length(&self, ticks: i128) -> i128 {
        if self.ns_per_tick == 1.0 {
            return ticks * self.per_ns;
        }
        (ticks as f64 * self.ns_per_tick * self.per_ns as f64).round() as i128
    }
}

/// Where one trace is on the line, and how sure that is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    /// Wall clock at its first tick.
    wall_ns: i128,
    /// The largest distance of its own readings of the wall clock; `None` without any.
    pub(super) wall_error_ns: Option<f64>,
    /// What shared events say.
    pub(super) shared: Option<Shared>,
}

/// How well the shared events of a trace coincide with those of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shared {
    /// How many pairs there were.
    pub(super) pairs: usize,
    /// How many are without a partner, in this trace or in the first.
    pub(super) alone: usize,
    /// By how much the trace was moved, forward if positive.
    pub(super) shift_ns: f64,
    /// The largest distance of a pair after that.
    pub(super) most_ns: f64,
    /// Half of the pairs are within this.
    pub(super) median_ns: f64,
}

/// Places all traces, by wall time and, if a name is given, by its occurrences.
pub(super) fn place(traces: &Traces, shared: Option<&str>) -> Result<Vec<Place>> {
    let mut places: Vec<Place> = traces.list.iter().map(by_wall_clock).collect();
    let Some(name) = shared else { return Ok(places) };
    let ends = occurrences(traces, name)?;
    let on_the_line = |at: usize, places: &[Place]| -> Vec<f64> {
        let loaded = &traces.list[at];
        let base = places[at].wall_ns.saturating_sub(places[0].wall_ns) as f64;
        ends[at].iter().map(|&tick| base + loaded.since_start_ns(tick)).collect()
    };
    let first = on_the_line(0, &places);
    for at in 1..places.len() {
        let own = on_the_line(at, &places);
        let apart: Vec<f64> = first.iter().zip(&own).map(|(first, own)| first - own).collect();
        let shift_ns = median(apart.clone()).round();
        let left: Vec<f64> = apart.iter().map(|it| (it - shift_ns).abs()).collect();
        places[at].wall_ns = places[at].wall_ns.saturating_add(shift_ns as i128);
        places[at].shared = Some(Shared {
            pairs: apart.len(),
            alone: own.len().abs_diff(first.len()),
            shift_ns,
            most_ns: left.iter().copied().fold(0.0, f64::max),
            median_ns: median(left),
        });
    }
    Ok(places)
}

/// The lines of all traces, and the wall clock where the new trace's ticks begin and
/// how many of them a second has. Ticks are nanoseconds if all traces count those;
/// otherwise picoseconds, which round no figure.
pub(super) fn lines(traces: &Traces, places: &[Place]) -> Result<(Vec<Line>, i64, u64)> {
    let mut begin = i128::MAX;
    let mut end = i128::MIN;
    for (loaded, place) in traces.list.iter().zip(places) {
        let stacks = loaded.trace.in_flight().map_err(|error| Error::of(&loaded.path, error))?;
        let open = stacks.iter().flat_map(|stack| &stack.spans).map(|span| span.start);
        let first = open.min().unwrap_or(u64::MAX).min(loaded.first_tick);
        // The clock of a damaged trace may say anything.
        let at = |ns: f64| place.wall_ns.saturating_add(ns.floor() as i128);
        begin = begin.min(at(loaded.since_start_ns(first)));
        end = end.max(at(loaded.length_ns()));
    }
    let in_ns = traces.list.iter().all(|it| it.trace.clock().ns_per_tick() == 1.0)
        || end.saturating_sub(begin) > LONGEST_IN_PICOSECONDS_NS;
    let per_ns = if in_ns { 1 } else { 1_000 };
    let line = |(loaded, place): (&Loaded, &Place)| Line {
        from: loaded.first_tick,
        to: place.wall_ns.saturating_sub(begin).saturating_mul(per_ns),
        ns_per_tick: loaded.trace.clock().ns_per_tick(),
        per_ns,
    };
    let lines = traces.list.iter().zip(places).map(line).collect();
    let begin = begin.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    Ok((lines, begin, per_ns as u64 * 1_000_000_000))
}

fn by_wall_clock(loaded: &Loaded) -> Place {
    let clock = loaded.trace.clock();
    let pairs = loaded.trace.clock_pairs().iter().filter(|pair| pair.track == 0);
    // Times of day are too large for a float to tell their nanoseconds.
    let about = clock.wall_ns(loaded.first_tick);
    let said: Vec<f64> = pairs
        .map(|pair| {
            let apart = i128::from(pair.wall_ns) - i128::from(about);
            apart as f64 - loaded.since_start_ns(pair.tick())
        })
        .collect();
    if said.is_empty() {
        return Place { wall_ns: about.into(), wall_error_ns: None, shared: None };
    }
    let middle = median(said.clone()).round();
    let error = said.iter().map(|it| (it - middle).abs()).fold(0.0, f64::max);
    Place {
        wall_ns: i128::from(about).saturating_add(middle as i128),
        wall_error_ns: clock.error_ns().map(|of_fit| error.max(of_fit)),
        shared: None,
    }
}

/// When each occurrence of a name ended, by trace, rising: all leave a barrier at
/// once, however early each came to it.
fn occurrences(traces: &Traces, name: &str) -> Result<Vec<Vec<u64>>> {
    let is_shared: Vec<bool> = traces.names.iter().map(|it| it == name).collect();
    let empty = vec![Vec::new(); traces.list.len()];
    let columns = Columns::START | Columns::VALUE | Columns::KIND | Columns::NAME;
    let workers = scan(traces, columns, "looking for shared events", || Ends {
        traces,
        is_shared: &is_shared,
        found: empty.clone(),
    })?;
    let mut all = empty;
    for worker in workers {
        for (all, found) in all.iter_mut().zip(worker.found) {
            all.extend(found);
            keep_the_first(all);
        }
    }
    for (ends, loaded) in all.iter_mut().zip(&traces.list) {
        ends.sort_unstable();
        if ends.is_empty() {
            let what = format!("no event {name:?}; align by one that every trace has");
            return Err(Error::of(&loaded.path, what));
        }
    }
    Ok(all)
}

struct Ends<'a> {
    traces: &'a Traces,
    is_shared: &'a [bool],
    found: Vec<Vec<u64>>,
}

impl Visitor for Ends<'_> {
    fn wants(&self, _trace: usize, chunk: &ChunkInfo) -> bool {
        chunk.events > 0
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let loaded = &self.traces.list[trace];
        let found = &mut self.found[trace];
        for at in 0..batch.events {
            if self.is_shared[loaded.name_index(batch.name[at]) as usize] {
                let is_timed = Kind(batch.kind[at]).is_timed();
                let ticks = if is_timed { (batch.value[at] as i64).max(0) as u64 } else { 0 };
                found.push(batch.start[at].saturating_add(ticks));
            }
        }
        if found.len() > 2 * MOST_SHARED {
            keep_the_first(found);
        }
    }
}

fn keep_the_first(ends: &mut Vec<u64>) {
    if ends.len() > MOST_SHARED {
        ends.select_nth_unstable(MOST_SHARED);
        ends.truncate(MOST_SHARED);
    }
}

/// The middle value; 0 of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = |at: usize| values.get(at).copied().unwrap_or(0.0);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => middle(n / 2),
        n => f64::midpoint(middle(n / 2 - 1), middle(n / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_moves_without_rounding_and_never_out_of_order() {
        let exact = Line { from: 1 << 60, to: 500, ns_per_tick: 1.0, per_ns: 1 };
        assert_eq!(exact.tick((1 << 60) + 7), 507);
        assert_eq!(exact.tick((1 << 60) - 600), 0, "before the beginning is the beginning");
        let fine = Line { from: 100, to: 0, ns_per_tick: 0.4, per_ns: 1_000 };
        assert_eq!((fine.tick(101), fine.tick(103), fine.ticks(5)), (400, 1_200, 2_000));
        let odd = Line { ns_per_tick: 0.333_333_7, ..fine };
        let mut before = 0;
        for tick in (0..1 << 62).step_by(1 << 50).chain(100..10_000) {
            let moved = odd.tick(tick);
            assert!(moved >= before || tick == 100, "{tick}");
            before = moved;
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, -1.0, 9.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 8.0]), 3.0);
    }
}
