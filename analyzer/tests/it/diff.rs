//! `diff`: each verdict, each exit code.

use std::{fs, path::Path};

use serde_json::Value;
use tempfile::tempdir;

use crate::{
    analyze::{Run, analyze},
    diff_traces::{Program, sides},
};

/// Runs of both sides compared, as JSON whatever the exit code.
pub(crate) fn compared(dir: &Path, arguments: &[String], more: &[&str]) -> (i32, Value) {
    let mut arguments = arguments.to_vec();
    arguments.extend(["--format", "json"].iter().chain(more).map(|it| (*it).to_owned()));
    let Run { code, stdout, stderr } = analyze(dir, &arguments);
    (code, serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{code} {stderr}")))
}

pub(crate) fn row<'a>(document: &'a Value, name: &str) -> &'a Value {
    let rows = document["rows"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name} is missing"))
}

fn verdicts(document: &Value, verdict: &str) -> usize {
    let rows = document["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row["verdict"] == verdict).count()
}

#[test]
fn identical_code_passes() {
    let dir = tempdir().unwrap();
    let arguments = sides(dir.path(), 5, &Program::new(), &Program::new());
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, document["verdict"].as_str()), (0, Some("ok")), "{document:#}");
    assert_eq!(document["schema"], "ringscope.diff/1");
    assert_eq!(document["order"], "interleaved");
    assert_eq!((verdicts(&document, "ok"), document["remarks"].as_array().unwrap().len()), (20, 0));
    assert_eq!(document["sentence"], "ok: 20 names compared, none slower");
    // Nobody is blamed for noise.
    let said = document["explanation"][0].as_str().unwrap();
    assert!(said.contains(", within noise (95 % interval -"), "{said}");
    assert!(said.ends_with(": no name's part stands out"), "{said}");
    assert_eq!(document["attribution"][0]["noise_names"], 20);
    let said = analyze(dir.path(), &arguments).stdout;
    assert!(said.contains("\n  … 10 more rows: --limit 0\n"), "{said}");
}

#[test]
fn a_slower_name_fails_the_build_and_is_told_with_its_interval_and_its_share() {
    let dir = tempdir().unwrap();
    let arguments = sides(dir.path(), 5, &Program::new(), &Program::new().with("step_07", 1.15));
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, document["verdict"].as_str()), (1, Some("regression")));
    assert_eq!((verdicts(&document, "regression"), verdicts(&document, "ok")), (1, 19));
    let slow = row(&document, "step_07");
    assert_eq!(
        (&slow["verdict"], &slow["gate"]["severity"]),
        (&"regression".into(), &"error".into())
    );
    let test = &slow["tests"][0];
    let interval = [0, 1].map(|at| test["interval_percent"][at].as_f64().unwrap());
    assert!(13.0 < interval[0] && interval[0] < 15.0 && 15.0 < interval[1] && interval[1] < 17.0);
    assert!(slow["share_percent"].as_f64().unwrap() > 80.0, "{slow:#}");
    let said = document["explanation"][0].as_str().unwrap();
    assert!(said.contains("100 % from `step_07`, called as often, each 14.8 % slower"), "{said}");
}

#[test]
fn a_regression_need_not_fail() {
    let dir = tempdir().unwrap();
    let arguments = sides(dir.path(), 3, &Program::new(), &Program::new().with("step_07", 1.3));
    let (code, document) = compared(dir.path(), &arguments, &["--fail-on", "never"]);
    assert_eq!((code, document["verdict"].as_str()), (0, Some("regression")));
    assert_eq!(compared(dir.path(), &arguments, &["--fail-on", "regression"]).0, 1);
}

#[test]
fn a_faster_name_is_an_improvement_and_passes() {
    let dir = tempdir().unwrap();
    let arguments = sides(dir.path(), 5, &Program::new().with("step_03", 1.2), &Program::new());
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, &row(&document, "step_03")["verdict"]), (0, &"improvement".into()));
}

#[test]
fn a_single_pair_shows_a_large_slowdown() {
    let dir = tempdir().unwrap();
    Program::new().write(&dir.path().join("a.trace"), 1, 0);
    Program::new().with("step_11", 1.5).write(&dir.path().join("b.trace"), 2, 60);
    let run = analyze(dir.path(), &["diff", "a.trace", "b.trace"]);
    assert_eq!(run.code, 1, "{}", run.stdout);
    assert!(run.stdout.contains("regression: 1 name is slower"), "{}", run.stdout);
    assert!(run.stdout.contains("one run a side"), "{}", run.stderr);
}

#[test]
fn what_could_have_been_missed_is_inconclusive_and_says_what_it_would_take() {
    let dir = tempdir().unwrap();
    let loud = Program { between: 0.15, ..Program::new() };
    let arguments = sides(dir.path(), 3, &loud, &loud);
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert!(code == 0 && verdicts(&document, "inconclusive") > 15, "{document:#}");
    let test = &row(&document, "step_00")["tests"][0];
    assert!(test["detectable_percent"].as_f64().unwrap() > 20.0);
    assert!(test["runs_needed"].as_u64().unwrap() > 5, "{test:#}");
    let (code, document) = compared(dir.path(), &arguments, &["--fail-on-inconclusive"]);
    assert_eq!((code, document["verdict"].as_str()), (3, Some("inconclusive")));
}

#[test]
fn one_sample_a_side_is_not_enough() {
    let dir = tempdir().unwrap();
    let once = Program { names: vec![("load".to_owned(), 1, 1e6)], ..Program::new() };
    let arguments = sides(dir.path(), 1, &once, &once);
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, document["verdict"].as_str()), (3, Some("undecided")));
    assert_eq!(row(&document, "load")["verdict"], "insufficient_data");
    assert_eq!(document["sentence"], "undecided: no name has enough data on both sides");
}

#[test]
fn names_on_one_side_only_are_new_removed_or_renamed() {
    let dir = tempdir().unwrap();
    let mut head = Program::new();
    head.names[4].0 = "step_04_fused".to_owned();
    head.names[5] = ("prefetch".to_owned(), 77, 5e3);
    let arguments = sides(dir.path(), 3, &Program::new(), &head);
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!(code, 0, "{document:#}");
    assert_eq!(row(&document, "prefetch")["verdict"], "new");
    assert_eq!(document["sentence"], "ok: 19 names compared, none slower, 1 new, 1 removed");
    assert_eq!(row(&document, "step_05")["verdict"], "removed");
    let renamed = row(&document, "step_04_fused");
    assert_eq!((&renamed["renamed_from"], &renamed["verdict"]), (&"step_04".into(), &"ok".into()));

    let strangers = Program { names: vec![("elsewhere".to_owned(), 9, 1e3)], ..Program::new() };
    let arguments = sides(dir.path(), 3, &Program::new(), &strangers);
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, verdicts(&document, "removed"), verdicts(&document, "new")), (3, 20, 1));
    assert_eq!(document["sentence"], "undecided: no name is on both sides");
}

#[test]
fn a_shift_of_everything_is_a_row_of_its_own_with_a_budget_of_its_own() {
    let dir = tempdir().unwrap();
    let arguments = sides(dir.path(), 5, &Program::new(), &Program::new().all(1.2));
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, verdicts(&document, "regression")), (1, 0));
    assert!(document["sentence"].as_str().unwrap().contains("everything is 20."), "{document:#}");
    let common = document["common"][0]["change_percent"].as_f64().unwrap();
    assert!((19.0..21.0).contains(&common));
    assert_eq!(compared(dir.path(), &arguments, &["--max-common", "25"]).0, 0);
    fs::write(dir.path().join("perf-budget.toml"), "[common]\nmax_regression = 30\n").unwrap();
    assert_eq!(compared(dir.path(), &arguments, &[]).0, 0);
}

#[test]
fn unstable_ids_do_not_read_as_names_that_come_and_go() {
    let dir = tempdir().unwrap();
    let named = |at: u64| {
        let mut program = Program::new();
        program.names[0].0 = format!("op_id {at}");
        program.names[1].0 = format!("kernel 0x7f{at}a0");
        program.names[2].0 = format!("gemm<{at}>");
        program
    };
    let arguments = sides(dir.path(), 3, &named(100), &named(200));
    let (_, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!(row(&document, "op_id #")["verdict"], "ok");
    assert_eq!(row(&document, "kernel 0x#")["verdict"], "ok");
    assert_eq!(row(&document, "gemm<200>")["renamed_from"], "gemm<100>");
    let (_, document) = compared(dir.path(), &arguments, &["--fold=templates,numbers"]);
    assert_eq!(row(&document, "gemm<…>")["renamed_from"], Value::Null);
    assert_eq!(row(&document, "step_#")["base"]["count"], 17 * 400);
    let (_, document) = compared(dir.path(), &arguments, &["--fold="]);
    assert_eq!(row(&document, "op_id 200")["renamed_from"], "op_id 100");
}

#[test]
fn foreign_traces_can_be_compared() {
    let dir = tempdir().unwrap();
    for (name, times) in [("a.json", 1), ("b.json", 2)] {
        let mut events = Vec::new();
        let mut now = 0;
        for call in 0..400 {
            for at in 0..12 {
                let slower = if at == 3 { times } else { 1 };
                let duration = slower * (100 + 10 * at + (call * 7 + at) % 5);
                events.push(serde_json::json!({
                    "ph": "X", "name": format!("op_{at}"), "pid": 1, "tid": 1, "ts": now, "dur": duration,
                }));
                now += duration + 1;
            }
        }
        fs::write(dir.path().join(name), serde_json::Value::Array(events).to_string()).unwrap();
    }
    let arguments = ["diff", "a.json", "b.json"].map(str::to_owned);
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, verdicts(&document, "regression")), (1, 1), "{document:#}");
    assert_eq!(row(&document, "op_3")["verdict"], "regression");
}

#[test]
fn a_name_that_few_runs_have_says_so() {
    let dir = tempdir().unwrap();
    let mut arguments = sides(dir.path(), 3, &Program::new(), &Program::new());
    let rare = Program { names: vec![("rare".to_owned(), 400, 1e4)], ..Program::new() };
    let mut with_rare = Program::new();
    with_rare.names.extend(rare.names);
    with_rare.write(&dir.path().join("b0.trace"), 50, 1);
    with_rare.write(&dir.path().join("h0.trace"), 51, 11);
    let run = analyze(dir.path(), &arguments);
    let said = "- rare: insufficient data: occurs in 2 of 6 runs";
    assert!(run.code == 0 && run.stdout.contains(said), "{}", run.stdout);
    arguments.push("--fail-on-inconclusive".to_owned());
    assert_eq!(analyze(dir.path(), &arguments).code, 0);
}

#[test]
fn a_hundred_runs_a_side_are_as_good_as_five() {
    let dir = tempdir().unwrap();
    let small = Program {
        names: (0..12).map(|at| (format!("step_{at:02}"), 60, 1e4)).collect(),
        ..Program::new()
    };
    let arguments = sides(dir.path(), 100, &small, &small.clone().with("step_07", 1.05));
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, verdicts(&document, "regression")), (1, 1), "{}", document["sentence"]);
    assert_eq!(row(&document, "step_07")["verdict"], "regression");
    let said = analyze(dir.path(), &arguments).stdout;
    assert!(said.starts_with("base 100 runs against head 100 runs, measured in turns"), "{said}");
}

#[test]
fn names_of_any_length_and_any_letters_stay_in_their_place() {
    let dir = tempdir().unwrap();
    let mut odd = Program::new();
    odd.names[0].0 = "long".repeat(250);
    odd.names[1].0 = "a\n::error::\u{1b}[31m<b>|`".to_owned();
    odd.names[2].0 = String::new();
    let mut slow = odd.clone();
    slow.names.iter_mut().take(3).for_each(|it| it.2 *= 1.5);
    let arguments = sides(dir.path(), 5, &odd, &slow);
    for (form, most) in [("table", 250), ("github", 300), ("markdown", 500)] {
        let more = ["--format", form].map(str::to_owned);
        let run = analyze(dir.path(), &[&arguments[..], &more].concat());
        assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{form}");
        assert!(!run.stdout.contains('\u{1b}') && !run.stdout.contains("\n::error::"), "{form}");
        let longest = run.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest < most, "{form}: {longest}");
    }
    // Machines get all of it.
    let (_, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!(row(&document, &odd.names[0].0)["verdict"], "regression");
}

#[test]
fn a_single_pair_with_few_names_says_what_it_lacks() {
    let dir = tempdir().unwrap();
    let few = Program { names: Program::new().names[..4].to_vec(), ..Program::new() };
    let arguments = sides(dir.path(), 1, &few, &few);
    let run = analyze(dir.path(), &arguments);
    assert_eq!(run.code, 3);
    let said = "undecided: 4 names have calls enough, and it takes 10 to know the noise of one run \
                a side; record more runs";
    assert!(run.stdout.contains(said), "{}", run.stdout);
    let csv: Vec<&str> = arguments.iter().map(String::as_str).chain(["--format", "csv"]).collect();
    assert!(analyze(dir.path(), &csv).stderr.contains(said));
}
