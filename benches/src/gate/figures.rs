//! The figures, for machines and for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::machine::Machine;

#[derive(Serialize)]
pub(crate) struct Figures {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    pub(crate) runs_a_side: usize,
    /// Of each kind.
    pub(crate) diffs: usize,
    pub(crate) slower_percent: u32,
    /// The same code on both sides, by design.
    pub(crate) identical: BTreeMap<String, Outcome>,
    /// One kernel that does more, by design.
    pub(crate) slowed: BTreeMap<String, Outcome>,
    /// What was flagged and should not have been.
    pub(crate) flagged: Vec<String>,
    /// What should have been found.
    pub(crate) missed: Vec<String>,
    /// What `analyze diff` printed about the first slower kernel.
    pub(crate) sample: String,
}

#[derive(Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) diffs: u64,
    /// Diffs in which a name was flagged that is not slower.
    pub(crate) alarms: u64,
    /// Diffs in which the slower kernel was found.
    pub(crate) found: u64,
    /// Diffs in which no name had enough data.
    pub(crate) undecided: u64,
}

impl Outcome {
    /// Counts a diff in which these names were flagged, of which some should be.
    pub(crate) fn add(&mut self, flagged: &[String], is_right: impl Fn(&String) -> bool) {
        self.diffs += 1;
        self.alarms += u64::from(!flagged.iter().all(is_right));
    }
}

/// The figures for people.
pub(crate) fn table(figures: &Figures) -> String {
    let mut text = figures.machine.heading();
    let _ = writeln!(text, "\nthe same code on both sides, in turns:");
    for (design, it) in &figures.identical {
        let _ = writeln!(
            text,
            "  {design}: {} of {} diffs flagged a name, {} undecided",
            it.alarms, it.diffs, it.undecided
        );
    }
    let _ = writeln!(text, "one kernel does {} % more:", figures.slower_percent);
    for (design, it) in &figures.slowed {
        let _ = writeln!(
            text,
            "  {design}: found in {} of {} diffs, {} undecided; another name was flagged in {}",
            it.found, it.diffs, it.undecided, it.alarms
        );
    }
    for (what, list) in [("wrongly flagged", &figures.flagged), ("missed", &figures.missed)] {
        if !list.is_empty() {
            let _ = writeln!(text, "{what}: {}", list.join("; "));
        }
    }
    let _ = write!(text, "\n{}", figures.sample);
    text
}
