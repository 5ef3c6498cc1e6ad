//! One figure of one name in one run, and how sure the run alone makes it.
//!
//! Calls within a run are not independent: a slow episode slows thousands of them.
//! What counts is how many independent calls would be as sure, the *effective
//! number*. It comes from batches of neighbours: if calls were independent, the mean
//! of a batch would vary with one over its length; how much more it does tells.
//! Several lengths of batches are tried, and the worst is taken.

use serde::{Deserialize, Serialize};

use super::numerics::normal_density_at;

/// Batches of a run: from few long ones to many short ones.
const BATCHES: [u64; 7] = [8, 16, 32, 64, 128, 256, 512];
/// Standard errors that the interval reaches to either side.
pub(super) const SIGMAS: f64 = 4.0;
/// Ranks, in standard deviations of a normal distribution, that are never told
/// apart: stops a median between two modes from reading as a shift.
const RANK_SLACK: f64 = 0.05;

/// A figure with the interval in which the run alone leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Four standard errors below it, and some slack.
    pub low: f64,
    /// The same above.
    pub high: f64,
    /// How many independent calls would be as sure.
    pub effective: f64,
}

impl Estimate {
    /// Standard error of the figure's logarithm within the run.
    pub fn log_error(&self) -> f64 {
        if self.low > 0.0 && self.high > self.low {
            (self.high / self.low).ln() / (2.0 * SIGMAS)
        } else if self.high > self.low {
            f64::INFINITY
        } else {
            0.0
        }
    }

    /// Logarithms of how far the interval reaches down and up.
    pub(super) fn reaches(&self) -> (f64, f64) {
        ((self.value / self.low).ln(), (self.high / self.value).ln())
    }

    /// The same figure if everything took so many times as long.
    pub fn scaled(self, by: f64) -> Self {
        Self {
            value: self.value * by,
            low: self.low * by,
            high: self.high * by,
            effective: self.effective,
        }
    }

    /// A figure that leaves no doubt.
    pub(super) fn exactly(value: f64) -> Self {
        Self { value, low: value, high: value, effective: 1e12 }
    }

    /// Whether it can be compared at all.
    pub(super) fn is_usable(&self) -> bool {
        let all = [self.value, self.low, self.high, self.effective];
        all.iter().all(|it| it.is_finite()) && self.value > 0.0
    }
}

/// Neighbouring calls added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cell {
    pub(super) count: u64,
    pub(super) sum: f64,
    /// How many are at or below each of the quantiles.
    pub(super) below: Vec<u64>,
}

/// All calls of a name in one run, in order, and where their durations lie.
pub(super) struct Series<'a> {
    pub(super) cells: &'a [Cell],
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) std: f64,
    /// Values at ranks between 0 and 1, both rising.
    pub(super) ladder: &'a [(f64, f64)],
}

impl Series<'_> {
    /// The mean.
    pub(super) fn mean(&self) -> Estimate {
        let n = self.count as f64;
        let error = self.error(|cell| cell.sum - self.mean * cell.count as f64);
        let independent = self.std / n.sqrt();
        let error = error.max(independent);
        let effective = if error > 0.0 { (self.std / error).powi(2) } else { n };
        let reach = SIGMAS * error;
        Estimate {
            value: self.mean,
            low: (self.mean - reach).max(0.0),
            high: self.mean + reach,
            effective,
        }
    }

    /// The quantile `p` between 0 and 1, the `at`-th that the cells have counted.
    pub(super) fn quantile(&self, at: usize, p: f64) -> Estimate {
        let n = self.count as f64;
        let below = |cell: &Cell| cell.below.get(at).copied().unwrap_or(0);
        // The share at or below the quantile, which ties make larger than `p`.
        let share = self.cells.iter().map(below).sum::<u64>() as f64 / n;
        let error = self.error(|cell| below(cell) as f64 - share * cell.count as f64);
        let error = error.max((p * (1.0 - p) / n).sqrt());
        let effective = if error > 0.0 { p * (1.0 - p) / (error * error) } else { n };
        let reach = SIGMAS * error + RANK_SLACK * normal_density_at(p);
        let value = self.at_rank(p);
        Estimate {
            value,
            low: self.at_rank(p - reach).min(value),
            high: self.at_rank(p + reach).max(value),
            effective: effective.min(n),
        }
    }

    /// The largest standard error of a mean over calls that batches of any length
    /// show, of which `deviation` is the sum of the distances to it.
    fn error(&self, deviation: impl Fn(&Cell) -> f64) -> f64 {
        let n = self.count as f64;
        let mut worst = 0.0_f64;
        for batches in BATCHES.into_iter().filter(|&it| it <= self.count) {
            let length = self.count.div_ceil(batches);
            let (mut number, mut squares) = (0_u64, 0.0);
            let (mut count, mut distance) = (0, 0.0);
            for cell in self.cells {
                count += cell.count;
                distance += deviation(cell);
                if count >= length {
                    number += 1;
                    squares += distance * distance;
                    (count, distance) = (0, 0.0);
                }
            }
            if count > 0 {
                number += 1;
                squares += distance * distance;
            }
            if number >= 4 {
                let number = number as f64;
                worst = worst.max(squares * number / (number - 1.0) / (n * n));
            }
        }
        worst.sqrt()
    }

    fn at_rank(&self, rank: f64) -> f64 {
        let above = self.ladder.partition_point(|(it, _)| *it < rank);
        match (above.checked_sub(1).and_then(|at| self.ladder.get(at)), self.ladder.get(above)) {
            (Some(&(low, from)), Some(&(high, to))) => {
                from + (to - from) * (rank - low) / (high - low).max(f64::MIN_POSITIVE)
            }
            (Some(&(_, value)), None) | (None, Some(&(_, value))) => value,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::ladder::ladder_ranks, *};

    fn series(values: &[f64], check: impl FnOnce(Series<'_>)) {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |percent: f64| {
            let rank = percent / 100.0 * (sorted.len() - 1) as f64;
            let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
            (percent / 100.0, low + (high - low) * rank.fract())
        };
        let ladder: Vec<(f64, f64)> = ladder_ranks(&[50.0, 95.0]).into_iter().map(at).collect();
        let quantiles = [50.0, 95.0].map(|it| at(it).1);
        let cell = |&value: &f64| Cell {
            count: 1,
            sum: value,
            below: quantiles.iter().map(|&it| u64::from(value <= it)).collect(),
        };
        let cells: Vec<Cell> = values.iter().map(cell).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
        let std = (squares / (n - 1.0)).sqrt();
        check(Series { cells: &cells, count: values.len() as u64, mean, std, ladder: &ladder });
    }

    fn noise(n: u64) -> impl Iterator<Item = f64> {
        (0..n)
            .map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11) as f64 / (1_u64 << 53) as f64)
    }

    #[test]
    fn independent_calls_count_nearly_all() {
        let mut state = 1_u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            1.0 + (state >> 40) as f64 / (1 << 24) as f64
        };
        let values: Vec<f64> = (0..8_000).map(|_| next()).collect();
        series(&values, |it| {
            let (median, mean) = (it.quantile(0, 0.5), it.mean());
            assert!(median.effective > 2_500.0 && median.effective <= 8_000.0, "{median:?}");
            assert!(mean.effective > 2_500.0 && mean.effective <= 8_001.0, "{mean:?}");
            assert!(median.low < 1.5 && 1.5 < median.high && median.high < 1.56, "{median:?}");
        });
    }

    #[test]
    fn neighbours_that_are_alike_count_as_few() {
        let values: Vec<f64> =
            noise(80).flat_map(|level| std::iter::repeat_n(1.0 + level, 100)).collect();
        series(&values, |it| {
            let (median, mean) = (it.quantile(0, 0.5), it.mean());
            assert!(median.effective < 200.0, "{median:?}");
            assert!(mean.effective < 400.0, "{mean:?}");
        });
    }

    #[test]
    fn a_median_between_two_modes_has_both_in_its_interval() {
        let values: Vec<f64> = (0..10_000).map(|at| if at % 2 == 0 { 1.0 } else { 2.0 }).collect();
        series(&values, |it| {
            let median = it.quantile(0, 0.5);
            assert!(median.low < 1.05 && median.high > 1.95, "{median:?}");
        });
    }

    #[test]
    fn calls_that_all_take_the_same_leave_no_doubt() {
        series(&[5.0; 100], |it| {
            let median = it.quantile(0, 0.5);
            assert_eq!((median.value, median.low, median.high), (5.0, 5.0, 5.0));
            assert_eq!(median.log_error(), 0.0);
            assert_eq!(it.mean().log_error(), 0.0);
        });
    }
}
