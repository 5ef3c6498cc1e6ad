//! SQL over the tables.

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use proptest::prelude::*;
use ringscope_format::{Kind, Record, Status, Value, ValueType};
use serde_json::{Value as Json, json};

use crate::made::{Finished, Made, analyze};

/// One of everything.
fn sample() -> Finished {
    let mut made = Made::new();
    let (main, queue) = (made.main, made.queue);
    let mut launch = Record::timed(Kind::LAUNCH, 0, main, 1_000, 20);
    launch.link = 9;
    made.put(launch, "launch sdpa", &[]);
    let mut kernel = Record::timed(Kind::KERNEL, 0, queue, 1_500, 400);
    kernel.link = 9;
    made.put(kernel, "sdpa", &[]);
    let mut orphan = Record::timed(Kind::FILL, 0, queue, 2_000, 10);
    orphan.link = 10;
    made.put(orphan, "fill", &[]);
    let fields = [
        ("tokens", Value::U64(7)),
        ("big", Value::U64(u64::MAX)),
        ("wait", Value::Ticks(33)),
        ("ok", Value::Bool(true)),
        ("model", Value::Text("llama")),
    ];
    made.span("step", 1_000, 2_000, Status::OK, &fields);
    made.reading(Kind::COUNTER, "hits", 2_500, 3);
    let error = Record::point(Kind::ERROR, 0, main, 2_600, (ValueType::I64, -5_i64 as u64));
    made.put(error, "lost", &[]);
    made.finish()
}

fn rows(trace: &Finished, query: &str) -> Json {
    trace.json(&["sql", query])["rows"].clone()
}

#[test]
fn records_are_everything_in_the_order_recorded() {
    let query = "SELECT record, kind, name, track, start_ns, dur_ns, value, status, depth, link \
                 FROM records WHERE kind <> 'fill'";
    let row = |record, kind, name, track, start, dur, value, status, link| {
        json!({"record": record, "kind": kind, "name": name, "track": track, "start_ns": start,
               "dur_ns": dur, "value": value, "status": status, "depth": 0, "link": link})
    };
    let none = Json::Null;
    assert_eq!(
        rows(&sample(), query),
        json!([
            row(0, "launch", "launch sdpa", "main", 0, json!(20), none.clone(), "unknown", 9),
            row(1, "kernel", "sdpa", "gpu 0", 500, json!(400), none.clone(), "unknown", 9),
            row(3, "span", "step", "main", 0, json!(2000), none.clone(), "ok", 0),
            row(4, "counter", "hits", "main", 1500, none.clone(), json!(3), "unknown", 0),
            row(5, "error", "lost", "main", 1600, none, json!(-5), "unknown", 0),
        ])
    );
}

#[test]
fn spans_kernels_and_counters_are_parts_of_the_records() {
    let trace = sample();
    let spans = rows(&trace, "SELECT name FROM spans");
    assert_eq!(spans, json!([{"name": "launch sdpa"}, {"name": "step"}]));
    let kernels = rows(&trace, "SELECT name, queue, launch_ns, queue_delay_ns FROM kernels");
    let none = Json::Null;
    assert_eq!(
        kernels,
        json!([
            {"name": "sdpa", "queue": "gpu 0", "launch_ns": 0, "queue_delay_ns": 500},
            {"name": "fill", "queue": "gpu 0", "launch_ns": none, "queue_delay_ns": none},
        ])
    );
    let counters = rows(&trace, "SELECT trace, name, value FROM counters");
    assert_eq!(counters, json!([{"trace": "made.trace", "name": "hits", "value": 3}]));
}

#[test]
fn a_kernel_finds_its_launch_whatever_the_filter() {
    let query = ["sql", "SELECT queue_delay_ns FROM kernels", "--name", "sdpa"];
    assert_eq!(sample().json(&query)["rows"], json!([{"queue_delay_ns": 500}]));
}

#[test]
fn fields_keep_numbers_texts_and_the_digits_of_large_integers() {
    let query = "SELECT f.key, f.type, f.number, f.text FROM fields f \
                 JOIN spans s ON s.record = f.record WHERE f.key <> 'big' ORDER BY f.key";
    let none = Json::Null;
    assert_eq!(
        rows(&sample(), query),
        json!([
            {"key": "model", "type": "text", "number": none, "text": "llama"},
            {"key": "ok", "type": "bool", "number": 1, "text": none},
            {"key": "tokens", "type": "u64", "number": 7, "text": none},
            {"key": "wait", "type": "ns", "number": 33, "text": none},
        ])
    );
    let big = rows(&sample(), "SELECT text FROM fields WHERE key = 'big'");
    assert_eq!(big, json!([{"text": "18446744073709551615"}]));
}

#[test]
fn names_and_tracks_are_lists_of_the_trace() {
    let trace = sample();
    let tracks = rows(&trace, "SELECT id, kind, name, os_id FROM tracks");
    assert_eq!(
        tracks,
        json!([
            {"id": 1, "kind": "thread", "name": "main", "os_id": 4711},
            {"id": 2, "kind": "queue", "name": "gpu 0", "os_id": 1},
        ])
    );
    let names = rows(&trace, "SELECT count(*) AS n FROM names WHERE name IN ('sdpa', 'tokens')");
    assert_eq!(names, json!([{"n": 2}]));
}

#[test]
fn filters_apply_before_the_query_and_record_numbers_stay() {
    let query = ["sql", "SELECT record, name FROM records", "--from", "500ns", "--name", "s*"];
    assert_eq!(sample().json(&query)["rows"], json!([{"record": 1, "name": "sdpa"}]));
}

#[test]
fn a_query_prints_as_a_table_with_units_from_the_names_of_its_columns() {
    let query = "SELECT name, count(*) AS count, sum(dur_ns) AS total_ns, 2048 AS some_bytes \
                 FROM spans GROUP BY name ORDER BY total_ns DESC";
    let expected = "  name         count  total_ns  some_bytes\n  \
                    step             1   2.00 us     2.0 KiB\n  \
                    launch sdpa      1  20.00 ns     2.0 KiB\n";
    assert_eq!(sample().output(&["sql", query]), expected);
    let csv = sample().output(&["sql", query, "--format", "csv", "--limit", "1"]);
    assert_eq!(csv, "name,count,total_ns,some_bytes\nstep,1,2000,2048\n");
}

#[test]
fn a_query_comes_from_standard_input_if_asked() {
    let trace = sample();
    let mut child = Command::new(env!("CARGO_BIN_EXE_analyze"))
        .args(["sql", "-", "--format", "csv"])
        .arg(&trace.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT max(record) AS last FROM records").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "last\n5\n");
}

#[test]
fn mistakes_are_told_in_one_line() {
    let trace = sample();
    let cases = [
        ("SELECT nme FROM spans", "unable to find column \"nme\"; valid columns: [\"trace\""),
        ("SELECT name FROM span", "relation 'span' was not found; there are records, spans"),
        ("SELEC name FROM spans", "Expected: an SQL statement"),
        ("SELECT 1; SELECT 2", "one (and only one) statement"),
        ("", "one (and only one) statement"),
        ("SELECT 1 FROM spans WHERE EXISTS (SELECT 1 FROM fields)", "EXISTS is not supported"),
    ];
    for (query, expected) in cases {
        let complaint = trace.complaint(&["sql", query]);
        assert!(complaint.starts_with("analyze: sql: "), "{complaint}");
        assert!(complaint.contains(expected), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn tables_that_do_not_fit_are_refused_before_they_are_made() {
    let trace = sample();
    let complaint = trace.complaint(&["sql", "SELECT name FROM records", "--max-memory", "100"]);
    let expected = "analyze: table records: 6 rows of 1 columns (name), with the query \
                    over them, take about 288.0 B, and 100.0 B is the limit; name fewer columns, ask about \
                    a part with --from, --to, --last, --name, --track, --request or --min-duration, or raise \
                    --max-memory\n";
    assert_eq!(complaint, expected);
    let fits = ["sql", "SELECT name FROM records", "--max-memory", "100", "--name", "sdpa"];
    assert_eq!(trace.json(&fits)["rows"], json!([{"name": "sdpa"}]));
}

#[test]
fn an_empty_trace_has_empty_tables() {
    let trace = Made::new().finish();
    assert_eq!(rows(&trace, "SELECT count(*) AS n FROM records"), json!([{"n": 0}]));
    for table in ["records", "spans", "kernels", "counters", "fields", "names"] {
        assert_eq!(rows(&trace, &format!("SELECT * FROM {table}")), json!([]), "{table}");
    }
    assert_eq!(trace.output(&["sql", "SELECT * FROM spans"]), "no rows\n");
}

#[test]
fn the_schema_needs_no_trace() {
    let output = analyze(&["sql", "--schema", "--format", "csv"], Path::new(""));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("table,column,type,about\nrecords,trace,text,label of the trace\n"));
    assert_eq!(text.lines().count(), 1 + 58);
}

#[test]
fn every_example_in_the_help_is_a_query_that_works() {
    let help = analyze(&["sql", "--help"], Path::new(""));
    let help = String::from_utf8(help.stdout).unwrap();
    let quoted: Vec<&str> = help.split('"').skip(1).step_by(2).collect();
    assert_eq!(quoted.len(), 3);
    for query in quoted {
        sample().output(&["sql", query]);
    }
}

#[test]
fn several_traces_are_one_table() {
    let (one, other) = (sample(), sample());
    let query = "SELECT trace, count(*) AS n, min(record) AS first FROM records GROUP BY trace \
                 ORDER BY first";
    let other = other.path.to_str().unwrap();
    let rows = one.json(&["sql", query, other])["rows"].clone();
    assert_eq!((&rows[0]["n"], &rows[0]["first"]), (&json!(6), &json!(0)));
    assert_eq!((&rows[1]["n"], &rows[1]["first"]), (&json!(6), &json!(6)));
    assert_eq!(rows[0]["trace"], json!(other));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn sums_and_percentiles_are_those_of_the_summary(
        spans in prop::collection::vec((0..5_u64, 0..100_000_u64, 0..2_000_000_u64), 1..300),
    ) {
        let mut made = Made::new();
        let mut naive: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (name, start, length) in spans {
            let name = format!("span {name}");
            made.span(&name, start, length, Status::OK, &[]);
            let (count, total) = naive.entry(name).or_default();
            (*count, *total) = (*count + 1, *total + length);
        }
        let trace = made.finish();
        let query = "SELECT name, count(*) AS count, sum(dur_ns) AS total_ns, min(dur_ns) AS min_ns, \
                     max(dur_ns) AS max_ns, quantile_cont(dur_ns, 0.95) AS p95_ns \
                     FROM spans GROUP BY name ORDER BY name";
        let asked = rows(&trace, query);
        let summary = trace.json(&["summary", "--sort", "name"]);
        let keys = ["name", "count", "total_ns", "min_ns", "max_ns"];
        let asked_rows = asked.as_array().unwrap();
        prop_assert_eq!(asked_rows.len(), naive.len());
        for (row, ours) in asked_rows.iter().enumerate() {
            let theirs = &summary["rows"][row];
            for key in keys {
                prop_assert_eq!(&ours[key], &theirs[key]);
            }
            let near = ours["p95_ns"].as_f64().unwrap() - theirs["p95_ns"].as_f64().unwrap();
            prop_assert!(near.abs() < 1e-6);
            let (count, total) = naive[ours["name"].as_str().unwrap()];
            prop_assert_eq!(&ours["count"], &json!(count));
            prop_assert_eq!(&ours["total_ns"], &json!(total));
        }
    }
}
