//! What a comparison could have shown: the smallest slowdown that it would likely
//! have found, and how many runs it would take to find what matters.

use super::{decision::Rule, numerics::t_exceeded_by};

/// Slowdowns that a figure misses whose noise is known. One in twenty, so that about one in five
/// is missed in the end: the noise is an estimate, of several figures the one that seems
/// steadiest is asked, and another has to confirm it.
const MISSED: f64 = 0.05;

/// How much a figure of a name varies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise {
    /// From run to run.
    pub(super) variance: f64,
    /// Degrees of freedom that other names lend, and all.
    pub(super) prior: f64,
    pub(super) degrees: f64,
    /// Runs of both sides.
    pub(super) runs: (f64, f64),
    /// Whether it is one run against one.
    pub(super) single: bool,
}

impl Noise {
    /// Standard error of the change.
    pub(super) fn error(&self) -> f64 {
        (self.variance * (1.0 / self.runs.0 + 1.0 / self.runs.1)).sqrt()
    }

    /// The least change that matters, as a logarithm.
    pub(super) fn least(&self, rule: &Rule) -> f64 {
        if self.single { rule.least_effect_single.ln_1p() } else { rule.least_effect.ln_1p() }
    }

    /// About four of five slowdowns of this size are found.
    fn found(&self, bound: f64, rule: &Rule) -> f64 {
        let reach = t_exceeded_by(bound, self.degrees) + t_exceeded_by(MISSED, self.degrees);
        self.least(rule) + reach * self.error()
    }
}

/// The smallest slowdown that would likely have been found, as a part of the whole,
/// if chances up to `bound` are flagged.
pub(super) fn detectable(noise: &Noise, bound: f64, rule: &Rule) -> f64 {
    noise.found(bound, rule).exp_m1()
}

/// More runs a side than anybody makes.
pub(super) const MOST_RUNS: u32 = 200;

/// Runs a side with which a slowdown beyond what is tolerated would likely be found.
pub(super) fn runs_needed(noise: &Noise, bound: f64, rule: &Rule) -> Option<u32> {
    let goal = rule.tolerance.ln_1p();
    let enough = |runs: &u32| {
        let n = f64::from(*runs);
        let degrees = 2.0 * n - 2.0 + if noise.single { 0.0 } else { noise.prior };
        let then = Noise { runs: (n, n), degrees, single: false, ..*noise };
        then.found(bound, rule) <= goal
    };
    // What suffices for some number suffices for any larger one.
    let (mut low, mut high) = (2, MOST_RUNS);
    if !enough(&high) {
        return None;
    }
    while low < high {
        let middle = (low + high) / 2;
        if enough(&middle) { high = middle } else { low = middle + 1 }
    }
    Some(high)
}
