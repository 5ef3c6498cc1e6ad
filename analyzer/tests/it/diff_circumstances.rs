//! `diff` says where runs come from, and decides nothing where that forbids it.

use std::{fs, path::Path};

use tempfile::tempdir;

use crate::{
    analyze::{Run, analyze},
    diff::compared,
    diff_traces::{Program, sides},
};

fn on(metadata: &[(&'static str, &'static str)]) -> Program {
    Program { metadata: metadata.to_vec(), ..Program::new() }
}

fn with(dir: &Path, arguments: &[String], more: &[&str]) -> Run {
    let more = more.iter().map(|it| (*it).to_owned());
    analyze(dir, &arguments.iter().cloned().chain(more).collect::<Vec<_>>())
}

#[test]
fn another_machine_decides_nothing_unless_it_may_differ() {
    let dir = tempdir().unwrap();
    let base = on(&[("host.cpus", "2"), ("host.name", "a")]);
    let head = on(&[("host.cpus", "8"), ("host.name", "b")]).with("step_07", 1.3);
    let arguments = sides(dir.path(), 3, &base, &head);
    let run = with(dir.path(), &arguments, &[]);
    assert_eq!(run.code, 3, "{}", run.stdout);
    let said = "undecided: the sides are of different machines";
    assert!(run.stdout.contains(said), "{}", run.stdout);
    let said = "machine differs: host.cpus is 2 in base, 8 in head; if they can be compared \
                nonetheless: --may-differ 'host.cpus'";
    assert!(run.stdout.contains(said), "{}", run.stdout);
    // Not even with a gate that is open.
    assert_eq!(with(dir.path(), &arguments, &["--fail-on", "never"]).code, 3);
    assert_eq!(with(dir.path(), &arguments, &["--may-differ", "host.name"]).code, 3);
    let run = with(dir.path(), &arguments, &["--may-differ", "host.name,host.cpus"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(!run.stdout.contains("machine differs"), "{}", run.stdout);
    assert_eq!(with(dir.path(), &arguments, &["--may-differ", "host.*"]).code, 1);
    let said = with(dir.path(), &arguments, &["--may-differ", "host.["]).refusal();
    assert!(said.starts_with("analyze: --may-differ: "), "{said}");
}

#[test]
fn a_machine_that_only_one_side_names_is_another() {
    let dir = tempdir().unwrap();
    let arguments = sides(dir.path(), 3, &on(&[("host.cpus", "2")]), &Program::new());
    let run = with(dir.path(), &arguments, &[]);
    assert_eq!(run.code, 3, "{}", run.stdout);
    let said = "machine differs: host.cpus is 2 in base, not said in head";
    assert!(run.stdout.contains(said), "{}", run.stdout);
}

#[test]
fn another_build_is_said_and_the_same_build_too() {
    let dir = tempdir().unwrap();
    let (a, b) = (on(&[("build.commit", "aa")]), on(&[("build.commit", "bb")]));
    let run = with(dir.path(), &sides(dir.path(), 3, &a, &b), &[]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let said = "build or run differs: build.commit is aa in base, bb in head";
    assert!(run.stdout.contains(said), "{}", run.stdout);
    let (code, document) = compared(dir.path(), &sides(dir.path(), 3, &a, &a), &[]);
    assert_eq!(code, 0);
    let text = "build.commit is aa on both sides: the code is the same";
    let wanted = serde_json::json!([{ "key": "same_build", "text": text, "warning": false }]);
    assert_eq!(document["remarks"], wanted);
}

#[test]
fn a_run_on_both_sides_decides_nothing() {
    let dir = tempdir().unwrap();
    Program::new().write(&dir.path().join("a.trace"), 1, 0);
    fs::copy(dir.path().join("a.trace"), dir.path().join("b.trace")).unwrap();
    let run = analyze(dir.path(), &["diff", "a.trace", "b.trace"]);
    assert_eq!(run.code, 3, "{}", run.stdout);
    assert!(run.stdout.contains("undecided: a run is on both sides"), "{}", run.stdout);
    assert!(run.stdout.contains("b.trace is the same run as a.trace"), "{}", run.stdout);
}

#[test]
fn a_run_that_is_given_twice_is_refused() {
    let dir = tempdir().unwrap();
    sides(dir.path(), 2, &Program::new(), &Program::new());
    fs::copy(dir.path().join("b0.trace"), dir.path().join("again.trace")).unwrap();
    let base = ["diff", "--base", "b0.trace", "b1.trace", "again.trace", "--head", "h0.trace"];
    let said = analyze(dir.path(), &base).refusal();
    let wanted = "analyze: base: again.trace is the same run as b0.trace; runs are the unit, give \
                  each of them once\n";
    assert_eq!(said, wanted);
    analyze(dir.path(), &["summary", "b0.trace", "-o", "base.json"]).clean();
    let base = ["diff", "--base", "base.json", "b0.trace", "--head", "h0.trace"];
    assert!(analyze(dir.path(), &base).refusal().contains("is the same run as b0.trace"));
}

#[test]
fn the_order_of_measurement_is_said() {
    let dir = tempdir().unwrap();
    let mut arguments = vec!["diff".to_owned()];
    for (side, option, from) in [("b", "--base", 0), ("h", "--head", 100)] {
        arguments.push(option.to_owned());
        for run in 0..3 {
            let name = format!("{side}{run}.trace");
            Program::new().write(&dir.path().join(&name), from + run, (from + run) as i64);
            arguments.push(name);
        }
    }
    let run = analyze(dir.path(), &arguments);
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("one side was measured after the other"), "{}", run.stderr);
    assert!(run.stdout.contains("one side after the other; changes"), "{}", run.stdout);
}
