//! Chrome trace events become a trace: every kind of event, in whatever order and
//! shape they come.

use std::{fs, io::Write, path::Path};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::analyze::{Run, analyze, analyze_fed};

/// A directory with one file.
fn with(name: &str, content: impl AsRef<[u8]>) -> TempDir {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(name), content).unwrap();
    dir
}

/// Runs a command on `run.json` with this content.
fn ask(content: &str, arguments: &[&str]) -> Run {
    let dir = with("run.json", content);
    let arguments: Vec<&str> = arguments.iter().copied().chain(["run.json"]).collect();
    analyze(dir.path(), &arguments)
}

/// Spans as `name count total self`, and what was said.
fn spans(content: &str) -> (Vec<String>, String) {
    let run = ask(content, &["spans", "--format", "json"]);
    let said = run.stderr.clone();
    (listed(&run.json()), said)
}

fn listed(json: &Value) -> Vec<String> {
    let rows = json["rows"].as_array().unwrap();
    let mut rows: Vec<String> = rows
        .iter()
        .map(|row| {
            let name = row["name"].as_str().unwrap();
            format!("{name} {} {} {}", row["count"], row["total_ns"], row["self_ns"])
        })
        .collect();
    rows.sort();
    rows
}

const SIMPLE: &str = r#"[
    {"ph":"B","pid":1,"tid":1,"name":"outer","ts":0},
    {"ph":"X","pid":1,"tid":1,"name":"inner","ts":2.5,"dur":5.001},
    {"ph":"E","pid":1,"tid":1,"name":"outer","ts":14}
]"#;
const SIMPLE_SPANS: [&str; 2] = ["inner 1 5001 5001", "outer 1 14000 8999"];
const SIMPLE_SAID: &str = "analyze: run.json: 2 events converted from Chrome trace events\n";

#[test]
fn begin_end_and_complete_events_are_spans() {
    let (rows, said) = spans(SIMPLE);
    assert_eq!((rows, said.as_str()), (SIMPLE_SPANS.map(str::to_owned).to_vec(), SIMPLE_SAID));
}

#[test]
fn import_writes_a_trace_that_says_the_same() {
    let dir = with("run.json", SIMPLE);
    let run = analyze(dir.path(), &["import", "run.json", "-o", "run.trace"]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "", SIMPLE_SAID));
    let json = analyze(dir.path(), &["spans", "run.trace", "--format", "json"]);
    assert_eq!(json.stderr, "");
    assert_eq!(listed(&json.json()), SIMPLE_SPANS);
    assert_eq!(analyze(dir.path(), &["check", "run.trace"]).code, 0);
    let files = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, 2, "nothing is left beside the trace");
}

#[test]
fn a_file_that_is_no_trace_is_not_overwritten() {
    let dir = with("run.json", SIMPLE);
    fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
    let refused = [
        ("thesis.txt", "is there and is not a trace; remove it, or give another name"),
        ("run.json", "is the source itself; give the name of a new trace"),
    ];
    for (output, why) in refused {
        let before = fs::read(dir.path().join(output)).unwrap();
        let said = analyze(dir.path(), &["import", "run.json", "-o", output]).refusal();
        assert_eq!(said, format!("analyze: {output}: {why}\n"));
        assert_eq!(fs::read(dir.path().join(output)).unwrap(), before);
    }
    for _ in 0..2 {
        assert_eq!(analyze(dir.path(), &["import", "run.json", "-o", "run.trace"]).code, 0);
    }
}

#[test]
fn the_object_form_is_the_same_and_its_properties_are_metadata() {
    let text = format!(
        r#"{{"displayTimeUnit":"ns","traceEvents":{SIMPLE},"otherData":{{"version":"1.2"}}}}"#
    );
    assert_eq!(spans(&text).0, SIMPLE_SPANS);
    let info = ask(&text, &["info"]);
    assert!(info.stdout.contains("displayTimeUnit"), "{}", info.stdout);
    assert!(info.stdout.contains(r#"{"version":"1.2"}"#), "{}", info.stdout);
    assert!(info.stdout.contains("Chrome trace events"), "{}", info.stdout);
}

#[test]
fn an_array_that_was_never_closed_is_whole() {
    let open = SIMPLE.trim_end_matches(['\n', ']']);
    for end in ["", ",", ",\n\n", "\n  \n"] {
        let (rows, said) = spans(&format!("{open}{end}"));
        assert_eq!((rows, said.as_str()), (SIMPLE_SPANS.map(str::to_owned).to_vec(), SIMPLE_SAID));
    }
}

#[test]
fn a_cut_within_an_event_costs_that_event_and_is_said() {
    let at = SIMPLE.rfind(r#""name":"outer""#).unwrap();
    let (rows, said) = spans(&SIMPLE[..at]);
    assert_eq!(rows, ["inner 1 5001 5001"]);
    assert_eq!(
        said,
        format!(
            "analyze: run.json: 2 events converted from Chrome trace events\n\
             analyze: run.json: the file is cut within an event, at byte {:#x}; what comes before it was taken\n\
             analyze: run.json: not taken as it stands: 1 beginnings without an end (in flight)\n",
            SIMPLE.rfind('{').unwrap()
        )
    );
}

#[test]
fn packed_files_are_told_by_their_content() {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(SIMPLE.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    let raw_block = (SIMPLE.len() as u32) << 3 | 1;
    let mut zst = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, u8::try_from(SIMPLE.len()).unwrap()];
    zst.extend_from_slice(&raw_block.to_le_bytes()[..3]);
    zst.extend_from_slice(SIMPLE.as_bytes());
    for packed in [&gz, &zst] {
        let dir = with("run", packed);
        let json = analyze(dir.path(), &["spans", "run", "--format", "json"]).json();
        assert_eq!(listed(&json), SIMPLE_SPANS);
    }
    // A download that broke off: what came through is there.
    let dir = with("run", &gz[..gz.len() - 9]);
    let run = analyze(dir.path(), &["spans", "run", "--format", "json"]);
    assert!(run.stderr.contains("analyze: run: unpacking stopped at byte 0x"), "{}", run.stderr);
    let dir = with("run", &gz[..12]);
    let said = analyze(dir.path(), &["spans", "run"]).refusal();
    assert!(said.starts_with("analyze: run: cannot be unpacked: "), "{said}");
    assert!(said.ends_with("; fetch it again\n"), "{said}");
}

#[test]
fn a_file_may_come_through_a_pipe() {
    let dir = tempdir().unwrap();
    let run = analyze_fed(dir.path(), &["spans", "-", "--format", "json"], SIMPLE.as_bytes());
    assert_eq!(listed(&run.json()), SIMPLE_SPANS);
}

#[test]
fn times_keep_every_digit_also_as_texts() {
    let (rows, said) = spans(
        r#"[{"ph":"X","name":"a","ts":"1711964646123456.789","dur":"0.001"},
            {"ph":"X","name":"b","ts":1711964646123456.790,"dur":1e-3},
            {"ph":"X","name":"c","ts":1711964646123456.791,"dur":4458676522690.655}]"#,
    );
    assert_eq!(rows, ["a 1 1 1", "b 1 1 1", "c 1 4458676522690655 4458676522690655"]);
    assert!(!said.contains("not taken"), "{said}");
    let (_, said) = spans(r#"[{"ph":"X","name":"a","ts":0.0004,"dur":1.0009}]"#);
    assert!(said.contains("2 times finer than a nanosecond (rounded to it)"), "{said}");
}

#[test]
fn ends_close_the_innermost_of_their_name_in_whatever_order_they_come() {
    let (rows, said) = spans(
        r#"[{"ph":"E","name":"a","ts":10},{"ph":"B","name":"b","ts":1},{"ph":"E","ts":4},
            {"ph":"B","name":"c","ts":2},{"ph":"E","name":"b","ts":5},{"ph":"B","name":"a","ts":0}]"#,
    );
    assert_eq!(rows, ["a 1 10000 6000", "b 1 4000 2000", "c 1 2000 2000"]);
    assert!(!said.contains("not taken"), "{said}");
}

#[test]
fn an_end_before_its_beginning_at_the_same_time_is_a_span_without_duration() {
    let (rows, _) = spans(r#"[{"ph":"E","name":"a","ts":2},{"ph":"B","name":"a","ts":2}]"#);
    assert_eq!(rows, ["a 1 0 0"]);
}

#[test]
fn what_does_not_balance_is_counted_and_the_rest_is_there() {
    let (rows, said) = spans(
        r#"[{"ph":"B","name":"open","ts":0},{"ph":"B","name":"a","ts":1},{"ph":"E","name":"a","ts":2},
            {"ph":"E","name":"never","ts":3}]"#,
    );
    assert_eq!(rows, ["a 1 1000 1000"]);
    assert!(said.contains(
        "not taken as it stands: 1 beginnings without an end (in flight); 1 ends without a beginning\n"
    ), "{said}");
    let report = ask(r#"[{"ph":"B","name":"stuck_here","tid":7,"ts":0}]"#, &["report"]);
    assert!(report.stdout.contains("stuck_here"), "{}", report.stdout);
}

#[test]
fn of_spans_with_the_same_times_the_first_in_the_file_is_the_parent() {
    for text in [
        r#"[{"ph":"X","name":"outer","ts":1,"dur":2},{"ph":"X","name":"inner","ts":1,"dur":2}]"#,
        r#"[{"ph":"B","name":"outer","ts":1},{"ph":"B","name":"inner","ts":1},
            {"ph":"E","name":"inner","ts":3},{"ph":"E","name":"outer","ts":3}]"#,
        r#"[{"ph":"B","name":"outer","ts":1},{"ph":"X","name":"inner","ts":1,"dur":2},
            {"ph":"E","name":"outer","ts":3}]"#,
    ] {
        assert_eq!(spans(text).0, ["inner 1 2000 2000", "outer 1 2000 0"]);
    }
}

#[test]
fn async_events_are_paired_by_category_and_id_across_threads() {
    let (rows, said) = spans(
        r#"[{"ph":"b","cat":"net","id":"0x1","pid":1,"tid":1,"name":"get","ts":0},
            {"ph":"b","cat":"net","id":"0x2","pid":1,"tid":1,"name":"get","ts":1},
            {"ph":"n","cat":"net","id":"0x1","pid":1,"tid":2,"name":"header","ts":2},
            {"ph":"e","cat":"net","id":"0x1","pid":1,"tid":2,"name":"get","ts":5},
            {"ph":"e","cat":"disk","id":"0x2","pid":1,"tid":2,"name":"get","ts":6},
            {"ph":"e","cat":"net","id":"0x2","pid":1,"tid":2,"name":"get","ts":8},
            {"ph":"S","cat":"old","id":7,"pid":1,"tid":1,"name":"legacy","ts":0},
            {"ph":"F","cat":"old","id":7,"pid":1,"tid":2,"name":"legacy","ts":4}]"#,
    );
    assert_eq!(rows, ["get 2 12000 12000", "legacy 1 4000 4000"]);
    assert!(said.contains("not taken as it stands: 1 ends without a beginning\n"), "{said}");
}

#[test]
fn threads_and_processes_have_their_names() {
    let run = ask(
        r#"[{"ph":"X","pid":1,"tid":10,"name":"a","ts":0,"dur":1},
            {"ph":"X","pid":2,"tid":"10","name":"a","ts":0,"dur":1},
            {"ph":"M","pid":1,"name":"process_name","args":{"name":"server"}},
            {"ph":"M","pid":1,"tid":10,"name":"thread_name","args":{"name":"accept"}}]"#,
        &["threads", "--format", "csv", "--columns", "track"],
    );
    let mut tracks: Vec<&str> = run.stdout.lines().skip(1).collect();
    tracks.sort();
    assert_eq!(tracks, ["process 2: thread 10", "server: accept"], "{}", run.stderr);
}

#[test]
fn what_has_no_place_in_a_trace_is_counted_by_kind() {
    let (rows, said) = spans(
        r#"[{"ph":"X","name":"a","ts":0,"dur":1},{"ph":"P","ts":1},{"ph":"P","ts":2},{"ph":"O","ts":1},
            {"ph":"X","name":"b","ts":"NaN","dur":1},{"ph":"X","name":"b","ts":1e400,"dur":1},
            {"ph":"X","name":"b","ts":NaN,"dur":1},{"ph":"X","name":"c","ts":5,"dur":-3},
            {"ph":"X","ts":6,"dur":1},{"ph":"?","ts":1},null,17]"#,
    );
    assert_eq!(rows, ["(unnamed) 1 1000 1000", "a 1 1000 1000", "c 1 0 0"]);
    assert!(
        said.contains(
            "not taken as it stands: 2 entries that are no events; 1 events of phase '?'; 1 events \
         without a name (called `(unnamed)`); 3 events without a usable time; 1 negative durations \
         (taken as 0); 2 samples; 1 snapshots of objects\n"
        ),
        "{said}"
    );
}

#[test]
fn names_that_are_too_long_for_a_trace_stay_apart() {
    let long = |end: &str| "n".repeat(1_100) + end;
    let (rows, said) = spans(&format!(
        r#"[{{"ph":"X","name":"{}","ts":0,"dur":1}},{{"ph":"X","name":"{}","ts":5,"dur":2}}]"#,
        long("a"),
        long("b")
    ));
    assert_eq!(rows.len(), 2);
    assert!(said.contains("2 names longer than 1,024 bytes (cut)"), "{said}");
}

#[test]
fn several_files_become_one_trace_on_one_clock() {
    let dir = tempdir().unwrap();
    let rank = |name: &str, base: u64| {
        let text = format!(
            r#"{{"baseTimeNanoseconds":{base},"traceEvents":[{{"ph":"X","tid":1,"name":"step","ts":1,"dur":2}}]}}"#
        );
        fs::write(dir.path().join(name), text).unwrap();
    };
    rank("rank0.json", 1_700_000_000_000_000_000);
    rank("rank1.json", 1_700_000_000_000_010_000);
    let run = analyze(dir.path(), &["import", "rank0.json", "rank1.json", "-o", "both.trace"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = analyze(dir.path(), &["info", "both.trace", "--format", "json"]).json();
    assert!(
        json.to_string().contains("1700000000") || json.to_string().contains("2023-11-14"),
        "{json}"
    );
    let rows =
        analyze(dir.path(), &["threads", "both.trace", "--format", "csv", "--columns", "track"]);
    assert!(
        rows.stdout.contains("rank0: thread 1") && rows.stdout.contains("rank1: thread 1"),
        "{}",
        rows.stdout
    );
    // The second starts 10 us after the first and ends the trace.
    let late =
        analyze(dir.path(), &["spans", "both.trace", "--from", "9us", "--format", "json"]).json();
    assert_eq!(late["rows"][0]["count"], 1);
}

#[test]
fn an_empty_event_behind_the_last_comma_is_none() {
    let (rows, said) = spans(r#"[{"ph":"X","name":"a","ts":1,"dur":2},{}]"#);
    assert_eq!(rows, ["a 1 2000 2000"]);
    assert_eq!(said, "analyze: run.json: 1 event converted from Chrome trace events\n");
}

#[test]
fn clang_says_when_its_clock_began() {
    let text = r#"{"traceEvents":[{"ph":"X","pid":7,"tid":7,"ts":10,"dur":5,"name":"ExecuteCompiler"}],
                   "beginningOfTime":1700000000000000}"#;
    let info = ask(text, &["info"]);
    assert!(info.stdout.contains("2023-11-14 22:13:20"), "{}", info.stdout);
}

#[test]
fn streams_of_xla_devices_are_queues_and_calls_with_their_correlation_launch_them() {
    let run = ask(
        r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
            {"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:0 (pid 1)"}},
            {"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},
            {"ph":"M","pid":1,"tid":13,"name":"thread_name","args":{"name":"Stream #13(MemcpyH2D,Kernel)"}},
            {"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"XLA Ops"}},
            {"ph":"X","pid":701,"tid":5,"ts":1,"dur":2,"name":"cuLaunchKernel","args":{"correlation_id":"42"}},
            {"ph":"X","pid":1,"tid":13,"ts":5,"dur":3.5,"name":"fusion_7","args":{"correlation_id":"42","hlo_op":"fusion.7"}},
            {"ph":"X","pid":1,"tid":13,"ts":10,"dur":1,"name":"MemcpyH2D",
             "args":{"memcpy_details":"kind_src:pinned kind_dst:device size:4096 dest:0 async:1"}},
            {"ph":"X","pid":1,"tid":2,"ts":5,"dur":3.5,"name":"fusion.7"},
            {}]}"#,
        &["kernels", "--format", "json"],
    );
    assert_eq!(run.stderr, "analyze: run.json: 4 events converted from XLA profiler\n");
    let rows = run.json()["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    let (kernel, copy) = (&rows[0], &rows[1]);
    assert_eq!((&kernel["name"], &kernel["total_ns"]), (&"fusion_7".into(), &3_500.into()));
    assert_eq!(kernel["queue_delay_mean_ns"], 4_000);
    assert_eq!(kernel["queue"][0], "GPU 0 stream 13");
    assert_eq!((&copy["name"], &copy["bytes"]), (&"MemcpyH2D".into(), &4_096.into()));
}

#[test]
fn equal_ids_of_different_files_mean_different_things() {
    let dir = tempdir().unwrap();
    for (rank, launch) in [("rank0.json", 10), ("rank1.json", 5)] {
        let text = format!(
            r#"{{"deviceProperties":[],"traceEvents":[
            {{"ph":"X","cat":"cuda_runtime","name":"launch","pid":1,"tid":1,"ts":{launch},"dur":1,"args":{{"correlation":7}}}},
            {{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":20,"dur":1,"args":{{"device":0,"stream":7,"correlation":7}}}},
            {{"ph":"b","cat":"c","id":"0x1","pid":1,"tid":1,"name":"get","ts":1}},
            {{"ph":"e","cat":"c","id":"0x1","pid":1,"tid":1,"name":"get","ts":{launch}}},
            {{"ph":"X","pid":1,"tid":2,"name":"s","ts":30,"dur":2}},
            {{"ph":"s","cat":"m","id":3,"pid":1,"tid":2,"name":"m","ts":31}},
            {{"ph":"b","cat":"open","id":9,"pid":1,"tid":1,"name":"open","ts":1}}]}}"#
        );
        fs::write(dir.path().join(rank), text).unwrap();
    }
    let run = analyze(dir.path(), &["import", "rank0.json", "rank1.json", "-o", "both.trace"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = analyze(dir.path(), &["kernels", "both.trace", "--format", "json"]).json();
    // 10 us and 15 us; a launch that both had would make it 10 or 15 twice.
    assert_eq!(json["rows"][0]["queue_delay_mean_ns"], 12_500);
    let spans = analyze(dir.path(), &["spans", "both.trace", "--name", "get", "--format", "json"]);
    assert_eq!(spans.json()["rows"][0]["total_ns"], 9_000 + 4_000);
    let trace = ringscope_format::Trace::open(fs::read(dir.path().join("both.trace")).unwrap());
    let trace = trace.unwrap();
    let mut ids = Vec::new();
    for chunk in trace.chunks() {
        let batch = trace.decode(chunk, ringscope_format::Columns::ALL).unwrap();
        for (_, slots) in batch.records() {
            ids.extend(ringscope_format::parse_slots(slots).links.iter().map(|link| link.id));
        }
    }
    let distinct: std::collections::HashSet<u128> = ids.iter().copied().collect();
    assert_eq!((ids.len(), distinct.len()), (4, 4), "{ids:?}");
}

#[test]
fn a_trace_is_not_imported_twice() {
    let dir = with("run.json", SIMPLE);
    assert_eq!(analyze(dir.path(), &["import", "run.json", "-o", "run.trace"]).code, 0);
    let said = analyze(dir.path(), &["import", "run.trace", "-o", "again.trace"]).refusal();
    assert_eq!(said, "analyze: run.trace: is a trace already; reports take it as it is\n");
    assert!(!Path::new(&dir.path().join("again.trace")).exists());
}
