//! Comma-separated values (RFC 4180): the rows of [`super::jsonl`], fields as one
//! JSON object in the last column. Nothing is an empty cell.

use std::io::Write;

use serde_json::Value;

use super::{Exporter, events::Source, jsonl::Row};
use crate::{Result, output::csv_quoted, scan::Order};

pub(super) struct Csv;

const HEADER: &str =
    "name,kind,track,track_kind,trace,start_ns,start_unix_ns,dur_ns,depth,status,value,link,fields";

impl Exporter for Csv {
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        writeln!(out, "{HEADER}")?;
        source.each(Order::Recorded, |event| line(out, Row::of(source, event)))?;
        for open in source.still_open()? {
            line(out, Row::of_open(source, &open))?;
        }
        Ok(())
    }
}

fn line(out: &mut dyn Write, row: Row) -> Result<()> {
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    let value = row.value.map(|value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    });
    let fields = (!row.fields.is_empty()).then(|| Value::Object(row.fields).to_string());
    writeln!(
        out,
        "{},{},{},{},{},{},{},{},{},{},{},{},{}",
        csv_quoted(&row.name),
        row.kind,
        csv_quoted(&row.track),
        row.track_kind,
        csv_quoted(&row.trace),
        row.start_ns,
        row.start_unix_ns,
        or_empty(row.dur_ns.map(|ns| ns.to_string())),
        row.depth,
        row.status,
        csv_quoted(&or_empty(value)),
        or_empty((row.link != 0).then(|| row.link.to_string())),
        csv_quoted(&or_empty(fields)),
    )?;
    Ok(())
}
