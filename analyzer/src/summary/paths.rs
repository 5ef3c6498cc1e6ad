//! Durations by path: the names of all ancestors, and its own.
//!
//! A path is known only when all ancestors are, so chunks are read in one order,
//! last first, and not in parallel pieces. What is held grows with the number of
//! distinct paths, of which there are at most [`MOST_PATHS`], and not with the
//! number of records. Percentiles take a second reading, as in [`super`]; it finds
//! the same paths again, and adds them up into whatever rows the asker has made
//! of them meanwhile.

use std::collections::HashMap;

use ringscope_format::{Batch, Columns, Kind, Status};

use super::{
    Moments, Scale,
    histogram::Histogram,
    nesting::{self, Ancestors, Open, PerTrack, nests},
    selection::{Percentiles, Selection},
};
use crate::{device::is_device_work, filter::Sieve, load::Traces, scan::backwards};

/// Above the outermost.
pub(crate) const NO_PATH: u32 = u32::MAX;
/// What lies on further paths counts as one.
const MOST_PATHS: usize = 1 << 20;

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Everything in one trace.
    Trace(u32),
    /// Everything on one track of a trace.
    Track(u32, u32),
    /// A span, by the index of its name.
    Name(u32),
    /// Paths beyond the number that is kept apart.
    Beyond,
}

/// A path: a step below another path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    pub(crate) step: Step,
    /// The child that was looked up last: the next one is mostly the same.
    last: (u32, u32),
}

/// What is kept apart above the outermost spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Nothing: spans of all threads lie under one root.
    #[default]
    Together,
    /// Traces.
    ByTrace,
    /// Threads and queues.
    ByTrack,
}

/// Every path that occurs, with a number each.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    pub(crate) nodes: Vec<Node>,
    index: HashMap<(u32, Step), u32>,
}

impl Paths {
    fn find(&mut self, parent: u32, step: Step) -> u32 {
        if let Some(&path) = self.index.get(&(parent, step)) {
            return path;
        }
        let is_beyond = |it: &Node| it.step == Step::Beyond;
        if self.nodes.get(parent as usize).is_some_and(is_beyond) {
            return parent;
        }
        if self.nodes.len() >= MOST_PATHS && step != Step::Beyond {
            return self.find(NO_PATH, Step::Beyond);
        }
        let path = self.nodes.len() as u32;
        self.nodes.push(Node { parent, step, last: (0, NO_PATH) });
        self.index.insert((parent, step), path);
        path
    }

    #[inline(always)]
    fn child(&mut self, parent: u32, name: u32) -> u32 {
        if let Some(node) = self.nodes.get(parent as usize)
            && node.last.0 == name
            && node.last.1 != NO_PATH
        {
            return node.last.1;
        }
        let path = self.find(parent, Step::Name(name));
        if let Some(node) = self.nodes.get_mut(parent as usize) {
            node.last = (name, path);
        }
        path
    }
}

/// How finely the first reading tells durations apart.
const BITS: u32 = 3;

/// What has been added up of one path or row.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    pub(crate) moments: Moments,
    /// Time of the children of the records that count.
    pub(crate) children: u128,
    histogram: Histogram<BITS>,
}

impl Default for Sum {
    fn default() -> Self {
        Self { moments: Moments::default(), children: 0, histogram: Histogram::new() }
    }
}

impl Sum {
    pub(crate) fn merge(&mut self, other: Sum) {
        self.moments.merge(&other.moments);
        self.children += other.children;
        self.histogram.merge(other.histogram);
    }
}

/// What is asked.
pub(crate) struct PathQuestion<'a> {
    pub(crate) traces: &'a Traces,
    pub(crate) sieves: &'a [Sieve],
    pub(crate) roots: Roots,
}

/// What the first reading has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) paths: Paths,
    /// By path.
    pub(crate) sums: Vec<Sum>,
    /// Records with a duration that have no place on a track, such as
    /// asynchronous spans.
    pub(crate) elsewhere: u64,
}

impl PathQuestion<'_> {
    /// Finds all paths and adds up what lies on each. Records that the filter
    /// leaves out are steps of paths all the same.
    pub(crate) fn answer(&self) -> Found {
        let scale = Scale::of(self.traces);
        let mut found = Found::default();
        let (mut paths, mut sums) = (Paths::default(), Vec::<Sum>::new());
        self.read(Columns::STATUS, "reading", &mut paths, |visit| match visit {
            Visit::Span { trace, batch, at, path, parent, counts, parent_counts } => {
                let value = scale.scale(trace, (batch.value[at] as i64).max(0) as u64);
                let most = path.max(if parent == NO_PATH { 0 } else { parent }) as usize;
                if most >= sums.len() {
                    sums.resize_with(most + 1, Sum::default);
                }
                if parent_counts {
                    sums[parent as usize].children += u128::from(value);
                }
                if counts {
                    let sum = &mut sums[path as usize];
                    sum.moments.push(value);
                    let failed = batch.status[at] & 0x0F == Status::ERROR.0;
                    sum.moments.errors += u64::from(failed);
                    sum.histogram.push(value);
                }
            }
            Visit::Elsewhere => found.elsewhere += 1,
        });
        sums.resize_with(paths.nodes.len(), Sum::default);
        (found.paths, found.sums) = (paths, sums);
        found
    }

    /// Percentiles of rows, which are sums of paths: `row_of` says by path of
    /// which, [`NO_PATH`] of none.
    pub(crate) fn percentiles(
        &self,
        paths: &mut Paths,
        row_of: &[u32],
        rows: &mut [Sum],
        percentiles: &[f64],
    ) -> Vec<Percentiles> {
        let take = |row: &mut Sum| {
            let histogram = std::mem::replace(&mut row.histogram, Histogram::new());
            (row.moments.count, histogram)
        };
        let mut counted: Vec<(u64, Histogram<BITS>)> = rows.iter_mut().map(take).collect();
        let mut selection = Selection::new(&mut counted, percentiles);
        drop(counted);
        let scale = Scale::of(self.traces);
        while !selection.is_complete() {
            let mut findings = selection.findings();
            self.read(Columns::NONE, "percentiles", paths, |visit| {
                if let Visit::Span { trace, batch, at, path, counts: true, .. } = visit
                    // A file that is still being written may have grown new paths.
                    && let Some(&row) = row_of.get(path as usize)
                    && row != NO_PATH
                {
                    let value = scale.scale(trace, (batch.value[at] as i64).max(0) as u64);
                    selection.note(&mut findings, row, value);
                }
            });
            selection.absorb(vec![findings]);
        }
        let of =
            |(at, row): (usize, &Sum)| selection.percentiles(at, percentiles, row.moments.count);
        rows.iter().enumerate().map(of).collect()
    }

    fn read(&self, more: Columns, what: &str, paths: &mut Paths, mut visit: impl FnMut(Visit<'_>)) {
        let columns = nesting::columns() | Columns::NAME | more;
        let mut stacks = PerTrack::<Ancestors<(u32, bool)>>::default();
        let mut current = usize::MAX;
        backwards(self.traces, columns, what, |trace, _, batch| {
            if trace != current {
                current = trace;
                stacks.take();
            }
            let loaded = &self.traces.list[trace];
            let sieve = self.sieves.get(trace).filter(|sieve| !sieve.is_open());
            for at in (0..batch.events).rev() {
                let counts = sieve.is_none_or(|sieve| sieve.takes_record(batch, at));
                if !nests(batch.kind[at]) {
                    if counts && is_elsewhere(Kind(batch.kind[at])) {
                        visit(Visit::Elsewhere);
                    }
                    continue;
                }
                let track = batch.track[at];
                let stack = stacks.of(track);
                let mut span = Open::of(batch, at, (NO_PATH, counts));
                let above = stack.parent_of(&span).map(|parent| parent.tag);
                let below = match (above, self.roots) {
                    (Some((path, _)), _) => path,
                    (None, Roots::Together) => NO_PATH,
                    (None, Roots::ByTrace) => paths.find(NO_PATH, Step::Trace(trace as u32)),
                    (None, Roots::ByTrack) => paths.find(NO_PATH, Step::Track(trace as u32, track)),
                };
                let path = paths.child(below, loaded.name_index(batch.name[at]));
                span.tag.0 = path;
                stack.push(span);
                visit(Visit::Span {
                    trace,
                    batch,
                    at,
                    path,
                    parent: above.map_or(NO_PATH, |(path, _)| path),
                    counts,
                    parent_counts: above.is_some_and(|(_, counts)| counts),
                });
            }
        })
    }
}

/// What a reading comes by.
enum Visit<'a> {
    Span {
        trace: usize,
        batch: &'a Batch,
        at: usize,
        path: u32,
        parent: u32,
        counts: bool,
        parent_counts: bool,
    },
    Elsewhere,
}

fn is_elsewhere(kind: Kind) -> bool {
    kind.is_timed() && !is_device_work(kind) && !kind.is_overlay()
}
