//! `training`: steps, loss, learning rate and throughput, in all and by epoch,
//! and what else training does: checkpoints, evaluations, loading data.

use super::vocabulary::{Args, Asking, Report, counted, hide_empty_columns, optional, text};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Floor, Part, Table, sparkline},
    tables::Scope,
};

pub(super) const REPORT: Report = Report {
    schema: "ringscope.training/1",
    queries: &[("every step", STEPS), ("what goes with training", BESIDE)],
    scope: Scope {
        names: &[
            "training.step",
            "training.epoch",
            "checkpoint",
            "evaluation",
            "dataset.load",
            "dataset.batch",
            "serialize",
            "inference",
        ],
        ..Scope::NONE
    },
    parts,
    nothing: "no training in this trace; training.step records it (format-spec/VOCABULARY.md)",
};

const STEPS: &str = "\
SELECT r.trace, r.start_ns, r.dur_ns, f.step, f.steps, f.epoch, f.loss, f.learning_rate,
       f.gradient_norm, f.tokens, f.samples
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'step' THEN number END) AS step,
             MAX(CASE WHEN key = 'steps' THEN number END) AS steps,
             MAX(CASE WHEN key = 'epoch' THEN number END) AS epoch,
             MAX(CASE WHEN key = 'loss' THEN number END) AS loss,
             MAX(CASE WHEN key = 'learning_rate' THEN number END) AS learning_rate,
             MAX(CASE WHEN key = 'gradient_norm' THEN number END) AS gradient_norm,
             MAX(CASE WHEN key = 'tokens' THEN number END) AS tokens,
             MAX(CASE WHEN key = 'samples' THEN number END) AS samples
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name = 'training.step'
ORDER BY r.trace, r.start_ns";

const BESIDE: &str = "\
SELECT r.trace, r.name, COUNT(*) AS count, SUM(r.dur_ns) AS total_ns, AVG(r.dur_ns) AS mean_ns,
       MAX(r.dur_ns) AS max_ns, SUM(f.bytes) AS bytes, SUM(f.tokens) AS tokens
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes,
             MAX(CASE WHEN key = 'tokens' THEN number END) AS tokens
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name IN ('training.epoch', 'checkpoint', 'evaluation', 'dataset.load', 'dataset.batch',
                 'serialize', 'inference')
GROUP BY r.trace, r.name
ORDER BY total_ns DESC, r.name";

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    REPORT.run(args)
}

#[derive(Clone, Copy)]
struct Step<'a> {
    trace: Option<&'a str>,
    start_ns: f64,
    dur_ns: Option<f64>,
    step: Option<f64>,
    steps: Option<f64>,
    epoch: Option<f64>,
    loss: Option<f64>,
    rate: Option<f64>,
    norm: Option<f64>,
    tokens: Option<f64>,
    samples: Option<f64>,
}

fn parts(asking: &Asking<'_>) -> Result<Vec<Part>> {
    let answer = asking.ask(STEPS)?;
    let number = |column: &str| answer.numbers(column);
    let traces = answer.texts("trace")?;
    let (start, dur, step) = (number("start_ns")?, number("dur_ns")?, number("step")?);
    let (steps, epoch, loss) = (number("steps")?, number("epoch")?, number("loss")?);
    let (rate, norm) = (number("learning_rate")?, number("gradient_norm")?);
    let (tokens, samples) = (number("tokens")?, number("samples")?);
    let all: Vec<Step<'_>> = (0..answer.rows())
        .map(|at| Step {
            trace: traces[at],
            start_ns: start[at].unwrap_or(0.0),
            dur_ns: dur[at],
            step: step[at],
            steps: steps[at],
            epoch: epoch[at],
            loss: loss[at],
            rate: rate[at],
            norm: norm[at],
            tokens: tokens[at],
            samples: samples[at],
        })
        .collect();
    let mut parts = Vec::new();
    if !all.is_empty() {
        let whole = all.chunk_by(|a, b| a.trace == b.trace);
        parts.push(Part::Table(table(asking, "training", "Training", whole, false)));
        let epochs = || all.chunk_by(|a, b| (a.trace, a.epoch) == (b.trace, b.epoch));
        if epochs().nth(1).is_some() && all.iter().any(|step| step.epoch.is_some()) {
            parts.push(Part::Table(table(asking, "epochs", "By epoch", epochs(), true)));
        }
    }
    parts.extend(beside(asking)?.map(Part::Table));
    Ok(parts)
}

fn table<'a>(
    asking: &Asking<'_>,
    key: &str,
    title: &str,
    groups: impl Iterator<Item = &'a [Step<'a>]>,
    by_epoch: bool,
) -> Table {
    let mut columns = vec![
        asking.trace_column(),
        Column { shown: by_epoch, ..Column::new("epoch", "epoch") },
        Column::new("steps", "steps"),
        Column::new("last_step", "step"),
        Column::new("steps_planned", "of"),
        Column::new("loss_first", "loss first"),
        Column::new("loss_last", "last"),
        Column::new("loss_min", "least"),
        Column::new("learning_rate_last", "rate"),
        Column::new("gradient_norm_max", "gradient max"),
        Column::new("step_mean_ns", "a step"),
        Column::hidden("steps_per_second", "steps/s"),
        Column::hidden("tokens", "tokens"),
        Column::new("tokens_per_second", "tokens/s"),
        Column::new("samples_per_second", "samples/s"),
        Column::hidden("losses_not_finite", "not finite"),
    ];
    let width = asking.sparkline_width();
    if width.is_some() {
        columns.push(Column::new("course", "loss over time"));
    }
    let mut table = Table::new(key, title, columns);
    let mut not_finite = None;
    for group in groups {
        table.rows.push(row(group, width));
        let bad = group.iter().find(|step| step.loss.is_some_and(|loss| !loss.is_finite()));
        not_finite = not_finite.or(bad);
    }
    if let Some(bad) = not_finite {
        let step = bad.step.map_or_else(String::new, |step| format!("step {step}, "));
        let at = super::about::in_words(bad.start_ns);
        table.note = format!("  the loss is not a finite number from {step}{at} on");
        table.columns[15].shown = true;
    }
    hide_empty_columns(&mut table);
    table
}

fn row(group: &[Step<'_>], width: Option<usize>) -> Vec<Cell> {
    let losses = || group.iter().filter_map(|step| step.loss);
    let finite = || losses().filter(|loss| loss.is_finite());
    let last = |of: fn(&Step<'_>) -> Option<f64>| group.iter().rev().find_map(of);
    let most = |of: fn(&Step<'_>) -> Option<f64>| group.iter().filter_map(of).reduce(f64::max);
    let (first, end) = (group[0], group[group.len() - 1]);
    // Spans cover their own time. Events mark the ends of steps, so that the
    // first one only says when counting begins.
    let timed = end.dur_ns.is_some();
    let seconds = (end.start_ns + end.dur_ns.unwrap_or(0.0) - first.start_ns) / 1e9;
    let counted_steps = if timed { group } else { &group[1..] };
    let per_second = |n: f64| (seconds > 0.0 && n > 0.0).then_some(n / seconds);
    let sum = |of: fn(&Step<'_>) -> Option<f64>| counted_steps.iter().filter_map(of).sum::<f64>();
    let step_ns = if timed {
        let durations: Vec<f64> = group.iter().filter_map(|step| step.dur_ns).collect();
        Some(durations.iter().sum::<f64>() / durations.len().max(1) as f64)
    } else {
        (group.len() > 1).then(|| seconds * 1e9 / (group.len() - 1) as f64)
    };
    let tokens = group.iter().filter_map(|step| step.tokens).reduce(|a, b| a + b);
    let rounded = |rate: f64| Cell::Number((rate * 10.0).round() / 10.0);
    let mut cells = vec![
        text(first.trace),
        optional(first.epoch, Cell::Number),
        Cell::Count(group.len() as u64),
        optional(last(|step| step.step), Cell::Number),
        optional(last(|step| step.steps), Cell::Number),
        optional(losses().next(), Cell::Number),
        optional(last(|step| step.loss), Cell::Number),
        optional(finite().reduce(f64::min), Cell::Number),
        optional(last(|step| step.rate), Cell::Number),
        optional(most(|step| step.norm), Cell::Number),
        optional(step_ns, Cell::Ns),
        per_second(counted_steps.len() as f64).map_or(Cell::None, rounded),
        tokens.map_or(Cell::None, |tokens| counted(Some(tokens))),
        per_second(sum(|step| step.tokens)).map_or(Cell::None, rounded),
        per_second(sum(|step| step.samples)).map_or(Cell::None, rounded),
        Cell::Count(losses().count() as u64 - finite().count() as u64),
    ];
    if let Some(width) = width {
        let readings = group.iter().filter_map(|step| Some((step.start_ns, step.loss?)));
        let range = (first.start_ns, end.start_ns);
        cells.push(text(Some(&sparkline(readings, range, width.min(group.len()), Floor::Least))));
    }
    cells
}

/// Checkpoints, evaluations and the rest.
fn beside(asking: &Asking<'_>) -> Result<Option<Table>> {
    let answer = asking.ask(BESIDE)?;
    if answer.rows() == 0 {
        return Ok(None);
    }
    let (names, traces) = (answer.texts("name")?, answer.texts("trace")?);
    let number = |column: &str| answer.numbers(column);
    let (count, total, mean) = (number("count")?, number("total_ns")?, number("mean_ns")?);
    let (max, bytes, tokens) = (number("max_ns")?, number("bytes")?, number("tokens")?);
    let columns = vec![
        Column::new("name", "name"),
        asking.trace_column(),
        Column::new("count", "count"),
        Column::new("total_ns", "total"),
        Column::new("mean_ns", "mean"),
        Column::new("max_ns", "max"),
        Column::new("bytes", "bytes"),
        Column::new("tokens", "tokens"),
    ];
    let mut table = Table::new("beside", "Around training", columns);
    let some = |number: Option<f64>| number.filter(|number| *number > 0.0);
    for row in 0..answer.rows() {
        table.rows.push(vec![
            text(names[row]),
            text(traces[row]),
            counted(count[row]),
            optional(some(total[row]), Cell::Ns),
            optional(some(mean[row]), Cell::Ns),
            optional(some(max[row]), Cell::Ns),
            optional(some(bytes[row]), Cell::Bytes),
            some(tokens[row]).map_or(Cell::None, |tokens| counted(Some(tokens))),
        ]);
    }
    hide_empty_columns(&mut table);
    Ok(Some(table))
}
