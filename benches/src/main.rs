//! Measures ringscope against named peers and kills it on purpose, and prints
//! what came of it: a table, or one JSON object with `--json`.
//!
//! Nothing here is a pass or a fail beyond what a figure takes for granted: a
//! run whose spans were lost, or whose traces did not open, exits with 1.

mod analyze;
mod child;
mod counter;
mod crash;
mod diff;
mod floor;
mod gate;
mod gpu;
mod interchange;
mod machine;
mod process_cost;
mod quantile;
mod random;
mod record;
mod tracing;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use serde::{Deserialize, Serialize};

#[derive(Parser)]
#[command(name = "ringscope-benches", about, version)]
/// Measures ringscope against named peers, as ratios taken in one run.
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The price of recording a span, here and in the libraries it competes with
    Record(Options),
    /// What is left of a recording whose process is killed
    Crash {
        #[command(flatten)]
        options: Options,
        /// How many processes to kill
        #[arg(long, default_value_t = 200)]
        trials: u64,
        /// Repeat a run that printed this seed
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Reading a large trace, here and as Parquet with Polars
    Analyze {
        #[command(flatten)]
        options: Options,
        /// How many records the trace has [default: 100 million, 10 million if quick]
        #[arg(long)]
        records: Option<u64>,
    },
    /// Importing a large PyTorch trace and exporting to Parquet, against Python's json and Polars
    Interchange {
        #[command(flatten)]
        options: Options,
        /// How many records are exported [default: 10 million]
        #[arg(long)]
        records: Option<u64>,
    },
    /// How often `analyze diff` cries wolf, and how often it finds what is slower
    Diff {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        asked: diff::Asked,
    },
    /// What `analyze diff` makes of real runs, of the same code and of slower code
    Gate {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        asked: gate::Asked,
    },
    /// Spans of `tracing`, and a candle model that has them
    Tracing(Options),
    /// What profiling GPU kernels costs the host and the device, against wgpu-profiler
    Gpu(Options),
    /// One measurement in a process of its own; started by the others
    #[command(hide = true)]
    Child { task: String, result: PathBuf },
}

/// Options of every bench.
#[derive(Args)]
struct Options {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// End within 45 s and name what was left out
    #[arg(long)]
    quick: bool,
    /// Where to write traces; the disk under it is the one measured
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Options {
    fn scratch(&self) -> Result<tempfile::TempDir> {
        let dir = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        tempfile::Builder::new()
            .prefix("ringscope-benches-")
            .tempdir_in(&dir)
            .with_context(|| format!("{}: cannot create a directory for traces", dir.display()))
    }
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What a child process is started for.
#[derive(Deserialize, Serialize)]
enum Task {
    Record(record::Task),
    Crash(crash::Load),
    Analyze(analyze::Run),
    Tracing(tracing::Task),
}

fn run(cli: &Cli) -> Result<ExitCode> {
    match &cli.what {
        What::Record(options) => {
            let scratch = options.scratch()?;
            let figures = record::run(options.quick, scratch.path())?;
            print(options, &figures, || record::table(&figures))?;
            Ok(complain(&figures.complaints()))
        }
        What::Crash { options, trials, seed } => {
            let scratch = options.scratch()?;
            let figures = crash::run(options.quick, *trials, *seed, scratch.path())?;
            print(options, &figures, || crash::table(&figures))?;
            Ok(complain(&figures.complaints()))
        }
        What::Analyze { options, records } => {
            let scratch = options.scratch()?;
            let figures = analyze::run(options.quick, *records, scratch.path())?;
            print(options, &figures, || analyze::table(&figures))?;
            Ok(complain(&figures.complaints()))
        }
        What::Interchange { options, records } => {
            let scratch = options.scratch()?;
            let figures = interchange::run(options.quick, *records, scratch.path())?;
            print(options, &figures, || interchange::table(&figures))?;
            Ok(complain(&figures.complaints()))
        }
        What::Diff { options, asked } => {
            let scratch = options.scratch()?;
            let figures = diff::run(asked, options.quick, scratch.path())?;
            print(options, &figures, || diff::table(&figures))?;
            Ok(ExitCode::SUCCESS)
        }
        What::Gate { options, asked } => {
            let scratch = options.scratch()?;
            let figures = gate::run(asked, options.quick, scratch.path())?;
            print(options, &figures, || gate::table(&figures))?;
            Ok(ExitCode::SUCCESS)
        }
        What::Tracing(options) => {
            let scratch = options.scratch()?;
            let figures = tracing::run(options.quick, scratch.path())?;
            print(options, &figures, || tracing::table(&figures))?;
            Ok(complain(&figures.complaints()))
        }
        What::Gpu(options) => {
            let scratch = options.scratch()?;
            let figures = gpu::run(options.quick, scratch.path())?;
            print(options, &figures, || gpu::table(&figures))?;
            Ok(complain(&figures.complaints()))
        }
        What::Child { task, result } => {
            let answer = match serde_json::from_str(task).context("task of a child")? {
                Task::Record(task) => record::answer(&task, &child::scratch(result))?,
                Task::Crash(load) => serde_json::to_value(crash::be_killed(&load)?)?,
                Task::Analyze(run) => serde_json::to_value(analyze::answer(&run)?)?,
                Task::Tracing(task) => tracing::answer(&task, &child::scratch(result))?,
            };
            std::fs::write(result, serde_json::to_string(&answer)?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn print(
    options: &Options,
    figures: &impl Serialize,
    table: impl FnOnce() -> String,
) -> Result<()> {
    if options.json {
        println!("{}", serde_json::to_string_pretty(figures)?);
    } else {
        println!("{}", table());
    }
    Ok(())
}

fn complain(complaints: &[String]) -> ExitCode {
    for complaint in complaints {
        eprintln!("{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
