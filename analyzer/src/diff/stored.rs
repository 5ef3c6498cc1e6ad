//! Summaries of runs in a file: a baseline without its traces.
//!
//! `analyze summary -o base.json` writes them beside its rows, as `sections.runs`,
//! and `diff` reads them back. What was edited or damaged on the way is refused.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run_summary::RunSummary;
use crate::{Error, Result};

/// Version of the runs within a summary. In the first, figures had a narrower interval as
/// well, which is read past.
pub(super) const VERSION: u32 = 2;
const WITH_NARROW_INTERVALS: u64 = 1;

/// Summaries of several runs, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// Of this form.
    pub version: u32,
    /// In the order in which they were added.
    pub runs: Vec<RunSummary>,
}

impl Stored {
    /// These runs.
    pub fn new(runs: Vec<RunSummary>) -> Self {
        Self { version: VERSION, runs }
    }

    /// Whether a file is a summary, and no trace of any kind.
    pub fn is_one(path: &Path) -> bool {
        use std::io::Read;
        let mut head = Vec::new();
        let file = fs::File::open(path);
        let read = file.and_then(|file| file.take(4_096).read_to_end(&mut head));
        read.is_ok() && String::from_utf8_lossy(&head).contains("\"ringscope.summary/")
    }

    /// Reads what `analyze summary -o` wrote.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |what: String| Error::of(path, what);
        let text = fs::read_to_string(path).map_err(|error| Error::of(path, error))?;
        let mut document: Value = serde_json::from_str(&text)
            .map_err(|error| wrong(format!("not a whole summary: {error}; write it again")))?;
        let mut runs =
            document.pointer_mut("/sections/runs").map(Value::take).ok_or_else(|| {
                wrong(
                    "a summary without runs; write it with analyze summary TRACE -o FILE"
                        .to_owned(),
                )
            })?;
        let version = runs.get("version").and_then(Value::as_u64);
        match version {
            Some(WITH_NARROW_INTERVALS) => without_narrow_intervals(&mut runs),
            Some(it) if it == u64::from(VERSION) => {}
            _ => {
                let found = version.map_or_else(|| "none".to_owned(), |it| it.to_string());
                return Err(wrong(format!(
                    "runs are of version {found}, and this analyze reads up to {VERSION}; \
                     write it again, or take a newer analyze"
                )));
            }
        }
        let stored: Stored = serde_json::from_value(runs)
            .map_err(|error| wrong(format!("runs cannot be read: {error}; write it again")))?;
        for run in &stored.runs {
            check(run)
                .map_err(|what| wrong(format!("run {}: {what}; write it again", run.label)))?;
        }
        Ok(stored)
    }

    /// Adds runs behind the others and keeps the last `keep`.
    pub fn append(&mut self, runs: Vec<RunSummary>, keep: usize) {
        self.runs.extend(runs);
        let surplus = self.runs.len().saturating_sub(keep);
        self.runs.drain(..surplus);
    }
}

/// Brings runs of the first version to the present one.
fn without_narrow_intervals(runs: &mut Value) {
    runs["version"] = VERSION.into();
    let runs = runs.get_mut("runs").and_then(Value::as_array_mut);
    for run in runs.into_iter().flatten() {
        let names = run.get_mut("names").and_then(Value::as_array_mut);
        for name in names.into_iter().flatten().filter_map(Value::as_object_mut) {
            let mut drop_from = |figure: &mut Value| {
                if let Some(figure) = figure.as_object_mut() {
                    figure.remove("near_low");
                    figure.remove("near_high");
                }
            };
            name.get_mut("mean").into_iter().for_each(&mut drop_from);
            let quantiles = name.get_mut("quantiles").and_then(Value::as_array_mut);
            quantiles.into_iter().flatten().for_each(&mut drop_from);
        }
    }
}

/// Whether a run holds together. JSON has no NaN, but it has null and nonsense.
fn check(run: &RunSummary) -> std::result::Result<(), String> {
    for name in &run.names {
        let wrong = |what: &str| Err(format!("{:?}: {what}", name.name));
        if name.quantiles.len() != run.percentiles.len() {
            return wrong("not as many quantiles as percentiles");
        }
        if name.count == 0 || !name.total_ns.is_finite() || !name.self_ns.is_finite() {
            return wrong("no calls, or not a finite time");
        }
        for it in name.quantiles.iter().chain([&name.mean]) {
            let order = [it.low, it.value, it.high];
            if !order.iter().all(|it| it.is_finite() && *it >= 0.0) || !order.is_sorted() {
                return wrong("an interval that does not hold its figure");
            }
            if !(it.effective.is_finite() && it.effective > 0.0) {
                return wrong("no effective number of calls");
            }
        }
    }
    for counter in &run.counters {
        if counter.count == 0 || !counter.sum.is_finite() || !counter.max.is_finite() {
            return Err(format!("{:?}: no values, or not a finite one", counter.name));
        }
    }
    let in_order = run.percentiles.iter().all(|it| (0.0..=100.0).contains(it));
    if in_order { Ok(()) } else { Err("a percentile that is none".to_owned()) }
}
