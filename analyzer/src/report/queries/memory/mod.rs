//! `memory`: what was allocated and not released, what devices, pools and caches
//! used over time, the weights, and what of the host's memory nothing accounts for.
//!
//! Figures of several traces are told apart: they are different processes.

mod allocations;
mod courses;
mod host;
mod weights;

use ringscope_format::Kind;

use super::{
    Context,
    vocabulary::{Args, Asking, Points, Report, counted, hide_empty_columns, optional, text},
};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Part, Table},
    tables::Scope,
};

pub(super) const REPORT: Report = Report {
    schema: "ringscope.memory/1",
    queries: &[
        ("allocations and releases", allocations::EVENTS),
        ("devices, pools and caches over time", courses::READINGS),
        ("the process's memory over time", host::READINGS),
        ("changes by phase", PHASES),
        ("weights", weights::WEIGHTS),
        ("bytes moved", BANDWIDTH),
    ],
    scope: Scope {
        kinds: |kind| matches!(kind, Kind::COPY | Kind::FILL),
        names: &[
            "memory.allocate",
            "memory.release",
            "memory.device",
            "memory.pool",
            "memory.phase",
            "memory.weights",
            "kv_cache.grow",
            "process.resident_bytes",
            "process.anonymous_bytes",
            "process.peak_resident_bytes",
            "checkpoint",
            "dataset.batch",
            "dataset.load",
            "serialize",
        ],
        ..Scope::NONE
    },
    parts,
    nothing: "nothing about memory in this trace; memory.allocate, memory.device and others \
              record it (format-spec/VOCABULARY.md)",
};

const PHASES: &str = "\
SELECT r.trace, f.phase, COUNT(*) AS count, SUM(f.delta) AS delta_bytes, MAX(f.delta) AS max_bytes
FROM records r
JOIN (SELECT record,
        MAX(CASE WHEN key = 'phase' THEN text END) AS phase,
        MAX(CASE WHEN key = 'delta' THEN number END) AS delta
      FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name = 'memory.phase'
GROUP BY r.trace, f.phase
ORDER BY delta_bytes DESC, f.phase";

/// Whatever has a duration and a field `bytes`.
const BANDWIDTH: &str = "\
SELECT r.trace, r.name, r.kind, COUNT(*) AS count, SUM(f.number) AS bytes,
       SUM(r.dur_ns) AS total_ns, MAX(f.number / r.dur_ns) AS best
FROM records r
JOIN (SELECT record, number FROM fields WHERE key = 'bytes') f ON f.record = r.record
WHERE r.dur_ns > 0
GROUP BY r.trace, r.name, r.kind
ORDER BY bytes DESC, r.name";

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    REPORT.run(args)
}

/// Names without which the overview has nothing to say about memory.
const IN_THE_OVERVIEW: [&str; 5] =
    ["memory.allocate", "memory.release", "memory.device", "memory.pool", "kv_cache.grow"];

/// A section of the overview: what was allocated, and what devices and pools used.
/// Empty if nothing is known of memory beside the recorder's readings of the process.
pub fn section(context: &Context, points: &Points) -> Result<Vec<Part>> {
    let is_there = |name: &String| IN_THE_OVERVIEW.contains(&name.as_str());
    if !context.traces.names.iter().any(is_there) {
        return Ok(Vec::new());
    }
    points.section(context, |asking| {
        let events = asking.ask(allocations::EVENTS)?;
        let groups = allocations::groups(asking, &events)?;
        let tables = [allocations::table(asking, &groups), courses::table(asking)?];
        Ok(tables.into_iter().flatten().map(Part::Table).collect())
    })
}

fn parts(asking: &Asking<'_>) -> Result<Vec<Part>> {
    let events = asking.ask(allocations::EVENTS)?;
    let groups = allocations::groups(asking, &events)?;
    let mut parts: Vec<Part> =
        allocations::table(asking, &groups).map(Part::Table).into_iter().collect();
    parts.extend(courses::table(asking)?.map(Part::Table));
    let (weights, on_host) = weights::table(asking)?;
    parts.extend(host::table(asking, &groups, &on_host)?.map(Part::Table));
    parts.extend(phases(asking)?.map(Part::Table));
    parts.extend(weights.map(Part::Table));
    parts.extend(bandwidth(asking)?.map(Part::Table));
    Ok(parts)
}

fn phases(asking: &Asking<'_>) -> Result<Option<Table>> {
    let answer = asking.ask(PHASES)?;
    let (phases, traces) = (answer.texts("phase")?, answer.texts("trace")?);
    let number = |column: &str| answer.numbers(column);
    let (count, delta, max) = (number("count")?, number("delta_bytes")?, number("max_bytes")?);
    let columns = vec![
        Column::new("phase", "phase"),
        asking.trace_column(),
        Column::new("count", "count"),
        Column::new("delta_bytes", "change"),
        Column::new("max_bytes", "largest"),
    ];
    let mut table = Table::new("phases", "Change by phase", columns);
    for row in 0..answer.rows() {
        table.rows.push(vec![
            text(phases[row]),
            text(traces[row]),
            counted(count[row]),
            optional(delta[row], Cell::Bytes),
            optional(max[row], Cell::Bytes),
        ]);
    }
    Ok((!table.rows.is_empty()).then_some(table))
}

fn bandwidth(asking: &Asking<'_>) -> Result<Option<Table>> {
    let answer = asking.ask(BANDWIDTH)?;
    let (names, traces) = (answer.texts("name")?, answer.texts("trace")?);
    let kinds = answer.texts("kind")?;
    let number = |column: &str| answer.numbers(column);
    let (count, bytes, total) = (number("count")?, number("bytes")?, number("total_ns")?);
    let best = number("best")?;
    let columns = vec![
        Column::new("name", "name"),
        asking.trace_column(),
        Column::new("kind", "kind"),
        Column::new("count", "count"),
        Column::new("bytes", "bytes"),
        Column::new("total_ns", "time"),
        Column::new("bytes_per_second", "per second"),
        Column::new("best_bytes_per_second", "best"),
    ];
    let mut table = Table::new("bandwidth", "Bytes moved", columns);
    for row in 0..answer.rows() {
        let rate = bytes[row].zip(total[row]).map(|(bytes, ns)| (bytes / ns * 1e9).round());
        table.rows.push(vec![
            text(names[row]),
            text(traces[row]),
            text(kinds[row]),
            counted(count[row]),
            optional(bytes[row], Cell::Bytes),
            optional(total[row], Cell::Ns),
            optional(rate, Cell::Bytes),
            optional(best[row].map(|best| (best * 1e9).round()), Cell::Bytes),
        ]);
    }
    Ok((!table.rows.is_empty()).then_some(table))
}
