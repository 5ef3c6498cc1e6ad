//! How long `analyze diff` of two large traces takes, against `analyze report` of both.

use std::path::Path;

use anyhow::{Context, Result};

use crate::analyze::{Run, generate, programs};
use crate::quantile::median;

const RECORDS: u64 = 10_000_000;

pub(crate) struct Timing {
    pub(crate) diff_s: f64,
    pub(crate) report_s: f64,
    pub(crate) ratio: f64,
    pub(crate) diff_peak_mib: f64,
}

/// Takes `analyze` as it finds it, and builds it if there is none.
pub(crate) fn measure(quick: bool, scratch: &Path) -> Result<Timing> {
    let analyze = programs::analyze(true)?;
    let (base, head) = (scratch.join("base.trace"), scratch.join("head.trace"));
    eprintln!("diff: generating {RECORDS} records");
    generate::trace(&base, RECORDS)?;
    std::fs::copy(&base, &head)?;
    let of =
        |command: &str| Run::new(&analyze, [command.as_ref(), base.as_os_str(), head.as_os_str()]);
    let (diff, report) = (of("diff"), of("report"));
    let (mut diffs, mut reports, mut ratios, mut peak) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
    for _ in 0..if quick { 3 } else { 7 } {
        let (a, b) = (diff.measure(scratch)?, report.measure(scratch)?);
        ratios.push(a.wall_s / b.wall_s);
        peak = f64::max(peak, a.peak_mib);
        diffs.push(a.wall_s);
        reports.push(b.wall_s);
    }
    std::fs::remove_file(&base)?;
    std::fs::remove_file(&head)?;
    let middle = |values: &[f64]| median(values).context("no rounds");
    Ok(Timing {
        diff_s: middle(&diffs)?,
        report_s: middle(&reports)?,
        ratio: middle(&ratios)?,
        diff_peak_mib: peak,
    })
}
