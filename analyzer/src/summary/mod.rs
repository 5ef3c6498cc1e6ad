//! Durations by group: count, sum, self time, spread and exact percentiles, at
//! any size of trace.
//!
//! The first look at the trace adds up and draws a rough histogram of each group;
//! further looks, one as a rule, find the exact values at the ranks that the
//! percentiles ask for (`selection`). Nothing that is held grows with the number
//! of records.
//!
//! What a group is, a name, a name in one trace, a thread, a category of kernels,
//! is the asker's choice.

pub(crate) mod busy;
pub(crate) mod cells;
mod histogram;
mod moments;
pub(crate) mod nesting;
mod orphans;
pub(crate) mod paths;
mod per_track;
mod scale;
mod selection;
mod taking;
pub(crate) mod thinned;

use ringscope_format::{Batch, ChunkInfo, Columns, Kind, Status};

use self::{
    histogram::Histogram,
    nesting::Open,
    orphans::{Ends, Nesting},
    selection::{Finding, Selection},
    taking::{Taken, Taker},
};
pub(crate) use self::{
    histogram::{bucket, buckets, floor_of},
    scale::Scale,
    selection::ranks,
};
pub use self::{moments::Moments, selection::Percentiles};
use crate::{
    Result,
    filter::Sieve,
    load::Traces,
    scan::{Piece, Visitor, scan},
};

/// A record that belongs to no group.
pub const NO_GROUP: u32 = u32::MAX;

/// Which column a record's group is looked up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// By the id of its name.
    Name,
    /// By the id of its track.
    Track,
}

/// What is asked.
pub struct Question<'a> {
    /// The traces.
    pub traces: &'a Traces,
    /// What is in, a trace each.
    pub sieves: Vec<Sieve>,
    /// Which kinds of records are in.
    pub kinds: fn(Kind) -> bool,
    /// What the groups are looked up by.
    pub key: Key,
    /// The group by trace and id; what is past the end is the last entry.
    pub group_of: Vec<Vec<u32>>,
    /// How many groups there are.
    pub groups: usize,
    /// Percentiles, in percent.
    pub percentiles: Vec<f64>,
    /// Whether self time is wanted.
    pub self_time: bool,
    /// If given, groups after so many, by total time, are also answered together.
    pub top: Option<usize>,
    /// Bounds between performance categories in nanoseconds, if those are wanted.
    pub bounds_ns: Vec<f64>,
}

/// What is known of one group. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// How many records.
    pub count: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Their durations together.
    pub total_ns: f64,
    /// The same less what their children took, if that was asked for.
    pub self_ns: Option<f64>,
    /// Mean duration.
    pub mean_ns: f64,
    /// Sample standard deviation.
    pub std_ns: f64,
    /// The shortest.
    pub min_ns: f64,
    /// The longest.
    pub max_ns: f64,
    /// As asked for; none are known of an empty group.
    pub percentiles_ns: Percentiles,
}

impl Group {
    /// From what was added up, in units of `unit_ns`.
    pub(crate) fn of(
        moments: &Moments,
        children: Option<u128>,
        percentiles: Percentiles,
        unit_ns: f64,
    ) -> Self {
        let ns = |units: f64| units * unit_ns;
        Self {
            count: moments.count,
            errors: moments.errors,
            total_ns: ns(moments.total as f64),
            // Siblings of a damaged trace may overlap, and so take more than there is.
            self_ns: children.map(|children| ns(moments.total.saturating_sub(children) as f64)),
            mean_ns: ns(moments.mean()),
            std_ns: ns(moments.std()),
            min_ns: ns(moments.min as f64),
            max_ns: ns(moments.max as f64),
            percentiles_ns: percentiles.scaled(unit_ns),
        }
    }
}

/// Groups that are too small to be listed, as if they were one.
#[derive(Clone, Debug)]
pub struct Others {
    /// Which they are.
    pub groups: Vec<usize>,
    /// What they are together.
    pub all: Group,
}

/// Records between two bounds of duration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Category {
    /// How many.
    pub count: u64,
    /// Their durations together.
    pub total_ns: f64,
}

/// What came of a question.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// By group.
    pub groups: Vec<Group>,
    /// Those after the first [`Question::top`], together.
    pub others: Option<Others>,
    /// One more than bounds were given.
    pub categories: Vec<Category>,
    /// Durations that were negative, because the counter ran backwards, and count as 0.
    pub backwards: u64,
}

/// With more groups than this, histograms are coarser.
const MANY_GROUPS: usize = 8_192;

impl Question<'_> {
    /// Answers it.
    pub fn answer(&self) -> Result<Answer> {
        if self.groups > MANY_GROUPS { self.answer_with::<2>() } else { self.answer_with::<3>() }
    }

    fn answer_with<const BITS: u32>(&self) -> Result<Answer> {
        let scale = Scale::of(self.traces);
        let taker = Taker::new(self, &scale);
        let looked = scan(self.traces, self.columns(), "reading", || First::<BITS> {
            taker: &taker,
            taken: Taken::default(),
            moments: vec![Moments::default(); self.groups],
            histograms: vec![
                Histogram::new();
                if self.percentiles.is_empty() { 0 } else { self.groups }
            ],
            children: vec![0; if self.self_time { self.groups } else { 0 }],
            bounds: scale.units(&self.bounds_ns),
            categories: vec![
                (0, 0);
                if self.bounds_ns.is_empty() { 0 } else { self.bounds_ns.len() + 1 }
            ],
            backwards: 0,
            nesting: Nesting::default(),
            ends: Vec::new(),
        })?;
        let mut workers = looked.into_iter();
        let Some(mut sum) = workers.next() else { return Ok(Answer::default()) };
        workers.for_each(|worker| sum.merge(worker));

        if self.self_time {
            let ends = std::mem::take(&mut sum.ends);
            let group_of = |trace: usize, batch: &Batch, at: usize| {
                taker.take(trace, self.sieve(trace), batch, at).unwrap_or(NO_GROUP)
            };
            orphans::settle(self.traces, ends, self.columns(), group_of, |trace, group, ticks| {
                if let Some(children) = sum.children.get_mut(group as usize) {
                    *children += scale.scale_sum(trace, ticks);
                }
            });
        }

        let others = self.others(&mut sum);
        let mut counted: Vec<(u64, Histogram<BITS>)> = Vec::new();
        for (at, histogram) in sum.histograms.drain(..).enumerate() {
            counted.push((sum.moments[at].count, histogram));
        }
        let mut selection = Selection::<BITS>::new(&mut counted, &self.percentiles);
        drop(counted);
        // A chunk of which one column is damaged is left out of every look.
        let is_whole = self.traces.unreadable().is_empty();
        let again = if is_whole { self.columns_again() } else { self.columns() };
        while !selection.is_complete() {
            let looked = scan(self.traces, again, "percentiles", || Second {
                taker: &taker,
                taken: Taken::default(),
                selection: &selection,
                others: &others,
                findings: selection.findings(),
            })?;
            let findings = looked.into_iter().map(|worker| worker.findings).collect();
            selection.absorb(findings);
        }

        let group = |(at, moments): (usize, &Moments)| {
            let percentiles = selection.percentiles(at, &self.percentiles, moments.count);
            Group::of(moments, sum.children.get(at).copied(), percentiles, scale.unit_ns)
        };
        let ns = |units: f64| units * scale.unit_ns;
        let category =
            |&(count, total): &(u64, u128)| Category { count, total_ns: ns(total as f64) };
        let mut groups: Vec<Group> = sum.moments.iter().enumerate().map(group).collect();
        let all = if others.is_empty() { None } else { groups.pop() };
        let members = (0..self.groups).filter(|&at| others.get(at) == Some(&true)).collect();
        Ok(Answer {
            groups,
            others: all.map(|all| Others { groups: members, all }),
            categories: sum.categories.iter().map(category).collect(),
            backwards: sum.backwards,
        })
    }

    /// Marks the groups that are not among the top ones, and appends one more
    /// group, which is all of them together. Empty if there are none.
    fn others<const BITS: u32>(&self, sum: &mut First<'_, BITS>) -> Vec<bool> {
        let mut by_total: Vec<usize> =
            (0..self.groups).filter(|&at| sum.moments[at].count > 0).collect();
        let Some(rest) = self.top.filter(|&top| top < by_total.len()) else { return Vec::new() };
        by_total.sort_by_key(|&at| std::cmp::Reverse(sum.moments[at].total));
        let mut others = vec![false; self.groups];
        let mut moments = Moments::default();
        let mut histogram = Histogram::new();
        let mut children = 0;
        for &at in &by_total[rest..] {
            others[at] = true;
            moments.merge(&sum.moments[at]);
            children += sum.children.get(at).copied().unwrap_or(0);
            if let Some(more) = sum.histograms.get(at) {
                histogram.merge(more.clone());
            }
        }
        sum.moments.push(moments);
        if !sum.children.is_empty() {
            sum.children.push(children);
        }
        if !sum.histograms.is_empty() {
            sum.histograms.push(histogram);
        }
        others
    }

    fn columns(&self) -> Columns {
        let nesting = if self.self_time { nesting::columns() } else { Columns::NONE };
        self.columns_again() | nesting | Columns::STATUS
    }

    fn columns_again(&self) -> Columns {
        let key = match self.key {
            Key::Name => Columns::NAME,
            Key::Track => Columns::TRACK,
        };
        let columns = Columns::KIND | Columns::VALUE | key;
        self.sieves.iter().fold(columns, |columns, sieve| columns | sieve.columns())
    }

    fn sieve(&self, trace: usize) -> Option<&Sieve> {
        self.sieves.get(trace).filter(|sieve| !sieve.is_open())
    }
}

/// The first look: sums, histograms, nesting.
struct First<'a, const BITS: u32> {
    taker: &'a Taker<'a>,
    taken: Taken,
    moments: Vec<Moments>,
    histograms: Vec<Histogram<BITS>>,
    /// Time of the children of each group.
    children: Vec<u128>,
    bounds: Vec<u64>,
    categories: Vec<(u64, u128)>,
    backwards: u64,
    nesting: Nesting,
    ends: Vec<Ends>,
}

impl<const BITS: u32> First<'_, BITS> {
    fn merge(&mut self, other: Self) {
        self.moments.iter_mut().zip(&other.moments).for_each(|(it, other)| it.merge(other));
        self.histograms.iter_mut().zip(other.histograms).for_each(|(it, other)| it.merge(other));
        self.children.iter_mut().zip(&other.children).for_each(|(it, other)| *it += other);
        for (it, other) in self.categories.iter_mut().zip(&other.categories) {
            *it = (it.0 + other.0, it.1 + other.1);
        }
        self.backwards += other.backwards;
        self.ends.extend(other.ends);
    }
}

impl<const BITS: u32> Visitor for First<'_, BITS> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        // Children of a chunk that is out may have parents that are in.
        let question = self.taker.question;
        question.self_time
            || question
                .sieve(trace)
                .is_none_or(|sieve| sieve.can_start_in(chunk.first_tick, chunk.last_tick))
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        self.taker.all(trace, batch, &mut self.taken);
        if self.taker.question.self_time {
            self.nest(trace, batch);
        }
        self.backwards += self.taken.backwards;
        // A short loop for each purpose: what such a loop waits for is memory, and
        // the shorter it is the more records wait at the same time.
        for (group, value) in self.taken.each() {
            self.moments[group as usize].push(value);
        }
        if !self.histograms.is_empty() {
            for (group, value) in self.taken.each() {
                self.histograms[group as usize].push(value);
            }
        }
        if !self.bounds.is_empty() {
            self.categorize();
        }
        let failed = |at: usize| batch.status[at] & 0x0F == Status::ERROR.0;
        if (0..batch.events).any(failed) {
            let sieve = self.taker.question.sieve(trace);
            let take = |at| self.taker.take(trace, sieve, batch, at);
            for group in (0..batch.events).filter(|&at| failed(at)).filter_map(take) {
                self.moments[group as usize].errors += 1;
            }
        }
    }

    fn end(&mut self, piece: &Piece) {
        if self.taker.question.self_time {
            self.ends.push(self.nesting.end(piece));
        }
    }
}

impl<const BITS: u32> First<'_, BITS> {
    /// Finds parents, and adds up what their children took.
    fn nest(&mut self, trace: usize, batch: &Batch) {
        let Self { taker, taken, nesting, children, .. } = self;
        let all = (taken.group.len() == batch.events).then_some(taken.group.as_slice());
        let sieve = taker.question.sieve(trace);
        for at in (0..batch.events).rev().filter(|&at| nesting::nests(batch.kind[at])) {
            let group = match all {
                Some(groups) => groups[at],
                None => taker.take(trace, sieve, batch, at).unwrap_or(NO_GROUP),
            };
            let span = Open::of(batch, at, group);
            let duration = span.duration();
            if let Some(parent) = nesting.parent(batch.track[at], span)
                && parent != NO_GROUP
            {
                children[parent as usize] += u128::from(taker.scale.scale(trace, duration));
            }
        }
    }

    /// Sorts durations into performance categories.
    fn categorize(&mut self) {
        let Self { taken, bounds, categories, .. } = self;
        // Nearly all are in the first category, so that is what is left.
        let mut first = (taken.value.len() as u64, 0_u128);
        for &value in &taken.value {
            first.1 += u128::from(value);
            if value >= bounds[0] {
                let at = bounds.iter().filter(|&&bound| value >= bound).count();
                categories[at].0 += 1;
                categories[at].1 += u128::from(value);
                first.0 -= 1;
                first.1 -= u128::from(value);
            }
        }
        categories[0].0 += first.0;
        categories[0].1 += first.1;
    }
}

/// A further look: the values in ranges of interest.
struct Second<'a, const BITS: u32> {
    taker: &'a Taker<'a>,
    taken: Taken,
    selection: &'a Selection<BITS>,
    /// Which groups are also noted together, behind the last one.
    others: &'a [bool],
    findings: Vec<Finding>,
}

impl<const BITS: u32> Visitor for Second<'_, BITS> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        let sieve = self.taker.question.sieve(trace);
        sieve.is_none_or(|sieve| sieve.can_start_in(chunk.first_tick, chunk.last_tick))
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let Self { taker, taken, selection, others, findings } = self;
        taker.all(trace, batch, taken);
        for (group, value) in taken.each() {
            selection.note(findings, group, value);
        }
        if !others.is_empty() {
            for (_, value) in taken.each().filter(|(group, _)| others[*group as usize]) {
                selection.note(findings, others.len() as u32, value);
            }
        }
    }
}
