//! `calls`: how long calls took, and where in them the time went: waiting in a
//! queue, encoding, running, decoding.

use super::vocabulary::{Args, Asking, Report, counted, optional, text};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Part, Table},
    report::spans::percent,
    tables::Scope,
};

pub(super) const REPORT: Report = Report {
    schema: "ringscope.calls/1",
    queries: &[("calls by function", CALLS)],
    scope: Scope { names: &["call"], ..Scope::NONE },
    parts,
    nothing: "no calls in this trace; spans named call record them (format-spec/VOCABULARY.md)",
};

const CALLS: &str = "\
SELECT s.trace, COALESCE(f.function, '(no function)') AS function, COUNT(*) AS count,
       SUM(CASE WHEN s.status = 'error' THEN 1 ELSE 0 END) AS errors,
       SUM(s.dur_ns) AS total_ns, AVG(s.dur_ns) AS mean_ns, MAX(s.dur_ns) AS max_ns,
       {percentiles of s.dur_ns},
       SUM(f.queue_ns) AS queue_ns, SUM(f.encode_ns) AS encode_ns,
       SUM(f.run_ns) AS run_ns, SUM(f.decode_ns) AS decode_ns
FROM spans s
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'function' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS function,
             MAX(CASE WHEN key IN ('queue', 'queue_ns') THEN number END) AS queue_ns,
             MAX(CASE WHEN key IN ('encode', 'encode_ns') THEN number END) AS encode_ns,
             MAX(CASE WHEN key IN ('run', 'run_ns') THEN number END) AS run_ns,
             MAX(CASE WHEN key IN ('decode', 'decode_ns') THEN number END) AS decode_ns
           FROM fields GROUP BY record) f ON f.record = s.record
WHERE s.name = 'call'
GROUP BY s.trace, COALESCE(f.function, '(no function)')
ORDER BY total_ns DESC, function";

/// Where the time of a call goes.
const STAGES: [&str; 4] = ["queue", "encode", "run", "decode"];

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    REPORT.run(args)
}

fn parts(asking: &Asking<'_>) -> Result<Vec<Part>> {
    let answer = asking.ask(CALLS)?;
    if answer.rows() == 0 {
        return Ok(Vec::new());
    }
    let number = |column: &str| answer.numbers(column);
    let (functions, traces) = (answer.texts("function")?, answer.texts("trace")?);
    let (count, errors, total) = (number("count")?, number("errors")?, number("total_ns")?);
    let (mean, max) = (number("mean_ns")?, number("max_ns")?);
    let stages = STAGES.map(|stage| number(&format!("{stage}_ns")));
    let stages = stages.into_iter().collect::<Result<Vec<_>>>()?;

    let mut columns = vec![
        Column::new("function", "function"),
        asking.trace_column(),
        Column::new("count", "count"),
        Column::new("errors", "errors"),
        Column::new("total_ns", "total"),
        Column::new("mean_ns", "mean"),
    ];
    columns[3].shown = errors.iter().flatten().any(|errors| *errors > 0.0);
    columns.extend(asking.percentile_columns());
    columns.push(Column::new("max_ns", "max"));
    for stage in STAGES.iter().chain(&["other"]) {
        columns.push(Column::hidden(format!("{stage}_ns"), *stage));
        columns.push(Column::new(format!("{stage}_percent"), format!("{stage} %")));
    }
    let mut table = Table::new("calls", "Calls", columns);
    let mut percentiles = asking.percentile_cells(&answer)?;
    for row in 0..answer.rows() {
        let whole = total[row].unwrap_or(0.0);
        let mut cells = vec![
            text(functions[row]),
            text(traces[row]),
            counted(count[row]),
            counted(errors[row]),
            Cell::Ns(whole),
            optional(mean[row], Cell::Ns),
        ];
        cells.append(&mut percentiles[row]);
        cells.push(optional(max[row], Cell::Ns));
        let parts: Vec<f64> = stages.iter().map(|stage| stage[row].unwrap_or(0.0)).collect();
        // Clocks of two threads may make the parts a little more than the whole.
        let other = (whole - parts.iter().sum::<f64>()).max(0.0);
        for part in parts.into_iter().chain([other]) {
            cells.extend([Cell::Ns(part), percent(part, whole)]);
        }
        table.rows.push(cells);
    }
    Ok(vec![Part::Table(table)])
}
