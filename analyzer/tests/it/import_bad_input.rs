//! Foreign files that are cut, flipped or made to hurt: an answer or a message,
//! never a panic.

use std::fs;

use std::{io::Write, process::Command};

use flate2::{Compression, write::GzEncoder};
use tempfile::tempdir;

use crate::analyze::{Run, analyze};

fn report(content: &[u8]) -> Run {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("run"), content).unwrap();
    let run = analyze(dir.path(), &["summary", "run"]);
    assert!(run.code == 0 || run.code == 2, "{}: {}", run.code, run.stderr);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

const CHROME: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"A"}],"traceEvents":[
{"ph":"B","pid":1,"tid":1,"name":"a\u00e9","ts":0.5,"args":{"x":[1,{"y":"z"}]}},{"ph":"E","pid":1,"tid":1,"ts":9},
{"ph":"X","cat":"kernel","name":"k","ts":2,"dur":1e1,"args":{"stream":7,"correlation":3,"grid":[1,2,3]}},
{"ph":"s","id":"0x1","ts":1,"pid":1,"tid":1},{"ph":"C","name":"c","ts":1,"args":{"v":-1}}],"x":null}"#;
const CSV: &str = "name,start_ns,dur_ns,kind,x\n\"a\"\"b\",1,2,kernel,3.5\nc,4,,gauge,\n";
const LINES: &str =
    "{\"name\":\"a\",\"start_ns\":1,\"dur_ns\":2,\"x\":[1]}\n{\"name\":\"b\",\"start_ns\":3}\n";

#[test]
fn every_truncation_ends_with_an_answer_or_a_message() {
    for text in [CHROME, CSV, LINES] {
        for length in 0..text.len() {
            report(&text.as_bytes()[..length]);
        }
    }
}

#[test]
fn flipped_bytes_end_with_an_answer_or_a_message() {
    for text in [CHROME, CSV, LINES] {
        for at in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= [0x01, 0x80, 0x7F, 0x20][at % 4];
            report(&bytes);
        }
    }
}

#[test]
fn depth_and_length_are_no_traps() {
    let deep = "[".repeat(3_000_000);
    report(deep.as_bytes());
    report(format!("[{{\"args\":{deep}").as_bytes());
    report(format!("{{\"x\":{}", "{\"x\":".repeat(1_000_000)).as_bytes());
    let long = "x".repeat(20_000_000);
    let run = report(
        format!(r#"[{{"ph":"X","ts":1,"dur":1,"name":"{long}","args":{{"{long}":"{long}"}}}}]"#)
            .as_bytes(),
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn many_that_overlap_or_never_end_take_no_longer_than_others() {
    let many = |each: &dyn Fn(u32) -> String| {
        let events: Vec<String> = (0..40_000).map(each).collect();
        report(format!("[{}]", events.join(",")).as_bytes());
    };
    many(&|at| format!(r#"{{"ph":"X","name":"a","ts":{at},"dur":100000}}"#));
    many(&|at| format!(r#"{{"ph":"B","name":"n{at}","ts":{at}}}"#));
    many(&|at| {
        format!(
            r#"{{"ph":"{}","name":"n{}","ts":{at}}}"#,
            if at < 20_000 { "B" } else { "E" },
            at % 20_000
        )
    });
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let said = |content: &str| report(content.as_bytes()).refusal();
    assert_eq!(
        said(r#"{"traceEvents":["#),
        "analyze: run: ends before the first event; write the trace again\n"
    );
    assert_eq!(
        said(r#"[{"ph"="X"}]"#),
        "analyze: run: byte 0x6: this is not JSON, and no event comes before it; write the trace again\n"
    );
    let run = report(br#"[{"ph":"X","name":"a","ts":1,"dur":1},{"ph"="X"}]"#);
    assert!(
        run.stderr.contains("byte 0x2b: this is not JSON; what comes before it was taken"),
        "{}",
        run.stderr
    );
}

#[test]
fn something_small_that_unpacks_to_something_huge_is_refused_or_read_in_bounds() {
    use std::io::Write;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gz.write_all(b"[").unwrap();
    for _ in 0..64 {
        gz.write_all(&[b' '; 1 << 20]).unwrap();
    }
    report(&gz.finish().unwrap());
}

fn gz(content: &[u8]) -> Vec<u8> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(content).unwrap();
    gz.finish().unwrap()
}

/// Runs a report with so much address space, in megabytes.
fn within(megabytes: u32, content: &[u8], command: &str) -> (bool, String) {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("run"), content).unwrap();
    let limited = format!("ulimit -v {}; exec \"$0\" {command} run", megabytes * 1_000);
    let mut shell = Command::new("sh");
    shell.args(["-c", &limited, env!("CARGO_BIN_EXE_analyze")]).current_dir(dir.path());
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{said}");
    (output.status.success(), said)
}

#[test]
fn depth_is_said_where_it_ends_in_nothing() {
    let said = report("[".repeat(3_000_000).as_bytes()).refusal();
    assert!(said.starts_with("analyze: run: not of a profiler that is known; give"), "{said}");
    let deep = format!(r#"[{{"ph":"X","ts":1,"dur":1,"args":{}"#, "[".repeat(3_000_000));
    assert_eq!(
        report(deep.as_bytes()).refusal(),
        "analyze: run: ends before the first event; write the trace again\n"
    );
}

#[test]
fn one_string_of_a_gigabyte_takes_no_more_than_the_file_itself() {
    // In blocks of zstd that say how often a byte comes.
    let mut packed = vec![0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x50];
    let mut block = |kind: u32, length: usize, content: &[u8], is_last: bool| {
        let header = (length as u32) << 3 | kind << 1 | u32::from(is_last);
        packed.extend_from_slice(&header.to_le_bytes()[..3]);
        packed.extend_from_slice(content);
    };
    let (head, tail) = (br#"[{"ph":"X","ts":1,"dur":1,"name":""#, br#""}]"#);
    block(0, head.len(), head, false);
    for _ in 0..8_000 {
        block(1, 128 << 10, b"x", false);
    }
    block(0, tail.len(), tail, true);
    // The text, and as much again while its place grows.
    let (went_well, said) = within(3_600, &packed, "summary");
    assert!(went_well || said.contains("unpacks to more than memory takes"), "{said}");
    assert!(!went_well || said.contains("1 names longer than 1,024 bytes (cut)"), "{said}");
}

#[test]
fn many_small_things_take_a_few_times_the_file() {
    // 20 MB each.
    let arguments = format!(
        r#"[{{"ph":"X","ts":1,"dur":1,"name":"a","args":{{{}"b":2}}}}]"#,
        r#""a":1,"#.repeat(3_300_000)
    );
    let (went_well, said) = within(200, arguments.as_bytes(), "summary");
    assert!(went_well, "{said}");
    assert!(said.contains("arguments beyond 24 of one event"), "{said}");
    let numbers = format!("[{{}}{}]", ",1".repeat(10_000_000));
    let (went_well, said) = within(200, numbers.as_bytes(), "summary");
    assert!(went_well, "{said}");
    assert!(said.contains("10,000,000 entries that are no events"), "{said}");
}

#[test]
fn a_packed_file_that_is_wrong_is_said_with_its_place() {
    let whole = gz(CHROME.as_bytes());
    // The checksum behind the data is wrong: all of the data came through.
    let mut wrong = whole.clone();
    let at = wrong.len() - 6;
    wrong[at] ^= 0xFF;
    let run = report(&wrong);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let place = format!("unpacking stopped at byte {:#x}", CHROME.len());
    assert!(run.stderr.contains(&place), "{}", run.stderr);
    let said = report(&[&[0x1F, 0x8B, 8, 0], &[0xEE; 60][..]].concat()).refusal();
    assert!(said.contains("run: cannot be unpacked: "), "{said}");
}

#[test]
fn a_trace_of_pytorch_cut_in_the_middle_keeps_what_came_before() {
    let text = crate::foreign_made::KINETO;
    let at = text.rfind(r#"{"ph":"X","cat":"gpu_memcpy""#).unwrap();
    for content in [text.as_bytes()[..at + 40].to_vec(), gz(&text.as_bytes()[..at + 40])] {
        let run = report(&content);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let said = format!(
            "the file is cut within an event, at byte {at:#x}; what comes before it was taken"
        );
        assert!(run.stderr.contains(&said), "{}", run.stderr);
        assert!(run.stdout.contains("ncclKernel_AllReduce"), "{}", run.stdout);
    }
}

#[test]
fn the_first_event_that_is_wrong_is_said_with_its_place() {
    let ok = r#"{"ph":"X","name":"a","ts":1,"dur":1}"#;
    for (event, what) in [
        (r#"{"ph":"X","name":"b","ts":NaN,"dur":1}"#, "events without a usable time"),
        (r#"{"ph":"X","name":"b","ts":1e400,"dur":1}"#, "events without a usable time"),
        (r#"{"ph":"X","name":"b","ts":"soon","dur":1}"#, "events without a usable time"),
        (r#"{"ph":"X","name":"b","ts":1,"dur":1e400}"#, "events without a usable duration"),
        (r#"{"ph":"X","name":"b","ts":1,"dur":-3}"#, "negative durations (taken as 0)"),
        ("17", "entries that are no events"),
        (r#"{"name":"b","ts":1}"#, "events without a phase"),
    ] {
        let run = report(format!("[{ok},{event},{event}]").as_bytes());
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(
            run.stderr
                .contains(&format!("run: byte {:#x}: the first of the {what}\n", ok.len() + 2)),
            "{}",
            run.stderr
        );
        assert!(
            run.stderr.contains(&format!("not taken as it stands: 2 {what}")),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn kernels_before_their_launch_and_ids_that_repeat_are_taken_as_they_are() {
    let event = |cat: &str, ts: u32, id: u32| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{cat}","pid":1,"tid":1,"ts":{ts},"dur":1,"args":{{"device":0,"stream":7,"correlation":{id}}}}}"#
        )
    };
    let events = [
        event("cuda_runtime", 10, 5),
        event("kernel", 4, 5),
        event("cuda_runtime", 20, 6),
        event("cuda_runtime", 21, 6),
        event("kernel", 30, 6),
        event("kernel", 40, 6),
        r#"{"ph":"b","cat":"c","id":1,"name":"x","ts":1},{"ph":"b","cat":"c","id":1,"name":"x","ts":2}"#
            .to_owned(),
        r#"{"ph":"e","cat":"c","id":1,"name":"x","ts":3},{"ph":"e","cat":"c","id":1,"name":"x","ts":9}"#
            .to_owned(),
    ];
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("run"), format!("[{}]", events.join(","))).unwrap();
    let run = analyze(dir.path(), &["kernels", "run", "--format", "json"]);
    assert!(!run.stderr.contains("not taken"), "{}", run.stderr);
    let row = run.json()["rows"][0].clone();
    assert_eq!((&row["count"], &row["total_ns"]), (&3.into(), &3_000.into()), "{row}");
    let spans = analyze(dir.path(), &["spans", "run", "--name", "x", "--format", "json"]).json();
    assert_eq!(
        (&spans["rows"][0]["count"], &spans["rows"][0]["total_ns"]),
        (&2.into(), &9_000.into())
    );
}

#[cfg(not(feature = "nsight"))]
#[test]
fn a_build_without_sqlite_says_so() {
    assert_eq!(
        report(b"SQLite format 3\0and so on").refusal(),
        "analyze: run: an SQLite database, which this build of analyze does not read; build it with \
         `--features nsight`, which needs a C compiler\n"
    );
}
