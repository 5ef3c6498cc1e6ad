//! How far a change has to lead to be more than runs disagree with themselves.

use super::{decision::RELAXED_FROM, estimate::Estimate, run_summary::Metric};

/// Runs a side that are not all on the wrong side of a gap.
pub(super) const MANY_RUNS: usize = 8;
/// The part of the narrow interval that so many have to leave. With half of it from five runs
/// a side on, 87 % instead of 84 to 86 % of what is 10 % slower is found there, and 1.3 % of
/// diffs are false alarms instead of 0.6 %.
const OF_MANY: f64 = 0.5;
/// Ratios of the intervals, as parts of what even distances would give, that show no
/// gap.
const EVEN: std::ops::Range<f64> = 0.65..1.8;

/// How far a change downwards and one upwards have to lead to be out of the intervals
/// of both sides.
///
/// With few runs it is the wide interval. From five a side on the narrow one will
/// do, but for a quantile beside a gap between two modes: runs may happen to fall on one
/// side of it, all of them, and look steady. Such a gap shows in that the wide
/// interval does not reach as far, or reaches farther, than the narrow one lets
/// expect. Eight runs a side are hardly ever all on the wrong side.
pub(super) fn reaches(
    estimates: &[Option<Estimate>],
    base_runs: usize,
    metric: Metric,
    fewest: usize,
) -> (f64, f64) {
    let side = |side: &[Option<Estimate>]| {
        let n = side.iter().flatten().count().max(1) as f64;
        let mean = |of: &dyn Fn(&Estimate) -> f64| side.iter().flatten().map(of).sum::<f64>() / n;
        let even = match metric {
            Metric::Percentile(percent) => Some(mean(&|it| it.even_ratio(percent / 100.0))),
            Metric::Mean | Metric::Total | Metric::Count => None,
        };
        let reach = |far: f64, near: f64| {
            let is_even = even.is_none_or(|even| EVEN.contains(&(far / near.max(1e-12) / even)));
            match fewest {
                MANY_RUNS.. => OF_MANY * near,
                RELAXED_FROM.. if is_even => near,
                _ => far,
            }
        };
        let down = reach(mean(&|it| it.reaches().far.0), mean(&|it| it.reaches().near.0));
        let up = reach(mean(&|it| it.reaches().far.1), mean(&|it| it.reaches().near.1));
        (down, up)
    };
    let (base, head) = estimates.split_at(base_runs);
    let (base, head) = (side(base), side(head));
    // A change upwards leaves the base's interval by its upper end, and has the base
    // below the head's lower end.
    (base.0.max(head.1), base.1.max(head.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, near: (f64, f64), far: (f64, f64)) -> Estimate {
        Estimate {
            value,
            low: far.0,
            high: far.1,
            near_low: near.0,
            near_high: near.1,
            effective: 100.0,
        }
    }

    fn up(one: Estimate, runs: usize) -> f64 {
        let all: Vec<Option<Estimate>> = vec![Some(one); 2 * runs];
        reaches(&all, runs, Metric::Percentile(50.0), runs).1
    }

    #[test]
    fn few_runs_have_to_leave_the_wide_interval_and_many_the_narrow_one() {
        // As far as even distances let expect: 4 to 1.5 standard errors, and slack.
        let even = estimate(100.0, (98.0, 102.0), (95.5, 104.7));
        // The base leaves the head's interval by its lower end, which is farther.
        assert!((up(even, 3) - (100.0_f64 / 95.5).ln()).abs() < 1e-9);
        assert!((up(even, 5) - 1.020_4_f64.ln()).abs() < 1e-3);
        assert!(up(even, 8) < up(even, 5));
    }

    #[test]
    fn five_runs_beside_a_gap_have_to_leave_the_wide_interval() {
        // The next mode begins within the wide interval, not within the narrow one.
        let gap = estimate(100.0, (99.0, 101.0), (98.0, 150.0));
        assert!((up(gap, 5) - 1.5_f64.ln()).abs() < 1e-9);
        assert!(up(gap, 8) < 1.01_f64.ln());
    }
}
