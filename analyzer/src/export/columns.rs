//! Rows on their way into a columnar file: the rows of [`super::jsonl`], column by
//! column, with numbers in place of texts that repeat.
//!
//! | column | type | |
//! |---|---|---|
//! | `name`, `kind`, `track`, `track_kind`, `status` | text, from a dictionary | as in JSON lines |
//! | `trace`, `recording` | text, from a dictionary | file and id of the recording: of which trace |
//! | `start_ns`, `start_unix_ns` | 64-bit integer | since the trace's first event; since 1970 |
//! | `dur_ns` | 64-bit integer or null | of what takes time |
//! | `depth` | 32-bit integer | how many spans enclose it |
//! | `value` | double or null | the number of a counter, gauge or event |
//! | `value_int` | 64-bit integer or null | the same, if it is a whole one |
//! | `link` | 64-bit integer or null | the same in a kernel and its launch |
//! | `fields` | text or null | a JSON object |
//!
//! Times are integers and not timestamps, because Spark has none of nanoseconds, and
//! integers are signed, because it has no others. A value that neither number column
//! holds exactly, such as a name or the largest of unsigned integers, is the member
//! `value` of `fields`.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use ringscope_format::{Kind, OwnedValue, Status, TrackKind};
use serde_json::{Map, Value};

use super::{
    events::{Event, Source, StillOpen, kind_text, track_kind_text},
    fields,
    jsonl::OPEN,
};
use crate::{
    Result,
    scan::{Order, in_order},
};

/// Rows of one group: 20 MB in memory, and as many as Polars puts into one.
pub(super) const ROWS_IN_A_GROUP: usize = 1 << 18;

/// A column of what may be missing.
#[derive(Default)]
pub(super) struct Optional<T> {
    /// 1 where there is a value, as Parquet has it, and 0 elsewhere.
    pub(super) present: Vec<i16>,
    /// Those that are there.
    pub(super) values: Vec<T>,
}

impl<T> Optional<T> {
    fn push(&mut self, value: Option<T>) {
        self.present.push(value.is_some().into());
        self.values.extend(value);
    }
}

/// Texts of a dictionary. Rows that are still being encoded keep the state of theirs.
pub(super) type Texts = Arc<Vec<String>>;

/// Some rows.
#[derive(Default)]
pub(super) struct Rows {
    /// Indices into [`Dictionaries::names`].
    pub(super) name: Vec<u32>,
    pub(super) kind: Vec<u32>,
    /// Indices into `tracks`.
    pub(super) track: Vec<u32>,
    pub(super) track_kind: Vec<u32>,
    pub(super) status: Vec<u32>,
    pub(super) trace: Vec<u32>,
    pub(super) start_ns: Vec<i64>,
    pub(super) start_unix_ns: Vec<i64>,
    pub(super) dur_ns: Optional<i64>,
    pub(super) depth: Vec<i32>,
    pub(super) value: Optional<f64>,
    pub(super) value_int: Optional<i64>,
    pub(super) link: Optional<i64>,
    pub(super) fields: Optional<String>,
    /// As far as these rows need them.
    pub(super) tracks: Texts,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.name.len()
    }
}

/// What the numbers of texts stand for.
pub(super) struct Dictionaries<'a> {
    pub(super) names: &'a [String],
    pub(super) kinds: Vec<String>,
    pub(super) track_kinds: Vec<String>,
    pub(super) statuses: Vec<String>,
    /// By trace.
    pub(super) traces: Vec<String>,
    pub(super) recordings: Vec<String>,
}

/// The status of a span that was open at the end; the format's are below.
const STILL_OPEN: u32 = 16;

impl<'a> Dictionaries<'a> {
    pub(super) fn of(source: &Source<'a>) -> Self {
        let list = &source.traces().list;
        let statuses = (0..STILL_OPEN).map(|status| format!("{:?}", Status(status as u8)));
        let hex = |id: [u8; 16]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Self {
            names: &source.traces().names,
            kinds: (0..=0xFF).map(|kind| kind_text(Kind(kind))).collect(),
            track_kinds: TRACK_KINDS.map(|kind| track_kind_text(kind).to_owned()).to_vec(),
            statuses: statuses.chain([OPEN.to_owned()]).collect(),
            traces: list.iter().map(|loaded| loaded.label.clone()).collect(),
            recordings: list.iter().map(|it| hex(it.trace.header().recording)).collect(),
        }
    }
}

/// In the order of their numbers here.
const TRACK_KINDS: [TrackKind; 4] =
    [TrackKind::Thread, TrackKind::GpuQueue, TrackKind::Recorder, TrackKind::Other];

fn track_kind_number(kind: TrackKind) -> u32 {
    let other = TRACK_KINDS.len() - 1;
    TRACK_KINDS.iter().position(|it| *it == kind).unwrap_or(other) as u32
}

/// Makes groups of rows of events.
pub(super) struct Grouping<'a> {
    source: &'a Source<'a>,
    rows: Rows,
    /// By trace: number and kind of a track by its id.
    tracks: Vec<HashMap<u32, (u32, u32)>>,
    texts: Texts,
    numbers: HashMap<String, u32>,
    /// The last place that was looked up, for rows come in runs of one track.
    last: Option<((usize, u32), (u32, u32))>,
}

impl<'a> Grouping<'a> {
    pub(super) fn new(source: &'a Source<'a>) -> Self {
        let tracks = source.traces().list.iter().map(|_| HashMap::new()).collect();
        let (texts, numbers) = (Texts::default(), HashMap::new());
        Self { source, rows: Rows::default(), tracks, texts, numbers, last: None }
    }

    /// Shows all rows to `take`, a group at a time.
    pub(super) fn each(&mut self, mut take: impl FnMut(Rows) -> Result<()>) -> Result<()> {
        let source = self.source;
        source.each(Order::Recorded, |event| {
            self.event(event);
            if self.rows.len() >= ROWS_IN_A_GROUP { take(self.group()) } else { Ok(()) }
        })?;
        for open in source.still_open()? {
            self.open(&open);
        }
        if self.rows.len() == 0 { Ok(()) } else { take(self.group()) }
    }

    /// Looks ahead for tracks: the texts of all of them.
    pub(super) fn all_tracks(&mut self) -> Result<Texts> {
        let source = self.source;
        let columns = ringscope_format::Columns::TRACK;
        let look = |trace, _, batch: &ringscope_format::Batch| {
            batch.track.iter().for_each(|track| _ = self.track(trace, *track));
            Ok::<(), crate::Error>(())
        };
        in_order(source.traces(), columns, "tracks", Order::Recorded, |_, _| true, look)?;
        for open in source.still_open()? {
            self.track(open.trace, open.track);
        }
        Ok(Arc::clone(&self.texts))
    }

    fn group(&mut self) -> Rows {
        self.rows.tracks = Arc::clone(&self.texts);
        std::mem::take(&mut self.rows)
    }

    fn event(&mut self, event: &Event<'_>) {
        let (source, record, trace) = (self.source, &event.record, event.trace);
        let (track, track_kind) = self.track(trace, record.track);
        let details = event.details();
        let mut extra = Map::new();
        if !details.fields.is_empty() || !details.links.is_empty() {
            extra = fields::object(source, trace, &details);
        }
        let (mut value, mut value_int) = (None, None);
        if let Some(read) = event.value() {
            let is_exact;
            (value, value_int, is_exact) = numbers(source, trace, &read);
            if !is_exact {
                extra.entry("value").or_insert_with(|| fields::json(source, trace, &read));
            }
        }
        let rows = &mut self.rows;
        rows.name.push(source.traces().list[trace].name_index(record.name));
        rows.kind.push(record.kind.0.into());
        rows.track.push(track);
        rows.track_kind.push(track_kind);
        rows.status.push((record.status.0 & 0x0F).into());
        rows.trace.push(trace as u32);
        rows.start_ns.push(event.start_ns);
        rows.start_unix_ns.push(event.unix_ns());
        rows.dur_ns.push(event.dur_ns());
        rows.depth.push(record.depth.into());
        rows.value.push(value);
        rows.value_int.push(value_int);
        rows.link.push((record.link != 0).then_some(record.link.into()));
        rows.fields.push((!extra.is_empty()).then(|| Value::Object(extra).to_string()));
    }

    fn open(&mut self, open: &StillOpen) {
        let (source, trace) = (self.source, open.trace);
        let (track, track_kind) = self.track(trace, open.track);
        let kind = if open.depth.is_some() { Kind::SPAN } else { Kind::ASYNC_SPAN };
        let rows = &mut self.rows;
        rows.name.push(source.traces().list[trace].name_index(open.name));
        rows.kind.push(kind.0.into());
        rows.track.push(track);
        rows.track_kind.push(track_kind);
        rows.status.push(STILL_OPEN);
        rows.trace.push(trace as u32);
        rows.start_ns.push(open.start_ns);
        rows.start_unix_ns.push(source.unix_ns(trace, open.start_ns));
        rows.dur_ns.push(None);
        rows.depth.push(open.depth.unwrap_or(0) as i32);
        rows.value.push(None);
        rows.value_int.push(None);
        rows.link.push(None);
        rows.fields.push(None);
    }

    /// The number of a track and that of its kind.
    fn track(&mut self, trace: usize, id: u32) -> (u32, u32) {
        let place = (trace, id);
        if let Some((_, found)) = self.last.filter(|(last, _)| *last == place) {
            return found;
        }
        let found = match self.tracks[trace].entry(id) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let text = self.source.track(trace, id);
                let number = *self.numbers.entry(text).or_insert_with_key(|text| {
                    let texts = Arc::make_mut(&mut self.texts);
                    texts.push(text.clone());
                    texts.len() as u32 - 1
                });
                let kind = track_kind_number(self.source.track_kind(trace, id));
                *new.insert((number, kind))
            }
        };
        self.last = Some((place, found));
        found
    }
}

/// A value as a double and as a whole number, and whether these tell all of it.
fn numbers(
    source: &Source<'_>,
    trace: usize,
    value: &OwnedValue,
) -> (Option<f64>, Option<i64>, bool) {
    let whole = |n: i64| (Some(n as f64), Some(n), true);
    match *value {
        OwnedValue::U64(n) => i64::try_from(n).map_or((Some(n as f64), None, false), whole),
        OwnedValue::I64(n) => whole(n),
        OwnedValue::Bool(is) => whole(is.into()),
        OwnedValue::F64(n) => (Some(n), None, true),
        OwnedValue::Ticks(ticks) => (Some(source.length_ns(trace, ticks)), None, true),
        OwnedValue::Name(_) | OwnedValue::Text { .. } => (None, None, false),
    }
}
