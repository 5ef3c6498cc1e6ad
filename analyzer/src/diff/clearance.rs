//! Whether a change of a percentile is more than a step across a gap.
//!
//! Durations lie in modes, with gaps between them. A percentile beside a gap may be on one
//! side of it in all runs of the base, by chance, and on the other in those of the head: a
//! large change, of which all runs are sure. Nearly all false alarms are of this kind, and
//! of one figure of a name at a time. Two things tell a change from that. It leads
//! out of the intervals within the runs, which reach across such gaps; or another figure
//! of the same name has changed alike, as all figures of code do that got slower: what
//! was at one gap was not at another. The mean has no gaps to step across.

use super::{decision::Test, estimate::Estimate, run_summary::Metric};

/// A figure confirms another if its own change is as unlikely as this.
pub(super) const CONFIRMING_CHANCE: f64 = 0.02;
/// And if neither changed more than so many times as much as the other.
const ALIKE: f64 = 2.0;
/// And, of two percentiles, if their odds are as many times apart: nearer ones are beside
/// the same gap.
const APART: f64 = 2.0;

/// How far a change downwards and one upwards have to lead to be out of the intervals
/// of both sides.
pub(super) fn reaches(
    estimates: &[Option<Estimate>],
    base_runs: usize,
    metric: Metric,
) -> (f64, f64) {
    if !matches!(metric, Metric::Percentile(_)) {
        return (0.0, 0.0);
    }
    let side = |side: &[Option<Estimate>]| {
        let n = side.iter().flatten().count().max(1) as f64;
        let (mut down, mut up) = (0.0, 0.0);
        for estimate in side.iter().flatten() {
            let reaches = estimate.reaches();
            down += reaches.0 / n;
            up += reaches.1 / n;
        }
        (down, up)
    };
    let (base, head) = estimates.split_at(base_runs);
    let (base, head) = (side(base), side(head));
    // A change upwards leaves the base's interval by its upper end, and has the base
    // below the head's lower end.
    (base.0.max(head.1), base.1.max(head.0))
}

/// Takes back what is neither out of the intervals nor confirmed, of the tests of each name.
pub(super) fn confirm(tests: &mut [Vec<Test>], metrics: &[Metric]) {
    for tests in tests {
        let as_made = tests.clone();
        for test in tests.iter_mut() {
            let metric = metrics[test.metric];
            let others = || as_made.iter().filter(|it| is_another(metric, metrics[it.metric]));
            if !test.is_clear && !others().any(|other| test.is_confirmed_by(other)) {
                test.chance = 1.0;
            }
            test.confirming = others()
                .filter_map(|other| other.noise)
                .min_by(|a, b| a.error().total_cmp(&b.error()));
        }
    }
}

/// Whether two figures are different enough for one to confirm the other.
fn is_another(one: Metric, other: Metric) -> bool {
    match (one, other) {
        (Metric::Percentile(one), Metric::Percentile(other)) => {
            let odds = |percent: f64| percent / (100.0 - percent).max(1e-9);
            let (low, high) = (odds(one.min(other)), odds(one.max(other)));
            high >= APART * low && high > low
        }
        _ => one != other,
    }
}

impl Test {
    /// Whether another figure of the name has changed alike. One run a side confirms
    /// nothing: all figures share its modes.
    fn is_confirmed_by(&self, other: &Test) -> bool {
        let ratio = other.own / self.own;
        other.noise.is_some_and(|noise| !noise.single)
            && other.chance <= CONFIRMING_CHANCE
            && (ALIKE.recip()..=ALIKE).contains(&ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::sensitivity::Noise, *};

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high, effective: 100.0 }
    }

    #[test]
    fn a_change_has_to_leave_the_intervals_of_both_sides() {
        let base = [Some(estimate(100.0, 98.0, 150.0)), Some(estimate(100.0, 98.0, 150.0))];
        let head = [Some(estimate(120.0, 100.0, 121.0)), None];
        let all = [base, head].concat();
        let (down, up) = reaches(&all, 2, Metric::Percentile(50.0));
        assert!((up - 1.5_f64.ln()).abs() < 1e-9, "the base's upper end, beyond a gap");
        assert!((down - (1.0_f64 / 0.98).ln()).abs() < 1e-9, "the base's lower end");
        assert_eq!(reaches(&all, 2, Metric::Mean), (0.0, 0.0), "no gaps");
    }

    fn noise(single: bool) -> Noise {
        Noise { variance: 1e-4, prior: 8.0, degrees: 16.0, runs: (5.0, 5.0), single }
    }

    fn test(own: f64, chance: f64, is_clear: bool, single: bool) -> Test {
        let noise = Some(noise(single));
        Test { own, chance, is_clear, noise, ..Test::between(&[0.0], &[0.0]) }
    }

    /// The chances of two figures of a name.
    fn confirmed(first: Test, second: Test) -> (f64, f64) {
        let mut tests = [vec![first, Test { metric: 1, ..second }]];
        confirm(&mut tests, &[Metric::Percentile(50.0), Metric::Mean]);
        (tests[0][0].chance, tests[0][1].chance)
    }

    #[test]
    fn a_change_within_the_intervals_needs_another_figure_that_changed_alike() {
        let median = test(0.1, 1e-6, false, false);
        let mean = |own, chance| test(own, chance, false, false);
        assert_eq!(confirmed(median, mean(0.09, 0.01)), (1e-6, 0.01));
        assert_eq!(confirmed(median, mean(0.09, 0.03)), (1.0, 0.03), "too likely by chance");
        assert_eq!(confirmed(median, mean(0.04, 0.01)), (1.0, 1.0), "by less than half as much");
        assert_eq!(confirmed(median, mean(-0.1, 0.01)), (1.0, 1.0), "the other way");
        assert_eq!(confirmed(test(0.1, 1e-6, true, false), mean(0.0, 1.0)).0, 1e-6, "clear");
    }

    #[test]
    fn percentiles_that_are_near_do_not_confirm_one_another() {
        let another = |one, other| is_another(Metric::Percentile(one), Metric::Percentile(other));
        assert!(another(50.0, 25.0) && another(95.0, 99.0) && another(90.0, 95.0));
        assert!(!another(50.0, 50.0) && !another(50.0, 60.0) && !another(95.0, 97.0));
        assert!(!another(0.0, 0.0) && another(0.0, 100.0) && another(99.0, 100.0));
        assert!(is_another(Metric::Mean, Metric::Percentile(50.0)));
    }

    #[test]
    fn one_run_a_side_confirms_nothing() {
        let figure = test(0.1, 1e-6, false, true);
        assert_eq!(confirmed(figure, figure), (1.0, 1.0));
    }
}
