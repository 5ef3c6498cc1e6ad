//! What a comparison says that it could have shown is what it could have shown.

use ringscope_analyzer::diff::{NameSummary, Rule, RunSummary, Test, Verdict, decide};

/// Numbers between 0 and 1 that look random.
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

/// Twelve names whose runs differ by up to so much either way, as a part of the whole, of which
/// the first takes so many times as long. Two calls of five are in a slower mode, so that a gap
/// lies within what each run leaves open about its median.
fn run(seed: u64, differing: f64, times: f64) -> RunSummary {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..9 {
        random(&mut state);
    }
    let mut name = |at: usize| {
        let off = 1.0 + differing * (2.0 * random(&mut state) - 1.0);
        let times = if at == 0 { times } else { 1.0 };
        let call = |_| {
            let mode = if random(&mut state) < 0.4 { 300.0 } else { 100.0 };
            mode * off * times * (1.0 + 0.1 * random(&mut state))
        };
        let durations: Vec<f64> = (0..300).map(call).collect();
        NameSummary::of_durations(&format!("n{at:02}"), &durations, &[50.0, 25.0])
    };
    let names = (0..12).map(&mut name).collect();
    RunSummary { percentiles: vec![50.0, 25.0], names, ..RunSummary::default() }
}

/// The tests of the name that is slower, by as many runs a side.
fn tests(runs: u64, seed: u64, differing: f64, times: f64) -> (Verdict, Vec<Test>) {
    let side = |from: u64, times: f64| -> Vec<RunSummary> {
        (0..runs).map(|at| run(1_000 * seed + from + at, differing, times)).collect()
    };
    let (base, head) = (side(0, 1.0), side(500, times));
    let (base, head): (Vec<_>, Vec<_>) = (base.iter().collect(), head.iter().collect());
    let decision = decide(&base, &head, &Rule::default());
    let first = &decision.names[0];
    (first.verdict, first.tests.clone())
}

/// The least that any figure could have shown.
fn detectable(tests: &[Test]) -> f64 {
    let found = tests.iter().filter_map(|it| it.detectable(&Rule::default()));
    found.fold(f64::INFINITY, f64::min)
}

#[test]
fn most_slowdowns_that_could_be_shown_are_shown_and_few_of_a_third() {
    let (mut shown, mut of_a_third) = (0, 0);
    for seed in 0..40 {
        let could = detectable(&tests(5, seed, 0.04, 1.0).1);
        let is_shown = |by: f64| tests(5, seed, 0.04, 1.0 + by).0 == Verdict::Regression;
        shown += u32::from(is_shown(could));
        of_a_third += u32::from(is_shown(could / 3.0));
    }
    assert!(shown >= 30, "{shown} of 40");
    assert!(of_a_third <= 13, "{of_a_third} of 40");
}

#[test]
fn as_many_runs_as_are_said_to_be_needed_find_what_is_tolerated() {
    let mut found = 0;
    for seed in 0..10 {
        let (_, tests_of_few) = tests(5, seed, 0.05, 1.0);
        let runs = tests_of_few.iter().filter_map(|it| it.runs_needed(&Rule::default()));
        let runs = runs.min().expect("some number of runs");
        assert!((3..60).contains(&runs), "{runs}");
        found += u32::from(tests(runs.into(), seed, 0.05, 1.1).0 == Verdict::Regression);
    }
    assert!(found >= 6, "{found} of 10");
}

#[test]
fn a_lone_figure_beside_a_gap_could_show_no_less_than_the_gap() {
    // All runs agree on 15 %, and may all be on one side of the gap: nothing else tells.
    let lone = |seed: u64, times: f64| {
        let mut run = run(seed, 0.001, times);
        run.percentiles.truncate(1);
        for name in &mut run.names {
            name.quantiles.truncate(1);
            // A mean that nobody can compare.
            name.mean = name.mean.scaled(0.0);
        }
        run
    };
    let runs: Vec<RunSummary> =
        (0..10).map(|at| lone(at, if at < 5 { 1.0 } else { 1.15 })).collect();
    let (base, head): (Vec<_>, Vec<_>) = (runs[..5].iter().collect(), runs[5..].iter().collect());
    let test = decide(&base, &head, &Rule::default()).names[0].tests[0];
    assert_eq!(test.verdict, Verdict::Inconclusive);
    assert!(test.detectable(&Rule::default()).is_some_and(|it| it > 1.0), "{test:?}");
    assert_eq!(test.runs_needed(&Rule::default()), None, "each run alone leaves as much open");
}
