//! Long texts: what is longer than the slots of its event hold, kept beside the
//! events (SPEC 8.3.6 and 10.5).

use crate::limits::MAX_LONG_TEXT_BYTES;
use crate::little_endian::{u32_at, u64_at};
use crate::record::{Kind, Record};
use crate::slots::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

const HEAD: usize = 16;
const CUT: u8 = 1;
/// The number of no text.
pub(crate) const NO_LONG_TEXT: u64 = 0;

/// Bytes that the entry of a text takes: what [`push_long_text`] appends.
pub fn long_text_bytes(text: &str) -> usize {
    HEAD + cut_at(text, MAX_LONG_TEXT_BYTES).len()
}

/// Appends a long text, cut at 65,536 bytes; `cut` if its end was missing already.
pub fn push_long_text(out: &mut Vec<u8>, number: u64, text: &str, cut: bool) {
    let stored = cut_at(text, MAX_LONG_TEXT_BYTES);
    let cut = cut || stored.len() < text.len();
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    out.extend_from_slice(&[if cut { CUT } else { 0 }, 0, 0, 0]);
    out.extend_from_slice(stored.as_bytes());
}

/// As much of the text as fits, to the last whole character.
fn cut_at(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The slot that refers to a long text; it goes behind the slots of the text of this key.
#[inline]
pub fn long_text_slot(key: u32, number: u64) -> Record {
    Record { start: number, link: key, kind: Kind::LONG_TEXT, ..Record::default() }
}

/// Which texts of an event have a long text beside it, and their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongRefs {
    /// Bit *n* is of the *n*-th text of the event.
    pub(crate) texts: u32,
    /// Number of the first of them; the others count up from it.
    pub(crate) first_number: u64,
}

impl LongRefs {
    /// No text has.
    pub const NONE: LongRefs = LongRefs { texts: 0, first_number: 0 };

    /// The same, numbered from here.
    pub const fn numbered_from(self, first_number: u64) -> LongRefs {
        LongRefs { first_number, ..self }
    }

    /// How many.
    #[inline]
    pub const fn count(&self) -> usize {
        self.texts.count_ones() as usize
    }

    /// Whether the *n*-th text of the event is among them.
    #[inline]
    pub const fn contains(&self, text: usize) -> bool {
        text < 32 && self.texts & 1 << text != 0
    }

    /// These texts, each with its place among the texts of the event.
    pub fn texts<'a>(self, fields: &[(u32, Value<'a>)]) -> impl Iterator<Item = (usize, &'a str)> {
        let texts = fields.iter().filter_map(|field| match field.1 {
            Value::Text(text) => Some(text),
            _ => None,
        });
        texts.enumerate().filter(move |(at, _)| self.contains(*at))
    }

    /// Without the *n*-th text of the event.
    pub const fn without(self, text: usize) -> LongRefs {
        let bit = if text < 32 { 1 << text } else { 0 };
        LongRefs { texts: self.texts & !bit, ..self }
    }
}

/// A long text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongText<'a> {
    /// The text; what is not UTF-8 is repaired.
    pub text: Cow<'a, str>,
    /// Whether even this is not all of it.
    pub cut: bool,
}

/// The long texts of a chunk, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongTexts {
    bytes: Vec<u8>,
    by_number: BTreeMap<u64, (Range<usize>, bool)>,
}

impl LongTexts {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The long text of this number.
    pub fn get(&self, number: u64) -> Option<LongText<'_>> {
        let (place, cut) = self.by_number.get(&number)?;
        Some(LongText { text: String::from_utf8_lossy(&self.bytes[place.clone()]), cut: *cut })
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.by_number.clear();
    }

    /// Takes in packed entries. Returns the bytes that could not be read: from the
    /// first entry that reaches past the end, or is longer than the format allows.
    pub fn absorb(&mut self, entries: &[u8]) -> usize {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(entries);
        let mut at = 0;
        while let Some((number, text, cut)) = entry(entries, at) {
            at = text.end;
            let place = before + text.start..before + text.end;
            if number != NO_LONG_TEXT {
                self.by_number.entry(number).or_insert((place, cut));
            }
        }
        entries.len() - at
    }
}

/// The entry at this place: its number, where its text is, and whether that was cut.
fn entry(entries: &[u8], at: usize) -> Option<(u64, Range<usize>, bool)> {
    let head = entries.get(at..at.checked_add(HEAD)?)?;
    let length = u32_at(head, 8) as usize;
    let text = at + HEAD..(at + HEAD).checked_add(length)?;
    let fits = length <= MAX_LONG_TEXT_BYTES && text.end <= entries.len();
    fits.then(|| (u64_at(head, 0), text, head[12] & CUT != 0))
}

/// How many whole entries these are; `None` if they are not.
pub(crate) fn count(entries: &[u8]) -> Option<u32> {
    let (mut at, mut count) = (0, 0);
    while at < entries.len() {
        at = entry(entries, at)?.1.end;
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_has_every_byte_where_the_format_says() {
        let mut out = Vec::new();
        push_long_text(&mut out, 0x0102_0304_0506_0708, "h\u{E9}llo", false);
        let head = [8, 7, 6, 5, 4, 3, 2, 1, 6, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(out, [&head[..], "h\u{E9}llo".as_bytes()].concat());
        assert_eq!(out.len(), long_text_bytes("h\u{E9}llo"));
        let slot = long_text_slot(0x0A0B, 0x0102_0304_0506_0708);
        let bytes: &[u8; 32] = bytemuck::cast_ref(&slot);
        assert_eq!(bytes[..8], head[..8]);
        assert_eq!(bytes[8..24], [0; 16]);
        assert_eq!(bytes[24..], [0x0B, 0x0A, 0, 0, 0x83, 0, 0, 0]);
    }

    #[test]
    fn text_past_the_limit_is_cut_at_a_character_and_says_so() {
        let mut out = Vec::new();
        push_long_text(&mut out, 1, &"\u{20AC}".repeat(30_000), false);
        push_long_text(&mut out, 2, &"x".repeat(MAX_LONG_TEXT_BYTES), false);
        push_long_text(&mut out, 3, "a beginning", true);
        let mut texts = LongTexts::default();
        assert_eq!((texts.absorb(&out), count(&out)), (0, Some(3)));
        let first = texts.get(1).unwrap();
        assert_eq!(first, LongText { text: "\u{20AC}".repeat(21_845).into(), cut: true });
        let second = texts.get(2).unwrap();
        assert_eq!((second.text.len(), second.cut), (MAX_LONG_TEXT_BYTES, false));
        assert!(texts.get(3).unwrap().cut);
        assert_eq!(texts.get(4), None);
    }

    #[test]
    fn entries_cut_off_anywhere_leave_the_whole_ones() {
        let mut out = Vec::new();
        for (number, text) in [(7, "seven"), (8, ""), (9, "nine")] {
            push_long_text(&mut out, number, text, false);
        }
        let ends = [21, 37, 57];
        for length in 0..=out.len() {
            let mut texts = LongTexts::default();
            let whole = ends.iter().filter(|end| **end <= length).count();
            let left = length - whole.checked_sub(1).map_or(0, |last| ends[last]);
            assert_eq!((texts.absorb(&out[..length]), texts.len()), (left, whole), "{length}");
            assert_eq!(count(&out[..length]), (left == 0).then_some(whole as u32));
        }
    }

    #[test]
    fn entry_that_claims_too_much_ends_the_table_and_the_first_of_a_number_counts() {
        let mut out = Vec::new();
        push_long_text(&mut out, 1, "first", false);
        push_long_text(&mut out, 1, "second", false);
        let good = out.len();
        out.extend_from_slice(&2_u64.to_le_bytes());
        out.extend_from_slice(&(MAX_LONG_TEXT_BYTES as u32 + 1).to_le_bytes());
        out.extend_from_slice(&[0; MAX_LONG_TEXT_BYTES + 5]);
        let mut texts = LongTexts::default();
        assert_eq!(texts.absorb(&out), out.len() - good);
        assert_eq!((texts.len(), &*texts.get(1).unwrap().text), (1, "first"));
        out[good + 8..good + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!((LongTexts::default().absorb(&out), count(&out)), (out.len() - good, None));
    }

    #[test]
    fn text_that_is_not_utf8_is_repaired() {
        let mut out = Vec::new();
        push_long_text(&mut out, 1, "ab", false);
        out[16] = 0xFF;
        let mut texts = LongTexts::default();
        texts.absorb(&out);
        assert_eq!(texts.get(1).unwrap().text, "\u{FFFD}b");
    }
}
