//! Chrome trace events, as browsers, Perfetto, PyTorch and many others write them:
//! an array of events, or an object with such an array under `traceEvents`.
//!
//! Times are microseconds in decimal and are taken digit by digit. The array may
//! end anywhere: writers that are killed leave it open. Beginnings and ends are
//! paired in [`pairing`]; what PyTorch means by its categories is in [`kineto`], and XLA by its
//! processes in [`xla`]; exports of our own are for [`own`].
//! Samples, object snapshots and memory dumps have no place in a trace; they are counted.

mod arguments;
mod event;
mod kineto;
mod naming;
mod own;
mod pairing;
mod points;
mod reading;
mod xla;

use std::collections::HashMap;

use ringscope_format::{Kind, TrackKind};

use self::{
    arguments::Keys,
    event::{RawEvent, id_of},
    pairing::Edge,
};
use super::{
    collector::{Collector, Event, Field},
    json::{Fault, Reader, Scalar},
};

/// Metadata longer than this is not worth keeping.
const LONGEST_METADATA: usize = 2_000;
/// Bytes of a text argument that are kept; an event's slots take fewer.
const LONGEST_TEXT: usize = 1_000;

/// A line of time, by the numbers of its ids' texts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Line {
    Thread(u32, u32),
    /// A device and its queue.
    Queue(u32, u32),
    /// Ranges that somebody marked on a queue.
    Annotations(u32, u32),
    /// Of a process.
    Counters(u32),
}

/// Reads one file.
pub(super) struct Chrome<'a> {
    found: &'a mut Collector,
    lines: HashMap<Line, u32>,
    processes: HashMap<u32, String>,
    threads: HashMap<(u32, u32), String>,
    edges: Vec<Edge>,
    async_edges: Vec<Edge>,
    /// What async events are paired by: category, id and process.
    async_groups: HashMap<(u32, u32, u32), u32>,
    keys: Keys,
    /// The process and thread of the last event and 1 + their line: mostly those of the next.
    last_thread: (String, String, u32),
    scratch: Vec<Field>,
    is_kineto: bool,
    has_xla_devices: bool,
    is_own: bool,
    /// Tracks by process and thread, in files of our own.
    parts: HashMap<(u32, u32), own::Part>,
    /// Events in the file, understood or not.
    events: u64,
    /// Where the event that is being taken begins.
    begin: usize,
    has_remarked: bool,
}

/// What one file turned out to be.
pub(super) struct Read {
    pub(super) format: &'static str,
    pub(super) epoch_ns: Option<i64>,
}

/// Whether a text is an array of events, or an object with such an array.
pub(super) fn is_chrome(text: &[u8]) -> bool {
    let mut reader = Reader::new(text);
    if reader.take(b'[') {
        return is_array_of_events(&mut reader);
    }
    let mut is_known = false;
    // Known as soon as the key is seen; what is cut before it may have been one.
    let _ = reader.object(|key, reader| {
        is_known |= matches!(&*key, "traceEvents" | "deviceProperties");
        if is_known { Err(Fault::CutOff) } else { reader.skip() }
    });
    is_known
}

/// One of the first entries has a phase; or there is none that is whole.
fn is_array_of_events(reader: &mut Reader<'_>) -> bool {
    if !matches!(reader.peek(), None | Some(b'{' | b']')) {
        return false;
    }
    let mut has_others = false;
    for _ in 0..16 {
        while reader.take(b',') {}
        if !matches!(reader.peek(), Some(b'{')) {
            break;
        }
        let (mut has_phase, mut keys) = (false, 0);
        let read = reader.object(|key, reader| {
            has_phase |= key == "ph";
            keys += 1;
            reader.skip()
        });
        if has_phase {
            return true;
        }
        if read.is_err() {
            return !has_others;
        }
        has_others |= keys > 0;
    }
    !has_others
}

/// Reads a file into `found`; tracks get `prefix` before their names.
pub(super) fn read(text: &[u8], found: &mut Collector, prefix: &str) -> Result<Read, String> {
    let mut chrome = Chrome {
        found,
        lines: HashMap::new(),
        processes: HashMap::new(),
        threads: HashMap::new(),
        edges: Vec::new(),
        async_edges: Vec::new(),
        async_groups: HashMap::new(),
        keys: Keys::default(),
        last_thread: Default::default(),
        scratch: Vec::new(),
        is_kineto: false,
        has_xla_devices: false,
        is_own: false,
        parts: HashMap::new(),
        events: 0,
        begin: 0,
        has_remarked: false,
    };
    let mut reader = Reader::of_file(text);
    let mut epoch_ns = None;
    let read = match reader.peek() {
        Some(b'[') => chrome.array(&mut reader),
        _ => reader.object(|key, reader| match &*key {
            "traceEvents" => chrome.array(reader),
            _ => chrome.property(&key, reader, &mut epoch_ns),
        }),
    };
    let at = |at: usize| format!("byte {at:#x}: this is not JSON");
    match read {
        Ok(()) if reader.peek().is_some() => {
            let place = reader.at;
            let remark = format!("byte {place:#x}: something comes after the end; it is left out");
            chrome.found.remarks.push(remark);
            chrome.found.note("texts after the end");
        }
        Ok(()) => {}
        Err(Fault::CutOff) if chrome.events == 0 => {
            return Err("ends before the first event; write the trace again".to_owned());
        }
        Err(Fault::Unexpected(place)) if chrome.events == 0 => {
            return Err(at(place) + ", and no event comes before it; write the trace again");
        }
        // Writers that stream leave the array open: only a cut within an event is a loss.
        Err(Fault::CutOff) => {}
        Err(Fault::Unexpected(place)) => {
            chrome.found.cut_off(at(place));
        }
    }
    chrome.pair();
    chrome.name_tracks(prefix);
    let format = match (chrome.is_kineto, chrome.has_xla_devices) {
        (true, _) => "PyTorch profiler",
        (_, true) => "XLA profiler",
        _ => "Chrome trace events",
    };
    Ok(Read { format, epoch_ns })
}

impl<'a> Chrome<'a> {
    fn array<'t>(&mut self, reader: &mut Reader<'t>) -> Result<(), Fault> {
        reader.expect(b'[')?;
        let (ended, cut) = reading::each_entry(reader, |event| {
            self.begin = event.begin;
            if event.is_no_event {
                self.events += 1;
                self.lose("entries that are no events");
            } else {
                self.event(event);
            }
        });
        if let Some(begin) = cut {
            self.found.cut_off(format!("the file is cut within an event, at byte {begin:#x}"));
        }
        ended
    }

    /// Something about the whole file.
    fn property(
        &mut self,
        key: &str,
        reader: &mut Reader<'_>,
        epoch_ns: &mut Option<i64>,
    ) -> Result<(), Fault> {
        let value = reader.scalar()?;
        match key {
            "baseTimeNanoseconds" => {
                *epoch_ns = value.text().and_then(|text| text.parse().ok());
            }
            // Of clang, in microseconds.
            "beginningOfTime" => {
                *epoch_ns = value.text().and_then(|text| self.found.time(text, 3));
            }
            _ => {}
        }
        if Self::says_own(key, &value) {
            self.is_own = true;
            *epoch_ns = own::epoch_ns(&value);
            return Ok(());
        }
        self.is_kineto |=
            matches!(key, "deviceProperties" | "distributedInfo" | "baseTimeNanoseconds");
        let mut keep = |key: &str, value: &str| {
            self.found.metadata.insert(key.to_owned(), value.to_owned());
        };
        match (key, &value) {
            ("samples", Scalar::Nested(_)) => self.found.note("lists of samples"),
            ("stackFrames", _) | (_, Scalar::Null) => {}
            (_, Scalar::Bool(value)) => keep(key, &value.to_string()),
            ("distributedInfo", Scalar::Nested(text)) => kineto::ranks(text, keep),
            ("deviceProperties", Scalar::Nested(text)) => kineto::devices(text, keep),
            (_, Scalar::Nested(text)) => {
                if text.len() <= LONGEST_METADATA {
                    keep(key, &String::from_utf8_lossy(text));
                }
            }
            (_, Scalar::String(text)) => keep(key, text),
            (_, Scalar::Number(text)) => keep(key, text),
        }
        Ok(())
    }

    fn event(&mut self, event: &RawEvent<'_>) {
        self.events += 1;
        if event.phase == b'M' {
            return self.about(event);
        }
        // Writers that put a comma behind every event end with an empty one.
        if event.is_empty() {
            self.events -= 1;
            return;
        }
        let Some(at) =
            event.ts.as_ref().and_then(Scalar::text).and_then(|it| self.found.time(it, 3))
        else {
            return self.lose("events without a usable time");
        };
        match event.phase {
            b'X' => self.complete(event, at),
            b'B' | b'E' => {
                let line = self.thread(event);
                let edge = self.edge(event, at, line, line, event.phase == b'B');
                self.edges.push(edge);
            }
            b'b' | b'e' | b'S' | b'F' => {
                let line = self.thread(event);
                let group = self.async_group(event);
                let mut edge =
                    self.edge(event, at, group, line, matches!(event.phase, b'b' | b'S'));
                edge.id = event.id.as_ref().map_or(0, id_of);
                self.async_edges.push(edge);
            }
            b'i' | b'I' | b'n' | b'T' | b'p' | b'R' => {
                if !self.own_record(event, at, None) && !self.memory(event, at) {
                    let (line, name) = (self.thread(event), self.name(event));
                    self.arguments(event, false);
                    let point = Event::point(Kind::EVENT, name, line, at, Default::default());
                    self.push(point);
                }
            }
            b'C' => self.counter(event, at),
            b's' | b't' | b'f' => self.flow(event, at),
            b'P' => self.found.note("samples"),
            b'O' | b'N' | b'D' => self.found.note("snapshots of objects"),
            b'v' | b'V' => self.found.note("memory dumps"),
            b'c' => self.found.note("clock marks"),
            0 => self.lose("events without a phase"),
            phase => self.lose(&format!("events of phase {:?}", char::from(phase))),
        }
    }

    /// Counts an event that is left out; the first is said with its place.
    fn lose(&mut self, what: &str) {
        self.found.lost += 1;
        self.strange(what);
    }

    /// Counts something wrong with the event; the first is said with its place.
    fn strange(&mut self, what: &str) {
        self.found.note(what);
        if !self.has_remarked {
            self.has_remarked = true;
            let place = self.begin;
            self.found.remarks.push(format!("byte {place:#x}: the first of the {what}"));
        }
    }

    /// Something that has a duration.
    fn complete(&mut self, event: &RawEvent<'_>, at: i64) {
        let length = event.dur.as_ref().or(event.tdur.as_ref()).and_then(Scalar::text);
        let duration = match length.map(|text| self.found.time(text, 3)) {
            Some(Some(ns)) => {
                if ns < 0 {
                    self.strange("negative durations (taken as 0)");
                }
                ns.max(0) as u64
            }
            Some(None) => return self.lose("events without a usable duration"),
            None => {
                self.found.note("complete events without a duration (taken as 0)");
                0
            }
        };
        if self.own_record(event, at, Some(duration))
            || self.device_work(event, at, duration)
            || self.xla_work(event, at, duration)
        {
            return;
        }
        let (line, name) = (self.thread(event), self.name(event));
        self.arguments(event, true);
        self.push(Event::timed(Kind::SPAN, name, line, at, duration));
    }

    /// Takes an event with the fields that were put together for it.
    fn push(&mut self, event: Event) {
        self.found.push(event, &self.scratch);
    }

    fn pair(&mut self) {
        pairing::pair(self.found, std::mem::take(&mut self.edges), Kind::SPAN);
        pairing::pair(self.found, std::mem::take(&mut self.async_edges), Kind::ASYNC_SPAN);
    }

    fn edge(
        &mut self,
        event: &RawEvent<'_>,
        at: i64,
        group: u32,
        track: u32,
        begins: bool,
    ) -> Edge {
        self.arguments(event, begins);
        let begin = self.found.fields.len() as u32;
        let count = self.scratch.len().min(usize::from(u8::MAX));
        self.found.fields.extend_from_slice(&self.scratch[..count]);
        let name = if event.name.is_empty() && !begins { None } else { Some(self.name(event)) };
        let sequence = self.found.next_sequence();
        Edge { at, group, track, name, begins, sequence, id: 0, fields: (begin, count as u8) }
    }

    fn name(&mut self, event: &RawEvent<'_>) -> u32 {
        if event.name.is_empty() {
            self.strange("events without a name (called `(unnamed)`)");
            return self.found.strings.number("(unnamed)");
        }
        self.found.strings.number(&event.name)
    }

    fn number_of(&mut self, id: &Option<Scalar<'_>>) -> u32 {
        self.found.strings.number(text_of(id))
    }

    fn async_group(&mut self, event: &RawEvent<'_>) -> u32 {
        let id = self.number_of(&event.id);
        let category = self.found.strings.number(&event.cat);
        let process = if event.is_local { self.number_of(&event.pid) } else { u32::MAX };
        let next = self.async_groups.len() as u32;
        *self.async_groups.entry((category, id, process)).or_insert(next)
    }

    fn thread(&mut self, event: &RawEvent<'_>) -> u32 {
        let (process, thread) = (text_of(&event.pid), text_of(&event.tid));
        let last = &self.last_thread;
        if last.2 != 0 && last.0 == process && last.1 == thread {
            return last.2 - 1;
        }
        if let Some(line) = self.own_track(event) {
            return line;
        }
        let os_id = thread.parse().ok();
        let kind = if os_id.is_some() { TrackKind::Thread } else { TrackKind::Other };
        let key = Line::Thread(self.number_of(&event.pid), self.number_of(&event.tid));
        let line = self.line(key, kind, os_id.unwrap_or(0));
        self.last_thread = (process.to_owned(), thread.to_owned(), line + 1);
        line
    }

    fn line(&mut self, line: Line, kind: TrackKind, os_id: u64) -> u32 {
        let Self { found, lines, .. } = self;
        *lines.entry(line).or_insert_with(|| found.track(kind, os_id, ""))
    }
}

fn text_of<'a>(id: &'a Option<Scalar<'_>>) -> &'a str {
    id.as_ref().and_then(Scalar::text).unwrap_or_default()
}
