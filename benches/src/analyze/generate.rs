//! The rows that are analyzed: what sixteen busy threads would have recorded.
//!
//! Each track is a thread whose spans follow one another: a pause, then a span.
//! A name is drawn by Zipf's law (`1 / rank`) among 500, a duration from a
//! log-normal distribution whose median is the name's own, between 2 and 32 us,
//! with a sigma of 1 (so p99 is ten times the median). The pause before a span is
//! 0.2 us and a jitter of up to 1 us.
//!
//! Records lie in the file as a recorder's drain leaves them: every 200 us it
//! takes what ended since from one thread after the other. Spans are flat, have no
//! fields, and count in nanoseconds. The seed is fixed, so runs differ by machine
//! only.

use std::f64::consts::TAU;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use ringscope_format::{FileHeader, Kind, Record, TraceWriter, TrackKind};

use crate::random::Random;

/// How many names there are.
const NAMES: usize = 500;
/// How many tracks there are.
const TRACKS: usize = 16;

const SEED: u64 = 0x5eed;
const DRAIN_EVERY_NS: u64 = 200_000;
const PAUSE_NS: u64 = 200;
const JITTER_NS: u64 = 1_000;
/// Medians are this, doubled up to so many times.
const LEAST_MEDIAN_NS: f64 = 2_000.0;
const DOUBLINGS: u64 = 4;
/// Names are looked up by so many bits of a random number: a table of this size
/// tells the rarest of the names from its neighbours to within 2 %.
const NAME_BITS: u32 = 16;

/// Writes a trace of so many records; returns its length in bytes.
pub(crate) fn trace(path: &Path, records: u64) -> Result<u64> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    let header = FileHeader::converted(*b"ringscope-bench.", 0);
    let mut writer = TraceWriter::new(BufWriter::with_capacity(1 << 20, file), header)?;
    let mut random = Random::new(SEED);
    let names: Vec<Name> = (0..NAMES)
        .map(|rank| Name {
            id: writer.name(&name(rank)),
            median_ns: LEAST_MEDIAN_NS
                * 2_f64.powf(random.below(1 + (DOUBLINGS << 8)) as f64 / 256.0),
        })
        .collect();
    let mut tracks: Vec<Track> = (0..TRACKS)
        .map(|at| Track {
            id: writer.track(TrackKind::Thread, 1 + at as u64, &format!("worker-{at}")),
            next: Span { name: 0, start: 0, duration: 0 },
        })
        .collect();
    let mut load = Load { random, by_chance: zipf(), names, spare: None };
    for track in &mut tracks {
        track.next = load.span(0);
    }

    let (mut written, mut now) = (0, 0);
    while written < records {
        now += DRAIN_EVERY_NS;
        for track in &mut tracks {
            while track.next.end() <= now && written < records {
                let Span { name, start, duration } = track.next;
                let record = Record::timed(Kind::SPAN, name, track.id, start, duration);
                writer.event(record, &[], &[])?;
                written += 1;
                track.next = load.span(track.next.end());
            }
        }
    }
    let file = writer.finish()?.into_inner().map_err(|error| error.into_error())?;
    Ok(file.metadata()?.len())
}

/// The name of a rank. Its id in the file is one more than the rank.
pub(crate) fn name(rank: usize) -> String {
    format!("layer_{rank:03}")
}

struct Name {
    id: u32,
    median_ns: f64,
}

struct Track {
    id: u32,
    next: Span,
}

#[derive(Clone, Copy)]
struct Span {
    name: u32,
    start: u64,
    duration: u64,
}

impl Span {
    fn end(&self) -> u64 {
        self.start + self.duration
    }
}

struct Load {
    random: Random,
    /// Names by the uppermost bits of a random number.
    by_chance: Vec<u16>,
    names: Vec<Name>,
    /// Normal deviates come in pairs.
    spare: Option<f64>,
}

impl Load {
    /// The next span of a track that is free from `now` on.
    fn span(&mut self, now: u64) -> Span {
        let bits = self.random.next();
        let rank = self.by_chance[(bits >> (64 - NAME_BITS)) as usize];
        let pause = PAUSE_NS + (((bits & 0xffff_ffff) * JITTER_NS) >> 32);
        let deviate = self.normal();
        let name = &self.names[usize::from(rank)];
        let duration = (name.median_ns * deviate.exp()).round() as u64;
        Span { name: name.id, start: now + pause, duration }
    }

    /// Box and Muller's way.
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // Above 0 and up to 1, since its logarithm is wanted.
        let unit = |bits: u64| ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let radius = (-2.0 * unit(self.random.next()).ln()).sqrt();
        let (sin, cos) = (TAU * unit(self.random.next())).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}

/// A table in which a name of rank `r` fills a share that goes with `1 / r`.
fn zipf() -> Vec<u16> {
    let weight = |rank: usize| 1.0 / (rank + 1) as f64;
    let whole: f64 = (0..NAMES).map(weight).sum();
    let entries = 1_usize << NAME_BITS;
    let mut table = Vec::with_capacity(entries);
    let mut share = 0.0;
    for rank in 0..NAMES {
        share += weight(rank) / whole;
        let upto = (share * entries as f64).round() as usize;
        table.resize(upto.min(entries), rank as u16);
    }
    table.resize(entries, NAMES as u16 - 1);
    table
}
