//! `diff` on the command line.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use clap::ValueEnum;

use super::{
    attribution::attribute,
    circumstances::{self, Remark},
    decision::{Decision, Design, Rule, Verdict, decide},
    folding::{Fold, USUAL},
    gate::{self, gate},
    github, json, junit, markdown,
    noise::LEAST_NAMES_SINGLE,
    perf_budget::PerfBudget,
    placing,
    reading::Asked,
    run_summary::RunSummary,
    sides::{Side, align},
    tables,
    view::View,
};
use crate::{
    Error, Exit, Result,
    cli::{Color, Filters, parse_percentile},
    load,
    output::{self, Format, Style, TimeUnit, date},
};

/// Options of `diff`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Base and head, a trace or a summary each
    #[arg(value_name = "TRACE", num_args = 0..=2)]
    sides: Vec<PathBuf>,
    /// Runs of the base: traces and summaries
    #[arg(long, value_name = "TRACE", num_args = 1.., conflicts_with = "sides", requires = "head")]
    base: Vec<PathBuf>,
    /// Runs of the head
    #[arg(long, value_name = "TRACE", num_args = 1.., conflicts_with = "sides", requires = "base")]
    head: Vec<PathBuf>,

    /// What makes the exit code 1
    #[arg(long, value_enum, default_value_t, help_heading = "Gate")]
    fail_on: FailOn,
    /// Exit with 3 if anything that is gated is inconclusive
    #[arg(long, help_heading = "Gate")]
    fail_on_inconclusive: bool,
    /// Budgets and permissions by name [default: perf-budget.toml, if it is there]
    #[arg(long, value_name = "FILE", help_heading = "Gate")]
    budget: Option<PathBuf>,
    /// Exit with 3 if a trace lost more than this part of its events
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, default_value = "0.1", help_heading = "Gate")]
    max_loss: f64,
    /// Fail if everything together got slower by more than this
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, default_value = "10", help_heading = "Gate")]
    max_common: f64,

    /// Changes below this do not count; 5 for one run a side
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, help_heading = "Decision")]
    min_effect: Option<f64>,
    /// A name is ok if a slowdown beyond this can be excluded, and inconclusive if not
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, default_value = "10", help_heading = "Decision")]
    tolerance: f64,
    /// Which percentiles, besides the mean
    #[arg(long, value_name = "P,...", value_delimiter = ',', value_parser = parse_percentile,
          default_values = ["50", "95", "99"], help_heading = "Decision")]
    percentiles: Vec<f64>,
    /// What of names is folded before they are matched; `--fold=` for nothing
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', num_args = 0..=1, require_equals = true,
          value_parser = parse_fold, help_heading = "Decision")]
    fold: Option<Vec<Folds>>,

    #[command(flatten)]
    filters: Filters,

    /// In which form to print
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    format: Form,
    /// Where to print, if not to standard output
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Also write a file in another form: markdown=comment.md; may be given several times
    #[arg(long, value_name = "FORM=FILE", value_parser = parse_also, help_heading = "Output")]
    also: Vec<(Form, PathBuf)>,
    /// How many rows; 0 for all [default: what changed, for people]
    #[arg(long, value_name = "N", help_heading = "Output")]
    limit: Option<usize>,
    /// Unit of durations, for people
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    time_unit: TimeUnit,
    /// When to use colours; NO_COLOR is respected
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    color: Color,
}

const EXAMPLES: &str = "\
Examples:
  analyze diff base.trace head.trace
  analyze diff --base b1.trace b2.trace b3.trace --head h1.trace h2.trace h3.trace
  analyze summary b*.trace -o base.json
  analyze diff base.json head.trace --format github --also markdown=comment.md

Columns: `delta %` is head against base as measured; `own %` is without what all names \
share, with its 95 % interval; `share %` is the name's part of the end-to-end change.";

/// What makes the exit code 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A name that is slower and may not be
    #[default]
    Regression,
    /// Nothing
    Never,
}

/// In which form to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    #[default]
    Table,
    /// For a comment on a pull request
    Markdown,
    /// Everything, with a schema version
    Json,
    /// A row for each name
    Csv,
    /// Test results
    Junit,
    /// Annotations of a GitHub workflow
    Github,
}

/// One fold, or none at all.
#[derive(Clone, Copy, Debug)]
struct Folds(Option<Fold>);

fn parse_fold(text: &str) -> std::result::Result<Folds, String> {
    if text.is_empty() {
        return Ok(Folds(None));
    }
    let fold = Fold::from_str(text, true).map(|fold| Folds(Some(fold)));
    fold.map_err(|_| "use addresses, ids, numbers, templates".to_owned())
}

/// A percentage as a part of the whole.
fn parse_share(text: &str) -> std::result::Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let percent: f64 = number.parse().map_err(|_| "not a percentage, such as 2.5".to_owned())?;
    if (0.0..=1e6).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err("a percentage is not negative, and a number".to_owned())
    }
}

fn parse_also(text: &str) -> std::result::Result<(Form, PathBuf), String> {
    let wrong = || "give a form and a file: markdown=comment.md".to_owned();
    let (form, file) = text.split_once('=').ok_or_else(wrong)?;
    let form = Form::from_str(form, true).map_err(|_| {
        format!("no form {form:?}; there are table, markdown, json, csv, junit, github")
    })?;
    if file.is_empty() { Err(wrong()) } else { Ok((form, file.into())) }
}

impl Args {
    fn paths(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        match &self.sides[..] {
            [base, head] => Ok((vec![base.clone()], vec![head.clone()])),
            [] if !self.base.is_empty() => Ok((self.base.clone(), self.head.clone())),
            _ => Err(Error::new(
                "give a base and a head: analyze diff base.trace head.trace, or --base A B --head C D",
            )),
        }
    }

    fn asked(&self) -> Result<Asked> {
        let mut percentiles = Vec::new();
        for &percent in &self.percentiles {
            if percent <= 0.0 || percent >= 100.0 {
                return Err(Error::new(
                    "--percentiles: extremes of runs cannot be compared; use 1 to 99.9",
                ));
            }
            if !percentiles.contains(&percent) {
                percentiles.push(percent);
            }
        }
        let folds = match &self.fold {
            None => USUAL.to_vec(),
            Some(folds) => folds.iter().filter_map(|it| it.0).collect(),
        };
        let filter = self.filters.filter()?;
        Ok(Asked { filter, percentiles, folds })
    }

    fn rule(&self) -> Rule {
        let usual = Rule { tolerance: self.tolerance, ..Rule::default() };
        match self.min_effect {
            Some(least) => Rule { least_effect: least, least_effect_single: least, ..usual },
            None => usual,
        }
    }

    fn budget(&self, metrics: &[String]) -> Result<PerfBudget> {
        const USUAL_PLACE: &str = "perf-budget.toml";
        match &self.budget {
            Some(path) => PerfBudget::read(path, metrics),
            None if Path::new(USUAL_PLACE).exists() => {
                PerfBudget::read(Path::new(USUAL_PLACE), metrics)
            }
            None => Ok(PerfBudget::default()),
        }
    }
}

/// Compares, prints, and says how the process ends.
pub(crate) fn run(args: &Args) -> Result<Exit> {
    let (base, head) = args.paths()?;
    let asked = args.asked()?;
    let rule = args.rule();
    let sources = [&base[..], &head[..]].concat();
    let targets = args.also.iter().map(|(_, path)| path).chain(&args.output);
    for path in targets {
        load::refuse_to_replace(path, &sources)?;
    }
    // A budget with a mistake is told before the long work, as far as it can be.
    let metrics = |percentiles: &[f64]| -> Vec<String> {
        let run = RunSummary { percentiles: percentiles.to_vec(), ..RunSummary::default() };
        run.metrics().iter().map(ToString::to_string).collect()
    };
    args.budget(&metrics(&asked.percentiles))?;
    let (mut base, mut head) =
        (Side::read("base", &base, &asked)?, Side::read("head", &head, &asked)?);
    align(&mut [&mut base, &mut head], &asked.percentiles)?;
    let base_runs: Vec<&RunSummary> = base.runs.iter().collect();
    let head_runs: Vec<&RunSummary> = head.runs.iter().collect();
    let decision = decide(&base_runs, &head_runs, &rule);
    let budget = args.budget(&metrics(&base_runs[0].percentiles))?;
    let (lost_too_much, mut remarks) =
        circumstances::remarks(&base_runs, &head_runs, args.max_loss);
    let names: Vec<&str> = decision.names.iter().map(|it| it.name.name).collect();
    for text in budget.unmatched(&names) {
        remarks.push(Remark { key: "budget", text: format!("budget: {text}"), is_warning: true });
    }
    let gate = gate(
        &decision,
        &budget,
        &gate::Asked {
            fails_on_regression: args.fail_on == FailOn::Regression,
            fails_on_inconclusive: args.fail_on_inconclusive,
            max_common: args.max_common,
            today: today(),
        },
        lost_too_much,
    );
    if let Some(by) = gate.common_unsure {
        let text = format!(
            "everything is {:.1} % slower, which these runs cannot tell from noise; a slower \
             machine, or a slower build",
            100.0 * by
        );
        remarks.push(Remark { key: "common", text, is_warning: true });
    }
    remarks.extend(too_few_names(&decision));
    let attributions = attribute(&decision);
    let places = places(&decision, &attributions, &base, &head, &asked)?;
    let view = View {
        base: &base_runs,
        head: &head_runs,
        decision: &decision,
        rule: &rule,
        gate: &gate,
        attributions: &attributions,
        remarks: &remarks,
        places: &places,
    };
    // The table says it itself.
    if args.format != Form::Table || args.output.is_some() {
        for remark in remarks.iter().filter(|it| it.is_warning) {
            eprintln!("analyze: {}", output::shown(&remark.text));
        }
    }
    for (form, path) in &args.also {
        let text = text(args, &view, *form, false)?;
        output::replace(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    match &args.output {
        Some(path) => {
            let text = text(args, &view, args.format, false)?;
            output::replace(path, |out| Ok(out.write_all(text.as_bytes())?))?;
        }
        None => {
            let text = text(args, &view, args.format, io::stdout().is_terminal())?;
            let mut out = io::stdout().lock();
            // Whoever stopped reading still gets the exit code.
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
                _ => {}
            }
        }
    }
    Ok(gate.exit)
}

/// Says so if a single pair has too few names to know its noise by.
fn too_few_names(decision: &Decision<'_>) -> Option<Remark> {
    let tests = || decision.names.iter().flat_map(|it| &it.tests);
    let ready = decision.names.iter().filter(|it| it.tests.iter().any(|test| test.lacking <= 1.0));
    let ready = ready.count();
    let none_made = tests().all(|test| test.verdict == Verdict::InsufficientData);
    (decision.design == Design::SinglePair && none_made && ready > 0).then(|| Remark {
        key: "names",
        text: format!(
            "{ready} names have calls enough, and it takes {LEAST_NAMES_SINGLE} to know the noise of \
             one run a side; record more runs"
        ),
        is_warning: true,
    })
}

/// Where the parts of the largest contributors lie, if there is a change to explain.
fn places(
    decision: &Decision<'_>,
    attributions: &[super::attribution::Attribution],
    base: &Side,
    head: &Side,
    asked: &Asked,
) -> Result<Vec<(usize, String)>> {
    let (Some(base), Some(head)) = (&base.traces, &head.traces) else { return Ok(Vec::new()) };
    let Some(spans) = attributions.iter().find(|it| it.what == super::What::Span) else {
        return Ok(Vec::new());
    };
    let is_change = |at: &usize| {
        matches!(decision.names[*at].verdict, Verdict::Regression | Verdict::Improvement)
    };
    let wanted: Vec<usize> =
        spans.shares.iter().take(2).map(|share| share.name).filter(is_change).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = wanted.iter().map(|&at| decision.names[at].name.name).collect();
    let found = placing::places(base, head, &names, &asked.filter, &asked.folds)?;
    Ok(wanted.into_iter().zip(found).filter_map(|(at, place)| Some((at, place?))).collect())
}

fn text(args: &Args, view: &View<'_>, form: Form, terminal: bool) -> Result<String> {
    let limit = match args.limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        None => Some(tables::USUAL_ROWS),
    };
    let width = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let style = |format| Style {
        format,
        time_unit: args.time_unit,
        color: match args.color {
            Color::Auto => terminal && !no_color,
            Color::Always => true,
            Color::Never => false,
        },
        width: width.or_else(|| terminal.then(output::terminal_width).flatten()),
    };
    let printed = |document: output::Document, format| {
        let mut bytes = Vec::new();
        document.print(&style(format), &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match form {
        Form::Table => printed(tables::document(view, limit, false), Format::Table),
        Form::Csv => printed(tables::document(view, None, true), Format::Csv),
        Form::Markdown => Ok(markdown::text(view, args.time_unit)),
        Form::Json => {
            let text = serde_json::to_string_pretty(&json::value(view))
                .map_err(|error| Error::new(error.to_string()))?;
            Ok(text + "\n")
        }
        Form::Junit => Ok(junit::text(view)),
        Form::Github => Ok(github::text(view)),
    }
}

/// The day in UTC, such as `2030-01-31`.
fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_nanos() as i64);
    date(now).chars().take(10).collect()
}
