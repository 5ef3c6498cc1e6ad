//! Whether durations have several modes, and where.
//!
//! The rule, on buckets of an eighth of a doubling whose counts are smoothed over
//! five neighbours: a mode is a peak that stands apart from the next one by a
//! valley of less than half the lower of both, with at least 5 % of all durations
//! and at least 50 of them on its side of the valleys. The lower peak also has to
//! exceed the valley by five times what chance alone would make of such counts
//! (the square root of both together). With fewer than 200 durations nothing is
//! said. So two modes closer than about a factor of 1.5 are seen as one.

use super::about;
use crate::summary::{bucket, buckets, floor_of};

const BITS: u32 = 3;
/// How many fine buckets there are.
pub(super) const BUCKETS: usize = buckets::<BITS>();
const LEAST_DURATIONS: u64 = 200;
const LEAST_OF_A_MODE: u64 = 50;
const LEAST_SHARE: f64 = 0.05;
const SMOOTHED: usize = 2;
/// Three would do for a peak and a valley named beforehand; these are the highest
/// and the lowest of many.
const SIGMAS: f64 = 5.0;

/// The fine bucket of a value.
#[inline(always)]
pub(super) fn bucket_of(value: u64) -> usize {
    bucket::<BITS>(value)
}

/// Modes, if there are several.
#[derive(Clone, Debug, Default)]
pub(super) struct Modes {
    /// Where they peak, in nanoseconds; empty if there is only one.
    pub(super) peaks_ns: Vec<f64>,
}

/// One side of a valley.
#[derive(Clone, Copy, Debug)]
struct Hill {
    peak: usize,
    height: f64,
    durations: u64,
    /// The lowest between it and the next.
    valley: f64,
}

/// Looks for modes in the counts of fine buckets.
pub(super) fn find(counts: &[u64], unit_ns: f64) -> Modes {
    let all: u64 = counts.iter().sum();
    if all < LEAST_DURATIONS {
        return Modes::default();
    }
    let smooth = |at: usize| {
        let around = &counts[at.saturating_sub(SMOOTHED)..(at + SMOOTHED + 1).min(counts.len())];
        around.iter().sum::<u64>() as f64 / (2 * SMOOTHED + 1) as f64
    };
    let smoothed: Vec<f64> = (0..counts.len()).map(smooth).collect();
    let mut hills: Vec<Hill> = Vec::new();
    let mut rises = false;
    for (at, &height) in smoothed.iter().enumerate() {
        let before = at.checked_sub(1).map_or(0.0, |at| smoothed[at]);
        if height > before && !rises {
            rises = true;
            hills.push(Hill { peak: at, height, durations: 0, valley: 0.0 });
        } else if height < before {
            rises = false;
        }
        if let Some(hill) = hills.last_mut() {
            if height > hill.height {
                (hill.peak, hill.height) = (at, height);
            }
            hill.valley = height;
            hill.durations += counts[at];
        }
    }
    let window = (2 * SMOOTHED + 1) as f64;
    let least = ((all as f64 * LEAST_SHARE) as u64).max(LEAST_OF_A_MODE);
    // The least distinct neighbours become one, until all are distinct.
    while hills.len() > 1 {
        let lower = |at: usize| hills[at].height.min(hills[at + 1].height);
        let depth = |at: usize| hills[at].valley / lower(at);
        let at = (0..hills.len() - 1).max_by(|&a, &b| depth(a).total_cmp(&depth(b))).unwrap_or(0);
        let by_chance = ((lower(at) + hills[at].valley) * window).sqrt() / window;
        let is_valley = depth(at) < 0.5 && lower(at) - hills[at].valley > SIGMAS * by_chance;
        let join = if is_valley {
            let small = (0..hills.len()).find(|&at| hills[at].durations < least);
            let Some(small) = small else { break };
            small.min(hills.len() - 2)
        } else {
            at
        };
        let next = hills.remove(join + 1);
        let hill = &mut hills[join];
        if next.height > hill.height {
            (hill.peak, hill.height) = (next.peak, next.height);
        }
        hill.durations += next.durations;
        hill.valley = next.valley;
    }
    if hills.len() < 2 {
        return Modes::default();
    }
    let middle = |hill: &Hill| {
        let (from, to) = (floor_of::<BITS>(hill.peak), floor_of::<BITS>(hill.peak + 1) - 1);
        (from + to) as f64 / 2.0 * unit_ns
    };
    Modes { peaks_ns: hills.iter().map(middle).collect() }
}

impl Modes {
    /// `two modes: around 12 us and 340 us`, if there are several.
    pub(super) fn in_words(&self) -> Option<String> {
        let peaks: Vec<String> = self.peaks_ns.iter().map(|&ns| about::in_words(ns)).collect();
        let number = match peaks.len() {
            0 | 1 => return None,
            2 => "two".to_owned(),
            3 => "three".to_owned(),
            more => more.to_string(),
        };
        let (last, first) = peaks.split_last()?;
        Some(format!("{number} modes: around {} and {last}", first.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peaks(values: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut counts = vec![0; BUCKETS];
        values.for_each(|value| counts[bucket_of(value as u64)] += 1);
        find(&counts, 1.0).peaks_ns
    }

    /// Durations around `middle`, log-normal by the sum of twelve random numbers.
    fn around(middle: f64, spread: f64, n: usize, seed: u64) -> impl Iterator<Item = f64> {
        let mut state = seed.wrapping_mul(2) + 1;
        let mut random = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..n).map(move |_| {
            let normal: f64 = (0..12).map(|_| random()).sum::<f64>() - 6.0;
            middle * (normal * spread).exp()
        })
    }

    #[test]
    fn one_hill_is_one_mode_at_any_size_and_spread() {
        for seed in 0..50 {
            for n in [200, 1_000, 50_000] {
                for spread in [0.02, 0.2, 0.7, 1.5] {
                    let found = peaks(around(50_000.0, spread, n, seed));
                    assert_eq!(found, [0.0; 0], "{n} of spread {spread}, seed {seed}");
                }
            }
        }
    }

    #[test]
    fn two_hills_are_found_where_they_are() {
        for seed in 0..20 {
            let both =
                around(12_000.0, 0.15, 3_000, seed).chain(around(340_000.0, 0.2, 600, seed + 99));
            let found = peaks(both);
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(
                (found[0] / 12_000.0).ln().abs() < 0.2 && (found[1] / 340_000.0).ln().abs() < 0.3
            );
        }
        let few = around(12_000.0, 0.15, 3_000, 1).chain(around(340_000.0, 0.2, 20, 2));
        assert_eq!(peaks(few), [0.0; 0]);
    }
}
