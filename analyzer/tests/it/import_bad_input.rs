//! Foreign files that are cut, flipped or made to hurt: an answer or a message,
//! never a panic.

use std::fs;

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
