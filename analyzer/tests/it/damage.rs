//! What cannot be read is said by every command, for people and for machines.

use std::path::Path;

use ringscope_format::{Place, Trace, VITALS_LENGTH, VITALS_OFFSET, Vitals, write_twin};
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    making::{self, THREAD, span},
};

pub(crate) const EVENTS: u64 = 20_000;

/// A trace of several chunks, the first of which has a byte of its columns flipped.
pub(crate) fn with_a_damaged_column(path: &Path) {
    making::trace(path, |writer| {
        let (main, name) = (writer.track(THREAD, 1, "main"), writer.name("work"));
        let mut start = 0;
        for at in 0..EVENTS {
            let duration = 100 + at * at % 9_973;
            writer.event(span(name, main, start, duration), &[], &[]).unwrap();
            start += duration + 10;
        }
    });
    let mut bytes = std::fs::read(path).unwrap();
    let place = Trace::open(bytes.clone()).unwrap().chunks()[0].place;
    let Place::Sealed { offset, length } = place else { panic!("{place:?}") };
    // Of such a chunk nearly all is the column of durations, which all commands read.
    bytes[offset as usize + length as usize / 2] ^= 0xFF;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn every_command_says_what_it_could_not_read() {
    let dir = tempdir().unwrap();
    with_a_damaged_column(&dir.path().join("run.trace"));
    let commands: &[&[&str]] = &[
        &["report", "run.trace"],
        &["spans", "run.trace"],
        &["tree", "run.trace"],
        &["threads", "run.trace"],
        &["slow", "run.trace"],
        &["hist", "work", "run.trace"],
        &["summary", "run.trace"],
        #[cfg(feature = "sql")]
        &["sql", "SELECT sum(dur_ns), min(start_ns) FROM spans", "run.trace"],
    ];
    for arguments in commands {
        let run = analyze(dir.path(), arguments);
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        assert_eq!(run.stderr.matches("events are missing").count(), 1, "{arguments:?}: {run:?}");
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--format", "json"]).collect();
        let json = analyze(dir.path(), &arguments).json();
        assert_eq!(json["exact"], false, "{arguments:?}");
        let unreadable = json["loss"]["unreadable"].as_u64().unwrap();
        assert!(unreadable > 0 && unreadable < EVENTS, "{arguments:?}: {unreadable}");
    }
    let report = analyze(dir.path(), &["report", "run.trace"]);
    assert!(report.stdout.contains("DAMAGED: "), "{}", report.stdout);
    let check = analyze(dir.path(), &["check", "run.trace"]);
    assert_eq!(check.code, 1, "{}", check.stderr);
}

#[test]
fn figures_of_a_whole_trace_say_that_they_are_exact() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let json = analyze(dir.path(), &["spans", "run.trace", "--format", "json"]).json();
    assert_eq!(json["exact"], true);
}

#[test]
fn counts_that_no_number_holds_together_end_no_command() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    with_a_damaged_column(&path);
    let whole = std::fs::read(&path).unwrap();
    let known = *Trace::open(whole.clone()).unwrap().vitals().unwrap();
    let all = [u64::MAX; 8];
    let rest = Vitals { lost: all, lost_slots: all, skipped: all, ..known };
    for vitals in [
        Vitals { stored: u64::MAX, ..known },
        Vitals { stored: u64::MAX, ..rest },
        Vitals { own: u64::MAX, overwritten: u64::MAX, texts_cut: u64::MAX, ..rest },
        Vitals { overwritten: u64::MAX, waiting: u64::MAX, untold: u64::MAX, ..rest },
    ] {
        let mut bytes = whole.clone();
        let block = &mut bytes[VITALS_OFFSET..VITALS_OFFSET + VITALS_LENGTH];
        write_twin(block, 2, &vitals.to_bytes());
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(dir.path().join("other.trace"), &bytes).unwrap();
        for arguments in [
            &["report", "run.trace"][..],
            &["info", "run.trace"],
            &["check", "run.trace"],
            &["threads", "run.trace", "--format", "json"],
            &["summary", "run.trace"],
            &["diff", "run.trace", "other.trace"],
            &["recover", "run.trace", "-o", "recovered.trace"],
            &["cut", "run.trace", "-o", "cut.trace"],
            &["merge", "run.trace", "other.trace", "-o", "merged.trace"],
            &["report", "merged.trace"],
        ] {
            let run = analyze(dir.path(), arguments);
            assert!(!run.stderr.contains("panicked"), "{arguments:?}: {}", run.stderr);
            let codes = if arguments[0] == "diff" { [0, 1, 3] } else { [0, 1, 1] };
            assert!(codes.contains(&run.code), "{arguments:?}: {} {}", run.code, run.stderr);
        }
    }
}
