//! Starts predicted from the record before (SPEC 8.3.1). Arithmetic only.
#![allow(unsafe_code)] // memory that is written before it is read, and never zeroed

use crate::record::Record;

/// What is left of the starts after prediction, the first start being the origin. Made in
/// pieces; it keeps its memory from chunk to chunk.
#[derive(Default)]
pub(crate) struct Residuals {
    values: Vec<u64>,
    /// Bits in which some value differs from the first.
    varying: u64,
    /// Of the record before.
    end: u64,
    depth: u8,
    /// The earliest start and the latest end.
    ticks: (u64, u64),
}

impl Residuals {
    /// For so many records, the first of which begins there.
    pub(crate) fn begin(&mut self, records: usize, origin: u64) {
        self.values.clear();
        self.values.reserve_exact(records);
        (self.varying, self.end, self.depth) = (0, origin, 0);
        self.ticks = (u64::MAX, 0);
    }

    /// Predicts the next records.
    pub(crate) fn extend(&mut self, records: &[Record]) {
        self.values.reserve_exact(records.len());
        let before = self.values.len();
        let free = self.values.spare_capacity_mut().iter_mut();
        // A plain loop: what it carries on stays in registers, which a closure would keep in memory.
        let (mut end_before, mut depth_before) = (self.end, self.depth);
        let (mut first, mut last) = self.ticks;
        for (residual, &Record { start, value, kind, depth, .. }) in free.zip(records) {
            let duration = duration(value, kind.0);
            let end = start.wrapping_add(duration);
            let place = if depth < depth_before { end } else { start };
            residual.write(zigzag(place.wrapping_sub(end_before)));
            (end_before, depth_before) = (end, depth);
            first = first.min(start);
            last = last.max(start.saturating_add(duration));
        }
        // SAFETY: there was room for all of them, so the loop has written one for each record.
        unsafe { self.values.set_len(before + records.len()) };
        (self.end, self.depth, self.ticks) = (end_before, depth_before, (first, last));
        let base = self.values.first().copied().unwrap_or(0);
        self.varying |= self.values[before..].iter().fold(0, |bits, value| bits | (value ^ base));
    }

    /// One for each record.
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }

    /// The earliest start and the latest end of the records.
    pub(crate) fn ticks(&self) -> (u64, u64) {
        if self.values.is_empty() { (0, 0) } else { self.ticks }
    }

    /// Which bytes vary, and the first value with those zeroed.
    pub(crate) fn profile(&self) -> (u8, u64) {
        let (mut planes, mut base) = (0, self.values.first().copied().unwrap_or(0));
        for at in 0..8 {
            if (self.varying >> (8 * at)) as u8 != 0 {
                planes |= 1 << at;
                base &= !(0xFF << (8 * at));
            }
        }
        (planes, base)
    }
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

    /// Made in pieces of so many records.
    fn residuals(records: &[Record], piece: usize) -> Residuals {
        let mut residuals = Residuals::default();
        residuals.begin(records.len(), records.first().map_or(0, |record| record.start));
        records.chunks(piece).for_each(|some| residuals.extend(some));
        residuals
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
        for piece in 1..=4 {
            let residuals = residuals(&records, piece);
            assert_eq!(residuals.ticks(), (95, 131));
            let signed = residuals.values().iter().map(|coded| unzigzag(*coded) as i64);
            assert_eq!(signed.collect::<Vec<_>>(), [0, 3, 2, 5]);
            assert_eq!(residuals.profile(), (1, 0));
        }
        assert_eq!((residuals(&[], 1).ticks(), residuals(&[], 1).profile()), ((0, 0), (0, 0)));
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
        let mut starts = residuals(&records, 100).values().to_vec();
        let values: Vec<u64> = records.iter().map(|record| record.value).collect();
        let kinds: Vec<u8> = records.iter().map(|record| record.kind.0).collect();
        let depths: Vec<u8> = records.iter().map(|record| record.depth).collect();
        restore_starts(&mut starts, &values, &kinds, &depths, records[0].start);
        assert!(records.iter().map(|record| record.start).eq(starts));
    }
}
