//! What the readers of other formats have found, held compactly until all of it
//! is known: files are out of order, and a trace is in order.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use ringscope_format::{Kind, Link, OpenSpan, Status, TrackKind, ValueType};

use super::{decimal, json::Scalar, strings::Strings};
use crate::budget::Budget;

/// Kinds of things that were not understood are told apart up to so many.
const MOST_NOTES: usize = 40;
/// Fields of one event; the format has room for 31 slots.
const MOST_FIELDS: usize = 24;

/// The value of a field; 16 bytes with its key, as there are many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Field {
    bits: u64,
    /// Number of a text.
    pub(super) key: u32,
    of: FieldType,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum FieldType {
    U64,
    I64,
    F64,
    Bool,
    Text,
}

/// The same, taken apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FieldValue {
    U64(u64),
    I64(i64),
    F64(f64),
    Bool(bool),
    /// Number of a text.
    Text(u32),
}

impl Field {
    pub(super) fn new(key: u32, value: FieldValue) -> Self {
        let (of, bits) = match value {
            FieldValue::U64(n) => (FieldType::U64, n),
            FieldValue::I64(n) => (FieldType::I64, n as u64),
            FieldValue::F64(n) => (FieldType::F64, n.to_bits()),
            FieldValue::Bool(n) => (FieldType::Bool, u64::from(n)),
            FieldValue::Text(n) => (FieldType::Text, u64::from(n)),
        };
        Self { bits, key, of }
    }

    pub(super) fn value(self) -> FieldValue {
        match self.of {
            FieldType::U64 => FieldValue::U64(self.bits),
            FieldType::I64 => FieldValue::I64(self.bits as i64),
            FieldType::F64 => FieldValue::F64(f64::from_bits(self.bits)),
            FieldType::Bool => FieldValue::Bool(self.bits != 0),
            FieldType::Text => FieldValue::Text(self.bits as u32),
        }
    }
}

/// An event whose place in the trace is not known yet. Its name is the number of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// Nanoseconds on the clock of its file.
    pub(super) start: i64,
    /// A duration in nanoseconds, or the bits of a number.
    pub(super) value: u64,
    pub(super) name: u32,
    pub(super) track: u32,
    pub(super) link: u32,
    /// Its place in the files; of a pair, that of the beginning.
    pub(super) sequence: u32,
    /// Where its fields begin, and how many there are.
    pub(super) fields: (u32, u8),
    pub(super) kind: Kind,
    pub(super) status: Status,
    pub(super) value_type: ValueType,
}

impl Event {
    /// Something that takes time, without fields.
    pub(super) fn timed(kind: Kind, name: u32, track: u32, start: i64, duration: u64) -> Self {
        Self {
            start,
            value: duration,
            name,
            track,
            link: 0,
            sequence: 0,
            fields: (0, 0),
            kind,
            status: Status::UNKNOWN,
            value_type: ValueType::None,
        }
    }

    /// Something at an instant, with a number if it has one.
    pub(super) fn point(
        kind: Kind,
        name: u32,
        track: u32,
        at: i64,
        value: (ValueType, u64),
    ) -> Self {
        Self { value_type: value.0, ..Self::timed(kind, name, track, at, value.1) }
    }

    /// When it was over.
    pub(super) fn end(&self) -> i64 {
        if self.kind.is_timed() {
            self.start.saturating_add_unsigned(self.value)
        } else {
            self.start
        }
    }
}

/// A line of time.
#[derive(Clone, Debug)]
pub(super) struct Track {
    pub(super) kind: TrackKind,
    pub(super) os_id: u64,
    pub(super) name: String,
}

/// A point of an arrow between spans.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowPoint {
    pub(super) track: u32,
    pub(super) at: i64,
    pub(super) link: Link,
}

/// A span that never ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) start: i64,
    /// `start` is put in when the trace is written.
    pub(super) span: OpenSpan,
    pub(super) depth: u32,
}

/// Everything found so far.
#[derive(Default)]
pub(super) struct Collector {
    /// How much memory there is.
    pub(super) budget: Budget,
    pub(super) strings: Strings,
    pub(super) events: Vec<Event>,
    pub(super) fields: Vec<Field>,
    pub(super) tracks: Vec<Track>,
    pub(super) flows: Vec<FlowPoint>,
    /// Ids of events, by the number of the event. Their tracks count from 1, as in a trace.
    pub(super) links: Vec<(u32, Link)>,
    pub(super) open: Vec<Begun>,
    pub(super) metadata: BTreeMap<String, String>,
    /// Wall time of the clock's zero, if a file tells.
    pub(super) epoch_ns: Option<i64>,
    /// Things by what was not understood about them.
    pub(super) notes: BTreeMap<String, u64>,
    /// Events that were left out: each is in `notes`, too.
    pub(super) lost: u64,
    /// Why a file ended too early, if one did: how much is missing then, nobody knows.
    pub(super) cut: Option<String>,
    /// What a reader has to say beyond that.
    pub(super) remarks: Vec<String>,
    correlations: HashMap<u64, u32, RandomState>,
    last_link: u32,
    sequence: u32,
    /// Where the current file's events, arrows and open spans begin.
    file: (usize, usize, usize),
    /// How many files came before.
    files: u32,
    /// The run that the current file is a part of, if it shares its ids with others.
    run: Option<String>,
    /// Links by their ids, of runs that may have more files.
    runs: HashMap<String, HashMap<u64, u32, RandomState>>,
    /// Lines of time of such runs, by what they are called.
    run_tracks: HashMap<(String, bool), u32>,
}

impl Collector {
    /// An empty one.
    pub(super) fn within(budget: Budget) -> Self {
        Self { budget, ..Self::default() }
    }

    /// A new line of time; its name may come later.
    pub(super) fn track(&mut self, kind: TrackKind, os_id: u64, name: &str) -> u32 {
        self.tracks.push(Track { kind, os_id, name: name.to_owned() });
        self.tracks.len() as u32 - 1
    }

    /// A link that is the same for the same id in the same file.
    pub(super) fn link(&mut self, id: u64) -> u32 {
        *self.correlations.entry(id).or_insert_with(|| {
            self.last_link += 1;
            self.last_link
        })
    }

    /// Says that the current file is a part of a run: its ids are those of the run's other files.
    pub(super) fn enter_run(&mut self, run: &str) {
        self.correlations = self.runs.remove(run).unwrap_or_default();
        self.run = Some(run.to_owned());
    }

    /// The line of time of this name, also if another file of the run made it. A queue and a
    /// thread of the same name are two.
    pub(super) fn run_track(&mut self, kind: TrackKind, os_id: u64, name: &str) -> u32 {
        let key = (name.to_owned(), kind == TrackKind::GpuQueue);
        if let Some(&known) = self.run_tracks.get(&key) {
            return known;
        }
        let track = self.track(kind, os_id, name);
        self.run_tracks.insert(key, track);
        track
    }

    /// An id that no other group and no other file has.
    pub(super) fn own_id(&self, id: u64, group: u32) -> u128 {
        u128::from(id) | u128::from(group) << 64 | u128::from(self.files) << 96
    }

    /// The same for spans in flight, where there is less room.
    pub(super) fn open_id(&self, id: u64) -> u64 {
        // An odd factor: no two files get the same mask.
        id ^ u64::from(self.files).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Counts something that was not understood.
    pub(super) fn note(&mut self, what: &str) {
        self.note_many(what, 1);
    }

    /// Counts an event that is left out, and why.
    pub(super) fn lose(&mut self, what: &str) {
        self.lost += 1;
        self.note(what);
    }

    /// Says that a file ends too early, where and why.
    pub(super) fn cut_off(&mut self, why: String) {
        self.cut.get_or_insert_with(|| why.clone());
        self.remarks.push(why + "; what comes before it was taken");
    }

    pub(super) fn note_many(&mut self, what: &str, count: u64) {
        if count == 0 {
            return;
        }
        if let Some(sum) = self.notes.get_mut(what) {
            *sum += count;
        } else {
            let is_room = self.notes.len() < MOST_NOTES;
            let what = if is_room { what } else { "other things" };
            *self.notes.entry(what.to_owned()).or_default() += count;
        }
    }

    /// A time in units of `10^exponent` ns; what is finer is rounded and counted.
    pub(super) fn time(&mut self, text: &str, exponent: i32) -> Option<i64> {
        let exact = decimal::nanoseconds(text, exponent)?;
        if exact.is_finer {
            self.note("times finer than a nanosecond (rounded to it)");
        }
        // 146 years either way: sums of two stay within the format's ticks.
        (exact.ns.unsigned_abs() < 1 << 62).then_some(exact.ns)
    }

    /// Takes an event with its fields.
    pub(super) fn push(&mut self, mut event: Event, fields: &[Field]) {
        let kept = &fields[..fields.len().min(MOST_FIELDS)];
        self.note_many("arguments beyond 24 of one event", (fields.len() - kept.len()) as u64);
        event.fields = (self.fields.len() as u32, kept.len() as u8);
        self.fields.extend_from_slice(kept);
        event.sequence = self.next_sequence();
        self.events.push(event);
    }

    /// The place in the files of what comes next.
    pub(super) fn next_sequence(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }

    /// A field of a text.
    pub(super) fn text_field(&mut self, key: &str, text: &str) -> Field {
        let (key, text) = (self.strings.number(key), self.strings.number(text));
        Field::new(key, FieldValue::Text(text))
    }

    /// A field of a number.
    pub(super) fn number_field(&mut self, key: &str, value: FieldValue) -> Field {
        Field::new(self.strings.number(key), value)
    }

    /// A field of whatever JSON has; `None` of nothing. The key is the number of a text.
    pub(super) fn field(&mut self, key: u32, value: &Scalar<'_>) -> Option<Field> {
        let value = match value {
            Scalar::Null => return None,
            Scalar::Bool(value) => FieldValue::Bool(*value),
            Scalar::String(text) => FieldValue::Text(self.strings.number(text)),
            Scalar::Number(text) => {
                number(text).unwrap_or_else(|| FieldValue::Text(self.strings.number(text)))
            }
            Scalar::Nested(text) => {
                let text = String::from_utf8_lossy(text);
                FieldValue::Text(self.strings.number(&text))
            }
        };
        Some(Field::new(key, value))
    }

    /// Ends a file whose clock's zero was at `epoch_ns`: files that tell are put on
    /// one clock, and ids of the next one are its own.
    pub(super) fn end_file(&mut self, epoch_ns: Option<i64>) {
        let shift =
            epoch_ns.map_or(0, |epoch| epoch.saturating_sub(*self.epoch_ns.get_or_insert(epoch)));
        if shift != 0 {
            let (events, flows, open) = self.file;
            let move_by = |at: &mut i64| *at = at.saturating_add(shift);
            self.events[events..].iter_mut().for_each(|it| move_by(&mut it.start));
            self.flows[flows..].iter_mut().for_each(|it| move_by(&mut it.at));
            self.open[open..].iter_mut().for_each(|it| move_by(&mut it.start));
        }
        self.file = (self.events.len(), self.flows.len(), self.open.len());
        self.files += 1;
        let links = std::mem::take(&mut self.correlations);
        if let Some(run) = self.run.take() {
            self.runs.insert(run, links);
        }
    }
}

/// A number without rounding where that is possible.
pub(super) fn number(text: &str) -> Option<FieldValue> {
    if let Ok(n) = text.parse::<u64>() {
        return Some(FieldValue::U64(n));
    }
    if let Ok(n) = text.parse::<i64>() {
        return Some(FieldValue::I64(n));
    }
    let is_whole = text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    if is_whole { None } else { text.parse().ok().map(FieldValue::F64) }
}

/// The type and bits of a point's number.
pub(super) fn bits(value: FieldValue) -> (ValueType, u64) {
    match value {
        FieldValue::U64(n) => (ValueType::U64, n),
        FieldValue::I64(n) => (ValueType::I64, n as u64),
        FieldValue::F64(n) => (ValueType::F64, n.to_bits()),
        FieldValue::Bool(n) => (ValueType::Bool, u64::from(n)),
        FieldValue::Text(_) => (ValueType::None, 0),
    }
}
