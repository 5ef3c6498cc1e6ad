//! `errors`: what went wrong, by name and kind: first, last, how often, and what
//! the last one had to say.

use std::collections::{HashMap, HashSet};

use ringscope_format::Kind;

use super::vocabulary::{Args, Asking, Points, Report, counted, optional, text};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Part, Table},
    report::Context,
    tables::Scope,
};

pub(super) const REPORT: Report = Report {
    schema: "ringscope.errors/1",
    queries: &[("errors by name and kind", ERRORS), ("what errors carry", PAYLOADS)],
    scope: Scope { kinds: |kind| kind == Kind::ERROR, failed: true, ..Scope::NONE },
    parts,
    nothing: "no errors in this trace; it would hold what error! records, and spans that fail",
};

/// Errors, and spans that failed. The kind of an error is its field `kind`.
const ERRORS: &str = "\
SELECT r.trace, r.name, f.error_kind, r.kind AS what, COUNT(*) AS count,
       MIN(r.start_ns) AS first_ns, MAX(r.start_ns) AS last_ns, MAX(r.record) AS last_record
FROM records r
LEFT JOIN (SELECT record, MAX(CASE WHEN key = 'kind' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS error_kind
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.kind = 'error' OR r.status = 'error'
GROUP BY r.trace, r.name, f.error_kind, r.kind
ORDER BY count DESC, first_ns";

/// Fields of errors, by record.
const PAYLOADS: &str = "\
SELECT f.record, f.key, f.type, f.number, f.text
FROM fields f
JOIN records r ON r.record = f.record
WHERE (r.kind = 'error' OR r.status = 'error') AND f.key <> 'kind'
ORDER BY f.record";

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    REPORT.run(args)
}

/// A section of the overview; empty without errors.
pub fn section(context: &Context, points: &Points) -> Result<Vec<Part>> {
    points.section(context, parts)
}

fn parts(asking: &Asking<'_>) -> Result<Vec<Part>> {
    let errors = asking.ask(ERRORS)?;
    if errors.rows() == 0 {
        return Ok(Vec::new());
    }
    let (names, kinds) = (errors.texts("name")?, errors.texts("error_kind")?);
    let (traces, what) = (errors.texts("trace")?, errors.texts("what")?);
    let (count, last_record) = (errors.numbers("count")?, errors.numbers("last_record")?);
    let (first, last) = (errors.numbers("first_ns")?, errors.numbers("last_ns")?);
    let wanted: HashSet<u64> = last_record.iter().flatten().map(|record| *record as u64).collect();
    let payloads = payloads(asking, &wanted)?;
    let columns = vec![
        Column::new("name", "name"),
        asking.trace_column(),
        Column::new("kind", "kind"),
        Column::new("what", "what"),
        Column::new("count", "count"),
        Column::new("first_ns", "first at"),
        Column::new("last_ns", "last at"),
        Column::new("payload", "the last one said"),
    ];
    let mut table = Table::new("errors", "Errors", columns);
    for row in 0..errors.rows() {
        let payload = last_record[row].and_then(|record| payloads.get(&(record as u64)));
        table.rows.push(vec![
            text(names[row]),
            text(traces[row]),
            text(kinds[row]),
            text(what[row]),
            counted(count[row]),
            optional(first[row], Cell::Ns),
            optional(last[row], Cell::Ns),
            text(payload.map(String::as_str)),
        ]);
    }
    Ok(vec![Part::Table(table)])
}

/// Fields of these records as one line each.
fn payloads(asking: &Asking<'_>, wanted: &HashSet<u64>) -> Result<HashMap<u64, String>> {
    let answer = asking.ask(PAYLOADS)?;
    let (records, keys) = (answer.numbers("record")?, answer.texts("key")?);
    let (numbers, texts) = (answer.numbers("number")?, answer.texts("text")?);
    let types = answer.texts("type")?;
    let mut payloads: HashMap<u64, String> = HashMap::new();
    for row in 0..answer.rows() {
        let record = records[row].unwrap_or(-1.0) as u64;
        if !wanted.contains(&record) {
            continue;
        }
        let value = match (texts[row], numbers[row], types[row]) {
            (Some(text), _, _) => text.to_owned(),
            (None, Some(ns), Some("ns")) => super::about::in_words(ns),
            (None, Some(is), Some("bool")) => (is != 0.0).to_string(),
            (None, Some(number), _) => number.to_string(),
            (None, None, _) => continue,
        };
        let line = payloads.entry(record).or_default();
        let gap = if line.is_empty() { "" } else { "  " };
        line.push_str(&format!("{gap}{}={value}", keys[row].unwrap_or_default()));
    }
    Ok(payloads)
}
