//! Export, then import: the same reports, for every format that carries them.
//!
//! CSV, JSON lines, Parquet and Arrow carry everything that these reports look at. Chrome's trace
//! events carry it but for counters: what they came to comes back, not by how much they grew, on
//! a track of their own. Perfetto's protobuf is not imported. Folded stacks, pprof and OpenMetrics
//! are sums without single events, and OTLP is for sending.

use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    export_made::everything,
    nested_traces::{make, steps},
};

#[rustfmt::skip]
const ROWS: &[&str] = &[
    "csv", "jsonl",
    #[cfg(feature = "parquet")]
    "parquet",
    #[cfg(feature = "parquet")]
    "arrow",
];

/// The tables of a report, without what is about the file.
fn tables(dir: &Path, report: &[&str], trace: &str) -> Value {
    let arguments = [report, &[trace, "--format", "json"]].concat();
    let mut document = analyze(dir, &arguments).json();
    let object = document.as_object_mut().unwrap();
    object.remove("trace");
    plain(&mut document);
    document
}

/// Without what is not carried, and without the digits in which sums differ by their order.
fn plain(value: &mut Value) {
    match value {
        Value::Object(object) => {
            // The system's number of a thread.
            object.remove("os_id");
            // A field in ticks is one in nanoseconds, `wait` is `wait_ns`, and NaN a text.
            object.remove("fields");
            object.values_mut().for_each(plain);
        }
        Value::Array(array) => array.iter_mut().for_each(plain),
        Value::Number(number) if number.is_f64() => {
            *value = format!("{:.9e}", number.as_f64().unwrap()).into();
        }
        _ => {}
    }
}

/// Exports `run.trace` and imports it as `back.trace`.
fn there_and_back(dir: &Path, format: &str) {
    let run = analyze(dir, &["export", "run.trace", "--to", format, "-o", "out"]);
    assert_eq!(run.clean(), "", "{format}");
    let _ = std::fs::remove_file(dir.join("back.trace"));
    let run = analyze(dir, &["import", "out", "-o", "back.trace"]);
    assert_eq!(run.code, 0, "{format}: {}", run.stderr);
    // Of Chrome's events, what has no end is what was open.
    let open = "not taken as it stands: 1 beginnings without an end (in flight)";
    let said = run.stderr.replace(if format == "chrome" { open } else { "" }, "");
    assert!(!said.contains("not taken as it stands"), "{format}: {said}");
}

const REPORTS: &[&[&str]] = &[
    &["spans", "--sort", "name"],
    &["summary"],
    &["tree"],
    &["threads"],
    &["kernels", "--sort", "name"],
    &["slow"],
    &["errors"],
    &["counters"],
];

#[test]
fn rows_come_back_as_the_same_reports() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    for format in ROWS {
        there_and_back(dir.path(), format);
        for report in REPORTS {
            let (before, after) =
                (tables(dir.path(), report, "run.trace"), tables(dir.path(), report, "back.trace"));
            let named = |document: Value| document.to_string().replace("back.trace", "run.trace");
            assert_eq!(named(after), named(before), "{format}: {report:?}");
        }
    }
}

#[test]
fn rows_that_came_back_are_exported_as_the_same_rows() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    let rows = |trace: &str| {
        let text = analyze(dir.path(), &["export", trace, "--to", "jsonl"]).clean();
        let mut rows: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for row in &mut rows {
            row["trace"] = Value::Null;
            // Of what happens inside of a span that is still open, this is not known.
            if row.get("dur_ns").is_none() {
                row["depth"] = Value::Null;
            }
            // Numbers of links are given anew; `kernels` shows that they still match.
            if let Some(link) = row.get_mut("link") {
                *link = true.into();
            }
        }
        rows.sort_by_key(|row| (row["start_ns"].as_i64(), row["name"].to_string()));
        rows
    };
    let before = rows("run.trace");
    for format in ROWS {
        there_and_back(dir.path(), format);
        let after = rows("back.trace");
        assert_eq!(after.len(), before.len(), "{format}");
        for (after, before) in after.iter().zip(&before) {
            assert_eq!(after, before, "{format}");
        }
    }
}

#[test]
fn several_traces_in_one_table_come_back_on_one_clock() {
    let dir = tempdir().unwrap();
    for (file, start) in [("a.trace", 1_000), ("b.trace", 4_000)] {
        crate::making::trace(&dir.path().join(file), |writer| {
            let name = writer.name("work");
            let track = writer.track(crate::making::THREAD, 1, "t");
            writer.event(crate::making::span(name, track, start, 10), &[], &[]).unwrap();
        });
    }
    for format in ROWS {
        let export = ["export", "a.trace", "b.trace", "--to", format, "-o", "out"];
        analyze(dir.path(), &export).clean();
        let _ = std::fs::remove_file(dir.path().join("back.trace"));
        analyze(dir.path(), &["import", "out", "-o", "back.trace"]);
        let rows = analyze(dir.path(), &["export", "back.trace", "--to", "csv"]).clean();
        let rows: Vec<&str> = rows.lines().skip(1).collect();
        assert_eq!(
            rows,
            [
                "work,span,a.trace: t,thread,back.trace,0,1700000000000001000,10,0,unknown,,,",
                "work,span,b.trace: t,thread,back.trace,3000,1700000000000004000,10,0,unknown,,,",
            ],
            "{format}"
        );
    }
}

#[test]
fn chrome_brings_back_the_same_reports_but_for_counters() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    there_and_back(dir.path(), "chrome");
    for report in REPORTS.iter().filter(|report| !["threads", "counters"].contains(&report[0])) {
        let (before, after) =
            (tables(dir.path(), report, "run.trace"), tables(dir.path(), report, "back.trace"));
        let named = |document: Value| document.to_string().replace("back.trace", "run.trace");
        assert_eq!(named(after), named(before), "{report:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn spans_of_any_shape_come_back_with_the_same_self_time(steps in steps(60)) {
        let made = make(&steps, false);
        let dir = tempdir().unwrap();
        std::fs::copy(made.file.path(), dir.path().join("run.trace")).unwrap();
        let before = tables(dir.path(), &["spans", "--sort", "name"], "run.trace")["rows"].clone();
        // No lines at all are no JSON lines.
        prop_assume!(before.as_array().is_some_and(|rows| !rows.is_empty()));
        for format in ROWS.iter().chain(&["chrome"]) {
            there_and_back(dir.path(), format);
            let after = tables(dir.path(), &["spans", "--sort", "name"], "back.trace");
            prop_assert_eq!(&after["rows"], &before, "{}", format);
        }
    }
}
