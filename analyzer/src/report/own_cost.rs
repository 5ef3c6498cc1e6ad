//! What the recorder's own threads cost the process, by its own last readings.
//! What a span costs the thread that records it is not in them.

use ringscope_format::{Batch, Columns, Kind};

use super::about;
use crate::load::Loaded;

/// CPU time of the recorder's own threads, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OwnCost(f64);

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
        let mut found = [None; 2];
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
            if !decode(Columns::KIND | Columns::NAME | Columns::VALUE, &mut batch) {
                continue;
            }
            for at in (0..batch.events).rev().filter(|&at| is_gauge(&batch.kind[at])) {
                for (reading, id) in found.iter_mut().zip(ids) {
                    if Some(batch.name[at]) == id {
                        reading.get_or_insert(batch.value[at]);
                    }
                }
            }
            if found[0].is_some() && found[1].is_some() {
                break;
            }
        }
        Some(Self(found[0]? as f64 + found[1]? as f64))
    }

    /// In a sentence.
    pub(super) fn in_words(self, length_ns: f64) -> String {
        let mut text =
            format!("the recorder's own threads took {} of CPU time", about::in_words(self.0));
        if length_ns > 0.0 {
            text.push_str(&format!(", {:.2} % of a core", 100.0 * self.0 / length_ns));
        }
        text
    }

    /// For machines.
    pub(super) fn json(self) -> serde_json::Value {
        serde_json::json!({ "recorder_cpu_ns": self.0 })
    }
}
