//! When a track was busy: the union of intervals that come in falling order of
//! their ends, as records do that are read backwards.
//!
//! Queues of devices may tell of their work in an order of their own, so up to
//! 256 intervals wait for one with a later end. What comes later still is counted.

use std::collections::BinaryHeap;

/// Intervals that may wait for one with a later end.
const WAITING: usize = 256;

/// The union of intervals of ticks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy {
    waiting: BinaryHeap<(u64, u64)>,
    /// Where what has been added up begins, and the end of the last interval in it.
    reached: Option<(u64, u64)>,
    /// How long the union is.
    pub(crate) ticks: u128,
    /// The longest time between two parts of the union; from and to.
    pub(crate) longest_gap: Option<(u64, u64)>,
    /// Intervals that came too late, of which a part may be missing.
    pub(crate) too_late: u64,
}

impl Busy {
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        self.waiting.push((end, start));
        if self.waiting.len() > WAITING {
            self.settle_one();
        }
    }

    /// To be called when there are no more.
    pub(crate) fn finish(&mut self) {
        while !self.waiting.is_empty() {
            self.settle_one();
        }
    }

    fn settle_one(&mut self) {
        let Some((end, start)) = self.waiting.pop() else { return };
        let Some((begin, last_end)) = self.reached else {
            self.ticks = u128::from(end - start);
            self.reached = Some((start, end));
            return;
        };
        self.too_late += u64::from(end > last_end);
        self.ticks += u128::from(end.min(begin).saturating_sub(start));
        let gap = begin.saturating_sub(end);
        if gap > self.longest_gap.map_or(0, |(from, to)| to - from) {
            self.longest_gap = Some((end, begin));
        }
        self.reached = Some((begin.min(start), last_end.min(end)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn union(intervals: &[(u64, u64)]) -> Busy {
        let mut busy = Busy::default();
        intervals.iter().for_each(|&(start, end)| busy.add(start, end));
        busy.finish();
        busy
    }

    #[test]
    fn overlaps_count_once_and_the_longest_gap_is_found() {
        let busy = union(&[(50, 60), (55, 58), (20, 30), (25, 28), (0, 22), (45, 45)]);
        assert_eq!((busy.ticks, busy.longest_gap, busy.too_late), (40, Some((30, 45)), 0));
        assert_eq!(union(&[]).ticks, 0);
    }

    #[test]
    fn what_comes_far_too_late_is_counted() {
        let mut intervals: Vec<(u64, u64)> =
            (0..1_000).rev().map(|n| (n * 10, n * 10 + 5)).collect();
        intervals.push((9_995, 9_999));
        let busy = union(&intervals);
        assert_eq!((busy.ticks, busy.too_late), (5_000, 1));
    }
}
