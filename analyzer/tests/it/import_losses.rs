//! What a file of another profiler lacked is counted, said and kept in what is made of it.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::analyze::{Run, analyze};

/// Two spans, and one that is cut in the middle.
const CUT: &str = r#"[{"ph":"X","pid":1,"tid":1,"name":"a","ts":1,"dur":2},
{"ph":"X","pid":1,"tid":1,"name":"b","ts":5,"dur":2},{"ph":"X","pid":1,"tid":1,"name":"c","#;
/// A span, one without a time and an end without a beginning.
const LOSSY: &str = r#"[{"ph":"X","pid":1,"tid":1,"name":"a","ts":1,"dur":2},
{"ph":"X","pid":1,"tid":1,"name":"b","ts":"soon","dur":2},{"ph":"E","pid":1,"tid":1,"ts":9}]"#;

fn json_of(dir: &Path, command: &str, file: &str) -> (Value, Run) {
    let run = analyze(dir, &[command, file, "--format", "json"]);
    (serde_json::from_str(&run.stdout).unwrap(), run)
}

#[test]
fn a_file_that_is_cut_is_damaged_and_so_is_what_was_made_of_it() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("run.json"), CUT).unwrap();
    let run = analyze(dir.path(), &["import", "run.json", "-o", "run.trace"]);
    let place = CUT.rfind(r#"{"ph""#).unwrap();
    assert_eq!(
        (run.code, run.stderr),
        (
            0,
            format!(
                "analyze: run.json: 2 events converted from Chrome trace events\n\
                 analyze: run.json: the file is cut within an event, at byte {place:#x}; what \
                 comes before it was taken\n"
            )
        )
    );
    for file in ["run.json", "run.trace"] {
        let check = analyze(dir.path(), &["check", file]);
        assert_eq!(check.code, 1, "{file}: {}", check.stderr);
        assert!(check.stdout.contains("its source: the file is cut"), "{}", check.stdout);
        assert!(check.stdout.ends_with("damaged\n"), "{}", check.stdout);
        let report = analyze(dir.path(), &["report", file]);
        assert!(report.stdout.contains("of its source: the file is cut"), "{}", report.stdout);
        assert!(report.stdout.contains("nothing else is known to be lost"), "{}", report.stdout);
        let (document, run) = json_of(dir.path(), "spans", file);
        assert_eq!(document["loss"]["exact"], json!(false));
        assert_eq!(run.stderr.matches("the file is cut").count(), 1, "{}", run.stderr);
        // A gate has to know as well.
        let gate = analyze(dir.path(), &["diff", file, file]);
        assert_eq!(gate.code, 3, "{}{}", gate.stdout, gate.stderr);
    }
}

#[test]
fn events_that_are_left_out_count_as_lost() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("run.json"), LOSSY).unwrap();
    let run = analyze(dir.path(), &["import", "run.json", "-o", "run.trace"]);
    let said = "analyze: run.json: 1 event converted from Chrome trace events, 2 left out\n";
    assert!(run.stderr.starts_with(said), "{}", run.stderr);
    for file in ["run.json", "run.trace"] {
        let (document, run) = json_of(dir.path(), "spans", file);
        let loss = &document["loss"];
        assert_eq!((&loss["produced"], &loss["lost"]), (&json!(3), &json!(2)));
        assert_eq!(loss["lost_by_cause"]["could not be converted"], 2);
        assert!(run.stderr.contains("2 of 3 events were lost (66.67 %)"), "{}", run.stderr);
    }
}

#[test]
fn a_table_that_ends_within_a_row_is_cut() {
    let dir = tempdir().unwrap();
    let cut = [
        ("t.csv", "name,start_ns,dur_ns\na,1,2\nb,1", "line 3: the file is cut within a row"),
        (
            "t.jsonl",
            "{\"name\":\"a\",\"start_ns\":1}\n{\"name\":\"b\",\"sta",
            "line 2: the file is cut within a row",
        ),
        (
            "t.json",
            "[{\"name\":\"a\",\"start_ns\":1},\n{\"name\":\"b\",\"sta",
            "the file is cut within a row",
        ),
        (
            "kernel_trace.csv",
            "Kind,Agent_Id,Kernel_Name,Start_Timestamp,End_Timestamp\n\
             KERNEL_DISPATCH,1,k,5,9\nKERNEL_DISPATCH,1,k,1",
            "line 3: the file is cut within a row",
        ),
    ];
    for (name, content, why) in cut {
        fs::write(dir.path().join(name), content).unwrap();
        let run = analyze(dir.path(), &["check", name]);
        assert_eq!(run.code, 1, "{name}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains(why), "{name}: {}", run.stderr);
        assert!(run.stderr.contains("1 event converted"), "{name}: {}", run.stderr);
        // Said once, by whoever opens it.
        assert_eq!(run.stderr.matches("converted from").count(), 1, "{}", run.stderr);
    }
}

#[test]
fn what_a_row_says_and_nobody_understands_is_said() {
    let dir = tempdir().unwrap();
    let csv = "name,start_ns,dur_ns,kind,status\n\
               a,1,2,spam,ok\n\
               b,3,,,\n\
               c,5,,kernel,\n\
               d,7,1,span,fine\n\
               e,9,1\n\
               f,11,1,span,error\n";
    fs::write(dir.path().join("t.csv"), csv).unwrap();
    let run = analyze(dir.path(), &["import", "t.csv", "-o", "t.trace"]);
    assert_eq!(
        run.stderr,
        "analyze: t.csv: 5 events converted from CSV, 1 left out\n\
         analyze: t.csv: line 6: fewer cells than the header\n\
         analyze: t.trace: not taken as it stands: 1 rows left out: fewer cells than the header; \
         1 rows of an unknown kind (taken as spans, or events); 1 rows without a duration (taken \
         as 0); 1 rows without a duration (taken as instants); 1 unknown statuses (left out)\n"
    );
    assert_eq!(run.code, 0);
}

#[test]
fn names_texts_and_ends_that_are_strange_are_said() {
    let dir = tempdir().unwrap();
    let long = "x".repeat(1_001);
    let text =
        format!(r#"[{{"ph":"X","ts":1,"dur":2,"args":{{"a":"{long}","b":["{long}"]}}}}] and more"#);
    fs::write(dir.path().join("run.json"), text).unwrap();
    let run = analyze(dir.path(), &["import", "run.json", "-o", "run.trace"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for part in [
        "1 events without a name (called `(unnamed)`)",
        "2 arguments longer than 1,000 bytes (cut)",
        "something comes after the end; it is left out",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}

#[test]
fn rows_may_be_an_array() {
    let dir = tempdir().unwrap();
    let text = r#"[ {"name":"a","start_ns":1,"dur_ns":5,"x":1}, 7,
                    {"start_ns":"1e0","name":"b","dur_ns":3} ]"#;
    fs::write(dir.path().join("t.json"), text).unwrap();
    let run = analyze(
        dir.path(),
        &["spans", "t.json", "--columns", "name,total_ns", "--format", "csv", "--sort", "name"],
    );
    assert_eq!(run.stdout, "name,total_ns\na,5\nb,3\n");
    assert!(run.stderr.contains("row 2: no JSON object"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_read_is_told_why_by_every_command() {
    let dir = tempdir().unwrap();
    let files: [(&str, &[u8], &str); 4] = [
        ("empty", b"", "is empty; give a trace of ringscope, of Chrome"),
        ("wide", b"\xFF\xFE[\0{\0", "is UTF-16; make it UTF-8 first"),
        ("table", b"name,when\na,1\n", "its first line has no `start_ns` but name, when"),
        ("program", b"\x7FELF\x02\x01\0\0", "not a ringscope trace, nor of a profiler"),
    ];
    for (name, content, why) in files {
        fs::write(dir.path().join(name), content).unwrap();
        for command in [&["report", name][..], &["import", name, "-o", "out.trace"]] {
            let said = analyze(dir.path(), command).refusal();
            assert!(said.contains(why), "{command:?}: {said}");
        }
    }
}

#[test]
fn what_was_exported_one_way_is_not_taken_for_something_else() {
    let dir = tempdir().unwrap();
    crate::making::tokens(&dir.path().join("run.trace"));
    for (format, why) in [
        ("perfetto", "protobuf"),
        ("pprof", "protobuf"),
        ("otlp-json", "OTLP"),
        ("openmetrics", "OpenMetrics"),
        ("folded", "folded stacks"),
    ] {
        let run = analyze(dir.path(), &["export", "run.trace", "--to", format, "-o", "out"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let said = analyze(dir.path(), &["report", "out"]).refusal();
        assert!(said.contains(why), "{format}: {said}");
        fs::remove_file(dir.path().join("out")).unwrap();
    }
}

#[test]
fn a_time_that_nobody_told_is_unknown() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("t.csv"), "name,start_ns,dur_ns\na,1,2\n").unwrap();
    let report = analyze(dir.path(), &["report", "t.csv"]);
    assert!(report.stdout.contains("\n  begun at an unknown time\n"), "{}", report.stdout);
    assert_eq!(json_of(dir.path(), "spans", "t.csv").0["trace"]["begun"], Value::Null);
}

#[test]
fn a_conversion_keeps_to_the_memory_it_is_given() {
    let dir = tempdir().unwrap();
    let rows: String = (0..2_000).map(|at| format!("a,{at},1\n")).collect();
    fs::write(dir.path().join("t.csv"), format!("name,start_ns,dur_ns\n{rows}")).unwrap();
    let commands: [&[&str]; 2] = [&["spans", "t.csv"], &["import", "t.csv", "-o", "t.trace"]];
    for command in commands {
        let said = analyze(dir.path(), &[command, &["--max-memory", "10k"]].concat()).refusal();
        assert!(said.contains("larger than memory takes"), "{said}");
        let run = analyze(dir.path(), &[command, &["--max-memory", "10M"]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
}

#[test]
fn a_place_that_is_not_there_is_said_before_the_work() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("t.csv"), "name,start_ns,dur_ns\na,1,2\n").unwrap();
    let said = analyze(dir.path(), &["import", "t.csv", "-o", "nowhere/t.trace"]).refusal();
    assert!(said.starts_with("analyze: nowhere/t.trace: "), "{said}");
    assert!(!said.contains("converted"), "{said}");
}
