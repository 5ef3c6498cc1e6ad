//! `interchange`: a PyTorch trace in, against Python's json; Parquet out, against Polars'
//! own writer of the same frame.
//!
//! All are whole programs that take turns, as in `analyze`. The times of `analyze` are those
//! of its processes; those of Python are of the work alone, without starting it, and without
//! getting the frame into memory.

mod figures;
mod kineto;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::analyze::timing::Cost;
use crate::analyze::{Run, generate, programs, rounded};
use crate::machine::{Machine, crate_version};
use crate::quantile::median;

pub(crate) use figures::{Figures, table};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/polars/interchange.py");
/// Of PyTorch's JSON: 60 MB.
const EVENTS: u64 = 240_000;
const RECORDS: u64 = 10_000_000;
const QUICK_RECORDS: u64 = 4_000_000;

/// What the script prints.
#[derive(Deserialize)]
struct Answer {
    seconds: f64,
    events: Option<u64>,
    rows: Option<u64>,
    bytes: Option<u64>,
}

/// Measures everything.
pub(crate) fn run(quick: bool, records: Option<u64>, scratch: &Path) -> Result<Figures> {
    let records = records.unwrap_or(if quick { QUICK_RECORDS } else { RECORDS });
    ensure!(records > 0, "--records: give at least one");
    let mut figures = Figures {
        machine: Machine::describe(scratch),
        versions: BTreeMap::new(),
        quick,
        import_events: EVENTS,
        import_file_mib: 0.0,
        import_s: 0.0,
        python_json_s: None,
        import_over_python_json: None,
        import_peak_over_file: 0.0,
        peers_s: BTreeMap::new(),
        export_records: records,
        parquet_export_s: 0.0,
        parquet_export_peak_mib: 0.0,
        polars_write_s: None,
        parquet_export_over_polars: None,
        parquet_bytes_per_record: 0.0,
        polars_bytes_per_record: None,
        parquet_size_over_polars: None,
        differences: Vec::new(),
        omitted: Vec::new(),
        omitted_because: BTreeMap::new(),
    };
    let mut note = |name: &str, version: Option<&str>| {
        figures.versions.extend(version.map(|version| (name.to_owned(), version.to_owned())));
    };
    note("ringscope-analyzer", crate_version("ringscope-analyzer"));
    for package in ["duckdb", "orjson", "polars"] {
        note(package, programs::python_version_of(package));
    }
    let bench = Bench {
        analyze: programs::analyze(quick)?,
        python: programs::python().map_err(|error| format!("{error:#}")),
        rounds: if quick { 3 } else { 5 },
        scratch,
    };
    if quick && records < RECORDS {
        let why = format!("a quick run exports {records} records instead of {RECORDS}");
        figures.omit("parquet_export_over_polars of 10 million records", why);
    }
    bench.import(&mut figures)?;
    bench.export(&mut figures)?;
    Ok(figures)
}

struct Bench<'a> {
    analyze: std::path::PathBuf,
    /// Or why there is none.
    python: std::result::Result<std::path::PathBuf, String>,
    rounds: usize,
    scratch: &'a Path,
}

impl Bench<'_> {
    fn import(&self, figures: &mut Figures) -> Result<()> {
        eprintln!("interchange: generating {EVENTS} events as PyTorch writes them");
        let json = self.scratch.join("torch.json");
        let bytes = kineto::trace(&json, EVENTS)?;
        figures.import_file_mib = rounded(bytes as f64 / (1 << 20) as f64);
        let trace = self.scratch.join("torch.trace");
        let import = Run::new(
            &self.analyze,
            ["import".as_ref(), json.as_os_str(), "-o".as_ref(), trace.as_os_str()],
        );
        let words = ["--format", "json"].map(AsRef::as_ref);
        let kernels = Run::new(
            &self.analyze,
            ["kernels".as_ref(), trace.as_os_str()].into_iter().chain(words),
        );
        let (mut ours, mut theirs, mut peak) = (Vec::new(), Vec::new(), 0.0_f64);
        let mut peers: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for round in 0..self.rounds {
            eprintln!("interchange: importing, round {} of {}", round + 1, self.rounds);
            // `import` replaces nothing.
            if trace.exists() {
                std::fs::remove_file(&trace)?;
            }
            let (import, kernels) = (import.measure(self.scratch)?, kernels.measure(self.scratch)?);
            ours.push(import.wall_s + kernels.wall_s);
            peak = peak.max(import.peak_mib).max(kernels.peak_mib);
            let peers_asked = round == 0 && !figures.quick;
            let asked: &[&str] =
                if peers_asked { &["json", "orjson", "duckdb"] } else { &["json"] };
            for (python, with) in
                self.python.iter().flat_map(|it| asked.iter().map(move |w| (it, *w)))
            {
                let words = [SCRIPT.as_ref(), "parse".as_ref(), json.as_os_str(), with.as_ref()];
                let measured = Run::new(python, words).measure(self.scratch);
                match measured.and_then(|cost| parsed(&cost)) {
                    Ok(answer) if with == "json" => {
                        theirs.push(answer.seconds);
                        if answer.events != Some(EVENTS) {
                            figures.differences.push(format!("Python reads {:?}", answer.events));
                        }
                    }
                    Ok(answer) => peers.entry(with).or_default().push(answer.seconds),
                    Err(error) => figures.omit(&format!("peers_s.{with}"), format!("{error:#}")),
                }
            }
            if round == 0 {
                check_kernels(&kernels, figures)?;
            }
        }
        figures.import_s = rounded(median(&ours).unwrap_or(0.0));
        figures.import_peak_over_file = rounded(peak / figures.import_file_mib);
        figures.python_json_s = median(&theirs).map(rounded);
        figures.import_over_python_json = ratio(&ours, &theirs);
        figures.peers_s = peers
            .into_iter()
            .filter_map(|(peer, all)| Some((peer.to_owned(), rounded(median(&all)?))))
            .collect();
        if let Err(why) = &self.python {
            figures.omit("import_over_python_json", why);
        }
        if figures.quick {
            figures.omit("peers_s", "left out of a quick run");
        }
        Ok(())
    }

    fn export(&self, figures: &mut Figures) -> Result<()> {
        let records = figures.export_records;
        eprintln!("interchange: generating {records} records");
        let (trace, ours) = (self.scratch.join("large.trace"), self.scratch.join("ours.parquet"));
        generate::trace(&trace, records)?;
        let words = ["export".as_ref(), trace.as_os_str(), "--to".as_ref(), "parquet".as_ref()];
        let to = ["-o".as_ref(), ours.as_os_str()];
        let export = Run::new(&self.analyze, words.into_iter().chain(to));
        let theirs = self.scratch.join("polars.parquet");
        let (mut own, mut peer): (Vec<Cost>, Vec<f64>) = Default::default();
        for round in 0..self.rounds {
            eprintln!("interchange: exporting, round {} of {}", round + 1, self.rounds);
            own.push(export.measure(self.scratch)?);
            let Ok(python) = &self.python else { continue };
            let words = [SCRIPT.as_ref(), "write".as_ref(), ours.as_os_str(), theirs.as_os_str()];
            let answer = parsed(&Run::new(python, words).measure(self.scratch)?)?;
            peer.push(answer.seconds);
            if answer.rows != Some(records) {
                figures.differences.push(format!("Polars reads {:?} rows", answer.rows));
            }
            let per_record = answer.bytes.unwrap_or(0) as f64 / records as f64;
            figures.polars_bytes_per_record = Some(rounded(per_record));
        }
        let walls: Vec<f64> = own.iter().map(|cost| cost.wall_s).collect();
        figures.parquet_export_s = rounded(median(&walls).unwrap_or(0.0));
        figures.parquet_export_peak_mib =
            rounded(own.iter().map(|cost| cost.peak_mib).fold(0.0, f64::max));
        let bytes = ours.metadata()?.len();
        figures.parquet_bytes_per_record = rounded(bytes as f64 / records as f64);
        figures.polars_write_s = median(&peer).map(rounded);
        figures.parquet_export_over_polars = ratio(&walls, &peer);
        figures.parquet_size_over_polars = figures
            .polars_bytes_per_record
            .map(|theirs| rounded(figures.parquet_bytes_per_record / theirs));
        if let Err(why) = &self.python {
            figures.omit("parquet_export_over_polars", why);
            figures.omit("parquet_size_over_polars", why);
        }
        Ok(())
    }
}

fn parsed(cost: &Cost) -> Result<Answer> {
    serde_json::from_str(&cost.output).context("output of interchange.py")
}

/// A figure for a wrong answer would be none.
fn check_kernels(kernels: &Cost, figures: &mut Figures) -> Result<()> {
    let document: serde_json::Value = serde_json::from_str(&kernels.output)?;
    let rows = document["rows"].as_array().context("kernels printed no rows")?;
    let count: u64 = rows.iter().filter_map(|row| row["count"].as_u64()).sum();
    if count != EVENTS / 3 {
        figures.differences.push(format!("{count} kernels of {} were found", EVENTS / 3));
    }
    Ok(())
}

/// The median of the ratios of each round.
fn ratio(ours: &[f64], theirs: &[f64]) -> Option<f64> {
    let each: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    median(&each).map(rounded)
}
