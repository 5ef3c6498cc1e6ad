//! The tables of a trace: names, metadata, tracks, clock pairs, losses, open
//! spans. They are small and wanted by every report, so they are read when the
//! trace is opened.

use super::damage::{Damage, Damaged, Why};
use super::decode::{Unpacker, unpack_table};
use super::source::Source;
use super::walk::Found;
use crate::chunk::{ChunkKind, SectionEntry, section};
use crate::clock_fit::ClockPair;
use crate::in_flight::OpenSpan;
use crate::limits::{ENTRY_COST, MAX_SECTION_BYTES, MAX_TABLE_BYTES};
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
    budgets: Budgets,
    stored: Vec<u8>,
    raw: Vec<u8>,
    zstd: Unpacker,
}

impl Tables {
    /// Takes in the tables of a sealed chunk that begins with `prefix`.
    pub(crate) fn absorb_chunk<S: Source>(&mut self, source: &S, found: &Found, prefix: &[u8]) {
        for (entry, offset) in found.places() {
            let wanted = match found.header.kind {
                ChunkKind::DATA => (section::TRACKS..=section::OPEN_SPANS).contains(&entry.kind),
                ChunkKind::NAMES => entry.kind == section::NAMES,
                ChunkKind::METADATA => entry.kind == section::METADATA,
                ChunkKind::OPEN_SPANS => entry.kind == section::OPEN_SPANS,
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
        let mut stored = std::mem::take(&mut self.stored);
        let mut raw = std::mem::take(&mut self.raw);
        let mut zstd = std::mem::take(&mut self.zstd);
        let done = unpack_table(source, entry, offset, near, &mut stored, &mut raw, &mut zstd)
            .and_then(|table| {
                self.absorb_table(entry.kind, found.header.sequence, found.header.last_tick, table)
            });
        (self.stored, self.raw, self.zstd) = (stored, raw, zstd);
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
            section::METADATA => metadata::parse_pairs(table, |key, value| {
                let cost = (key.len() + value.len()) as u64;
                let known = self.metadata.get(&key).map(|old| (key.len() + old.len()) as u64);
                let fits = self.budgets.take(kind, cost, known);
                if fits {
                    self.metadata.insert(key, value);
                }
                fits
            }),
            section::TRACKS => tracks::parse_tracks_while(table, |track| {
                let known = self.tracks.get(&track.id).map(|old| old.name.len() as u64);
                let fits = self.budgets.take(kind, track.name.len() as u64, known);
                if fits {
                    self.tracks.insert(track.id, track);
                }
                fits
            }),
            _ if !self.budgets.take(kind, table.len() as u64, None) => table.len(),
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
        match left {
            0 => Ok(()),
            _ if self.is_full(kind) => Err(Why::TooManyTables),
            _ => Err(Why::Entries),
        }
    }

    fn is_full(&self, kind: u16) -> bool {
        self.budgets.is_full(kind) || (kind == section::NAMES && self.names.is_full())
    }

    /// Takes in the names of a raw slot. They may also be in a names chunk, with
    /// equal ids and texts.
    pub(crate) fn absorb_raw_names(&mut self, content: &RawContent, place: &Range<u64>) {
        self.absorb_raw_table(section::NAMES, content.sequence, &content.names, place);
    }

    /// Takes in the other tables of a raw slot that no sealed chunk supersedes.
    pub(crate) fn absorb_raw(&mut self, content: &RawContent, place: &Range<u64>) {
        let sequence = content.sequence;
        self.absorb_raw_table(section::TRACKS, sequence, &content.tracks, place);
        self.absorb_raw_table(section::CLOCK_PAIRS, sequence, &content.clocks, place);
        self.absorb_raw_table(section::LOSSES, sequence, &content.losses, place);
    }

    fn absorb_raw_table(&mut self, section: u16, sequence: u64, table: &[u8], place: &Range<u64>) {
        if let Err(why) = self.absorb_table(section, sequence, 0, table) {
            let what = Damaged::Table { sequence, section };
            self.damage.push(Damage { bytes: place.clone(), what, why });
        }
    }
}

/// How much the tables of each kind hold, as the limits count it.
#[derive(Default)]
struct Budgets {
    held: BTreeMap<u16, u64>,
    full: Vec<u16>,
}

impl Budgets {
    /// Takes `cost` bytes for an entry, instead of those of a copy that was `known`.
    fn take(&mut self, kind: u16, cost: u64, known: Option<u64>) -> bool {
        let single = matches!(kind, section::TRACKS | section::METADATA);
        let entry = if single && known.is_none() { ENTRY_COST } else { 0 };
        let held = self.held.entry(kind).or_default();
        let after = held.saturating_sub(known.unwrap_or(0)).saturating_add(cost + entry);
        if after > MAX_TABLE_BYTES {
            if !self.full.contains(&kind) {
                self.full.push(kind);
            }
            return false;
        }
        *held = after;
        true
    }

    fn is_full(&self, kind: u16) -> bool {
        self.full.contains(&kind)
    }
}

/// Hands over the rows of a table, and returns the bytes that are left.
fn rows<T: Pod>(table: &[u8], take: impl FnMut(T)) -> usize {
    table.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).for_each(take);
    table.len() % size_of::<T>()
}
