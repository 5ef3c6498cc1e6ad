//! Tables that `analyze export` wrote, read back: CSV, JSON lines, Parquet and Arrow have
//! the same columns.
//!
//! Beside the columns of [`super::rows`] they tell the wall time (`start_unix_ns`), of which
//! trace a row is, of what kind its track is and how deep a span lies; `fields` is a JSON object
//! of all fields, and spans that were open at the end have the status `open`. Traces that were
//! exported together come on one clock, and their tracks are told apart by their names.
//!
//! What does not come back: threads' numbers, the process, what was lost, the clock's own
//! resolution, the type of a whole number (signed or not, a flag), that a field was a duration, and
//! how deep something lies in a span that was still open.

use std::collections::HashMap;

use ringscope_format::{Kind, Link, LinkRole, OpenSpan, Status, TrackKind, ValueType};

use super::{
    collector::{Begun, Collector, Event, Field, bits, number},
    json::{Reader, Scalar},
};

/// A row's cells, as far as they are there.
#[derive(Default)]
struct Row<'a> {
    name: Option<&'a str>,
    kind: &'a str,
    track: &'a str,
    track_kind: &'a str,
    trace: &'a str,
    status: &'a str,
    start: Option<i64>,
    unix: Option<i64>,
    duration: Option<i64>,
    depth: u32,
    link: Option<u64>,
    value: (ValueType, u64),
}

/// What holds for all rows of a table.
#[derive(Default)]
pub(super) struct Exported {
    /// By trace, name and kind.
    tracks: HashMap<(String, String, TrackKind), u32>,
    traces: Vec<String>,
    /// Wall time of the clock's zero: the first row's trace began then.
    epoch_ns: Option<i64>,
}

impl Exported {
    /// Whether these are the columns of an export.
    pub(super) fn is_it<'a>(headers: impl Iterator<Item = &'a str>) -> bool {
        let own = ["start_unix_ns", "trace", "depth"];
        headers.filter(|header| own.contains(header)).count() == own.len()
    }

    /// Takes a row.
    pub(super) fn take(
        &mut self,
        found: &mut Collector,
        cells: &[(&str, Scalar<'_>)],
    ) -> Result<(), &'static str> {
        let mut row = Row::default();
        let mut packed = None;
        for (header, cell) in cells {
            let text = cell.text().filter(|text| !text.is_empty());
            let mut time = || match text {
                None => Ok(None),
                Some(text) => found.time(text, 0).map(Some).ok_or(NO_TIME),
            };
            match *header {
                "name" => row.name = cell.text(),
                "start_ns" => row.start = time()?,
                "start_unix_ns" => row.unix = time()?,
                "dur_ns" => row.duration = time()?,
                "kind" => row.kind = text.unwrap_or_default(),
                "track" => row.track = text.unwrap_or_default(),
                "track_kind" => row.track_kind = text.unwrap_or_default(),
                "trace" => row.trace = text.unwrap_or_default(),
                "status" => row.status = text.unwrap_or_default(),
                "depth" => row.depth = text.and_then(|it| it.parse().ok()).unwrap_or(0),
                "link" => row.link = text.and_then(|it| it.parse().ok()).filter(|&id| id != 0),
                "value" if row.value.0 == ValueType::None => {
                    row.value = match cell {
                        Scalar::Bool(is) => (ValueType::Bool, u64::from(*is)),
                        _ => text.and_then(float).map(bits).unwrap_or_default(),
                    };
                }
                "value_int" => {
                    row.value = text.and_then(number).map(bits).unwrap_or(row.value);
                }
                "fields" => {
                    packed = match cell {
                        Scalar::Nested(json) => Some(*json),
                        _ => text.map(str::as_bytes),
                    };
                }
                _ => {}
            }
        }
        let kind = kind_of(row.kind).unwrap_or(Kind::EVENT);
        let track = self.track(found, &row);
        let mut links = Vec::new();
        let fields = match packed {
            Some(json) => unpack(found, json, kind, &mut row.value, &mut links)?,
            None => Vec::new(),
        };
        let name = found.strings.number(row.name.ok_or("no name")?);
        let start = self.start(&row).ok_or("no start")?;
        if row.status == "open" {
            let is_async = kind == Kind::ASYNC_SPAN;
            let depth = if is_async { u32::MAX } else { row.depth };
            let span = OpenSpan { start: 0, id: 0, name, track };
            found.open.push(Begun { start, span, depth });
            return Ok(());
        }
        let mut event = if kind.is_timed() {
            Event::timed(kind, name, track, start, row.duration.unwrap_or(0).max(0) as u64)
        } else {
            Event::point(kind, name, track, start, row.value)
        };
        event.link = row.link.map_or(0, |id| found.link(id));
        event.status = status_of(row.status);
        found.push(event, &fields);
        let at = found.events.len() as u32 - 1;
        // Of spans that begin and end together the outer one is the parent; rows have the
        // inner ones first.
        found.events[at as usize].sequence = row.depth;
        found.links.extend(links.into_iter().map(|link| (at, link)));
        Ok(())
    }

    /// On the clock of the first row's trace, which is the same for all.
    fn start(&mut self, row: &Row<'_>) -> Option<i64> {
        let (start, unix) = (row.start?, row.unix?);
        let epoch = *self.epoch_ns.get_or_insert(unix.saturating_sub(start));
        Some(unix.saturating_sub(epoch))
    }

    fn track(&mut self, found: &mut Collector, row: &Row<'_>) -> u32 {
        let kind = track_kind_of(row.track_kind);
        let key = (row.trace.to_owned(), row.track.to_owned(), kind);
        *self.tracks.entry(key).or_insert_with_key(|(trace, track, kind)| {
            if !self.traces.contains(trace) {
                self.traces.push(trace.clone());
            }
            found.track(*kind, 0, track)
        })
    }

    /// Ends the table: the wall time of its clock's zero.
    pub(super) fn finish(self, found: &mut Collector, prefix: &str) -> Option<i64> {
        for ((trace, _, _), track) in &self.tracks {
            let name = &mut found.tracks[*track as usize].name;
            let of_several = self.traces.len() > 1;
            let trace = if of_several { format!("{trace}: ") } else { String::new() };
            *name = format!("{prefix}{trace}{name}");
        }
        self.epoch_ns
    }
}

const NO_TIME: &str = "a time that is no number within 146 years";

/// A whole number is one, and also `NaN` and infinities are numbers here.
fn float(text: &str) -> Option<super::collector::FieldValue> {
    number(text).or_else(|| text.parse().ok().map(super::collector::FieldValue::F64))
}

/// Takes the object of all fields apart. A member that stands for the value is no field,
/// nor are ids.
fn unpack(
    found: &mut Collector,
    json: &[u8],
    kind: Kind,
    value: &mut (ValueType, u64),
    links: &mut Vec<Link>,
) -> Result<Vec<Field>, &'static str> {
    let mut fields = Vec::new();
    let read = Reader::new(json).object(|key, reader| {
        let member = reader.scalar()?;
        if let Some(link) = member.text().and_then(|id| link_of(&key, id)) {
            links.push(link);
        } else if key == "value" && kind.is_point() && matches!(member, Scalar::Number(_)) {
            *value = member.text().and_then(number).map(bits).unwrap_or(*value);
        } else {
            let key = found.strings.number(&key);
            fields.extend(found.field(key, &member));
        }
        Ok(())
    });
    read.map(|()| fields).map_err(|_| "`fields` that are no JSON object")
}

pub(super) fn link_of(key: &str, id: &str) -> Option<Link> {
    // The same key again has a number behind it.
    let role = match key.split(' ').next()? {
        "link.own" => LinkRole::Own,
        "link.parent" => LinkRole::Parent,
        "link.follows_from" => LinkRole::FollowsFrom,
        "link.request" => LinkRole::Request,
        _ => return None,
    };
    let id = u128::from_str_radix(id, 16).ok().filter(|_| id.len() == 32)?;
    Some(Link { id, track: 0, role })
}

/// As the format calls it, or by its number.
pub(super) fn kind_of(text: &str) -> Option<Kind> {
    let hex = |digits: &str| u8::from_str_radix(digits, 16).ok().map(Kind);
    let named = || (0x01..=0x7F).map(Kind).find(|kind| kind.name() == Some(text));
    named().or_else(|| text.strip_prefix("kind 0x").and_then(hex)).filter(|kind| kind.is_base())
}

pub(super) fn status_of(text: &str) -> Status {
    match text {
        "ok" => Status::OK,
        "error" => Status::ERROR,
        "cancelled" => Status::CANCELLED,
        other => {
            let number = other.strip_prefix("status ").and_then(|it| it.parse().ok());
            Status(number.unwrap_or(0) & 0x0F)
        }
    }
}

pub(super) fn track_kind_of(text: &str) -> TrackKind {
    match text {
        "queue" => TrackKind::GpuQueue,
        "recorder" => TrackKind::Recorder,
        "other" => TrackKind::Other,
        _ => TrackKind::Thread,
    }
}
