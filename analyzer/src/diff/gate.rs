//! Whether a build may pass.

use super::{
    decision::{CommonShift, Decision, Judged, Test, Verdict},
    perf_budget::{PerfBudget, Severity},
    run_summary::{NameSummary, What},
};
use crate::Exit;

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
    /// Which names are gated and inconclusive.
    pub(super) inconclusive: Vec<usize>,
    /// Whether everything got slower by more than it may, and by how much.
    pub(super) common: Option<f64>,
    /// The same where it cannot be told from chance.
    pub(super) common_unsure: Option<f64>,
}

/// How likely a shift of everything may be by chance.
const COMMON_CHANCE: f64 = 0.01;

/// Holds the decision against the budget.
pub(super) fn gate(
    decision: &Decision<'_>,
    budget: &PerfBudget,
    asked: &Asked,
    lost_too_much: bool,
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
    let beyond = |shift: &&CommonShift| shift.change.exp_m1() > max_common;
    let sure = |shift: &CommonShift| shift.chance.is_some_and(|chance| chance <= COMMON_CHANCE);
    let worst = |is: &dyn Fn(&CommonShift) -> bool| {
        let those = decision.common.iter().flatten().filter(beyond).filter(|it| is(it));
        those.map(|shift| shift.change.exp_m1()).reduce(f64::max)
    };
    let (common, common_unsure) = (worst(&sure), worst(&|shift| !sure(shift)));
    let mut gate = Gate {
        exit: Exit::Ok,
        verdict: "ok",
        sentence: String::new(),
        findings,
        inconclusive,
        common,
        common_unsure: if common.is_some() { None } else { common_unsure },
    };
    gate.settle(decision, asked, lost_too_much);
    gate
}

impl Gate {
    fn settle(&mut self, decision: &Decision<'_>, asked: &Asked, lost_too_much: bool) {
        let failing = self.findings.iter().filter(|it| it.severity == Severity::Error).count();
        let judged = |verdicts: &[Verdict]| {
            decision.names.iter().filter(|it| verdicts.contains(&it.verdict)).count()
        };
        let decided = judged(&[
            Verdict::Regression,
            Verdict::Improvement,
            Verdict::Ok,
            Verdict::Inconclusive,
        ]);
        let open = self.inconclusive.len() + usize::from(self.common_unsure.is_some());
        let (exit, verdict, sentence) = if lost_too_much {
            (Exit::Undecided, "undecided", "undecided: too many events are missing".to_owned())
        } else if decided == 0 {
            let why = "undecided: no name has enough data on both sides";
            (Exit::Undecided, "undecided", why.to_owned())
        } else if failing > 0 || self.common.is_some() {
            let what = match (failing, self.common) {
                (0, Some(by)) => format!("everything is {:.1} % slower", 100.0 * by),
                (n, None) => names(n, "is slower", "are slower"),
                (n, Some(by)) => {
                    let all = format!("everything is {:.1} % slower", 100.0 * by);
                    format!("{}, and {all}", names(n, "is slower", "are slower"))
                }
            };
            let exit = if asked.fails_on_regression { Exit::Failed } else { Exit::Ok };
            (exit, "regression", format!("regression: {what}"))
        } else if open > 0 && asked.fails_on_inconclusive {
            let what = names(self.inconclusive.len(), "is", "are");
            (Exit::Undecided, "inconclusive", format!("inconclusive: {what} not sure enough"))
        } else {
            let all = names(decided, "compared", "compared");
            let improved = match judged(&[Verdict::Improvement]) {
                0 => String::new(),
                n => format!(", {n} faster"),
            };
            let unsure = match judged(&[Verdict::Inconclusive]) {
                0 => String::new(),
                n => format!(", {n} inconclusive"),
            };
            (Exit::Ok, "ok", format!("ok: {all}{improved}{unsure}, none slower that may not be"))
        };
        (self.exit, self.verdict, self.sentence) = (exit, verdict, sentence);
    }

    /// What was found about a name.
    pub(super) fn finding(&self, name: usize) -> Option<&Finding> {
        self.findings.iter().find(|it| it.name == name)
    }
}

fn names(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 name {one}") } else { format!("{n} names {many}") }
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
