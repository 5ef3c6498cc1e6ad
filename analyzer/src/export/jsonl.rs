//! JSON lines: an object for each event, in the order of recording, and after them
//! one for each span that was still open, with the status `open` and no duration.

use std::io::Write;

use serde_json::{Map, Value};

use super::{
    Exporter,
    events::{Event, Source, StillOpen, track_kind_text},
    fields,
};
use crate::{Result, scan::Order};

/// What spans are that were open at the end.
pub(super) const OPEN: &str = "open";

pub(super) struct Jsonl;

impl Exporter for Jsonl {
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        source.each(Order::Recorded, |event| line(out, Row::of(source, event)))?;
        for open in source.still_open()? {
            line(out, Row::of_open(source, &open))?;
        }
        Ok(())
    }
}

/// What is told of an event, in the same order by every format of rows.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) track: String,
    pub(super) track_kind: &'static str,
    pub(super) trace: String,
    pub(super) start_ns: i64,
    pub(super) start_unix_ns: i64,
    pub(super) dur_ns: Option<i64>,
    pub(super) depth: u32,
    pub(super) status: String,
    pub(super) value: Option<Value>,
    pub(super) link: u32,
    pub(super) fields: Map<String, Value>,
}

impl Row {
    pub(super) fn of(source: &Source<'_>, event: &Event<'_>) -> Self {
        Self {
            name: event.name().to_owned(),
            kind: event.kind(),
            track: event.track(),
            track_kind: track_kind_text(source.track_kind(event.trace, event.record.track)),
            trace: source.traces().list[event.trace].label.clone(),
            start_ns: event.start_ns,
            start_unix_ns: event.unix_ns(),
            dur_ns: event.dur_ns(),
            depth: event.record.depth.into(),
            status: event.status(),
            value: event.value().map(|value| fields::json(source, event.trace, &value)),
            link: event.record.link,
            fields: fields::object(source, event.trace, &event.details()),
        }
    }

    pub(super) fn of_open(source: &Source<'_>, open: &StillOpen) -> Self {
        Self {
            name: source.name(open.trace, open.name).to_owned(),
            kind: open.kind(),
            track: source.track(open.trace, open.track),
            track_kind: track_kind_text(source.track_kind(open.trace, open.track)),
            trace: source.traces().list[open.trace].label.clone(),
            start_ns: open.start_ns,
            start_unix_ns: source.unix_ns(open.trace, open.start_ns),
            dur_ns: None,
            depth: open.depth.unwrap_or(0),
            status: OPEN.to_owned(),
            value: None,
            link: 0,
            fields: Map::new(),
        }
    }
}

/// What there is nothing to say about is left out.
fn line(out: &mut dyn Write, row: Row) -> Result<()> {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("name", row.name.into());
    put("kind", row.kind.into());
    put("track", row.track.into());
    put("track_kind", row.track_kind.into());
    put("trace", row.trace.into());
    put("start_ns", row.start_ns.into());
    put("start_unix_ns", row.start_unix_ns.into());
    if let Some(dur_ns) = row.dur_ns {
        put("dur_ns", dur_ns.into());
    }
    put("depth", row.depth.into());
    put("status", row.status.into());
    if let Some(value) = row.value {
        put("value", value);
    }
    if row.link != 0 {
        put("link", row.link.into());
    }
    if !row.fields.is_empty() {
        put("fields", row.fields.into());
    }
    serde_json::to_writer(&mut *out, &object).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
