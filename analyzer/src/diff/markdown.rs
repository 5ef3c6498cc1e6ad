//! For a comment on a pull request: the verdict, one table of what changed, and the
//! rest folded away.

use std::fmt::Write;

use super::{
    decision::Verdict,
    run_summary::Metric,
    tables::{attributions, counters},
    view::{View, percent, ratio, time},
};
use crate::output::{Document, Format, Part, Style, Table, TimeUnit, count};

/// Rows of the table of what changed.
const MOST_CHANGED: usize = 25;

pub(super) fn text(view: &View<'_>, unit: TimeUnit) -> String {
    let mut out = String::new();
    let mark = match view.gate.verdict {
        "ok" => "✅",
        "regression" => "❌",
        _ => "⚠️",
    };
    let _ = writeln!(out, "### {mark} {}\n", escaped(&view.gate.sentence));
    for sentence in view.sentences() {
        let _ = writeln!(out, "{}\n", sentence.replace('|', "\\|"));
    }
    let order = view.order();
    let changed = |at: &&usize| {
        let verdict = view.decision.names[**at].verdict;
        !matches!(verdict, Verdict::Ok | Verdict::Inconclusive | Verdict::InsufficientData)
    };
    let (first, rest): (Vec<usize>, Vec<usize>) = order.iter().partition(|at| changed(at));
    let (first, more) = first.split_at(first.len().min(MOST_CHANGED));
    if first.is_empty() {
        out.push_str("No name changed.\n");
    } else {
        rows(&mut out, view, first, unit);
        if let Some((metric, n, change)) = view.geomean() {
            let _ = writeln!(out, "| geomean of {n} | {metric} | | | {} | | | |", ratio(change));
        }
    }
    for remark in view.remarks.iter().filter(|it| it.is_warning) {
        let _ = writeln!(out, "\n> {}", escaped(&remark.text));
    }
    let rest: Vec<usize> = more.iter().copied().chain(rest).collect();
    let common = view.common_lines();
    if !common.is_empty() {
        let lines: Vec<String> = common.iter().map(|line| format!("- {line}")).collect();
        details(&mut out, "What all names share, taken out of each", &lines.join("\n"));
    }
    for table in attributions(view).into_iter().chain(counters(view)) {
        let (title, body) = plain(table, unit);
        details(&mut out, &title, &body);
    }
    if !rest.is_empty() {
        let mut body = String::new();
        rows(&mut body, view, &rest, unit);
        details(&mut out, &format!("{} more names", count(rest.len() as u64)), body.trim_end());
    }
    let _ = writeln!(out, "\n<sub>{}</sub>", escaped(&view.heading()));
    out
}

fn rows(out: &mut String, view: &View<'_>, names: &[usize], unit: TimeUnit) {
    out.push_str("| name | figure | base | head | delta % | own % (95 %) | share % | verdict |\n");
    out.push_str("|---|---|---:|---:|---:|---:|---:|---|\n");
    for &at in names {
        let judged = &view.decision.names[at];
        let test = view.telling(judged).or_else(|| judged.tests.first().copied());
        let metric = test.map_or(0, |it| it.metric);
        let name = |metric: usize| view.decision.metrics.get(metric).map(ToString::to_string);
        let (base, head) = match &test {
            Some(test) => (Some(test.base), Some(test.head)),
            None => {
                let side = |of_base| view.figures(at, of_base).metrics.first().copied();
                (side(true), side(false))
            }
        };
        let is_count = view.decision.metrics.get(metric) == Some(&Metric::Count);
        let shown = |value: Option<f64>| match value {
            Some(n) if is_count => count(n.round() as u64),
            Some(ns) => time(ns, unit).replace("  ", " "),
            None => String::new(),
        };
        let own = test.filter(|it| it.interval.0.is_finite()).map_or_else(String::new, |it| {
            format!("{} ({} to {})", ratio(it.own), ratio(it.interval.0), ratio(it.interval.1))
        });
        let change = test.map_or_else(String::new, |it| percent(100.0 * (it.head / it.base - 1.0)));
        let share = view.share_percent(at).map_or_else(String::new, |it| format!("{it:.0}"));
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {change} | {own} | {share} | {} |",
            view.short_label(at).replace('|', "\\|").replace('`', "'"),
            name(metric).unwrap_or_default(),
            shown(base),
            shown(head),
            escaped(&view.verdict(at)),
        );
    }
}

fn details(out: &mut String, title: &str, body: &str) {
    let _ = writeln!(out, "\n<details><summary>{title}</summary>\n\n{body}\n\n</details>");
}

/// A table by the usual printer, and its title.
fn plain(mut table: Table, unit: TimeUnit) -> (String, String) {
    let title = std::mem::take(&mut table.title);
    let document = Document {
        schema: "ringscope.diff/1",
        trace: serde_json::Value::Null,
        loss: serde_json::Value::Null,
        exact: true,
        parts: vec![Part::Table(table)],
    };
    let style = Style { format: Format::Markdown, time_unit: unit, color: false, width: None };
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = document.print(&style, &mut bytes);
    (title, String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// What would start a tag or a column.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}
