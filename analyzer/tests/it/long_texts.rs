//! Texts that are longer than an event holds: whole wherever texts are shown, kept by
//! whatever copies a trace, and replaced like any other by what scrubs it.

use std::{fs, path::Path};

use ringscope_format::{
    Columns, Kind, OwnedValue, Place, Record, Trace, Value, ValueType, Vitals, long_text_slot,
    write_slots,
};
use tempfile::tempdir;

use crate::{
    analyze::{Run, analyze, analyze_piped},
    making::{self, THREAD, span},
    repro::python,
};

/// Stands at the very end of every long text.
const END: &str = "secret_end_of_it";

fn stack_trace() -> String {
    let frames: String =
        (0..1_000).map(|at| format!("{at:4}: demo::caf\u{E9}::frame_{at}\n")).collect();
    frames + END
}

/// 20 KB of JSON.
fn arguments() -> String {
    format!("[\"[{}0]\"]", "17, ".repeat(5_000))
}

/// Spans, and two errors with what does not fit into an event.
fn failing(path: &Path) {
    making::trace(path, |writer| {
        let (main, work) = (writer.track(THREAD, 1, "main"), writer.name("work"));
        let exception = writer.name("call.exception");
        let keys = ["kind", "stack", "library", "function", "arguments"].map(|it| writer.name(it));
        let (stack, arguments) = (stack_trace(), arguments());
        for at in 0..2_u64 {
            let name = format!("Error{at}");
            let texts = [&*name, &stack, "json", "loads", &arguments];
            let fields: Vec<(u32, Value<'_>)> =
                keys.into_iter().zip(texts.map(Value::Text)).collect();
            let error =
                Record::point(Kind::ERROR, exception, main, 1_000 * at + 50, (ValueType::None, 0));
            writer.event(error, &fields, &[]).unwrap();
            writer.event(span(work, main, 1_000 * at, 500), &[], &[]).unwrap();
        }
    });
}

/// The texts of all errors by key, with whether they are cut.
fn texts(path: &Path) -> Vec<(String, String, bool)> {
    let trace = Trace::open(fs::read(path).unwrap()).unwrap();
    assert!(trace.damage().is_empty(), "{:?}", trace.damage());
    let mut all = Vec::new();
    for chunk in trace.chunks() {
        let batch = trace.decode(chunk, Columns::ALL | Columns::LONG_TEXTS).unwrap();
        assert!(batch.long_texts_error.is_none());
        for (_, slots) in batch.records() {
            for (key, value) in batch.details(slots).fields {
                let OwnedValue::Text { text, cut } = value else { continue };
                all.push((trace.names().get(key).unwrap().to_owned(), text, cut));
            }
        }
    }
    all
}

#[track_caller]
fn has_both_whole(path: &Path) {
    let texts = texts(path);
    for (key, expected) in [("stack", stack_trace()), ("arguments", arguments())] {
        let found: Vec<_> = texts.iter().filter(|(known, ..)| known == key).collect();
        assert_eq!(found.len(), 2, "{key}");
        assert!(found.iter().all(|(_, text, cut)| *text == expected && !cut), "{key}");
    }
}

#[test]
fn a_script_repeats_a_call_with_20_kilobytes_of_arguments() {
    let dir = tempdir().unwrap();
    failing(&dir.path().join("run.trace"));
    let script = analyze(dir.path(), &["repro", "run.trace", "--error", "1"]).clean();
    assert_eq!(script.matches("17").count(), 5_000);
    fs::write(dir.path().join("failure.py"), script).unwrap();
    let test = "a_script_repeats_a_call_with_20_kilobytes_of_arguments";
    let Some(output) = python(&dir.path().join("failure.py"), test) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.matches("17").count(), 5_000, "{said}");
}

#[test]
fn errors_have_the_whole_text_and_a_terminal_a_short_one() {
    let dir = tempdir().unwrap();
    failing(&dir.path().join("run.trace"));
    let json = analyze(dir.path(), &["errors", "run.trace", "--format", "json"]).json();
    let said = json["rows"][0]["payload"].as_str().unwrap();
    assert!(said.contains(&stack_trace()) && said.contains(&arguments()), "{}", said.len());
    let table = analyze(dir.path(), &["errors", "run.trace"]).clean();
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
    let report = analyze(dir.path(), &["report", "run.trace", "--format", "json"]).stdout;
    assert!(report.contains(END));
}

#[cfg(feature = "sql")]
#[test]
fn queries_have_the_whole_text() {
    let dir = tempdir().unwrap();
    failing(&dir.path().join("run.trace"));
    let query = "SELECT text FROM fields WHERE key = 'stack' ORDER BY record";
    let json = analyze(dir.path(), &["sql", query, "run.trace", "--format", "json"]).json();
    assert_eq!(json["rows"][0]["text"].as_str(), Some(stack_trace().as_str()));
    assert_eq!(json["rows"][1]["text"].as_str(), Some(stack_trace().as_str()));
}

#[test]
fn texts_of_64_kib_leave_tables_in_a_pipe_readable() {
    let dir = tempdir().unwrap();
    let (stack, function) = ("s".repeat(65_536), "f".repeat(65_536));
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (main, name) = (writer.track(THREAD, 1, "main"), writer.name("call.exception"));
        let keys = ["kind", "stack", "function"].map(|it| writer.name(it));
        let texts = ["ValueError", &stack, &function];
        let fields: Vec<(u32, Value<'_>)> = keys.into_iter().zip(texts.map(Value::Text)).collect();
        let error = Record::point(Kind::ERROR, name, main, 50, (ValueType::None, 0));
        writer.event(error, &fields, &[]).unwrap();
        writer.event(span(name, main, 0, 500), &[], &[]).unwrap();
    });
    // What is left out is left out of the middle, and that is marked.
    let commands =
        [("report", "ss\u{2026}ff"), ("repro", "ff\u{2026}ff"), ("errors", "ss\u{2026}ff")];
    for (command, cut) in commands {
        for format in ["table", "markdown"] {
            let text = analyze_piped(dir.path(), &[command, "run.trace", "--format", format]);
            let text = text.clean();
            assert!(text.lines().count() < 60, "{command}: {} lines", text.lines().count());
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest < Some(1_400), "{command}: {longest:?}");
            assert!(text.contains(cut), "{command}: {text}");
        }
        let json = analyze_piped(dir.path(), &[command, "run.trace", "--format", "json"]).clean();
        assert!(json.contains(&function), "{command}: machines get all of it");
    }
}

#[test]
fn every_export_of_events_has_the_whole_text() {
    let dir = tempdir().unwrap();
    failing(&dir.path().join("run.trace"));
    for format in ["jsonl", "csv", "chrome", "perfetto", "otlp-json"] {
        let out = format!("run.{format}");
        analyze(dir.path(), &["export", "run.trace", "--to", format, "-o", &out]).clean();
        let bytes = fs::read(dir.path().join(&out)).unwrap();
        let found = bytes.windows(END.len()).filter(|window| *window == END.as_bytes()).count();
        assert!(found >= 2 || (format == "perfetto" && found >= 1), "{format}: {found}");
        let found = bytes.windows(3).filter(|window| *window == b"17,").count();
        assert!(found >= 5_000, "{format}: {found}");
    }
}

#[test]
fn what_was_exported_comes_back_whole() {
    let dir = tempdir().unwrap();
    failing(&dir.path().join("run.trace"));
    let mut formats = vec!["jsonl", "csv", "chrome"];
    if cfg!(feature = "parquet") {
        formats.extend(["parquet", "arrow"]);
    }
    for format in formats {
        let (out, back) = (format!("run.{format}"), format!("back.{format}.trace"));
        analyze(dir.path(), &["export", "run.trace", "--to", format, "-o", &out]).clean();
        let run = analyze(dir.path(), &["import", &out, "-o", &back]);
        assert_eq!(run.code, 0, "{format}: {}", run.stderr);
        has_both_whole(&dir.path().join(&back));
    }
}

/// A run that wrote a trace, and may have said something about that.
#[track_caller]
fn edited(dir: &Path, arguments: &[&str]) -> Run {
    let run = analyze(dir, arguments);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    run
}

#[test]
fn cut_merge_and_recover_keep_long_texts() {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    failing(&at("run.trace"));
    edited(dir.path(), &["cut", "run.trace", "-o", "cut.trace", "--from", "0"]);
    has_both_whole(&at("cut.trace"));
    edited(dir.path(), &["recover", "run.trace", "-o", "recovered.trace"]);
    has_both_whole(&at("recovered.trace"));
    making::tokens(&at("other.trace"));
    edited(dir.path(), &["merge", "run.trace", "other.trace", "-o", "merged.trace"]);
    has_both_whole(&at("merged.trace"));
    // A part without errors has nothing of them.
    edited(dir.path(), &["cut", "run.trace", "-o", "spans.trace", "--name", "work"]);
    let trace = Trace::open(fs::read(at("spans.trace")).unwrap()).unwrap();
    assert_eq!(trace.vitals().unwrap().long_texts, 0);
    assert!(trace.chunks().iter().all(|chunk| chunk.long_text_bytes == 0));
}

/// A small file: ten thousand errors that refer to one text of 64 KiB.
fn one_text_for_all(path: &Path) {
    making::trace(path, |writer| {
        let (main, name) = (writer.track(THREAD, 1, "main"), writer.name("failed"));
        let number = writer.long_text(&"x".repeat(65_536), false);
        let mut slots = Vec::new();
        write_slots(&[(name, Value::Text("xxx"))], &[], |slot| slots.push(slot));
        slots.push(long_text_slot(name, number));
        for at in 0..10_000 {
            let error = Record::point(Kind::ERROR, name, main, at, (ValueType::None, 0));
            writer.event_with_slots(error, &slots).unwrap();
        }
    });
    assert!(fs::metadata(path).unwrap().len() < 60_000);
}

#[test]
fn a_text_that_every_event_refers_to_is_read_and_copied_once() {
    let dir = tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    one_text_for_all(&at("run.trace"));
    edited(dir.path(), &["cut", "run.trace", "-o", "cut.trace"]);
    edited(dir.path(), &["recover", "run.trace", "-o", "recovered.trace"]);
    making::tokens(&at("other.trace"));
    edited(dir.path(), &["merge", "run.trace", "other.trace", "-o", "merged.trace"]);
    for name in ["run.trace", "cut.trace", "recovered.trace", "merged.trace"] {
        let texts = texts(&at(name));
        let whole = texts.iter().filter(|(_, text, _)| text.len() == 65_536).count();
        let begun = texts.iter().filter(|(_, text, _)| text == "xxx").count();
        assert_eq!((whole, begun), (1, 9_999), "{name}");
        let trace = Trace::open(fs::read(at(name)).unwrap()).unwrap();
        assert_eq!(trace.vitals().unwrap().long_texts, 1, "{name}");
    }
    if cfg!(feature = "sql") {
        let query = "SELECT SUM(LENGTH(text)) AS bytes FROM fields";
        let arguments = ["sql", query, "run.trace", "--max-memory", "8M", "--format", "json"];
        let json = analyze(dir.path(), &arguments).json();
        assert_eq!(json["rows"][0]["bytes"], 65_536 + 3 * 9_999);
    }
}

#[test]
fn scrub_leaves_nothing_of_a_long_text() {
    let dir = tempdir().unwrap();
    failing(&dir.path().join("run.trace"));
    edited(dir.path(), &["scrub", "run.trace", "-o", "clean.trace"]);
    let after = texts(&dir.path().join("clean.trace"));
    let stacks: Vec<&str> =
        after.iter().filter(|(key, ..)| key == "stack").map(|(_, text, _)| &**text).collect();
    assert_eq!(stacks.len(), 2);
    assert!(stacks[0].starts_with("name-") && stacks[0] == stacks[1], "{stacks:?}");
    assert!(!after.iter().any(|(_, text, _)| text.contains("frame") || text.contains("17, ")));
    let trace = Trace::open(fs::read(dir.path().join("clean.trace")).unwrap()).unwrap();
    assert!(trace.chunks().iter().all(|chunk| chunk.long_text_bytes == 0));
    assert_eq!(trace.vitals().unwrap().long_texts, 0);
    // The beginnings of two texts may be the same; they are two texts all the same.
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (main, name) = (writer.track(THREAD, 1, "main"), writer.name("failed"));
        for end in ["one", "two"] {
            let text = "x".repeat(5_000) + end;
            let error = Record::point(Kind::ERROR, name, main, 5, (ValueType::None, 0));
            writer.event(error, &[(name, Value::Text(&text))], &[]).unwrap();
        }
    });
    edited(dir.path(), &["scrub", "run.trace", "-o", "clean.trace", "--key", "k"]);
    let after = texts(&dir.path().join("clean.trace"));
    assert!(after[0].1 != after[1].1 && !after[0].2, "{after:?}");
}

/// Flips a byte of the long texts, which are the last of their chunk.
fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let place = Trace::open(bytes.clone()).unwrap().chunks()[0].place;
    let Place::Sealed { offset, length } = place else { panic!("{place:?}") };
    bytes[(offset + u64::from(length)) as usize - 100] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn damaged_long_texts_are_told_and_cost_no_event() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    failing(&path);
    damage(&path);
    let check = analyze(dir.path(), &["check", "run.trace"]);
    assert_eq!(check.code, 1, "{}", check.stderr);
    assert!(check.stdout.contains("4 readable"), "{}", check.stdout);
    assert!(check.stdout.contains("long texts"), "{}", check.stdout);
    assert!(check.stdout.contains("checksum mismatch"), "{}", check.stdout);
    let spans = analyze(dir.path(), &["spans", "run.trace"]).clean();
    assert!(spans.contains("work"), "who shows no texts has nothing to complain about");
    let export = analyze(dir.path(), &["export", "run.trace", "--to", "jsonl"]);
    assert_eq!(export.code, 0);
    assert!(export.stderr.contains("its long texts are cut"), "{}", export.stderr);
    assert!(export.stdout.contains("frame_3") && !export.stdout.contains(END));
    let repro = analyze(dir.path(), &["repro", "run.trace", "--error", "1"]);
    assert_eq!(repro.code, 2);
    assert!(repro.stderr.contains("texts are cut"), "{}", repro.stderr);
    let recover = edited(dir.path(), &["recover", "run.trace", "-o", "recovered.trace"]);
    assert!(recover.stderr.contains("long texts"), "{}", recover.stderr);
    let after = texts(&dir.path().join("recovered.trace"));
    let stack = after.iter().find(|(key, ..)| key == "stack").unwrap();
    assert!(stack.2 && stack_trace().starts_with(&stack.1) && stack.1.len() > 500);
}

#[test]
fn recover_tells_of_damaged_long_texts_in_a_chunk_with_a_damaged_column_too() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    failing(&path);
    damage(&path);
    let bytes = fs::read(&path).unwrap();
    let Place::Sealed { offset, length } = Trace::open(bytes.clone()).unwrap().chunks()[0].place
    else {
        panic!("a finished trace has sealed chunks");
    };
    // Whichever byte it takes for the names of the events to be all else that is damaged.
    let damaged = (offset as usize..).take(length as usize).find_map(|at| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        let trace = Trace::open(bytes.clone()).ok().filter(|trace| trace.damage().is_empty())?;
        let reads = |columns| trace.decode(&trace.chunks()[0], columns).is_ok();
        let others = Columns::START | Columns::TRACK | Columns::STATUS | Columns::SHAPE;
        (!reads(Columns::NAME) && reads(others | Columns::SLOTS)).then_some(bytes)
    });
    fs::write(&path, damaged.expect("a column of names")).unwrap();
    let recover = edited(dir.path(), &["recover", "run.trace", "-o", "recovered.trace"]);
    assert!(recover.stderr.contains("4 events recovered, 4 of them in part"), "{}", recover.stderr);
    let told = |what: &str| recover.stderr.lines().any(|line| line.contains(what));
    assert!(told("name") && told("long texts"), "{}", recover.stderr);
}

#[test]
fn texts_that_stayed_cut_are_told_at_the_top() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (main, work) = (writer.track(THREAD, 1, "main"), writer.name("work"));
        writer.event(span(work, main, 0, 500), &[], &[]).unwrap();
        writer.missing(&Vitals { texts_cut: 1_234, ..Vitals::default() });
    });
    let run = analyze(dir.path(), &["spans", "run.trace"]);
    let said =
        "1,234 of 1,234 long texts of errors were cut: too many at once, or too much of one error";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    let report = analyze(dir.path(), &["report", "run.trace"]).stdout;
    assert!(report.contains("nothing lost; 1,234 long texts of errors cut"), "{report}");
    let info = analyze(dir.path(), &["info", "run.trace"]).stdout;
    assert!(info.contains("0 stored, 1,234 cut"), "{info}");
    let json = analyze(dir.path(), &["spans", "run.trace", "--format", "json"]).json();
    assert_eq!(json["loss"]["texts_cut"], 1_234);
    edited(dir.path(), &["cut", "run.trace", "-o", "cut.trace"]);
    let trace = Trace::open(fs::read(dir.path().join("cut.trace")).unwrap()).unwrap();
    assert_eq!(trace.vitals().unwrap().texts_cut, 1_234, "nobody knows whose they were");
}

#[test]
fn counts_of_long_texts_that_no_number_holds_together_are_told_all_the_same() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (main, work) = (writer.track(THREAD, 1, "main"), writer.name("work"));
        writer.long_text("one more", false);
        writer.event(span(work, main, 0, 500), &[], &[]).unwrap();
        writer.missing(&Vitals { texts_cut: u64::MAX, ..Vitals::default() });
    });
    for command in ["info", "check", "report"] {
        let run = analyze(dir.path(), &[command, "run.trace"]);
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
        assert!(run.stdout.contains("18,446,744,073,709,551,615"), "{command}: {}", run.stdout);
    }
}
