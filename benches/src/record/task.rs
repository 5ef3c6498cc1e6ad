//! The measurements as tasks for a child process: what the parent asks for, and
//! which function answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::subject::Subject;
use super::{footprint, hot_path, long_run, stalls, subjects, sustained};

/// One measurement of one subject. The result's type is that of the function
/// named in [`answer`].
#[derive(Deserialize, Serialize)]
pub(crate) struct Task {
    pub(crate) subject: String,
    pub(crate) measure: Measure,
}

#[derive(Deserialize, Serialize)]
pub(crate) enum Measure {
    HotPath { threads: usize, budget_ms: u64 },
    Off { budget_ms: u64 },
    LongRun { spans: u64 },
    VariedBytes { spans: u64 },
    Overrun,
    Sustained { per_second: f64, seconds: f64 },
    Memory { threads: usize, length_ms: u64 },
    Idle { length_ms: u64 },
    Longest { spans: u64 },
    Disturb { dir: PathBuf },
}

/// What became of the spans in [`Subject::overrun`].
#[derive(Deserialize, Serialize)]
pub(crate) struct Overrun {
    pub(crate) given: u64,
    pub(crate) kept: u64,
}

/// Carries the task out, in the child.
pub(crate) fn answer(task: &Task, dir: &Path) -> Result<Value> {
    let subject = subjects::find(&task.subject)
        .with_context(|| format!("{}: no such subject in this build", task.subject))?;
    let value = match task.measure {
        Measure::HotPath { threads, budget_ms } => {
            let budget = Duration::from_millis(budget_ms);
            serde_json::to_value(hot_path::measure(subject, threads, budget, dir)?)
        }
        Measure::Off { budget_ms } => {
            let budget = Duration::from_millis(budget_ms);
            serde_json::to_value(hot_path::measure_off(subject, budget))
        }
        Measure::LongRun { spans } => serde_json::to_value(long_run::measure(subject, spans, dir)?),
        Measure::VariedBytes { spans } => {
            serde_json::to_value(long_run::measure_varied_bytes(subject, spans, dir)?)
        }
        Measure::Overrun => serde_json::to_value(overrun(subject, dir)?),
        Measure::Sustained { per_second, seconds } => {
            serde_json::to_value(sustained::measure(subject, per_second, seconds, dir)?)
        }
        Measure::Memory { threads, length_ms } => {
            let length = Duration::from_millis(length_ms);
            serde_json::to_value(footprint::measure_memory(subject, threads, length, dir)?)
        }
        Measure::Idle { length_ms } => {
            let length = Duration::from_millis(length_ms);
            serde_json::to_value(footprint::measure_idle(subject, length, dir)?)
        }
        Measure::Longest { spans } => serde_json::to_value(stalls::measure(subject, spans, dir)?),
        Measure::Disturb { ref dir } => serde_json::to_value(stalls::disturb(dir)?),
    };
    Ok(value?)
}

fn overrun(subject: &dyn Subject, dir: &Path) -> Result<Option<Overrun>> {
    let session = subject.start(dir)?;
    let given = subject.overrun();
    let kept = session.finish()?.kept;
    Ok(given.zip(kept).map(|(given, kept)| Overrun { given: u64::from(given), kept }))
}
