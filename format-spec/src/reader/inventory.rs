//! One look at a whole file: what is in it, and what is damaged.

use super::damage::{Damage, Damaged, Why};
use super::gaps::Present;
use super::raw_area::{self, HeldSlot};
use super::source::Source;
use super::tables::Tables;
use super::trace::{ChunkInfo, Place};
use super::walk::{Found, Walker};
use crate::chunk::ChunkKind;
use crate::file_header::{FileHeader, Mode};
use crate::in_flight::InFlight;
use crate::vitals::Vitals;
use std::collections::HashSet;

/// All that one look at a file finds.
pub(crate) struct Inventory {
    pub(crate) vitals: Option<Vitals>,
    pub(crate) tables: Tables,
    pub(crate) chunks: Vec<ChunkInfo>,
    pub(crate) raw: Vec<HeldSlot>,
    pub(crate) in_flight: Vec<InFlight>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) unknown_chunks: u64,
    pub(crate) events_missing: Option<u64>,
}

impl Inventory {
    pub(crate) fn take<S: Source>(
        source: &S,
        header: &FileHeader,
        tells_of_parts: bool,
    ) -> Inventory {
        let mut damage = Vec::new();
        let vitals = raw_area::read_vitals(source).unwrap_or_else(|damaged| {
            damage.push(damaged);
            None
        });
        let complete = vitals.is_some_and(|it| it.state.file_is_complete());
        let in_flight = raw_area::read_in_flight_area(source, &header.layout, &mut damage);
        // Before the chunks: what is sealed meanwhile is then found twice, and
        // not missed.
        let mut raw = raw_area::read_raw_area(source, &header.layout, &mut damage);
        let mut tables = Tables::default();
        for held in &raw {
            tables.absorb_raw_names(&held.content, &held.bytes);
        }

        let mut chunks = Vec::new();
        let mut sealed = HashSet::new();
        let mut visit = |found: Found, prefix: &[u8]| {
            let data = found.header.kind == ChunkKind::DATA;
            if data && !sealed.insert(found.header.sequence) {
                return;
            }
            tables.absorb_chunk(source, &found, prefix);
            if data {
                chunks.push(ChunkInfo::sealed(found));
            }
        };
        let mut walker = Walker::new(source, header.recording);
        let layout = &header.layout;
        let file_end = walker.log(layout.log_offset, complete, &mut visit);
        if file_end < layout.log_offset {
            let what = Damaged::Area { name: "log area" };
            damage.push(Damage { bytes: file_end..file_end, what, why: Why::CutOff });
        }
        walker.ring(layout.ring_offset..layout.ring_offset + layout.ring_length, &mut visit);

        // A freed slot whose chunk is not there saves what was in that chunk. Only
        // where nothing is ever overwritten, though: elsewhere it may be long gone.
        let all_is_kept = header.mode == Mode::Full;
        let mut held_already = HashSet::new();
        raw.retain(|held| {
            let sequence = held.content.sequence;
            !sealed.contains(&sequence)
                && (!held.freed || all_is_kept)
                && held_already.insert(sequence)
        });
        for held in &raw {
            tables.absorb_raw(&held.content, &held.bytes);
            if !held.content.events.is_empty() {
                chunks.push(ChunkInfo::raw(held.slot, &held.content));
            }
        }
        chunks.sort_by_key(|chunk| chunk.sequence);

        let offset = damage.len();
        for hole in &mut walker.holes {
            hole.damage += offset;
        }
        damage.append(&mut walker.damage);
        forgive_what_is_raw(&mut damage, &raw);
        let present = present(&chunks, &raw, &damage);
        let present = Present {
            header,
            tells_of_parts,
            vitals: vitals.as_ref(),
            chunks: &present,
            events_found: chunks.iter().map(|chunk| u64::from(chunk.events)).sum(),
            file_end,
        };
        present.account(&mut damage, &walker.holes);
        let events_missing = present.events_missing();
        for held in raw.iter().filter(|held| held.content.units_unreadable > 0) {
            let content = &held.content;
            let what = Damaged::RawSlot {
                slot: held.slot,
                sequence: content.sequence,
                units: content.units_unreadable,
            };
            damage.push(Damage { bytes: held.bytes.clone(), what, why: Why::Units });
        }
        damage.append(&mut tables.damage);
        Inventory {
            vitals,
            tables,
            chunks,
            raw,
            in_flight,
            damage,
            unknown_chunks: walker.unknown,
            events_missing,
        }
    }

    /// Whether the file ended in good order, so that looking again shows the same.
    pub(crate) fn is_complete(&self) -> bool {
        self.vitals.is_some_and(|vitals| vitals.state.file_is_complete())
    }
}

/// A damaged chunk whose events are still in a raw slot loses none.
fn forgive_what_is_raw(damage: &mut [Damage], raw: &[HeldSlot]) {
    for it in damage {
        if let Damaged::Chunk { kind: ChunkKind::DATA, sequence, events } = &mut it.what
            && raw.iter().any(|held| held.content.sequence == *sequence)
        {
            *events = 0;
        }
    }
}

/// Sequence and place of every data chunk that left a trace, ascending.
fn present(chunks: &[ChunkInfo], raw: &[HeldSlot], damage: &[Damage]) -> Vec<(u64, u64)> {
    let mut present: Vec<(u64, u64)> = chunks
        .iter()
        .filter_map(|chunk| match chunk.place {
            Place::Sealed { offset, .. } => Some((chunk.sequence, offset)),
            Place::Raw { .. } => None,
        })
        .collect();
    present.extend(raw.iter().map(|held| (held.content.sequence, held.bytes.start)));
    present.extend(damage.iter().filter_map(|it| match it.what {
        Damaged::Chunk { kind: ChunkKind::DATA, sequence, .. } => Some((sequence, it.bytes.start)),
        _ => None,
    }));
    present.sort_unstable();
    present.dedup_by_key(|(sequence, _)| *sequence);
    present
}
