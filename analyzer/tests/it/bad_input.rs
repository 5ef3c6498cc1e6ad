//! Whatever people point it at: a message, the right exit code, partial data
//! where there is any, never a panic.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use tempfile::tempdir;

use crate::{
    analyze::{analyze, analyze_fed, analyze_under},
    making,
};

#[test]
fn what_is_no_trace_is_refused_with_its_path() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "not a trace").unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    fs::create_dir(dir.path().join("directory")).unwrap();
    let said = |path: &str| analyze(dir.path(), &["report", path]).refusal();
    assert!(said("notes.txt").starts_with("analyze: notes.txt: "), "{}", said("notes.txt"));
    assert!(said("empty").starts_with("analyze: empty: "));
    assert_eq!(said("directory"), "analyze: directory: is a directory; give a trace file\n");
    assert!(said("missing").starts_with("analyze: missing: No such file"), "{}", said("missing"));
}

#[test]
fn a_trace_from_a_newer_version_is_refused_by_its_version() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    making::tokens(&path);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8..10].copy_from_slice(&9_u16.to_le_bytes());
    fs::write(&path, bytes).unwrap();
    let said = analyze(dir.path(), &["report", "run.trace"]).refusal();
    assert!(said.contains('9') && said.contains("version"), "{said}");
}

#[test]
fn a_file_without_permission_says_so() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    making::tokens(&path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read everything, unless it gives that right away.
    let said = if fs::File::open(&path).is_ok() {
        let without = ["--bounding-set", "-dac_override,-dac_read_search"];
        analyze_under("setpriv", &without, dir.path(), &["report", "run.trace"]).refusal()
    } else {
        analyze(dir.path(), &["report", "run.trace"]).refusal()
    };
    assert_eq!(said, "analyze: run.trace: Permission denied (os error 13)\n");
}

/// Enough for several chunks.
fn long(path: &Path) -> u64 {
    const EVENTS: u64 = 50_000;
    making::trace(path, |writer| {
        let (name, track) = (writer.name("step"), writer.track(making::THREAD, 1, "t"));
        for at in 0..EVENTS {
            // Hard to compress, so that each chunk has some length.
            let noise = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
            writer.event(making::span(name, track, at << 21, noise), &[], &[]).unwrap();
        }
    });
    EVENTS
}

#[test]
fn a_truncated_trace_gives_what_is_left_and_says_what_is_not() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    let events = long(&path);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1_000]).unwrap();
    let run = analyze(dir.path(), &["spans", "run.trace", "--format", "json"]);
    assert!(run.stderr.starts_with("analyze: run.trace: "), "{}", run.stderr);
    let count = run.json()["rows"][0]["count"].as_u64().unwrap();
    assert!((1..events).contains(&count));
    let check = analyze(dir.path(), &["check", "run.trace"]);
    assert_eq!(check.code, 1);
    assert!(check.stdout.ends_with("verdict    damaged\n"), "{}", check.stdout);
}

#[test]
fn damage_in_the_middle_loses_one_chunk_and_no_more() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    let events = long(&path);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8].iter_mut().for_each(|byte| *byte ^= 0xFF);
    fs::write(&path, bytes).unwrap();
    let run = analyze(dir.path(), &["report", "run.trace"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let json = analyze(dir.path(), &["spans", "run.trace", "--format", "json"]).json();
    let count = json["rows"][0]["count"].as_u64().unwrap();
    assert!(count < events && count >= events - 16_384, "{count}");
    assert_eq!(analyze(dir.path(), &["check", "run.trace"]).code, 1);
}

#[test]
fn every_truncation_ends_with_an_answer_or_a_message() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    making::tokens(&path);
    let bytes = fs::read(&path).unwrap();
    for length in (0..bytes.len()).step_by(97) {
        fs::write(&path, &bytes[..length]).unwrap();
        let run = analyze(dir.path(), &["report", "run.trace"]);
        assert!(run.code == 0 || run.code == 2, "{length}: {}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{length}: {}", run.stderr);
    }
}

#[test]
fn a_trace_may_come_through_a_pipe() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    making::tokens(&path);
    let bytes = fs::read(&path).unwrap();
    let run =
        analyze_fed(dir.path(), &["spans", "-", "--format", "csv", "--columns", "name"], &bytes);
    assert_eq!(run.clean(), "name\nload\ntoken\ndecode\n");
    let fifo = dir.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let mut cat = Command::new("sh")
        .args(["-c", "cat run.trace > fifo"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let run = analyze(dir.path(), &["spans", "fifo", "--format", "csv", "--columns", "name"]);
    assert_eq!(run.clean(), "name\nload\ntoken\ndecode\n");
    cat.wait().unwrap();
}

#[test]
fn a_trace_without_events_is_a_report_without_figures() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |_| {});
    let report = analyze(dir.path(), &["report", "run.trace"]).clean();
    assert!(report.contains("0 events over 0.00 ns"), "{report}");
    let json = analyze(dir.path(), &["summary", "run.trace"]).json();
    assert_eq!(json["rows"], serde_json::json!([]));
}

#[test]
fn seventy_thousand_names_are_seventy_thousand_rows() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let track = writer.track(making::THREAD, 1, "t");
        for at in 0..70_000 {
            let name = writer.name(&format!("name {at}"));
            writer.event(making::span(name, track, at, 1), &[], &[]).unwrap();
        }
    });
    let csv = analyze(dir.path(), &["spans", "run.trace", "--format", "csv"]).clean();
    assert_eq!(csv.lines().count(), 70_001);
    let table = analyze(dir.path(), &["report", "run.trace"]).clean();
    assert!(table.contains("(69,990 others)"), "{table}");
}

#[test]
fn names_that_play_tricks_are_shown_harmless_and_kept_exact_for_machines() {
    let dir = tempdir().unwrap();
    let tricky = "a\u{1b}[31m\nb\u{202e}c";
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (name, track) = (writer.name(tricky), writer.track(making::THREAD, 1, "t\u{7}"));
        writer.event(making::span(name, track, 0, 10), &[], &[]).unwrap();
    });
    let table = analyze(dir.path(), &["report", "run.trace"]).clean();
    assert!(table.contains("a\\u{1b}[31m\\nb\\u{202e}c"), "{table}");
    assert!(!table.contains('\u{1b}') && !table.contains('\u{202e}'));
    let json = analyze(dir.path(), &["summary", "run.trace"]).json();
    assert_eq!(json["rows"][0]["name"], tricky);
}

#[test]
fn wrong_usage_exits_with_two() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    for arguments in [
        &["spans"][..],
        &["spans", "run.trace", "--percentiles", "101"],
        &["spans", "run.trace", "--from", "15"],
        &["spans", "run.trace", "--bounds", "2ms,1ms,3ms"],
        &["spans", "run.trace", "--name", "[a"],
        &["spans", "run.trace", "--columns", "nothing"],
        &["nonsense", "run.trace"],
    ] {
        analyze(dir.path(), arguments).refusal();
    }
}

#[test]
fn a_file_that_is_not_finished_is_read_as_far_as_it_is_written() {
    let dir = tempdir().unwrap();
    let killed = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/killed.trace");
    fs::copy(killed, dir.path().join("run.trace")).unwrap();
    let report = || analyze(dir.path(), &["report", "run.trace"]).clean();
    // A recorder holds a lock on its file for as long as it lives.
    let recorder = fs::File::open(dir.path().join("run.trace")).unwrap();
    recorder.lock().unwrap();
    assert!(report().contains("not finished: still being recorded; "), "{}", report());
    drop(recorder);
    let report = report();
    assert!(report.contains("not finished: killed, or copied while it was recorded; "), "{report}");
    assert!(report.contains("Open at the end\n  main\n    token, open for 500.00 ns"), "{report}");
    assert_eq!(analyze(dir.path(), &["check", "run.trace"]).code, 0);
}

#[test]
fn check_goes_on_after_a_file_that_it_cannot_read() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    fs::write(dir.path().join("notes.txt"), "not a trace").unwrap();
    let run = analyze(dir.path(), &["check", "notes.txt", "run.trace", "missing"]);
    assert_eq!(run.code, 2);
    assert!(run.stdout.starts_with("run.trace\n") && run.stdout.ends_with("whole\n"), "{run:?}");
    let said: Vec<&str> = run.stderr.lines().collect();
    assert!(said[0].starts_with("analyze: notes.txt: "), "{said:?}");
    assert!(said[1].starts_with("analyze: missing: No such file"), "{said:?}");
    assert_eq!(said.len(), 2);
}

#[test]
fn figures_of_a_sample_are_said_to_be_of_a_sample() {
    let _one_at_a_time = making::RECORDING.lock();
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    let recorder = ringscope::Recorder::builder().path(&path).rules("token=1/10".parse().unwrap());
    let recorder = recorder.start().unwrap();
    for _ in 0..100 {
        let _span = ringscope::span!("token");
    }
    recorder.finish().unwrap();
    let run = analyze(dir.path(), &["spans", "run.trace"]);
    assert!(run.stdout.contains("token     10"), "{run:?}");
    assert_eq!(
        run.stderr,
        "analyze: run.trace: 90 of 100 events were skipped on request, last by the rules \
         token=1/10; counts and totals are of what was recorded\n"
    );
}

#[test]
fn one_record_is_enough_for_every_report() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (name, track) = (writer.name("only"), writer.track(making::THREAD, 1, "t"));
        writer.event(making::span(name, track, 5, 10), &[], &[]).unwrap();
    });
    for command in ["report", "spans", "tree", "threads", "slow", "kernels", "summary", "info"] {
        analyze(dir.path(), &[command, "run.trace"]).clean();
    }
    analyze(dir.path(), &["hist", "only", "run.trace"]).clean();
    let row = &analyze(dir.path(), &["summary", "run.trace"]).json()["rows"][0];
    assert_eq!((&row["count"], &row["p99_ns"], &row["std_ns"]), (&1.into(), &10.into(), &0.into()));
}
