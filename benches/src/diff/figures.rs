//! The figures, for machines and for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::timing::Timing;
use super::trials::{Plan, Share, Way};
use super::universe::NAMES;
use crate::machine::Machine;

#[derive(Serialize)]
pub(crate) struct Figures {
    machine: Machine,
    quick: bool,
    seed: u64,
    names: usize,
    universes: u64,
    runs_a_universe: usize,
    /// Times as many calls as usual.
    calls: usize,
    /// As `analyze diff` judges.
    #[serde(flatten)]
    shares: Shares,
    /// The same with intervals within runs from all durations, not from a part of them.
    all_durations: Shares,
    /// By the rule that it started from.
    literal_rule: Shares,
    /// Share of names whose median deviates by up to 2 % from run to run.
    pub(crate) quiet_share: f64,
    diff_s: Option<f64>,
    report_s: Option<f64>,
    diff_over_report: Option<f64>,
    diff_peak_mib: Option<f64>,
    omitted: Vec<String>,
    omitted_because: BTreeMap<String, String>,
}

/// What one way to judge came to.
#[derive(Default, Serialize)]
pub(crate) struct Shares {
    /// Share of diffs of identical code in which any name was flagged, by design.
    false_alarm: BTreeMap<String, f64>,
    false_alarm_interval: BTreeMap<String, [f64; 2]>,
    false_alarm_diffs: BTreeMap<String, u64>,
    /// Share of names that were found slower, of those that were made so.
    power: BTreeMap<String, f64>,
    power_interval: BTreeMap<String, [f64; 2]>,
}

impl Share {
    pub(crate) fn rate(&self) -> f64 {
        self.hits as f64 / self.of.max(1) as f64
    }
}

impl Figures {
    pub(crate) fn new(machine: Machine, quick: bool, seed: u64, plan: Plan) -> Self {
        Figures {
            machine,
            quick,
            seed,
            names: NAMES,
            universes: plan.universes,
            runs_a_universe: plan.runs,
            calls: plan.calls,
            shares: Shares::default(),
            all_durations: Shares::default(),
            literal_rule: Shares::default(),
            quiet_share: 0.0,
            diff_s: None,
            report_s: None,
            diff_over_report: None,
            diff_peak_mib: None,
            omitted: Vec::new(),
            omitted_because: BTreeMap::new(),
        }
    }

    /// What one way came to.
    pub(crate) fn of(&mut self, way: Way) -> &mut Shares {
        match way {
            Way::AsItIs => &mut self.shares,
            Way::AllDurations => &mut self.all_durations,
            Way::LiteralRule => &mut self.literal_rule,
        }
    }

    pub(crate) fn timing(&mut self, timing: Timing) {
        self.diff_s = Some(rounded(timing.diff_s));
        self.report_s = Some(rounded(timing.report_s));
        self.diff_over_report = Some(rounded(timing.ratio));
        self.diff_peak_mib = Some(rounded(timing.diff_peak_mib));
    }

    /// Names a key that this run leaves out, and why.
    pub(crate) fn omit(&mut self, key: &str, why: String) {
        self.omitted.push(key.to_owned());
        self.omitted_because.insert(key.to_owned(), why);
    }
}

impl Shares {
    pub(crate) fn alarm(&mut self, key: &str, share: Share, interval: [f64; 2]) {
        self.false_alarm.insert(key.to_owned(), rounded(share.rate()));
        self.false_alarm_interval.insert(key.to_owned(), interval.map(rounded));
        self.false_alarm_diffs.insert(key.to_owned(), share.of);
    }

    pub(crate) fn power(&mut self, key: &str, share: Share, interval: [f64; 2]) {
        self.power.insert(key.to_owned(), rounded(share.rate()));
        self.power_interval.insert(key.to_owned(), interval.map(rounded));
    }
}

const GOALS: [(&str, &str); 7] = [
    ("1v1", "1 %"),
    ("3v3", "1 %"),
    ("5v5", "1 %"),
    ("10v10", "1 %"),
    ("5v5_quiet_10", "85 %"),
    ("10v10_quiet_10", "98 %"),
    ("1v1_50", "50 %"),
];

/// The figures for people.
pub(crate) fn table(figures: &Figures) -> String {
    let mut text = figures.machine.heading();
    let _ = writeln!(
        text,
        "{} universes of {} names and {} runs, {} to {} calls each, seed {}; {:.0} % of names are \
         quiet\n",
        figures.universes,
        figures.names,
        figures.runs_a_universe,
        200 * figures.calls,
        6_000 * figures.calls,
        figures.seed,
        100.0 * figures.quiet_share,
    );
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "",
        "share",
        "95 % interval",
        "of",
        "goal",
        "by all durations",
        "by the literal rule",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let goal = |key: &str| GOALS.iter().find(|it| it.0 == key).map_or("", |it| it.1).to_owned();
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let interval = |[low, high]: [f64; 2]| format!("{} to {}", percent(low), percent(high));
    let other = |shares: Option<&f64>| shares.map_or_else(String::new, |it| percent(*it));
    let Figures { shares, all_durations, literal_rule, .. } = figures;
    for (key, share) in &shares.false_alarm {
        table.add_row([
            format!("false alarms, {key}"),
            percent(*share),
            interval(shares.false_alarm_interval[key]),
            format!("{} diffs", shares.false_alarm_diffs[key]),
            goal(key),
            other(all_durations.false_alarm.get(key)),
            other(literal_rule.false_alarm.get(key)),
        ]);
    }
    for (key, share) in &shares.power {
        table.add_row([
            format!("found, {key}"),
            percent(*share),
            interval(shares.power_interval[key]),
            String::new(),
            goal(key),
            other(all_durations.power.get(key)),
            other(literal_rule.power.get(key)),
        ]);
    }
    let _ = writeln!(text, "{table}");
    if let (Some(diff), Some(report), Some(ratio)) =
        (figures.diff_s, figures.report_s, figures.diff_over_report)
    {
        let _ = writeln!(
            text,
            "\ndiff of two traces of 10 million records: {diff:.2} s; report of both: {report:.2} s; \
             ratio {ratio:.2}, goal 1.5"
        );
    }
    for key in &figures.omitted {
        let _ = writeln!(text, "\nnot measured: {key}: {}", figures.omitted_because[key]);
    }
    text
}

/// Four decimals: more would be noise in every figure here.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
