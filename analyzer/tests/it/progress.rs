//! Progress is for people who wait.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use tempfile::tempdir;

use crate::{
    analyze::{Run, analyze, analyze_in_terminal},
    making,
};

fn nested(path: &Path, spans: u64) {
    making::trace(path, |writer| {
        let (name, track) = (writer.name("step"), writer.track(making::THREAD, 1, "t"));
        for at in 0..spans {
            writer.event(making::span(name, track, at << 10, at % 1_000), &[], &[]).unwrap();
        }
    });
}

fn timed(run: impl FnOnce() -> Run) -> (Run, Duration) {
    let begun = Instant::now();
    (run(), begun.elapsed())
}

#[test]
fn long_work_shows_a_bar_on_a_terminal_and_takes_it_away_again() {
    let dir = tempdir().unwrap();
    let arguments = ["tree", "run.trace", "--limit", "1"];
    let mut spans = 1_000_000;
    let without = loop {
        nested(&dir.path().join("run.trace"), spans);
        let (without, took) = timed(|| analyze(dir.path(), &arguments));
        if took > Duration::from_secs(2) {
            break without.clean();
        }
        spans *= 2;
    };
    let with = analyze_in_terminal(dir.path(), &arguments).clean();
    assert!(with.contains(" %, "), "{with:?}");
    // What is left on the screen is what a pipe would have got: each redrawing of the
    // bar begins by erasing its line.
    let screen: Vec<&str> =
        with.split("\r\n").filter_map(|line| line.rsplit("\u{1b}[2K").next()).collect();
    assert_eq!(screen.join("\n").trim_start_matches('\r'), without);
}

#[test]
fn short_work_shows_no_bar() {
    let dir = tempdir().unwrap();
    nested(&dir.path().join("run.trace"), 100);
    let with = analyze_in_terminal(dir.path(), &["tree", "run.trace"]).clean();
    assert!(!with.contains(" %, "), "{with:?}");
}
