//! How much memory a run had allocated at its worst moment, by device, from the events
//! `memory.allocate` and `memory.release`.
//!
//! A release takes what it does not say from the last allocation of its `id`. All of
//! these events are held at once, in the order of time.

use std::collections::HashMap;

use ringscope_format::{Batch, Columns, Names, OwnedValue, Record, parse_slots};

use super::run_summary::CounterSummary;
use crate::{
    Result,
    filter::Sieve,
    load::Traces,
    scan::{Visitor, scan},
};

/// What the peak is called.
const NAME: &str = "memory.allocated";

/// Peaks of the first trace, as gauges; none if nothing was allocated.
pub(super) fn peaks(traces: &Traces, sieve: &Sieve) -> Result<Vec<CounterSummary>> {
    let names = traces.list[0].trace.names();
    let id_of = |text: &str| names.iter().find(|(_, it)| *it == text).map(|(id, _)| id);
    let Some(allocate) = id_of("memory.allocate") else { return Ok(Vec::new()) };
    let vocabulary = Vocabulary {
        allocate,
        release: id_of("memory.release"),
        bytes: id_of("bytes"),
        device: id_of("device"),
        id: id_of("id"),
    };
    let columns = Columns::ALL;
    let workers = scan(traces, columns, "memory", || Collector {
        sieve,
        names,
        vocabulary: &vocabulary,
        found: Vec::new(),
    })?;
    let mut events: Vec<Event> = workers.into_iter().flat_map(|it| it.found).collect();
    events.sort_by_key(|it| it.start);
    Ok(of_events(&events))
}

/// Ids of the names that matter.
struct Vocabulary {
    allocate: u32,
    release: Option<u32>,
    bytes: Option<u32>,
    device: Option<u32>,
    id: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct Event {
    start: u64,
    is_release: bool,
    /// Empty for the host.
    device: String,
    id: Option<String>,
    bytes: Option<f64>,
}

struct Collector<'a> {
    sieve: &'a Sieve,
    names: &'a Names,
    vocabulary: &'a Vocabulary,
    found: Vec<Event>,
}

impl Visitor for Collector<'_> {
    fn chunk(&mut self, _: usize, batch: &Batch) {
        for (at, (record, slots)) in batch.records().enumerate() {
            let is_release = Some(record.name) == self.vocabulary.release;
            let is_either = is_release || record.name == self.vocabulary.allocate;
            if is_either && self.sieve.takes_record(batch, at) {
                self.found.push(self.event(&record, slots, is_release));
            }
        }
    }
}

impl Collector<'_> {
    fn event(&self, record: &Record, slots: &[Record], is_release: bool) -> Event {
        let mut event = Event { start: record.start, is_release, ..Event::default() };
        for (key, value) in parse_slots(slots).fields {
            let key = Some(key);
            if key == self.vocabulary.bytes {
                event.bytes = number(&value);
            } else if key == self.vocabulary.id {
                event.id = Some(self.text(&value));
            } else if key == self.vocabulary.device {
                event.device = self.text(&value);
            }
        }
        if event.device == "cpu" || event.device == "host" {
            event.device.clear();
        }
        event
    }

    fn text(&self, value: &OwnedValue) -> String {
        match value {
            OwnedValue::Name(id) => self.names.get(*id).unwrap_or_default().to_owned(),
            OwnedValue::Text { text, .. } => text.clone(),
            OwnedValue::U64(n) | OwnedValue::Ticks(n) => n.to_string(),
            OwnedValue::I64(n) => n.to_string(),
            OwnedValue::F64(n) => n.to_string(),
            OwnedValue::Bool(n) => n.to_string(),
        }
    }
}

fn number(value: &OwnedValue) -> Option<f64> {
    match *value {
        OwnedValue::U64(n) => Some(n as f64),
        OwnedValue::I64(n) => Some(n as f64),
        OwnedValue::F64(n) if n.is_finite() => Some(n),
        _ => None,
    }
}

/// Adds up and takes away in order.
fn of_events(events: &[Event]) -> Vec<CounterSummary> {
    /// What is allocated now, at most, and how many allocations there were.
    #[derive(Default)]
    struct Device {
        now: f64,
        most: f64,
        allocations: u64,
        sum: f64,
    }
    let mut devices: HashMap<&str, Device> = HashMap::new();
    // Where and how much, by id.
    let mut live: HashMap<&str, (&str, f64)> = HashMap::new();
    for event in events {
        let (mut device, mut bytes) = (event.device.as_str(), event.bytes);
        if event.is_release {
            let allocated = event.id.as_deref().and_then(|id| live.remove(id));
            if let Some((place, size)) = allocated {
                bytes = bytes.or(Some(size));
                device = if device.is_empty() { place } else { device };
            }
            devices.entry(device).or_default().now -= bytes.unwrap_or(0.0);
        } else {
            let bytes = bytes.unwrap_or(0.0);
            if let Some(id) = &event.id {
                live.insert(id, (device, bytes));
            }
            let of = devices.entry(device).or_default();
            of.allocations += 1;
            of.sum += bytes;
            of.now += bytes;
            of.most = of.most.max(of.now);
        }
    }
    let peak = |(device, of): (&str, Device)| CounterSummary {
        name: if device.is_empty() { NAME.to_owned() } else { format!("{NAME} on {device}") },
        count: of.allocations,
        sum: of.sum,
        max: of.most,
        adds_up: false,
    };
    devices.into_iter().filter(|(_, of)| of.allocations > 0).map(peak).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, bytes: Option<f64>, is_release: bool, device: &str) -> Event {
        let id = (!id.is_empty()).then(|| id.to_owned());
        Event { id, bytes, is_release, device: device.to_owned(), start: 0 }
    }

    #[test]
    fn the_peak_is_the_most_that_was_allocated_at_once() {
        let found = of_events(&[
            event("a", Some(100.0), false, ""),
            event("b", Some(50.0), false, ""),
            event("a", None, true, ""),
            event("", Some(20.0), false, ""),
            event("", Some(20.0), true, ""),
            event("c", Some(7.0), false, "gpu0"),
            event("c", None, true, ""),
            event("d", Some(6.0), false, "gpu0"),
        ]);
        let mut peaks: Vec<(&str, f64)> =
            found.iter().map(|it| (it.name.as_str(), it.max)).collect();
        peaks.sort_by(|a, b| a.0.cmp(b.0));
        assert_eq!(peaks, [("memory.allocated", 150.0), ("memory.allocated on gpu0", 7.0)]);
    }

    #[test]
    fn a_release_of_what_nobody_allocated_is_no_peak() {
        assert!(
            of_events(&[event("x", None, true, ""), event("", Some(5.0), true, "")]).is_empty()
        );
    }
}
