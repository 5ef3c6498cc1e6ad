//! `calls`: how long calls took, and where in them the time went: waiting in a
//! queue, encoding, running, decoding. A call is a span, or an event that was recorded when it was
//! over: that took as long as its parts. Functions are held, and the duration of each call.

use ringscope_format::Kind;

use super::{
    Fold, Report,
    grouping::{Durations, Groups, Sum},
    view::{View, optional, text},
};
use crate::{
    Result,
    events::{Event, Key, Scope},
    output::{Cell, Column, Part, Table},
    report::spans::{is_span, percent},
};

pub(super) const REPORT: Report = Report {
    what: "calls",
    schema: "ringscope.calls/1",
    scope: Scope { names: &["call"], ..Scope::NONE },
    fold: |view| Box::new(Calls::new(view)),
    nothing: "no calls in this trace; spans and events named call record them (format-spec/VOCABULARY.md)",
};

/// Where the time of a call goes.
const STAGES: [&str; 4] = ["queue", "encode", "run", "decode"];

/// Whether the table says what a field of this key holds.
pub(super) fn is_read(kind: Kind, key: &str) -> bool {
    let is_stage = STAGES.contains(&key.strip_suffix("_ns").unwrap_or(key));
    is_call(kind) && (is_stage || key == "function")
}

/// Whether a record of this kind and the right name is a call: not the life of a span, whose slices
/// are, nor an error.
fn is_call(kind: Kind) -> bool {
    is_span(kind) || kind == Kind::EVENT
}

#[derive(Default)]
struct OfFunction {
    count: u64,
    durations: Durations,
    errors: u64,
    stages: [Sum; 4],
}

struct Calls<'a> {
    view: &'a View<'a>,
    function: Key,
    /// In ticks and in nanoseconds.
    stages: [[Key; 2]; 4],
    /// By trace and function.
    groups: Groups<'a, usize, OfFunction>,
}

impl<'a> Calls<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let traces = &view.context.traces;
        Self {
            view,
            function: Key::of(traces, "function"),
            stages: STAGES.map(|stage| Key::time(traces, stage)),
            groups: Groups::new(view.held("calls")),
        }
    }
}

impl Fold for Calls<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        if !is_call(event.kind) {
            return Ok(());
        }
        let function = event.label(self.function).unwrap_or("(no function)".into());
        let (of, held) = self.groups.at(event.trace, &function, OfFunction::default)?;
        of.count += 1;
        of.errors += u64::from(event.failed());
        let mut parts = Sum::default();
        for (sum, keys) in of.stages.iter_mut().zip(self.stages) {
            let part = event.time(keys);
            sum.add(part);
            parts.add(part);
        }
        of.durations.add(event.dur_ns().or(parts.total()), self.view, held)
    }

    fn parts(self: Box<Self>) -> Vec<Part> {
        let mut all = self.groups.into_list();
        if all.is_empty() {
            return Vec::new();
        }
        let total = |of: &OfFunction| of.durations.sum.total().unwrap_or(0.0);
        all.sort_by(|(a_trace, a_function, a), (b_trace, b_function, b)| {
            let by_total = total(b).total_cmp(&total(a));
            by_total.then((a_function, a_trace).cmp(&(b_function, b_trace)))
        });
        let mut columns = vec![
            Column::new("function", "function"),
            self.view.trace_column(),
            Column::new("count", "count"),
            Column::new("errors", "errors"),
            Column::new("total_ns", "total"),
            Column::new("mean_ns", "mean"),
        ];
        columns[3].shown = all.iter().any(|(.., of)| of.errors > 0);
        columns.extend(self.view.percentile_columns());
        columns.push(Column::new("max_ns", "max"));
        // What no call tells is not shown; what is other, only beside something.
        let is_told = |at: usize| all.iter().any(|(.., of)| of.stages[at].count > 0);
        let told: [bool; 4] = std::array::from_fn(is_told);
        let shown = told.into_iter().chain([told.contains(&true)]);
        for (stage, shown) in STAGES.iter().chain(&["other"]).zip(shown) {
            columns.push(Column::hidden(format!("{stage}_ns"), *stage));
            let percent = Column::new(format!("{stage}_percent"), format!("{stage} %"));
            columns.push(Column { shown, ..percent });
        }
        let mut table = Table::new("calls", "Calls", columns);
        for (trace, function, mut of) in all {
            let (sum, whole) = (of.durations.sum, total(&of));
            let mut cells = vec![
                text(Some(&function)),
                self.view.trace_cell(trace),
                Cell::Count(of.count),
                Cell::Count(of.errors),
                optional(sum.total(), Cell::Ns),
                optional(sum.mean(), Cell::Ns),
            ];
            cells.append(&mut of.durations.percentiles(self.view));
            cells.push(optional(sum.max(), Cell::Ns));
            let stages = of.stages.map(|stage| stage.total().unwrap_or(0.0));
            // Clocks of two threads may make the parts a little more than the whole.
            let other = (whole - stages.iter().sum::<f64>()).max(0.0);
            for part in stages.into_iter().chain([other]) {
                cells.extend([Cell::Ns(part), percent(part, whole)]);
            }
            table.rows.push(cells);
        }
        vec![Part::Table(table)]
    }
}
