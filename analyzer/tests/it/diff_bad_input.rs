//! `diff` on what people point it at: a message, the right exit code, never a pass in
//! silence.

use std::fs;

use tempfile::tempdir;

use crate::{
    analyze::analyze,
    diff_traces::{Program, sides},
    making,
};

#[test]
fn what_cannot_be_read_is_refused_with_its_path() {
    let dir = tempdir().unwrap();
    Program::new().write(&dir.path().join("a.trace"), 1, 0);
    fs::write(dir.path().join("notes.txt"), "not a trace").unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    making::trace(&dir.path().join("nothing.trace"), |_| {});
    let said = |path: &str| analyze(dir.path(), &["diff", "a.trace", path]).refusal();
    for path in ["missing", "notes.txt", "empty", "nothing.trace"] {
        assert!(said(path).starts_with(&format!("analyze: {path}: ")), "{}", said(path));
    }
    assert!(said("nothing.trace").contains("no spans and no work of devices; nothing to compare"));
}

#[test]
fn a_side_too_few_is_wrong_usage() {
    let dir = tempdir().unwrap();
    Program::new().write(&dir.path().join("a.trace"), 1, 0);
    let said = analyze(dir.path(), &["diff", "a.trace"]).refusal();
    assert!(said.contains("give a base and a head"), "{said}");
    let said = analyze(dir.path(), &["diff", "a.trace", "a.trace", "a.trace"]).refusal();
    let usage = "Usage: analyze diff [OPTIONS] BASE HEAD\n       analyze diff [OPTIONS] --base TRACE... \
                 --head TRACE...\n";
    assert!(said.contains(usage), "{said}");
    let help = analyze(dir.path(), &["diff", "--help"]).clean();
    assert!(help.contains(usage) && help.contains("still exits with 2 or 3"), "{help}");
    let said = analyze(dir.path(), &["diff", "--base", "a.trace"]).refusal();
    assert!(said.contains("--head"), "{said}");
    let said = analyze(dir.path(), &["diff", "a.trace", "a.trace", "--name", "nobody*"]).refusal();
    assert!(said.contains("no spans and no work of devices that pass the filters"), "{said}");
    let said = analyze(dir.path(), &["diff", "a.trace", "a.trace", "--max-loss", "nan"]).refusal();
    assert!(said.contains("percentage"), "{said}");
}

#[test]
fn a_trace_that_lost_too_much_decides_nothing() {
    let dir = tempdir().unwrap();
    let lossy = Program { lost: 100, ..Program::new() };
    let mut arguments = sides(dir.path(), 3, &Program::new(), &lossy);
    let run = analyze(dir.path(), &arguments);
    assert_eq!(run.code, 3, "{}", run.stdout);
    assert!(run.stdout.contains("undecided: too many events are missing"), "{}", run.stdout);
    let said = "head h0.trace: 100 of 8,100 events are missing (1.23 %), more than the 0.1 % of --max-loss";
    assert!(run.stdout.contains(said), "{}", run.stderr);
    arguments.extend(["--max-loss", "2"].map(str::to_owned));
    let run = analyze(dir.path(), &arguments);
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(run.stdout.contains("h0.trace: 100 events are missing"), "{}", run.stderr);
}

#[test]
fn a_truncated_trace_decides_nothing() {
    let dir = tempdir().unwrap();
    let mut large = Program::new();
    large.names.iter_mut().for_each(|it| it.1 = 10_000);
    large.write(&dir.path().join("a.trace"), 1, 0);
    large.write(&dir.path().join("b.trace"), 2, 9);
    let bytes = fs::read(dir.path().join("b.trace")).unwrap();
    fs::write(dir.path().join("b.trace"), &bytes[..bytes.len() * 3 / 4]).unwrap();
    // What is left could be compared, and would be of a part of the run.
    let run = analyze(dir.path(), &["diff", "a.trace", "b.trace"]);
    assert_eq!(run.code, 3, "{} {}", run.stdout, run.stderr);
    assert!(run.stdout.contains("undecided: too many events are missing"), "{}", run.stdout);
    let said = "b.trace: damaged, and how much is missing is not known";
    assert!(run.stdout.contains(said), "{}", run.stdout);
    assert!(run.stderr.contains("analyze: b.trace: "), "{}", run.stderr);
    // Nothing is left.
    fs::write(dir.path().join("b.trace"), &bytes[..8_000]).unwrap();
    let said = analyze(dir.path(), &["diff", "a.trace", "b.trace"]).refusal();
    assert!(said.contains("b.trace: no spans and no work of devices; nothing"), "{said}");
}

#[test]
fn a_budget_with_a_mistake_is_refused_with_its_line() {
    let dir = tempdir().unwrap();
    Program::new().write(&dir.path().join("a.trace"), 1, 0);
    let said = |budget: &str| {
        fs::write(dir.path().join("b.toml"), budget).unwrap();
        analyze(dir.path(), &["diff", "a.trace", "a.trace", "--budget", "b.toml"]).refusal()
    };
    let typo = said("[[rule]]\nname = \"*\"\nmax_regresion = 5\n");
    assert!(typo.starts_with("analyze: b.toml: line 3: unknown field `max_regresion`"), "{typo}");
    let nan = said("[[rule]]\nname = \"*\"\nmax_regression = nan\n");
    assert_eq!(
        nan,
        "analyze: b.toml: max_regression: NaN is no percentage between 0 and 1000000\n"
    );
    assert!(
        said("[[rule]]\nname = \"*\"\nmetric = \"p98\"\n")
            .contains("no figure \"p98\"; there are p50")
    );
    assert!(said("rule = [").starts_with("analyze: b.toml: line 1: "));
    let said =
        analyze(dir.path(), &["diff", "a.trace", "a.trace", "--budget", "none.toml"]).refusal();
    assert!(said.starts_with("analyze: none.toml: No such file"), "{said}");
}

#[test]
fn a_budget_says_what_fails_and_rules_for_nobody_are_told() {
    let dir = tempdir().unwrap();
    let slow = Program::new().with("step_07", 1.3).with("step_09", 1.3);
    let arguments = sides(dir.path(), 5, &Program::new(), &slow);
    let with = |budget: &str| {
        fs::write(dir.path().join("perf-budget.toml"), budget).unwrap();
        analyze(dir.path(), &arguments)
    };
    assert_eq!(with("").code, 1);
    let allowed = "[[allow]]\nname = \"step_0[79]\"\nuntil = 2999-01-01\nreason = \"wanted\"\n";
    let run = with(allowed);
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(
        run.stdout.contains("step_09: regression, allowed until 2999-01-01: wanted"),
        "{}",
        run.stdout
    );
    assert_eq!(with("[[allow]]\nname = \"step_0[79]\"\nuntil = 2001-01-01\n").code, 1);
    assert_eq!(with("[[rule]]\nname = \"step_*\"\nmax_regression = 50\n").code, 0);
    assert_eq!(with("[[rule]]\nname = \"step_*\"\nmax_regression = 20\n").code, 1);
    assert_eq!(with("[[rule]]\nname = \"step_*\"\nseverity = \"warning\"\n").code, 0);
    assert_eq!(with("[[rule]]\nname = \"step_*\"\nmin_share = 60\n").code, 0);
    let run = with("[[rule]]\nname = \"gone_*\"\n");
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("budget: rule \"gone_*\" matches no name"), "{}", run.stderr);
}

#[test]
fn a_summary_stands_for_its_traces() {
    let dir = tempdir().unwrap();
    let slow = Program::new().with("step_07", 1.3);
    let arguments = sides(dir.path(), 3, &Program::new(), &slow);
    let from_traces = analyze(dir.path(), &arguments);
    analyze(dir.path(), &["summary", "b0.trace", "b1.trace", "-o", "base.json"]).clean();
    analyze(dir.path(), &["summary", "b2.trace", "-o", "base.json", "--append"]).clean();
    let head = ["h0.trace", "h1.trace", "h2.trace"];
    let both: Vec<&str> =
        ["diff", "--base", "base.json", "--head"].into_iter().chain(head).collect();
    let from_summary = analyze(dir.path(), &both);
    assert_eq!((from_summary.code, from_summary.stdout), (1, from_traces.stdout.clone()));
    // Of four, the last two are kept.
    analyze(dir.path(), &["summary", "h0.trace", "-o", "base.json", "--append", "--keep", "2"])
        .clean();
    let text = fs::read_to_string(dir.path().join("base.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let runs = document["sections"]["runs"]["runs"].as_array().unwrap();
    let labels: Vec<&str> = runs.iter().filter_map(|run| run["label"].as_str()).collect();
    assert_eq!(
        (document["schema"].as_str(), labels),
        (Some("ringscope.summary/1"), vec!["b2.trace", "h0.trace"])
    );
}

#[test]
fn a_summary_that_was_damaged_or_edited_is_refused() {
    let dir = tempdir().unwrap();
    Program::new().write(&dir.path().join("a.trace"), 1, 0);
    analyze(dir.path(), &["summary", "a.trace", "-o", "base.json"]).clean();
    let text = fs::read_to_string(dir.path().join("base.json")).unwrap();
    let said = |text: &str| {
        fs::write(dir.path().join("bad.json"), text).unwrap();
        analyze(dir.path(), &["diff", "bad.json", "a.trace"]).refusal()
    };
    assert!(said(&text[..text.len() / 2]).starts_with("analyze: bad.json: not a whole summary"));
    assert!(said(&text.replace("\"version\": 2", "\"version\": 7")).contains("version 7"));
    assert!(said(&text.replacen("\"effective\": ", "\"efective\": ", 1)).contains("unknown field"));
    assert!(said(&text.replacen("\"low\": ", "\"low\": -", 1)).contains("does not hold"));
    let nan = text.replacen("\"low\": ", "\"low\": NaN, \"x\": ", 1);
    assert!(said(&nan).contains("not a whole summary"));
    let said = analyze(dir.path(), &["diff", "base.json", "a.trace", "--from", "1ms"]).refusal();
    assert!(said.contains("a summary can be filtered by --name alone"), "{said}");
    let said = analyze(dir.path(), &["diff", "base.json", "a.trace", "--fold=numbers"]).refusal();
    assert!(said.contains("names of a summary are folded as usual"), "{said}");
    let said =
        analyze(dir.path(), &["diff", "base.json", "a.trace", "--percentiles", "42"]).refusal();
    assert!(said.contains("no percentile is in all summaries"), "{said}");
}

#[test]
fn a_summary_of_the_first_version_is_still_read() {
    let dir = tempdir().unwrap();
    let program = Program::new();
    program.write(&dir.path().join("a.trace"), 1, 0);
    program.write(&dir.path().join("b.trace"), 2, 9);
    analyze(dir.path(), &["summary", "a.trace", "-o", "base.json"]).clean();
    let text = fs::read_to_string(dir.path().join("base.json")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let now = analyze(dir.path(), &["diff", "base.json", "b.trace", "--format", "csv"]);
    let runs = &mut document["sections"]["runs"];
    runs["version"] = 1.into();
    for name in runs["runs"][0]["names"].as_array_mut().unwrap() {
        let add = |figure: &mut serde_json::Value| {
            figure["near_low"] = figure["low"].clone();
            figure["near_high"] = figure["high"].clone();
        };
        add(&mut name["mean"]);
        name["quantiles"].as_array_mut().unwrap().iter_mut().for_each(add);
    }
    fs::write(dir.path().join("base.json"), document.to_string()).unwrap();
    let then = analyze(dir.path(), &["diff", "base.json", "b.trace", "--format", "csv"]);
    assert_eq!((then.code, then.stdout), (now.code, now.stdout));
    // What is added to it makes it a summary of the present version.
    analyze(dir.path(), &["summary", "b.trace", "-o", "base.json", "--append"]).clean();
    let text = fs::read_to_string(dir.path().join("base.json")).unwrap();
    assert!(text.contains("\"version\": 2") && !text.contains("near_low"));
}
