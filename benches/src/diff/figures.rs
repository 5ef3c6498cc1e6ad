//! The figures, for machines and for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::timing::Timing;
use super::trials::{Plan, Share};
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
    /// Share of diffs of identical code in which any name was flagged, by design.
    false_alarm: BTreeMap<String, f64>,
    false_alarm_interval: BTreeMap<String, [f64; 2]>,
    false_alarm_diffs: BTreeMap<String, u64>,
    /// Share of names that were found slower, of those that were made so.
    power: BTreeMap<String, f64>,
    power_interval: BTreeMap<String, [f64; 2]>,
    /// Share of names whose median deviates by up to 2 % from run to run.
    pub(crate) quiet_share: f64,
    diff_s: Option<f64>,
    report_s: Option<f64>,
    diff_over_report: Option<f64>,
    diff_peak_mib: Option<f64>,
    omitted: Vec<String>,
    omitted_because: BTreeMap<String, String>,
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
            false_alarm: BTreeMap::new(),
            false_alarm_interval: BTreeMap::new(),
            false_alarm_diffs: BTreeMap::new(),
            power: BTreeMap::new(),
            power_interval: BTreeMap::new(),
            quiet_share: 0.0,
            diff_s: None,
            report_s: None,
            diff_over_report: None,
            diff_peak_mib: None,
            omitted: Vec::new(),
            omitted_because: BTreeMap::new(),
        }
    }

    pub(crate) fn alarm(&mut self, key: &str, share: Share, interval: [f64; 2]) {
        self.false_alarm.insert(key.to_owned(), rounded(share.rate()));
        self.false_alarm_interval.insert(key.to_owned(), interval.map(rounded));
        self.false_alarm_diffs.insert(key.to_owned(), share.of);
    }

    pub(crate) fn power(&mut self, key: &str, share: Share, interval: [f64; 2]) {
        self.power.insert(key.to_owned(), rounded(share.rate()));
        self.power_interval.insert(key.to_owned(), interval.map(rounded));
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
        "{} universes of {} names and {} runs, seed {}; {:.0} % of names are quiet\n",
        figures.universes,
        figures.names,
        figures.runs_a_universe,
        figures.seed,
        100.0 * figures.quiet_share,
    );
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["", "share", "95 % interval", "of", "goal"]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let goal = |key: &str| GOALS.iter().find(|it| it.0 == key).map_or("", |it| it.1).to_owned();
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let interval = |[low, high]: [f64; 2]| format!("{} to {}", percent(low), percent(high));
    for (key, share) in &figures.false_alarm {
        table.add_row([
            format!("false alarms, {key}"),
            percent(*share),
            interval(figures.false_alarm_interval[key]),
            format!("{} diffs", figures.false_alarm_diffs[key]),
            goal(key),
        ]);
    }
    for (key, share) in &figures.power {
        table.add_row([
            format!("found, {key}"),
            percent(*share),
            interval(figures.power_interval[key]),
            String::new(),
            goal(key),
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
