//! From one loaded trace into a writer: records with all their slots, names, tracks,
//! metadata, readings of the clock, losses and open spans. What is to be different in
//! the copy is a [`Rewrite`]'s to say.

use std::{borrow::Cow, collections::HashMap};

use ringscope_format::{
    Batch, ChunkInfo, ClockPair, Columns, Kind, Link, LongTexts, Loss, LostCause, OpenSpan,
    OwnedValue, Record, Track, TrackKind, Value, ValueType, Vitals, long_text_slot, parse_slots,
    write_slots,
};

use super::Writer;
use crate::{
    Error, Result,
    load::{Loaded, Traces},
    output::{count, number_of},
    progress::Progress,
};

/// Of a text slot: the text goes on in the next one (SPEC 10.3).
const GOES_ON: u8 = 1;
/// Depth that an open-spans table gives an asynchronous span (SPEC 8.3.5).
const ASYNCHRONOUS: u32 = u32::MAX;
/// Bytes of metadata in one chunk, unless one value is larger.
const METADATA_BYTES: usize = 1 << 20;

/// What is different in a copy. Left to itself, nothing is.
pub(super) trait Rewrite {
    /// The name of a record, or one that is the value of a field.
    fn name<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        text.into()
    }

    /// A text in a slot; `None` if it stays.
    fn text(&mut self, _text: &str) -> Option<String> {
        None
    }

    /// What a track is called.
    fn track(&mut self, track: &Track) -> String {
        track.name.clone()
    }

    /// A point in time.
    fn tick(&self, tick: u64) -> u64 {
        tick
    }

    /// A number of ticks that says neither when they began nor when they ended.
    fn ticks(&self, ticks: u64) -> u64 {
        ticks
    }

    /// What correlates launches with kernels; never 0.
    fn link(&self, link: u32) -> u32 {
        link
    }

    /// The id in a link slot of a record of this kind.
    fn id(&self, _kind: Kind, link: Link) -> Link {
        link
    }

    /// An unsigned number in a field of this key.
    fn number(&self, _key: &str, number: u64) -> u64 {
        number
    }
}

/// The copy is as the source is.
pub(super) struct AsItIs;

impl Rewrite for AsItIs {}

/// How many records: events of the program, and readings of the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) events: u64,
    pub(super) readings: u64,
}

impl Tally {
    /// Those of a chunk that is left out. One that cannot be read is taken for events.
    fn of(loaded: &Loaded, chunk: &ChunkInfo) -> Self {
        let all = u64::from(chunk.events);
        let readings = loaded.readings_in(chunk);
        Self { events: all.saturating_sub(readings), readings }
    }

    fn count(&mut self, is_reading: bool) {
        *(if is_reading { &mut self.readings } else { &mut self.events }) += 1;
    }

    /// Adds others.
    pub(super) fn add(&mut self, more: Self) {
        self.events += more.events;
        self.readings += more.readings;
    }

    /// `3 events`, or `3 events and 2 readings of the recorder`.
    pub(super) fn in_words(self) -> String {
        let events = number_of(self.events, "event");
        match self.readings {
            0 => events,
            readings => format!("{events} and {} of the recorder", number_of(readings, "reading")),
        }
    }

    /// The same after a sentence began with events.
    pub(super) fn in_short(self) -> String {
        if self.readings == 0 { count(self.events) } else { self.in_words() }
    }
}

/// The copying of one trace.
pub(super) struct Copying<'a, 'w, R> {
    traces: &'a Traces,
    at: usize,
    loaded: &'a Loaded,
    writer: &'a mut Writer<'w>,
    rewrite: R,
    /// By their ids in the source.
    names: HashMap<u32, u32>,
    keys: HashMap<u32, u32>,
    tracks: HashMap<u32, u32>,
    slots: Vec<Record>,
    /// Records that were copied.
    pub(super) kept: Tally,
    /// Records that could be read and were not.
    pub(super) left_out: Tally,
    /// Open spans that were copied.
    pub(super) open: u64,
}

impl<'a, 'w, R: Rewrite> Copying<'a, 'w, R> {
    /// Begins with the tracks of a trace: all of them, in order, because it is their
    /// numbers that tell threads of one name apart.
    pub(super) fn new(
        traces: &'a Traces,
        at: usize,
        writer: &'a mut Writer<'w>,
        rewrite: R,
    ) -> Self {
        let loaded = &traces.list[at];
        let mut copying = Self {
            traces,
            at,
            loaded,
            writer,
            rewrite,
            names: HashMap::new(),
            keys: HashMap::new(),
            tracks: HashMap::new(),
            slots: Vec::new(),
            kept: Tally::default(),
            left_out: Tally::default(),
            open: 0,
        };
        for track in loaded.trace.tracks() {
            copying.declare(track);
        }
        copying
    }

    fn declare(&mut self, track: &Track) -> u32 {
        let name = self.rewrite.track(track);
        let id = self.writer.track(track.kind, track.os_id, &name);
        self.tracks.insert(track.id, id);
        id
    }

    /// Keys and values, after those that were there before.
    pub(super) fn metadata(&mut self, pairs: &[(String, String)]) -> Result<()> {
        let mut rest = pairs;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(key, value): &&(String, String)| {
                bytes += key.len() + value.len();
                bytes <= METADATA_BYTES
            };
            let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            let now: Vec<(&str, &str)> =
                now.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            self.writer.metadata(&now).map_err(|error| self.error(error))?;
            rest = later;
        }
        Ok(())
    }

    /// The readings of the clock. Only for a copy that keeps its ticks.
    pub(super) fn clock_pairs(&mut self) {
        for &pair in self.loaded.trace.clock_pairs() {
            let track = self.track(pair.track);
            self.writer.clock_pair(ClockPair { track, ..pair });
        }
    }

    /// The records of all chunks that are wanted, of those the ones that are taken.
    /// What cannot be read is left out and noted with the traces.
    pub(super) fn chunks(
        &mut self,
        wants: impl Fn(&ChunkInfo) -> bool,
        takes: impl Fn(&Batch, usize) -> bool,
    ) -> Result<()> {
        let trace = &self.loaded.trace;
        let progress = Progress::new("copying", self.loaded.events);
        let mut batch = Batch::default();
        for chunk in trace.chunks() {
            progress.advance(u64::from(chunk.events));
            if chunk.events == 0 {
                continue;
            }
            if !wants(chunk) {
                self.left_out.add(Tally::of(self.loaded, chunk));
                continue;
            }
            match trace.decode_into(chunk, Columns::ALL | Columns::LONG_TEXTS, &mut batch) {
                Ok(()) => {
                    self.traces.note_cut_texts(self.at, chunk, &batch);
                    self.records(&batch, &takes)?;
                }
                Err(error) => self.traces.note_unreadable(self.at, chunk, &error),
            }
        }
        progress.finish();
        Ok(())
    }

    /// Those records of a batch of all columns that are taken.
    pub(super) fn records(
        &mut self,
        batch: &Batch,
        takes: impl Fn(&Batch, usize) -> bool,
    ) -> Result<()> {
        for (at, (record, slots)) in batch.records().enumerate() {
            let is_reading = self.loaded.is_recorder(record.track);
            if record.kind.is_base() && takes(batch, at) {
                let record = self.record(record);
                let slots = self.slots_of(record.kind, slots, &batch.long_texts);
                let done = self.writer.event_with_slots(record, &slots);
                self.slots = slots;
                done.map_err(|error| self.error(error))?;
                self.kept.count(is_reading);
            } else {
                self.left_out.count(is_reading);
            }
        }
        Ok(())
    }

    fn record(&mut self, record: Record) -> Record {
        let start = self.rewrite.tick(record.start);
        let end = record.start.checked_add(record.value);
        let value = match end.filter(|_| (record.value as i64) >= 0) {
            _ if !record.kind.is_timed() => self.value(record.value_type(), record.value),
            // Start and end are moved alike, so what nested still nests.
            Some(end) => self.rewrite.tick(end).saturating_sub(start),
            None if (record.value as i64) >= 0 => self.rewrite.ticks(record.value),
            None => self.rewrite.ticks(record.value.wrapping_neg()).wrapping_neg(),
        };
        Record {
            start,
            value,
            name: self.name(record.name),
            track: self.track(record.track),
            link: if record.link == 0 { 0 } else { self.rewrite.link(record.link) },
            ..record
        }
    }

    fn value(&mut self, value_type: ValueType, bits: u64) -> u64 {
        match value_type {
            ValueType::Name => u64::from(self.name(bits as u32)),
            ValueType::Ticks => self.rewrite.ticks(bits),
            _ => bits,
        }
    }

    fn slots_of(&mut self, kind: Kind, slots: &[Record], texts: &LongTexts) -> Vec<Record> {
        let mut out = std::mem::take(&mut self.slots);
        out.clear();
        let mut at = 0;
        while let Some(slot) = slots.get(at) {
            let from = at;
            at += 1;
            match slot.kind {
                Kind::FIELDS => out.push(self.fields(*slot)),
                Kind::LINK => {
                    for link in parse_slots(&slots[from..at]).links {
                        let track = self.track(link.track);
                        let link = self.rewrite.id(kind, Link { track, ..link });
                        write_slots(&[], &[link], |slot| out.push(slot));
                    }
                }
                Kind::TEXT => {
                    let goes_on = |at: usize| {
                        slots[at - 1].depth & GOES_ON != 0
                            && slots.get(at).is_some_and(|next| next.kind == Kind::TEXT)
                    };
                    while goes_on(at) {
                        at += 1;
                    }
                    if slots.get(at).is_some_and(|next| next.kind == Kind::LONG_TEXT) {
                        at += 1;
                    }
                    self.text(&slots[from..at], texts, &mut out);
                }
                _ => {}
            }
        }
        out
    }

    /// A slot of two fields.
    fn fields(&mut self, slot: Record) -> Record {
        let mut half = |key: u32, value_type: u8, bits: u64| match value_type {
            0 => (0, 0),
            1 => {
                let text = self.loaded.trace.names().get(key).unwrap_or_default();
                (self.key(key), self.rewrite.number(text, bits))
            }
            _ => {
                let known = ValueType::from_bits(value_type).unwrap_or_default();
                (self.key(key), self.value(known, bits))
            }
        };
        let (name, start) = half(slot.name, slot.status.0 & 0x0F, slot.start);
        let (track, value) = half(slot.track, slot.status.0 >> 4, slot.value);
        Record { name, start, track, value, ..slot }
    }

    /// The slots of one text, and the one behind them if it is a long one.
    fn text(&mut self, slots: &[Record], texts: &LongTexts, out: &mut Vec<Record>) {
        let key = self.key(slots[0].link);
        let mut details = parse_slots(slots);
        let long = details.long.first().and_then(|(_, number)| texts.get(*number));
        // What stands in for a long text stands in for all of it.
        details.complete(texts);
        if let Some((_, OwnedValue::Text { text, .. })) = details.fields.first()
            && let Some(instead) = self.rewrite.text(text)
        {
            return write_slots(&[(key, Value::Text(&instead))], &[], |slot| out.push(slot));
        }
        let beginning = slots.iter().filter(|slot| slot.kind == Kind::TEXT);
        out.extend(beginning.map(|slot| Record { link: key, ..*slot }));
        if let Some(long) = long {
            let number = self.writer.long_text(&long.text, long.cut);
            out.push(long_text_slot(key, number));
        }
    }

    /// The name of a record or of a value.
    fn name(&mut self, id: u32) -> u32 {
        if id == 0 {
            return 0;
        }
        if let Some(&known) = self.names.get(&id) {
            return known;
        }
        let source = self.loaded.trace.names();
        let new = match source.get(id) {
            Some(text) => {
                let text = self.rewrite.name(text);
                self.writer.name(&text)
            }
            None => self.writer.name(&unknown(id)),
        };
        // Before the call sites, which may name the file after the function.
        self.names.insert(id, new);
        for site in source.call_sites(id) {
            let (file, module) = (self.name(site.file), self.name(site.module));
            self.writer.call_site(new, site.line, file, module);
        }
        new
    }

    /// The name of a key, which stays as it is.
    fn key(&mut self, id: u32) -> u32 {
        let (source, writer) = (self.loaded.trace.names(), &mut self.writer);
        let text = || source.get(id).map_or_else(|| unknown(id).into(), Cow::Borrowed);
        *self.keys.entry(id).or_insert_with(|| writer.name(&text()))
    }

    /// A track; one that the file does not explain is declared by its number.
    fn track(&mut self, id: u32) -> u32 {
        match self.tracks.get(&id) {
            _ if id == 0 => 0,
            Some(&known) => known,
            None => {
                let name = self.loaded.track_name(id);
                self.declare(&Track { id, kind: TrackKind::Other, os_id: 0, name })
            }
        }
    }

    /// Losses that are kept, with the totals; and as lost, events that could not be
    /// read. Totals that no loss explains are kept: nobody knows where they belong.
    pub(super) fn losses(&mut self, unreadable: u64, keeps: impl Fn(&Loss) -> bool) {
        self.losses_of(self.loaded.own_vitals(), unreadable, keeps);
    }

    /// The same with totals that somebody else has worked out.
    pub(super) fn losses_of(
        &mut self,
        mut totals: Vitals,
        unreadable: u64,
        keeps: impl Fn(&Loss) -> bool,
    ) {
        let loaded = self.loaded;
        totals.tick = self.rewrite.tick(totals.tick.max(loaded.last_tick));
        for loss in loaded.losses() {
            if keeps(loss) {
                let track = self.track(loss.track);
                let mut copy = Loss { track, ..*loss };
                if loss.not_after > 0 {
                    copy.not_before = self.rewrite.tick(loss.not_before);
                    copy.not_after = self.rewrite.tick(loss.not_after);
                }
                self.writer.loss(copy);
                continue;
            }
            // The recorder's own are in no totals.
            if loaded.is_recorder(loss.track) {
                continue;
            }
            let take = |from: Option<&mut u64>, less: u64| {
                from.into_iter().for_each(|it| *it = it.saturating_sub(less));
            };
            let cause = usize::from(loss.cause);
            match loss.class {
                Loss::LOST => {
                    take(totals.lost.get_mut(cause), loss.events);
                    take(totals.lost_slots.get_mut(cause), loss.slots);
                }
                _ => take(totals.skipped.get_mut(cause), loss.events),
            }
        }
        self.writer.missing(&totals);
        if unreadable > 0 {
            self.writer.lose(0, LostCause::Damaged, unreadable);
        }
    }

    /// Open spans that are kept. Those of a stack are numbered anew from the outside.
    pub(super) fn open_spans(&mut self, keeps: impl Fn(&OpenSpan) -> bool) -> Result<()> {
        let stacks = self.loaded.trace.in_flight();
        for stack in stacks.map_err(|error| Error::of(&self.loaded.path, error))? {
            for (depth, span) in stack.spans.iter().filter(|span| keeps(span)).enumerate() {
                let copy = OpenSpan {
                    start: self.rewrite.tick(span.start),
                    name: self.name(span.name),
                    track: self.track(span.track),
                    ..*span
                };
                let depth = if stack.track == 0 { ASYNCHRONOUS } else { depth as u32 };
                self.writer.open_span(copy, depth);
                self.open += 1;
            }
        }
        Ok(())
    }

    fn error(&self, error: ringscope_format::Error) -> Error {
        Error::of(&self.loaded.path, error)
    }
}

/// Stands in for a name that was lost with a damaged part of the file.
fn unknown(id: u32) -> String {
    format!("(unknown name {id})")
}
