//! Counters, gauges and memory, judged by run: the sum of a counter, the peak of a
//! gauge and of what was allocated.
//!
//! Runs are the unit, as for names, and the test is the same: against the least change
//! that matters, with variances drawn towards what is usual among counters. They are
//! a family of tests of their own. Nobody can tell from a counter whether more of it
//! is worse, so it is said whether there is more or less, and only a rule of the
//! budget that asks for `sum` or `peak` makes it fail.

use std::collections::BTreeMap;

use super::{
    common_shift::Line,
    comparing::{Runs, Widths, sides},
    decision::{Design, Rule, Test, Verdict, flag},
    noise::{noise_across_runs, noise_of_a_pair},
    run_summary::{CounterSummary, RunSummary},
};

/// What of a counter is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// All that was counted in a run.
    Sum,
    /// The largest value of a run.
    Peak,
}

impl Figure {
    /// As budgets and outputs call it.
    pub(super) fn key(self) -> &'static str {
        match self {
            Figure::Sum => "sum",
            Figure::Peak => "peak",
        }
    }
}

/// What came out about a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// There is more of it, and sure of it.
    More,
    /// There is less of it.
    Less,
    /// No more than what is tolerated, and sure of it.
    Ok,
    /// More of it could have been missed.
    Inconclusive,
    /// Too few runs, or values that have no ratio.
    InsufficientData,
    /// In every run of the head that has it, and in none of the base's.
    New,
    /// The other way round.
    Removed,
}

impl Course {
    /// For machines.
    pub(super) fn key(self) -> &'static str {
        match self {
            Course::More => "more",
            Course::Less => "less",
            Course::Ok => "ok",
            Course::Inconclusive => "inconclusive",
            Course::InsufficientData => "insufficient_data",
            Course::New => "new",
            Course::Removed => "removed",
        }
    }

    /// For people.
    pub(super) fn words(self) -> &'static str {
        if self == Course::InsufficientData { "insufficient data" } else { self.key() }
    }
}

/// A counter, a gauge or a peak of memory.
#[derive(Clone, Debug)]
pub(super) struct JudgedCounter<'a> {
    pub(super) name: &'a str,
    pub(super) figure: Figure,
    /// Mean over the runs of each side that have it.
    pub(super) base: Option<f64>,
    pub(super) head: Option<f64>,
    /// Logarithm of the change and its interval, if it could be tested.
    pub(super) change: Option<(f64, (f64, f64))>,
    pub(super) course: Course,
}

/// Judges all counters but those that are about the recording itself.
pub(super) fn judge<'a>(
    base: &[&'a RunSummary],
    head: &[&'a RunSummary],
    rule: &Rule,
) -> Vec<JudgedCounter<'a>> {
    let runs = Runs { base: base.len(), head: head.len() };
    let mut all: BTreeMap<&str, Vec<Option<&CounterSummary>>> = BTreeMap::new();
    for (at, run) in base.iter().chain(head).enumerate() {
        for counter in run.counters.iter().filter(|it| !it.name.starts_with("recorder.")) {
            let row = all.entry(&counter.name).or_insert_with(|| vec![None; runs.base + runs.head]);
            row[at] = Some(counter);
        }
    }
    let mut found: Vec<JudgedCounter<'_>> = Vec::new();
    let mut lines = Vec::new();
    for (name, row) in all {
        // What was a counter once and is a gauge now has no figure in common.
        let figure = match row.iter().flatten().all(|it| it.adds_up) {
            true => Figure::Sum,
            false => Figure::Peak,
        };
        let value = |it: &CounterSummary| if figure == Figure::Sum { it.sum } else { it.max };
        let values: Vec<Option<f64>> = row.iter().map(|it| it.map(value)).collect();
        let (base, head) = sides(&values, runs.base);
        let mean =
            |side: &[f64]| (!side.is_empty()).then(|| side.iter().sum::<f64>() / side.len() as f64);
        let is_nothing = |side: &[f64]| side.iter().all(|it| *it == 0.0);
        let is_always = |side: &[f64]| side.iter().all(|it| *it > 0.0);
        let course = match (is_nothing(&base), is_nothing(&head)) {
            (true, true) => Course::Ok,
            (true, false) if is_always(&head) => Course::New,
            (false, true) if is_always(&base) => Course::Removed,
            _ => Course::InsufficientData,
        };
        let often = 2 * base.len() >= runs.base && 2 * head.len() >= runs.head;
        let is_usable = values.iter().flatten().all(|it| it.is_finite() && *it > 0.0);
        if course == Course::InsufficientData && often && is_usable {
            let values = values.iter().map(|it| it.map(f64::ln)).collect();
            lines.push(Line { name: found.len(), values, within: 0.0, reaches: (0.0, 0.0) });
        }
        let (base, head) = (mean(&base), mean(&head));
        found.push(JudgedCounter { name, figure, base, head, change: None, course });
    }
    test(&lines, runs, rule, &mut found);
    found
}

fn test(lines: &[Line], runs: Runs, rule: &Rule, found: &mut [JudgedCounter<'_>]) {
    let noises = match runs.design() {
        Design::SinglePair => noise_of_a_pair(lines),
        Design::Strict | Design::Relaxed => noise_across_runs(lines, runs.base),
    };
    let mut widths = Widths::default();
    let of_line = |(line, noise): (&Line, _)| {
        let (base, head) = sides(&line.values, runs.base);
        let mut test = Test::between(&base, &head);
        test.settle(noise, rule, &mut widths);
        vec![test]
    };
    let mut tests: Vec<Vec<Test>> = lines.iter().zip(noises).map(of_line).collect();
    flag(&mut tests, rule, |_| true);
    for (line, test) in lines.iter().zip(tests.iter().flatten()) {
        let counter = &mut found[line.name];
        counter.change = test.noise.map(|_| (test.own, test.interval));
        counter.course = match test.verdict {
            Verdict::Regression => Course::More,
            Verdict::Improvement => Course::Less,
            Verdict::Ok => Course::Ok,
            Verdict::Inconclusive => Course::Inconclusive,
            Verdict::InsufficientData | Verdict::New | Verdict::Removed => Course::InsufficientData,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(counters: &[(&str, f64, bool)]) -> RunSummary {
        let counter = |&(name, value, adds_up): &(&str, f64, bool)| CounterSummary {
            name: name.to_owned(),
            count: 1,
            sum: value,
            max: value,
            adds_up,
        };
        RunSummary { counters: counters.iter().map(counter).collect(), ..RunSummary::default() }
    }

    fn courses(base: &[RunSummary], head: &[RunSummary]) -> Vec<(String, &'static str)> {
        let (base, head): (Vec<_>, Vec<_>) = (base.iter().collect(), head.iter().collect());
        let all = judge(&base, &head, &Rule::default());
        all.iter().map(|it| (it.name.to_owned(), it.course.key())).collect()
    }

    #[test]
    fn what_every_run_agrees_on_is_told_and_noise_is_not() {
        let side = |tokens: f64, jitter: f64| -> Vec<RunSummary> {
            (0..3)
                .map(|at| {
                    let noise = 1.0 + jitter * [0.0, 0.4, -0.4][at];
                    run(&[
                        ("tokens", tokens, true),
                        ("resident", 1e6 * noise, false),
                        ("errors", if tokens > 500.0 { 2.0 } else { 0.0 }, true),
                        ("balance", -1.0, false),
                        ("recorder.lost", 1.0, true),
                    ])
                })
                .collect()
        };
        let found = courses(&side(500.0, 0.9), &side(750.0, 1.0));
        let wanted = [
            ("balance", "insufficient_data"),
            ("errors", "new"),
            ("resident", "inconclusive"),
            ("tokens", "more"),
        ];
        assert_eq!(found, wanted.map(|(name, course)| (name.to_owned(), course)));
        let found = courses(&side(500.0, 0.001), &side(400.0, 0.001));
        assert_eq!(
            found[2..],
            [("resident", "ok"), ("tokens", "less")].map(|(a, b)| (a.to_owned(), b))
        );
    }

    #[test]
    fn what_happened_in_some_runs_only_is_neither_new_nor_removed() {
        let side = |values: [f64; 3]| values.map(|it| run(&[("faults", it, true)]));
        let found = courses(&side([7.0, 0.0, 0.0]), &side([0.0; 3]));
        assert_eq!(found, [("faults".to_owned(), "insufficient_data")]);
        assert_eq!(courses(&side([7.0, 1.0, 2.0]), &side([0.0; 3]))[0].1, "removed");
        assert_eq!(courses(&side([0.0; 3]), &side([0.0; 3]))[0].1, "ok");
    }

    #[test]
    fn one_run_a_side_says_nothing_about_a_few_counters() {
        let found = courses(&[run(&[("tokens", 5.0, true)])], &[run(&[("tokens", 50.0, true)])]);
        assert_eq!(found, [("tokens".to_owned(), "insufficient_data")]);
    }
}
