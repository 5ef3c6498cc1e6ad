//! The command line: what can be asked, and the options that mean the same
//! everywhere. clap's types live here and in the `Args` of each report.

mod filters;
mod values;

use std::{
    io::{self, BufWriter, IsTerminal, Write},
    path::PathBuf,
};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::{
    Error, Exit, Result,
    budget::Budget,
    edit,
    filter::Filter,
    import, load,
    output::{self, Format, Selection, Style, TimeUnit},
    report,
};

pub use self::filters::Filters;
pub(crate) use self::values::parse_bytes;
pub(crate) use self::values::{parse_length, parse_percentile};

/// What a trace has to say: latencies, kernels, memory, errors, and what it was
/// doing when it died.
#[derive(Debug, Parser)]
#[command(name = "analyze", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything worth knowing about a trace, on one screen
    Report(report::overview::Args),
    /// Spans by name: how often, how long, how much of it their own
    Spans(report::spans::Args),
    /// Spans under the spans that they ran in
    Tree(report::tree::Args),
    /// What each thread and queue did with its time; of several traces, which is behind
    Threads(report::threads::Args),
    /// The longest spans and kernels: what they ran in, what ran in them and beside them
    Slow(report::slow::Args),
    /// What was done for each request, the longest first; `--request` elsewhere looks into one
    ///
    /// *wall* is from the first to the last sign of a request, *busy* the time that threads
    /// worked for it, added up; *events* is what they recorded, and devices with them. A record
    /// is a request's if it says so, or if its thread had entered the request when it began.
    Requests(report::requests::Args),
    /// How the durations of a name are distributed
    Hist(report::hist::Args),
    /// Spans by name for machines: every name, every column, JSON unless told otherwise
    Summary(report::summary::Args),
    /// Work of devices: kernels, copies and fills; busy and idle time, and why
    Kernels(report::kernels::Args),
    #[command(flatten)]
    Vocabulary(report::vocabulary::Command),
    /// A query over the tables of the trace (Polars SQL)
    #[cfg(feature = "sql")]
    Sql(report::sql::Args),
    /// Known by name alone, so that whoever asks learns why it is not there
    #[cfg(not(feature = "sql"))]
    #[command(hide = true, disable_help_flag = true)]
    Sql {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _rest: Vec<String>,
    },
    /// Whether runs got slower, name by name, and whose fault it is; a gate for CI
    ///
    /// Each side is a trace, several, or a summary written by `analyze summary -o base.json`; one
    /// trace is one run. Runs are the unit of every decision: five a side, measured in turns,
    /// tell a slowdown of 10 %; a single pair tells only large ones.
    ///
    /// Exits with 0 if nothing regressed, 1 if something did, 2 if something cannot be used, 3 if
    /// that cannot be decided: too little data, too much lost, another machine.
    Diff(Box<crate::diff::Args>),
    /// What the file is and where it comes from
    Info(report::info::Args),
    /// Whether the file is whole: damage, loss, clock; exits with 1 if it is damaged
    Check(report::check::Args),
    /// A script that repeats an error, from the library, function and arguments that it carries
    Repro(report::repro::Args),
    /// The trace in the form of another tool: Perfetto, Chrome, pprof, OpenTelemetry, Parquet, CSV and more
    Export(crate::export::Args),
    #[command(flatten)]
    Edit(edit::Command),
    /// Make a trace of other profilers' files: Chrome, PyTorch, XLA, Nsight, rocprofv3, or tables
    Import(import::Args),
    /// A completion script for your shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// The manual page
    Man,
}

impl Cli {
    /// Carries the command out.
    pub fn run(self) -> Result<Exit> {
        let mut exit = Exit::Ok;
        let (common, document) = match self.command {
            Command::Report(args) => report::overview::run(args)?,
            Command::Spans(args) => report::spans::run(args)?,
            Command::Kernels(args) => report::kernels::run(args)?,
            Command::Tree(args) => report::tree::run(args)?,
            Command::Threads(args) => report::threads::run(args)?,
            Command::Hist(args) => report::hist::run(args)?,
            Command::Slow(args) => report::slow::run(args)?,
            Command::Requests(args) => report::requests::run(args)?,
            Command::Summary(args) => report::summary::run(args)?,
            Command::Vocabulary(command) => command.run()?,
            #[cfg(feature = "sql")]
            Command::Sql(args) => report::sql::run(args)?,
            #[cfg(not(feature = "sql"))]
            Command::Sql { .. } => {
                return Err(Error::new(
                    "this build has no SQL; cargo install --path analyzer builds with it",
                ));
            }
            Command::Info(args) => report::info::run(args)?,
            Command::Check(args) => {
                let (common, document, verdict) = report::check::run(args)?;
                exit = verdict;
                (common, document)
            }
            Command::Diff(args) => return crate::diff::command::run(&args),
            Command::Repro(args) => return report::repro::run(&args),
            Command::Export(args) => return crate::export::run(args),
            Command::Edit(command) => return command.run(),
            Command::Import(args) => {
                import::run(&args)?;
                return Ok(Exit::Ok);
            }
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "analyze", &mut script);
                io::stdout().lock().write_all(&script)?;
                return Ok(Exit::Ok);
            }
            Command::Man => {
                clap_mangen::Man::new(Cli::command()).render(&mut io::stdout().lock())?;
                return Ok(Exit::Ok);
            }
        };
        match &common.output {
            None => document.print(&common.style(), &mut BufWriter::new(io::stdout().lock()))?,
            Some(path) => {
                load::refuse_to_replace(path, &common.traces)?;
                output::replace(path, |out| document.print(&common.style(), out))?;
            }
        }
        Ok(exit)
    }
}

/// Options of every command that reads traces.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Traces; `-` is standard input
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,

    /// When, where and what.
    #[command(flatten)]
    pub filters: Filters,
    /// Only durations in this performance category
    #[arg(long, help_heading = "Filters")]
    pub category: Option<CategoryName>,
    /// Only durations of at least this
    #[arg(long, value_name = "TIME", value_parser = parse_length, help_heading = "Filters")]
    pub min_duration: Option<f64>,
    /// Bounds between fast, normal, slow and very slow
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', num_args = 1, value_parser = parse_length,
          default_value = "1ms,10ms,100ms", help_heading = "Filters")]
    pub bounds: Vec<f64>,

    /// Which percentiles
    #[arg(long, value_name = "P,...", value_delimiter = ',', value_parser = parse_percentile,
          default_value = "50,95,99", help_heading = "Output")]
    pub percentiles: Vec<f64>,
    /// Which columns, by key; `+key` adds to the usual ones
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', help_heading = "Output")]
    pub columns: Vec<String>,
    /// Order of rows, by key; `-key` puts the largest first
    #[arg(long, value_name = "KEY,...", allow_hyphen_values = true, help_heading = "Output")]
    pub sort: Option<String>,
    /// How many rows; 0 for all [default: what fits for people, all for machines]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub limit: Option<usize>,
    /// Unit of durations, for people
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    pub time_unit: TimeUnit,
    /// In which form to print
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<Format>,
    /// Where to print, if not to standard output: written beside it, then renamed
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// The most memory for what grows with the trace, tables, kernels, calls, allocations: 500M,
    /// 4G; what does not fit is refused [default: 3/4 of what is available]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub max_memory: Option<u64>,
    /// When to use colours; NO_COLOR is respected
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal
    #[default]
    Auto,
    /// Also into a file
    Always,
    /// Not at all
    Never,
}

/// A performance category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CategoryName {
    /// Below the first bound
    Fast,
    /// Up to the second
    Normal,
    /// Up to the third
    Slow,
    /// Above it
    VerySlow,
}

/// What the categories are called, in order.
pub const CATEGORIES: [&str; 4] = ["fast", "normal", "slow", "very slow"];

impl Common {
    /// In which form to print.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_default()
    }

    /// Whether machines read it: they get every row and column.
    pub fn for_machines(&self) -> bool {
        matches!(self.format(), Format::Json | Format::Csv)
    }

    /// How many rows, if not all of them; `usual` is what people get unasked.
    pub fn limit(&self, usual: usize) -> Option<usize> {
        match self.limit {
            Some(0) => None,
            Some(limit) => Some(limit),
            None if self.for_machines() => None,
            None => Some(usual),
        }
    }

    /// Whether a column may be shown or sorted by: what cannot be need not be
    /// worked out.
    pub fn needs(&self, key: &str) -> bool {
        let usual_ones = self.columns.iter().all(|column| column.starts_with('+'));
        let is_named = |column: &String| column.trim_start_matches('+') == key;
        let sort = self.sort.as_deref().map(Selection::parse_sort).unwrap_or_default();
        usual_ones || self.columns.iter().any(is_named) || sort.iter().any(|by| by.column == key)
    }

    /// Columns and order as asked for.
    pub fn selection(&self) -> Selection {
        Selection {
            columns: self.columns.clone(),
            sort: self.sort.as_deref().map(Selection::parse_sort).unwrap_or_default(),
            limit: self.limit.filter(|&limit| limit > 0),
        }
    }

    /// How much memory may be taken for what grows with the trace.
    pub fn budget(&self) -> Budget {
        Budget::new(self.max_memory)
    }

    /// What is in.
    pub fn filter(&self) -> Result<Filter> {
        let [first, second, third] = self.bounds[..] else {
            return Err(Error::new("--bounds: give three, such as 1ms,10ms,100ms"));
        };
        if !(first < second && second < third) {
            return Err(Error::new("--bounds: each must be longer than the one before"));
        }
        let in_category = match self.category {
            None => 0.0..f64::INFINITY,
            Some(CategoryName::Fast) => 0.0..first,
            Some(CategoryName::Normal) => first..second,
            Some(CategoryName::Slow) => second..third,
            Some(CategoryName::VerySlow) => third..f64::INFINITY,
        };
        let least = self.min_duration.unwrap_or(0.0).max(in_category.start);
        let bounded = self.category.is_some() || self.min_duration.is_some();
        let duration_ns = bounded.then_some(least..in_category.end);
        Ok(Filter { duration_ns, ..self.filters.filter()? })
    }

    /// How to print on this terminal.
    pub fn style(&self) -> Style {
        let terminal = self.output.is_none() && io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let width = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
        Style {
            format: self.format(),
            time_unit: self.time_unit,
            color: match self.color {
                Color::Auto => terminal && !no_color,
                Color::Always => true,
                Color::Never => false,
            },
            width: width.or_else(|| terminal.then(output::terminal_width).flatten()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
