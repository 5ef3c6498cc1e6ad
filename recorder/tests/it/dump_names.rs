//! What dumps are called, and that none takes the name of another.

use std::{fs, path::PathBuf, thread, time::Duration};

#[cfg(target_os = "linux")]
use crate::posix;
use crate::{
    child::{End, Scene, child},
    dumps::{flight, read_dump},
};

/// Two runs of a program that panics and is started again.
fn panic_twice(scene: &Scene) -> [Vec<PathBuf>; 2] {
    ["first", "second"].map(|run| {
        let recorder = flight(scene).metadata("run", run).hold_off(Duration::ZERO).start().unwrap();
        thread::spawn(|| panic!("out")).join().unwrap_err();
        recorder.dump().unwrap();
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.problems, []);
        summary.dumps
    })
}

#[track_caller]
fn both_runs_are_there(end: &End) {
    for (dump, run, reason) in [
        ("run.dump-1-panic.trace", "first", "panic"),
        ("run.dump-2-asked.trace", "first", "asked for by the program"),
        ("run.dump-3-panic.trace", "second", "panic"),
        ("run.dump-4-asked.trace", "second", "asked for by the program"),
    ] {
        let told = read_dump(&end.path(dump), reason);
        assert_eq!(told.trace.metadata()["run"], run, "{dump}");
    }
    assert_eq!(end.files(".trace").len(), 5);
    assert_eq!(end.files(".writing"), [""; 0]);
}

#[test]
fn dumps_of_an_earlier_run_are_never_overwritten() {
    let end = child(|scene| {
        let [first, second] = panic_twice(scene);
        assert_eq!(first[0], scene.path("run.dump-1-panic.trace"));
        assert_eq!(second[0], scene.path("run.dump-3-panic.trace"));
    });
    both_runs_are_there(&end.run().succeeded());
}

#[test]
#[cfg(target_os = "linux")]
fn dumps_of_an_earlier_run_are_never_overwritten_where_there_are_no_hard_links_either() {
    let end = child(|scene| {
        posix::no_hard_links();
        panic_twice(scene);
    });
    both_runs_are_there(&end.run().succeeded());
}

#[test]
fn a_dump_that_was_taken_away_leaves_its_number_to_nobody() {
    let end = child(|scene| {
        let recorder = flight(scene).start().unwrap();
        let first = recorder.dump().unwrap();
        fs::remove_file(&first).unwrap();
        assert_eq!(recorder.dump().unwrap(), scene.path("run.dump-2-asked.trace"));
        recorder.finish().unwrap();
    });
    end.run().succeeded();
}
