//! What the environment asks for and does not get, it is told on standard error.

use std::env;

use ringscope::{Recorder, init_from_env, span};
use ringscope_format::Counter;

use crate::child::{Child, End, Scene, child};

/// A program with that one line in it, in a directory of its own.
fn program(scene: &Scene) {
    env::set_current_dir(scene.path("")).unwrap();
    let _recorder = init_from_env();
    drop(span!("token"));
}

/// Records under this variable beside those that it needs. Returns what was said.
fn said(program: Child, name: &str, value: &str) -> (End, String) {
    let program = program.environment("RINGSCOPE_TRACE", "run.trace");
    let end = program.environment(name, value).run().succeeded();
    assert_eq!(end.trace().named("token").len(), 1);
    let said = end.stderr.clone();
    (end, said)
}

#[test]
fn the_systems_clock_is_asked_for_in_any_case_and_no_other_is_known() {
    let program = child(|scene: &Scene| program(scene));
    for asked in ["os", "OS", " Os "] {
        let (end, said) = said(program.another(), "RINGSCOPE_CLOCK", asked);
        assert_eq!(end.trace().trace.header().counter, Counter::MonotonicNs, "{asked}");
        assert_eq!(said, "", "{asked}");
    }
    let (usual, _) = said(program.another(), "RINGSCOPE_CLOCK", "");
    assert_eq!(usual.stderr, "");
    for asked in ["tsc", "system"] {
        let (end, said) = said(program.another(), "RINGSCOPE_CLOCK", asked);
        let counter = |end: &End| end.trace().trace.header().counter;
        assert_eq!(counter(&end), counter(&usual), "{asked}");
        let why = "not a clock to choose; write `os`; it is left as it was";
        assert_eq!(said, format!("ringscope: RINGSCOPE_CLOCK = `{asked}`: {why}\n"));
    }
}

#[test]
fn a_clock_that_is_not_known_is_said_once_also_to_who_reads_nothing_else() {
    let end = child(|scene: &Scene| {
        for _ in 0..2 {
            scene.builder().start().unwrap().finish().unwrap();
        }
        drop(Recorder::builder().path(scene.trace()).start().unwrap());
        env::set_current_dir(scene.path("")).unwrap();
        drop(init_from_env());
    });
    let end = end.environment("RINGSCOPE_CLOCK", "tsc").run().succeeded();
    assert_eq!(end.stderr.matches("RINGSCOPE_CLOCK").count(), 1, "{}", end.stderr);
}

#[test]
fn a_flight_recorder_that_is_too_small_or_an_interval_too_short_is_said() {
    let program = child(|scene: &Scene| program(scene));
    let little = "less than 4 MiB; 4 MiB is taken";
    for (name, value, why) in [
        ("RINGSCOPE_MODE", "keep-last:30s:1", little),
        ("RINGSCOPE_MODE", "keep-last:30s:1MiB", little),
        ("RINGSCOPE_JSONL_INTERVAL", "0s", "shorter than a second; a second is taken"),
    ] {
        let with_rows = program.another().environment("RINGSCOPE_JSONL", "run.jsonl");
        let (_, said) = said(with_rows, name, value);
        assert_eq!(said, format!("ringscope: {name} = `{value}`: {why}\n"));
    }
}

#[test]
fn a_variable_that_is_not_there_is_said_whether_or_not_anything_is_recorded() {
    let program = child(|scene: &Scene| program(scene));
    let warning = "ringscope: RINGSCOPE_SAMPEL: there is no such variable; it is left out\n";
    let (_, said) = said(program.another(), "RINGSCOPE_SAMPEL", "1/2");
    assert_eq!(said, warning);
    let end = program.another().environment("RINGSCOPE_SAMPEL", "1/2").run().succeeded();
    assert_eq!((end.stderr.as_str(), end.files(".trace").len()), (warning, 0));
    // What the tests of the repository are started with is somebody's.
    let of_tests = program.environment("RINGSCOPE_REQUIRE", "").environment("RINGSCOPE_PYTHON", "");
    assert_eq!(of_tests.run().succeeded().stderr, "");
}
