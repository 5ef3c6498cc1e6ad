//! `pool`: worker pools: how long work waited for a worker, how long workers were
//! busy, how deep the queue was.

use std::collections::HashMap;

use super::vocabulary::{Args, Asking, Report, counted, optional, text};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Floor, Part, Table, sparkline},
    tables::Scope,
};

pub(super) const REPORT: Report = Report {
    schema: "ringscope.pool/1",
    queries: &[("pools", POOLS), ("depth of the queues over time", DEPTHS)],
    scope: Scope {
        names: &[
            "pool.depth",
            "pool.checkout",
            "pool.checkin",
            "pool.size",
            "worker.crash",
            "circuit.opened",
        ],
        ..Scope::NONE
    },
    parts,
    nothing: "no worker pools in this trace; pool.checkout, pool.checkin, pool.depth and \
              pool.size record them (format-spec/VOCABULARY.md)",
};

/// Events without a field `pool` belong to one pool without a name.
const POOLS: &str = "\
SELECT r.trace, COALESCE(f.pool, '(unnamed)') AS pool,
       SUM(CASE WHEN r.name = 'pool.checkout' THEN 1 ELSE 0 END) AS checkouts,
       AVG(f.queue_ns) AS wait_mean_ns, {percentiles of f.queue_ns}, MAX(f.queue_ns) AS wait_max_ns,
       SUM(CASE WHEN r.name = 'pool.checkin' THEN 1 ELSE 0 END) AS checkins,
       SUM(CASE WHEN r.name = 'pool.checkin' THEN f.busy END) AS busy_ns,
       AVG(CASE WHEN r.name = 'pool.depth' THEN r.value END) AS depth_mean,
       MAX(CASE WHEN r.name = 'pool.depth' THEN r.value END) AS depth_max,
       MAX(f.size) AS size_max,
       AVG(CASE WHEN r.name = 'pool.size' THEN 100.0 * f.busy / f.size END) AS busy_percent,
       SUM(CASE WHEN r.name = 'worker.crash' THEN 1 ELSE 0 END) AS crashes,
       SUM(CASE WHEN r.name = 'circuit.opened' THEN 1 ELSE 0 END) AS circuits_opened
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'pool' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS pool,
             MAX(CASE WHEN key IN ('queue', 'queue_ns') THEN number END) AS queue_ns,
             MAX(CASE WHEN key IN ('busy', 'busy_ns') THEN number END) AS busy,
             MAX(CASE WHEN key = 'size' THEN number END) AS size
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name LIKE 'pool.%' OR r.name IN ('worker.crash', 'circuit.opened')
GROUP BY r.trace, COALESCE(f.pool, '(unnamed)')
ORDER BY pool, r.trace";

const DEPTHS: &str = "\
SELECT r.trace, COALESCE(f.text, '(unnamed)') AS pool, r.start_ns, r.value
FROM records r
LEFT JOIN (SELECT record, COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) AS text FROM fields WHERE key = 'pool') f ON f.record = r.record
WHERE r.name = 'pool.depth'
ORDER BY r.start_ns";

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    REPORT.run(args)
}

fn parts(asking: &Asking<'_>) -> Result<Vec<Part>> {
    let answer = asking.ask(POOLS)?;
    if answer.rows() == 0 {
        return Ok(Vec::new());
    }
    let mut columns = vec![
        Column::new("pool", "pool"),
        asking.trace_column(),
        Column::new("checkouts", "checkouts"),
        Column::new("wait_mean_ns", "wait mean"),
    ];
    columns.extend(asking.percentile_columns());
    columns.extend([
        Column::new("wait_max_ns", "max"),
        Column::new("checkins", "check-ins"),
        Column::new("busy_ns", "busy"),
        Column::new("busy_percent", "busy %"),
        Column::new("size_max", "size"),
        Column::hidden("depth_mean", "depth mean"),
        Column::new("depth_max", "depth"),
        Column::new("crashes", "crashes"),
        Column::new("circuits_opened", "opened"),
    ]);
    let number = |column: &str| answer.numbers(column);
    for key in ["crashes", "circuits_opened"] {
        let any = number(key)?.iter().flatten().any(|n| *n > 0.0);
        columns.iter_mut().filter(|column| column.key == key).for_each(|it| it.shown = any);
    }
    let width = asking.sparkline_width();
    if width.is_some() {
        columns.push(Column::new("course", "depth over time"));
    }
    let courses = asking.ask(DEPTHS)?;
    let (depth_traces, depth_pools) = (courses.texts("trace")?, courses.texts("pool")?);
    let (times, depths) = (courses.numbers("start_ns")?, courses.numbers("value")?);
    let mut course: HashMap<_, Vec<(f64, f64)>> = HashMap::new();
    for at in 0..courses.rows() {
        let of = course.entry((depth_traces[at], depth_pools[at])).or_default();
        of.extend(times[at].zip(depths[at]));
    }

    let (pools, traces) = (answer.texts("pool")?, answer.texts("trace")?);
    let (checkouts, checkins) = (number("checkouts")?, number("checkins")?);
    let (wait_mean, wait_max) = (number("wait_mean_ns")?, number("wait_max_ns")?);
    let (busy, busy_percent) = (number("busy_ns")?, number("busy_percent")?);
    let (depth_mean, depth_max) = (number("depth_mean")?, number("depth_max")?);
    let (size, crashes) = (number("size_max")?, number("crashes")?);
    let opened = number("circuits_opened")?;
    let mut table = Table::new("pools", "Worker pools", columns);
    let mut percentiles = asking.percentile_cells(&answer)?;
    for row in 0..answer.rows() {
        let mut cells = vec![
            text(pools[row]),
            text(traces[row]),
            counted(checkouts[row]),
            optional(wait_mean[row], Cell::Ns),
        ];
        cells.append(&mut percentiles[row]);
        cells.extend([
            optional(wait_max[row], Cell::Ns),
            counted(checkins[row]),
            optional(busy[row], Cell::Ns),
            optional(busy_percent[row], Cell::Percent),
            optional(size[row], Cell::Number),
            optional(depth_mean[row], Cell::Number),
            optional(depth_max[row], Cell::Number),
            counted(crashes[row]),
            counted(opened[row]),
        ]);
        if let Some(width) = width {
            let readings = course.remove(&(traces[row], pools[row])).unwrap_or_default();
            let range = asking.time_range(traces[row]);
            cells.push(Cell::from(sparkline(readings, range, width, Floor::Zero)));
        }
        table.rows.push(cells);
    }
    table.note = "  waits are those of checkouts; size, depth: the largest".to_owned();
    Ok(vec![Part::Table(table)])
}
