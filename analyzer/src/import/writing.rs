//! Writes what was collected as a trace whose ticks are nanoseconds.

use std::{
    collections::HashSet,
    hash::{BuildHasher, Hash, Hasher},
    io::{Seek, Write},
};

use foldhash::quality::FixedState;
use ringscope_format::{
    Error, FileHeader, Link, LostCause, MAX_NAME_BYTES, MAX_SLOTS, OpenSpan, Record, TraceWriter,
    Value, slots_needed,
};

use super::{
    collector::{Collector, Event, FieldValue},
    placing::place,
    strings::{Strings, beginning},
};
use crate::load::SOURCE_STATE;

/// Writes all of it. What the format has no room for is counted.
pub(super) fn write<W: Write + Seek>(found: &mut Collector, out: W) -> Result<W, Error> {
    let placed = place(found);
    found.note_many("spans that overlap a neighbour without nesting", placed.overlapping);
    found.note_many("points of arrows outside of any span", placed.loose_flows);
    let starts = found.events.iter().map(|event| event.start);
    // Ticks are unsigned: a clock that was negative is moved, and its epoch with it.
    let zero = starts.chain(found.open.iter().map(|it| it.start)).min().unwrap_or(0).min(0);
    // 0 is an unknown time.
    let epoch = found.epoch_ns.map_or(0, |epoch| epoch.saturating_add(zero));
    let tick = |ns: i64| ns.abs_diff(zero);

    let mut writer = TraceWriter::new(out, FileHeader::converted(id(found), epoch))?;
    if let Some(why) = &found.cut {
        found.metadata.insert(SOURCE_STATE.to_owned(), why.clone());
    }
    let pairs: Vec<(&str, &str)> =
        found.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    writer.metadata(&pairs)?;
    for track in &found.tracks {
        writer.track(track.kind, track.os_id, &track.name);
    }
    // Tracks of a trace are numbered from 1 on.
    let track_of = |track: u32| track + 1;
    let mut names = NameIds::new(&found.strings);
    let repeats = repeated_texts(found);

    let links_of = |at: u32| {
        let begin = placed.links.partition_point(|link| link.0 < at);
        placed.links[begin..].iter().take_while(move |link| link.0 == at).map(|link| link.1)
    };

    let (mut fields, mut links): (Vec<(u32, Value<'_>)>, Vec<Link>) = Default::default();
    let mut left_out = 0;
    for &at in &placed.order {
        let event = &found.events[at as usize];
        fields.clear();
        for field in own_fields(found, event) {
            let key = names.id(&mut writer, field.key);
            let value = match field.value() {
                FieldValue::U64(n) => Value::U64(n),
                FieldValue::I64(n) => Value::I64(n),
                FieldValue::F64(n) => Value::F64(n),
                FieldValue::Bool(n) => Value::Bool(n),
                FieldValue::Text(text) if repeats[text as usize] => {
                    Value::Name(names.id(&mut writer, text))
                }
                FieldValue::Text(text) => Value::Text(found.strings.get(text)),
            };
            fields.push((key, value));
        }
        links.clear();
        links.extend(links_of(at));
        let room = MAX_SLOTS - fields.len();
        left_out += links.len().saturating_sub(room) as u64;
        links.truncate(room);
        debug_assert!(slots_needed(&fields, &links) <= MAX_SLOTS);
        let mut record = Record {
            start: tick(event.start),
            value: event.value,
            name: names.id(&mut writer, event.name),
            track: track_of(event.track),
            link: event.link,
            kind: event.kind,
            status: event.status,
            depth: placed.depth[at as usize],
            shape: 0,
        };
        record.shape = Record::shape_of(0, event.value_type);
        writer.event(record, &fields, &links)?;
    }
    for begun in &found.open {
        let name = names.id(&mut writer, begun.span.name);
        let track = track_of(begun.span.track);
        let span = OpenSpan { start: tick(begun.start), name, track, ..begun.span };
        writer.open_span(span, begun.depth);
    }
    if found.lost > 0 {
        writer.lose(0, LostCause::NotConverted, found.lost);
    }
    let cut = names.cut;
    found.note_many("arrows beyond what one event takes", left_out);
    found.note_many("names longer than 1,024 bytes (cut)", cut);
    writer.finish()
}

fn own_fields<'a>(
    found: &'a Collector,
    event: &Event,
) -> impl Iterator<Item = super::collector::Field> + use<'a> {
    let (begin, count) = (event.fields.0 as usize, usize::from(event.fields.1));
    found.fields[begin..begin + count].iter().copied()
}

/// Texts of fields that occur several times and fit are names; only what is
/// really dynamic goes into slots.
fn repeated_texts(found: &Collector) -> Vec<bool> {
    let mut uses = vec![0_u8; found.strings.len()];
    for field in found.events.iter().flat_map(|event| own_fields(found, event)) {
        if let FieldValue::Text(text) = field.value() {
            uses[text as usize] = uses[text as usize].saturating_add(1);
        }
    }
    let fits = |text: usize| found.strings.get(text as u32).len() <= MAX_NAME_BYTES;
    uses.iter().enumerate().map(|(text, &uses)| uses > 1 && fits(text)).collect()
}

/// The same content has the same id.
fn id(found: &Collector) -> [u8; 16] {
    let half = |seed: u64| {
        let mut hasher = FixedState::with_seed(seed).build_hasher();
        found.metadata.hash(&mut hasher);
        for event in &found.events {
            (event.start, event.value, event.name, event.track).hash(&mut hasher);
        }
        hasher.finish().to_le_bytes()
    };
    let mut id = [0; 16];
    id[..8].copy_from_slice(&half(0));
    id[8..].copy_from_slice(&half(1));
    id
}

/// Ids of names in the trace, by the number of their text.
struct NameIds<'a> {
    strings: &'a Strings,
    ids: Vec<u32>,
    /// Beginnings of long names that are taken.
    taken: HashSet<String>,
    cut: u64,
}

impl<'a> NameIds<'a> {
    fn new(strings: &'a Strings) -> Self {
        Self { strings, ids: vec![0; strings.len()], taken: HashSet::new(), cut: 0 }
    }

    fn id<W: Write + Seek>(&mut self, writer: &mut TraceWriter<W>, text: u32) -> u32 {
        let known = self.ids[text as usize];
        if known != 0 {
            return known;
        }
        let whole = self.strings.get(text);
        let id = if whole.len() <= MAX_NAME_BYTES {
            writer.name(whole)
        } else {
            self.cut += 1;
            writer.name(&self.shortened(whole))
        };
        self.ids[text as usize] = id;
        id
    }

    /// As much of a name as fits. Names that differ only behind that get a number:
    /// they would be taken for one.
    fn shortened(&mut self, whole: &str) -> String {
        let mut short = beginning(whole, MAX_NAME_BYTES).to_owned();
        let mut number = 1;
        while !self.taken.insert(short.clone()) {
            number += 1;
            let mark = format!(" #{number}");
            short = beginning(whole, MAX_NAME_BYTES - mark.len()).to_owned() + &mark;
        }
        short
    }
}
