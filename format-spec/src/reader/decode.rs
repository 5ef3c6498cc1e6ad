//! From the sections of a chunk to columns (SPEC 8.2 and 8.3).

use super::batch::{Batch, Columns};
use super::damage::Why;
use super::source::Source;
use super::walk::places;
use crate::chunk::{SectionEntry, encoding, section};
use crate::error::Error;
use crate::limits::MAX_SECTION_BYTES;
use crate::little_endian::u32_at;
use crate::record::Record;
use crate::starts::restore_starts;
use std::fmt;
use std::ops::{BitOr, Range};

/// Sections that lie no farther apart than this are read at once.
const READ_AT_ONCE: u64 = 256 << 10;

/// The chunk to decode.
pub(crate) struct SealedChunk<'a> {
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
    pub(crate) events: usize,
    pub(crate) slots: usize,
    pub(crate) origin: u64,
    pub(crate) sections: &'a [SectionEntry],
}

/// Unpacks zstd frames. Its context is made for the first of them.
#[derive(Default)]
pub(crate) struct Unpacker(Option<zstd::bulk::Decompressor<'static>>);

impl Unpacker {
    /// Unpacks a frame that should fill `raw`.
    pub(crate) fn unpack(&mut self, stored: &[u8], raw: &mut [u8]) -> Result<(), Why> {
        if self.0.is_none() {
            self.0 = Some(zstd::bulk::Decompressor::new().map_err(|_| Why::Unpacking)?);
        }
        let length = self.0.as_mut().map(|context| context.decompress_to_buffer(stored, raw));
        match length {
            Some(Ok(length)) if length == raw.len() => Ok(()),
            _ => Err(Why::Unpacking),
        }
    }
}

/// Memory that is kept from chunk to chunk.
#[derive(Default)]
pub(crate) struct Scratch {
    zstd: Unpacker,
    stored: Vec<u8>,
    /// What part of the file `stored` holds.
    place: Range<u64>,
    /// Unpacked planes, one after the other.
    planes: Vec<u8>,
    words: Vec<u64>,
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scratch")
    }
}

const BY_SECTION: [(u16, Columns); 9] = [
    (section::START, Columns::START),
    (section::VALUE, Columns::VALUE),
    (section::NAME, Columns::NAME),
    (section::TRACK, Columns::TRACK),
    (section::LINK, Columns::LINK),
    (section::KIND, Columns::KIND),
    (section::STATUS, Columns::STATUS),
    (section::DEPTH, Columns::DEPTH),
    (section::SHAPE, Columns::SHAPE),
];

fn column_of(section: u16) -> Columns {
    match section {
        16..=19 => Columns::SLOTS,
        _ => BY_SECTION.iter().find(|it| it.0 == section).map_or(Columns::NONE, |it| it.1),
    }
}

/// Decodes the columns asked for into an empty batch.
pub(crate) fn decode<S: Source>(
    source: &S,
    chunk: &SealedChunk<'_>,
    columns: Columns,
    batch: &mut Batch,
) -> Result<(), Error> {
    let needed = columns.with_dependencies();
    batch.events = chunk.events;
    let mut scratch = std::mem::take(&mut batch.scratch);
    let mut decoder = Decoder { source, chunk, scratch: &mut scratch };
    let done = decoder.columns(needed, batch);
    batch.scratch = scratch;
    done?;
    if columns.contains(Columns::START) {
        restore_starts(&mut batch.start, &batch.value, &batch.kind, &batch.depth, chunk.origin);
    }
    batch.keep(columns);
    if columns.contains(Columns::SHAPE | Columns::SLOTS) {
        let slots: usize = batch.shape.iter().map(|shape| usize::from(shape & 0x1F)).sum();
        if slots != chunk.slots {
            return Err(Error::Section {
                sequence: chunk.sequence,
                section: section::SHAPE,
                offset: chunk.offset,
                why: Why::Units,
            });
        }
    }
    batch.first_references(columns);
    Ok(())
}

/// Decodes the long texts of a chunk, so far as they can be read.
pub(crate) fn long_texts<S: Source>(source: &S, chunk: &SealedChunk<'_>, batch: &mut Batch) {
    let mut sections = places(chunk.offset, chunk.sections);
    let Some((entry, offset)) = sections.find(|(entry, _)| entry.kind == section::LONG_TEXTS)
    else {
        return;
    };
    let mut raw = Vec::new();
    let Scratch { zstd, stored, place, .. } = &mut batch.scratch;
    *place = 0..0;
    let table = if entry.raw as usize > MAX_SECTION_BYTES {
        Err(Why::Lengths)
    } else {
        unpack_table(source, &entry, offset, None, stored, &mut raw, zstd)
    };
    let read = table.and_then(|table| match batch.long_texts.absorb(table) {
        0 => Ok(()),
        _ => Err(Why::Entries),
    });
    batch.long_texts_error = read.err().map(|why| Error::Section {
        sequence: chunk.sequence,
        section: section::LONG_TEXTS,
        offset,
        why,
    });
}

/// The bytes of a table; `near` are those stored, if they have been read already.
pub(crate) fn unpack_table<'a, S: Source>(
    source: &S,
    entry: &SectionEntry,
    offset: u64,
    near: Option<&'a [u8]>,
    stored: &'a mut Vec<u8>,
    raw: &'a mut Vec<u8>,
    zstd: &mut Unpacker,
) -> Result<&'a [u8], Why> {
    let bytes = match near {
        Some(bytes) => bytes,
        None => {
            stored.resize(entry.stored as usize, 0);
            source.read_exact_at(stored, offset).map_err(|_| Why::Unreadable)?;
            stored
        }
    };
    if crc32c::crc32c(bytes) != entry.crc {
        return Err(Why::Checksum);
    }
    match entry.encoding {
        encoding::PLAIN if entry.raw == entry.stored => Ok(bytes),
        encoding::ZSTD => {
            raw.resize(entry.raw as usize, 0);
            zstd.unpack(bytes, raw)?;
            Ok(raw)
        }
        _ => Err(Why::Lengths),
    }
}

struct Decoder<'a, S> {
    source: &'a S,
    chunk: &'a SealedChunk<'a>,
    scratch: &'a mut Scratch,
}

impl<S: Source> Decoder<'_, S> {
    fn columns(&mut self, needed: Columns, batch: &mut Batch) -> Result<(), Error> {
        self.read_near(needed)?;
        let events = self.chunk.events;
        let wants = |column| needed.contains(column);
        if wants(Columns::START) {
            self.column(section::START, events, &mut batch.start)?;
        }
        if wants(Columns::VALUE) {
            self.column(section::VALUE, events, &mut batch.value)?;
        }
        if wants(Columns::NAME) {
            self.column(section::NAME, events, &mut batch.name)?;
        }
        if wants(Columns::TRACK) {
            self.column(section::TRACK, events, &mut batch.track)?;
        }
        if wants(Columns::LINK) {
            self.column(section::LINK, events, &mut batch.link)?;
        }
        if wants(Columns::KIND) {
            self.column(section::KIND, events, &mut batch.kind)?;
        }
        if wants(Columns::STATUS) {
            self.column(section::STATUS, events, &mut batch.status)?;
        }
        if wants(Columns::DEPTH) {
            self.column(section::DEPTH, events, &mut batch.depth)?;
        }
        if wants(Columns::SHAPE) {
            self.column(section::SHAPE, events, &mut batch.shape)?;
        }
        if wants(Columns::SLOTS) && self.chunk.slots > 0 {
            batch.slots.resize(self.chunk.slots, Record::default());
            let mut words = std::mem::take(&mut self.scratch.words);
            let done: Result<(), Error> = (0..4).try_for_each(|word| {
                words.clear();
                self.column(section::SLOT_WORD + word as u16, self.chunk.slots, &mut words)?;
                let slots: &mut [[u64; 4]] = bytemuck::cast_slice_mut(&mut batch.slots);
                for (slot, bits) in slots.iter_mut().zip(&words) {
                    slot[word] = *bits;
                }
                Ok(())
            });
            self.scratch.words = words;
            done?;
        }
        Ok(())
    }

    /// Reads all needed sections at once if they lie close together.
    fn read_near(&mut self, needed: Columns) -> Result<(), Error> {
        self.scratch.place = 0..0;
        let mut span: Option<Range<u64>> = None;
        for (entry, at) in places(self.chunk.offset, self.chunk.sections) {
            if column_of(entry.kind) != Columns::NONE && needed.contains(column_of(entry.kind)) {
                let end = at + u64::from(entry.stored);
                span = Some(span.map_or(at..end, |span| span.start..end));
            }
        }
        if let Some(span) = span.filter(|span| span.end - span.start <= READ_AT_ONCE) {
            self.read(span)?;
        }
        Ok(())
    }

    fn read(&mut self, place: Range<u64>) -> Result<(), Error> {
        let length = (place.end - place.start) as usize;
        if self.scratch.stored.len() < length {
            self.scratch.stored = vec![0; length];
        }
        self.scratch.place = 0..0;
        self.source.read_exact_at(&mut self.scratch.stored[..length], place.start)?;
        self.scratch.place = place;
        Ok(())
    }

    /// Decodes one column. One that is absent is all zeros.
    fn column<T: Cell>(&mut self, kind: u16, items: usize, out: &mut Vec<T>) -> Result<(), Error> {
        let mut sections = places(self.chunk.offset, self.chunk.sections);
        let Some((entry, offset)) = sections.find(|(entry, _)| entry.kind == kind) else {
            out.resize(items, T::default());
            return Ok(());
        };
        let refuse =
            |why| Error::Section { sequence: self.chunk.sequence, section: kind, offset, why };
        if let Some(why) = fault::<T>(&entry, items) {
            return Err(refuse(why));
        }
        let end = offset + u64::from(entry.stored);
        if offset < self.scratch.place.start || end > self.scratch.place.end {
            self.read(offset..end)?;
        }
        let from = (offset - self.scratch.place.start) as usize;
        let Scratch { zstd, stored, planes, .. } = &mut *self.scratch;
        let stored = &stored[from..from + entry.stored as usize];
        if crc32c::crc32c(stored) != entry.crc {
            return Err(refuse(Why::Checksum));
        }
        unpack_planes(&entry, stored, out, zstd, planes).map_err(refuse)
    }
}

/// What keeps a section from being this column.
fn fault<T: Cell>(entry: &SectionEntry, items: usize) -> Option<Why> {
    let fits = |bits: u64| T::BYTES == 8 || bits >> (8 * T::BYTES) == 0;
    let right = entry.encoding == encoding::PLANES
        && entry.items as usize == items
        && entry.raw as usize == 8 * items
        && T::BYTES + (entry.planes.leading_zeros() as usize) >= 8
        && fits(entry.base);
    (!right).then_some(Why::Lengths)
}

fn unpack_planes<T: Cell>(
    entry: &SectionEntry,
    stored: &[u8],
    out: &mut Vec<T>,
    zstd: &mut Unpacker,
    unpacked: &mut Vec<u8>,
) -> Result<(), Why> {
    let items = entry.items as usize;
    let count = entry.planes.count_ones() as usize;
    let (lengths, mut packed) = stored.split_at_checked(4 * count).ok_or(Why::Lengths)?;
    if unpacked.len() < count * items {
        *unpacked = vec![0; count * items];
    }
    let mut planes: [&[u8]; 8] = [&[]; 8];
    let mut shifts = [0; 8];
    let mut base = entry.base;
    let mut room = unpacked.as_mut_slice();
    for (at, byte) in (0..T::BYTES).filter(|byte| entry.planes & (1 << byte) != 0).enumerate() {
        let length = u32_at(lengths, 4 * at) as usize;
        let (this, rest) = packed.split_at_checked(length).ok_or(Why::Lengths)?;
        packed = rest;
        shifts[at] = 8 * byte as u32;
        base &= !(0xFF << shifts[at]);
        planes[at] = if length == items {
            this
        } else {
            let (plane, rest) = room.split_at_mut(items);
            room = rest;
            zstd.unpack(this, plane)?;
            plane
        };
    }
    if !packed.is_empty() {
        return Err(Why::Lengths);
    }
    fuse(out, items, &planes[..count], &shifts, T::from_bits(base));
    Ok(())
}

/// Puts planes of `items` bytes together, up to three at a time: the fewer
/// passes over the values, which are larger than the planes, the better.
fn fuse<T: Cell>(out: &mut Vec<T>, items: usize, planes: &[&[u8]], shifts: &[u32; 8], base: T) {
    out.clear();
    let cell = T::from_byte;
    let [s0, s1, s2, ..] = *shifts;
    match planes {
        [] => out.resize(items, base),
        [a] => out.extend(a.iter().map(|a| base | cell(*a, s0))),
        [a, b] => {
            out.extend(a.iter().zip(*b).map(|(a, b)| base | cell(*a, s0) | cell(*b, s1)));
        }
        [a, b, c, more @ ..] => {
            let three = a.iter().zip(*b).zip(*c);
            out.extend(three.map(|((a, b), c)| base | cell(*a, s0) | cell(*b, s1) | cell(*c, s2)));
            for (plane, shift) in more.iter().zip(&shifts[3..]) {
                for (value, byte) in out.iter_mut().zip(*plane) {
                    *value = *value | cell(*byte, *shift);
                }
            }
        }
    }
}

/// The type of a column's values.
trait Cell: Copy + Default + BitOr<Output = Self> {
    const BYTES: usize;
    fn from_bits(bits: u64) -> Self;
    fn from_byte(byte: u8, shift: u32) -> Self;
}

macro_rules! cell {
    ($($cell:ty),*) => {$(
        impl Cell for $cell {
            const BYTES: usize = size_of::<$cell>();

            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as $cell
            }

            #[inline]
            fn from_byte(byte: u8, shift: u32) -> Self {
                <$cell>::from(byte) << shift
            }
        }
    )*};
}
cell!(u8, u32, u64);
