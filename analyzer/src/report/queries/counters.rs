//! `counters`: what was counted and measured, the program's own readings first,
//! the recorder's apart.

use std::collections::HashMap;

use ringscope_format::Kind;

use super::vocabulary::{
    Args, Asking, Points, Report, counted, hide_empty_columns, optional, text,
};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Floor, Part, Table, sparkline},
    query::{Answer, unit_cell},
    report::Context,
    tables::Scope,
};

pub(super) const REPORT: Report = Report {
    schema: "ringscope.counters/1",
    queries: &[("counters and gauges by name", COUNTERS), ("every reading", READINGS)],
    scope: Scope { kinds: |kind| matches!(kind, Kind::COUNTER | Kind::GAUGE), ..Scope::NONE },
    parts,
    nothing: "no counters in this trace; counter! and gauge! record them",
};

/// What a counter counted is its sum; what a gauge says is its last value.
const COUNTERS: &str = "\
SELECT trace, name, kind, COUNT(*) AS readings, SUM(value) AS sum, MIN(value) AS min,
       AVG(value) AS mean, MAX(value) AS max, LAST(value) AS last
FROM (SELECT trace, name, kind, start_ns, value FROM counters ORDER BY start_ns) c
GROUP BY trace, name, kind
ORDER BY name, trace, kind";

const READINGS: &str = "\
SELECT trace, name, kind, start_ns, value FROM counters ORDER BY start_ns";

/// Names that the recorder keeps for its own readings.
const RESERVED: [&str; 2] = ["process.", "recorder."];

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    REPORT.run(args)
}

/// A section of the overview; empty without counters of the program's own.
pub fn section(context: &Context, points: &Points) -> Result<Vec<Part>> {
    let mut parts = points.section(context, parts)?;
    parts.retain(|part| matches!(part, Part::Table(table) if table.key == "counters"));
    Ok(parts)
}

fn parts(asking: &Asking<'_>) -> Result<Vec<Part>> {
    let (answer, readings) = (asking.ask(COUNTERS)?, asking.ask(READINGS)?);
    let is_reserved = |name: &str| RESERVED.iter().any(|prefix| name.starts_with(prefix));
    let own = table(asking, &answer, &readings, "counters", "Counters", |it| !is_reserved(it))?;
    let title = "The recorder's readings of the process and of itself";
    let recorder = table(asking, &answer, &readings, "recorder", title, is_reserved)?;
    let tables = [own, recorder].into_iter().filter(|table| !table.rows.is_empty());
    Ok(tables.map(Part::Table).collect())
}

fn table(
    asking: &Asking<'_>,
    answer: &Answer,
    readings: &Answer,
    key: &str,
    title: &str,
    is_in: impl Fn(&str) -> bool,
) -> Result<Table> {
    let mut columns = vec![
        Column::new("name", "name"),
        asking.trace_column(),
        Column::new("kind", "kind"),
        Column::new("readings", "readings"),
        Column::new("sum", "sum"),
        Column::new("per_second", "per second"),
        Column::new("min", "min"),
        Column::new("mean", "mean"),
        Column::new("max", "max"),
        Column::new("last", "last"),
    ];
    let width = asking.sparkline_width();
    if width.is_some() {
        columns.push(Column::new("course", "over time"));
    }
    let mut table = Table::new(key, title, columns);
    let (names, traces) = (answer.texts("name")?, answer.texts("trace")?);
    let kinds = answer.texts("kind")?;
    let number = |column: &str| answer.numbers(column);
    let (count, sum, mean) = (number("readings")?, number("sum")?, number("mean")?);
    let (min, max, last) = (number("min")?, number("max")?, number("last")?);
    let (all_names, all_traces) = (readings.texts("name")?, readings.texts("trace")?);
    let (times, values) = (readings.numbers("start_ns")?, readings.numbers("value")?);
    let all_kinds = readings.texts("kind")?;
    let mut courses: HashMap<_, Vec<(f64, f64)>> = HashMap::new();
    for at in 0..readings.rows() {
        if let (Some(time), Some(value)) = (times[at], values[at]) {
            let of = (all_names[at], all_traces[at], all_kinds[at]);
            courses.entry(of).or_default().push((time, value));
        }
    }
    for row in 0..answer.rows() {
        let name = names[row].unwrap_or_default();
        if !is_in(name) {
            continue;
        }
        let value = |it: Option<f64>| it.map_or(Cell::None, |number| unit_cell(name, number));
        let is_counter = kinds[row] == Some("counter");
        let (from, to) = asking.time_range(traces[row]);
        let seconds = (to - from) / 1e9;
        let rate = sum[row].filter(|_| is_counter).map(|sum| sum / seconds);
        let mut cells = vec![
            Cell::from(name),
            text(traces[row]),
            text(kinds[row]),
            counted(count[row]),
            if is_counter { value(sum[row]) } else { Cell::None },
            optional(rate, |rate| Cell::Number((rate * 100.0).round() / 100.0)),
            value(min[row]),
            value(mean[row]),
            value(max[row]),
            if is_counter { Cell::None } else { value(last[row]) },
        ];
        if let Some(width) = width {
            let readings =
                courses.remove(&(names[row], traces[row], kinds[row])).unwrap_or_default();
            let floor = if is_counter { Floor::Zero } else { Floor::Least };
            cells.push(Cell::from(sparkline(
                readings,
                asking.time_range(traces[row]),
                width,
                floor,
            )));
        }
        table.rows.push(cells);
    }
    hide_empty_columns(&mut table);
    Ok(table)
}
