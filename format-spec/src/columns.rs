//! Columns: which bytes of them vary (SPEC 8.2). Arithmetic only; compression is
//! `chunk_encoder`'s and `reader`'s.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    first: [u8; UNIT],
    /// Bits in which some unit differs from the first.
    varying: [u8; UNIT],
    /// Whether all units are records and none has slots.
    pub(crate) plain: bool,
    is_begun: bool,
}

/// Where the last word of a unit has its kind.
const KIND: u32 = 32;
const KINDS: u64 = 0xFF << KIND;
/// Bits of the last word that no record without slots has: a kind of 0x80 or
/// more, and a number of slots.
const NOT_PLAIN: u64 = 0x80 << KIND | 0x1F << 56;

impl Default for Profile {
    /// The profile of no units.
    fn default() -> Profile {
        Profile { first: [0; UNIT], varying: [0; UNIT], plain: true, is_begun: false }
    }
}

impl Profile {
    /// Takes in the next units.
    pub(crate) fn extend(&mut self, units: &[Record]) {
        let Some(next) = units.first() else { return };
        if !self.is_begun {
            (self.first, self.is_begun) = (bytemuck::cast(*next), true);
        }
        let first: [u64; 4] = bytemuck::cast(self.first);
        let mut varying = [0_u64; 4];
        for words in bytemuck::cast_slice::<Record, [u64; 4]>(units) {
            for at in 0..4 {
                varying[at] |= words[at] ^ first[at];
            }
        }
        // All bits that some unit has, and those that all have: most often they tell already.
        let (some, all) = (first[3] | varying[3], first[3] & !varying[3]);
        let has_slots = some & NOT_PLAIN != 0;
        self.plain &= !has_slots && (all & KINDS != 0 || are_plain(units));
        let known: [u64; 4] = bytemuck::cast(self.varying);
        self.varying = bytemuck::cast([0, 1, 2, 3].map(|at| known[at] | varying[at]));
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
        borrow |= (tags & KINDS).wrapping_sub(1 << KIND);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    fn span(start: u64, duration: u64, depth: u8) -> Record {
        Record { depth, ..Record::timed(Kind::SPAN, 1, 1, start, duration) }
    }

    fn profile_of(units: &[Record]) -> Profile {
        let mut whole = Profile::default();
        whole.extend(units);
        for piece in [1, 7] {
            let mut pieces = Profile::default();
            units.chunks(piece).for_each(|some| pieces.extend(some));
            assert_eq!(pieces, whole);
        }
        whole
    }

    #[test]
    fn profile_tells_which_bytes_vary_and_what_the_others_are() {
        let units = [span(1, 0x0300, 0), span(2, 0x0301, 0)];
        let profile = profile_of(&units);
        assert!(profile.plain);
        assert_eq!(profile.column(RECORD_COLUMNS[0]), (1, 0x0300));
        assert_eq!(profile.column(RECORD_COLUMNS[1]), (0, 1));
    }

    #[test]
    fn only_units_that_are_all_records_without_slots_are_plain() {
        let mut units = vec![span(1, 1, 0); 40];
        assert!(profile_of(&units).plain && profile_of(&[]).plain);
        for (kind, shape) in [(0, 0), (0x80, 0), (0xFF, 0), (1, 1), (1, 16), (1, 0xFF)] {
            units[17] = Record { kind: Kind(kind), shape, ..units[0] };
            assert!(!profile_of(&units).plain, "{kind:#x} {shape:#x}");
        }
        units[17] = Record { kind: Kind(0x7F), shape: 0xE0, ..units[0] };
        assert!(profile_of(&units).plain);
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
