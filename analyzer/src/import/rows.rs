//! Tables of events, one a row, by the names of their columns. CSV and JSON lines
//! differ only in how they are written.
//!
//! | column | |
//! |---|---|
//! | `name` | what it is called; needed |
//! | `start_ns` | when it started; needed. `_us`, `_ms` and `_s` will do, and `ts_` for `start_` |
//! | `dur_ns` or `end_ns` | how long it took; a row without is an instant |
//! | `track` | its thread or queue |
//! | `kind` | `span`, `async`, `kernel`, `copy`, `fill`, `launch`, `event`, `counter`, `gauge`, `error` |
//! | `status` | `ok`, `error`, `cancelled` |
//! | `link` or `correlation` | the same number in a kernel and its launch |
//! | `value` | the number of a counter or gauge |
//!
//! Every other column is a field; exports of our own are for [`super::exported`].

use std::collections::HashMap;

use ringscope_format::{Kind, Status, TrackKind};

use super::{
    collector::{Collector, Event, Field, bits, number},
    exported::Exported,
    json::Scalar,
};
#[cfg(feature = "parquet")]
use crate::budget::Budget;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    /// Times in units of `10^n` ns.
    Start(i32),
    End(i32),
    Duration(i32),
    Track,
    Kind,
    Status,
    Link,
    Value,
    Other,
}

impl Column {
    pub(super) fn of(header: &str) -> Self {
        let header = header.trim().to_lowercase();
        match header.as_str() {
            "name" => return Column::Name,
            "track" | "thread" => return Column::Track,
            "kind" => return Column::Kind,
            "status" => return Column::Status,
            "link" | "correlation" => return Column::Link,
            "value" => return Column::Value,
            _ => {}
        }
        let Some((what, unit)) = header.rsplit_once('_') else { return Column::Other };
        let exponent = match unit {
            "ns" => 0,
            "us" => 3,
            "ms" => 6,
            "s" => 9,
            _ => return Column::Other,
        };
        match what {
            "start" | "ts" => Column::Start(exponent),
            "end" => Column::End(exponent),
            "dur" | "duration" => Column::Duration(exponent),
            _ => Column::Other,
        }
    }
}

/// Whether these are the columns of events.
pub(super) fn are_columns<'a>(headers: impl Iterator<Item = &'a str>) -> bool {
    missing(headers).is_none()
}

/// Which columns events need and these are not.
pub(super) fn missing<'a>(headers: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    let columns: Vec<Column> = headers.map(Column::of).collect();
    let has_start = columns.iter().any(|it| matches!(it, Column::Start(_)));
    match (columns.contains(&Column::Name), has_start) {
        (true, true) => None,
        (false, true) => Some("`name`"),
        (true, false) => Some("`start_ns`"),
        (false, false) => Some("`name` and `start_ns`"),
    }
}

/// Takes rows.
pub(super) struct Rows<'a> {
    found: &'a mut Collector,
    prefix: &'a str,
    tracks: HashMap<(String, bool), u32>,
    columns: HashMap<String, (Column, u32)>,
    pub(super) rows: u64,
    /// What one of them is called: a line, a row.
    place: &'static str,
    has_remarked: bool,
    /// Whether these are an export of ours; the first row tells.
    is_export: Option<bool>,
    exported: Exported,
}

impl<'a> Rows<'a> {
    pub(super) fn new(found: &'a mut Collector, prefix: &'a str) -> Self {
        Self {
            found,
            prefix,
            tracks: HashMap::new(),
            columns: HashMap::new(),
            rows: 0,
            place: "line",
            has_remarked: false,
            is_export: None,
            exported: Exported::default(),
        }
    }

    /// The same for a file whose rows are no lines.
    pub(super) fn numbered(found: &'a mut Collector, prefix: &'a str) -> Self {
        Self { place: "row", ..Self::new(found, prefix) }
    }

    /// Takes a row, or counts why not. `line` is where it is in the file.
    pub(super) fn row(&mut self, line: u64, cells: &[(&str, Scalar<'_>)]) {
        self.rows += 1;
        let headers = || cells.iter().map(|(header, _)| *header);
        let taken = if *self.is_export.get_or_insert_with(|| Exported::is_it(headers())) {
            self.exported.take(self.found, cells)
        } else {
            self.take(cells)
        };
        if let Err(why) = taken {
            self.skip(line, why);
        }
    }

    /// How much memory there is.
    #[cfg(feature = "parquet")]
    pub(super) fn budget(&self) -> Budget {
        self.found.budget
    }

    /// Says that the file ends too early.
    pub(super) fn cut_off(&mut self, why: String) {
        self.found.cut_off(why);
    }

    /// Ends the table: the wall time of its clock's zero, if told.
    pub(super) fn finish(self) -> Option<i64> {
        self.exported.finish(self.found, self.prefix)
    }

    /// Counts a row that could not be read; the first is said with its place.
    pub(super) fn skip(&mut self, line: u64, why: &str) {
        self.found.lose(&format!("rows left out: {why}"));
        if !self.has_remarked {
            self.has_remarked = true;
            self.found.remarks.push(format!("{} {line}: {why}", self.place));
        }
    }

    fn take(&mut self, cells: &[(&str, Scalar<'_>)]) -> Result<(), &'static str> {
        let mut fields: Vec<Field> = Vec::new();
        let (mut name, mut track, mut kind, mut status) = (None, None, None, Status::UNKNOWN);
        let (mut start, mut end, mut duration) = (None, None, None);
        let mut should_last = false;
        let (mut link, mut value) = (0, Default::default());
        for (header, cell) in cells {
            let (column, key) = self.column(header);
            let mut time = |text: Option<&str>, exponent| match text {
                None | Some("") => Ok(None),
                Some(text) => match self.found.time(text, exponent) {
                    Some(ns) => Ok(Some(ns)),
                    None => Err("a time that is no number within 146 years"),
                },
            };
            match column {
                Column::Name => name = cell.text().filter(|text| !text.is_empty()),
                Column::Start(exponent) => start = time(cell.text(), exponent)?,
                Column::End(exponent) | Column::Duration(exponent) => {
                    should_last = true;
                    let time = time(cell.text(), exponent)?;
                    *(if matches!(column, Column::End(_)) { &mut end } else { &mut duration }) =
                        time;
                }
                Column::Track => track = cell.text().map(str::to_owned),
                Column::Kind => {
                    let text = cell.text().unwrap_or_default().trim();
                    kind = kind_of(text);
                    if kind.is_none() && !text.is_empty() {
                        self.found.note("rows of an unknown kind (taken as spans, or events)");
                    }
                }
                Column::Status => {
                    let text = cell.text().unwrap_or_default().trim();
                    status = status_of(text).unwrap_or(Status::UNKNOWN);
                    if status_of(text).is_none() {
                        self.found.note("unknown statuses (left out)");
                    }
                }
                Column::Link => {
                    let id = cell.text().and_then(|text| text.parse().ok()).filter(|&id| id != 0);
                    link = id.map_or(0, |id| self.found.link(id));
                }
                Column::Value => {
                    value = cell.text().and_then(number).map(bits).unwrap_or_default();
                }
                Column::Other => {
                    if cell.text() != Some("") {
                        fields.extend(self.found.field(key, cell));
                    }
                }
            }
        }
        let name = self.found.strings.number(name.ok_or("no name")?);
        let start = start.ok_or("no start")?;
        let duration = duration.or_else(|| end.map(|end| end.saturating_sub(start)));
        if duration.is_none() && kind.map_or(should_last, Kind::is_timed) {
            let taken_as = if kind.is_some() { "0" } else { "instants" };
            self.found.note(&format!("rows without a duration (taken as {taken_as})"));
        }
        let kind = kind.unwrap_or(if duration.is_some() { Kind::SPAN } else { Kind::EVENT });
        let is_device = matches!(kind, Kind::KERNEL | Kind::COPY | Kind::FILL);
        let other = if is_device { "GPU 0" } else { "main" };
        let track = track.filter(|text| !text.is_empty()).unwrap_or_else(|| other.to_owned());
        let track = self.track(track, is_device);
        let mut event = if kind.is_timed() {
            if duration.is_some_and(|ns| ns < 0) {
                self.found.note("negative durations (taken as 0)");
            }
            Event::timed(kind, name, track, start, duration.unwrap_or(0).max(0) as u64)
        } else {
            Event::point(kind, name, track, start, value)
        };
        (event.link, event.status) = (link, status);
        self.found.push(event, &fields);
        Ok(())
    }

    fn column(&mut self, header: &str) -> (Column, u32) {
        if let Some(&known) = self.columns.get(header) {
            return known;
        }
        let key = self.found.strings.number(&header.trim().to_lowercase());
        let column = (Column::of(header), key);
        self.columns.insert(header.to_owned(), column);
        column
    }

    /// A queue and a thread of the same name are two.
    fn track(&mut self, name: String, is_device: bool) -> u32 {
        let Self { found, tracks, prefix, .. } = self;
        let key = (name, is_device);
        if let Some(&known) = tracks.get(&key) {
            return known;
        }
        let kind = if is_device { TrackKind::GpuQueue } else { TrackKind::Thread };
        let track = found.track(kind, 0, &format!("{prefix}{}", key.0));
        tracks.insert(key, track);
        track
    }
}

/// `None` leaves it to the row.
fn kind_of(text: &str) -> Option<Kind> {
    Some(match text.to_lowercase().as_str() {
        "span" => Kind::SPAN,
        "async" | "async span" | "async_span" => Kind::ASYNC_SPAN,
        "slice" => Kind::SLICE,
        "task" => Kind::TASK,
        "reused span" => Kind::REUSED,
        "kernel" => Kind::KERNEL,
        "copy" | "memcpy" => Kind::COPY,
        "fill" | "memset" => Kind::FILL,
        "launch" => Kind::LAUNCH,
        "event" => Kind::EVENT,
        "counter" => Kind::COUNTER,
        "gauge" => Kind::GAUGE,
        "error" => Kind::ERROR,
        _ => return None,
    })
}

/// `None` of what is not understood.
fn status_of(text: &str) -> Option<Status> {
    Some(match text.to_lowercase().as_str() {
        "ok" => Status::OK,
        "error" => Status::ERROR,
        "cancelled" | "canceled" => Status::CANCELLED,
        "" | "unknown" => Status::UNKNOWN,
        _ => return None,
    })
}
