//! `caches`: how often what was looked for was there.

use std::collections::HashMap;

use super::vocabulary::{Args, Asking, Report, counted, optional, text};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Floor, Part, Table, sparkline},
    tables::Scope,
};

pub(super) const REPORT: Report = Report {
    schema: "ringscope.caches/1",
    queries: &[("caches", CACHES), ("accesses over time", ACCESSES)],
    scope: Scope { names: &["cache.hit", "cache.miss", "cache.access"], ..Scope::NONE },
    parts,
    nothing: "no caches in this trace; cache.hit, cache.miss and cache.access record them \
              (format-spec/VOCABULARY.md)",
};

const CACHES: &str = "\
SELECT trace, cache, COUNT(*) AS accesses, SUM(hit) AS hits, COUNT(*) - SUM(hit) AS misses,
       100.0 * AVG(hit) AS hit_percent,
       SUM(CASE WHEN hit = 1 THEN bytes END) AS hit_bytes,
       SUM(CASE WHEN hit = 0 THEN bytes END) AS miss_bytes
FROM (SELECT r.trace, COALESCE(f.cache, '(unnamed)') AS cache, f.bytes,
             CASE WHEN r.name = 'cache.hit' OR f.hit = 1 THEN 1 ELSE 0 END AS hit
      FROM records r
      LEFT JOIN (SELECT record,
                   MAX(CASE WHEN key = 'cache' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS cache,
                   MAX(CASE WHEN key = 'hit' THEN number END) AS hit,
                   MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes
                 FROM fields GROUP BY record) f ON f.record = r.record
      WHERE r.name IN ('cache.hit', 'cache.miss', 'cache.access')) accesses
GROUP BY trace, cache
ORDER BY accesses DESC, cache";

const ACCESSES: &str = "\
SELECT r.trace, COALESCE(f.cache, '(unnamed)') AS cache, r.start_ns,
       CASE WHEN r.name = 'cache.hit' OR f.hit = 1 THEN 1 ELSE 0 END AS hit
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'cache' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS cache,
             MAX(CASE WHEN key = 'hit' THEN number END) AS hit
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name IN ('cache.hit', 'cache.miss', 'cache.access')
ORDER BY r.start_ns";

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    REPORT.run(args)
}

fn parts(asking: &Asking<'_>) -> Result<Vec<Part>> {
    let answer = asking.ask(CACHES)?;
    if answer.rows() == 0 {
        return Ok(Vec::new());
    }
    let mut columns = vec![
        Column::new("cache", "cache"),
        asking.trace_column(),
        Column::new("accesses", "accesses"),
        Column::new("hits", "hits"),
        Column::new("misses", "misses"),
        Column::new("hit_percent", "hit %"),
        Column::new("hit_bytes", "hit bytes"),
        Column::new("miss_bytes", "miss bytes"),
    ];
    let number = |column: &str| answer.numbers(column);
    let (hit_bytes, miss_bytes) = (number("hit_bytes")?, number("miss_bytes")?);
    let any_bytes = hit_bytes.iter().chain(&miss_bytes).flatten().any(|bytes| *bytes > 0.0);
    columns[6].shown = any_bytes;
    columns[7].shown = any_bytes;
    let width = asking.sparkline_width();
    if width.is_some() {
        columns.push(Column::new("course", "hit % over time"));
    }
    let mut courses = width.map(|width| courses(asking, width)).transpose()?.unwrap_or_default();
    let (caches, traces) = (answer.texts("cache")?, answer.texts("trace")?);
    let (accesses, hits, misses) = (number("accesses")?, number("hits")?, number("misses")?);
    let hit_percent = number("hit_percent")?;
    let mut table = Table::new("caches", "Caches", columns);
    for row in 0..answer.rows() {
        let mut cells = vec![
            text(caches[row]),
            text(traces[row]),
            counted(accesses[row]),
            counted(hits[row]),
            counted(misses[row]),
            optional(hit_percent[row], Cell::Percent),
            optional(hit_bytes[row], Cell::Bytes),
            optional(miss_bytes[row], Cell::Bytes),
        ];
        if width.is_some() {
            let of = (traces[row].map(str::to_owned), caches[row].map(str::to_owned));
            cells.push(text(courses.remove(&of).as_deref()));
        }
        table.rows.push(cells);
    }
    Ok(vec![Part::Table(table)])
}

/// Trace and cache.
type Which = (Option<String>, Option<String>);

/// The rate of hits in each part of the time.
fn courses(asking: &Asking<'_>, width: usize) -> Result<HashMap<Which, String>> {
    let answer = asking.ask(ACCESSES)?;
    let (caches, traces) = (answer.texts("cache")?, answer.texts("trace")?);
    let (times, hits) = (answer.numbers("start_ns")?, answer.numbers("hit")?);
    let mut parts: HashMap<_, Vec<(f64, f64)>> = HashMap::new();
    for at in 0..answer.rows() {
        let range = asking.time_range(traces[at]);
        let share = (times[at].unwrap_or(0.0) - range.0) / (range.1 - range.0);
        let part = ((share * width as f64).max(0.0) as usize).min(width - 1);
        let of = parts.entry((traces[at], caches[at])).or_insert_with(|| vec![(0.0, 0.0); width]);
        of[part].0 += hits[at].unwrap_or(0.0);
        of[part].1 += 1.0;
    }
    let mut courses = HashMap::new();
    for ((trace, cache), parts) in parts {
        let rates = parts.iter().enumerate().filter(|(_, (_, all))| *all > 0.0);
        let rates = rates.map(|(at, (hits, all))| (at as f64, hits / all));
        let line = sparkline(rates, (0.0, width as f64), width, Floor::Zero);
        courses.insert((trace.map(str::to_owned), cache.map(str::to_owned)), line);
    }
    Ok(courses)
}
