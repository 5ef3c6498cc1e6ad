//! The comparison as tables: for people on a terminal, and as CSV.

use serde_json::Value;

use super::{
    decision::{Test, Verdict},
    gate::of,
    perf_budget::Severity,
    view::{View, ratio},
};
use crate::output::{Cell, Column, Document, Part, Table};

/// Rows that people get unasked.
pub(super) const USUAL_ROWS: usize = 30;

/// Everything as a document; of names at most `limit`.
pub(super) fn document(view: &View<'_>, limit: Option<usize>, for_machines: bool) -> Document {
    let mut parts = Vec::new();
    let text = |key: &str, title: &str, lines: Vec<String>| Part::Text {
        key: key.to_owned(),
        title: title.to_owned(),
        lines: lines.into_iter().map(|line| format!("  {line}")).collect(),
        value: Value::Null,
    };
    let mut table = names(view, for_machines);
    let all_ok = |row: &&usize| {
        matches!(view.decision.names[**row].verdict, Verdict::Ok | Verdict::InsufficientData)
    };
    let order = view.order();
    let boring = order.iter().rev().take_while(all_ok).count();
    let usual = (order.len() - boring).max(10);
    // The footer is about all names, so it does not say what was left out.
    let footer = table.footer.take();
    table.cut(limit.map(|limit| if limit == USUAL_ROWS { limit.min(usual) } else { limit }));
    table.footer = footer;
    if for_machines {
        parts.push(Part::Table(table));
    } else {
        let mut lines = vec![view.gate.sentence.clone()];
        lines.extend(view.sentences());
        parts.push(text("verdict", &view.heading(), lines));
        parts.push(Part::Table(table));
        let notes = view.notes(6);
        if !notes.is_empty() {
            parts.push(text("notes", "More about verdicts", notes));
        }
        let common = view.common_lines();
        if !common.is_empty() {
            parts.push(text("common", "What all names share, taken out of each", common));
        }
        parts.extend(attributions(view).into_iter().map(Part::Table));
        parts.extend(counters(view).map(Part::Table));
        let remarks: Vec<String> = view.remarks.iter().map(|it| format!("- {}", it.text)).collect();
        if !remarks.is_empty() {
            parts.push(text("remarks", "Mind", remarks));
        }
    }
    Document {
        schema: "ringscope.diff/1",
        trace: Value::Null,
        loss: Value::Null,
        exact: true,
        parts,
    }
}

fn names(view: &View<'_>, for_machines: bool) -> Table {
    let mut columns = vec![Column::new("name", "name")];
    if for_machines {
        columns.push(Column::new("what", "what"));
    }
    columns.extend([
        Column::new("metric", "figure"),
        Column::new("base_ns", "base"),
        Column::new("head_ns", "head"),
        Column::new("change_ns", "delta"),
        Column::new("change_percent", "delta %"),
        Column::new("own_percent", "own % (95 %)"),
        Column::new("share_percent", "share %"),
        Column::new("verdict", "verdict"),
    ]);
    if for_machines {
        for side in ["base", "head"] {
            let mut push = |key: String| columns.push(Column::new(key.clone(), key));
            push(format!("{side}_count"));
            push(format!("{side}_total_ns"));
            push(format!("{side}_self_ns"));
            view.metrics_of_calls().iter().for_each(|it| push(format!("{side}_{it}_ns")));
        }
    }
    let mut table = Table::new("names", "", columns);
    for at in view.order() {
        let judged = &view.decision.names[at];
        let mut row = vec![Cell::from(view.label(at))];
        if for_machines {
            row.push(Cell::from(judged.name.what.to_string()));
        }
        let test = view.telling(judged).or_else(|| judged.tests.first().copied());
        row.extend(figures(view, at, test));
        row.push(view.share_percent(at).map_or(Cell::None, Cell::Percent));
        let verdict = if for_machines { judged.verdict.key() } else { judged.verdict.words() };
        row.push(Cell::from(verdict));
        if for_machines {
            for of_base in [true, false] {
                let figures = view.figures(at, of_base);
                let known = !figures.metrics.is_empty();
                let cell = |value: f64| if known { Cell::Number(value) } else { Cell::None };
                row.extend([figures.count, figures.total_ns, figures.self_ns].map(cell));
                let metrics = 0..view.metrics_of_calls().len();
                let metric =
                    |at| figures.metrics.get(at).map_or(Cell::None, |it| Cell::Number(*it));
                row.extend(metrics.map(metric));
            }
        }
        table.rows.push(row);
    }
    if let (Some((metric, n, change)), false) = (view.geomean(), for_machines) {
        let mut row = vec![Cell::None; table.columns.len()];
        row[0] = Cell::from(format!("(geomean of {n})"));
        row[1] = Cell::from(metric.to_string());
        row[5] = Cell::Percent(100.0 * change.exp_m1());
        table.footer = Some(row);
    }
    table
}

/// Metric, base, head, both changes, and the interval.
fn figures(view: &View<'_>, at: usize, test: Option<Test>) -> [Cell; 6] {
    let Some(test) = test else {
        // On one side only.
        let metric =
            view.decision.metrics.first().map_or(Cell::None, |it| Cell::from(it.to_string()));
        let side = |of_base| {
            let figures = view.figures(at, of_base);
            figures.metrics.first().map_or(Cell::None, |it| Cell::Ns(*it))
        };
        return [metric, side(true), side(false), Cell::None, Cell::None, Cell::None];
    };
    let own = if test.interval.0.is_finite() {
        let (low, high) = (ratio(test.interval.0), ratio(test.interval.1));
        Cell::from(format!("{} ({} to {})", bare(&ratio(test.own)), bare(&low), bare(&high)))
    } else {
        Cell::None
    };
    [
        Cell::from(view.decision.metrics[test.metric].to_string()),
        view.cell(test.metric, test.base),
        view.cell(test.metric, test.head),
        view.cell(test.metric, test.head - test.base),
        Cell::Percent(100.0 * (test.head / test.base - 1.0)),
        own,
    ]
}

/// Whose fault the end-to-end change is.
pub(super) fn attributions(view: &View<'_>) -> Vec<Table> {
    let table = |all: &super::attribution::Attribution| {
        let title = match all.what {
            super::What::Span => "Where the end-to-end change comes from, by self time a run",
            super::What::Device => "Where the change on devices comes from, by time a run",
        };
        let columns = vec![
            Column::new("name", "name"),
            Column::new("change_ns", "delta"),
            Column::new("by_count_ns", "by count"),
            Column::new("by_call_ns", "by call"),
            Column::new("share_percent", "share %"),
        ];
        let mut table = Table::new("attribution", title, columns);
        let change = all.change_ns();
        let row = |name: String, part: &super::attribution::Part| {
            let share = if change == 0.0 {
                Cell::None
            } else {
                Cell::Percent(100.0 * part.total_ns() / change)
            };
            let ns = [part.total_ns(), part.by_count_ns, part.by_call_ns].map(Cell::Ns);
            let [total, count, call] = ns;
            vec![Cell::from(name), total, count, call, share]
        };
        for share in &all.shares {
            table.rows.push(row(view.short_label(share.name), &share.part));
        }
        table.cut(Some(10));
        table.footer =
            Some(row(format!("(noise of {})", of(all.noise.0, "name", "names")), &all.noise.1));
        table
    };
    view.attributions.iter().filter(|it| !it.shares.is_empty()).map(table).collect()
}

/// Counters, gauges and memory.
pub(super) fn counters(view: &View<'_>) -> Option<Table> {
    let columns = vec![
        Column::new("name", "name"),
        Column::new("figure", "figure"),
        Column::new("base", "base"),
        Column::new("head", "head"),
        Column::new("change_percent", "delta %"),
        Column::new("interval", "(95 %)"),
        Column::new("verdict", "verdict"),
    ];
    let mut table = Table::new("counters", "Counters, gauges and memory a run", columns);
    for (at, counter) in view.counters.iter().enumerate() {
        let value = |it: Option<f64>| it.map_or(Cell::None, |it| quantity(counter.name, it));
        let (change, interval) = match (counter.change, counter.base, counter.head) {
            (Some((change, (low, high))), ..) => {
                let text = format!("({} to {})", bare(&ratio(low)), bare(&ratio(high)));
                (Cell::Percent(100.0 * change.exp_m1()), Cell::from(text))
            }
            (None, Some(base), Some(head)) if base > 0.0 => {
                (Cell::Percent(100.0 * (head / base - 1.0)), Cell::None)
            }
            _ => (Cell::None, Cell::None),
        };
        let ruling = view.gate.counters.iter().find(|it| it.0 == at).map(|it| &it.1);
        let verdict = match ruling.map(|it| (it.severity, it.because.as_deref())) {
            Some((_, Some(because))) => format!("{}, {because}", counter.course.words()),
            Some((Severity::Error, None)) => format!("{}, over budget", counter.course.words()),
            _ => counter.course.words().to_owned(),
        };
        table.rows.push(vec![
            Cell::from(counter.name),
            Cell::from(counter.figure.key()),
            value(counter.base),
            value(counter.head),
            change,
            interval,
            Cell::from(verdict),
        ]);
    }
    table.cut(Some(20));
    (!table.rows.is_empty()).then_some(table)
}

/// A value with the unit that the counter's name ends with.
fn quantity(name: &str, value: f64) -> Cell {
    if name.ends_with("bytes") || name.starts_with("memory.allocated") {
        Cell::Bytes(value)
    } else if name.ends_with("_ns") {
        Cell::Ns(value)
    } else if value >= 0.0 && value.fract() == 0.0 && value < 1e15 {
        Cell::Count(value as u64)
    } else {
        Cell::Number(value)
    }
}

fn bare(text: &str) -> String {
    text.trim_end_matches(" %").to_owned()
}
