//! Columns: starts predicted from the record before (SPEC 8.3.1), and values
//! split into byte planes (SPEC 8.2). Arithmetic only; compression is
//! `sealing`'s and `reader`'s.

use crate::chunk::section;
use crate::record::{Record, UNIT};

/// A column: its section, and which bytes of a unit it is.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) section: u16,
    pub(crate) first_byte: usize,
    pub(crate) width: usize,
}

const fn column(section: u16, first_byte: usize, width: usize) -> Column {
    Column { section, first_byte, width }
}

/// The columns of a record, but for the start, which is predicted.
pub(crate) const RECORD_COLUMNS: [Column; 8] = [
    column(section::VALUE, 8, 8),
    column(section::NAME, 16, 4),
    column(section::TRACK, 20, 4),
    column(section::LINK, 24, 4),
    column(section::KIND, 28, 1),
    column(section::STATUS, 29, 1),
    column(section::DEPTH, 30, 1),
    column(section::SHAPE, 31, 1),
];

/// The columns of a slot.
pub(crate) const SLOT_COLUMNS: [Column; 4] = [
    column(section::SLOT_WORD, 0, 8),
    column(section::SLOT_WORD + 1, 8, 8),
    column(section::SLOT_WORD + 2, 16, 8),
    column(section::SLOT_WORD + 3, 24, 8),
];

/// Which bytes vary among some units, and what the others are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    first: [u8; UNIT],
    /// Bits in which some unit differs from the first.
    varying: [u8; UNIT],
}

impl Profile {
    pub(crate) fn of(units: &[Record]) -> Profile {
        let Some(first) = units.first() else { return Profile::default() };
        let first: [u64; 4] = bytemuck::cast(*first);
        let mut varying = [0_u64; 4];
        for unit in units {
            let words: &[u64; 4] = bytemuck::cast_ref(unit);
            for at in 0..4 {
                varying[at] |= words[at] ^ first[at];
            }
        }
        Profile { first: bytemuck::cast(first), varying: bytemuck::cast(varying) }
    }

    /// Bit *k* is set if byte *k* of the column varies; and the column's value
    /// with the varying bytes zeroed.
    pub(crate) fn column(&self, column: Column) -> (u8, u64) {
        let (mut planes, mut base) = (0, 0);
        for at in 0..column.width {
            if self.varying[column.first_byte + at] != 0 {
                planes |= 1 << at;
            } else {
                base |= u64::from(self.first[column.first_byte + at]) << (8 * at);
            }
        }
        (planes, base)
    }
}

/// Copies byte `at` of every unit.
pub(crate) fn plane_of_units(units: &[Record], at: usize, plane: &mut [u8]) {
    let bytes: &[[u8; UNIT]] = bytemuck::cast_slice(units);
    for (out, unit) in plane.iter_mut().zip(bytes) {
        *out = unit[at];
    }
}

/// Copies byte `at` of every value.
pub(crate) fn plane_of_values(values: &[u64], at: usize, plane: &mut [u8]) {
    for (out, value) in plane.iter_mut().zip(values) {
        *out = (value >> (8 * at)) as u8;
    }
}

/// Which bytes of some values vary, and the first value with those zeroed.
pub(crate) fn profile_of_values(values: &[u64]) -> (u8, u64) {
    let Some(&first) = values.first() else { return (0, 0) };
    let varying = values.iter().fold(0, |varying, value| varying | (value ^ first));
    let (mut planes, mut base) = (0, first);
    for at in 0..8 {
        if (varying >> (8 * at)) as u8 != 0 {
            planes |= 1 << at;
            base &= !(0xFF << (8 * at));
        }
    }
    (planes, base)
}

/// The duration that the prediction of starts counts with.
#[inline]
fn duration(value: u64, kind: u8) -> u64 {
    let timed = kind.wrapping_sub(1) < 0x3F && (value as i64) >= 0;
    if timed { value } else { 0 }
}

#[inline]
const fn zigzag(residual: u64) -> u64 {
    (residual << 1) ^ ((residual as i64 >> 63) as u64)
}

#[inline]
const fn unzigzag(coded: u64) -> u64 {
    (coded >> 1) ^ (coded & 1).wrapping_neg()
}

/// What is left of the starts after prediction; returns the earliest start and
/// the latest end. `records` is not empty, and its first start is the origin.
pub(crate) fn predict_starts(records: &[Record], residuals: &mut Vec<u64>) -> (u64, u64) {
    residuals.clear();
    let (mut first, mut last) = (u64::MAX, 0);
    let mut before = (records.first().map_or(0, |record| record.start), 0_u8);
    residuals.extend(records.iter().map(|record| {
        let duration = duration(record.value, record.kind.0);
        let end = record.start.wrapping_add(duration);
        let closes = record.depth < before.1;
        let residual = if closes { end } else { record.start }.wrapping_sub(before.0);
        before = (end, record.depth);
        first = first.min(record.start);
        last = last.max(if end < record.start { u64::MAX } else { end });
        zigzag(residual)
    }));
    (first, last)
}

/// Turns residuals back into starts, in place.
pub(crate) fn restore_starts(
    starts: &mut [u64],
    values: &[u64],
    kinds: &[u8],
    depths: &[u8],
    origin: u64,
) {
    let (mut end, mut depth_before) = (origin, 0);
    let columns = values.iter().zip(kinds).zip(depths);
    for (start, ((value, kind), depth)) in starts.iter_mut().zip(columns) {
        let duration = duration(*value, *kind);
        let step = if *depth < depth_before { 0 } else { duration };
        end = end.wrapping_add(unzigzag(*start)).wrapping_add(step);
        *start = end.wrapping_sub(duration);
        depth_before = *depth;
    }
}
