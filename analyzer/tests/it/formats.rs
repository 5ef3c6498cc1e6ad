//! `--format`, and what the shell needs.

use tempfile::tempdir;

use crate::{analyze::analyze, making};

#[test]
fn json_carries_schema_trace_loss_and_rows_with_units_in_their_keys() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let arguments = ["summary", "run.trace", "--percentiles", "50,99.9"];
    let document = analyze(dir.path(), &arguments).json();
    assert_eq!(document["schema"], "ringscope.summary/1");
    assert_eq!(document["trace"]["events"], 5);
    assert_eq!(document["loss"]["lost"], 0);
    let row = &document["rows"][1];
    assert_eq!((&row["name"], &row["count"]), (&"token".into(), &2.into()));
    for key in
        ["total_ns", "self_ns", "mean_ns", "std_ns", "min_ns", "max_ns", "p50_ns", "p99.9_ns"]
    {
        assert!(row[key].is_number(), "{key} in {row}");
    }
    assert_eq!(row["p50_ns"], 1_500_000);
}

#[test]
fn csv_quotes_what_needs_it_and_never_shortens_names() {
    let dir = tempdir().unwrap();
    let long = format!("a \"b\", {}", "c".repeat(300));
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (name, track) = (writer.name(&long), writer.track(making::THREAD, 1, "t"));
        writer.event(making::span(name, track, 0, 10), &[], &[]).unwrap();
    });
    let arguments = ["spans", "run.trace", "--format", "csv", "--columns", "name,total_ns"];
    let csv = analyze(dir.path(), &arguments).clean();
    assert_eq!(csv, format!("name,total_ns\n\"{}\",10\n", long.replace('"', "\"\"")));
    let table = analyze(dir.path(), &["spans", "run.trace"]).clean();
    assert!(table.contains('…') && table.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn markdown_is_a_table_for_a_pull_request() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let arguments =
        ["spans", "run.trace", "--format", "markdown", "--columns", "name,p95_ns", "--limit", "1"];
    let text = analyze(dir.path(), &arguments).clean();
    assert_eq!(
        text,
        "### Spans\n\n| name | p95 |\n|---|---:|\n| `load` | 5.00 ms |\n| `(2 others)` | 1.50 ms |\n\n  all of them: --limit 0\n"
    );
}

#[test]
fn rows_and_units_are_as_asked_for() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let arguments =
        ["spans", "run.trace", "--sort", "name", "--time-unit", "us", "--columns", "name,max_ns"];
    let text = analyze(dir.path(), &arguments).clean();
    let lines: Vec<&str> = text.lines().skip(2).map(str::trim).collect();
    assert_eq!(lines, ["decode  1,000.00 us", "load    5,000.00 us", "token   1,500.00 us"]);
    let wrong = analyze(dir.path(), &["spans", "run.trace", "--sort", "wrong"]).refusal();
    assert!(wrong.starts_with("analyze: no column \"wrong\"; there are name, count,"), "{wrong}");
}

#[test]
fn completions_and_manual_come_from_the_parser() {
    let dir = tempdir().unwrap();
    assert!(analyze(dir.path(), &["completions", "bash"]).clean().contains("_analyze"));
    assert!(analyze(dir.path(), &["man"]).clean().contains(".TH analyze"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::{Command, Stdio};
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let track = writer.track(making::THREAD, 1, "t");
        for at in 0..20_000 {
            let name = writer.name(&format!("name {at}"));
            writer.event(making::span(name, track, at, 1), &[], &[]).unwrap();
        }
    });
    let mut child = Command::new(env!("CARGO_BIN_EXE_analyze"))
        .args(["spans", "run.trace", "--format", "csv"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(output.status.success());
}

#[test]
fn what_is_no_table_is_keys_and_values_in_csv() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let csv = |command| analyze(dir.path(), &[command, "run.trace", "--format", "csv"]).clean();
    assert!(csv("check").contains("\nrun.trace,verdict,whole\n"), "{}", csv("check"));
    assert!(csv("info").contains("\nrun.trace,clock_pairs,0\n"), "{}", csv("info"));
}

#[test]
fn an_output_file_is_replaced_whole_or_not_at_all() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let file = dir.path().join("spans.csv");
    std::fs::write(&file, "before").unwrap();
    let arguments = ["spans", "run.trace", "--format", "csv", "--columns", "name"];
    let with = |output: &'static str| [&arguments[..], &["--output", output]].concat();
    assert_eq!(analyze(dir.path(), &with("spans.csv")).clean(), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "name\nload\ntoken\ndecode\n");
    assert!(!dir.path().join("spans.csv.partial").exists());
    let refusal = analyze(dir.path(), &with("run.trace")).refusal();
    assert!(refusal.starts_with("analyze: run.trace: is the source itself"), "{refusal}");
    let refusal = analyze(dir.path(), &with("nowhere/spans.csv")).refusal();
    assert!(refusal.starts_with("analyze: nowhere/spans.csv: "), "{refusal}");
}

#[cfg(not(feature = "sql"))]
#[test]
fn a_build_without_sql_says_what_it_has_not() {
    let dir = tempdir().unwrap();
    let refusal = analyze(dir.path(), &["sql", "run.trace", "--limit", "3"]).refusal();
    let expected = "analyze: this build has no SQL; cargo install --path analyzer builds with it\n";
    assert_eq!(refusal, expected);
}

#[test]
fn what_weighs_the_same_is_in_the_order_of_names() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let main = writer.track(making::THREAD, 1, "main");
        for (at, name) in ["c", "a", "d", "b"].into_iter().enumerate() {
            let name = writer.name(name);
            writer.event(making::span(name, main, 1_000 + 100 * at as u64, 50), &[], &[]).unwrap();
        }
    });
    let spans = |more: &[&str]| {
        let all = [&["spans", "run.trace", "--columns", "name", "--format", "csv"], more].concat();
        analyze(dir.path(), &all).clean()
    };
    assert_eq!(spans(&[]), "name\na\nb\nc\nd\n");
    assert_eq!(spans(&["--limit", "2"]), "name\na\nb\n");
}
