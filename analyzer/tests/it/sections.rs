//! Sections of `report` that are about a vocabulary: whole outputs, in every build.

use ringscope_format::{Kind, Record, Status, Value, ValueType};

use crate::made::{Finished, MS, Made, analyze};

/// A server that is trained while it serves, with a cache: one of everything.
fn everything() -> Finished {
    let mut made = Made::new();
    for at in 0..12_u64 {
        let function = format!("f{at:02}");
        let call = [
            ("function", Value::Text(&function)),
            ("queue", Value::Ticks(MS)),
            ("run", Value::Ticks((at + 1) * MS)),
            ("result", Value::Text("done")),
        ];
        made.span("call", at * 20 * MS, (at + 4) * MS, Status::OK, &call);
        let pool = ("pool", Value::Text("python"));
        made.event("pool.checkout", at * 20 * MS, &[pool, ("queue", Value::Ticks(at * 1_000))]);
        let step = [
            ("step", Value::U64(at + 1)),
            ("epoch", Value::U64(at / 6)),
            ("loss", Value::F64(12.0 / (at + 1) as f64)),
        ];
        made.event("training.step", at * 20 * MS + 1, &step);
        let key = format!("prompt {at}");
        let access = [
            ("cache", Value::Text("prompts")),
            ("hit", Value::Bool(at % 3 > 0)),
            ("key", Value::Text(&key)),
        ];
        made.event("cache.access", at * 20 * MS + 2, &access);
    }
    let kept = [("bytes", Value::U64(4_096)), ("kind", Value::Text("tensor"))];
    made.event("memory.allocate", 5 * MS, &kept);
    made.reading(Kind::COUNTER, "tokens", 6 * MS, 5);
    let error = Record::point(Kind::ERROR, 0, made.main, 7 * MS, (ValueType::None, 0));
    made.put(error, "call.exception", &[("kind", Value::Text("ValueError"))]);
    made.finish()
}

const SECTIONS: [&str; 8] =
    ["calls", "pool", "training", "caches", "memory", "counters", "events", "errors"];

fn asked<'a>(sections: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let named = sections.iter().flat_map(|section| ["--section", section]);
    ["report"].into_iter().chain(named).chain(more.iter().copied()).collect()
}

#[test]
fn calls_pools_training_caches_and_the_rest_are_each_a_short_table() {
    let said = everything().output(&asked(&SECTIONS, &[]));
    let expected = "\
Calls
  function  count     total      mean       p50       p95       p99       max  queue %  run %  other %
  f11           1  15.00 ms  15.00 ms  15.00 ms  15.00 ms  15.00 ms  15.00 ms      6.7   80.0     13.3
  f10           1  14.00 ms  14.00 ms  14.00 ms  14.00 ms  14.00 ms  14.00 ms      7.1   78.6     14.3
  f09           1  13.00 ms  13.00 ms  13.00 ms  13.00 ms  13.00 ms  13.00 ms      7.7   76.9     15.4
  f08           1  12.00 ms  12.00 ms  12.00 ms  12.00 ms  12.00 ms  12.00 ms      8.3   75.0     16.7
  f07           1  11.00 ms  11.00 ms  11.00 ms  11.00 ms  11.00 ms  11.00 ms      9.1   72.7     18.2
  f06           1  10.00 ms  10.00 ms  10.00 ms  10.00 ms  10.00 ms  10.00 ms     10.0   70.0     20.0
  f05           1   9.00 ms   9.00 ms   9.00 ms   9.00 ms   9.00 ms   9.00 ms     11.1   66.7     22.2
  f04           1   8.00 ms   8.00 ms   8.00 ms   8.00 ms   8.00 ms   8.00 ms     12.5   62.5     25.0
  … 4 more rows: --limit 0

Worker pools
  pool    checkouts  wait mean      p50       p95       p99       max  check-ins
  python         12    5.50 us  5.50 us  10.45 us  10.89 us  11.00 us          0
  waits are those of checkouts

Training
  steps  step  loss first  last  least    a step  loss over time
     12    12          12     1      1  20.00 ms  █▄▃▂▂▁▁▁▁▁▁▁
  by epoch: analyze training

Caches
  cache    accesses  hits  misses  hit %  hit % over time
  prompts        12     8       4   66.7  ▁▁████▁▁████▁▁████▁▁████

Allocations
  kind    allocations  releases  allocated  outstanding     peak  peak at  outstanding over time
  tensor            1         0    4.0 KiB      4.0 KiB  4.0 KiB  5.00 ms  ████████████████████████
  all               1         0    4.0 KiB      4.0 KiB  4.0 KiB  5.00 ms

Counters
  name    kind     readings  sum  per second  min  mean  max  over time
  tokens  counter         1    5       21.28    5     5    5  █▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁

Events
  name             count  per second  first at    last at
  cache.access        12       51.06   2.00 ns  220.00 ms
  pool.checkout       12       51.06   0.00 ns  220.00 ms
  training.step       12       51.06   1.00 ns  220.00 ms
  memory.allocate      1       4.260   5.00 ms    5.00 ms

Errors
  name            kind        what   count  first at  last at  the last one said
  call.exception  ValueError  error      1   7.00 ms  7.00 ms
";
    assert_eq!(said, expected, "\n{said}");
}

#[test]
fn a_report_has_these_sections_between_kernels_and_what_was_open_where_there_is_anything() {
    let report = everything().output(&["report"]);
    let titles: Vec<&str> = report.lines().filter(|line| !line.starts_with(' ')).collect();
    let expected = [
        "Spans",
        "",
        "Calls",
        "",
        "Worker pools",
        "",
        "Training",
        "",
        "Caches",
        "",
        "Allocations",
        "",
        "Counters",
        "",
        "Events",
        "",
        "Fields of events and spans",
        "",
        "Errors",
        "",
        "What stands out",
    ];
    assert!(titles.ends_with(&expected), "{titles:#?}");
    let mut made = Made::new();
    made.span("work", 0, MS, Status::OK, &[]);
    let report = made.finish().json(&["report"]);
    let sections: Vec<&String> = report["sections"].as_object().unwrap().keys().collect();
    assert_eq!(sections, ["header", "categories", "spans"]);
}

#[test]
fn fields_that_a_section_is_made_of_are_not_told_again() {
    let fields = everything().json(&asked(&["fields"], &[]))["rows"].clone();
    let told: Vec<(&str, &str)> = fields
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["field"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("cache.access", "key"), ("call", "result")]);
}

#[test]
fn all_is_every_row_of_these_sections_too() {
    let trace = everything();
    let rows = |more: &[&str]| -> usize {
        let said = trace.output(&asked(&["calls"], more));
        said.lines().filter(|line| line.starts_with("  f0") || line.starts_with("  f1")).count()
    };
    assert_eq!(rows(&[]), 8);
    assert_eq!(rows(&["--all"]), 12);
    assert_eq!(rows(&["--limit", "3"]), 3);
}

#[test]
fn a_section_that_is_asked_for_by_name_says_if_there_is_nothing() {
    let mut made = Made::new();
    made.span("work", 0, MS, Status::OK, &[]);
    let trace = made.finish();
    for section in SECTIONS {
        let said = trace.output(&asked(&[section], &[]));
        assert!(said.contains(" in this trace; ") && said.lines().count() == 1, "{said}");
        let json = trace.json(&asked(&[section], &[]));
        assert_eq!(json["rows"], serde_json::json!([]), "{json}");
    }
}

#[test]
fn what_takes_more_memory_than_it_may_is_refused_and_the_report_goes_on_without_it() {
    let trace = everything();
    let expected = "analyze: the calls that were read so far take about";
    let complaint = trace.complaint(&["calls", "--max-memory", "20K"]);
    assert!(complaint.starts_with(expected), "{complaint}");
    assert!(complaint.ends_with(", or raise --max-memory\n"), "{complaint}");
    let run = analyze(&["report", "--max-memory", "20K"], &trace.path);
    assert!(run.status.success(), "{run:?}");
    let (said, complaint) =
        (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
    assert!(complaint.starts_with("analyze: calls are left out: the calls that"), "{complaint}");
    assert!(!said.contains("\nCalls\n") && said.contains("\nCounters\n"), "{said}");
}

#[test]
fn several_traces_are_told_apart_in_these_sections() {
    let (one, other) = (everything(), everything());
    let said = one.output(&asked(&["caches", "training"], &[other.path.to_str().unwrap()]));
    let rows = said.lines().filter(|line| line.contains("made.trace")).count();
    assert_eq!(rows, 4, "{said}");
}

#[test]
fn what_several_threads_recorded_is_told_in_the_order_of_time() {
    let mut made = Made::new();
    for (at, value) in [(3, 30), (1, 10), (2, 20)] {
        made.reading(Kind::GAUGE, "depth", at * MS, value);
        made.event("kv_cache.grow", at * MS, &[("bytes", Value::U64(at))]);
    }
    let id = ("id", Value::U64(7));
    made.event("memory.release", 5 * MS, &[id]);
    made.event("memory.allocate", 4 * MS, &[id, ("bytes", Value::U64(64))]);
    let sections = made.finish().json(&["report"])["sections"].clone();
    assert_eq!(sections["counters"][0]["last"], 30, "{sections:#}");
    let group = &sections["allocations"][0];
    assert_eq!((&group["outstanding_bytes"], &group["peak_bytes"]), (&0.into(), &64.into()));
    let cache = &sections["use"][0];
    assert_eq!((&cache["first_bytes"], &cache["last_bytes"]), (&1.into(), &6.into()), "{cache}");
}
