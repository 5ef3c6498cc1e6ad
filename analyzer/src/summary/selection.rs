//! From a histogram to exact percentiles, in bounded memory.
//!
//! A percentile is the value at a rank, or between the values at two ranks. The
//! histogram tells in which range of values a rank lies and how many values come
//! before that range. The next look at the trace collects what lies in the range,
//! or counts how often each value of it occurs, whichever takes less memory: either
//! way the rank's value is then known. Only where all ranges together would take
//! more than [`ROOM`], the largest are counted in 4,096 narrower ranges instead, and
//! the trace is looked at again: each look narrows such a range 4,096 times, and a
//! range of one value needs none.

use super::histogram::{Histogram, bucket, buckets, floor_of};

/// How many values, or counts, all ranges together may take in one look: 64 MiB
/// of each worker.
const ROOM: u64 = 1 << 23;
/// Into how many ranges one that takes too much is cut.
const PARTS: u64 = 1 << 12;

/// One range of values with ranks of interest inside.
#[derive(Clone, Debug)]
pub(super) struct Target {
    group: u32,
    /// The values: from, and up to including.
    first: u64,
    last: u64,
    /// How many values of the group come before the range, and how many are in it.
    before: u64,
    inside: u64,
    /// If it is counted, in ranges of two to the power of what; if not, collected.
    counted_by: Option<u32>,
}

/// What a worker has found out about one target.
#[derive(Clone, Debug)]
pub(super) enum Finding {
    Values(Vec<u64>),
    Counts { shift: u32, counts: Box<[u64]> },
}

/// Values at ranks: what is known, and what is still to be looked for.
#[derive(Debug, Default)]
pub(super) struct Selection<const BITS: u32> {
    /// Wanted ranks by group, sorted, with their value once known.
    ranks: Vec<Vec<(u64, Option<u64>)>>,
    /// Sorted by group, then by value; disjoint.
    targets: Vec<Target>,
    /// Where a group's targets begin; one more entry than groups.
    first_target: Vec<u32>,
    /// Whether a target is in a bucket of the histogram, by row and bucket: most
    /// values are told from this alone.
    is_aimed_at: Vec<bool>,
    /// The row by group. Groups without a target, nearly all if there are many,
    /// share the first one, in which there is none.
    row_of: Vec<u32>,
    /// [`ROOM`], but for tests.
    room: u64,
}

/// Percentiles in the order in which they were asked for. One that is not known
/// keeps its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Percentiles(Vec<Option<f64>>);

impl Percentiles {
    /// The one that was asked for in this place.
    pub fn get(&self, at: usize) -> Option<&f64> {
        self.0.get(at)?.as_ref()
    }

    /// Those that are known, each with what was asked for.
    pub fn known<'a>(&'a self, asked: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
        asked.iter().zip(&self.0).filter_map(|(&asked, &found)| Some((asked, found?)))
    }

    pub(super) fn scaled(self, by: f64) -> Self {
        Self(self.0.into_iter().map(|value| Some(value? * by)).collect())
    }
}

/// The two ranks around a percentile of `count` values, and the weight of the
/// second: linear interpolation, as numpy and Polars' `linear` do it.
pub(crate) fn ranks(percentile: f64, count: u64) -> (u64, u64, f64) {
    let exact = (percentile / 100.0).clamp(0.0, 1.0) * (count - 1) as f64;
    let below = exact.floor();
    (below as u64, exact.ceil() as u64, exact - below)
}

impl<const BITS: u32> Selection<BITS> {
    /// Prepares for `percentiles` of every group.
    pub(super) fn new(groups: &mut [(u64, Histogram<BITS>)], percentiles: &[f64]) -> Self {
        Self::within(ROOM, groups, percentiles)
    }

    fn within(room: u64, groups: &mut [(u64, Histogram<BITS>)], percentiles: &[f64]) -> Self {
        let mut selection = Self { room, ..Self::default() };
        for (group, (count, histogram)) in groups.iter_mut().enumerate() {
            let mut wanted: Vec<u64> = Vec::new();
            if *count > 0 {
                let both = |&percentile: &f64| {
                    let (below, above, _) = ranks(percentile, *count);
                    [below, above]
                };
                wanted.extend(percentiles.iter().flat_map(both));
                wanted.sort_unstable();
                wanted.dedup();
            }
            let mut known: Vec<(u64, Option<u64>)> =
                wanted.into_iter().map(|rank| (rank, None)).collect();
            match histogram {
                Histogram::Few(values) => {
                    values.sort_unstable();
                    for (rank, value) in &mut known {
                        *value = values.get(*rank as usize).copied();
                    }
                }
                Histogram::Many(counts) => {
                    let ranges = counts.iter().enumerate().map(|(at, count)| {
                        let last = (floor_of::<BITS>(at + 1) - 1) as u64;
                        (floor_of::<BITS>(at) as u64, last, count)
                    });
                    selection.aim(group as u32, &mut known, 0, ranges);
                }
            }
            selection.ranks.push(known);
        }
        selection.index();
        selection
    }

    /// Finds the ranges in which wanted ranks lie, among `ranges` of values in
    /// order, before which there are `before`.
    fn aim(
        &mut self,
        group: u32,
        known: &mut [(u64, Option<u64>)],
        mut before: u64,
        ranges: impl Iterator<Item = (u64, u64, u64)>,
    ) {
        for (first, last, inside) in ranges {
            if inside == 0 {
                continue;
            }
            let from = known.partition_point(|(rank, _)| *rank < before);
            let to = known.partition_point(|(rank, _)| *rank < before + inside);
            if from < to {
                if first == last {
                    known[from..to].iter_mut().for_each(|(_, value)| *value = Some(first));
                } else {
                    let counted_by = None;
                    let target = Target { group, first, last, before, inside, counted_by };
                    self.targets.push(target);
                }
            }
            before += inside;
        }
    }

    fn index(&mut self) {
        self.share_room();
        self.targets.sort_unstable_by_key(|target| (target.group, target.first));
        let of = |group: usize| self.targets.partition_point(|it| (it.group as usize) < group);
        self.first_target = (0..=self.ranks.len()).map(|group| of(group) as u32).collect();
        self.row_of = vec![0; self.ranks.len()];
        self.is_aimed_at = vec![false; buckets::<BITS>()];
        for target in &self.targets {
            let row = &mut self.row_of[target.group as usize];
            if *row == 0 {
                *row = (self.is_aimed_at.len() / buckets::<BITS>()) as u32;
                self.is_aimed_at.resize(self.is_aimed_at.len() + buckets::<BITS>(), false);
            }
            let first = *row as usize * buckets::<BITS>();
            let (from, to) = (bucket::<BITS>(target.first), bucket::<BITS>(target.last));
            self.is_aimed_at[first + from..=first + to].fill(true);
        }
    }

    /// Decides how to look for each target, the least demanding ones first.
    fn share_room(&mut self) {
        self.targets.sort_unstable_by_key(Target::demand);
        let mut room = self.room;
        for target in &mut self.targets {
            let demand = target.demand();
            target.counted_by = if demand <= room {
                (target.width() < target.inside).then_some(0)
            } else {
                let bits = 64 - target.width().leading_zeros();
                Some(bits.saturating_sub(PARTS.trailing_zeros()))
            };
            room = room.saturating_sub(demand);
        }
    }

    /// Whether another look at the trace is needed.
    pub(super) fn is_complete(&self) -> bool {
        self.targets.is_empty()
    }

    /// Room for what one worker will find.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.targets.iter().map(Target::finding).collect()
    }

    /// Notes a value, if it lies in a range of interest.
    #[inline(always)]
    pub(super) fn note(&self, findings: &mut [Finding], group: u32, value: u64) {
        let group = group as usize;
        let row = self.row_of[group] as usize;
        if !self.is_aimed_at[row * buckets::<BITS>() + bucket::<BITS>(value)] {
            return;
        }
        let first = self.first_target[group] as usize;
        let targets = &self.targets[first..self.first_target[group + 1] as usize];
        // Those few that are usual are found soonest one after the other.
        let at = if targets.len() <= 8 {
            targets.iter().position(|target| value <= target.last).unwrap_or(targets.len())
        } else {
            targets.partition_point(|target| target.last < value)
        };
        if let Some(target) = targets.get(at)
            && target.first <= value
        {
            findings[first + at].push(value - target.first, value);
        }
    }

    /// Takes what all workers have found.
    pub(super) fn absorb(&mut self, workers: Vec<Vec<Finding>>) {
        let targets = std::mem::take(&mut self.targets);
        let mut found: Vec<Finding> = targets.iter().map(Target::finding).collect();
        for worker in workers {
            for (sum, finding) in found.iter_mut().zip(worker) {
                sum.merge(finding);
            }
        }
        for (target, finding) in targets.into_iter().zip(found) {
            let mut known = std::mem::take(&mut self.ranks[target.group as usize]);
            match finding {
                Finding::Values(mut values) => {
                    values.sort_unstable();
                    for (rank, value) in &mut known {
                        if let Some(inside) = rank.checked_sub(target.before)
                            && let Some(&found) = values.get(inside as usize)
                        {
                            *value = Some(found);
                        }
                    }
                }
                Finding::Counts { shift, counts } => {
                    let ranges = counts.iter().enumerate().map(|(at, &count)| {
                        let first = target.first + ((at as u64) << shift);
                        let last = first.saturating_add((1 << shift) - 1).min(target.last);
                        (first, last, count)
                    });
                    self.aim(target.group, &mut known, target.before, ranges);
                }
            }
            self.ranks[target.group as usize] = known;
        }
        self.index();
    }

    /// The percentile of a group; `None` of an empty one, and if a later look did
    /// not come by a value that an earlier one had counted.
    fn percentile(&self, group: usize, percentile: f64, count: u64) -> Option<f64> {
        if count == 0 {
            return None;
        }
        let (below, above, weight) = ranks(percentile, count);
        let value = |rank| {
            let known = &self.ranks[group];
            let at = known.binary_search_by_key(&rank, |(rank, _)| *rank).ok()?;
            known[at].1.map(|value| value as f64)
        };
        let (below, above) = (value(below)?, value(above)?);
        Some(below + (above - below) * weight)
    }
}

impl<const BITS: u32> Selection<BITS> {
    /// All of `percentiles` of a group.
    pub(super) fn percentiles(&self, group: usize, percentiles: &[f64], count: u64) -> Percentiles {
        Percentiles(percentiles.iter().map(|&it| self.percentile(group, it, count)).collect())
    }
}

impl Target {
    fn finding(&self) -> Finding {
        let Some(shift) = self.counted_by else { return Finding::Values(Vec::new()) };
        let counts = vec![0; (self.width() >> shift) as usize + 1].into_boxed_slice();
        Finding::Counts { shift, counts }
    }

    /// The distance between its first value and its last.
    fn width(&self) -> u64 {
        self.last - self.first
    }

    /// How many values or counts it takes to know all values in it.
    fn demand(&self) -> u64 {
        self.inside.min(self.width().saturating_add(1))
    }
}

impl Finding {
    #[inline(always)]
    fn push(&mut self, offset: u64, value: u64) {
        match self {
            Finding::Values(values) => values.push(value),
            Finding::Counts { shift, counts } => counts[(offset >> *shift) as usize] += 1,
        }
    }

    fn merge(&mut self, other: Finding) {
        match (self, other) {
            (Finding::Values(values), Finding::Values(more)) => values.extend(more),
            (Finding::Counts { counts, .. }, Finding::Counts { counts: more, .. }) => {
                counts.iter_mut().zip(&more).for_each(|(count, more)| *count += more);
            }
            // Both were made for the same target.
            (_, _) => debug_assert!(false, "findings of different kinds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentiles_of(values: &[u64], wanted: &[f64], room: u64) -> (Vec<f64>, u32) {
        let mut histogram = Histogram::<5>::new();
        values.iter().for_each(|&value| histogram.push(value));
        let count = values.len() as u64;
        let mut selection = Selection::<5>::within(room, &mut [(count, histogram)], wanted);
        let mut looks = 0;
        while !selection.is_complete() {
            let mut findings = vec![selection.findings(), selection.findings()];
            for (at, &value) in values.iter().enumerate() {
                selection.note(&mut findings[at % 2], 0, value);
            }
            selection.absorb(findings);
            looks += 1;
        }
        let found = wanted.iter().map(|&it| selection.percentile(0, it, count).unwrap());
        (found.collect(), looks)
    }

    fn naive(values: &[u64], percentile: f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let at = percentile / 100.0 * (sorted.len() - 1) as f64;
        let (below, above) =
            (sorted[at.floor() as usize] as f64, sorted[at.ceil() as usize] as f64);
        below + (above - below) * (at - at.floor())
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let wanted = [0.0, 1.0, 50.0, 95.0, 99.0, 99.9, 100.0];
        let mut state = 7_u64;
        for count in [1, 2, 3, 255, 256, 257, 5_000] {
            let values: Vec<u64> = (0..count)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    state >> (state >> 58)
                })
                .collect();
            for room in [ROOM, 100, 0] {
                let (found, _) = percentiles_of(&values, &wanted, room);
                for (found, &percentile) in found.iter().zip(&wanted) {
                    assert_eq!(*found, naive(&values, percentile), "p{percentile} of {count}");
                }
            }
        }
    }

    #[test]
    fn a_percentile_that_later_looks_do_not_find_keeps_its_place() {
        let (low, high) = (|i: u64| (1 << 20) + i * 7, |i: u64| (1 << 40) + i * 1_000_003);
        let mut histogram = Histogram::<5>::new();
        (0..1_000).for_each(|i| histogram.push(low(i)));
        (0..1_000).for_each(|i| histogram.push(high(i)));
        let wanted = [25.0, 75.0];
        for room in [ROOM, 0] {
            let groups = &mut [(2_000, histogram.clone())];
            let mut selection = Selection::<5>::within(room, groups, &wanted);
            while !selection.is_complete() {
                let mut findings = selection.findings();
                (0..1_000).for_each(|i| selection.note(&mut findings, 0, high(i)));
                selection.absorb(vec![findings]);
            }
            let found = selection.percentiles(0, &wanted, 2_000);
            let all: Vec<u64> = (0..1_000).map(low).chain((0..1_000).map(high)).collect();
            assert_eq!(found, Percentiles(vec![None, Some(naive(&all, 75.0))]));
            assert_eq!((found.get(0), found.get(1)), (None, Some(&naive(&all, 75.0))));
            assert_eq!(found.known(&wanted).next(), Some((75.0, naive(&all, 75.0))));
        }
    }

    #[test]
    fn groups_without_a_target_take_no_room() {
        let mut many = Histogram::<5>::new();
        (0..5_000).for_each(|i| many.push((1 << 30) + i * 1_009));
        let mut few = Histogram::<5>::new();
        few.push(7);
        let mut groups = vec![(1, few); 10_000];
        groups[4_321] = (5_000, many);
        let mut selection = Selection::<5>::new(&mut groups, &[50.0]);
        assert_eq!(selection.is_aimed_at.len(), 2 * buckets::<5>());
        let mut findings = selection.findings();
        for i in 0..5_000 {
            selection.note(&mut findings, 4_321, (1 << 30) + i * 1_009);
            selection.note(&mut findings, 4_320, (1 << 30) + i * 1_009);
        }
        selection.absorb(vec![findings]);
        let middle = (f64::from(1 << 30)) + 2_499.5 * 1_009.0;
        assert_eq!(selection.percentile(4_321, 50.0, 5_000), Some(middle));
        assert_eq!(selection.percentile(4_320, 50.0, 1), Some(7.0));
    }

    #[test]
    fn what_finds_no_room_takes_more_looks_and_is_as_exact() {
        let wide: Vec<u64> = (0..200_000_u64).map(|i| (1 << 40) + i * 7_919 % 1_000_003).collect();
        let expected = vec![naive(&wide, 50.0), naive(&wide, 99.0)];
        let in_one = percentiles_of(&wide, &[50.0, 99.0], ROOM);
        assert_eq!(in_one, (expected.clone(), 1));
        let (found, looks) = percentiles_of(&wide, &[50.0, 99.0], 1_000);
        assert_eq!(found, expected);
        assert!(looks >= 2);
        let equal = vec![123_456_789; 200_000];
        assert_eq!(percentiles_of(&equal, &[50.0], 0).0, [123_456_789.0]);
    }
}
