//! The longest records, and what was around them.
//!
//! A first reading, in parallel, keeps the longest; a second, last chunk first,
//! finds what they ran in, what ran in them and what ran beside them. What is held
//! grows with how many are asked for, times the names that ran beside them.

use std::{cmp::Reverse, collections::BinaryHeap, collections::HashMap};

use ringscope_format::{Batch, ChunkInfo, Columns, EventDetails, Kind, LinkRole};

use crate::{
    Result,
    device::is_device_work,
    filter::Sieve,
    load::Traces,
    requests::{self, Place},
    scan::{Visitor, backwards, scan},
    summary::{
        Scale,
        nesting::{self, Ancestors, Open, PerTrack, nests},
    },
};

/// A record with a duration. Longer ones are greater; of equal ones, earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// In the unit that is the same for all traces.
    length: u64,
    pub(super) trace: Reverse<usize>,
    pub(crate) start: Reverse<u64>,
    pub(super) track: Reverse<u32>,
    depth: Reverse<u8>,
    pub(super) name: u32,
    pub(super) ticks: u64,
    pub(super) kind: Kind,
    pub(super) status: u8,
    link: u32,
}

impl Found {
    /// When it ended, in ticks.
    pub(crate) fn end(&self) -> u64 {
        self.start.0.saturating_add(self.ticks)
    }

    fn place(&self) -> Place {
        Place { start: self.start.0, end: self.end(), depth: self.depth.0 }
    }

    /// What tells it from other records of its trace.
    fn key(&self) -> Key {
        (self.track.0, self.start.0, self.ticks, self.name, self.kind.0, self.depth.0)
    }
}

type Key = (u32, u64, u64, u32, u8, u8);

struct Longest<'a> {
    sieves: &'a [Sieve],
    scale: &'a Scale,
    most: usize,
    found: BinaryHeap<Reverse<Found>>,
}

impl Visitor for Longest<'_> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        self.sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let sieve = &self.sieves[trace];
        for at in 0..batch.events {
            let kind = Kind(batch.kind[at]);
            // Of a task the whole is of interest; of what is used again, the single calls are; of
            // a request, what was done for it.
            if !kind.is_timed() || matches!(kind, Kind::REUSED | Kind::SCOPE) {
                continue;
            }
            let ticks = (batch.value[at] as i64).max(0) as u64;
            let length = self.scale.scale(trace, ticks);
            let least = self.found.peek().filter(|_| self.found.len() == self.most);
            if least.is_some_and(|least| length < least.0.length) || !sieve.takes_record(batch, at)
            {
                continue;
            }
            self.found.push(Reverse(Found {
                length,
                trace: Reverse(trace),
                start: Reverse(batch.start[at]),
                track: Reverse(batch.track[at]),
                depth: Reverse(batch.depth[at]),
                name: batch.name[at],
                ticks,
                kind,
                status: batch.status[at] & 0x0F,
                link: batch.link[at],
            }));
            if self.found.len() > self.most {
                self.found.pop();
            }
        }
    }
}

/// The longest records that are in, longest first.
pub(crate) fn longest(traces: &Traces, sieves: &[Sieve], most: usize) -> Result<Vec<Found>> {
    let scale = Scale::of(traces);
    let columns = nesting::columns() | Columns::NAME | Columns::STATUS | Columns::LINK;
    let scanned = scan(traces, columns, "reading", || Longest {
        sieves,
        scale: &scale,
        most,
        found: BinaryHeap::new(),
    })?;
    let all = scanned.into_iter().flat_map(|worker| worker.found);
    let mut all: Vec<Found> = all.map(|Reverse(found)| found).collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    all.truncate(most);
    Ok(all)
}

/// A span that something ran in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Index into [`Traces::names`].
    pub(super) name: u32,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What was around one record. Names are indices into [`Traces::names`], times
/// are in ticks.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    /// What it ran in, outermost first.
    pub(super) ancestry: Vec<Frame>,
    /// Of work of a device: the thread that launched it, and what that was in.
    pub(super) launch: Option<(u32, Vec<Frame>)>,
    /// How many children, and how long, by name.
    pub(super) children: HashMap<u32, (u64, u64)>,
    /// Self time in its time of spans on other tracks, by name and track.
    pub(super) beside: HashMap<(u32, u32), i128>,
    /// Work of devices in its time, other than itself, by name.
    pub(super) devices: HashMap<u32, u64>,
    pub(super) details: EventDetails,
    /// The request it was done for.
    pub(super) request: Option<u128>,
    /// Of the scopes that it began in the innermost so far, with its chunk and index.
    scope: Option<(Place, (usize, usize))>,
    /// Chunk and index of the record.
    place: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct Tag {
    name: u32,
    /// Which of the records that were found it is.
    target: Option<u32>,
}

/// Finds what was around each of `found`.
pub(super) fn surroundings(traces: &Traces, found: &[Found]) -> Vec<Surroundings> {
    let mut reading = Reading {
        traces,
        found,
        around: vec![Surroundings::default(); found.len()],
        trace: usize::MAX,
        wanted: HashMap::new(),
        shortest: u64::MAX,
        launched: HashMap::new(),
        tracks: PerTrack::default(),
    };
    let columns = nesting::columns() | Columns::NAME | Columns::LINK;
    // What cannot be read was told of in the first reading.
    backwards(traces, columns, "looking around", |trace, chunk, batch| {
        reading.chunk(trace, chunk, batch);
    });
    let mut around = reading.around;
    for (found, around) in found.iter().zip(&mut around) {
        around.details = details(traces, found, around.place).unwrap_or_default();
        let scope = || details(traces, found, Some(around.scope?.1));
        let told = request_in(&around.details).or_else(|| request_in(&scope()?));
        around.request = told.filter(|&id| id != 0);
    }
    around
}

struct Reading<'a> {
    traces: &'a Traces,
    found: &'a [Found],
    around: Vec<Surroundings>,
    trace: usize,
    /// Records of the trace that have not been met yet; equal ones in order.
    wanted: HashMap<Key, Vec<u32>>,
    shortest: u64,
    /// Work of devices by what correlates it with its launch.
    launched: HashMap<u32, Vec<u32>>,
    tracks: PerTrack<Ancestors<Tag>>,
}

impl Reading<'_> {
    fn begin(&mut self, trace: usize) {
        self.trace = trace;
        self.tracks.take();
        self.wanted.clear();
        self.launched.clear();
        self.shortest = u64::MAX;
        for (at, found) in self.found.iter().enumerate().filter(|(_, it)| it.trace.0 == trace) {
            self.wanted.entry(found.key()).or_default().push(at as u32);
            self.shortest = self.shortest.min(found.ticks);
            if is_device_work(found.kind) && found.link != 0 {
                self.launched.entry(found.link).or_default().push(at as u32);
            }
        }
    }

    fn chunk(&mut self, trace: usize, chunk: usize, batch: &Batch) {
        if trace != self.trace {
            self.begin(trace);
        }
        let loaded = &self.traces.list[trace];
        let info = &loaded.trace.chunks()[chunk];
        let at_the_time = |found: &Found| {
            found.trace.0 == trace
                && found.start.0 <= info.last_tick
                && info.first_tick <= found.end()
        };
        let near: Vec<usize> =
            (0..self.found.len()).filter(|&at| at_the_time(&self.found[at])).collect();
        for at in (0..batch.events).rev() {
            let kind = Kind(batch.kind[at]);
            if !kind.is_timed() {
                continue;
            }
            if kind == Kind::SCOPE {
                self.scope(batch, at, chunk, &near);
                continue;
            }
            let name = loaded.name_index(batch.name[at]);
            let mut span = Open::of(batch, at, Tag { name, target: None });
            let target = self.meet(batch, at);
            if let Some(target) = target {
                self.around[target as usize].place = Some((chunk, at));
                span.tag.target = Some(target);
            }
            let track = batch.track[at];
            if is_device_work(kind) {
                for &near in near.iter().filter(|&&near| Some(near as u32) != target) {
                    let ticks = overlap(&self.found[near], span.start, span.end);
                    if ticks > 0 {
                        *self.around[near].devices.entry(name).or_default() += ticks;
                    }
                }
            }
            if nests(kind.0) {
                self.span(track, span, batch.link[at], kind, &near);
            }
        }
    }

    /// A scope may be the innermost that some of the records began in.
    fn scope(&mut self, batch: &Batch, at: usize, chunk: usize, near: &[usize]) {
        let scope = requests::place(batch, at);
        for &near in near.iter().filter(|&&near| self.found[near].track.0 == batch.track[at]) {
            let known = &mut self.around[near].scope;
            // Of two that are alike, the one that was recorded first is the inner one.
            let is_further_in = known.is_none_or(|(it, _)| it.innermost() <= scope.innermost());
            if scope.holds(self.found[near].place()) && is_further_in {
                *known = Some((scope, (chunk, at)));
            }
        }
    }

    /// Which of the records that were found this is, if any.
    fn meet(&mut self, batch: &Batch, at: usize) -> Option<u32> {
        let ticks = (batch.value[at] as i64).max(0) as u64;
        if ticks < self.shortest {
            return None;
        }
        let key = (
            batch.track[at],
            batch.start[at],
            ticks,
            batch.name[at],
            batch.kind[at],
            batch.depth[at],
        );
        self.wanted.get_mut(&key)?.pop()
    }

    fn span(&mut self, track: u32, span: Open<Tag>, link: u32, kind: Kind, near: &[usize]) {
        let open = self.tracks.of(track);
        let parent = open.parent_of(&span).map(|parent| parent.tag);
        let frame = |it: &Open<Tag>| Frame { name: it.tag.name, start: it.start, end: it.end };
        if let Some(target) = span.tag.target {
            self.around[target as usize].ancestry = open.iter().map(frame).collect();
        }
        if let Some(target) = parent.and_then(|parent| parent.target) {
            let children = &mut self.around[target as usize].children;
            let (count, ticks) = children.entry(span.tag.name).or_default();
            (*count, *ticks) = (*count + 1, ticks.saturating_add(span.duration()));
        }
        if kind == Kind::LAUNCH && link != 0 {
            for &target in self.launched.get(&link).into_iter().flatten() {
                let around = &mut self.around[target as usize];
                // Numbers of launches may come round again: it is the last before the work,
                // or the first of all if the clocks of host and device disagree.
                let work = self.found[target as usize].start.0;
                let known = around.launch.as_ref().and_then(|(_, frames)| frames.last());
                if known.is_none_or(|known| known.start > work) {
                    around.launch = Some((track, open.iter().chain([&span]).map(frame).collect()));
                }
            }
        }
        for &near in near {
            let (found, around) = (&self.found[near], &mut self.around[near]);
            let ticks = i128::from(overlap(found, span.start, span.end));
            if ticks > 0 && track != found.track.0 {
                *around.beside.entry((span.tag.name, track)).or_default() += ticks;
                if let Some(parent) = parent {
                    *around.beside.entry((parent.name, track)).or_default() -= ticks;
                }
            }
        }
        open.push(span);
    }
}

fn overlap(found: &Found, start: u64, end: u64) -> u64 {
    end.min(found.end()).saturating_sub(start.max(found.start.0))
}

fn request_in(details: &EventDetails) -> Option<u128> {
    details.links.iter().find(|link| link.role == LinkRole::Request).map(|link| link.id)
}

/// What the slots of the record say.
fn details(traces: &Traces, found: &Found, place: Option<(usize, usize)>) -> Option<EventDetails> {
    let (chunk, at) = place?;
    let trace = &traces.list[found.trace.0].trace;
    let columns = Columns::SHAPE | Columns::SLOTS | Columns::LONG_TEXTS;
    let batch = trace.decode(&trace.chunks()[chunk], columns).ok()?;
    traces.note_cut_texts(found.trace.0, &trace.chunks()[chunk], &batch);
    let slots = batch.slot_ranges().nth(at)?;
    Some(batch.details(batch.slots.get(slots)?))
}
