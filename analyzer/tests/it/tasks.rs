//! Spans that are entered and left: slices, tasks, and spans that are used again.

use ringscope_format::{Kind, Record, Value};

use crate::made::{Finished, MS, Made};

/// Two tokens of a model that keeps its spans, and two requests, of which the
/// second waits most of the time. All on one thread.
fn trace() -> Finished {
    let mut made = Made::new();
    let main = made.main;
    let slice = |made: &mut Made, name: &str, number: u32, depth: u8, from: u64, to: u64| {
        let record = Record::timed(Kind::SLICE, 0, main, from, to - from);
        made.put(Record { link: number, depth, ..record }, name, &[]);
    };
    let life = |made: &mut Made,
                kind: Kind,
                name: &str,
                number: u32,
                life: (u64, u64),
                busy: u64,
                slices: u64| {
        let record = Record::timed(kind, 0, main, life.0, life.1 - life.0);
        let fields = [
            ("busy", Value::Ticks(busy)),
            ("slices", Value::U64(slices)),
            ("moves", Value::U64(0)),
        ];
        made.put(Record { link: number, ..record }, name, &fields);
    };
    for token in 0..2 {
        let at = token * 10 * MS;
        for layer in 0..2 {
            let from = at + MS + layer * 4 * MS;
            slice(&mut made, "attention", 10 + layer as u32, 1, from, from + 3 * MS);
        }
        slice(&mut made, "token", 20 + token as u32, 0, at, at + 10 * MS);
    }
    slice(&mut made, "request", 30, 0, 20 * MS, 21 * MS);
    slice(&mut made, "request", 31, 0, 22 * MS, 23 * MS);
    slice(&mut made, "request", 30, 0, 24 * MS, 26 * MS);
    life(&mut made, Kind::TASK, "request", 30, (20 * MS, 26 * MS), 3 * MS, 2);
    slice(&mut made, "request", 31, 0, 40 * MS, 41 * MS);
    life(&mut made, Kind::TASK, "request", 31, (21 * MS, 41 * MS), 2 * MS, 2);
    life(&mut made, Kind::REUSED, "attention", 10, (0, 42 * MS), 6 * MS, 2);
    life(&mut made, Kind::REUSED, "attention", 11, (0, 42 * MS), 6 * MS, 2);
    made.finish()
}

#[test]
fn slices_are_spans_and_tasks_have_a_table_of_their_own() {
    let spans = trace().output(&["spans", "--color", "never"]);
    assert_eq!(
        spans,
        "\
Spans
  name       count     total      self  self %      mean       p50       p95       p99       max
  token          2  20.00 ms   8.00 ms    32.0  10.00 ms  10.00 ms  10.00 ms  10.00 ms  10.00 ms
  attention      4  12.00 ms  12.00 ms    48.0   3.00 ms   3.00 ms   3.00 ms   3.00 ms   3.00 ms
  request        4   5.00 ms   5.00 ms    20.0   1.25 ms   1.00 ms   1.85 ms   1.97 ms   2.00 ms

Tasks: spans that were entered and left, from creation to close
  name     count  slices  moves     total     busy      idle  busy %      mean       p50       p95       p99       max
  request      2       4      0  26.00 ms  5.00 ms  21.00 ms    19.2  13.00 ms  13.00 ms  19.30 ms  19.86 ms  20.00 ms
  2 spans that were used again and again are no tasks: their slices are spans of their own
"
    );
}

#[test]
fn the_report_has_tasks_below_its_spans() {
    let report = trace().output(&["report", "--color", "never"]);
    let (_, tasks) = report.split_once("\nTasks: ").expect("tasks");
    assert!(tasks.lines().nth(2).unwrap().trim_start().starts_with("request"), "{report}");
    assert!(report.find("\nSpans") < report.find("\nTasks"), "{report}");
    let json = trace().json(&["report"]);
    let tasks = json["sections"]["tasks"].as_array().expect("tasks");
    assert_eq!(tasks[0]["busy_ns"], 5 * MS);
    assert_eq!(tasks[0]["idle_ns"], 21 * MS);
    assert_eq!(tasks[0]["slices"], 4);
}

#[test]
fn slices_have_their_place_in_the_tree_and_lives_have_none() {
    let tree = trace().output(&["tree", "--color", "never", "--columns", "name,count,total_ns"]);
    assert_eq!(
        tree,
        "\
Tree
  name         count     total
  token            2  20.00 ms
    attention      4  12.00 ms
  request          4   5.00 ms
  % is of all outermost spans together, 25.00 ms
"
    );
}

#[test]
fn a_thread_is_busy_in_slices_and_idle_between_them() {
    let json = trace().json(&["threads"]);
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!((&rows[0]["busy_ns"], &rows[0]["spans"]), (&(25 * MS).into(), &10.into()));
    assert_eq!((&rows[0]["first_ns"], &rows[0]["last_ns"]), (&0.into(), &(41 * MS).into()));
    assert_eq!(rows[0]["longest_gap_ns"], 14 * MS);
}

#[test]
fn the_worst_ones_are_tasks_and_calls_and_not_what_is_there_all_the_time() {
    let slow = trace().output(&["slow", "--color", "never", "--limit", "3"]);
    let heads: Vec<&str> = slow.lines().filter(|line| line.contains(" on main, at ")).collect();
    assert_eq!(
        heads,
        [
            "  1. 20.00 ms  request  on main, at 21.00 ms, task",
            "  2. 10.00 ms  token  on main, at 0.00 ns",
            "  3. 10.00 ms  token  on main, at 10.00 ms",
        ]
    );
}

#[test]
fn tasks_that_begin_with_their_first_enter_are_counted_below_the_table() {
    let mut made = Made::new();
    let record = Record::timed(Kind::TASK, 0, made.main, MS, 5 * MS);
    let fields = [
        ("busy", Value::Ticks(2 * MS)),
        ("slices", Value::U64(2)),
        ("moves", Value::U64(0)),
        ("from_first_enter", Value::Bool(true)),
    ];
    made.put(Record { link: 1, ..record }, "request", &fields);
    made.put(Record { link: 2, ..record }, "request", &fields[..3]);
    let spans = made.finish().output(&["spans", "--color", "never"]);
    let note = "  1 of them last from their first enter: when they were created was not looked up";
    assert_eq!(spans.lines().last(), Some(note), "{spans}");
}
