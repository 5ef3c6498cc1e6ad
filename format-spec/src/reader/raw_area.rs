//! The areas that a recorder rewrites in place: vitals, in-flight stacks, raw
//! slots. A live recorder may be writing them while they are read, so what looks
//! damaged is read again before it is called so (SPEC 7.1).

use super::damage::{Damage, Damaged, Why};
use super::source::Source;
use crate::file_header::{Layout, VITALS_LENGTH, VITALS_OFFSET};
use crate::in_flight::{InFlight, read_in_flight};
use crate::raw_content::{RawContent, SlotHead, SlotKind};
use crate::raw_slot::SLOT_HEAD;
use crate::record::{Record, UNIT};
use crate::twin;
use crate::vitals::Vitals;
use std::ops::Range;

/// How often something that changes while it is read is read again.
const ATTEMPTS: usize = 8;
/// In-flight entries are read so many bytes at a time.
const IN_FLIGHT_BLOCK: usize = 1 << 20;

/// The vitals, if they were ever written; or the damage.
pub(crate) fn read_vitals<S: Source>(source: &S) -> Result<Option<Vitals>, Damage> {
    let start = VITALS_OFFSET as u64;
    let bytes = start..start + VITALS_LENGTH as u64;
    let mut why = Why::Checksum;
    for _ in 0..ATTEMPTS {
        let mut block = [0; VITALS_LENGTH];
        if source.read_exact_at(&mut block, start).is_err() {
            why = unreadable(source, &bytes);
            continue;
        }
        if let Some(vitals) = twin::read_twin(&block).and_then(|(_, it)| Vitals::parse(it)) {
            return Ok(Some(vitals));
        }
        if twin::is_blank(&block) {
            return Ok(None);
        }
    }
    Err(Damage { bytes, what: Damaged::Vitals, why })
}

/// The in-flight entries that were ever written.
pub(crate) fn read_in_flight_area<S: Source>(
    source: &S,
    layout: &Layout,
    damage: &mut Vec<Damage>,
) -> Vec<InFlight> {
    let stride = layout.in_flight_stride as usize;
    let area = u64::from(layout.in_flight_entries) * u64::from(layout.in_flight_stride);
    let area = layout.in_flight_offset..layout.in_flight_offset.saturating_add(area);
    let mut found = Vec::new();
    if area.is_empty() {
        return found;
    }
    let there = cut_to_file(source, &area, "in-flight area", damage);
    let whole = (there.end.saturating_sub(there.start) / stride as u64) as u32;
    let at_once = (IN_FLIGHT_BLOCK / stride).max(1) as u32;
    let mut block = Vec::new();
    let mut next = 0;
    while next < whole {
        let count = at_once.min(whole - next);
        block.resize(count as usize * stride, 0);
        let offset = area.start + u64::from(next) * stride as u64;
        if source.read_exact_at(&mut block, offset).is_err() {
            block.fill(0);
        }
        for (entry, bytes) in (next..).zip(block.chunks_exact_mut(stride)) {
            let offset = area.start + u64::from(entry) * stride as u64;
            match reread_in_flight(source, bytes, offset) {
                Ok(in_flight) => found.extend(in_flight),
                Err(why) => {
                    let what = Damaged::InFlight { entry };
                    damage.push(Damage { bytes: offset..offset + stride as u64, what, why });
                }
            }
        }
        next += count;
    }
    found
}

fn reread_in_flight<S: Source>(
    source: &S,
    bytes: &mut [u8],
    offset: u64,
) -> Result<Option<InFlight>, Why> {
    for _ in 0..ATTEMPTS {
        if let Some(in_flight) = read_in_flight(bytes) {
            return Ok(Some(in_flight));
        }
        if twin::is_blank(bytes) {
            return Ok(None);
        }
        source.read_exact_at(bytes, offset).map_err(|_| Why::Unreadable)?;
    }
    Err(Why::Checksum)
}

/// A raw slot that holds something.
pub(crate) struct HeldSlot {
    pub(crate) slot: u32,
    pub(crate) content: RawContent,
    /// Where the slot is.
    pub(crate) bytes: Range<u64>,
    /// Whether it was freed, which means that a sealed chunk has its events too.
    pub(crate) freed: bool,
}

/// The raw slots that hold something. Their damage is not noted yet: a sealed chunk may
/// supersede them.
pub(crate) fn read_raw_area<S: Source>(
    source: &S,
    layout: &Layout,
    damage: &mut Vec<Damage>,
) -> Vec<HeldSlot> {
    let stride = u64::from(layout.raw_stride);
    let area = u64::from(layout.raw_slots) * stride;
    let area = layout.raw_offset..layout.raw_offset.saturating_add(area);
    let mut held = Vec::new();
    if area.is_empty() {
        return held;
    }
    let there = cut_to_file(source, &area, "raw area", damage);
    let mut units = Vec::new();
    for slot in 0..layout.raw_slots {
        let start = area.start + u64::from(slot) * stride;
        let bytes = start..(start + stride).min(there.end);
        if bytes.end < start + SLOT_HEAD as u64 {
            break;
        }
        match read_slot(source, &bytes, &mut units) {
            Ok(Some((content, freed))) => held.push(HeldSlot { slot, content, bytes, freed }),
            Ok(None) => {}
            Err((sequence, why)) => {
                let what = Damaged::RawSlot { slot, sequence, units: 0 };
                damage.push(Damage { bytes, what, why });
            }
        }
    }
    held
}

fn read_slot<S: Source>(
    source: &S,
    bytes: &Range<u64>,
    units: &mut Vec<Record>,
) -> Result<Option<(RawContent, bool)>, (u64, Why)> {
    let read_head = || {
        let mut head = [0; SlotHead::LENGTH];
        source.read_exact_at(&mut head, bytes.start).map_err(|_| (0, Why::Unreadable))?;
        Ok(SlotHead::parse(&head))
    };
    let room = (bytes.end - bytes.start - SLOT_HEAD as u64) / UNIT as u64;
    let mut content = RawContent::default();
    for attempt in 1..=ATTEMPTS {
        let head = read_head()?;
        match head.kind {
            SlotKind::Empty => return Ok(None),
            SlotKind::Foreign if attempt < ATTEMPTS => continue,
            SlotKind::Foreign => return Err((head.sequence, Why::NoSlot)),
            SlotKind::Used | SlotKind::Freed => {}
        }
        let there = u64::from(head.published).min(room) as usize;
        units.resize(there, Record::default());
        let target = bytemuck::cast_slice_mut(units.as_mut_slice());
        let read = source.read_exact_at(target, bytes.start + SLOT_HEAD as u64);
        read.map_err(|_| (head.sequence, Why::Unreadable))?;
        let after = read_head()?;
        if (head.generation, head.sequence) != (after.generation, after.sequence) {
            // Recycled meanwhile. What it held is in a sealed chunk by now.
            continue;
        }
        content.read_units(&head, bytemuck::cast_slice(units));
        content.units_unreadable += head.published - there as u32;
        if content.units_unreadable == 0 || attempt == ATTEMPTS {
            return Ok(Some((content, head.kind == SlotKind::Freed)));
        }
    }
    // Recycled at every attempt: all that was ever seen in it is sealed.
    Ok(None)
}

/// The part of an area that the file has; notes it if that is not all.
fn cut_to_file<S: Source>(
    source: &S,
    area: &Range<u64>,
    name: &'static str,
    damage: &mut Vec<Damage>,
) -> Range<u64> {
    let length = source.len().unwrap_or(0);
    if length < area.end {
        damage.push(Damage {
            bytes: area.start.min(length)..length.max(area.start.min(length)),
            what: Damaged::Area { name },
            why: Why::CutOff,
        });
    }
    area.start..area.end.min(length)
}

fn unreadable<S: Source>(source: &S, bytes: &Range<u64>) -> Why {
    match source.len() {
        Ok(length) if length < bytes.end => Why::CutOff,
        _ => Why::Unreadable,
    }
}
