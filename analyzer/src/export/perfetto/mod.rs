//! Perfetto's own protobuf: a `Trace` of `TracePacket`s, one after the other.
//!
//! Each trace is a process. A thread is a thread of it, any other track a track of it,
//! and there are more of them where spans on it cross. Spans are a begin and an end,
//! spans that were open at the end a begin alone; a flow leads from a launch to its
//! kernel; counters and gauges have tracks of their own. Fields are debug annotations.
//!
//! # Order
//! Perfetto sorts packets by their timestamp, and those of one timestamp stay as they
//! are in the file. An end says not what ends: it is the last that began on its track
//! and has not ended. So of all that happens on a track in one nanosecond the order
//! in the file must be the true one: with a parent and child that begin together the
//! child would else contain its parent, and with a span that begins where its neighbour
//! ends the neighbour would end it.
//!
//! Events are read last first, which gives parents before children, and so every
//! begin and end of a line in exactly the reverse of the true order, of a stack's depth
//! in memory: an end where a span comes up, its begin where the first span comes up
//! that is not inside of it. Packets of one line and timestamp are held back until an
//! earlier timestamp comes and are written in reverse. Timestamps therefore fall along
//! the file, which the sort puts right; and what is held grows only with what happens
//! on one line in one nanosecond.
//!
//! [`schema`] has the numbers of messages' fields.

mod schema;

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    io::Write,
    mem,
};

use ringscope_format::{Kind, OwnedValue, Status, TrackKind};

use self::schema::{PACKET, annotation, clock, descriptor, interned, packet, track_event};
use super::{
    Exporter,
    counters::{Counters, Reading},
    events::{Event, Source, StillOpen},
    fields::link_key,
    lanes::{self, Lanes, Span},
    protobuf::Message,
};
use crate::{Result, device::is_device_work, scan::Order};

/// All packets are of one sequence.
const SEQUENCE: u64 = 1;

pub(super) struct Perfetto;

impl Exporter for Perfetto {
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        let open = source.still_open()?;
        let mut writing = Writing {
            source,
            out,
            process_ids: source.process_ids(),
            offsets: source.offsets(&open),
            counters: Counters::of(source),
            lanes: HashMap::new(),
            lines: HashMap::new(),
            held: Vec::new(),
            names: HashSet::new(),
        };
        writing.processes()?;
        writing.clocks()?;
        for span in &open {
            writing.open(span)?;
        }
        source.each(Order::LastFirst, |event| writing.event(event))?;
        writing.finish()
    }
}

/// A line of time in the file.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Line {
    Lane { trace: usize, track: u32, lane: usize },
    Counter { trace: usize, name: String },
}

/// Packets of one line and timestamp, in reverse.
#[derive(Default)]
struct Held {
    timestamp: u64,
    events: Vec<Message>,
}

struct Writing<'a, 'o> {
    source: &'a Source<'a>,
    out: &'o mut dyn Write,
    process_ids: Vec<u32>,
    offsets: Vec<i64>,
    counters: Counters,
    /// By trace and track; with each span its begin, which is written last.
    lanes: HashMap<(usize, u32), Lanes<(u64, Message)>>,
    /// Number of each line, which is its place in `held` too.
    lines: HashMap<Line, usize>,
    held: Vec<Held>,
    /// Names that the file has told.
    names: HashSet<u64>,
}

impl Writing<'_, '_> {
    /// The first numbers of tracks are those of processes.
    fn process_uuid(trace: usize) -> u64 {
        trace as u64 + 1
    }

    fn line_uuid(&self, line: usize) -> u64 {
        (self.process_ids.len() + line) as u64 + 1
    }

    fn processes(&mut self) -> Result<()> {
        for (trace, loaded) in self.source.traces().list.iter().enumerate() {
            let process = Message::new()
                .int(descriptor::PROCESS_PID, self.process_ids[trace].into())
                .text(descriptor::PROCESS_NAME, &loaded.label);
            let track = Message::new()
                .uint(descriptor::UUID, Self::process_uuid(trace))
                .message(descriptor::PROCESS, &process);
            let flags = if trace == 0 {
                packet::INCREMENTAL_STATE_CLEARED
            } else {
                packet::NEEDS_INCREMENTAL_STATE
            };
            let packet = Message::new().message(packet::TRACK_DESCRIPTOR, &track);
            self.packet(packet, flags)?;
        }
        Ok(())
    }

    /// Timestamps count from the first event; Perfetto takes them for those of the boot
    /// clock and is told what the wall clock said then.
    fn clocks(&mut self) -> Result<()> {
        let offset = self.offsets.first().copied().unwrap_or(0);
        let first_unix_ns = self.source.unix_ns(0, 0).saturating_sub(offset).max(0);
        let reading = |id: u64, timestamp: u64| {
            Message::new().uint(clock::CLOCK_ID, id).uint(clock::TIMESTAMP, timestamp)
        };
        let snapshot = Message::new()
            .message(clock::CLOCKS, &reading(clock::BOOTTIME, 0))
            .message(clock::CLOCKS, &reading(clock::REALTIME, first_unix_ns as u64));
        let packet = Message::new().message(packet::CLOCK_SNAPSHOT, &snapshot);
        self.packet(packet, packet::NEEDS_INCREMENTAL_STATE)
    }

    fn open(&mut self, span: &StillOpen) -> Result<()> {
        let begin = self.named(span.trace, span.name)?.text(track_event::CATEGORIES, &span.kind());
        let at = self.timestamp(span.trace, span.start_ns);
        let room = Span {
            start: span.start,
            end: u64::MAX,
            depth: span.depth.unwrap_or(0).min(255) as u8,
            nests: span.depth.is_some(),
        };
        self.place(span.trace, span.track, room, (at, begin))?;
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let (trace, record) = (event.trace, &event.record);
        let (start, end) =
            (self.timestamp(trace, event.start_ns), self.timestamp(trace, event.end_ns));
        if let Some((name, reading)) = self.counters.at(self.source, event) {
            let message = Message::new().uint(track_event::TYPE, track_event::COUNTER);
            let message = match reading {
                Reading::Whole(n) => message.int(track_event::COUNTER_VALUE, n),
                Reading::Other(n) => message.double(track_event::DOUBLE_COUNTER_VALUE, n),
            };
            let line = self.line(Line::Counter { trace, name })?;
            return self.hold(line, start, message);
        }
        let mut message =
            self.named(trace, record.name)?.text(track_event::CATEGORIES, &event.kind());
        if record.link != 0 {
            // Links are of one trace, ids of flows of the whole file.
            let flow = (trace as u64) << 32 | u64::from(record.link);
            if record.kind == Kind::LAUNCH {
                message = message.fixed64(track_event::FLOW_IDS, flow);
            } else if is_device_work(record.kind) {
                message = message.fixed64(track_event::TERMINATING_FLOW_IDS, flow);
            }
        }
        message = self.annotated(message, event);
        if !record.kind.is_timed() {
            let lanes = self.lanes.entry((trace, record.track)).or_default();
            let mut begun = Vec::new();
            lanes.pass(record.start, record.depth, |lane, begin| begun.push((lane, begin)));
            self.begin(trace, record.track, begun)?;
            let line = self.line(Line::Lane { trace, track: record.track, lane: 0 })?;
            return self.hold(line, start, message.uint(track_event::TYPE, track_event::INSTANT));
        }
        let span = Span {
            start: record.start,
            end: record.end(),
            depth: record.depth,
            nests: lanes::nests(record.kind),
        };
        let lane = self.place(trace, record.track, span, (start, message))?;
        let line = self.line(Line::Lane { trace, track: record.track, lane })?;
        self.hold(line, end, Message::new().uint(track_event::TYPE, track_event::SLICE_END))
    }

    /// Finds a place for a span, before which others begin.
    fn place(
        &mut self,
        trace: usize,
        track: u32,
        span: Span,
        begin: (u64, Message),
    ) -> Result<usize> {
        let mut begun = Vec::new();
        let lanes = self.lanes.entry((trace, track)).or_default();
        let lane = lanes.place(span, begin, |lane, begin| begun.push((lane, begin)));
        self.begin(trace, track, begun)?;
        Ok(lane)
    }

    fn begin(
        &mut self,
        trace: usize,
        track: u32,
        begun: Vec<(usize, (u64, Message))>,
    ) -> Result<()> {
        for (lane, (timestamp, message)) in begun {
            let line = self.line(Line::Lane { trace, track, lane })?;
            let message = message.uint(track_event::TYPE, track_event::SLICE_BEGIN);
            self.hold(line, timestamp, message)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        let mut lanes: Vec<_> = mem::take(&mut self.lanes).into_iter().collect();
        lanes.sort_unstable_by_key(|(place, _)| *place);
        for ((trace, track), lanes) in lanes {
            let mut begun = Vec::new();
            lanes.finish(|lane, begin| begun.push((lane, begin)));
            self.begin(trace, track, begun)?;
        }
        (0..self.held.len()).try_for_each(|line| self.release(line))
    }

    fn timestamp(&self, trace: usize, ns: i64) -> u64 {
        self.offsets[trace].saturating_add(ns).max(0) as u64
    }

    /// A track event with a name, which the file tells when it first comes up.
    fn named(&mut self, trace: usize, name: u32) -> Result<Message> {
        let iid = u64::from(self.source.traces().list[trace].name_index(name)) + 1;
        if self.names.insert(iid) {
            let name = Message::new()
                .uint(interned::IID, iid)
                .text(interned::NAME, self.source.name(trace, name));
            let data = Message::new().message(interned::EVENT_NAMES, &name);
            let packet = Message::new().message(packet::INTERNED_DATA, &data);
            self.packet(packet, packet::NEEDS_INCREMENTAL_STATE)?;
        }
        Ok(Message::new().uint(track_event::NAME_IID, iid))
    }

    fn annotated(&self, mut message: Message, event: &Event<'_>) -> Message {
        let source = self.source;
        let mut add = |key: &str, value: &OwnedValue| {
            let note = Message::new().text(annotation::NAME, key);
            let note = match value {
                OwnedValue::U64(n) => note.uint(annotation::UINT, *n),
                OwnedValue::I64(n) => note.int(annotation::INT, *n),
                OwnedValue::F64(n) => note.double(annotation::DOUBLE, *n),
                OwnedValue::Bool(is) => note.uint(annotation::BOOL, (*is).into()),
                OwnedValue::Name(id) => {
                    note.text(annotation::STRING, source.name(event.trace, *id))
                }
                OwnedValue::Ticks(n) => {
                    note.double(annotation::DOUBLE, source.length_ns(event.trace, *n))
                }
                OwnedValue::Text { text, .. } => note.text(annotation::STRING, text),
            };
            let whole = mem::take(&mut message);
            message = whole.message(track_event::DEBUG_ANNOTATIONS, &note);
        };
        let text = |text: String| OwnedValue::Text { text, cut: false };
        let details = event.details();
        for (key, value) in &details.fields {
            let key = source.name(event.trace, *key);
            match value {
                OwnedValue::Ticks(_) if !key.ends_with("_ns") => add(&format!("{key}_ns"), value),
                OwnedValue::Text { text: cut, cut: true } => add(key, &text(format!("{cut}…"))),
                _ => add(key, value),
            }
        }
        for link in &details.links {
            add(link_key(link.role), &text(format!("{:032x}", link.id)));
        }
        if let Some(value) = event.value() {
            add("value", &value);
        }
        if event.record.status.0 & 0x0F != Status::UNKNOWN.0 {
            add("status", &text(event.status()));
        }
        message
    }

    /// The number of a line, which the file tells when it first comes up.
    fn line(&mut self, line: Line) -> Result<usize> {
        let number = self.held.len();
        match self.lines.entry(line.clone()) {
            Entry::Occupied(known) => return Ok(*known.get()),
            Entry::Vacant(new) => new.insert(number),
        };
        self.held.push(Held::default());
        let track = Message::new().uint(descriptor::UUID, self.line_uuid(number));
        let track = match &line {
            Line::Lane { trace, track: id, lane } => {
                let name = self.source.track(*trace, *id);
                match self.system_id(*trace, *id).filter(|_| *lane == 0) {
                    Some(tid) => {
                        let thread = Message::new()
                            .int(descriptor::THREAD_PID, self.process_ids[*trace].into())
                            .int(descriptor::THREAD_TID, tid)
                            .text(descriptor::THREAD_NAME, &name);
                        track.message(descriptor::THREAD, &thread)
                    }
                    None => {
                        let name = if *lane == 0 { name } else { format!("{name} ({})", lane + 1) };
                        track
                            .text(descriptor::NAME, &name)
                            .uint(descriptor::PARENT_UUID, Self::process_uuid(*trace))
                    }
                }
            }
            Line::Counter { trace, name } => track
                .text(descriptor::NAME, name)
                .uint(descriptor::PARENT_UUID, Self::process_uuid(*trace))
                .message(descriptor::COUNTER, &Message::new()),
        };
        let packet = Message::new().message(packet::TRACK_DESCRIPTOR, &track);
        self.packet(packet, packet::NEEDS_INCREMENTAL_STATE)?;
        Ok(number)
    }

    /// The system's id of a thread, if that is its own: threads that came after each
    /// other may have had the same.
    fn system_id(&self, trace: usize, track: u32) -> Option<i64> {
        let tracks = self.source.traces().list[trace].trace.tracks();
        let at = tracks.binary_search_by_key(&track, |it| it.id).ok()?;
        let id = tracks[at].os_id;
        let is_own = tracks.iter().filter(|it| it.os_id == id).count() == 1;
        let is_thread = matches!(tracks[at].kind, TrackKind::Thread | TrackKind::Recorder);
        (is_thread && is_own).then_some(id).filter(|&id| id > 0)?.try_into().ok()
    }

    fn hold(&mut self, line: usize, timestamp: u64, event: Message) -> Result<()> {
        if self.held[line].timestamp != timestamp {
            self.release(line)?;
            self.held[line].timestamp = timestamp;
        }
        self.held[line].events.push(event);
        Ok(())
    }

    fn release(&mut self, line: usize) -> Result<()> {
        let held = mem::take(&mut self.held[line]);
        let uuid = self.line_uuid(line);
        for event in held.events.into_iter().rev() {
            let packet = Message::new()
                .uint(packet::TIMESTAMP, held.timestamp)
                .message(packet::TRACK_EVENT, &event.uint(track_event::TRACK_UUID, uuid));
            self.packet(packet, packet::NEEDS_INCREMENTAL_STATE)?;
        }
        Ok(())
    }

    fn packet(&mut self, packet: Message, flags: u64) -> Result<()> {
        let packet = packet.uint(packet::SEQUENCE_ID, SEQUENCE).uint(packet::SEQUENCE_FLAGS, flags);
        self.out.write_all(Message::new().message(PACKET, &packet).bytes())?;
        Ok(())
    }
}
