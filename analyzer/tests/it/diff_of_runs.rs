//! `diff` judges figures of whole runs: counters, gauges and memory always, totals and
//! counts of calls where the budget asks for them.

use std::{fs, path::Path};

use ringscope_format::{FileHeader, Kind, Record, TraceWriter, Value as Field, ValueType};
use serde_json::Value;
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    diff::{compared, row},
    diff_traces::{Program, sides},
};

/// What a run counts, and how much it has allocated at once.
#[derive(Clone, Copy)]
struct Counts {
    tokens: u64,
    depth: f64,
    bytes: u64,
}

const USUAL: Counts = Counts { tokens: 10, depth: 2.0, bytes: 4_096 };

/// Three runs a side, in turns; returns the arguments that name them.
fn counted(dir: &Path, base: Counts, head: Counts) -> Vec<String> {
    let mut arguments = vec!["diff".to_owned()];
    for (side, option, counts) in [("b", "--base", base), ("h", "--head", head)] {
        arguments.push(option.to_owned());
        for run in 0..3 {
            let name = format!("{side}{run}.trace");
            let begun = 1_700_000_000 + 20 * run + i64::from(side == "h") * 7;
            write(&dir.join(&name), begun * 1_000_000_000, run as u64, counts);
            arguments.push(name);
        }
    }
    arguments
}

fn write(path: &Path, begun_ns: i64, run: u64, counts: Counts) {
    let header = FileHeader::converted(*b"analyzer's tests", begun_ns);
    let file = std::io::BufWriter::new(fs::File::create(path).unwrap());
    let mut writer = TraceWriter::new(file, header).unwrap();
    let main = writer.track(crate::making::THREAD, 7, "main");
    let names = ["step", "tokens", "depth", "memory.allocate", "memory.release", "bytes", "id"];
    let [step, tokens, depth, allocate, release, bytes, id] = names.map(|it| writer.name(it));
    for at in 0..100 {
        let now = at * 10_000;
        let length = 5_000 + (at * 7 + run * 3) % 40;
        writer.event(crate::making::span(step, main, now, length), &[], &[]).unwrap();
        let point = |kind, name, value| Record::point(kind, name, main, now, value);
        let value = (ValueType::U64, counts.tokens);
        writer.event(point(Kind::COUNTER, tokens, value), &[], &[]).unwrap();
        // A gauge that is no number counts for nothing.
        let value = (ValueType::F64, if at == 7 { f64::NAN } else { counts.depth }.to_bits());
        writer.event(point(Kind::GAUGE, depth, value), &[], &[]).unwrap();
        // Two are allocated at once; a release knows its size by its id.
        let nothing = (ValueType::None, 0);
        let fields = [(bytes, Field::U64(counts.bytes)), (id, Field::U64(at))];
        writer.event(point(Kind::EVENT, allocate, nothing), &fields, &[]).unwrap();
        if at > 0 {
            let fields = [(id, Field::U64(at - 1))];
            let record = Record::point(Kind::EVENT, release, main, now + 1, nothing);
            writer.event(record, &fields, &[]).unwrap();
        }
    }
    writer.finish().unwrap();
}

fn counter<'a>(document: &'a Value, name: &str) -> &'a Value {
    let all = document["counters"].as_array().expect("counters");
    all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {all:#?}"))
}

#[test]
fn counters_gauges_and_memory_are_judged_by_run_and_fail_nothing_unasked() {
    let dir = tempdir().unwrap();
    let head = Counts { tokens: 15, bytes: 8_192, ..USUAL };
    let arguments = counted(dir.path(), USUAL, head);
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, document["verdict"].as_str()), (0, Some("ok")), "{document:#}");
    let of = |name: &str| {
        let it = counter(&document, name);
        let text = |key: &str| it[key].as_str().unwrap().to_owned();
        (text("figure"), it["base"].as_f64(), it["head"].as_f64(), text("verdict"))
    };
    let wanted = |figure: &str, base, head, verdict: &str| {
        (figure.to_owned(), Some(base), Some(head), verdict.to_owned())
    };
    assert_eq!(of("tokens"), wanted("sum", 1_000.0, 1_500.0, "more"));
    assert_eq!(of("depth"), wanted("peak", 2.0, 2.0, "ok"));
    assert_eq!(of("memory.allocated"), wanted("peak", 8_192.0, 16_384.0, "more"));
    let said = analyze(dir.path(), &arguments).stdout;
    assert!(said.contains("Counters, gauges and memory a run"), "{said}");
    assert!(said.contains("tokens            sum       1,000"), "{said}");
}

#[test]
fn a_rule_that_asks_for_a_sum_or_a_peak_makes_it_fail() {
    let dir = tempdir().unwrap();
    let arguments = counted(dir.path(), USUAL, Counts { tokens: 11, bytes: 8_192, ..USUAL });
    let with = |budget: &str| {
        fs::write(dir.path().join("perf-budget.toml"), budget).unwrap();
        compared(dir.path(), &arguments, &[])
    };
    // What is about any figure is about time.
    assert_eq!(with("[[rule]]\nname = \"*\"\n").0, 0);
    let (code, document) = with("[[rule]]\nname = \"memory.*\"\nmetric = \"peak\"\n");
    let sentence = document["sentence"].as_str();
    assert_eq!((code, sentence), (1, Some("regression: 1 counter is over its budget")));
    assert_eq!(counter(&document, "memory.allocated")["gate"]["severity"], "error");
    let within = "[[rule]]\nname = \"tokens\"\nmetric = \"sum\"\nmax_regression = 20\n";
    let (code, document) = with(within);
    assert_eq!(code, 0);
    let because = &counter(&document, "tokens")["gate"]["because"];
    assert_eq!(because, "within max_regression of \"tokens\" (sum)");
    let (code, document) = with("[[rule]]\nname = \"step\"\nmetric = \"sum\"\n");
    let said = &document["remarks"][0]["text"];
    assert_eq!((code, said), (0, &"budget: rule \"step\" (sum) matches no name".into()));
    fs::write(dir.path().join("perf-budget.toml"), "[[rule]]\nname = \"*\"\nmetric = \"sum\"\n")
        .unwrap();
    for (form, said) in [
        ("github", "::error title=tokens::sum 10.0 %25 more: 1000 to 1100"),
        ("junit", "<testcase classname=\"counter\" name=\"tokens\">"),
        ("markdown", "| `tokens` | `sum` | 1,000 | 1,100 | 10.0 |"),
    ] {
        let more = [&arguments[..], &["--format".to_owned(), form.to_owned()]].concat();
        let run = analyze(dir.path(), &more);
        assert!(run.code == 1 && run.stdout.contains(said), "{}", run.stdout);
    }
}

#[test]
fn what_is_counted_for_the_first_time_is_new_and_more_than_any_budget() {
    let dir = tempdir().unwrap();
    let arguments = counted(dir.path(), Counts { tokens: 0, ..USUAL }, USUAL);
    let rule = "[[rule]]\nname = \"tokens\"\nmetric = \"sum\"\nmax_regression = 50\n";
    fs::write(dir.path().join("perf-budget.toml"), rule).unwrap();
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!((code, &counter(&document, "tokens")["verdict"]), (1, &"new".into()));
}

#[test]
fn totals_and_counts_are_judged_where_the_budget_asks() {
    let dir = tempdir().unwrap();
    let mut head = Program::new();
    // Called more often, and no slower.
    head.names[3].1 = 480;
    let arguments = sides(dir.path(), 5, &Program::new(), &head);
    let with = |budget: &str| {
        fs::write(dir.path().join("perf-budget.toml"), budget).unwrap();
        compared(dir.path(), &arguments, &[])
    };
    let (code, document) = with("");
    assert_eq!((code, row(&document, "step_03")["tests"].as_array().unwrap().len()), (0, 5));
    let (code, document) = with("[[rule]]\nname = \"step_03\"\nmetric = \"count\"\n");
    let sentence = document["sentence"].as_str();
    assert_eq!((code, sentence), (1, Some("regression: 1 name is called more often")));
    let test = &row(&document, "step_03")["tests"][5];
    assert_eq!(
        (&test["metric"], &test["base"], &test["head"]),
        (&"count".into(), &400.into(), &480.into())
    );
    // Nobody asked about the others.
    assert_eq!(row(&document, "step_04")["tests"].as_array().unwrap().len(), 5);
    let (code, document) = with("[[rule]]\nname = \"*\"\nmetric = \"total\"\n");
    assert_eq!((code, document["sentence"].as_str()), (1, Some("regression: 1 name is slower")));
    let test = &row(&document, "step_03")["tests"][5];
    assert!((19.0..21.0).contains(&test["change_percent"].as_f64().unwrap()), "{test:#}");
    assert_eq!(with("[[rule]]\nname = \"*\"\nmetric = \"total\"\nmax_regression = 25\n").0, 0);
    fs::write(dir.path().join("perf-budget.toml"), "[[rule]]\nname = \"*\"\nmetric = \"count\"\n")
        .unwrap();
    let said = analyze(dir.path(), &arguments).stdout;
    assert!(said.contains("count"), "{said}");
    let github = [&arguments[..], &["--format".to_owned(), "github".to_owned()]].concat();
    let said = analyze(dir.path(), &github).stdout;
    assert!(said.contains("::error title=step_03::count 20.0 %25 more: 400 to 480"), "{said}");
}

#[test]
fn a_total_that_grows_with_a_slower_machine_is_no_regression() {
    let dir = tempdir().unwrap();
    let arguments = sides(dir.path(), 5, &Program::new(), &Program::new().all(1.08));
    let rule = "[[rule]]\nname = \"*\"\nmetric = \"total\"\n";
    fs::write(dir.path().join("perf-budget.toml"), rule).unwrap();
    let (code, document) = compared(dir.path(), &arguments, &[]);
    assert_eq!(code, 0, "{:#}", document["sentence"]);
}
