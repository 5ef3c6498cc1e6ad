//! Tables of events: CSV and JSON lines.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use crate::analyze::{Run, analyze};

fn ask(name: &str, content: &str, arguments: &[&str]) -> Run {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(name), content).unwrap();
    let arguments: Vec<&str> = arguments.iter().copied().chain([name]).collect();
    analyze(dir.path(), &arguments)
}

fn spans(name: &str, content: &str) -> (Vec<String>, String) {
    let run = ask(name, content, &["spans", "--format", "json", "--sort", "name"]);
    let said = run.stderr.clone();
    let row = |row: &Value| {
        let name = row["name"].as_str().unwrap();
        format!("{name} {} {} {}", row["count"], row["total_ns"], row["self_ns"])
    };
    (run.json()["rows"].as_array().unwrap().iter().map(row).collect(), said)
}

#[test]
fn csv_and_json_lines_say_the_same() {
    let csv = "name,start_ns,dur_ns,track,status,batch\n\
               inner,10,5,main,ok,7\n\
               \"outer, \"\"quoted\"\"\",0,100,main,error,\n\
               other,3,4,side,,x\n";
    let lines = r#"{"name":"inner","start_ns":10,"dur_ns":5,"track":"main","status":"ok","batch":7}
{"name":"outer, \"quoted\"","start_ns":0,"dur_ns":100,"track":"main","status":"error"}

{"name":"other","start_ns":3,"end_ns":7,"track":"side","batch":"x"}
"#;
    let rows = ["inner 1 5 5", "other 1 4 4", "outer, \"quoted\" 1 100 95"];
    let (csv, said) = spans("t.csv", csv);
    assert_eq!(
        (csv, said.as_str()),
        (rows.map(str::to_owned).to_vec(), "analyze: t.csv: 3 events converted from CSV\n")
    );
    let (lines, said) = spans("t", lines);
    assert_eq!(
        (lines, said.as_str()),
        (rows.map(str::to_owned).to_vec(), "analyze: t: 3 events converted from JSON rows\n")
    );
}

#[test]
fn units_are_in_the_names_of_columns_and_separators_in_the_header() {
    let (rows, _) = spans("t", "name;start_us;duration_ms\r\na;1.5;0.000001\r\nb;2;1\r\n");
    assert_eq!(rows, ["a 1 1 1", "b 1 1000000 1000000"]);
    let (rows, _) = spans("t", "\u{feff}name\tstart_s\tend_s\na\t0.000000001\t0.000000003\n");
    assert_eq!(rows, ["a 1 2 2"]);
}

#[test]
fn kernels_of_a_table_are_work_of_a_device_linked_to_their_launches() {
    let csv = "kind,name,start_ns,dur_ns,track,link,bytes\n\
               launch,launchKernel,100,10,main,5,\n\
               kernel,gemm,150,50,GPU 1 stream 2,5,\n\
               copy,upload,250,50,GPU 1 stream 2,,4096\n";
    let json = ask("t.csv", csv, &["kernels", "--format", "json"]).json();
    let gemm = json["rows"].as_array().unwrap().iter().find(|row| row["name"] == "gemm").unwrap();
    assert_eq!((&gemm["queue_delay_mean_ns"], &gemm["launched"]), (&50.into(), &1.into()));
    let upload = json["rows"].as_array().unwrap().iter().find(|it| it["name"] == "upload").unwrap();
    assert_eq!(upload["bytes"], 4096);
    let text = json.to_string();
    assert!(text.contains("\"busy_ns\":100") && text.contains("\"idle_ns\":50"), "{text}");
}

#[test]
fn rows_that_cannot_be_read_are_counted_and_the_first_is_named() {
    let csv = "name,start_ns,dur_ns\na,0,1\nb,soon,1\nc,5,\n,6,1\nd,7,1,surplus\n\"e,8,9\n";
    let (rows, said) = spans("t.csv", csv);
    assert_eq!(rows, ["a 1 1 1"]);
    assert_eq!(
        said,
        "analyze: t.csv: 2 events converted from CSV, 4 left out\n\
         analyze: t.csv: line 3: a time that is no number within 146 years\n\
         analyze: t.csv: not taken as it stands: 1 rows left out: a time that is no number within \
         146 years; 1 rows left out: fewer cells than the header; 1 rows left out: more cells than \
         the header; 1 rows left out: no name; 1 rows without a duration (taken as instants)\n\
         analyze: t.csv: 4 of 6 events were lost (66.67 %): 4 could not be converted; figures \
         are of what was stored\n"
    );
}

#[test]
fn a_text_that_is_no_table_of_events_is_no_trace() {
    for content in ["name,age\nx,1\n", "{\"name\":1}\n", "# notes\n", "[1, 2, 3]"] {
        let said = ask("notes", content, &["spans"]).refusal();
        assert!(said.contains("`start_ns`") || said.contains("not of a profiler"), "{said}");
        assert_eq!(ask("notes", content, &["import", "-o", "out.trace"]).refusal(), said);
    }
}
