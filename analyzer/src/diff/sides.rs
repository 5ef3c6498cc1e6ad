//! The runs of a side, from traces and summaries, brought to one form.

use std::path::{Path, PathBuf};

use super::{
    folding::USUAL,
    provenance::is_same_run,
    reading::{Asked, read},
    run_summary::RunSummary,
    stored::Stored,
};
use crate::{Error, Result};

/// The runs of one side.
pub(super) struct Side {
    pub(super) runs: Vec<RunSummary>,
    /// The traces that they were made of, if all of them can be read again.
    pub(super) traces: Option<Vec<PathBuf>>,
}

impl Side {
    /// Reads all of `paths`; `name` is what the side is called.
    pub(super) fn read(name: &str, paths: &[PathBuf], asked: &Asked) -> Result<Self> {
        let mut side = Self { runs: Vec::new(), traces: Some(Vec::new()) };
        for path in paths {
            if path != Path::new("-") && Stored::is_one(path) {
                side.add_stored(path, asked)?;
            } else {
                side.runs.push(read(path, asked, true)?);
                match &mut side.traces {
                    Some(traces) if path != Path::new("-") => traces.push(path.clone()),
                    traces => *traces = None,
                }
            }
            let filtered = if asked.filter.is_empty() { "" } else { " that pass the filters" };
            if let Some(empty) = side.runs.iter().find(|run| run.names.is_empty()) {
                let what = format!("no spans and no work of devices{filtered}; nothing to compare");
                let run = if side.traces.is_some() {
                    String::new()
                } else {
                    format!("run {}: ", empty.label)
                };
                return Err(Error::of(path, format!("{run}{what}")));
            }
        }
        for (at, run) in side.runs.iter().enumerate() {
            if let Some(first) = side.runs[..at].iter().find(|it| is_same_run(it, run)) {
                return Err(Error::new(format!(
                    "{name}: {} is the same run as {}; runs are the unit, give each of them once",
                    run.label, first.label
                )));
            }
        }
        if side.runs.is_empty() {
            return Err(Error::new(format!("{name}: no runs; nothing to compare")));
        }
        Ok(side)
    }

    fn add_stored(&mut self, path: &Path, asked: &Asked) -> Result<()> {
        let filter = &asked.filter;
        let by_time =
            filter.from_ns.is_some() || filter.to_ns.is_some() || filter.last_ns.is_some();
        if by_time || !filter.tracks.is_empty() || filter.duration_ns.is_some() {
            let what = "a summary can be filtered by --name alone; give traces";
            return Err(Error::of(path, what));
        }
        let is_usual =
            asked.folds.len() == USUAL.len() && USUAL.iter().all(|fold| asked.folds.contains(fold));
        if !is_usual {
            let what = "names of a summary are folded as usual; leave --fold out, or give traces";
            return Err(Error::of(path, what));
        }
        let stored = Stored::read(path)?;
        if stored.runs.is_empty() {
            return Err(Error::of(path, "a summary of no runs; nothing to compare"));
        }
        self.traces = None;
        for mut run in stored.runs {
            run.names.retain(|it| filter.names.matches(&it.name));
            run.counters.retain(|it| filter.names.matches(&it.name));
            self.runs.push(run);
        }
        Ok(())
    }
}

/// Leaves the percentiles that all runs have, in one order.
pub(super) fn align(sides: &mut [&mut Side], asked: &[f64]) -> Result<()> {
    let in_all = |percent: &&f64| {
        let mut runs = sides.iter().flat_map(|side| &side.runs);
        runs.all(|run| run.percentiles.contains(percent))
    };
    let kept: Vec<f64> = asked.iter().filter(in_all).copied().collect();
    if kept.is_empty() && !asked.is_empty() {
        return Err(Error::new(
            "no percentile is in all summaries; write them with the same --percentiles",
        ));
    }
    for run in sides.iter_mut().flat_map(|side| &mut side.runs) {
        let places: Vec<usize> = kept
            .iter()
            .filter_map(|percent| run.percentiles.iter().position(|it| it == percent))
            .collect();
        for name in &mut run.names {
            name.quantiles = places.iter().map(|&at| name.quantiles[at]).collect();
        }
        run.percentiles.clone_from(&kept);
    }
    Ok(())
}
