//! What a comparison says that it could have shown is what it could have shown.

use ringscope_analyzer::diff::{NameSummary, Rule, RunSummary, Verdict, decide};

/// Calls that are three times as long in every third block of twenty: a gap between two
/// modes lies within what each run leaves open about its median.
fn run(number: u64, times: f64) -> RunSummary {
    let duration = |call: u64| {
        let is_slow = (call / 20 + number).is_multiple_of(3);
        let jitter = ((call * 7_919 + number * 104_729) % 1_000) as f64 / 1e5;
        times * (1.0 + jitter) * if is_slow { 300.0 } else { 100.0 }
    };
    let durations: Vec<f64> = (0..400).map(duration).collect();
    let names = vec![NameSummary::of_durations("step", &durations, &[50.0])];
    RunSummary { percentiles: vec![50.0], names, ..RunSummary::default() }
}

#[test]
fn what_the_runs_leave_open_about_themselves_could_not_be_shown() {
    let side = |runs: u64, times: f64, from: u64| -> Vec<RunSummary> {
        (0..runs).map(|at| run(from + 2 * at, times)).collect()
    };
    let judged = |runs: u64| {
        let (base, head) = (side(runs, 1.0, 0), side(runs, 1.15, 1));
        let (base, head): (Vec<_>, Vec<_>) = (base.iter().collect(), head.iter().collect());
        let test = decide(&base, &head, &Rule::default()).names[0].tests[0];
        (test.verdict, test.detectable(&Rule::default()), test.runs_needed(&Rule::default()))
    };
    // All runs agree on 15 %, and may all be on one side of the gap.
    let (verdict, detectable, runs) = judged(5);
    assert_eq!((verdict, runs), (Verdict::Inconclusive, Some(8)));
    assert!(detectable.is_some_and(|it| it > 1.0), "{detectable:?}");
    assert_eq!(judged(8).0, Verdict::Regression);
}
