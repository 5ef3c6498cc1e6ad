//! What is shown of a comparison, whichever form it takes: rows in order, and the
//! sentences around them.

use super::{
    attribution::{Attribution, Share},
    circumstances::{Order, Remark},
    counters::JudgedCounter,
    decision::{Decision, Design, Judged, Rule, Test, Verdict},
    gate::Gate,
    run_summary::{Metric, NameSummary, RunSummary},
    sensitivity::MOST_RUNS,
};
use crate::{
    output::{Cell, TimeUnit, count, duration, shorten_middle, shown},
    report::about::in_words,
};

/// Everything that there is to show.
pub(super) struct View<'a> {
    /// Runs of the base.
    pub(super) base: &'a [&'a RunSummary],
    /// Runs of the head.
    pub(super) head: &'a [&'a RunSummary],
    /// The decision.
    pub(super) decision: &'a Decision<'a>,
    /// Counters, gauges and memory.
    pub(super) counters: &'a [JudgedCounter<'a>],
    /// What it was asked.
    pub(super) rule: &'a Rule,
    /// What became of the gate.
    pub(super) gate: &'a Gate,
    /// Whose fault it is.
    pub(super) attributions: &'a [Attribution],
    /// What is to be said about the runs and the budget.
    pub(super) remarks: &'a [Remark],
    /// Where the part of the largest contributor lies, in words.
    pub(super) places: &'a [(usize, String)],
}

/// Means over the runs of one side in which a name occurs.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Calls a run.
    pub(super) count: f64,
    /// Time a run.
    pub(super) total_ns: f64,
    /// Self time a run.
    pub(super) self_ns: f64,
    /// By metric of a call: the geometric mean.
    pub(super) metrics: Vec<f64>,
}

impl Verdict {
    /// For machines.
    pub(super) fn key(self) -> &'static str {
        match self {
            Verdict::Regression => "regression",
            Verdict::Improvement => "improvement",
            Verdict::Ok => "ok",
            Verdict::Inconclusive => "inconclusive",
            Verdict::InsufficientData => "insufficient_data",
            Verdict::New => "new",
            Verdict::Removed => "removed",
        }
    }

    /// For people.
    pub(super) fn words(self) -> &'static str {
        if self == Verdict::InsufficientData { "insufficient data" } else { self.key() }
    }

    /// What people want to see first.
    fn rank(self) -> u8 {
        match self {
            Verdict::Regression => 0,
            Verdict::Improvement => 1,
            Verdict::New => 2,
            Verdict::Removed => 3,
            Verdict::Inconclusive => 4,
            Verdict::Ok => 5,
            Verdict::InsufficientData => 6,
        }
    }
}

impl View<'_> {
    /// Names, those first that people want to see first, and among those the ones that
    /// matter most end to end.
    pub(super) fn order(&self) -> Vec<usize> {
        let names = &self.decision.names;
        let mut order: Vec<usize> = (0..names.len()).collect();
        let weight = |at: usize| {
            let share = self.share(at).map_or(0.0, |share| share.part.total_ns().abs());
            share.max(1e-9 * self.figures(at, true).self_ns.max(self.figures(at, false).self_ns))
        };
        let key = |at: usize| (names[at].verdict.rank(), weight(at));
        order.sort_by(|&a, &b| {
            let (a_key, b_key) = (key(a), key(b));
            a_key.0.cmp(&b_key.0).then(b_key.1.total_cmp(&a_key.1)).then(a.cmp(&b))
        });
        order
    }

    /// The name's part of the end-to-end change, if it is no noise.
    pub(super) fn share(&self, name: usize) -> Option<&Share> {
        self.attributions.iter().flat_map(|it| &it.shares).find(|share| share.name == name)
    }

    /// The same in percent of the end-to-end change.
    pub(super) fn share_percent(&self, name: usize) -> Option<f64> {
        let what = self.decision.names[name].name.what;
        let change = self.attributions.iter().find(|it| it.what == what)?.change_ns();
        let share = self.share(name)?.part.total_ns();
        (change != 0.0).then(|| 100.0 * share / change)
    }

    /// The figures of a name on the base's side, or on the head's.
    pub(super) fn figures(&self, name: usize, of_base: bool) -> Figures {
        let judged = &self.decision.names[name];
        let (base, head) = judged.name.runs.split_at(self.decision.base_runs);
        let runs: Vec<&NameSummary> =
            if of_base { base } else { head }.iter().flatten().copied().collect();
        let n = runs.len().max(1) as f64;
        let mean = |of: fn(&NameSummary) -> f64| runs.iter().map(|it| of(it)).sum::<f64>() / n;
        let metric = |(at, &metric): (usize, &Metric)| {
            let estimates = runs.iter().filter_map(|it| it.estimate(metric, at));
            (estimates.map(|it| it.value.ln()).sum::<f64>() / n).exp()
        };
        Figures {
            count: mean(|it| it.count as f64),
            total_ns: mean(|it| it.total_ns),
            self_ns: mean(|it| it.self_ns),
            metrics: if runs.is_empty() {
                Vec::new()
            } else {
                self.metrics_of_calls().iter().enumerate().map(metric).collect()
            },
        }
    }

    /// Percentiles and mean, without the figures of runs that a budget may ask for.
    pub(super) fn metrics_of_calls(&self) -> &[Metric] {
        let all = &self.decision.metrics;
        &all[..all.iter().take_while(|it| it.is_of_a_call()).count()]
    }

    /// A figure of a name as it is printed.
    pub(super) fn cell(&self, metric: usize, value: f64) -> Cell {
        match self.decision.metrics.get(metric) {
            Some(Metric::Count) => Cell::Number(whole(value)),
            _ => Cell::Ns(value),
        }
    }

    /// The most telling test of a name.
    pub(super) fn telling(&self, judged: &Judged<'_>) -> Option<Test> {
        judged.telling.map(|at| judged.tests[at])
    }

    /// The name as people read it.
    pub(super) fn label(&self, name: usize) -> String {
        let name = &self.decision.names[name].name;
        match name.renamed_from {
            Some(was) => format!("{} (was {})", shown(name.name), shown(was)),
            None => shown(name.name).into_owned(),
        }
    }

    /// The same within a sentence or a cell.
    pub(super) fn short_label(&self, name: usize) -> String {
        shorten_middle(&self.label(name), 100).into_owned()
    }

    /// What else there is to know about verdicts, a line a name, and how many more.
    pub(super) fn notes(&self, most: usize) -> Vec<String> {
        let has_more = |at: &usize| self.verdict(*at) != self.decision.names[*at].verdict.words();
        let with_more: Vec<usize> = self.order().into_iter().filter(has_more).collect();
        let line = |&at: &usize| format!("- {}: {}", self.short_label(at), self.verdict(at));
        let mut lines: Vec<String> = with_more.iter().take(most).map(line).collect();
        if with_more.len() > most {
            let more = count((with_more.len() - most) as u64);
            lines.push(format!("- and {more} more: --format json"));
        }
        lines
    }

    /// The verdict with what else there is to know.
    pub(super) fn verdict(&self, at: usize) -> String {
        let judged = &self.decision.names[at];
        let words = judged.verdict.words();
        let finding = self.gate.finding(at);
        match judged.verdict {
            Verdict::Regression => match finding.and_then(|it| it.because.as_deref()) {
                Some(because) => format!("{words}, {because}"),
                None => words.to_owned(),
            },
            Verdict::Inconclusive => {
                // Any figure of its calls would have done.
                let is_of_a_call = |it: &&Test| self.decision.metrics[it.metric].is_of_a_call();
                let made = || judged.tests.iter().filter(is_of_a_call);
                let least = made().filter_map(|it| it.detectable(self.rule));
                let least = least.min_by(f64::total_cmp);
                let runs = made().filter_map(|it| it.runs_needed(self.rule)).min();
                let runs = runs.map_or_else(
                    || format!("more than {MOST_RUNS} runs a side"),
                    |runs| format!("{runs} runs a side"),
                );
                let tolerated = 100.0 * self.rule.tolerance;
                match least {
                    Some(least) => format!(
                        "{words}: could show {}; {runs} for {tolerated} %",
                        percent(100.0 * least),
                    ),
                    None => words.to_owned(),
                }
            }
            Verdict::InsufficientData => {
                let lacking =
                    judged.tests.iter().map(|it| it.lacking).fold(f64::INFINITY, f64::min);
                let (base, head) = judged.name.runs.split_at(self.decision.base_runs);
                let has = |side: &[Option<&NameSummary>]| side.iter().flatten().count();
                let is_rare = |side: &[Option<&NameSummary>]| 2 * has(side) < side.len();
                if is_rare(base) || is_rare(head) {
                    let runs = count((has(base) + has(head)) as u64);
                    let all = count(judged.name.runs.len() as u64);
                    format!("{words}: occurs in {runs} of {all} runs")
                } else if lacking.is_finite() && lacking > 1.0 {
                    format!("{words}: needs {} times the calls", count(lacking.ceil() as u64))
                } else {
                    words.to_owned()
                }
            }
            _ => words.to_owned(),
        }
    }

    /// One line for each kind: the end-to-end change and where it comes from.
    pub(super) fn sentences(&self) -> Vec<String> {
        self.attributions.iter().map(|it| self.sentence(it)).collect()
    }

    fn sentence(&self, all: &Attribution) -> String {
        let (base, head) = all.total_ns;
        let change = all.change_ns();
        let whole = match all.what {
            super::What::Span => "end to end",
            super::What::Device => "on devices",
        };
        let mut text = format!("{whole} {} ({})", change_percent(base, head), signed_ns(change));
        if let Some((low, high)) = all.interval_ns.filter(|it| it.0 <= 0.0 && it.1 >= 0.0) {
            let percent = |ns: f64| percent(100.0 * ns / base.max(f64::MIN_POSITIVE));
            text.push_str(&format!(
                ", within noise (95 % interval {} to {})",
                percent(low),
                percent(high)
            ));
        }
        let mut parts = Vec::new();
        for share in all.shares.iter().take(2) {
            let part = share.part.total_ns();
            if part.abs() < 0.1 * change.abs() {
                continue;
            }
            let place = self.places.iter().find(|it| it.0 == share.name);
            let place = place.map_or_else(String::new, |(_, place)| format!(" in {place}"));
            // Where parts go both ways, percentages of what is left say nothing.
            let size = match part / change {
                ratio if (0.0..1.5).contains(&ratio) => format!("{:.0} %", 100.0 * ratio),
                _ => signed_ns(part),
            };
            parts.push(format!(
                "{size} from `{}`{place}, {}",
                self.short_label(share.name),
                how(share)
            ));
        }
        if all.shares.is_empty() {
            text.push_str(": no name's part stands out");
        } else if !parts.is_empty() {
            text.push_str(": ");
            text.push_str(&parts.join("; "));
        }
        text
    }

    /// What was compared, in a line.
    pub(super) fn heading(&self) -> String {
        let side = |side: &[&RunSummary]| match side {
            [one] => shown(&one.label).into_owned(),
            many => format!("{} runs", count(many.len() as u64)),
        };
        let order = match Order::of(self.base, self.head) {
            Order::Interleaved => ", measured in turns",
            Order::OneAfterTheOther => ", one side after the other",
            Order::Pair | Order::Unknown => "",
        };
        let least = match self.decision.design {
            Design::SinglePair => self.rule.least_effect_single,
            Design::Strict | Design::Relaxed => self.rule.least_effect,
        };
        format!(
            "base {} against head {}{order}; changes below {} % do not count",
            side(self.base),
            side(self.head),
            100.0 * least,
        )
    }

    /// The shift of everything, by metric, in lines.
    pub(super) fn common_lines(&self) -> Vec<String> {
        let metrics = self.decision.metrics.iter().zip(&self.decision.common);
        let lines = metrics.filter_map(|(metric, shift)| {
            let shift = (*shift)?;
            let interval = shift.interval.map_or_else(
                || "which so few runs cannot tell from noise".to_owned(),
                |(low, high)| format!("95 % interval {} to {}", ratio(low), ratio(high)),
            );
            Some(format!("everything, {metric}: {}, {interval}", ratio(shift.change)))
        });
        lines.collect()
    }

    /// Geometric mean of the changes of all names that were compared, of the first
    /// figure: its metric, how many names, and the logarithm.
    pub(super) fn geomean(&self) -> Option<(Metric, usize, f64)> {
        let tests = self.decision.names.iter().filter_map(|it| it.tests.first());
        let changes: Vec<f64> =
            tests.map(|it| (it.head / it.base).ln()).filter(|it| it.is_finite()).collect();
        let metric = *self.decision.metrics.first()?;
        let n = changes.len();
        (n > 0).then(|| (metric, n, changes.iter().sum::<f64>() / n as f64))
    }
}

/// How a name's part comes about.
fn how(share: &Share) -> String {
    let (before, after) = share.count;
    let often = if before <= 0.0 {
        return "which is new".to_owned();
    } else if after <= 0.0 {
        return "which is gone".to_owned();
    } else if (after / before - 1.0).abs() < 0.005 {
        "called as often".to_owned()
    } else if after > before {
        format!("called {:.1} % more often", 100.0 * (after / before - 1.0))
    } else {
        format!("called {:.1} % less often", 100.0 * (1.0 - after / before))
    };
    let change = share.call_ns.1 / share.call_ns.0 - 1.0;
    if !change.is_finite() || change.abs() < 0.0005 {
        return format!("{often}, each as long");
    }
    let pace = if change > 0.0 { "slower" } else { "faster" };
    format!("{often}, each {:.1} % {pace}", 100.0 * change.abs())
}

/// A mean of counts without what exponents and logarithms add to it.
pub(super) fn whole(value: f64) -> f64 {
    (1e6 * value).round() / 1e6
}

/// A logarithm as a signed percentage.
pub(super) fn ratio(log: f64) -> String {
    percent(100.0 * log.exp_m1())
}

/// A signed percentage.
pub(super) fn percent(percent: f64) -> String {
    if percent.is_finite() && percent < 1e6 {
        format!("{percent:+.1} %")
    } else {
        "unbounded".to_owned()
    }
}

fn change_percent(base: f64, head: f64) -> String {
    if base > 0.0 { percent(100.0 * (head / base - 1.0)) } else { "from nothing".to_owned() }
}

fn signed_ns(ns: f64) -> String {
    let text = in_words(ns);
    if ns >= 0.0 { format!("+{text}") } else { text }
}

/// A duration for people.
pub(super) fn time(ns: f64, unit: TimeUnit) -> String {
    if ns.is_finite() { duration(ns, unit) } else { String::new() }
}
