//! What clocks advance by from one pair to the next, and whether they agree (SPEC 9).
//!
//! What it cannot promise: a counter that parts from the monotonic clock by less than
//! drift may is not noticed, nor is one that does so evenly between all pairs.

use crate::clock_fit::ClockPair;

/// Differences below this are the clocks' own noise.
const NOISE_NS: i128 = 1_000_000;
/// No counter drifts by this part of its rate, and no pair is read so badly.
const APART: f64 = 0.05;
/// Over this time, `APART` is more than noise.
const TELLING_NS: i128 = 20_000_000;

/// From one pair to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// 0 if the counter did not advance.
    ticks: u64,
    pub(crate) mono_ns: i128,
    boot_ns: i128,
    wall_ns: i128,
    /// Half the width of both pairs.
    uncertainty_ns: i128,
}

impl Step {
    pub(crate) fn between(a: &ClockPair, b: &ClockPair, ns_per_tick: f64) -> Step {
        let width = a.width() as f64 + b.width() as f64;
        Step {
            ticks: b.tick().saturating_sub(a.tick()),
            mono_ns: i128::from(b.mono_ns) - i128::from(a.mono_ns),
            boot_ns: i128::from(b.boot_ns) - i128::from(a.boot_ns),
            wall_ns: i128::from(b.wall_ns) - i128::from(a.wall_ns),
            uncertainty_ns: (width / 2.0 * ns_per_tick) as i128,
        }
    }

    /// Whether the counter did not advance, or the monotonic clock went back.
    pub(crate) fn went_back(&self) -> bool {
        self.ticks == 0 || self.mono_ns < 0
    }

    /// For how long the machine slept.
    pub(crate) fn slept_ns(&self) -> Option<i128> {
        Some(self.boot_ns - self.mono_ns).filter(|slept| *slept > self.noise_ns())
    }

    /// By how much the wall clock was set.
    pub(crate) fn wall_step_ns(&self) -> Option<i128> {
        Some(self.wall_ns - self.boot_ns).filter(|step| step.abs() > self.noise_ns())
    }

    /// Whether a counter of this rate advanced by another time than the monotonic clock.
    /// Through a sleep some counters go on and others do not: that tells nothing.
    pub(crate) fn parted(&self, ns_per_tick: f64) -> bool {
        let (counted, mono) = (self.ticks as f64 * ns_per_tick, self.mono_ns as f64);
        let apart = (counted - mono).abs();
        self.slept_ns().is_none()
            && apart > self.noise_ns() as f64
            && apart > APART * counted.max(mono)
    }

    fn noise_ns(&self) -> i128 {
        NOISE_NS + self.uncertainty_ns
    }

    fn is_telling(&self) -> bool {
        !self.went_back() && self.slept_ns().is_none() && self.mono_ns >= TELLING_NS
    }
}

/// Nanoseconds a tick, as the most time in at least two steps has it. A step that a counter
/// leaped in has a ratio of its own, and the others have one in common.
pub(crate) fn agreed_ratio(steps: &[Step]) -> Option<f64> {
    let ratio = |step: &Step| step.mono_ns as f64 / step.ticks as f64;
    let mut telling: Vec<&Step> = steps.iter().filter(|step| step.is_telling()).collect();
    telling.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let (mut first, mut ns, mut ticks) = (0, 0_i128, 0_u128);
    let mut best: Option<(i128, u128)> = None;
    for (last, step) in telling.iter().enumerate() {
        ns += step.mono_ns;
        ticks += u128::from(step.ticks);
        while ratio(telling[first]) < ratio(step) * (1.0 - APART) {
            ns -= telling[first].mono_ns;
            ticks -= u128::from(telling[first].ticks);
            first += 1;
        }
        if first < last && best.is_none_or(|(most, _)| ns > most) {
            best = Some((ns, ticks));
        }
    }
    best.map(|(ns, ticks)| ns as f64 / ticks as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i128 = 1_000_000;

    /// A step of so many milliseconds by the counter, at 2 ticks a nanosecond, and by the clocks.
    fn step(counted_ms: i128, mono_ms: i128) -> Step {
        let mono_ns = mono_ms * MS;
        Step {
            ticks: (2 * counted_ms * MS) as u64,
            mono_ns,
            boot_ns: mono_ns,
            wall_ns: mono_ns,
            uncertainty_ns: 0,
        }
    }

    fn slept(step: Step, ms: i128) -> Step {
        Step { boot_ns: step.boot_ns + ms * MS, ..step }
    }

    #[test]
    fn clocks_part_where_neither_drift_nor_noise_explains_it() {
        for (counted, mono, parted) in [
            (1000, 1000, false),
            (1052, 1000, false),
            (1054, 1000, true),
            (950, 1000, false),
            (949, 1000, true),
            (2, 1, false),
            (3, 1, true),
            (61_000, 1000, true),
            (0, 1, false),
        ] {
            assert_eq!(step(counted, mono).parted(0.5), parted, "{counted} and {mono} ms");
        }
        let wide = Step { uncertainty_ns: MS, ..step(3, 1) };
        assert!(!wide.parted(0.5), "the width of pairs is no jump");
        assert!(!slept(step(11_000, 1000), 10_000).parted(0.5), "nor is a sleep");
    }

    #[test]
    fn ratio_is_that_of_most_time_and_of_two_steps_at_least() {
        let ratio = |steps: &[Step]| agreed_ratio(steps);
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[step(100, 100)]), None);
        assert_eq!(ratio(&[step(100, 100), step(61_000, 1000)]), None);
        assert_eq!(ratio(&[step(100, 100), step(61_000, 1000), step(30, 30)]), Some(0.5));
        let two_of_each = [step(30, 30), step(61, 1000), step(100, 100), step(61, 1000)];
        assert_eq!(ratio(&two_of_each), Some(0.5 * 1000.0 / 61.0));
    }

    #[test]
    fn steps_that_are_short_or_went_back_or_were_slept_through_tell_no_ratio() {
        for other in [step(19, 19), step(0, 100), step(100, -100), slept(step(100, 100), 10)] {
            assert_eq!(agreed_ratio(&[step(100, 100), other, other]), None, "{other:?}");
        }
    }
}
