//! `merge`: one trace from those of several processes, ranks or hosts.
//!
//! Tracks, and keys of metadata, have the label of their trace before them; where the
//! traces are on the common line of time is `alignment`'s business, and how sure
//! that is is said and kept in the metadata; the clock of the new trace is as exact as
//! the least exact of theirs. Counts, durations, losses and nesting are
//! those of the sources together; files of one recording, whose vitals count what came before
//! them, are one source to that end (`recordings`).
//!
//! What one process numbers, another does too. So links from launches to kernels and the
//! numbers of spans that have slices get ranges of their own; other 64-bit ids of spans get the recording's id as their upper half,
//! and numbers in fields of the key `id` the number of their trace in the highest byte.
//! Ids of requests and 128-bit ids stay: those mean the same in all processes. Files
//! of one recording share their ids. Limits: ids of type text stay as they are, as do
//! those of open spans, whose tracks tell them apart.

use std::{collections::HashMap, path::PathBuf};

use ringscope_format::{
    Batch, ClockPair, Columns, Counter, FileHeader, Kind, Link, LinkRole, Mode, Track,
};

use super::{
    Target,
    alignment::{Line, Place, lines, place},
    copying::{Copying, Rewrite, Tally},
    header,
    provenance::provenance,
    recordings::totals,
    siphash::siphash,
};
use crate::{
    Error, Result,
    load::{EDIT, Loaded, SOURCE_ACCOUNT, Traces},
    output::{count, number_of, shown},
    report::about::{self, in_words},
    scan::{Visitor, scan},
};

/// Options of `merge`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The traces
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    target: Target,
    /// Move the traces so that the first, second, ... event of this name ends at the same time in
    /// all of them: a barrier, a collective
    #[arg(long, value_name = "NAME")]
    align: Option<String>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let traces = args.target.open(&args.traces)?;
    let places = place(&traces, args.align.as_deref())?;
    let (lines, begin, hz) = lines(&traces, &places)?;
    let totals = totals(&traces)?;
    let links = links(&traces)?;
    let of_sources = header(&traces, "merge");
    let (error_ns, counter) = clock_error(&traces);
    let header = FileHeader {
        pid: 0,
        nominal_hz: hz,
        counter,
        ..FileHeader::converted(of_sources.recording, begin)
    };
    let (mut kept, mut left_out) = (Tally::default(), Tally::default());
    args.target.write(header, |writer| {
        for pair in error_ns.into_iter().flat_map(|error_ns| clock_pairs(error_ns, begin, hz)) {
            writer.clock_pair(pair);
        }
        for (at, (loaded, line)) in traces.list.iter().zip(&lines).enumerate() {
            let tag_of = |at| tag(&traces, at);
            let first = (0..at).find(|&it| tag_of(it) == tag_of(at)).unwrap_or(at);
            let one = One { first, loaded, line, links: links[at], tag: tag_of(at) };
            let metadata = one.metadata(&places[at], totals[at].1.as_deref());
            let mut copying = Copying::new(&traces, at, writer, one);
            copying.metadata(&metadata)?;
            copying.chunks(|_| true, |_, _| true)?;
            copying.losses_of(totals[at].0, traces.events_unreadable(at), |_| true);
            copying.open_spans(|_| true)?;
            kept.add(copying.kept);
            left_out.add(copying.left_out);
        }
        let done = writer.metadata(&[(EDIT, "merge")]);
        done.map_err(|error| Error::of(&args.target.output, error))
    })?;
    about::warn_unreadable(&traces);
    for (at, (loaded, place)) in traces.list.iter().zip(&places).enumerate() {
        let path = shown(&loaded.path.display().to_string()).into_owned();
        eprintln!("analyze: {path}: {}", aligned(at, place, args.align.as_deref()));
    }
    args.target.say(&format!(
        "{} of {} kept, {} left out",
        kept.in_words(),
        number_of(traces.list.len() as u64, "trace"),
        left_out.in_short(),
    ));
    Ok(())
}

/// The largest error of the clocks of the traces, and the counter of the new one: one of
/// nanoseconds is taken for exact, so where an error is not known it is that trace's.
fn clock_error(traces: &Traces) -> (Option<f64>, Counter) {
    let mut largest = 0.0_f64;
    for loaded in &traces.list {
        let Some(error_ns) = loaded.trace.clock().error_ns() else {
            return (None, loaded.trace.header().counter);
        };
        largest = largest.max(error_ns);
    }
    (Some(largest), Counter::MonotonicNs)
}

/// Readings of a clock with this error that runs exactly as the new trace's ticks do; none
/// if it has no error.
fn clock_pairs(error_ns: f64, begin: i64, hz: u64) -> Vec<ClockPair> {
    let per_ns = hz / 1_000_000_000;
    let half_width = (error_ns * per_ns as f64).ceil() as u64;
    if half_width == 0 {
        return Vec::new();
    }
    let first_ns = half_width.div_ceil(per_ns);
    // A power of two apart, by which the ratio of the two is not rounded.
    let pairs = [first_ns, first_ns.saturating_add(1 << 30)].map(|ns| {
        let (tick, ns) = (ns.saturating_mul(per_ns), ns as i64);
        ClockPair {
            tick_before: tick - half_width,
            tick_after: tick.saturating_add(half_width),
            mono_ns: ns,
            wall_ns: begin.saturating_add(ns),
            boot_ns: ns,
            ..ClockPair::default()
        }
    });
    pairs.to_vec()
}

/// How a trace was aligned and how well that went.
fn aligned(at: usize, place: &Place, name: Option<&str>) -> String {
    let wall = match place.wall_error_ns {
        Some(error) => format!(
            "aligned by its wall clock, which its own readings tell to {}; how far hosts are apart is not known",
            in_words(error)
        ),
        None => {
            "aligned by the time of day in its header; how exact that is is not known".to_owned()
        }
    };
    let (Some(name), Some(shared)) = (name, place.shared) else {
        return match name {
            Some(name) if at == 0 => format!("{wall}; the others are aligned to its {name:?}"),
            _ => wall,
        };
    };
    let direction = if shared.shift_ns < 0.0 { "earlier" } else { "later" };
    let mut said = format!(
        "moved {} {direction} by {} {name:?}: off by at most {}, half of them by at most {}",
        in_words(shared.shift_ns.abs()),
        count(shared.pairs as u64),
        in_words(shared.most_ns),
        in_words(shared.median_ns),
    );
    if shared.alone > 0 {
        said.push_str(&format!("; {} more have no partner", count(shared.alone as u64)));
    }
    said
}

/// One of the traces.
struct One<'a> {
    /// The first trace of its recording.
    first: usize,
    loaded: &'a Loaded,
    line: &'a Line,
    /// What is added to its links.
    links: u32,
    /// The upper half of its ids.
    tag: u64,
}

impl One<'_> {
    fn metadata(&self, place: &Place, elsewhere: Option<&str>) -> Vec<(String, String)> {
        let mut pairs = provenance(self.loaded, "merge");
        // What was done to the source before; that it was merged, the new trace says once.
        pairs.retain(|(key, value)| key != EDIT || value != "merge");
        // What was lost elsewhere may be in another of the sources.
        pairs.retain(|(key, _)| key != SOURCE_ACCOUNT);
        let mut note = |key: &str, value: String| pairs.push((key.to_owned(), value));
        if let Some(said) = elsewhere {
            note(SOURCE_ACCOUNT, said.to_owned());
        }
        if let Some(error) = place.wall_error_ns {
            note("merge.wall_error_ns", error.to_string());
        }
        if let Some(shared) = place.shared {
            note("merge.shift_ns", shared.shift_ns.to_string());
            note("merge.residual_ns", shared.most_ns.to_string());
        }
        let label = &self.loaded.label;
        pairs.into_iter().map(|(key, value)| (format!("{label}/{key}"), value)).collect()
    }
}

impl Rewrite for One<'_> {
    fn track(&mut self, track: &Track) -> String {
        format!("{}: {}", self.loaded.label, self.loaded.track_name(track.id))
    }

    fn tick(&self, tick: u64) -> u64 {
        self.line.tick(tick)
    }

    fn ticks(&self, ticks: u64) -> u64 {
        self.line.ticks(ticks)
    }

    fn link(&self, link: u32) -> u32 {
        // Past the largest number it goes on at 1: 0 is no link.
        link.wrapping_add(self.links).max(1)
    }

    fn id(&self, kind: Kind, link: Link) -> Link {
        if link.role == LinkRole::Request || link.id >> 64 != 0 {
            return link;
        }
        // The number of a span, as it is in the links of its slices (SPEC 10.4).
        if (kind == Kind::SLICE || kind.is_life() || !kind.is_timed())
            && let Ok(number @ 1..) = u32::try_from(link.id)
        {
            return Link { id: self.link(number).into(), ..link };
        }
        Link { id: link.id | u128::from(self.tag) << 64, ..link }
    }

    fn number(&self, key: &str, number: u64) -> u64 {
        if key == "id" { number ^ (self.first as u64) << 56 } else { number }
    }
}

/// What the ids of a trace are told from others by: the same for all files of a
/// recording, and for a converted trace, whose id may be anything, also its place.
fn tag(traces: &Traces, at: usize) -> u64 {
    let header = traces.list[at].trace.header();
    let place = if header.mode == Mode::Converted { at as u64 } else { u64::MAX };
    siphash([place, 0], &header.recording).max(1)
}

/// What to add to the links of each trace so that none has those of another. Files
/// of one recording go together.
fn links(traces: &Traces) -> Result<Vec<u32>> {
    let workers = scan(traces, Columns::LINK, "looking for links", || Highest {
        of: vec![0; traces.list.len()],
    })?;
    let mut highest: Vec<(u64, u32)> =
        (0..traces.list.len()).map(|at| (tag(traces, at), 0)).collect();
    for worker in workers {
        for ((_, highest), of) in highest.iter_mut().zip(worker.of) {
            *highest = of.max(*highest);
        }
    }
    let mut of_recording: HashMap<u64, u32> = HashMap::new();
    for &(tag, of) in &highest {
        let known = of_recording.entry(tag).or_default();
        *known = of.max(*known);
    }
    let (mut next, mut begun) = (0_u64, HashMap::new());
    let mut first = |tag: u64| {
        *begun.entry(tag).or_insert_with(|| {
            let first = next;
            next += u64::from(of_recording[&tag]);
            first as u32
        })
    };
    let first: Vec<u32> = highest.iter().map(|&(tag, _)| first(tag)).collect();
    if next > u64::from(u32::MAX) {
        eprintln!(
            "analyze: there are more links from launches to kernels than the format can tell apart; \
             of those that coincide, the nearest in time count"
        );
    }
    Ok(first)
}

struct Highest {
    of: Vec<u32>,
}

impl Visitor for Highest {
    fn chunk(&mut self, trace: usize, batch: &Batch) {
        let highest = batch.link.iter().copied().max().unwrap_or(0);
        self.of[trace] = self.of[trace].max(highest);
    }
}
