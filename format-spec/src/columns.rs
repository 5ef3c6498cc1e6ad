//! Columns: which bytes of them vary (SPEC 8.2), and starts predicted from the record
//! before (SPEC 8.3.1). Arithmetic only; compression is `chunk_encoder`'s and `reader`'s.

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
    /// Whether all units are records and none has slots.
    pub(crate) plain: bool,
}

/// Where the last word of a unit has its kind.
const KIND: u32 = 32;
/// Bits of the last word that no record without slots has: a kind of 0x80 or
/// more, and a number of slots.
const NOT_PLAIN: u64 = 0x80 << KIND | 0x1F << 56;

impl Profile {
    pub(crate) fn of(units: &[Record]) -> Profile {
        let Some(first) = units.first() else {
            return Profile { plain: true, ..Profile::default() };
        };
        let first: [u64; 4] = bytemuck::cast(*first);
        let mut varying = [0_u64; 4];
        for words in bytemuck::cast_slice::<Record, [u64; 4]>(units) {
            for at in 0..4 {
                varying[at] |= words[at] ^ first[at];
            }
        }
        Profile {
            first: bytemuck::cast(first),
            varying: bytemuck::cast(varying),
            plain: are_plain(units),
        }
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

/// Whether all units are records and none has slots. Without a branch a unit.
pub(crate) fn are_plain(units: &[Record]) -> bool {
    let (mut set, mut borrow) = (0, 0);
    for [.., tags] in bytemuck::cast_slice::<Record, [u64; 4]>(units) {
        set |= tags;
        // Borrows from the highest bit if the kind is 0.
        borrow |= (tags & (0xFF << KIND)).wrapping_sub(1 << KIND);
    }
    set & NOT_PLAIN == 0 && borrow >> 63 == 0
}

/// Whether the values of most records are durations, as far as some of them tell.
pub(crate) fn are_mostly_timed(records: &[Record]) -> bool {
    const LOOKED_AT: usize = 64;
    // An odd distance: loops that record a span and a counter in turn are told by both.
    let some = records.iter().step_by((records.len() / LOOKED_AT) | 1);
    let (all, timed) = some.fold((0, 0), |(all, timed), record| {
        (all + 1, timed + u32::from(record.kind.0.wrapping_sub(1) < 0x3F))
    });
    all > 0 && timed * 8 >= all * 7
}

/// The first unit that is not where an event can have it.
pub(crate) fn misplaced_unit(units: &[Record]) -> Option<usize> {
    let mut at = 0;
    while at < units.len() {
        if !units[at].kind.is_base() {
            return Some(at);
        }
        let end = at + 1 + units[at].slots();
        at += 1;
        while at < end {
            if !units.get(at).is_some_and(|slot| slot.kind.is_slot()) {
                return Some(at);
            }
            at += 1;
        }
    }
    None
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
    let timed = kind.wrapping_sub(1) < 0x3F;
    if timed & (value.cast_signed() >= 0) { value } else { 0 }
}

#[inline]
const fn zigzag(residual: u64) -> u64 {
    (residual << 1) ^ ((residual as i64 >> 63) as u64)
}

#[inline]
const fn unzigzag(coded: u64) -> u64 {
    (coded >> 1) ^ (coded & 1).wrapping_neg()
}

/// What is left of the starts after prediction, the first start being the
/// origin; returns the earliest start and the latest end.
pub(crate) fn predict_starts(records: &[Record], residuals: &mut Vec<u64>) -> (u64, u64) {
    if residuals.capacity() < records.len() {
        // New memory is zero already, where what a vector grows by has to be written.
        *residuals = vec![0; records.len()];
    }
    residuals.resize(records.len(), 0);
    let (mut first, mut last) = (u64::MAX, 0);
    let (mut end_before, mut depth_before) = (records.first().map_or(0, |it| it.start), 0);
    // A plain loop: what it carries on stays in registers, which a closure would keep in memory.
    for (residual, &Record { start, value, kind, depth, .. }) in residuals.iter_mut().zip(records) {
        let duration = duration(value, kind.0);
        let end = start.wrapping_add(duration);
        let place = if depth < depth_before { end } else { start };
        *residual = zigzag(place.wrapping_sub(end_before));
        (end_before, depth_before) = (end, depth);
        first = first.min(start);
        last = last.max(start.saturating_add(duration));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    fn span(start: u64, duration: u64, depth: u8) -> Record {
        Record { depth, ..Record::timed(Kind::SPAN, 1, 1, start, duration) }
    }

    #[test]
    fn zigzag_is_what_the_format_says_and_comes_back() {
        for (residual, coded) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1)] {
            assert_eq!(zigzag(residual as u64), coded);
            assert_eq!(unzigzag(coded), residual as u64);
        }
        assert_eq!((zigzag(i64::MIN as u64), unzigzag(u64::MAX)), (u64::MAX, i64::MIN as u64));
    }

    #[test]
    fn parent_is_predicted_from_the_end_of_its_child_and_a_sibling_from_its_start() {
        // A child of 10 ticks, its sibling 3 later, their parent that closes 2 after.
        let records = [span(100, 10, 1), span(113, 10, 1), span(95, 30, 0), span(130, 1, 0)];
        let mut residuals = Vec::new();
        assert_eq!(predict_starts(&records, &mut residuals), (95, 131));
        let signed: Vec<i64> = residuals.iter().map(|coded| unzigzag(*coded) as i64).collect();
        assert_eq!(signed, [0, 3, 2, 5]);
    }

    #[test]
    fn starts_come_back_whatever_the_values() {
        let extreme = [0, 1, 5, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1];
        let mut records = Vec::new();
        for start in extreme {
            for value in extreme {
                for (kind, depth) in [(1, 0), (0x3F, 255), (0x40, 3), (0x80, 1), (0, 2)] {
                    records.push(Record { kind: Kind(kind), depth, ..span(start, value, 0) });
                }
            }
        }
        let mut starts = Vec::new();
        predict_starts(&records, &mut starts);
        let values: Vec<u64> = records.iter().map(|record| record.value).collect();
        let kinds: Vec<u8> = records.iter().map(|record| record.kind.0).collect();
        let depths: Vec<u8> = records.iter().map(|record| record.depth).collect();
        restore_starts(&mut starts, &values, &kinds, &depths, records[0].start);
        assert!(records.iter().map(|record| record.start).eq(starts));
    }

    #[test]
    fn profile_tells_which_bytes_vary_and_what_the_others_are() {
        let units = [span(1, 0x0300, 0), span(2, 0x0301, 0)];
        let profile = Profile::of(&units);
        assert!(profile.plain);
        assert_eq!(profile.column(RECORD_COLUMNS[0]), (1, 0x0300));
        assert_eq!(profile.column(RECORD_COLUMNS[1]), (0, 1));
        assert_eq!(profile_of_values(&[0x0305, 0x0405]), (2, 5));
        assert_eq!(profile_of_values(&[]), (0, 0));
    }

    #[test]
    fn only_units_that_are_all_records_without_slots_are_plain() {
        let mut units = vec![span(1, 1, 0); 40];
        assert!(Profile::of(&units).plain && Profile::of(&[]).plain);
        for (kind, shape) in [(0, 0), (0x80, 0), (0xFF, 0), (1, 1), (1, 16), (1, 0xFF)] {
            units[17] = Record { kind: Kind(kind), shape, ..units[0] };
            assert!(!Profile::of(&units).plain, "{kind:#x} {shape:#x}");
        }
        units[17] = Record { kind: Kind(0x7F), shape: 0xE0, ..units[0] };
        assert!(Profile::of(&units).plain);
    }

    #[test]
    fn values_are_durations_if_few_records_are_points() {
        let mut units = vec![span(1, 1, 0); 8_000];
        units[3].kind = Kind(0x3F);
        assert!(are_mostly_timed(&units) && are_mostly_timed(&units[..1]));
        // The recorder's own readings, at the end of a slot.
        units[7_700..].iter_mut().for_each(|unit| unit.kind = Kind(0x42));
        assert!(are_mostly_timed(&units));
        units.iter_mut().step_by(2).for_each(|unit| unit.kind = Kind(0x41));
        assert!(!are_mostly_timed(&units));
        assert!(!are_mostly_timed(&[]));
    }

    #[test]
    fn misplaced_units_are_found() {
        let base = |slots| Record { shape: slots, ..span(1, 1, 0) };
        let slot = Record { kind: Kind::TEXT, ..Record::default() };
        assert_eq!(misplaced_unit(&[base(2), slot, slot, base(0)]), None);
        assert_eq!(misplaced_unit(&[slot]), Some(0));
        assert_eq!(misplaced_unit(&[base(0), slot]), Some(1));
        assert_eq!(misplaced_unit(&[base(2), slot, base(0)]), Some(2));
        assert_eq!(misplaced_unit(&[base(2), slot]), Some(2));
        assert_eq!(misplaced_unit(&[Record::default()]), Some(0));
        assert_eq!(misplaced_unit(&[Record { kind: Kind(0xF0), ..base(0) }]), Some(0));
    }
}
