//! Figures by what the program calls things, and figures of many numbers.

use std::{collections::HashMap, hash::Hash};

use super::view::{Held, View};
use crate::{Result, output::Cell, summary::ranks};

/// Figures by a key and a text of the program's own choosing: the texts are held.
pub(super) struct Groups<'a, K, T> {
    index: HashMap<K, HashMap<Box<str>, usize>>,
    all: Vec<(K, Box<str>, T)>,
    held: Held<'a>,
}

/// Bytes that a group takes beside its text and its figures: its place in the index, and its
/// row in the end.
pub(super) const GROUP: usize = 128 + 20 * size_of::<Cell>();

impl<'a, K: Copy + Eq + Hash, T> Groups<'a, K, T> {
    pub(super) fn new(held: Held<'a>) -> Self {
        Self { index: HashMap::new(), all: Vec::new(), held }
    }

    /// The figures of a group, and what they may take more memory from.
    pub(super) fn at(
        &mut self,
        key: K,
        text: &str,
        new: impl FnOnce() -> T,
    ) -> Result<(&mut T, &mut Held<'a>)> {
        let of_key = self.index.entry(key).or_default();
        let at = match of_key.get(text) {
            Some(&at) => at,
            None => {
                // Twice, since lists grow by doubling, and a text is in the index as well.
                let course = self.held.view.course_bytes();
                self.held.take(2 * text.len() + 2 * size_of::<T>() + course + GROUP)?;
                of_key.insert(text.into(), self.all.len());
                self.all.push((key, text.into(), new()));
                self.all.len() - 1
            }
        };
        Ok((&mut self.all[at].2, &mut self.held))
    }

    /// All groups, in the order in which they were met.
    pub(super) fn into_list(self) -> Vec<(K, Box<str>, T)> {
        self.all
    }
}

/// Numbers that are there or not: nothing added up is nothing and not 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) count: u64,
    sum: f64,
    /// What rounding has cost the sum so far.
    lost: f64,
    max: Option<f64>,
    min: Option<f64>,
}

impl Sum {
    pub(super) fn add(&mut self, number: Option<f64>) {
        let Some(number) = number else { return };
        self.count += 1;
        let sum = self.sum + number;
        // Neumaier's way of summing: the digits that fall off the smaller one are kept.
        self.lost += match self.sum.abs() >= number.abs() {
            true => (self.sum - sum) + number,
            false => (number - sum) + self.sum,
        };
        self.sum = sum;
        self.max = Some(self.max.map_or(number, |max| max.max(number)));
        self.min = Some(self.min.map_or(number, |min| min.min(number)));
    }

    pub(super) fn total(&self) -> Option<f64> {
        // Of what is not finite, nothing was lost that could be told.
        let whole = if self.lost.is_finite() { self.sum + self.lost } else { self.sum };
        (self.count > 0).then_some(whole)
    }

    pub(super) fn mean(&self) -> Option<f64> {
        self.total().map(|total| total / self.count as f64)
    }

    /// The largest; one that is not a number only if there is no other.
    pub(super) fn max(&self) -> Option<f64> {
        self.max
    }

    pub(super) fn min(&self) -> Option<f64> {
        self.min
    }
}

/// Durations with their percentiles, which are exact: where any are asked for, all durations
/// are held.
#[derive(Debug, Default)]
pub(super) struct Durations {
    pub(super) sum: Sum,
    all: Vec<f64>,
}

impl Durations {
    pub(super) fn add(
        &mut self,
        ns: Option<f64>,
        view: &View<'_>,
        held: &mut Held<'_>,
    ) -> Result<()> {
        self.sum.add(ns);
        if let (Some(ns), false) = (ns, view.context.common.percentiles.is_empty()) {
            // Twice, since a list grows by doubling.
            held.take(2 * size_of::<f64>())?;
            self.all.push(ns);
        }
        Ok(())
    }

    /// Those that are asked for.
    pub(super) fn percentiles(&mut self, view: &View<'_>) -> Vec<Cell> {
        self.all.sort_unstable_by(f64::total_cmp);
        let percentile = |&percentile: &f64| {
            if self.all.is_empty() {
                return Cell::None;
            }
            let (below, above, weight) = ranks(percentile, self.all.len() as u64);
            let (below, above) = (self.all[below as usize], self.all[above as usize]);
            // Between two that are infinite there is no way.
            Cell::Ns(if below == above { below } else { below + (above - below) * weight })
        };
        view.context.common.percentiles.iter().map(percentile).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Sum;

    fn of(numbers: &[f64]) -> Sum {
        let mut sum = Sum::default();
        numbers.iter().for_each(|&number| sum.add(Some(number)));
        sum
    }

    #[test]
    fn small_numbers_are_not_lost_in_large_ones() {
        assert_eq!(of(&[1e16, 1.0, 1.0, -1e16]).total(), Some(2.0));
        assert_eq!(of(&[0.1; 10]).total(), Some(1.0));
    }

    #[test]
    fn what_is_not_finite_stays_so_and_nothing_is_no_zero() {
        assert_eq!(of(&[1.0, f64::INFINITY, 1.0]).total(), Some(f64::INFINITY));
        assert!(of(&[1.0, f64::NAN]).mean().is_some_and(f64::is_nan));
        assert_eq!(of(&[f64::NAN, 3.0]).max(), Some(3.0));
        assert_eq!((of(&[]).total(), of(&[]).max()), (None, None));
    }
}
