//! Scripts that repeat a failure, made by the binary and run.

use std::{
    env,
    io::{self, Write},
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use ringscope_format::{Kind, Record, Status, Value, ValueType};
use tempfile::tempdir;

use crate::{analyze::analyze, making};

type Fields<'a> = [(&'a str, Value<'a>)];

fn errors(path: &Path, errors: &[&Fields<'_>]) {
    making::trace(path, |writer| {
        let track = writer.track(making::THREAD, 1, "main");
        let name = writer.name("call.exception");
        for (at, fields) in errors.iter().enumerate() {
            let start = 1_000_000 * (errors.len() - at) as u64;
            let record = Record::point(Kind::ERROR, name, track, start, (ValueType::None, 0));
            let fields: Vec<(u32, Value<'_>)> =
                fields.iter().map(|&(key, value)| (writer.name(key), value)).collect();
            writer.event(record, &fields, &[]).unwrap();
        }
        // A span that failed is an error too, the first of all.
        let load = writer.name("load");
        let span = Record::timed(Kind::SPAN, load, track, 10, 5);
        writer.event(Record { status: Status::ERROR, ..span }, &[], &[]).unwrap();
    });
}

const DECODE: &Fields<'static> = &[
    ("kind", Value::Text("JSONDecodeError")),
    ("payload", Value::Text("Expecting value\nraise SystemExit(0)")),
    ("library", Value::Text("json")),
    ("function", Value::Text("loads")),
    ("arguments", Value::Text(r#"["it's [1, \u00e4"]"#)),
];

const ECHO: &Fields<'static> = &[
    ("library", Value::Text("printf")),
    ("arguments", Value::Text(r#"["<%s>", "it's; exit 7 $(id)"]"#)),
];

/// Runs a script, if there is a Python. If not, that is said, and fails where
/// `RINGSCOPE_REQUIRE` names `python`.
#[track_caller]
pub(crate) fn python(script: &Path, test: &str) -> Option<Output> {
    let python = env::var_os("RINGSCOPE_PYTHON").unwrap_or_else(|| "python3".into());
    let run = Command::new(&python).arg(script).output();
    let lacking = |error: &io::Error| {
        let required = env::var("RINGSCOPE_REQUIRE").unwrap_or_default();
        let why = format!("{}: {error}", python.display());
        assert!(!required.split(',').any(|it| it == "python"), "required: {why}");
        // Past the harness, which hides what a passing test prints.
        let _ = writeln!(io::stderr(), "skipped: {test}: {why}");
    };
    run.inspect_err(lacking).ok()
}

#[test]
fn a_python_script_fails_as_the_program_did() {
    let dir = tempdir().unwrap();
    errors(&dir.path().join("run.trace"), &[DECODE]);
    let arguments = ["repro", "run.trace", "--error", "2", "-o", "failure.py"];
    analyze(dir.path(), &arguments).clean();
    let script = dir.path().join("failure.py");
    let Some(output) = python(&script, "a_python_script_fails_as_the_program_did") else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("JSONDecodeError: Expecting value"), "{said}");
}

#[test]
fn no_text_of_a_trace_chooses_how_python_reads_the_script() {
    let dir = tempdir().unwrap();
    for (coding, payload) in [
        ("coding=raw_unicode_escape", "x \\u000aprint('INJECTED'); raise SystemExit #"),
        ("-*- coding: utf-7 -*-", "x+AAo-print('INJECTED')+ADs- raise SystemExit #"),
        ("coding: no-such-coding", "x"),
    ] {
        making::trace(&dir.path().join("run.trace"), |writer| {
            let track = writer.track(making::THREAD, 1, "main");
            let name = writer.name(&format!("decode {coding}"));
            let record = Record::point(Kind::ERROR, name, track, 1_000, (ValueType::None, 0));
            let fields = [
                ("kind", coding),
                ("payload", payload),
                ("function", "len"),
                ("arguments", r#"["four"]"#),
            ];
            let fields = fields.map(|(key, text)| (writer.name(key), Value::Text(text)));
            writer.event(record, &fields, &[]).unwrap();
        });
        let arguments = ["repro", "run.trace", "--error", "1", "-o", "failure.py"];
        analyze(dir.path(), &arguments).clean();
        let test = "no_text_of_a_trace_chooses_how_python_reads_the_script";
        let Some(output) = python(&dir.path().join("failure.py"), test) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "4\n", "{coding}: {said}");
    }
}

#[test]
fn a_function_is_called_with_what_was_written_to_the_last_digit() {
    let dir = tempdir().unwrap();
    let written = r#"{"args": [123456789012345678901234567890, -0, 1e400, NaN], "kwargs": {"sep": "|", "end": "."}}"#;
    let call = [("function", Value::Text("print")), ("arguments", Value::Text(written))];
    errors(&dir.path().join("run.trace"), &[&call]);
    let arguments = ["repro", "run.trace", "--error", "2", "-o", "failure.py"];
    analyze(dir.path(), &arguments).clean();
    let test = "a_function_is_called_with_what_was_written_to_the_last_digit";
    let Some(output) = python(&dir.path().join("failure.py"), test) else { return };
    let printed = "123456789012345678901234567890|0|inf|nan.None\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed);
}

#[test]
fn many_errors_are_listed_with_every_chunk_read_once() {
    const MANY: u64 = 40_000;
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let tracks = [1, 2].map(|number| writer.track(making::THREAD, number, "worker"));
        let (name, key) = (writer.name("failed"), writer.name("function"));
        // By turns, so that the next error is never in the chunk of the last.
        for at in 0..MANY {
            let track = tracks[at as usize % 2];
            let record = Record::point(Kind::ERROR, name, track, at, (ValueType::None, 0));
            writer.event(record, &[(key, Value::Text(&format!("f{at}")))], &[]).unwrap();
        }
    });
    let begun = Instant::now();
    let rows = analyze(dir.path(), &["repro", "run.trace", "--format", "json"]).json();
    // Two seconds; decoding the chunk anew for each of them took two minutes.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let rows = rows["rows"].as_array().unwrap();
    assert_eq!(rows.len() as u64, MANY);
    for at in [0, 1, MANY / 2, MANY - 1] {
        let row = &rows[at as usize];
        assert_eq!((&row["error"], &row["function"]), (&(at + 1).into(), &format!("f{at}").into()));
    }
}

#[test]
fn a_shell_script_runs_the_program_with_its_arguments_and_nothing_else() {
    let dir = tempdir().unwrap();
    errors(&dir.path().join("run.trace"), &[ECHO]);
    let arguments = ["repro", "run.trace", "--error", "2", "--lang", "shell", "-o", "failure.sh"];
    analyze(dir.path(), &arguments).clean();
    let script = dir.path().join("failure.sh");
    let output = Command::new(&script).output().expect("it can be run");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "<it's; exit 7 $(id)>");
    assert!(output.status.success());
}

#[test]
fn a_script_says_where_it_comes_from() {
    let dir = tempdir().unwrap();
    errors(&dir.path().join("run.trace"), &[ECHO, DECODE]);
    let script = analyze(dir.path(), &["repro", "run.trace", "--error", "2"]).clean();
    let comment: Vec<&str> = script.lines().take_while(|line| line.starts_with('#')).collect();
    assert_eq!(
        comment,
        [
            "#!/usr/bin/env python3",
            "# -*- coding: utf-8 -*-",
            "# call.exception: JSONDecodeError",
            "# Expecting value",
            "# raise SystemExit(0)",
            "# error 2 of run.trace, 999.99 us in, 2023-11-14 22:13:20 UTC, on main",
        ]
    );
}

#[test]
fn errors_are_listed_by_time_with_what_can_be_made_of_them() {
    let dir = tempdir().unwrap();
    errors(&dir.path().join("run.trace"), &[ECHO, DECODE]);
    let listed = analyze(dir.path(), &["repro", "run.trace"]).clean();
    assert_eq!(
        listed.trim_end(),
        "\
Errors
  error         at  name            kind             function  script
      1    0.00 ns  load
      2  999.99 us  call.exception  JSONDecodeError  loads     python, shell
      3    2.00 ms  call.exception                             shell"
    );
    let rows = analyze(dir.path(), &["repro", "run.trace", "--format", "json"]).json();
    assert_eq!(rows["rows"][1]["function"], "loads");
}

#[test]
fn what_no_script_can_be_made_of_is_said() {
    let dir = tempdir().unwrap();
    let cut = "[\"".to_owned() + &"x".repeat(70_000) + "\"]";
    let cut = [("function", Value::Text("f")), ("arguments", Value::Text(&cut))];
    errors(&dir.path().join("run.trace"), &[&cut]);
    let refused = |arguments: &[&str]| {
        let all: Vec<&str> = ["repro", "run.trace"].iter().chain(arguments).copied().collect();
        analyze(dir.path(), &all).refusal()
    };
    assert_eq!(
        refused(&["--error", "1"]),
        "analyze: run.trace: error 1, `load`: it has no field `function`, so there is nothing to call\n"
    );
    assert_eq!(refused(&["--error", "7"]), "analyze: run.trace: there is no error 7; it has 2\n");
    let said = refused(&["--error", "2"]);
    assert!(
        said.contains("error 2, `call.exception`: its field `arguments` is not JSON"),
        "{said}"
    );
    assert!(refused(&["--error", "0"]).contains("--error"));
    making::tokens(&dir.path().join("fine.trace"));
    making::trace(&dir.path().join("none.trace"), |_| {});
    let none = analyze(dir.path(), &["repro", "none.trace"]).clean();
    assert!(none.contains("no errors in this trace; "), "{none}");
}
