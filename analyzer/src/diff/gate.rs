//! Whether a build may pass.

use super::{
    counters::{Course, JudgedCounter},
    decision::{CommonShift, Decision, Design, Judged, Test, Verdict},
    noise::LEAST_NAMES_SINGLE,
    perf_budget::{PerfBudget, Ruling, Severity},
    run_summary::{Metric, NameSummary, What},
};
use crate::{Exit, output::count};

/// What the gate is asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// Whether regressions fail.
    pub(super) fails_on_regression: bool,
    /// Whether what is inconclusive keeps the gate shut.
    pub(super) fails_on_inconclusive: bool,
    /// How much slower everything may get, as a part of the whole.
    pub(super) max_common: f64,
    /// The day, such as `2030-01-31`.
    pub(super) today: String,
    /// What forbids to decide anything, in words.
    pub(super) forbidden: Option<&'static str>,
}

/// What was found about one name.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// Index into [`Decision::names`].
    pub(super) name: usize,
    /// Which of its tests.
    pub(super) test: usize,
    /// What it comes to.
    pub(super) severity: Severity,
    /// Why it is not what it would be otherwise.
    pub(super) because: Option<String>,
}

/// What became of the gate.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// How the process ends.
    pub(super) exit: Exit,
    /// The verdict in a word, for machines.
    pub(super) verdict: &'static str,
    /// The same in a sentence.
    pub(super) sentence: String,
    /// A regression for each name, the worst one.
    pub(super) findings: Vec<Finding>,
    /// Counters of which there is more, or which are new, and the budget asks for them.
    pub(super) counters: Vec<(usize, Ruling)>,
    /// Which names are gated and inconclusive.
    pub(super) inconclusive: Vec<usize>,
    /// How many counters are.
    inconclusive_counters: usize,
    /// Whether everything got slower by more than it may: in which figure, by how much.
    pub(super) common: Option<(Metric, f64)>,
    /// The same where it cannot be told from chance.
    pub(super) common_unsure: Option<(Metric, f64)>,
}

/// How likely a shift of everything may be by chance, in any of the figures.
const COMMON_CHANCE: f64 = 0.01;

/// Holds the decision against the budget.
pub(super) fn gate(
    decision: &Decision<'_>,
    counters: &[JudgedCounter<'_>],
    budget: &PerfBudget,
    asked: &Asked,
) -> Gate {
    let wholes = [What::Span, What::Device].map(|what| whole(decision, what));
    let mut findings = Vec::new();
    let mut inconclusive = Vec::new();
    for (at, judged) in decision.names.iter().enumerate() {
        let whole = wholes[usize::from(judged.name.what == What::Device)];
        let share =
            if whole > 0.0 { (total(judged, decision.base_runs) / whole).min(1.0) } else { 0.0 };
        let metric = |test: &Test| decision.metrics[test.metric].to_string();
        let name = judged.name.name;
        let ruled =
            judged.tests.iter().enumerate().filter(|it| it.1.verdict == Verdict::Regression);
        let ruled = ruled.map(|(test_at, test)| {
            let by = test.own.exp_m1();
            let ruling = budget.rule(name, &metric(test), by, share, &asked.today);
            Finding { name: at, test: test_at, severity: ruling.severity, because: ruling.because }
        });
        findings.extend(ruled.min_by_key(|it| it.severity as u8));
        let is_open = |test: &Test| {
            test.verdict == Verdict::Inconclusive && budget.is_gated(name, &metric(test), share)
        };
        if judged.verdict == Verdict::Inconclusive && judged.tests.iter().any(is_open) {
            inconclusive.push(at);
        }
    }
    let max_common = budget.max_common.unwrap_or(asked.max_common);
    let figures = decision.common.iter().flatten().count().max(1) as f64;
    let sure =
        |shift: &CommonShift| shift.chance.is_some_and(|chance| chance <= COMMON_CHANCE / figures);
    let worst = |is: &dyn Fn(&CommonShift) -> bool| {
        let all = decision.metrics.iter().zip(&decision.common);
        let those = all.filter_map(|(&metric, shift)| {
            let shift = shift.as_ref().filter(|shift| is(shift))?;
            Some((metric, shift.change.exp_m1())).filter(|it| it.1 > max_common)
        });
        those.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (common, common_unsure) = (worst(&sure), worst(&|shift| !sure(shift)));
    let mut gate = Gate {
        exit: Exit::Ok,
        verdict: "ok",
        sentence: String::new(),
        findings,
        counters: ruled_counters(counters, budget, &asked.today),
        inconclusive,
        inconclusive_counters: counters
            .iter()
            .filter(|it| {
                let is_gated = budget.asks(it.name, it.figure.key())
                    && budget.is_gated(it.name, it.figure.key(), 1.0);
                it.course == Course::Inconclusive && is_gated
            })
            .count(),
        common,
        common_unsure: if common.is_some() { None } else { common_unsure },
    };
    gate.settle(decision, asked);
    gate
}

/// What the budget says about counters of which there is more.
fn ruled_counters(
    counters: &[JudgedCounter<'_>],
    budget: &PerfBudget,
    today: &str,
) -> Vec<(usize, Ruling)> {
    let ruling = |(at, counter): (usize, &JudgedCounter<'_>)| {
        let figure = counter.figure.key();
        let by = match (counter.course, counter.change) {
            (Course::More, Some((change, _))) => change.exp_m1(),
            // More than nothing is more than any part of it.
            (Course::New, _) => f64::INFINITY,
            _ => return None,
        };
        let asks = budget.asks(counter.name, figure);
        asks.then(|| (at, budget.rule(counter.name, figure, by, 1.0, today)))
    };
    counters.iter().enumerate().filter_map(ruling).collect()
}

impl Gate {
    fn settle(&mut self, decision: &Decision<'_>, asked: &Asked) {
        let judged = |verdicts: &[Verdict]| {
            decision.names.iter().filter(|it| verdicts.contains(&it.verdict)).count()
        };
        let decided = judged(&[
            Verdict::Regression,
            Verdict::Improvement,
            Verdict::Ok,
            Verdict::Inconclusive,
        ]);
        let open = self.inconclusive.len() + self.inconclusive_counters;
        let failures = self.failures(decision);
        let (exit, verdict, sentence) = if let Some(why) = asked.forbidden {
            (Exit::Undecided, "undecided", format!("undecided: {why}"))
        } else if decided == 0 {
            (Exit::Undecided, "undecided", format!("undecided: {}", nothing_decided(decision)))
        } else if !failures.is_empty() {
            let exit = if asked.fails_on_regression { Exit::Failed } else { Exit::Ok };
            (exit, "regression", format!("regression: {}", failures.join(", and ")))
        } else if asked.fails_on_inconclusive && (open > 0 || self.common_unsure.is_some()) {
            let mut what = Vec::new();
            if !self.inconclusive.is_empty() {
                what.push(format!(
                    "{} not sure enough",
                    names(self.inconclusive.len(), "is", "are")
                ));
            }
            if self.inconclusive_counters > 0 {
                let n = of(self.inconclusive_counters, "counter is", "counters are");
                what.push(format!("{n} not sure enough"));
            }
            if self.common_unsure.is_some() {
                what.push("everything may be slower".to_owned());
            }
            (Exit::Undecided, "inconclusive", format!("inconclusive: {}", what.join(", and ")))
        } else {
            let mut parts = vec![format!("ok: {}", names(decided, "compared", "compared"))];
            parts.push(match judged(&[Verdict::Regression]) {
                0 => "none slower".to_owned(),
                n => format!("{} slower, as the budget allows", count(n as u64)),
            });
            for (verdict, word) in [
                (Verdict::Improvement, "faster"),
                (Verdict::Inconclusive, "inconclusive"),
                (Verdict::InsufficientData, "with insufficient data"),
                (Verdict::New, "new"),
                (Verdict::Removed, "removed"),
            ] {
                let n = judged(&[verdict]);
                parts.extend((n > 0).then(|| format!("{} {word}", count(n as u64))));
            }
            (Exit::Ok, "ok", parts.join(", "))
        };
        (self.exit, self.verdict, self.sentence) = (exit, verdict, sentence);
    }

    /// What keeps the build from passing, in words.
    fn failures(&self, decision: &Decision<'_>) -> Vec<String> {
        let errors = self.findings.iter().filter(|it| it.severity == Severity::Error);
        let is_count = |it: &&Finding| {
            let test = &decision.names[it.name].tests[it.test];
            decision.metrics[test.metric] == Metric::Count
        };
        let (often, slower): (Vec<&Finding>, Vec<&Finding>) = errors.partition(is_count);
        let more = self.counters.iter().filter(|it| it.1.severity == Severity::Error).count();
        let mut failures = Vec::new();
        if !slower.is_empty() {
            failures.push(names(slower.len(), "is slower", "are slower"));
        }
        if !often.is_empty() {
            failures.push(names(often.len(), "is called more often", "are called more often"));
        }
        if more > 0 {
            failures.push(of(more, "counter is over its budget", "counters are over their budget"));
        }
        if let Some(common) = self.common {
            failures.push(everything(common));
        }
        failures
    }

    /// What was found about a name.
    pub(super) fn finding(&self, name: usize) -> Option<&Finding> {
        self.findings.iter().find(|it| it.name == name)
    }
}

/// A shift of everything, in words.
pub(super) fn everything((metric, by): (Metric, f64)) -> String {
    format!("everything is {:.1} % slower ({metric})", 100.0 * by)
}

/// Why there is no verdict about any name.
fn nothing_decided(decision: &Decision<'_>) -> String {
    let on_both = decision.names.iter().filter(|it| !it.tests.is_empty()).count();
    if on_both == 0 {
        return "no name is on both sides".to_owned();
    }
    let ready = ready_names(decision);
    if decision.design == Design::SinglePair && ready > 0 {
        let names = names(ready, "has", "have");
        return format!(
            "{names} calls enough, and it takes {LEAST_NAMES_SINGLE} to know the noise of one run \
             a side; record more runs"
        );
    }
    "no name has enough data on both sides".to_owned()
}

/// Names that have calls enough in some figure.
fn ready_names(decision: &Decision<'_>) -> usize {
    let has_calls =
        |test: &Test| decision.metrics[test.metric].is_of_a_call() && test.lacking <= 1.0;
    let is_ready = |it: &&Judged<'_>| it.tests.iter().any(has_calls);
    decision.names.iter().filter(is_ready).count()
}

/// So many of something.
pub(super) fn of(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", count(n as u64)) }
}

fn names(n: usize, one: &str, many: &str) -> String {
    of(n, &format!("name {one}"), &format!("names {many}"))
}

/// Time of everything of one kind, over the base's runs.
fn whole(decision: &Decision<'_>, what: What) -> f64 {
    let of = |judged: &&Judged<'_>| judged.name.what == what;
    let own = |judged: &Judged<'_>| base_sum(judged, decision.base_runs, |it| it.self_ns);
    decision.names.iter().filter(of).map(own).sum()
}

fn total(judged: &Judged<'_>, base_runs: usize) -> f64 {
    base_sum(judged, base_runs, |it| it.total_ns)
}

fn base_sum(judged: &Judged<'_>, base_runs: usize, of: fn(&NameSummary) -> f64) -> f64 {
    judged.name.runs[..base_runs].iter().flatten().map(|it| of(it)).sum()
}
