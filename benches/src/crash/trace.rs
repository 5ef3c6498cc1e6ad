//! What a trace says of a killed child, in the terms of the account. The only
//! place here that knows the reader.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ringscope_format::{Columns, Kind, Loss, OwnedValue, Vitals, parse_slots};

use super::load::NAMES;

/// A finished span.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) track: u32,
    /// The level whose name it bears, if any.
    pub(crate) level: Option<u8>,
    /// Counter ticks.
    pub(crate) start: u64,
    pub(crate) duration: u64,
    /// Its field.
    pub(crate) value: u64,
}

/// A span that was open at the end.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    /// The level whose name it bears, if any.
    pub(crate) level: Option<u8>,
    /// Counter ticks.
    pub(crate) start: u64,
}

#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) spans: Vec<Recorded>,
    /// By track, outermost first.
    pub(crate) in_flight: HashMap<u32, Vec<OpenSpan>>,
    /// Events that it says did not make it.
    pub(crate) lost: u64,
}

/// Reads everything that can be read, as a user's tool would. A damaged chunk
/// is an error here: this file was cut short, not damaged.
pub(crate) fn read(path: &Path) -> Result<Trace> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let trace = ringscope_format::Trace::open(file)?;
    ensure!(trace.damage().is_empty(), "damaged: {:?}", trace.damage());
    let names: HashMap<u32, u8> = trace
        .names()
        .iter()
        .filter_map(|(id, text)| {
            let level = NAMES.iter().position(|name| *name == text)?;
            Some((id, level as u8))
        })
        .collect();

    // The same counts come twice, in the chunks and in the header; death may
    // have come between the two.
    let told = trace.losses().iter().filter(|loss| loss.class == Loss::LOST);
    let told: u64 = told.map(|loss| loss.events).sum();
    let lost = told.max(trace.vitals().map_or(0, Vitals::total_lost));
    let mut read = Trace { lost, ..Trace::default() };
    for chunk in trace.chunks() {
        let batch = trace.decode(chunk, Columns::ALL)?;
        for (record, slots) in batch.records() {
            // The recorder's own readings are in the trace as well.
            if record.kind != Kind::SPAN || !names.contains_key(&record.name) {
                continue;
            }
            let value = parse_slots(slots).fields.into_iter().find_map(|(_, value)| match value {
                OwnedValue::U64(value) => Some(value),
                _ => None,
            });
            read.spans.push(Recorded {
                track: record.track,
                level: names.get(&record.name).copied(),
                start: record.start,
                duration: record.value,
                value: value.context("a span without its number")?,
            });
        }
    }
    for stack in trace.in_flight()? {
        let open = stack
            .spans
            .iter()
            .map(|span| OpenSpan { level: names.get(&span.name).copied(), start: span.start });
        read.in_flight.insert(stack.track, open.collect());
    }
    Ok(read)
}
