//! What the recorder's own threads cost the process, by its own last readings.
//! What a span costs the thread that records it is not in them.

use ringscope_format::{Batch, Columns, Kind};

use super::about;
use crate::load::Loaded;

/// CPU time of the recorder's own threads, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OwnCost {
    cpu_ns: f64,
    /// From the start of the recording to the reading: a dump or a part of a trace may show
    /// less than that. None if that was much earlier than the last sign of life, or the
    /// recording so short that starting and ending it is most of what it cost.
    within_ns: Option<f64>,
}

/// Recordings from this length on have a share that means something.
const LONG_ENOUGH_NS: f64 = 1e9;

const DRAIN: &str = "recorder.drain_cpu_ns";
const SEALER: &str = "recorder.sealer_cpu_ns";

impl OwnCost {
    /// Looks for the last readings from the end of the trace on; they only grow.
    pub(super) fn of(loaded: &Loaded) -> Option<Self> {
        let ids = [DRAIN, SEALER].map(|wanted| {
            let found = loaded.trace.names().iter().find(|(_, text)| *text == wanted);
            found.map(|(id, _)| id)
        });
        if ids[0].is_none() || ids[1].is_none() {
            return None;
        }
        let (mut found, mut last) = ([None; 2], 0);
        let mut batch = Batch::default();
        let is_gauge = |kind: &u8| Kind(*kind) == Kind::GAUGE;
        for chunk in loaded.trace.chunks().iter().rev() {
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
            for at in (0..batch.events).rev().filter(|&at| is_gauge(&batch.kind[at])) {
                for (reading, id) in found.iter_mut().zip(ids) {
                    if Some(batch.name[at]) == id {
                        reading.get_or_insert(batch.value[at]);
                        last = last.max(batch.start[at]);
                    }
                }
            }
            if found[0].is_some() && found[1].is_some() {
                break;
            }
        }
        let begun = loaded.trace.header().created_tick;
        let until_last = last.saturating_sub(begun);
        let alive = loaded.trace.vitals().map_or(0, |vitals| vitals.tick.saturating_sub(begun));
        let within_ns = loaded.trace.clock().ns(until_last);
        let tells = alive / 2 <= until_last && within_ns >= LONG_ENOUGH_NS;
        Some(Self {
            cpu_ns: found[0]? as f64 + found[1]? as f64,
            within_ns: tells.then_some(within_ns),
        })
    }

    /// In a sentence.
    pub(super) fn in_words(self) -> String {
        let cpu = about::in_words(self.cpu_ns);
        let mut text = format!("the recorder's own threads took {cpu} of CPU time");
        if let Some(within_ns) = self.within_ns {
            let share = 100.0 * self.cpu_ns / within_ns;
            text.push_str(&format!(", {share:.2} % of a core"));
        }
        text
    }

    /// For machines.
    pub(super) fn json(self) -> serde_json::Value {
        serde_json::json!({ "recorder_cpu_ns": self.cpu_ns })
    }
}
