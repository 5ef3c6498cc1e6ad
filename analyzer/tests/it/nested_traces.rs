//! Traces of nested spans whose parents are known because they were made up.

use std::{
    collections::BTreeMap,
    process::{Command, Output},
};

use proptest::prelude::*;
use ringscope_format::{Kind, Record, TraceWriter, TrackKind};
use tempfile::NamedTempFile;

use crate::making::header;

/// One thing that happens on a track.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A span of this name begins.
    Open(u8),
    /// So many begin within each other.
    Dive(u16),
    /// So many end; the last of them may get lost.
    Close { spans: u16, lost: bool },
    /// The chunk ends.
    NewChunk,
}

/// A span as it was made. Ticks are nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) track: u8,
    pub(crate) name: u8,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) depth: usize,
    /// The innermost span around it that is in the trace.
    pub(crate) parent: Option<usize>,
    enclosing: Option<usize>,
    pub(crate) lost: bool,
}

impl Span {
    pub(crate) fn duration(&self) -> u64 {
        self.end - self.start
    }
}

/// A trace and what is in it.
pub(crate) struct Made {
    pub(crate) file: NamedTempFile,
    /// In order of their start.
    pub(crate) spans: Vec<Span>,
}

/// Names are `n0`, `n1`, ...; tracks `t0`, `t1`, ...
pub(crate) const TRACKS: u8 = 3;
pub(crate) const NAMES: u8 = 4;

/// What happens on tracks, and how much later than what came before.
pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<(u8, u64, Step)>> {
    let step = prop_oneof![
        8 => (0..NAMES).prop_map(Step::Open),
        1 => (100_u16..300).prop_map(Step::Dive),
        8 => (1_u16..3, 0_u8..5).prop_map(|(spans, lost)| Step::Close { spans, lost: lost == 0 }),
        1 => (50_u16..300, any::<bool>()).prop_map(|(spans, lost)| Step::Close { spans, lost }),
        2 => Just(Step::NewChunk),
    ];
    prop::collection::vec((0..TRACKS, 0_u64..50, step), 1..most)
}

struct Making {
    writer: TraceWriter<std::fs::File>,
    names: Vec<u32>,
    tracks: Vec<u32>,
    spans: Vec<Span>,
    open: Vec<Vec<usize>>,
    now: u64,
    loses: bool,
}

impl Making {
    fn open(&mut self, track: u8, name: u8) {
        let stack = &mut self.open[usize::from(track)];
        let enclosing = stack.last().copied();
        let depth = stack.len();
        stack.push(self.spans.len());
        let (start, end) = (self.now, self.now);
        self.spans.push(Span {
            track,
            name,
            start,
            end,
            depth,
            parent: None,
            enclosing,
            lost: false,
        });
    }

    fn close(&mut self, track: u8, lost: bool) {
        let Some(at) = self.open[usize::from(track)].pop() else { return };
        let span = &mut self.spans[at];
        span.end = self.now;
        span.lost = lost && self.loses;
        if !span.lost {
            let (name, track) =
                (self.names[usize::from(span.name)], self.tracks[usize::from(track)]);
            let mut record = Record::timed(Kind::SPAN, name, track, span.start, span.duration());
            record.depth = span.depth.min(255) as u8;
            self.writer.event(record, &[], &[]).unwrap();
        }
    }
}

/// Makes a trace. Either spans get lost, or neighbours may touch: with both, what
/// is left could be nested in several ways.
pub(crate) fn make(steps: &[(u8, u64, Step)], loses: bool) -> Made {
    let file = NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::new(file.reopen().unwrap(), header()).unwrap();
    let names = (0..NAMES).map(|n| writer.name(&format!("n{n}"))).collect();
    let tracks = (0..TRACKS)
        .map(|n| writer.track(TrackKind::Thread, u64::from(n), &format!("t{n}")))
        .collect();
    let open = vec![Vec::new(); usize::from(TRACKS)];
    let mut making = Making { writer, names, tracks, spans: Vec::new(), open, now: 1_000, loses };
    let mut touches = !loses;
    for &(track, later, step) in steps {
        let deepest = making.open.iter().map(Vec::len).max().unwrap_or(0);
        // Past depth 255 only containment tells, so ticks have to.
        touches &= deepest < 200;
        let least = u64::from(!touches);
        making.now += later.max(least);
        match step {
            Step::Open(name) => making.open(track, name),
            Step::Dive(spans) if loses => {
                for n in 0..spans {
                    making.open(track, (n % u16::from(NAMES)) as u8);
                    making.now += 1;
                }
            }
            Step::Dive(_) => making.open(track, 0),
            Step::Close { spans, lost } => {
                for n in 0..spans {
                    making.close(track, lost && n + 1 == spans);
                    making.now += least;
                }
            }
            Step::NewChunk => making.writer.end_chunk().unwrap(),
        }
    }
    for track in 0..TRACKS {
        while !making.open[usize::from(track)].is_empty() {
            making.now += 1;
            making.close(track, false);
        }
    }
    let Making { writer, mut spans, .. } = making;
    writer.finish().unwrap();
    for at in 0..spans.len() {
        let mut above = spans[at].enclosing;
        while let Some(it) = above.filter(|&it| spans[it].lost) {
            above = spans[it].enclosing;
        }
        spans[at].parent = above;
    }
    Made { file, spans }
}

impl Made {
    /// Spans that are in the trace, with their index.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (usize, &Span)> {
        self.spans.iter().enumerate().filter(|(_, span)| !span.lost)
    }

    /// Time of the children of each span.
    pub(crate) fn children_ns(&self) -> Vec<u64> {
        let mut children = vec![0; self.spans.len()];
        for (_, span) in self.stored() {
            if let Some(parent) = span.parent {
                children[parent] += span.duration();
            }
        }
        children
    }

    /// Names from the outermost span to this one.
    pub(crate) fn path(&self, at: usize) -> Vec<String> {
        let mut path: Vec<String> = std::iter::successors(Some(at), |&at| self.spans[at].parent)
            .map(|at| format!("n{}", self.spans[at].name))
            .collect();
        path.reverse();
        path
    }

    pub(crate) fn analyze(&self, command: &[&str]) -> serde_json::Value {
        let path = self.file.path().to_str().unwrap();
        let mut all = command.to_vec();
        all.extend([path, "--format", "json"]);
        let output = run(&all);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Runs the binary, which has to succeed.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_analyze")).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output
}

/// Interpolated linearly between the nearest ranks.
pub(crate) fn percentile(values: &mut [u64], percentile: f64) -> f64 {
    values.sort_unstable();
    let at = percentile / 100.0 * (values.len() - 1) as f64;
    let (below, above) = (values[at.floor() as usize] as f64, values[at.ceil() as usize] as f64);
    below + (above - below) * (at - at.floor())
}

/// Count, total and self time by key.
pub(crate) fn sums<K: Ord>(
    made: &Made,
    key: impl Fn(usize, &Span) -> K,
) -> BTreeMap<K, (u64, u64, u64)> {
    let children = made.children_ns();
    let mut sums = BTreeMap::new();
    for (at, span) in made.stored() {
        let sum: &mut (u64, u64, u64) = sums.entry(key(at, span)).or_default();
        sum.0 += 1;
        sum.1 += span.duration();
        sum.2 += span.duration() - children[at];
    }
    sums
}
