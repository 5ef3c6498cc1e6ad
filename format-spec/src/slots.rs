//! Slots: what an event has to say beyond its record (SPEC 10.2 to 10.5).
//!
//! The writing half runs in the measured program: it allocates nothing, formats
//! nothing and never panics. The parsing half allocates.

use crate::long_texts::{LongRefs, LongTexts, long_text_slot};
use crate::record::{Kind, MAX_SLOTS, Record, Status, ValueType};

/// Bytes of text in one slot.
const TEXT_BYTES: usize = 24;
const GOES_ON: u8 = 1;
const CUT: u8 = 2;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A floating-point number.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// The id of a name.
    Name(u32),
    /// A duration in ticks.
    Ticks(u64),
    /// Text, which goes into slots of its own.
    Text(&'a str),
}

impl Value<'_> {
    /// Type and bits of a value; `(None, 0)` for text.
    #[inline]
    pub fn to_bits(self) -> (ValueType, u64) {
        match self {
            Value::U64(n) => (ValueType::U64, n),
            Value::I64(n) => (ValueType::I64, n as u64),
            Value::F64(n) => (ValueType::F64, n.to_bits()),
            Value::Bool(b) => (ValueType::Bool, b as u64),
            Value::Name(id) => (ValueType::Name, id as u64),
            Value::Ticks(n) => (ValueType::Ticks, n),
            Value::Text(_) => (ValueType::None, 0),
        }
    }
}

/// What an id in a link slot is. Roles that a reader does not know survive.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkRole(pub u8);

#[allow(non_upper_case_globals)]
impl LinkRole {
    /// The id of the span itself.
    pub const Own: LinkRole = LinkRole(1);
    /// The id of the span that contains it.
    pub const Parent: LinkRole = LinkRole(2);
    /// The id of a span that led to it.
    pub const FollowsFrom: LinkRole = LinkRole(3);
    /// The id of the request that it serves.
    pub const Request: LinkRole = LinkRole(4);
}

/// A wide id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The id; 64-bit ids use the low half.
    pub id: u128,
    /// A track, or 0. In an own id: the track the span ended on.
    pub track: u32,
    /// What the id is.
    pub role: LinkRole,
}

/// How an event's slots are shared out.
struct Plan {
    links: usize,
    numbers: usize,
    texts: usize,
    /// Slots for all texts together.
    text_slots: usize,
}

#[inline]
fn text_slots(text: &str) -> usize {
    text.len().div_ceil(TEXT_BYTES).max(1)
}

#[inline]
fn plan(fields: &[(u32, Value<'_>)], links: &[Link], long: LongRefs) -> Plan {
    let links = links.len().min(MAX_SLOTS);
    let (mut numbers, mut texts, mut wanted) = (0, 0, 0_usize);
    for (_, value) in fields {
        if let Value::Text(text) = value {
            texts += 1;
            wanted = wanted.saturating_add(text_slots(text));
        } else {
            numbers += 1;
        }
    }
    let numbers = numbers.min((MAX_SLOTS - links) * 2);
    let left = (MAX_SLOTS - links - numbers.div_ceil(2)).saturating_sub(long.count());
    Plan { links, numbers, texts: texts.min(left), text_slots: wanted.min(left) }
}

/// How many slots these fields and links take, at most [`MAX_SLOTS`].
///
/// Fields other than texts pair up, two to a slot. Texts are cut so that every
/// text has a slot at least. What still does not fit is left out: ask
/// [`too_wide`] first if that matters.
#[inline]
pub fn slots_needed(fields: &[(u32, Value<'_>)], links: &[Link]) -> usize {
    slots_needed_with(fields, links, LongRefs::NONE)
}

/// The same where some texts are long and each takes one slot more, to say so.
#[inline]
pub fn slots_needed_with(fields: &[(u32, Value<'_>)], links: &[Link], long: LongRefs) -> usize {
    let plan = plan(fields, links, long);
    plan.links + plan.numbers.div_ceil(2) + plan.text_slots + long.count()
}

/// Which texts of an event do not fit into its slots, so that they are to be long texts.
/// Their numbers are the caller's to give. None if the event has no slot left for that.
pub fn long_refs(fields: &[(u32, Value<'_>)], links: &[Link]) -> LongRefs {
    let mut long = LongRefs::NONE;
    if too_wide(fields, links) {
        return long;
    }
    // Every slot that says where a text is takes one from the texts, which may then
    // cut another. At most so many rounds as there are texts.
    loop {
        let plan = plan(fields, links, long);
        let others = plan.links + plan.numbers.div_ceil(2) + plan.texts;
        let mut more = cut_texts(fields, &plan) & !long.texts;
        let before = long;
        while more != 0 && others + long.count() < MAX_SLOTS {
            long.texts |= more & more.wrapping_neg();
            more &= more - 1;
        }
        if long == before {
            return long;
        }
    }
}

/// How many texts of an event are cut and have no long text.
pub fn texts_left_cut(fields: &[(u32, Value<'_>)], links: &[Link], long: LongRefs) -> u32 {
    (cut_texts(fields, &plan(fields, links, long)) & !long.texts).count_ones()
}

/// Bit *n* is set if the *n*-th text of the event gets fewer slots than it needs.
fn cut_texts(fields: &[(u32, Value<'_>)], plan: &Plan) -> u32 {
    let wanted = fields.iter().filter_map(|(_, value)| match value {
        Value::Text(text) => Some(text_slots(text)),
        _ => None,
    });
    let (mut slots, mut cut) = (plan.text_slots, 0);
    for (text, wanted) in wanted.take(plan.texts).enumerate() {
        let granted = wanted.min(slots - (plan.texts - 1 - text));
        slots -= granted;
        cut |= u32::from(granted < wanted) << text;
    }
    cut
}

/// Whether some field or link finds no place at all, not even cut.
#[inline]
pub fn too_wide(fields: &[(u32, Value<'_>)], links: &[Link]) -> bool {
    let texts = fields.iter().filter(|(_, value)| matches!(value, Value::Text(_))).count();
    let numbers = fields.len() - texts;
    links.len().saturating_add(numbers.div_ceil(2)).saturating_add(texts) > MAX_SLOTS
}

/// Writes exactly [`slots_needed`] slots: links, then numbers, then texts, each
/// in the order given.
#[inline]
pub fn write_slots(fields: &[(u32, Value<'_>)], links: &[Link], sink: impl FnMut(Record)) {
    write_slots_with(fields, links, LongRefs::NONE, sink);
}

/// Writes exactly [`slots_needed_with`] slots: the same, and behind each text that is
/// long its number.
#[inline]
pub fn write_slots_with(
    fields: &[(u32, Value<'_>)],
    links: &[Link],
    long: LongRefs,
    mut sink: impl FnMut(Record),
) {
    let plan = plan(fields, links, long);
    for link in links.iter().take(plan.links) {
        sink(link_slot(link));
    }
    let mut waiting: Option<(u32, ValueType, u64)> = None;
    let numbers = fields.iter().filter(|(_, value)| !matches!(value, Value::Text(_)));
    for &(key, value) in numbers.take(plan.numbers) {
        let (value_type, bits) = value.to_bits();
        match waiting.take() {
            None => waiting = Some((key, value_type, bits)),
            Some(first) => sink(field_slot(first, (key, value_type, bits))),
        }
    }
    if let Some(first) = waiting {
        sink(field_slot(first, (0, ValueType::None, 0)));
    }
    let (mut slots, mut texts) = (plan.text_slots, plan.texts);
    let mut number = long.first_number;
    for &(key, value) in fields {
        let Value::Text(text) = value else { continue };
        if texts == 0 {
            break;
        }
        let is_long = long.contains(plan.texts - texts);
        // Every text that comes later keeps a slot.
        texts -= 1;
        let granted = text_slots(text).min(slots - texts);
        slots -= granted;
        write_text(key, text, granted, &mut sink);
        if is_long {
            sink(long_text_slot(key, number));
            number = number.wrapping_add(1);
        }
    }
}

#[inline]
fn link_slot(link: &Link) -> Record {
    Record {
        start: link.id as u64,
        value: (link.id >> 64) as u64,
        link: link.track,
        kind: Kind::LINK,
        status: Status(link.role.0),
        ..Record::default()
    }
}

#[inline]
fn field_slot(first: (u32, ValueType, u64), second: (u32, ValueType, u64)) -> Record {
    Record {
        start: first.2,
        value: second.2,
        name: first.0,
        track: second.0,
        kind: Kind::FIELDS,
        status: Status(first.1 as u8 | (second.1 as u8) << 4),
        ..Record::default()
    }
}

#[inline]
fn write_text(key: u32, text: &str, slots: usize, sink: &mut impl FnMut(Record)) {
    let room = slots * TEXT_BYTES;
    let cut = text.len() > room;
    let mut bytes = text.as_bytes();
    if cut {
        let mut end = room;
        while end > 0 && bytes[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        bytes = &bytes[..end];
    }
    for slot in 1..=slots {
        let (piece, rest) = bytes.split_at(bytes.len().min(TEXT_BYTES));
        bytes = rest;
        let mut padded = [0_u8; TEXT_BYTES];
        padded[..piece.len()].copy_from_slice(piece);
        let [start, value, tail]: [u64; 3] = bytemuck::cast(padded);
        let last = slot == slots;
        sink(Record {
            start,
            value,
            name: tail as u32,
            track: (tail >> 32) as u32,
            link: key,
            kind: Kind::TEXT,
            status: Status(piece.len() as u8),
            depth: if !last {
                GOES_ON
            } else if cut {
                CUT
            } else {
                0
            },
            shape: 0,
        });
    }
}

/// The value of a field that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedValue {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A floating-point number.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// The id of a name.
    Name(u32),
    /// A duration in ticks.
    Ticks(u64),
    /// Text, and whether it was longer.
    Text {
        /// What is there of it.
        text: String,
        /// Whether its end is missing.
        cut: bool,
    },
}

impl OwnedValue {
    /// The value of this type with these bits, unless there is none.
    pub fn from_bits(value_type: ValueType, bits: u64) -> Option<OwnedValue> {
        Some(match value_type {
            ValueType::None => return None,
            ValueType::U64 => OwnedValue::U64(bits),
            ValueType::I64 => OwnedValue::I64(bits as i64),
            ValueType::F64 => OwnedValue::F64(f64::from_bits(bits)),
            ValueType::Bool => OwnedValue::Bool(bits != 0),
            ValueType::Name => OwnedValue::Name(bits as u32),
            ValueType::Ticks => OwnedValue::Ticks(bits),
        })
    }
}

/// What the slots of one event say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventDetails {
    /// Key and value of every field, numbers before texts.
    pub fields: Vec<(u32, OwnedValue)>,
    /// The ids.
    pub links: Vec<Link>,
    /// Which of the fields are beginnings of long texts, and the numbers of those.
    pub long: Vec<(usize, u64)>,
}

impl EventDetails {
    /// Puts long texts in the place of their beginnings, so far as they are there.
    pub fn complete(&mut self, texts: &LongTexts) {
        for (at, number) in std::mem::take(&mut self.long) {
            if let (Some((_, value)), Some(long)) = (self.fields.get_mut(at), texts.get(number)) {
                *value = OwnedValue::Text { text: long.text.into_owned(), cut: long.cut };
            }
        }
    }
}

/// The request that an event says it is for, if it says so: a link slot of that role.
/// Allocates nothing, for readers that ask every event.
pub fn request_of(slots: &[Record]) -> Option<u128> {
    let is_request =
        |slot: &&Record| slot.kind == Kind::LINK && LinkRole(slot.status.0) == LinkRole::Request;
    slots.iter().find(is_request).map(id_of_link)
}

fn id_of_link(slot: &Record) -> u128 {
    u128::from(slot.start) | u128::from(slot.value) << 64
}

/// Parses the slots of one event. Kinds of slots and types of values that this
/// version does not know are skipped; text that is not UTF-8 is repaired.
pub fn parse_slots(slots: &[Record]) -> EventDetails {
    let mut details = EventDetails::default();
    let mut text = Vec::new();
    for (at, slot) in slots.iter().enumerate() {
        match slot.kind {
            Kind::FIELDS => {
                let pairs = [
                    (slot.name, slot.status.0 & 0x0F, slot.start),
                    (slot.track, slot.status.0 >> 4, slot.value),
                ];
                for (key, value_type, bits) in pairs {
                    let value = ValueType::from_bits(value_type)
                        .and_then(|value_type| OwnedValue::from_bits(value_type, bits));
                    details.fields.extend(value.map(|value| (key, value)));
                }
            }
            Kind::TEXT => {
                let bytes: &[u8; 32] = bytemuck::cast_ref(slot);
                text.extend_from_slice(&bytes[..TEXT_BYTES.min(slot.status.0 as usize)]);
                let continues = slot.depth & GOES_ON != 0;
                let next = slots.get(at + 1).is_some_and(|next| next.kind == Kind::TEXT);
                if !(continues && next) {
                    let cut = slot.depth & CUT != 0 || continues;
                    let text = String::from_utf8(std::mem::take(&mut text))
                        .unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
                    details.fields.push((slot.link, OwnedValue::Text { text, cut }));
                }
            }
            Kind::LONG_TEXT => {
                let follows = at > 0 && slots[at - 1].kind == Kind::TEXT;
                if follows && details.fields.last().is_some_and(|(key, _)| *key == slot.link) {
                    details.long.push((details.fields.len() - 1, slot.start));
                }
            }
            Kind::LINK => details.links.push(Link {
                id: id_of_link(slot),
                track: slot.link,
                role: LinkRole(slot.status.0),
            }),
            _ => {}
        }
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(fields: &[(u32, Value<'_>)], links: &[Link]) -> Vec<Record> {
        let mut slots = Vec::new();
        write_slots(fields, links, |slot| slots.push(slot));
        assert_eq!(slots.len(), slots_needed(fields, links));
        slots
    }

    fn bytes(slot: &Record) -> &[u8; 32] {
        bytemuck::cast_ref(slot)
    }

    #[test]
    fn field_slot_has_every_byte_where_the_format_says() {
        let slots = written(&[(0x0A0B, Value::I64(-2)), (0x0C0D, Value::Bool(true))], &[]);
        let [slot] = slots.as_slice() else { panic!("{slots:?}") };
        let mut expected = [0_u8; 32];
        expected[0..8].copy_from_slice(&(-2_i64).to_le_bytes());
        expected[8] = 1;
        expected[16..20].copy_from_slice(&[0x0B, 0x0A, 0, 0]);
        expected[20..24].copy_from_slice(&[0x0D, 0x0C, 0, 0]);
        expected[28..30].copy_from_slice(&[0x80, 0x42]);
        assert_eq!(bytes(slot), &expected);
    }

    #[test]
    fn the_request_of_an_event_is_the_first_link_of_that_role() {
        let link = |id, role| Link { id, track: 0, role };
        let links = [
            link(1, LinkRole::Own),
            link(7 << 100 | 3, LinkRole::Request),
            link(9, LinkRole::Request),
        ];
        let slots = written(&[(1, Value::U64(4)), (2, Value::Text("four"))], &links);
        assert_eq!(request_of(&slots), Some(7 << 100 | 3));
        assert_eq!(request_of(&written(&[(1, Value::Text("no"))], &links[..1])), None);
    }

    #[test]
    fn odd_field_leaves_the_second_place_absent() {
        let slots = written(&[(7, Value::F64(1.5))], &[]);
        let mut expected = [0_u8; 32];
        expected[0..8].copy_from_slice(&1.5_f64.to_bits().to_le_bytes());
        expected[16] = 7;
        expected[28..30].copy_from_slice(&[0x80, 0x03]);
        assert_eq!(bytes(&slots[0]), &expected);
    }

    #[test]
    fn text_slots_have_every_byte_where_the_format_says() {
        let slots = written(&[(9, Value::Text("abcdefghijklmnopqrstuvwxyz"))], &[]);
        assert_eq!(slots.len(), 2);
        assert_eq!(&bytes(&slots[0])[..24], b"abcdefghijklmnopqrstuvwx");
        assert_eq!(bytes(&slots[0])[24..], [9, 0, 0, 0, 0x81, 24, 1, 0]);
        assert_eq!(&bytes(&slots[1])[..3], b"yz\0");
        assert_eq!(bytes(&slots[1])[24..], [9, 0, 0, 0, 0x81, 2, 0, 0]);
    }

    #[test]
    fn link_slot_has_every_byte_where_the_format_says() {
        let id = 0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10;
        let slots = written(&[], &[Link { id, track: 5, role: LinkRole::Request }]);
        let mut expected = [0_u8; 32];
        expected[0..16].copy_from_slice(&id.to_le_bytes());
        expected[24] = 5;
        expected[28..30].copy_from_slice(&[0x82, 4]);
        assert_eq!(bytes(&slots[0]), &expected);
    }

    #[test]
    fn empty_text_takes_one_slot() {
        let slots = written(&[(1, Value::Text(""))], &[]);
        let text = OwnedValue::Text { text: String::new(), cut: false };
        assert_eq!(parse_slots(&slots).fields, [(1, text)]);
    }

    #[test]
    fn long_text_is_cut_at_a_character_and_says_so() {
        let long = "\u{20AC}".repeat(400);
        let slots = written(&[(1, Value::Text(&long))], &[]);
        assert_eq!(slots.len(), MAX_SLOTS);
        let details = parse_slots(&slots);
        let [(1, OwnedValue::Text { text, cut: true })] = details.fields.as_slice() else {
            panic!("{details:?}")
        };
        assert_eq!(text.as_str(), "\u{20AC}".repeat(31 * 24 / 3));
    }

    #[test]
    fn text_behind_a_long_text_keeps_a_slot() {
        let long = "x".repeat(5000);
        let fields = [(1, Value::Text(&long)), (2, Value::Text("kept")), (3, Value::U64(3))];
        let slots = written(&fields, &[]);
        assert_eq!(slots.len(), MAX_SLOTS);
        let details = parse_slots(&slots);
        assert_eq!(details.fields[0], (3, OwnedValue::U64(3)));
        assert!(
            matches!(&details.fields[1], (1, OwnedValue::Text { text, cut: true }) if text.len() == 29 * 24)
        );
        let kept = OwnedValue::Text { text: "kept".to_owned(), cut: false };
        assert_eq!(details.fields[2], (2, kept));
    }

    #[test]
    fn more_than_fits_is_left_out_and_never_overflows() {
        let link = Link { id: 1, track: 0, role: LinkRole::Parent };
        let numbers = vec![(1, Value::U64(1)); 200];
        let texts = vec![(1, Value::Text("t")); 200];
        assert_eq!(written(&numbers, &[link; 40]).len(), MAX_SLOTS);
        assert_eq!(written(&numbers, &[]).len(), MAX_SLOTS);
        assert_eq!(written(&texts, &[link; 5]).len(), MAX_SLOTS);
        assert!(too_wide(&numbers, &[]) && too_wide(&texts, &[]) && too_wide(&[], &[link; 32]));
        assert!(!too_wide(&numbers[..62], &[]) && !too_wide(&texts[..31], &[]));
        assert_eq!(written(&[], &[]).len(), 0);
    }

    #[test]
    fn unknown_slots_and_types_are_skipped_and_bad_text_is_repaired() {
        let mut slots =
            written(&[(1, Value::U64(5)), (2, Value::U64(6)), (3, Value::Text("ok"))], &[]);
        slots.insert(0, Record { kind: Kind(0xEF), ..Record::default() });
        slots[1].status = Status(0x1F);
        slots[2].start |= 0xFF;
        slots[2].status = Status(200);
        let details = parse_slots(&slots);
        assert_eq!(details.fields[0], (2, OwnedValue::U64(6)));
        let (3, OwnedValue::Text { text, .. }) = &details.fields[1] else { panic!("{details:?}") };
        assert!(text.starts_with('\u{FFFD}'), "{text:?}");
    }

    #[test]
    fn text_that_should_go_on_and_does_not_counts_as_cut() {
        let slots = written(&[(1, Value::Text(&"x".repeat(30)))], &[]);
        let details = parse_slots(&slots[..1]);
        assert!(
            matches!(&details.fields[0].1, OwnedValue::Text { text, cut: true } if text.len() == 24)
        );
    }
}
