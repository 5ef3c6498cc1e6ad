//! Where durations lie, roughly: the first step towards exact percentiles.
//!
//! Buckets grow with the duration, `2^BITS` of them for each doubling. A group
//! with few durations keeps them as they are instead, and needs no second look.

/// A group keeps up to so many durations as they are.
const KEPT: usize = 256;

/// The bucket of a value.
#[inline(always)]
pub(crate) fn bucket<const BITS: u32>(value: u64) -> usize {
    let small = 1_u64 << BITS;
    if value < small {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros() - BITS;
    (u64::from(exponent) * small + (value >> exponent)) as usize
}

/// The least value of a bucket. One past the last bucket is 2^64, hence the type.
pub(crate) fn floor_of<const BITS: u32>(bucket: usize) -> u128 {
    let small = 1_usize << BITS;
    if bucket < small {
        return bucket as u128;
    }
    let exponent = bucket / small - 1;
    ((bucket % small + small) as u128) << exponent
}

/// How many buckets there are.
pub(crate) const fn buckets<const BITS: u32>() -> usize {
    (65 - BITS as usize) << BITS
}

/// The durations of one group, as far as one worker has seen them.
#[derive(Clone, Debug)]
pub(super) enum Histogram<const BITS: u32> {
    /// As they are.
    Few(Vec<u64>),
    /// How many are in each bucket.
    Many(Counts),
}

/// How many durations are in each bucket. Counts are narrow, because what is
/// counted in at random should stay in the cache, and carry what they cannot hold.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    narrow: Box<[u32]>,
    /// Buckets whose count is 2^32 higher than it looks, once for each time.
    carried: Vec<usize>,
}

impl Counts {
    fn new(buckets: usize) -> Self {
        Self { narrow: vec![0; buckets].into_boxed_slice(), carried: Vec::new() }
    }

    #[inline(always)]
    fn add(&mut self, bucket: usize, more: u32) {
        let count = &mut self.narrow[bucket];
        let (sum, carry) = count.overflowing_add(more);
        *count = sum;
        if carry {
            self.carry(bucket);
        }
    }

    #[cold]
    fn carry(&mut self, bucket: usize) {
        self.carried.push(bucket);
    }

    /// The counts, bucket by bucket.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.narrow.iter().enumerate().map(|(bucket, &count)| {
            let carried = self.carried.iter().filter(|&&it| it == bucket).count() as u64;
            u64::from(count) + (carried << 32)
        })
    }
}

impl<const BITS: u32> Histogram<BITS> {
    pub(super) const fn new() -> Self {
        Histogram::Few(Vec::new())
    }

    #[inline(always)]
    pub(super) fn push(&mut self, value: u64) {
        match self {
            Histogram::Many(counts) => counts.add(bucket::<BITS>(value), 1),
            Histogram::Few(values) if values.len() < KEPT => values.push(value),
            Histogram::Few(_) => self.count_one(value),
        }
    }

    #[cold]
    fn count_one(&mut self, value: u64) {
        self.counts().add(bucket::<BITS>(value), 1);
    }

    /// Turns it into counts.
    fn counts(&mut self) -> &mut Counts {
        if let Histogram::Few(values) = self {
            let mut counts = Counts::new(buckets::<BITS>());
            values.iter().for_each(|&value| counts.add(bucket::<BITS>(value), 1));
            *self = Histogram::Many(counts);
        }
        match self {
            Histogram::Many(counts) => counts,
            Histogram::Few(_) => unreachable!("it was turned into counts above"),
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        match (&mut *self, other) {
            (Histogram::Few(values), Histogram::Few(more)) if values.len() + more.len() <= KEPT => {
                values.extend(more);
            }
            (_, Histogram::Few(more)) => {
                let counts = self.counts();
                more.into_iter().for_each(|value| counts.add(bucket::<BITS>(value), 1));
            }
            (_, Histogram::Many(more)) => {
                let counts = self.counts();
                for (bucket, &more) in more.narrow.iter().enumerate() {
                    counts.add(bucket, more);
                }
                counts.carried.extend(more.carried);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_adjoining_and_in_order() {
        let mut edges = vec![0_u64, 1, 7, 8, 9, 15, 16, 17, 1 << 20, u64::MAX - 1, u64::MAX];
        edges.extend((4..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for value in edges {
            let at = bucket::<3>(value);
            assert!(at < buckets::<3>());
            let range = floor_of::<3>(at)..floor_of::<3>(at + 1);
            assert!(range.contains(&u128::from(value)), "{value} in {range:?}");
        }
        assert_eq!(floor_of::<5>(buckets::<5>()), 1 << 64);
    }

    #[test]
    fn few_become_many_without_losing_any() {
        let mut histogram = Histogram::<5>::new();
        (0..1_000).for_each(|value| histogram.push(value));
        let mut other = Histogram::<5>::new();
        (0..10).for_each(|value| other.push(value));
        histogram.merge(other);
        let Histogram::Many(counts) = histogram else { panic!("still few") };
        assert_eq!(counts.iter().sum::<u64>(), 1_010);
        assert_eq!(counts.iter().nth(3), Some(2));
    }

    #[test]
    fn counts_past_four_billion_are_carried() {
        let mut counts = Counts::new(4);
        (0..3).for_each(|_| counts.add(2, u32::MAX));
        counts.add(1, 7);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [0, 7, 3 * u64::from(u32::MAX), 0]);
    }
}
