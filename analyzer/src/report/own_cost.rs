//! What the recorder's own threads cost the process, by its own readings, which count from the
//! start of the recording on. What a span costs the thread that records it is not in them.

use ringscope_format::{Batch, ChunkInfo, Columns, Kind, Mode};

use super::about;
use crate::load::Loaded;

/// CPU time of the recorder's own threads, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OwnCost {
    cpu_ns: f64,
    /// What this is of.
    part: Part,
    /// How long that is.
    within_ns: f64,
    /// Most of the recording, and long enough to be of more than how it starts and ends.
    has_share: bool,
}

/// A part of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    /// From its start to the last reading, which the file shows.
    All,
    /// The same of a file that shows less: a flight recorder's, or a dump of one.
    Recording,
    /// The same of a process that was killed, or still runs, long after the last reading.
    Beginning,
    /// Between the first and the last reading of a file that does not say when it started.
    OfFile,
}

/// Recordings from this length on have a share that means something.
const LONG_ENOUGH_NS: f64 = 1e9;

const DRAIN: &str = "recorder.drain_cpu_ns";
const SEALER: &str = "recorder.sealer_cpu_ns";

impl OwnCost {
    /// By the last readings, which only grow.
    pub(super) fn of(loaded: &Loaded) -> Option<Self> {
        let id = |wanted| {
            let found = loaded.trace.names().iter().find(|(_, text)| *text == wanted);
            found.map(|(id, _)| id)
        };
        let ids = [id(DRAIN)?, id(SEALER)?];
        // Of several recorders, each of which counts for itself.
        if loaded.edits().any(|edit| edit == "merge") {
            return None;
        }
        let chunks = loaded.trace.chunks();
        let last = Reading::first_of(loaded, ids, chunks.iter().rev(), true)?;
        let begun = loaded.trace.header().created_tick;
        let ns = |ticks| loaded.trace.clock().ns(ticks);
        if !begins_with_its_recording(loaded) {
            let first = Reading::first_of(loaded, ids, chunks.iter(), false)?;
            let within_ns = ns(last.tick.checked_sub(first.tick).filter(|&ticks| ticks > 0)?);
            return Some(Self {
                cpu_ns: last.cpu_ns.checked_sub(first.cpu_ns)? as f64,
                part: Part::OfFile,
                within_ns,
                has_share: within_ns >= LONG_ENOUGH_NS,
            });
        }
        let until_last = last.tick.saturating_sub(begun);
        let alive = loaded.trace.vitals().map_or(0, |vitals| vitals.tick.saturating_sub(begun));
        let within_ns = ns(until_last);
        let is_early = until_last < alive - alive / 10;
        Some(Self {
            cpu_ns: last.cpu_ns as f64,
            part: match (is_early, shows_all(loaded)) {
                (true, _) => Part::Beginning,
                (false, true) => Part::All,
                (false, false) => Part::Recording,
            },
            within_ns,
            has_share: alive / 2 <= until_last && within_ns >= LONG_ENOUGH_NS,
        })
    }

    /// In a sentence.
    pub(super) fn in_words(self) -> String {
        let [cpu, within] = [self.cpu_ns, self.within_ns].map(about::in_words);
        let mut text = format!("the recorder's own threads took {cpu} of CPU time");
        match self.part {
            Part::All => {}
            Part::Recording => text.push_str(&format!(" in the whole recording of {within}")),
            Part::Beginning => text.push_str(&format!(" in the first {within} of the recording")),
            Part::OfFile => text.push_str(&format!(" in {within} of this file")),
        }
        if self.has_share {
            let share = 100.0 * self.cpu_ns / self.within_ns;
            text.push_str(&format!(", {share:.2} % of a core"));
        }
        text
    }

    /// For machines.
    pub(super) fn json(self) -> serde_json::Value {
        serde_json::json!({ "recorder_cpu_ns": self.cpu_ns, "within_ns": self.within_ns })
    }
}

/// Whether the file says when its recording started: a later one of a rotation does not, and
/// what was made of a file does not say of which.
fn begins_with_its_recording(loaded: &Loaded) -> bool {
    loaded.trace.header().file_number == 0 && loaded.edits().next().is_none()
}

/// Whether the file shows the recording from its start on.
fn shows_all(loaded: &Loaded) -> bool {
    match loaded.trace.header().mode {
        Mode::Full | Mode::Converted => true,
        Mode::KeepLast => loaded.trace.vitals().is_some_and(|vitals| vitals.overwritten == 0),
        Mode::Dump => false,
    }
}

/// What the threads had taken, and when.
struct Reading {
    cpu_ns: u64,
    tick: u64,
}

impl Reading {
    /// The first that these chunks have of both threads; each chunk from its end on, if so asked.
    fn first_of<'a>(
        loaded: &Loaded,
        ids: [u32; 2],
        chunks: impl Iterator<Item = &'a ChunkInfo>,
        from_end: bool,
    ) -> Option<Self> {
        let (mut found, mut tick) = ([None; 2], 0);
        let mut batch = Batch::default();
        let is_gauge = |kind: &u8| Kind(*kind) == Kind::GAUGE;
        for chunk in chunks {
            // A chunk that cannot be decoded is reported by whoever needs it.
            let decode = |columns, batch: &mut Batch| {
                loaded.trace.decode_into(chunk, columns, batch).is_ok()
            };
            if !decode(Columns::KIND, &mut batch) || !batch.kind.iter().any(is_gauge) {
                continue;
            }
            let columns = Columns::KIND | Columns::NAME | Columns::VALUE | Columns::START;
            if !decode(columns, &mut batch) {
                continue;
            }
            for at in 0..batch.events {
                let at = if from_end { batch.events - 1 - at } else { at };
                if !is_gauge(&batch.kind[at]) {
                    continue;
                }
                for (reading, id) in found.iter_mut().zip(ids) {
                    if batch.name[at] == id && reading.is_none() {
                        *reading = Some(batch.value[at]);
                        tick = tick.max(batch.start[at]);
                    }
                }
            }
            if let [Some(drain), Some(sealer)] = found {
                return Some(Self { cpu_ns: drain.saturating_add(sealer), tick });
            }
        }
        None
    }
}
