//! The tables of a trace: names, metadata, tracks, clock pairs, losses, open
//! spans. They are small and wanted by every report, so they are read when the
//! trace is opened.

use super::damage::{Damage, Damaged, Why};
use super::source::Source;
use super::walk::Found;
use crate::chunk::{ChunkKind, SectionEntry, encoding, section};
use crate::clock_fit::ClockPair;
use crate::in_flight::OpenSpan;
use crate::limits::{MAX_SECTION_BYTES, MAX_TABLE_BYTES};
use crate::losses::Loss;
use crate::names::Names;
use crate::raw_content::RawContent;
use crate::tracks::{self, Track};
use crate::{little_endian, metadata};
use bytemuck::Pod;
use std::collections::BTreeMap;
use std::ops::Range;

const OPEN_SPAN_ROW: usize = size_of::<OpenSpan>() + 8;

/// An open span that a chunk tells of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToldOpen {
    pub(crate) tick: u64,
    pub(crate) span: OpenSpan,
    /// All ones for an asynchronous span.
    pub(crate) depth: u32,
}

/// What the tables of a file say.
#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) names: Names,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) tracks: BTreeMap<u32, Track>,
    /// With the sequence of their chunk.
    pub(crate) losses: Vec<(u64, Loss)>,
    /// With the sequence of their chunk.
    pub(crate) clock_pairs: Vec<(u64, ClockPair)>,
    pub(crate) open: Vec<ToldOpen>,
    pub(crate) damage: Vec<Damage>,
    /// Unpacked bytes so far, by kind of section.
    taken: BTreeMap<u16, u64>,
    stored: Vec<u8>,
    raw: Vec<u8>,
}

impl Tables {
    /// Takes in the tables of a sealed chunk that begins with `prefix`.
    pub(crate) fn absorb_chunk<S: Source>(&mut self, source: &S, found: &Found, prefix: &[u8]) {
        for (entry, offset) in found.places() {
            let wanted = match found.header.kind {
                ChunkKind::DATA => (section::TRACKS..=section::OPEN_SPANS).contains(&entry.kind),
                ChunkKind::NAMES => entry.kind == section::NAMES,
                ChunkKind::METADATA => entry.kind == section::METADATA,
                _ => false,
            };
            if !wanted {
                continue;
            }
            let before = (offset - found.offset) as usize;
            let near = prefix.get(before..).and_then(|it| it.get(..entry.stored as usize));
            if let Err(why) = self.absorb_section(source, found, &entry, offset, near) {
                self.damage.push(Damage {
                    bytes: offset..offset + u64::from(entry.stored),
                    what: Damaged::Table { sequence: found.header.sequence, section: entry.kind },
                    why,
                });
            }
        }
    }

    fn absorb_section<S: Source>(
        &mut self,
        source: &S,
        found: &Found,
        entry: &SectionEntry,
        offset: u64,
        near: Option<&[u8]>,
    ) -> Result<(), Why> {
        if entry.raw as usize > MAX_SECTION_BYTES {
            return Err(Why::Lengths);
        }
        let taken = self.taken.entry(entry.kind).or_default();
        *taken += u64::from(entry.raw);
        if *taken > MAX_TABLE_BYTES {
            return Err(Why::TooManyTables);
        }
        let mut stored = std::mem::take(&mut self.stored);
        let mut raw = std::mem::take(&mut self.raw);
        let done = unpack(source, entry, offset, near, &mut stored, &mut raw).and_then(|table| {
            self.absorb_table(entry.kind, found.header.sequence, found.header.last_tick, table)
        });
        (self.stored, self.raw) = (stored, raw);
        done
    }

    fn absorb_table(
        &mut self,
        kind: u16,
        sequence: u64,
        tick: u64,
        table: &[u8],
    ) -> Result<(), Why> {
        let left = match kind {
            section::NAMES => self.names.absorb(table),
            section::METADATA => metadata::absorb(&mut self.metadata, table),
            section::TRACKS => tracks::parse_tracks(table, |track| {
                self.tracks.insert(track.id, track);
            }),
            section::CLOCK_PAIRS => {
                rows(table, |pair: ClockPair| self.clock_pairs.push((sequence, pair)))
            }
            section::LOSSES => rows(table, |loss: Loss| self.losses.push((sequence, loss))),
            _ => {
                for row in table.chunks_exact(OPEN_SPAN_ROW) {
                    self.open.push(ToldOpen {
                        tick,
                        span: bytemuck::pod_read_unaligned(&row[..size_of::<OpenSpan>()]),
                        depth: little_endian::u32_at(row, size_of::<OpenSpan>()),
                    });
                }
                table.len() % OPEN_SPAN_ROW
            }
        };
        if left > 0 { Err(Why::Entries) } else { Ok(()) }
    }

    /// Takes in the names of a raw slot. They may also be in a names chunk, with
    /// equal ids and texts.
    pub(crate) fn absorb_raw_names(&mut self, content: &RawContent, place: Range<u64>) {
        let left = self.names.absorb(&content.names);
        self.note_raw(left, section::NAMES, content.sequence, place);
    }

    /// Takes in the other tables of a raw slot that no sealed chunk supersedes.
    pub(crate) fn absorb_raw(&mut self, content: &RawContent, place: Range<u64>) {
        let tables = [
            (section::TRACKS, &content.tracks),
            (section::CLOCK_PAIRS, &content.clocks),
            (section::LOSSES, &content.losses),
        ];
        for (kind, table) in tables {
            let done = self.absorb_table(kind, content.sequence, 0, table);
            self.note_raw(usize::from(done.is_err()), kind, content.sequence, place.clone());
        }
    }

    fn note_raw(&mut self, left: usize, section: u16, sequence: u64, bytes: Range<u64>) {
        if left > 0 {
            let what = Damaged::Table { sequence, section };
            self.damage.push(Damage { bytes, what, why: Why::Entries });
        }
    }
}

/// Hands over the rows of a table, and returns the bytes that are left.
fn rows<T: Pod>(table: &[u8], take: impl FnMut(T)) -> usize {
    table.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).for_each(take);
    table.len() % size_of::<T>()
}

fn unpack<'a, S: Source>(
    source: &S,
    entry: &SectionEntry,
    offset: u64,
    near: Option<&'a [u8]>,
    stored: &'a mut Vec<u8>,
    raw: &'a mut Vec<u8>,
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
            let length = zstd::bulk::decompress_to_buffer(bytes, raw.as_mut_slice());
            match length {
                Ok(length) if length == raw.len() => Ok(raw),
                _ => Err(Why::Unpacking),
            }
        }
        _ => Err(Why::Lengths),
    }
}
