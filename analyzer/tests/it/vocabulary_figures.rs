//! Reports over vocabularies against naive accounts of the same events.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ringscope_format::{Kind, Value};

use crate::made::Made;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn outstanding_and_peak_are_those_of_a_naive_account(
        steps in prop::collection::vec((0..3_usize, 0..12_u64, 0..1_000_u64, any::<bool>()), 1..200),
    ) {
        let kinds = ["tensor", "scratch", "cache"];
        let mut made = Made::new();
        let mut live: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        // Outstanding, peak, allocations, releases.
        let mut naive = [(0, 0, 0, 0); 3];
        for (at, (kind, slot, bytes, release)) in steps.into_iter().enumerate() {
            let id = ("id", Value::U64(slot * 3 + kind as u64));
            let account = &mut naive[kind];
            match live.remove(&(kind, slot)) {
                Some(bytes) if release => {
                    made.event("memory.release", at as u64, &[id]);
                    account.0 -= bytes;
                    account.3 += 1;
                }
                Some(bytes) => {
                    live.insert((kind, slot), bytes);
                }
                None => {
                    let fields =
                        [id, ("bytes", Value::U64(bytes)), ("kind", Value::Text(kinds[kind]))];
                    made.event("memory.allocate", at as u64, &fields);
                    live.insert((kind, slot), bytes);
                    account.0 += bytes;
                    account.1 = account.1.max(account.0);
                    account.2 += 1;
                }
            }
        }
        let json = made.finish().json(&["memory"]);
        let rows = json["rows"].as_array().unwrap();
        prop_assert_eq!(rows.len(), naive.iter().filter(|account| account.2 > 0).count());
        for row in rows {
            let kind = kinds.iter().position(|kind| row["kind"] == *kind).unwrap();
            let figures = ["outstanding_bytes", "peak_bytes", "allocations", "releases"]
                .map(|key| row[key].as_u64().unwrap());
            let (outstanding, peak, allocations, releases) = naive[kind];
            prop_assert_eq!(figures, [outstanding, peak, allocations, releases]);
        }
    }

    #[test]
    fn counters_and_errors_are_those_of_a_naive_count(
        points in prop::collection::vec((0..3_u64, any::<bool>(), 0..1_000_u64), 1..200),
    ) {
        let mut made = Made::new();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        let mut errors: BTreeMap<String, u64> = BTreeMap::new();
        for (at, (name, is_error, value)) in points.into_iter().enumerate() {
            let name = format!("point {name}");
            if is_error {
                made.reading(Kind::ERROR, &name, at as u64, value);
                *errors.entry(name).or_default() += 1;
            } else {
                made.reading(Kind::COUNTER, &name, at as u64, value);
                *sums.entry(name).or_default() += value;
            }
        }
        let trace = made.finish();
        let figures = |report: &str, key: &str| -> BTreeMap<String, u64> {
            let json = trace.json(&[report]);
            let row = |row: &serde_json::Value| {
                (row["name"].as_str().unwrap().to_owned(), row[key].as_u64().unwrap())
            };
            json["rows"].as_array().unwrap().iter().map(row).collect()
        };
        prop_assert_eq!(figures("counters", "sum"), sums);
        prop_assert_eq!(figures("errors", "count"), errors);
    }
}
