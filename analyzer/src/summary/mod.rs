//! Durations by group: count, sum, self time, spread and exact percentiles, at
//! any size of trace.
//!
//! The first look at the trace adds up and draws a rough histogram of each group;
//! further looks, one as a rule, find the exact values at the ranks that the
//! percentiles ask for ([`selection`]). Nothing that is held grows with the number
//! of records.
//!
//! What a group is, a name, a name in one trace, a thread, a category of kernels,
//! is the asker's choice.

pub(crate) mod busy;
mod histogram;
mod moments;
pub(crate) mod nesting;
mod orphans;
pub(crate) mod paths;
mod scale;
mod selection;

use ringscope_format::{Batch, ChunkInfo, Columns, Kind, Status};

pub use self::moments::Moments;
use self::{
    histogram::Histogram,
    nesting::Open,
    orphans::{Ends, Nesting},
    selection::{Finding, Selection},
};
pub(crate) use self::{
    histogram::{bucket, buckets, floor_of},
    scale::Scale,
    selection::ranks,
};
use crate::{
    Result,
    filter::Sieve,
    load::Traces,
    scan::{Piece, Unreadable, Visitor, scan},
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
    /// As asked for; empty of an empty group.
    pub percentiles_ns: Vec<f64>,
}

impl Group {
    /// From what was added up, in units of `unit_ns`.
    pub(crate) fn of(
        moments: &Moments,
        children: Option<u128>,
        percentiles: Vec<f64>,
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
            percentiles_ns: percentiles.into_iter().map(ns).collect(),
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
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
}

/// With more groups than this, histograms are coarser.
const MANY_GROUPS: usize = 8_192;

impl Question<'_> {
    /// Answers it.
    pub fn answer(&self) -> Result<Answer> {
        if self.groups > MANY_GROUPS { self.answer_with::<2>() } else { self.answer_with::<4>() }
    }

    fn answer_with<const BITS: u32>(&self) -> Result<Answer> {
        let scale = Scale::of(self.traces);
        let looked = scan(self.traces, self.columns(), "reading", || First::<BITS> {
            question: self,
            scale: &scale,
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
        let mut workers = looked.visitors.into_iter();
        let Some(mut sum) = workers.next() else { return Ok(Answer::default()) };
        workers.for_each(|worker| sum.merge(worker));

        if self.self_time {
            let ends = std::mem::take(&mut sum.ends);
            let group_of = |trace: usize, batch: &Batch, at: usize| {
                self.take(trace, self.sieve(trace), batch, at).map_or(NO_GROUP, |(group, _)| group)
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
        let mut selection = Selection::new(&mut counted, &self.percentiles);
        drop(counted);
        while !selection.is_complete() {
            let looked = scan(self.traces, self.columns_again(), "percentiles", || Second {
                question: self,
                scale: &scale,
                selection: &selection,
                others: &others,
                findings: selection.findings(),
            })?;
            let findings = looked.visitors.into_iter().map(|worker| worker.findings).collect();
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
            unreadable: looked.unreadable,
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
        let mut columns = Columns::KIND | Columns::VALUE;
        let any = |needs: fn(&Sieve) -> bool| self.sieves.iter().any(needs);
        if self.key == Key::Name || any(Sieve::needs_name) {
            columns = columns | Columns::NAME;
        }
        if self.key == Key::Track || any(Sieve::needs_track) {
            columns = columns | Columns::TRACK;
        }
        if any(Sieve::needs_start) {
            columns = columns | Columns::START;
        }
        columns
    }

    #[inline(always)]
    fn group(&self, trace: usize, batch: &Batch, at: usize) -> u32 {
        let id = match self.key {
            Key::Name => batch.name[at],
            Key::Track => batch.track[at],
        };
        let groups = &self.group_of[trace];
        match groups.get(id as usize) {
            Some(&group) => group,
            None => groups.last().copied().unwrap_or(NO_GROUP),
        }
    }

    /// The group and duration in ticks of a record that is in.
    #[inline(always)]
    fn take(
        &self,
        trace: usize,
        sieve: Option<&Sieve>,
        batch: &Batch,
        at: usize,
    ) -> Option<(u32, i64)> {
        if !(self.kinds)(Kind(batch.kind[at])) {
            return None;
        }
        let group = self.group(trace, batch, at);
        if group == NO_GROUP {
            return None;
        }
        let ticks = batch.value[at] as i64;
        if let Some(sieve) = sieve
            && !(sieve.takes_duration(ticks.max(0) as u64)
                && (!sieve.needs_name() || sieve.takes_name(batch.name[at]))
                && (!sieve.needs_track() || sieve.takes_track(batch.track[at]))
                && (!sieve.needs_start() || sieve.takes_start(batch.start[at])))
        {
            return None;
        }
        Some((group, ticks))
    }

    fn sieve(&self, trace: usize) -> Option<&Sieve> {
        self.sieves.get(trace).filter(|sieve| !sieve.is_open())
    }
}

/// The first look: sums, histograms, nesting.
struct First<'a, const BITS: u32> {
    question: &'a Question<'a>,
    scale: &'a Scale,
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
        self.question.self_time
            || self
                .question
                .sieve(trace)
                .is_none_or(|sieve| sieve.can_start_in(chunk.first_tick, chunk.last_tick))
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let sieve = self.question.sieve(trace);
        if self.question.self_time {
            for at in (0..batch.events).rev() {
                if nesting::nests(batch.kind[at]) {
                    let taken = self.question.take(trace, sieve, batch, at);
                    let group = taken.map_or(NO_GROUP, |(group, _)| group);
                    let span = Open::of(batch, at, group);
                    let duration = span.duration();
                    if let Some(parent) = self.nesting.parent(batch.track[at], span)
                        && parent != NO_GROUP
                    {
                        self.children[parent as usize] +=
                            u128::from(self.scale.scale(trace, duration));
                    }
                }
            }
        }
        for at in 0..batch.events {
            let Some((group, ticks)) = self.question.take(trace, sieve, batch, at) else {
                continue;
            };
            self.backwards += u64::from(ticks < 0);
            let value = self.scale.scale(trace, ticks.max(0) as u64);
            let moments = &mut self.moments[group as usize];
            moments.push(value);
            moments.errors += u64::from(batch.status[at] & 0x0F == Status::ERROR.0);
            if let Some(histogram) = self.histograms.get_mut(group as usize) {
                histogram.push(value);
            }
            if !self.categories.is_empty() {
                let at = self.bounds.iter().filter(|&&bound| value >= bound).count();
                self.categories[at].0 += 1;
                self.categories[at].1 += u128::from(value);
            }
        }
    }

    fn end(&mut self, piece: &Piece) {
        if self.question.self_time {
            self.ends.push(self.nesting.end(piece));
        }
    }
}

/// A further look: the values in ranges of interest.
struct Second<'a> {
    question: &'a Question<'a>,
    scale: &'a Scale,
    selection: &'a Selection,
    /// Which groups are also noted together, behind the last one.
    others: &'a [bool],
    findings: Vec<Finding>,
}

impl Visitor for Second<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        self.question
            .sieve(trace)
            .is_none_or(|sieve| sieve.can_start_in(chunk.first_tick, chunk.last_tick))
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let sieve = self.question.sieve(trace);
        for at in 0..batch.events {
            if let Some((group, ticks)) = self.question.take(trace, sieve, batch, at) {
                let value = self.scale.scale(trace, ticks.max(0) as u64);
                self.selection.note(&mut self.findings, group, value);
                if self.others.get(group as usize) == Some(&true) {
                    self.selection.note(&mut self.findings, self.others.len() as u32, value);
                }
            }
        }
    }
}
