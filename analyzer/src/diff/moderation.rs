//! How much a name varies from run to run, when there are few runs.
//!
//! With three runs a side a name's own variance is next to unknown: some of two
//! hundred names look steady by chance, and would be flagged. So each is drawn
//! towards what is usual, by as much as the spread of all variances says that names
//! are alike: limma's empirical Bayes (Smyth 2004), with a trend. What is usual for a
//! name goes with how unsure each run alone leaves it, so that steady names are not
//! punished for loud ones.

use super::numerics::{digamma, trigamma, trigamma_inverse};

/// A name's variance, as it was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Across runs of one side.
    pub(super) variance: f64,
    /// Its degrees of freedom.
    pub(super) degrees: f64,
    /// What uncertainty within the runs alone would make of it.
    pub(super) within: f64,
}

/// What names have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prior {
    /// Logarithm of the usual variance: intercept, and slope by that of the variance
    /// within.
    line: (f64, f64),
    /// Degrees of freedom that it counts for; infinite if names do not differ.
    pub(super) degrees: f64,
}

/// With fewer names nothing is shrunk.
const LEAST_NAMES: usize = 5;
/// With fewer names there is no trend.
const LEAST_FOR_TREND: usize = 20;
/// Variances below are taken for this: clocks have no finer grain.
const LEAST_VARIANCE: f64 = 1e-10;

impl Prior {
    /// No prior at all.
    const NONE: Prior = Prior { line: (0.0, 0.0), degrees: 0.0 };

    /// What these names have in common.
    pub(super) fn of(names: &[Seen]) -> Prior {
        let usable: Vec<&Seen> = names.iter().filter(|it| it.degrees >= 1.0).collect();
        if usable.len() < LEAST_NAMES {
            return Prior::NONE;
        }
        let points: Vec<(f64, f64)> = usable.iter().map(|it| (ln(it.within), it.level())).collect();
        let line = if usable.len() >= LEAST_FOR_TREND { trend(&points) } else { flat(&points) };
        let n = points.len() as f64;
        let taken = if line.1 == 0.0 { 1.0 } else { 2.0 };
        let squares: f64 = points.iter().map(|(x, y)| (y - line.0 - line.1 * x).powi(2)).sum();
        let by_chance: f64 = usable.iter().map(|it| trigamma(it.degrees / 2.0)).sum::<f64>() / n;
        let beyond_chance = squares / (n - taken) - by_chance;
        if beyond_chance > 0.0 {
            let degrees = 2.0 * trigamma_inverse(beyond_chance);
            let shift = digamma(degrees / 2.0) - (degrees / 2.0).ln();
            Prior { line: (line.0 + shift, line.1), degrees }
        } else {
            Prior { line, degrees: f64::INFINITY }
        }
    }

    /// The variance that is usual for a name.
    pub(super) fn usual(&self, within: f64) -> f64 {
        (self.line.0 + self.line.1 * ln(within)).exp()
    }

    /// The name's variance drawn towards the usual one, and its degrees of freedom.
    pub(super) fn moderated(&self, seen: &Seen) -> (f64, f64) {
        if self.degrees == 0.0 {
            return (seen.variance.max(LEAST_VARIANCE), seen.degrees);
        }
        let usual = self.usual(seen.within);
        let variance = if self.degrees.is_finite() {
            let sum = self.degrees * usual + seen.degrees * seen.variance;
            sum / (self.degrees + seen.degrees)
        } else {
            usual
        };
        (variance.max(LEAST_VARIANCE), self.degrees + seen.degrees)
    }
}

impl Seen {
    /// The logarithm of the variance without the bias that few degrees give it.
    fn level(&self) -> f64 {
        let half = self.degrees / 2.0;
        ln(self.variance) - digamma(half) + half.ln()
    }
}

fn ln(variance: f64) -> f64 {
    variance.clamp(LEAST_VARIANCE, 1e10).ln()
}

fn flat(points: &[(f64, f64)]) -> (f64, f64) {
    (points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64, 0.0)
}

/// The straight line of least squares, if it rises.
fn trend(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), it| (x + it.0 / n, y + it.1 / n));
    let covariance: f64 = points.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
    let variance: f64 = points.iter().map(|it| (it.0 - x).powi(2)).sum();
    let slope = if variance > 1e-9 { (covariance / variance).clamp(0.0, 1.0) } else { 0.0 };
    (y - slope * x, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(variances: &[f64], degrees: f64) -> Vec<Seen> {
        variances.iter().map(|&variance| Seen { variance, degrees, within: 1.0 }).collect()
    }

    /// What limma's `squeezeVar(c(1, 2, 0.5, 4, 0.25, 8, 0.1, 16), df = 4)` works out,
    /// by the equations of Smyth (2004), section 6.2.
    #[test]
    fn moderation_is_that_of_limma() {
        let variances = [1.0, 2.0, 0.5, 4.0, 0.25, 8.0, 0.1, 16.0];
        let names = seen(&variances, 4.0);
        let prior = Prior::of(&names);
        let e: Vec<f64> =
            variances.iter().map(|v: &f64| v.ln() - digamma(2.0) + 2.0_f64.ln()).collect();
        let mean = e.iter().sum::<f64>() / 8.0;
        let variance = e.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 7.0;
        let d0 = 2.0 * trigamma_inverse(variance - trigamma(2.0));
        let s0 = (mean + digamma(d0 / 2.0) - (d0 / 2.0).ln()).exp();
        assert!((prior.degrees - d0).abs() < 1e-9 && (prior.usual(1.0) / s0 - 1.0).abs() < 1e-9);
        let (moderated, degrees) = prior.moderated(&names[6]);
        assert!((moderated - (d0 * s0 + 4.0 * 0.1) / (d0 + 4.0)).abs() < 1e-9);
        assert_eq!(degrees, d0 + 4.0);
        assert!(moderated > 0.1 && moderated < s0);
    }

    #[test]
    fn names_that_vary_alike_share_one_variance() {
        let prior = Prior::of(&seen(&[1.0, 1.01, 0.99, 1.0, 1.02, 0.98], 4.0));
        assert_eq!(prior.degrees, f64::INFINITY);
        let (variance, degrees) = prior.moderated(&seen(&[1e-6], 4.0)[0]);
        assert!(variance > 0.5 && degrees.is_infinite());
    }

    #[test]
    fn few_names_are_left_as_they_are() {
        let names = seen(&[1.0, 4.0, 9.0], 4.0);
        assert_eq!(Prior::of(&names).moderated(&names[1]), (4.0, 4.0));
    }

    #[test]
    fn names_that_each_run_leaves_unsure_are_expected_to_vary() {
        let names: Vec<Seen> = (0..60)
            .map(|at| {
                let within = 1e-6 * 1.2_f64.powi(at);
                let variance = within * [0.5, 1.0, 2.0][at as usize % 3];
                Seen { variance, degrees: 4.0, within }
            })
            .collect();
        let prior = Prior::of(&names);
        assert!(prior.usual(1e-6) < 4e-6 && prior.usual(1e-2) > 2e-3, "{prior:?}");
    }
}
