//! Every figure against a naive computation over the same records.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ringscope_format::{Record, Status};
use tempfile::tempdir;

use crate::{analyze::analyze, making};

/// A record: which name and track, when, how long, failed or not.
type Made = (u32, u32, u64, u64, bool);

fn records() -> impl Strategy<Value = Vec<Made>> {
    let duration = prop_oneof![
        0..20_u64,
        1_000..1_010_u64,
        any::<u64>().prop_map(|bits| bits >> 20 >> (bits & 31)),
        Just(123_456_u64),
    ];
    let record = (0..5_u32, 1..4_u32, 0..1_000_000_000_u64, duration, any::<bool>());
    prop_oneof![
        4 => prop::collection::vec(record.clone(), 0..200),
        1 => prop::collection::vec(record, 300..3_000),
    ]
}

fn percentile(sorted: &[u64], percent: f64) -> f64 {
    let at = percent / 100.0 * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize] as f64, sorted[at.ceil() as usize] as f64);
    below + (above - below) * (at - at.floor())
}

/// Close enough for a number that went through the last digit of a double.
fn is_about(value: &serde_json::Value, expected: f64) -> bool {
    let value = value.as_f64().expect("a number");
    (value - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_are_what_sorting_and_adding_up_by_hand_gives(
        made in records(),
        from in 0..500_000_000_u64,
        least in prop_oneof![Just(0), Just(1_005), 0..1_000_000_u64],
    ) {
        let dir = tempdir().unwrap();
        making::trace(&dir.path().join("run.trace"), |writer| {
            for track in 1..4 {
                writer.track(making::THREAD, track, &format!("thread {track}"));
            }
            let names: Vec<u32> = (0..5).map(|at| writer.name(&format!("name {at}"))).collect();
            for &(name, track, start, duration, failed) in &made {
                let status = if failed { Status::ERROR } else { Status::UNKNOWN };
                let name = names[name as usize];
                let record = Record { status, ..making::span(name, track, start, duration) };
                writer.event(record, &[], &[]).unwrap();
            }
        });
        let first = made.iter().map(|record| record.2).min().unwrap_or(0);
        let mut expected: BTreeMap<String, (Vec<u64>, u64)> = BTreeMap::new();
        for &(name, _, start, duration, failed) in &made {
            if start - first >= from && duration >= least {
                let group = expected.entry(format!("name {name}")).or_default();
                group.0.push(duration);
                group.1 += u64::from(failed);
            }
        }
        let (from, least) = (format!("{from}ns"), format!("{least}ns"));
        let arguments = [
            "summary", "run.trace", "--from", &from, "--min-duration", &least,
            "--percentiles", "0,50,95,99.9,100",
        ];
        let document = analyze(dir.path(), &arguments).json();
        let rows = document["rows"].as_array().unwrap();
        prop_assert_eq!(rows.len(), expected.len());
        for row in rows {
            let (durations, errors) = expected.get_mut(row["name"].as_str().unwrap()).unwrap();
            durations.sort_unstable();
            let n = durations.len() as f64;
            let total: u64 = durations.iter().sum();
            let mean = total as f64 / n;
            let squares: f64 = durations.iter().map(|&it| (it as f64 - mean).powi(2)).sum();
            let std = if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
            prop_assert_eq!(row["count"].as_u64(), Some(durations.len() as u64));
            prop_assert_eq!(row["errors"].as_u64(), Some(*errors));
            for (key, value) in [
                ("total_ns", total as f64),
                ("mean_ns", mean),
                ("std_ns", std),
                ("min_ns", durations[0] as f64),
                ("max_ns", durations[durations.len() - 1] as f64),
                ("p0_ns", durations[0] as f64),
                ("p50_ns", percentile(durations, 50.0)),
                ("p95_ns", percentile(durations, 95.0)),
                ("p99.9_ns", percentile(durations, 99.9)),
                ("p100_ns", durations[durations.len() - 1] as f64),
            ] {
                prop_assert!(is_about(&row[key], value), "{key}: {} is not {value}", row[key]);
            }
        }
    }
}
