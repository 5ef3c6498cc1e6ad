//! `--print-sql`: what people start from gives the figures of the report.

use std::path::Path;

use crate::{
    made::analyze,
    vocabulary::{
        REPORTS, cache_trace, call_trace, counter_trace, error_trace, memory_trace, pool_trace,
        told_calls_trace,
    },
};

#[test]
fn every_report_prints_queries_that_work() {
    let trace = memory_trace();
    for report in REPORTS {
        for query in printed(report) {
            trace.output(&["sql", &query]);
        }
    }
}

/// The queries that a report prints.
fn printed(report: &str) -> Vec<String> {
    let printed = analyze(&[report, "--print-sql"], Path::new(""));
    assert!(printed.status.success());
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.starts_with("/* "), "{printed}");
    printed.split("\n\n").map(str::to_owned).collect()
}

#[test]
fn a_query_that_a_report_prints_gives_the_reports_figures() {
    let traces = [
        ("caches", cache_trace()),
        ("calls", call_trace()),
        ("calls", told_calls_trace()),
        ("counters", counter_trace()),
        ("errors", error_trace()),
        ("pool", pool_trace()),
    ];
    for (report, trace) in traces {
        let by_query = trace.json(&["sql", &printed(report)[0]])["rows"].clone();
        let by_report = trace.json(&[report]);
        // Counters have two tables of one query.
        let others = by_report["sections"]["recorder"].as_array().into_iter().flatten();
        let first = by_report["rows"].as_array().unwrap().iter();
        let mut rows: Vec<_> = first.chain(others).collect();
        if report == "counters" {
            rows.sort_by_key(|row| row["name"].to_string());
        }
        let by_query = by_query.as_array().unwrap();
        assert_eq!(by_query.len(), rows.len(), "{report}");
        for (asked, told) in by_query.iter().zip(rows) {
            for (key, value) in told.as_object().unwrap() {
                // In one of them only: the kind of a record is `what`, and the sum of a gauge
                // and the last value of a counter are nothing to tell.
                let is_other = report == "errors" && key == "kind" || value.is_null();
                let Some(by_query) = asked.get(key).filter(|_| !is_other) else { continue };
                let is_same = match (by_query.as_f64(), value.as_f64()) {
                    (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs(),
                    _ => by_query == value,
                };
                assert!(is_same, "{report}: {key}: {value}, {asked}");
            }
        }
    }
}
