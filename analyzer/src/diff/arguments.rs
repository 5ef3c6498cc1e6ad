//! The command line of `diff`: what may be asked, and what it comes to.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use globset::{Glob, GlobSet, GlobSetBuilder};

use super::{
    decision::Rule,
    folding::{Fold, USUAL},
    perf_budget::PerfBudget,
    reading::Asked,
    run_summary::USUAL_PERCENTILES,
};
use crate::{
    Error, Result,
    cli::{Color, Filters, parse_percentile},
    output::TimeUnit,
};

/// Options of `diff`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub struct Args {
    /// Base and head, a trace or a summary each
    #[arg(value_name = "BASE HEAD", num_args = 0..=2)]
    pub(super) sides: Vec<PathBuf>,
    /// Runs of the base: traces and summaries
    #[arg(long, value_name = "TRACE", num_args = 1.., conflicts_with = "sides", requires = "head")]
    pub(super) base: Vec<PathBuf>,
    /// Runs of the head
    #[arg(long, value_name = "TRACE", num_args = 1.., conflicts_with = "sides", requires = "base")]
    pub(super) head: Vec<PathBuf>,

    /// What makes the exit code 1; 2 (cannot be used) and 3 (cannot be decided) remain
    #[arg(long, value_enum, default_value_t, help_heading = "Gate")]
    pub(super) fail_on: FailOn,
    /// Exit with 3 if anything that is gated is inconclusive
    #[arg(long, help_heading = "Gate")]
    pub(super) fail_on_inconclusive: bool,
    /// Budgets and permissions by name [default: perf-budget.toml, if it is there]
    #[arg(long, value_name = "FILE", help_heading = "Gate")]
    pub(super) budget: Option<PathBuf>,
    /// Exit with 3 if a trace lost more than this part of its events
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, default_value = "0.1", help_heading = "Gate")]
    pub(super) max_loss: f64,
    /// Keys of metadata that may differ between the sides: 'host.name', 'host.*'; another machine is
    /// undecided otherwise, and exits with 3
    #[arg(long, value_name = "KEY,...", value_delimiter = ',', help_heading = "Gate")]
    pub(super) may_differ: Vec<String>,
    /// Fail if everything together got slower by more than this
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, default_value = "10", help_heading = "Gate")]
    pub(super) max_common: f64,

    /// Changes below this do not count; 5 for one run a side
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, help_heading = "Decision")]
    pub(super) min_effect: Option<f64>,
    /// A name is ok if a slowdown beyond this can be excluded, and inconclusive if not
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, default_value = "10", help_heading = "Decision")]
    pub(super) tolerance: f64,
    /// Which percentiles, besides the mean; the first is shown where none stands out
    #[arg(long, value_name = "P,...", value_delimiter = ',', value_parser = parse_percentile,
          default_values_t = USUAL_PERCENTILES, help_heading = "Decision")]
    pub(super) percentiles: Vec<f64>,
    /// What of names is folded before they are matched; `--fold=` for nothing
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', num_args = 0..=1, require_equals = true,
          value_parser = parse_fold, help_heading = "Decision")]
    pub(super) fold: Option<Vec<Folds>>,

    #[command(flatten)]
    pub(super) filters: Filters,

    /// In which form to print
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    pub(super) format: Form,
    /// Where to print, if not to standard output
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Also write a file in another form: markdown=comment.md; may be given several times
    #[arg(long, value_name = "FORM=FILE", value_parser = parse_also, help_heading = "Output")]
    pub(super) also: Vec<(Form, PathBuf)>,
    /// How many rows; 0 for all [default: what changed, for people]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub(super) limit: Option<usize>,
    /// Unit of durations, for people
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    pub(super) time_unit: TimeUnit,
    /// When to use colours; NO_COLOR is respected
    #[arg(long, value_enum, default_value_t, help_heading = "Output")]
    pub(super) color: Color,
}

const USAGE: &str = "\
analyze diff [OPTIONS] BASE HEAD
       analyze diff [OPTIONS] --base TRACE... --head TRACE...";

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
pub(super) enum FailOn {
    /// A name that is slower and may not be
    #[default]
    Regression,
    /// Nothing; what cannot be used or decided still exits with 2 or 3
    Never,
}

/// In which form to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
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
pub(super) struct Folds(Option<Fold>);

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
    pub(super) fn paths(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        match &self.sides[..] {
            [base, head] => Ok((vec![base.clone()], vec![head.clone()])),
            [] if !self.base.is_empty() => Ok((self.base.clone(), self.head.clone())),
            _ => Err(Error::new(
                "give a base and a head: analyze diff base.trace head.trace, or --base A B --head C D",
            )),
        }
    }

    pub(super) fn asked(&self) -> Result<Asked> {
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

    pub(super) fn may_differ(&self) -> Result<GlobSet> {
        let wrong = |error: globset::Error| Error::new(format!("--may-differ: {error}"));
        let mut all = GlobSetBuilder::new();
        for key in &self.may_differ {
            all.add(Glob::new(key).map_err(wrong)?);
        }
        all.build().map_err(wrong)
    }

    pub(super) fn rule(&self) -> Rule {
        let usual = Rule { tolerance: self.tolerance, ..Rule::default() };
        match self.min_effect {
            Some(least) => Rule { least_effect: least, least_effect_single: least, ..usual },
            None => usual,
        }
    }

    pub(super) fn budget(&self, metrics: &[String]) -> Result<PerfBudget> {
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
