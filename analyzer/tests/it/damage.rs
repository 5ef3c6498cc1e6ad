//! What cannot be read is said by every command, for people and for machines.

use std::path::Path;

use ringscope_format::{Place, Trace};
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
