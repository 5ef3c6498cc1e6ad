//! `diff` from its arguments to how the process ends.

use std::{
    io::{self, IsTerminal, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    arguments::{Args, FailOn, Form},
    attribution::attribute,
    circumstances::{Remark, circumstances},
    counters,
    decision::{Decision, Verdict, decide_also},
    gate::{self, everything, gate},
    github, json, junit, markdown, placing,
    reading::Asked,
    run_summary::{Metric, RunSummary},
    sides::{Side, align},
    tables,
    view::View,
};
use crate::{
    Error, Exit, Result,
    cli::Color,
    load,
    output::{self, Format, Style, date},
};

/// Compares, prints, and says how the process ends.
pub(crate) fn run(args: &Args) -> Result<Exit> {
    let (base, head) = args.paths()?;
    let asked = args.asked()?;
    let rule = args.rule();
    let may_differ = args.may_differ()?;
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
    let budget = args.budget(&metrics(&base_runs[0].percentiles))?;
    let asks = |name: &str, metric: Metric| budget.asks(name, &metric.to_string());
    let decision = decide_also(&base_runs, &head_runs, &rule, &asks);
    let counters = counters::judge(&base_runs, &head_runs, &rule);
    let found = circumstances(&base_runs, &head_runs, args.max_loss, &may_differ);
    let mut remarks = found.remarks;
    let names: Vec<&str> = decision.names.iter().map(|it| it.name.name).collect();
    let figures: Vec<(&str, &str)> = counters.iter().map(|it| (it.name, it.figure.key())).collect();
    for text in budget.unmatched(&names, &figures) {
        remarks.push(Remark { key: "budget", text: format!("budget: {text}"), is_warning: true });
    }
    let gate = gate(
        &decision,
        &counters,
        &budget,
        &gate::Asked {
            fails_on_regression: args.fail_on == FailOn::Regression,
            fails_on_inconclusive: args.fail_on_inconclusive,
            max_common: args.max_common,
            today: today(),
            forbidden: found.forbids,
        },
    );
    if let Some(common) = gate.common_unsure {
        let text = format!("{}, which these runs cannot tell from noise", everything(common));
        remarks.push(Remark { key: "common", text, is_warning: true });
    }
    let attributions = attribute(&decision);
    let places = places(&decision, &attributions, &base, &head, &asked)?;
    let view = View {
        base: &base_runs,
        head: &head_runs,
        decision: &decision,
        counters: &counters,
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
    // Rows alone would pass for a verdict.
    if args.format == Form::Csv && gate.verdict != "ok" {
        eprintln!("analyze: {}", gate.sentence);
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
