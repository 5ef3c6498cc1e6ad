//! What a span or an event has to say: its fields and links, on their way from
//! `tracing`'s visitor to the slots of a record.
//!
//! Numbers stay numbers; everything else is text, cut where an event would take
//! more than its 31 slots (but see [`errors`](super::errors)). At most [`MOST_FIELDS`] fields and [`MOST_LINKS`] links are
//! kept; how many fields were left out is the field `fields_left_out`.
//!
//! Formatting a value is calling code of the program. It happens in memory of this
//! call alone and with nothing held, so it may use `tracing` itself; if it panics, what it
//! had written by then is recorded with [`PANICKED`] behind it, and the program goes on.

use std::{
    error::Error,
    fmt::{self, Write},
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::LazyLock,
};

use ringscope_format::{Link, LinkRole, Value};
use tracing_core::field::{Field, Visit};

use super::sites::Site;
use crate::hot::names::{self, cut};

/// With these, the links of a task and its own fields, an event has 31 slots at
/// most: none is ever too wide.
pub(super) const MOST_FIELDS: usize = 22;
const MOST_LINKS: usize = 4;
/// Bytes that are kept of one text: more than the 31 slots of an event hold, so
/// that the record says that it was cut.
pub(super) const LONGEST_TEXT: usize = 768;
/// Bytes that the texts of one event take together.
const TEXTS: usize = 1_536;
/// More than a slot holds: what the text of each field can count on, however long others are
/// and however late it comes.
const LEAST_TEXT: usize = 26;
const _: () = assert!(MOST_FIELDS * LEAST_TEXT < TEXTS);
/// Bytes that are kept of a text whose value panicked: less than an event holds, or what is cut
/// would be the remark about that.
const PANICKED_TEXT: usize = 512;
/// Sources of an error that are told: they may lead back to it.
const MOST_SOURCES: usize = 16;
/// Stands behind what a value that panicked had written.
pub(super) const PANICKED: &str = "(formatting it panicked)";

/// The key of how many fields were left out.
static LEFT_OUT: LazyLock<u32> =
    LazyLock::new(|| names::with(|names| names.intern("fields_left_out")));

/// Gives it its id.
pub(super) fn prepare() {
    LazyLock::force(&LEFT_OUT);
}

#[derive(Clone, Copy, Debug)]
enum Stored {
    Number(Value<'static>),
    Text { from: u16, to: u16 },
}

const NOTHING: Stored = Stored::Number(Value::U64(0));

/// Fields and links, without memory of their own elsewhere.
#[derive(Debug)]
pub(super) struct Details {
    fields: [(u32, Stored); MOST_FIELDS],
    field_count: usize,
    /// A bit for each field that has been told as it is now.
    told: u32,
    left_out: u32,
    links: [Link; MOST_LINKS],
    link_count: usize,
    links_told: usize,
    /// Those of the fields, one after another without gaps.
    texts: [u8; TEXTS],
    text_bytes: usize,
}

const _: () = assert!(MOST_FIELDS <= u32::BITS as usize);

impl Default for Details {
    fn default() -> Self {
        Self {
            fields: [(0, NOTHING); MOST_FIELDS],
            field_count: 0,
            told: 0,
            left_out: 0,
            links: [NO_LINK; MOST_LINKS],
            link_count: 0,
            links_told: 0,
            texts: [0; TEXTS],
            text_bytes: 0,
        }
    }
}

/// Fields and links as a record takes them.
pub(super) struct Telling<'a> {
    fields: [(u32, Value<'a>); MOST_FIELDS + MORE_FIELDS],
    field_count: usize,
    links: [Link; MOST_LINKS + MORE_LINKS],
    link_count: usize,
}

/// Room for what comes from elsewhere.
const MORE_FIELDS: usize = 5;
const MORE_LINKS: usize = 2;
const NO_LINK: Link = Link { id: 0, track: 0, role: LinkRole::Own };

impl<'a> Telling<'a> {
    /// Nothing.
    pub(super) fn new() -> Self {
        Self {
            fields: [(0, Value::U64(0)); MOST_FIELDS + MORE_FIELDS],
            field_count: 0,
            links: [NO_LINK; MOST_LINKS + MORE_LINKS],
            link_count: 0,
        }
    }

    pub(super) fn field(&mut self, key: u32, value: Value<'a>) {
        if let Some(place) = self.fields.get_mut(self.field_count) {
            *place = (key, value);
            self.field_count += 1;
        }
    }

    pub(super) fn link(&mut self, link: Link) {
        if let Some(place) = self.links.get_mut(self.link_count) {
            *place = link;
            self.link_count += 1;
        }
    }

    pub(super) fn fields(&self) -> &[(u32, Value<'a>)] {
        &self.fields[..self.field_count]
    }

    pub(super) fn links(&self) -> &[Link] {
        &self.links[..self.link_count]
    }
}

impl Details {
    pub(super) fn clear(&mut self) {
        (self.field_count, self.told, self.left_out) = (0, 0, 0);
        (self.link_count, self.links_told, self.text_bytes) = (0, 0, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.field_count == 0 && self.link_count == 0
    }

    pub(super) fn link(&mut self, role: LinkRole, number: u32) {
        if let Some(place) = self.links.get_mut(self.link_count) {
            *place = Link { id: u128::from(number), track: 0, role };
            self.link_count += 1;
        }
    }

    /// Takes over what another has; the same key again replaces what there was.
    pub(super) fn merge(&mut self, other: &Details) {
        for &(key, stored) in &other.fields[..other.field_count] {
            match stored {
                Stored::Number(value) => self.put(key, Stored::Number(value)),
                Stored::Text { .. } => self.put_text(key, other.text(stored)),
            }
        }
        self.left_out += other.left_out;
    }

    /// Adds everything to `telling`.
    pub(super) fn tell_all<'a>(&'a self, telling: &mut Telling<'a>) {
        self.tell(telling, 0, 0);
    }

    /// What has not been told yet; from now on it has been.
    pub(super) fn tell_news(&mut self) -> Telling<'_> {
        let (told, links) = (self.told, self.links_told);
        (self.told, self.links_told) = (u32::MAX, self.link_count);
        let mut telling = Telling::new();
        self.tell(&mut telling, told, links);
        telling
    }

    fn tell<'a>(&'a self, telling: &mut Telling<'a>, told: u32, first_link: usize) {
        let fields = self.fields[..self.field_count].iter().enumerate();
        for (_, &(key, stored)) in fields.filter(|(at, _)| told >> at & 1 == 0) {
            telling.field(
                key,
                match stored {
                    Stored::Number(value) => value,
                    Stored::Text { .. } => Value::Text(self.text(stored)),
                },
            );
        }
        if self.left_out > 0 {
            telling.field(*LEFT_OUT, Value::U64(u64::from(self.left_out)));
        }
        self.links[first_link..self.link_count].iter().for_each(|link| telling.link(*link));
    }

    fn text(&self, stored: Stored) -> &str {
        let Stored::Text { from, to } = stored else { return "" };
        let bytes = self.texts.get(usize::from(from)..usize::from(to)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// How many fields there are.
    pub(super) fn field_count(&self) -> usize {
        self.field_count
    }

    /// Counts a field that found no place.
    pub(super) fn leave_out(&mut self) {
        self.left_out += 1;
    }

    pub(super) fn put_number(&mut self, key: u32, value: Value<'static>) {
        self.put(key, Stored::Number(value));
    }

    fn put(&mut self, key: u32, stored: Stored) {
        if let Some(at) = self.place_for(key) {
            self.fields[at] = (key, stored);
        }
    }

    /// The place of a field that is about to be put there, news from now on, with nothing in it.
    /// None, and counted, if there are too many.
    fn place_for(&mut self, key: u32) -> Option<usize> {
        let known = self.fields[..self.field_count].iter().position(|(known, _)| *known == key);
        let Some(at) =
            known.or_else(|| (self.field_count < MOST_FIELDS).then_some(self.field_count))
        else {
            self.left_out += 1;
            return None;
        };
        if known.is_some() {
            self.drop_text(at);
        } else {
            self.field_count += 1;
        }
        self.fields[at] = (key, NOTHING);
        self.told &= !(1 << at);
        Some(at)
    }

    /// Closes the gap that the text of a field leaves behind.
    fn drop_text(&mut self, at: usize) {
        let Stored::Text { from: gap, to: end } = self.fields[at].1 else { return };
        self.texts.copy_within(usize::from(end)..self.text_bytes, usize::from(gap));
        let length = end - gap;
        self.text_bytes -= usize::from(length);
        for (_, stored) in &mut self.fields[..self.field_count] {
            if let Stored::Text { from, to } = stored
                && *from >= end
            {
                (*from, *to) = (*from - length, *to - length);
            }
        }
    }

    /// Bytes that the text of one more field may have.
    pub(super) fn room_for_text(&self) -> usize {
        self.room_beside(self.field_count)
    }

    /// Bytes that the text of the field at a place may have, beside those of all others.
    fn room_beside(&self, place: usize) -> usize {
        let reserved = |at: usize| match self.fields[at].1 {
            Stored::Text { from, to } if at < self.field_count => {
                usize::from(to - from).max(LEAST_TEXT)
            }
            _ => LEAST_TEXT,
        };
        let others: usize = (0..MOST_FIELDS).filter(|&at| at != place).map(reserved).sum();
        TEXTS.saturating_sub(others).min(LONGEST_TEXT)
    }

    /// A text, cut to what there is room for.
    pub(super) fn put_text(&mut self, key: u32, text: &str) {
        let Some(at) = self.place_for(key) else { return };
        let text = cut(text, self.room_beside(at));
        let (from, to) = (self.text_bytes, self.text_bytes + text.len());
        self.texts[from..to].copy_from_slice(text.as_bytes());
        self.text_bytes = to;
        self.fields[at].1 = Stored::Text { from: from as u16, to: to as u16 };
    }
}

/// Where the fields of a span or an event are kept, by their keys.
pub(super) trait Fields {
    fn number(&mut self, key: u32, value: Value<'static>);
    fn text(&mut self, key: u32, text: &str);
    /// What its `Debug` writes.
    fn formatted(&mut self, key: u32, value: &dyn fmt::Debug);
}

impl Fields for Details {
    fn number(&mut self, key: u32, value: Value<'static>) {
        self.put_number(key, value);
    }

    fn text(&mut self, key: u32, text: &str) {
        self.put_text(key, text);
    }

    fn formatted(&mut self, key: u32, value: &dyn fmt::Debug) {
        let mut text = CutText::new();
        let formatting = AssertUnwindSafe(|| {
            let _ = write!(text, "{value:?}"); // fails where the text is cut
        });
        if catch_unwind(formatting).is_err() {
            text.note_panic(PANICKED_TEXT);
        }
        self.put_text(key, text.as_str());
    }
}

/// Takes the fields of one span or event.
pub(super) struct Visitor<'a, F> {
    pub(super) site: &'static Site,
    pub(super) fields: &'a mut F,
}

impl<F: Fields> Visitor<'_, F> {
    fn number(&mut self, field: &Field, value: Value<'static>) {
        self.fields.number(self.site.key(field.index()), value);
    }
}

impl<F: Fields> Visit for Visitor<'_, F> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.number(field, Value::F64(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field, Value::I64(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field, Value::U64(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.number(field, Value::Bool(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.text(self.site.key(field.index()), value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.record_debug(field, &WithSources(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.formatted(self.site.key(field.index()), value);
    }
}

/// An error and what led to it, `: ` between.
struct WithSources<'a>(&'a (dyn Error + 'static));

impl fmt::Debug for WithSources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut sources = iter::successors(self.0.source(), |&error| error.source());
        for source in sources.by_ref().take(MOST_SOURCES) {
            write!(f, ": {source}")?;
        }
        if sources.next().is_some() { f.write_str(": ...") } else { Ok(()) }
    }
}

/// Formats into memory of its own, and fails when that is full: whoever formats
/// something huge stops there.
pub(super) struct CutText {
    bytes: [u8; LONGEST_TEXT],
    len: usize,
}

impl CutText {
    pub(super) fn new() -> Self {
        Self { bytes: [0; LONGEST_TEXT], len: 0 }
    }

    /// Bytes that still fit.
    pub(super) fn room(&self) -> usize {
        LONGEST_TEXT - self.len
    }

    /// Whoever wrote this has panicked: says so, within `most` bytes.
    pub(super) fn note_panic(&mut self, most: usize) {
        self.len = cut(self.as_str(), most.min(LONGEST_TEXT) - PANICKED.len()).len();
        let _ = self.write_str(PANICKED);
    }

    pub(super) fn as_str(&self) -> &str {
        // Only whole characters are ever written.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for CutText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = cut(text, LONGEST_TEXT - self.len).len();
        self.bytes[self.len..self.len + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}
