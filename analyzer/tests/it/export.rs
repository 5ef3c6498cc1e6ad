//! `export`: where it goes, what is in, and whatever may be wrong with a trace.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::{analyze::analyze, export_made::everything, making};

#[rustfmt::skip]
const FORMATS: &[&str] = &[
    "csv", "jsonl", "chrome", "perfetto", "folded", "pprof", "openmetrics", "otlp-json",
    #[cfg(feature = "parquet")]
    "parquet",
    #[cfg(feature = "parquet")]
    "arrow",
];
/// Where names are not in plain sight.
const PACKED: [&str; 3] = ["openmetrics", "parquet", "arrow"];

#[test]
fn rows_tell_everything_that_is_recorded() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    let lines = analyze(dir.path(), &["export", "run.trace", "--to", "jsonl"]).clean();
    let unix = 1_700_000_000_000_001_000_u64;
    let expected = [
        json!({ "name": "launch", "kind": "launch", "track": "main", "track_kind": "thread", "trace": "run.trace",
            "start_ns": 100, "start_unix_ns": unix + 100, "dur_ns": 20, "depth": 1,
            "status": "unknown", "link": 5 }),
        json!({ "name": "step \"1\"\u{1b}", "kind": "span", "track": "main", "track_kind": "thread", "trace": "run.trace",
            "start_ns": 0, "start_unix_ns": unix, "dur_ns": 200, "depth": 0, "status": "ok",
            "fields": { "count": u64::MAX, "delta": -2, "rate": 0.5, "odd": "NaN", "on": true,
                "op": "gemm", "wait_ns": 40, "note": "a \"b\",\nc" } }),
        json!({ "name": "gemm", "kind": "kernel", "track": "gpu 0 stream 1", "track_kind": "queue", "trace": "run.trace",
            "start_ns": 130, "start_unix_ns": unix + 130, "dur_ns": 100, "depth": 0,
            "status": "unknown", "link": 5, "fields": { "device": "cuda:0" } }),
        json!({ "name": "copy", "kind": "copy", "track": "gpu 0 stream 1", "track_kind": "queue", "trace": "run.trace",
            "start_ns": 200, "start_unix_ns": unix + 200, "dur_ns": 50, "depth": 0,
            "status": "unknown" }),
        json!({ "name": "pool.depth", "kind": "gauge", "track": "main", "track_kind": "thread", "trace": "run.trace",
            "start_ns": 260, "start_unix_ns": unix + 260, "depth": 0, "status": "unknown",
            "value": 4 }),
        json!({ "name": "tokens", "kind": "counter", "track": "main", "track_kind": "thread", "trace": "run.trace",
            "start_ns": 270, "start_unix_ns": unix + 270, "depth": 0, "status": "unknown",
            "value": 3 }),
        json!({ "name": "tokens", "kind": "counter", "track": "main", "track_kind": "thread", "trace": "run.trace",
            "start_ns": 280, "start_unix_ns": unix + 280, "depth": 0, "status": "unknown",
            "value": 5 }),
        json!({ "name": "oops", "kind": "error", "track": "main", "track_kind": "thread", "trace": "run.trace",
            "start_ns": 290, "start_unix_ns": unix + 290, "depth": 1, "status": "unknown" }),
        json!({ "name": "fetch", "kind": "async span", "track": "main", "track_kind": "thread", "trace": "run.trace",
            "start_ns": 150, "start_unix_ns": unix + 150, "dur_ns": 150, "depth": 0,
            "status": "error", "fields": { "link.own": "000000000000000000000000000000ab",
                "link.request": "000000000000000000000000000000cd" } }),
        json!({ "name": "request", "kind": "span", "track": "main", "track_kind": "thread", "trace": "run.trace",
            "start_ns": 240, "start_unix_ns": unix + 240, "depth": 0, "status": "open" }),
    ];
    let found: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found, expected);
}

#[test]
fn csv_is_the_same_rows_with_fields_as_json() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    let csv = analyze(dir.path(), &["export", "run.trace", "--to", "csv"]).clean();
    let expected = r#"name,kind,track,track_kind,trace,start_ns,start_unix_ns,dur_ns,depth,status,value,link,fields
launch,launch,main,thread,run.trace,100,1700000000000001100,20,1,unknown,,5,
"step ""1""~",span,main,thread,run.trace,0,1700000000000001000,200,0,ok,,,"{""count"":18446744073709551615,""delta"":-2,""rate"":0.5,""odd"":""NaN"",""on"":true,""op"":""gemm"",""wait_ns"":40,""note"":""a \""b\"",\nc""}"
gemm,kernel,gpu 0 stream 1,queue,run.trace,130,1700000000000001130,100,0,unknown,,5,"{""device"":""cuda:0""}"
copy,copy,gpu 0 stream 1,queue,run.trace,200,1700000000000001200,50,0,unknown,,,
pool.depth,gauge,main,thread,run.trace,260,1700000000000001260,,0,unknown,4,,
tokens,counter,main,thread,run.trace,270,1700000000000001270,,0,unknown,3,,
tokens,counter,main,thread,run.trace,280,1700000000000001280,,0,unknown,5,,
oops,error,main,thread,run.trace,290,1700000000000001290,,1,unknown,,,
fetch,async span,main,thread,run.trace,150,1700000000000001150,150,0,error,,,"{""link.own"":""000000000000000000000000000000ab"",""link.request"":""000000000000000000000000000000cd""}"
request,span,main,thread,run.trace,240,1700000000000001240,,0,open,,,
"#;
    assert_eq!(csv, expected.replace('~', "\u{1b}"));
}

#[test]
fn filters_of_every_command_apply_and_the_end_of_the_range_is_until() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let names = |more: &[&str]| {
        let arguments = [&["export", "run.trace", "--to", "csv"], more].concat();
        let csv = analyze(dir.path(), &arguments).clean();
        let names: Vec<String> =
            csv.lines().skip(1).map(|line| line.split(',').next().unwrap().to_owned()).collect();
        names.join(" ")
    };
    assert_eq!(names(&[]), "load decode token decode token");
    assert_eq!(names(&["--name", "!load"]), "decode token decode token");
    assert_eq!(names(&["--from", "1ms", "--until", "15ms"]), "decode token");
    assert_eq!(names(&["--last", "2ms"]), "decode token");
    assert_eq!(names(&["--min-duration", "1200us"]), "load token token");
    assert_eq!(names(&["--track", "other"]), "");
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    for &format in FORMATS {
        let arguments = ["export", "run.trace", "--to", format];
        let direct = Command::new(env!("CARGO_BIN_EXE_analyze"))
            .args(arguments)
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(direct.status.success(), "{format}");
        let run = analyze(dir.path(), &[&arguments[..], &["-o", "out"]].concat());
        assert_eq!(run.clean(), "");
        assert_eq!(fs::read(dir.path().join("out")).unwrap(), direct.stdout, "{format}");
        assert!(!dir.path().join("out.partial").exists());
    }
    let nowhere = ["export", "run.trace", "--to", "csv", "-o", "nowhere/out"];
    let refusal = analyze(dir.path(), &nowhere).refusal();
    assert!(refusal.starts_with("analyze: nowhere/out: "), "{refusal}");
    analyze(dir.path(), &["export", "run.trace", "--to", "xml"]).refusal();
    analyze(dir.path(), &["export", "run.trace"]).refusal();
    let limited = ["export", "run.trace", "--to", "csv", "--limit", "3"];
    let refusal = analyze(dir.path(), &limited).refusal();
    assert!(refusal.starts_with("analyze: --limit: is for reports; "), "{refusal}");
}

#[test]
fn a_trace_without_events_is_an_export_without_any() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |_| {});
    let export = |format| analyze(dir.path(), &["export", "run.trace", "--to", format]).clean();
    assert_eq!(export("csv").lines().count(), 1);
    assert_eq!((export("jsonl"), export("folded"), export("otlp-json")), Default::default());
    let chrome: Value = serde_json::from_str(&export("chrome")).unwrap();
    assert_eq!(chrome["traceEvents"].as_array().unwrap().len(), 1);
    assert!(export("openmetrics").ends_with("\n# EOF\n"));
}

#[test]
fn what_could_not_be_read_is_left_out_and_said() {
    let dir = tempdir().unwrap();
    crate::damage::with_a_damaged_column(&dir.path().join("run.trace"));
    for &format in FORMATS {
        let run = analyze(dir.path(), &["export", "run.trace", "--to", format, "-o", "out"]);
        assert_eq!(run.code, 0, "{format}: {}", run.stderr);
        assert_eq!(run.stderr.matches("events are missing").count(), 1, "{format}: {run:?}");
    }
    let rows = analyze(dir.path(), &["export", "run.trace", "--to", "jsonl"]).stdout;
    let whole = crate::damage::EVENTS as usize;
    assert!((1..whole).contains(&rows.lines().count()));
}

#[test]
fn every_truncation_ends_with_an_export_or_a_message() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    everything(&path);
    let bytes = fs::read(&path).unwrap();
    for (nth, length) in (0..bytes.len()).step_by(397).enumerate() {
        fs::write(&path, &bytes[..length]).unwrap();
        let format = FORMATS[nth % FORMATS.len()];
        let run = analyze(dir.path(), &["export", "run.trace", "--to", format, "-o", "out"]);
        assert!(run.code == 0 || run.code == 2, "{length}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{length}: {}", run.stderr);
    }
}

#[test]
fn times_that_no_clock_can_tell_are_cut_and_do_not_overflow() {
    use ringscope_format::{Kind, Record, TrackKind};
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (name, track) = (writer.name("n"), writer.track(making::THREAD, 1, "t"));
        let queue = writer.track(TrackKind::GpuQueue, 1, "q");
        for (start, duration) in
            [(5, i64::MAX as u64), (u64::MAX - 3, 1 << 62), (1 << 63, 7), (9, -4_i64 as u64)]
        {
            writer.event(making::span(name, track, start, duration), &[], &[]).unwrap();
            let kernel = Record::timed(Kind::KERNEL, name, queue, start, duration);
            writer.event(kernel, &[], &[]).unwrap();
        }
    });
    for &format in FORMATS {
        let run = analyze(dir.path(), &["export", "run.trace", "--to", format, "-o", "out"]);
        assert_eq!(run.code, 0, "{format}: {}", run.stderr);
    }
    let rows = analyze(dir.path(), &["export", "run.trace", "--to", "csv"]).clean();
    let durations: Vec<i64> = rows
        .lines()
        .skip(1)
        .step_by(2)
        .map(|line| line.split(',').nth(7).unwrap().parse().unwrap())
        .collect();
    assert_eq!(durations, [i64::MAX, 0, 4, 0]);
}

#[test]
fn seventy_thousand_names_go_through() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let track = writer.track(making::THREAD, 1, "t");
        for at in 0..70_000 {
            let name = writer.name(&format!("name {at}"));
            writer.event(making::span(name, track, 2 * at, 1), &[], &[]).unwrap();
        }
    });
    // Not as metrics: a histogram each would be 190 MB.
    for &format in FORMATS.iter().filter(|format| !PACKED.contains(format)) {
        let run = analyze(dir.path(), &["export", "run.trace", "--to", format, "-o", "out"]);
        assert_eq!(run.clean(), "");
        let bytes = fs::read(dir.path().join("out")).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("name 0") && text.contains("name 69999"), "{format}");
    }
}

#[test]
fn several_traces_are_told_apart_and_put_on_one_line_of_time() {
    let dir = tempdir().unwrap();
    for (file, start) in [("a.trace", 1_000), ("b.trace", 4_000)] {
        making::trace(&dir.path().join(file), |writer| {
            let (name, track) = (writer.name("work"), writer.track(making::THREAD, 1, "t"));
            writer.event(making::span(name, track, start, 10), &[], &[]).unwrap();
        });
    }
    let arguments = ["export", "a.trace", "b.trace", "--to"];
    let export = |format| analyze(dir.path(), &[&arguments[..], &[format]].concat()).clean();
    let rows = export("csv");
    assert!(rows.contains("work,span,t,thread,b.trace,0,1700000000000004000,10,"), "{rows}");
    let chrome: Value = serde_json::from_str(&export("chrome")).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap();
    let spans: Vec<(&Value, &Value)> =
        events.iter().filter(|it| it["ph"] == "X").map(|it| (&it["pid"], &it["ts"])).collect();
    assert_eq!(spans, [(&json!(42), &json!(0.0)), (&json!(1), &json!(3.0))]);
    assert_eq!(export("folded"), "work 20\n");
}

#[test]
fn a_reader_of_an_export_that_goes_away_is_no_error() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (name, track) = (writer.name("work"), writer.track(making::THREAD, 1, "t"));
        for at in 0..50_000 {
            writer.event(making::span(name, track, at, 1), &[], &[]).unwrap();
        }
    });
    for format in ["csv", "jsonl", "chrome", "perfetto", "otlp-json"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_analyze"))
            .args(["export", "run.trace", "--to", format])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{format}");
        assert!(output.status.success(), "{format}");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_so() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    for format in ["parquet", "arrow"] {
        let said =
            analyze(dir.path(), &["export", "run.trace", "--to", format, "-o", "out"]).refusal();
        assert!(
            said.starts_with("analyze: --to: this build has neither Parquet nor Arrow; "),
            "{said}"
        );
    }
    fs::write(dir.path().join("t.parquet"), b"PAR1").unwrap();
    let said = analyze(dir.path(), &["spans", "t.parquet"]).refusal();
    assert!(
        said.starts_with("analyze: t.parquet: is Parquet or Arrow, which this build"),
        "{said}"
    );
}

#[test]
fn what_is_exported_is_never_replaced() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    let events = r#"[{"ph":"X","name":"a","ts":1,"dur":1}]"#;
    std::fs::write(dir.path().join("run.json"), events).unwrap();
    for (source, command) in [
        ("run.trace", &["export", "run.trace", "--to", "csv", "-o", "./run.trace"][..]),
        ("run.json", &["export", "run.json", "--to", "chrome", "-o", "run.json"]),
        ("run.json", &["spans", "run.json", "--format", "json", "-o", "run.json"]),
    ] {
        let before = std::fs::read(dir.path().join(source)).unwrap();
        let said = analyze(dir.path(), command).refusal();
        assert!(said.ends_with(": is the source itself; give another name\n"), "{said}");
        assert_eq!(std::fs::read(dir.path().join(source)).unwrap(), before);
    }
    let another = ["export", "run.json", "--to", "csv", "-o", "run.trace"];
    let said = analyze(dir.path(), &another).refusal();
    assert!(said.contains("run.trace: is a trace"), "{said}");
}
