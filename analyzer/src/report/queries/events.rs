//! The section of the overview that lists what happened at an instant, by name:
//! events of any vocabulary, and kinds of points that only a later version knows.
//! Counters, gauges and errors have sections of their own.

use super::vocabulary::{Asking, Points, counted, hide_empty_columns, optional, text};
use crate::{
    Result,
    output::{Cell, Column, Part, Table},
    report::Context,
};

/// Numbers that an event carries are added up: what they are, its author knows.
pub(super) const EVENTS: &str = "\
SELECT trace, name, kind, COUNT(*) AS count, SUM(value) AS sum,
       MIN(start_ns) AS first_ns, MAX(start_ns) AS last_ns
FROM records
WHERE dur_ns IS NULL AND kind NOT IN ('counter', 'gauge', 'error')
GROUP BY trace, name, kind
ORDER BY count DESC, name, trace, kind";

/// Empty without events.
pub fn section(context: &Context, points: &Points) -> Result<Vec<Part>> {
    points.section(context, parts)
}

fn parts(asking: &Asking<'_>) -> Result<Vec<Part>> {
    let answer = asking.ask(EVENTS)?;
    if answer.rows() == 0 {
        return Ok(Vec::new());
    }
    let number = |column: &str| answer.numbers(column);
    let (names, traces, kinds) =
        (answer.texts("name")?, answer.texts("trace")?, answer.texts("kind")?);
    let (count, sum) = (number("count")?, number("sum")?);
    let (first, last) = (number("first_ns")?, number("last_ns")?);
    let mut columns = vec![
        Column::new("name", "name"),
        asking.trace_column(),
        Column::new("kind", "kind"),
        Column::new("count", "count"),
        Column::new("per_second", "per second"),
        Column::new("sum", "sum"),
        Column::new("first_ns", "first at"),
        Column::new("last_ns", "last at"),
    ];
    columns[2].shown = kinds.iter().any(|kind| *kind != Some("event"));
    let mut table = Table::new("events", "Events", columns);
    for row in 0..answer.rows() {
        let (from, to) = asking.time_range(traces[row]);
        let rate = count[row].map(|count| count / ((to - from) / 1e9));
        // Of events without a number, Polars makes the sum 0.
        let sum = sum[row].filter(|sum| *sum != 0.0);
        table.rows.push(vec![
            text(names[row]),
            text(traces[row]),
            text(kinds[row]),
            counted(count[row]),
            optional(rate, |rate| Cell::Number((rate * 100.0).round() / 100.0)),
            optional(sum, Cell::Number),
            optional(first[row], Cell::Ns),
            optional(last[row], Cell::Ns),
        ]);
    }
    hide_empty_columns(&mut table);
    Ok(vec![Part::Table(table)])
}
