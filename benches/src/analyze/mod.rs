//! `analyze`: reading a large trace, against the same rows in zstd Parquet read by
//! Polars' own lazy engine.
//!
//! Both sides are whole programs, started by the same code and taking turns: the
//! `analyze` that people run, and Python with Polars as its authors publish it. Both
//! read a file that is in the page cache. What they print is compared too: a figure for a wrong answer
//! would be none.

mod figures;
pub(crate) mod generate;
mod polars;
pub(crate) mod programs;
mod rows;
mod timing;

use std::path::Path;

use anyhow::{Result, ensure};

use crate::machine::{Machine, crate_version};
use crate::quantile::median;
use figures::rounded;
use polars::Polars;
use timing::Cost;

pub(crate) use figures::{Figures, table};
pub(crate) use timing::{Run, answer};

const MILLION: u64 = 1_000_000;
const RECORDS: u64 = 100 * MILLION;
const QUICK_RECORDS: u64 = 10 * MILLION;
/// Records of a small trace, for the time from start to finish.
const SMALL: u64 = 10_000;

/// How often everything takes its turn.
fn rounds(quick: bool) -> usize {
    if quick { 3 } else { 5 }
}

/// Measures everything.
pub(crate) fn run(quick: bool, records: Option<u64>, scratch: &Path) -> Result<Figures> {
    let records = records.unwrap_or(if quick { QUICK_RECORDS } else { RECORDS });
    ensure!(records > 0, "--records: give at least one");
    let mut figures = Figures::new(Machine::describe(scratch), quick, records);
    let mut note = |name: &str, version: Option<&str>| {
        figures.versions.extend(version.map(|version| (name.to_owned(), version.to_owned())));
    };
    note("ringscope-analyzer", crate_version("ringscope-analyzer"));
    note("polars", programs::python_version_of("polars"));
    let analyze = programs::analyze(quick)?;

    let trace = scratch.join("large.trace");
    eprintln!("analyze: generating {records} records");
    let bytes = generate::trace(&trace, records)?;
    figures.bytes_per_record = rounded(bytes as f64 / records as f64);

    let polars = match Polars::prepare(&trace, scratch) {
        Ok(polars) => {
            figures.polars_engines = Some(polars.engines);
            figures.parquet_bytes_per_record =
                Some(rounded(polars.parquet.metadata()?.len() as f64 / records as f64));
            Some(polars)
        }
        Err(error) => {
            for key in ["polars_parquet_s", "group_by_over_polars", "plain_over_polars"] {
                figures.omit(key, format!("{error:#}"));
            }
            None
        }
    };
    compare(&mut figures, &analyze, &trace, polars.as_ref(), scratch)?;
    if records >= MILLION {
        figures.growth.insert(millions(records), per_record(figures.group_by_s, records));
    }
    std::fs::remove_file(&trace)?;

    for smaller in [records / 100, records / 10].into_iter().filter(|&it| it >= MILLION) {
        generate::trace(&trace, smaller)?;
        let group_by = group_by(&analyze, &trace, true);
        let seconds = median_wall(&repeat(&group_by, rounds(quick), scratch)?);
        figures.growth.insert(millions(smaller), per_record(seconds, smaller));
    }
    for (key, millions) in [("growth.1", 1), ("growth.10", 10), ("growth.100", 100)] {
        if !figures.growth.contains_key(&millions) {
            figures.omit(key, format!("the largest trace of this run has {records} records"));
        }
    }
    generate::trace(&trace, SMALL)?;
    let small = repeat(&report(&analyze, &trace), 5 * rounds(quick), scratch)?;
    figures.start_ms = rounded(1e3 * median_wall(&small));
    Ok(figures)
}

/// Everything that reads the large trace, in turns.
fn compare(
    figures: &mut Figures,
    analyze: &Path,
    trace: &Path,
    polars: Option<&Polars>,
    scratch: &Path,
) -> Result<()> {
    let ours = [
        group_by(analyze, trace, true),
        group_by(analyze, trace, false),
        spans(analyze, trace),
        report(analyze, trace),
    ];
    let mut subjects: Vec<Subject<'_>> =
        ours.iter().map(|it| -> Subject<'_> { Box::new(|| it.measure(scratch)) }).collect();
    if let Some(polars) = polars {
        subjects.push(Box::new(|| polars.group_by(true, scratch)));
        subjects.push(Box::new(|| polars.group_by(false, scratch)));
    }
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); subjects.len()];
    for round in 0..rounds(figures.quick) {
        eprintln!("analyze: round {} of {}", round + 1, rounds(figures.quick));
        for at in 0..subjects.len() {
            // Whoever comes after the peer finds a colder cache, so all do in turn.
            let at = (at + round) % subjects.len();
            costs[at].push(subjects[at]()?);
        }
    }
    figures.group_by_s = rounded(median_wall(&costs[0]));
    figures.group_by_cpu_s = rounded(median_of(&costs[0], |cost| cost.cpu_s));
    figures.peak_mib = rounded(most(&costs[0]));
    figures.plain_s = rounded(median_wall(&costs[1]));
    figures.spans_over_group_by = ratio(&costs[2], &costs[0]);
    figures.report_s = rounded(median_wall(&costs[3]));
    figures.report_over_group_by = ratio(&costs[3], &costs[0]);
    figures.report_peak_mib = rounded(most(&costs[3]));
    if let [_, _, _, _, group_by, plain] = &costs[..] {
        figures.polars_parquet_s = Some(rounded(median_wall(group_by)));
        figures.polars_cpu_s = Some(rounded(median_of(group_by, |cost| cost.cpu_s)));
        figures.polars_peak_mib = Some(rounded(most(group_by)));
        figures.polars_plain_s = Some(rounded(median_wall(plain)));
        figures.group_by_over_polars = Some(ratio(&costs[0], group_by));
        figures.plain_over_polars = Some(ratio(&costs[1], plain));
        for (ours, theirs) in [(&costs[0], group_by), (&costs[1], plain)] {
            figures.differences.extend(rows::differences(&ours[0].output, &theirs[0].output)?);
        }
    }
    Ok(())
}

/// Something that is measured.
type Subject<'a> = Box<dyn Fn() -> Result<Cost> + 'a>;

/// The question that both answer, as one asks `analyze`.
fn group_by(analyze: &Path, trace: &Path, percentiles: bool) -> Run {
    let columns = if percentiles {
        "name,count,total_ns,mean_ns,p50_ns,p95_ns,p99_ns,max_ns"
    } else {
        "name,count,total_ns,mean_ns,max_ns"
    };
    let trace = trace.as_os_str();
    let words = ["--format", "json", "--columns", columns].map(AsRef::as_ref);
    Run::new(analyze, ["spans".as_ref(), trace].into_iter().chain(words))
}

/// With everything that `spans` tells unasked, self time among it.
fn spans(analyze: &Path, trace: &Path) -> Run {
    Run::new(analyze, ["spans".as_ref(), trace.as_os_str()])
}

fn report(analyze: &Path, trace: &Path) -> Run {
    Run::new(analyze, ["report".as_ref(), trace.as_os_str()])
}

fn repeat(run: &Run, times: usize, scratch: &Path) -> Result<Vec<Cost>> {
    (0..times).map(|_| run.measure(scratch)).collect()
}

fn median_of(costs: &[Cost], of: fn(&Cost) -> f64) -> f64 {
    median(&costs.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0)
}

fn median_wall(costs: &[Cost]) -> f64 {
    median_of(costs, |cost| cost.wall_s)
}

fn most(costs: &[Cost]) -> f64 {
    costs.iter().map(|cost| cost.peak_mib).fold(0.0, f64::max)
}

/// The median of the ratios of each round.
fn ratio(ours: &[Cost], theirs: &[Cost]) -> f64 {
    let each = ours.iter().zip(theirs).map(|(ours, theirs)| ours.wall_s / theirs.wall_s);
    rounded(median(&each.collect::<Vec<_>>()).unwrap_or(0.0))
}

fn millions(records: u64) -> u64 {
    records / MILLION
}

fn per_record(seconds: f64, records: u64) -> f64 {
    rounded(1e9 * seconds / records as f64)
}
