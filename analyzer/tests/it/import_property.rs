//! Random events, written as Chrome trace events in random order, against a naive
//! computation.

use std::{collections::BTreeMap, fs};

use proptest::prelude::*;
use tempfile::tempdir;

use crate::analyze::analyze;

/// Name, thread, start and duration in nanoseconds, whether as a pair.
type Made = (u32, u32, u64, u64, bool);

fn microseconds(ns: u64, style: u64) -> String {
    let text = format!("{}.{:03}", ns / 1_000, ns % 1_000);
    match style % 3 {
        0 => text,
        1 => format!("\"{text}\""),
        _ => format!("{ns}e-3"),
    }
}

/// Events of a thread never overlap: they come one after the other, with a child each.
fn laid_out(made: &[(u32, u32, u64, u64, bool)]) -> Vec<Made> {
    let mut free = [4_458_676_522_690_655_u64; 3];
    let mut all = Vec::new();
    for &(name, thread, gap, duration, is_pair) in made {
        let start = free[thread as usize] + gap;
        all.push((name, thread, start, duration, is_pair));
        if duration > 10 {
            all.push((name + 5, thread, start + 3, duration / 2, !is_pair));
        }
        free[thread as usize] = start + duration + 1;
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn figures_are_exact_whatever_the_order_of_the_file(
        made in prop::collection::vec((0..5_u32, 0..3_u32, 0..9_999_u64, 0..99_999_999_u64, any::<bool>()), 0..120),
        order in prop::collection::vec(any::<u64>(), 1..400),
    ) {
        let all = laid_out(&made);
        let mut events = Vec::new();
        let mut totals: BTreeMap<String, (u64, u64, u64, u64)> = BTreeMap::new();
        for (at, &(name, thread, start, duration, is_pair)) in all.iter().enumerate() {
            let (ts, end) = (microseconds(start, at as u64), microseconds(start + duration, at as u64 + 1));
            let dur = microseconds(duration, at as u64 + 2);
            let head = format!(r#""pid":1,"tid":{thread},"name":"name {name}""#);
            if is_pair {
                events.push(format!(r#"{{"ph":"B",{head},"ts":{ts}}}"#));
                events.push(format!(r#"{{"ts":{end},{head},"ph":"E"}}"#));
            } else {
                events.push(format!(r#"{{{head},"dur":{dur},"ph":"X","ts":{ts}}}"#));
            }
            let row = totals.entry(format!("name {name}")).or_insert((0, 0, u64::MAX, 0));
            *row = (row.0 + 1, row.1 + duration, row.2.min(duration), row.3.max(duration));
        }
        let mut keyed: Vec<(u64, String)> = events
            .into_iter()
            .enumerate()
            .map(|(at, text)| (order[at % order.len()].wrapping_mul(at as u64 | 1), text))
            .collect();
        keyed.sort();
        let text: Vec<String> = keyed.into_iter().map(|it| it.1).collect();
        let dir = tempdir().unwrap();
        fs::write(dir.path().join("run.json"), format!("[{}]", text.join(",\n"))).unwrap();
        let run = analyze(dir.path(), &["summary", "run.json"]);
        prop_assert!(!run.stderr.contains("not taken"), "{}", run.stderr);
        let rows = run.json()["rows"].clone();
        let mut found = BTreeMap::new();
        for row in rows.as_array().unwrap() {
            let number = |key: &str| row[key].as_f64().unwrap() as u64;
            let figures = (number("count"), number("total_ns"), number("min_ns"), number("max_ns"));
            found.insert(row["name"].as_str().unwrap().to_owned(), figures);
        }
        prop_assert_eq!(found, totals);
    }
}
