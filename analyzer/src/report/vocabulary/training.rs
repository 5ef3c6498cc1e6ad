//! `training`: steps, loss, learning rate and throughput, in all and by epoch,
//! and what else training does: checkpoints, evaluations, loading data. Each step is held.

use std::collections::HashMap;

use super::{
    Fold, Report, about,
    grouping::Sum,
    view::{Held, View, hide_empty_columns, optional, text},
};
use crate::{
    Result,
    events::{Event, Key, Scope},
    output::{Cell, Column, Floor, Part, Table, sparkline},
};

pub(super) const REPORT: Report = Report {
    what: "steps of training",
    schema: "ringscope.training/1",
    scope: Scope { names: &NAMES, ..Scope::NONE },
    fold: |view| Box::new(Training::new(view, false)),
    nothing: "no training in this trace; training.step records it (format-spec/VOCABULARY.md)",
};

/// All steps together. What goes with training is among spans and events there.
pub(super) const SECTION: Report = Report {
    scope: Scope { names: &[STEP], ..Scope::NONE },
    fold: |view| Box::new(Training::new(view, true)),
    ..REPORT
};

const STEP: &str = "training.step";
const NAMES: [&str; 8] = [
    STEP,
    "training.epoch",
    "checkpoint",
    "evaluation",
    "dataset.load",
    "dataset.batch",
    "serialize",
    "inference",
];

const KEYS: [&str; 8] =
    ["step", "steps", "epoch", "loss", "learning_rate", "gradient_norm", "tokens", "samples"];

/// Whether the table says what a field of this key of a step holds.
pub(super) fn is_read(key: &str) -> bool {
    KEYS.contains(&key)
}

#[derive(Clone, Copy)]
struct Step {
    trace: usize,
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

/// What goes with training, of one name.
#[derive(Default)]
struct Beside {
    count: u64,
    durations: Sum,
    bytes: Sum,
    tokens: Sum,
}

struct Training<'a> {
    view: &'a View<'a>,
    is_short: bool,
    keys: [Key; 8],
    bytes: Key,
    steps: Vec<Step>,
    held: Held<'a>,
    /// By trace and name.
    beside: HashMap<(usize, u32), Beside>,
}

impl<'a> Training<'a> {
    fn new(view: &'a View<'a>, is_short: bool) -> Self {
        let traces = &view.context.traces;
        Self {
            view,
            is_short,
            keys: Key::all(traces, KEYS),
            bytes: Key::of(traces, "bytes"),
            steps: Vec::new(),
            held: view.held(REPORT.what),
            beside: HashMap::new(),
        }
    }
}

impl Fold for Training<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let [step, steps, epoch, loss, rate, norm, tokens, samples] = self.keys;
        if event.name() != STEP {
            let of = self.beside.entry((event.trace, event.name)).or_default();
            of.count += 1;
            of.durations.add(event.dur_ns());
            of.bytes.add(event.number(self.bytes));
            of.tokens.add(event.number(tokens));
            return Ok(());
        }
        // Twice, since a list grows by doubling.
        self.held.take(2 * size_of::<Step>())?;
        self.steps.push(Step {
            trace: event.trace,
            start_ns: event.start_ns(),
            dur_ns: event.dur_ns(),
            step: event.number(step),
            steps: event.number(steps),
            epoch: event.number(epoch),
            loss: event.number(loss),
            rate: event.number(rate),
            norm: event.number(norm),
            tokens: event.number(tokens),
            samples: event.number(samples),
        });
        Ok(())
    }

    fn parts(mut self: Box<Self>) -> Vec<Part> {
        let (view, steps) = (self.view, &mut self.steps);
        steps.sort_by(|a, b| {
            view.label(a.trace).cmp(view.label(b.trace)).then(a.start_ns.total_cmp(&b.start_ns))
        });
        let mut parts = Vec::new();
        if !steps.is_empty() {
            let whole = steps.chunk_by(|a, b| a.trace == b.trace);
            let mut all = table(view, "training", "Training", whole, false);
            let epochs = || steps.chunk_by(|a, b| (a.trace, a.epoch) == (b.trace, b.epoch));
            let has_epochs = steps.iter().any(|step| step.epoch.is_some());
            let by_epoch = (has_epochs && epochs().nth(1).is_some())
                .then(|| table(view, "epochs", "By epoch", epochs(), true));
            if let (Some(_), true) = (&by_epoch, self.is_short) {
                let gap = if all.note.is_empty() { "" } else { "\n" };
                all.note.push_str(&format!("{gap}  by epoch: analyze training"));
            }
            parts.push(Part::Table(all));
            parts.extend(by_epoch.filter(|_| !self.is_short).map(Part::Table));
        }
        parts.extend(beside(view, self.beside).map(Part::Table));
        parts
    }
}

fn table<'a>(
    view: &View<'_>,
    key: &str,
    title: &str,
    groups: impl Iterator<Item = &'a [Step]>,
    by_epoch: bool,
) -> Table {
    let mut columns = vec![
        view.trace_column(),
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
    columns.extend(view.course_column("loss over time"));
    let mut table = Table::new(key, title, columns);
    let mut not_finite = None;
    for group in groups {
        table.rows.push(row(view, group));
        let bad = group.iter().find(|step| step.loss.is_some_and(|loss| !loss.is_finite()));
        not_finite = not_finite.or(bad);
    }
    if let Some(bad) = not_finite {
        let step = bad.step.map_or_else(String::new, |step| format!("step {step}, "));
        let at = about::in_words(bad.start_ns);
        table.note = format!("  the loss is not a finite number from {step}{at} on");
        table.columns[15].shown = true;
    }
    hide_empty_columns(&mut table);
    table
}

fn row(view: &View<'_>, group: &[Step]) -> Vec<Cell> {
    let losses = || group.iter().filter_map(|step| step.loss);
    let finite = || losses().filter(|loss| loss.is_finite());
    let last = |of: fn(&Step) -> Option<f64>| group.iter().rev().find_map(of);
    let most = |of: fn(&Step) -> Option<f64>| group.iter().filter_map(of).reduce(f64::max);
    let (first, end) = (group[0], group[group.len() - 1]);
    // Spans cover their own time. Events mark the ends of steps, so that the
    // first one only says when counting begins.
    let timed = end.dur_ns.is_some();
    let seconds = (end.start_ns + end.dur_ns.unwrap_or(0.0) - first.start_ns) / 1e9;
    let counted_steps = if timed { group } else { &group[1..] };
    let per_second = |n: f64| (seconds > 0.0 && n > 0.0).then_some(n / seconds);
    let sum = |of: fn(&Step) -> Option<f64>| counted_steps.iter().filter_map(of).sum::<f64>();
    let step_ns = if timed {
        let durations: Vec<f64> = group.iter().filter_map(|step| step.dur_ns).collect();
        Some(durations.iter().sum::<f64>() / durations.len().max(1) as f64)
    } else {
        (group.len() > 1).then(|| seconds * 1e9 / (group.len() - 1) as f64)
    };
    let tokens = group.iter().filter_map(|step| step.tokens).reduce(|a, b| a + b);
    let rounded = |rate: f64| Cell::Number((rate * 10.0).round() / 10.0);
    let mut cells = vec![
        view.trace_cell(first.trace),
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
        tokens.map_or(Cell::None, counted),
        per_second(sum(|step| step.tokens)).map_or(Cell::None, rounded),
        per_second(sum(|step| step.samples)).map_or(Cell::None, rounded),
        Cell::Count(losses().count() as u64 - finite().count() as u64),
    ];
    if let Some(width) = view.sparkline_width {
        let readings = group.iter().filter_map(|step| Some((step.start_ns, step.loss?)));
        let range = (first.start_ns, end.start_ns);
        cells.push(text(Some(&sparkline(readings, range, width.min(group.len()), Floor::Least))));
    }
    cells
}

/// How many, of a sum of floating-point numbers.
fn counted(number: f64) -> Cell {
    Cell::Count(number.max(0.0) as u64)
}

/// Checkpoints, evaluations and the rest.
fn beside(view: &View<'_>, by_name: HashMap<(usize, u32), Beside>) -> Option<Table> {
    let columns = vec![
        Column::new("name", "name"),
        view.trace_column(),
        Column::new("count", "count"),
        Column::new("total_ns", "total"),
        Column::new("mean_ns", "mean"),
        Column::new("max_ns", "max"),
        Column::new("bytes", "bytes"),
        Column::new("tokens", "tokens"),
    ];
    let mut table = Table::new("beside", "Around training", columns);
    let mut all: Vec<_> = by_name.into_iter().collect();
    // What has no duration comes first.
    let total = |of: &Beside| of.durations.total().unwrap_or(f64::INFINITY);
    all.sort_by(|((a_trace, a_name), a), ((b_trace, b_name), b)| {
        let by_total = total(b).total_cmp(&total(a));
        let key = |trace: usize, name: u32| (view.name(name), view.label(trace));
        by_total.then_with(|| key(*a_trace, *a_name).cmp(&key(*b_trace, *b_name)))
    });
    let some = |number: Option<f64>| number.filter(|number| *number > 0.0);
    for ((trace, name), of) in all {
        table.rows.push(vec![
            text(Some(view.name(name))),
            view.trace_cell(trace),
            Cell::Count(of.count),
            optional(some(of.durations.total()), Cell::Ns),
            optional(some(of.durations.mean()), Cell::Ns),
            optional(some(of.durations.max()), Cell::Ns),
            optional(some(of.bytes.total()), Cell::Bytes),
            some(of.tokens.total()).map_or(Cell::None, counted),
        ]);
    }
    hide_empty_columns(&mut table);
    (!table.rows.is_empty()).then_some(table)
}
