//! `export`: traces in the form that another tool reads.
//!
//! One small file per format, each behind `Exporter`. Events come to it one by one
//! from `events`, as the filter lets them; nothing that lists events holds more
//! than a few chunks in memory, however long the trace. Formats that sum up (folded
//! stacks, pprof, OpenMetrics) hold what they sum up by.
//!
//! Times are whole nanoseconds. A counter that is finer is rounded at the start and at
//! the end of a span and not in between, so that what is inside of a span stays inside;
//! a duration may therefore differ by one nanosecond from what a report says.

#[cfg(feature = "parquet")]
mod arrow;
mod chrome;
#[cfg(feature = "parquet")]
mod columns;
mod counters;
mod csv;
mod events;
mod fields;
mod folded;
mod jsonl;
mod lanes;
mod openmetrics;
mod otlp;
#[cfg(feature = "parquet")]
mod parquet;
mod perfetto;
mod pprof;
mod protobuf;

use std::io::{self, BufWriter, IsTerminal, Write};

use self::events::Source;
use crate::{Error, Exit, Result, cli::Common, load, output, report::Context};

/// Options of `export`.
// `--to` says here to what; the time that it is elsewhere is `--until`.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("to", |arg| arg.long("until")))]
#[command(mut_args(|arg| if IGNORED.contains(&arg.get_id().as_str()) { arg.hide(true) } else { arg }))]
pub struct Args {
    /// To which form
    #[arg(id = "target", long = "to", value_enum, value_name = "FORMAT")]
    target: Target,
    /// Keep threads and queues apart, in folded stacks and pprof
    #[arg(long)]
    per_track: bool,
    #[command(flatten)]
    common: Common,
}

/// Options of reports that mean nothing here.
const IGNORED: [&str; 7] =
    ["percentiles", "columns", "sort", "limit", "time_unit", "format", "color"];

/// What to export to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// A row for each event; fields are JSON in the last column
    Csv,
    /// An object for each event, one a line
    Jsonl,
    /// Trace events in JSON: chrome://tracing, Perfetto, Speedscope
    Chrome,
    /// Perfetto's protobuf
    Perfetto,
    /// Stacks with their own time in nanoseconds: flamegraph.pl, inferno, Speedscope
    Folded,
    /// profile.proto: stacks with their number and own time
    Pprof,
    /// Counts, errors and histograms by name: Prometheus and what reads its text
    Openmetrics,
    /// OpenTelemetry's spans in JSON, one request a line
    OtlpJson,
    /// The rows of `csv` as Parquet, groups by time: DuckDB, Spark, Polars, pandas
    Parquet,
    /// The same as an Arrow file
    Arrow,
}

impl Target {
    fn is_binary(self) -> bool {
        matches!(self, Target::Perfetto | Target::Pprof | Target::Parquet | Target::Arrow)
    }

    fn exporter(self, per_track: bool) -> Result<Box<dyn Exporter>> {
        Ok(match self {
            Target::Csv => Box::new(csv::Csv),
            Target::Jsonl => Box::new(jsonl::Jsonl),
            Target::Chrome => Box::new(chrome::Chrome),
            Target::Perfetto => Box::new(perfetto::Perfetto),
            Target::Folded => Box::new(folded::Folded { per_track }),
            Target::Pprof => Box::new(pprof::Pprof { per_track }),
            Target::Openmetrics => Box::new(openmetrics::OpenMetrics),
            Target::OtlpJson => Box::new(otlp::Otlp),
            #[cfg(feature = "parquet")]
            Target::Parquet => Box::new(parquet::Parquet),
            #[cfg(feature = "parquet")]
            Target::Arrow => Box::new(arrow::Arrow),
            #[cfg(not(feature = "parquet"))]
            Target::Parquet | Target::Arrow => {
                return Err(Error::new(
                    "--to: this build has neither Parquet nor Arrow; cargo install --path analyzer \
                     builds with them",
                ));
            }
        })
    }
}

/// A format.
trait Exporter {
    /// Writes everything that is in.
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()>;
}

/// Carries the command out.
pub fn run(args: Args) -> Result<Exit> {
    let Args { target, per_track, common } = args;
    let exporter = target.exporter(per_track)?;
    if target.is_binary() && common.output.is_none() && io::stdout().is_terminal() {
        return Err(Error::new(
            "standard output: is a terminal, and this form is binary; give -o FILE",
        ));
    }
    refuse_options_of_reports(&common)?;
    if let Some(path) = &common.output {
        load::refuse_to_replace(path, &common.traces)?;
    }
    let context = Context::open(common)?;
    let source = Source::new(&context);
    match &context.common.output {
        None => write(&*exporter, &source, &mut BufWriter::new(io::stdout().lock()))?,
        Some(path) => output::replace(path, |out| write(&*exporter, &source, out))?,
    }
    crate::report::about::warn_unreadable(&context.traces);
    Ok(Exit::Ok)
}

/// Whoever gives one expects something of it.
fn refuse_options_of_reports(common: &Common) -> Result<()> {
    let given = [
        ("--columns", !common.columns.is_empty()),
        ("--sort", common.sort.is_some()),
        ("--limit", common.limit.is_some()),
        ("--format", common.format.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Error::new(format!(
            "{option}: is for reports; choose events with --from, --until, --name or --track, and \
             the form with --to"
        ))),
        None => Ok(()),
    }
}

fn write(exporter: &dyn Exporter, source: &Source<'_>, out: &mut impl Write) -> Result<()> {
    exporter.export(source, out)?;
    out.flush()?;
    Ok(())
}
