//! The summary kernel: what it finds in several looks and short cuts is what one
//! finds by sorting everything.

use std::{collections::BTreeMap, fs::File, path::Path, process::Command};

use ringscope_analyzer::{
    load::Traces,
    summary::{Key, Question},
};
use ringscope_format::{Kind, Record, Status, TraceWriter, TrackKind};
use serde_json::Value;

/// Enough for several chunks and pieces, and for groups of every size.
const RECORDS: u64 = 200_000;

/// Writes records of some kinds on alternating tracks; returns durations by name,
/// and failures, of those that are spans.
fn write(path: &Path) -> BTreeMap<String, (Vec<u64>, u64)> {
    let mut writer =
        TraceWriter::new(File::create(path).unwrap(), crate::making::header()).unwrap();
    let tracks: Vec<u32> =
        (0..3).map(|at| writer.track(TrackKind::Thread, 1 + at, &format!("t{at}"))).collect();
    let mut spans: BTreeMap<String, (Vec<u64>, u64)> = BTreeMap::new();
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    for at in 0..RECORDS {
        // The first names are frequent and the last ones nearly unique.
        let rank = random() % (1 + random() % 400);
        let name = format!("n{rank}");
        let kind = if random() % 50 == 0 { Kind::KERNEL } else { Kind::SPAN };
        // From a few ticks to minutes, so that ranges are narrow and wide.
        let duration = (random() << (random() % 8)) >> (random() % 31);
        let duration = if random() % 1_000 == 0 { (-5_i64) as u64 } else { duration };
        let status = if random() % 300 == 0 { Status::ERROR } else { Status::OK };
        let track = tracks[random() as usize % 3];
        let id = writer.name(&name);
        let record =
            Record { status, ..Record::timed(kind, id, track, at * 1_000_000_000, duration) };
        writer.event(record, &[], &[]).unwrap();
        if kind == Kind::SPAN {
            let (durations, errors) = spans.entry(name).or_default();
            durations.push((duration as i64).max(0) as u64);
            *errors += u64::from(status == Status::ERROR);
        }
    }
    writer.finish().unwrap();
    spans.values_mut().for_each(|(durations, _)| durations.sort_unstable());
    spans
}

fn rows(path: &Path, arguments: &[&str]) -> BTreeMap<String, Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_analyze"))
        .args(["spans", "--format", "json"])
        .args(arguments)
        .arg(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = |row: &Value| (row["name"].as_str().unwrap().to_owned(), row.clone());
    document["rows"].as_array().unwrap().iter().map(named).collect()
}

fn percentile(sorted: &[u64], percent: f64) -> f64 {
    let at = percent / 100.0 * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize] as f64, sorted[at.ceil() as usize] as f64);
    below + (above - below) * (at - at.floor())
}

#[test]
fn figures_are_those_of_the_sorted_durations_whichever_columns_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kernel.trace");
    let spans = write(&path);
    let few = ["--columns", "name,count,total_ns,max_ns", "--sort", "-p99_ns"];
    let some = ["--columns", "name,count,p50_ns,p99_ns,errors"];
    for arguments in [&[][..], &few, &some] {
        let rows = rows(&path, arguments);
        assert!(rows.keys().eq(spans.keys()));
        for (name, (sorted, errors)) in &spans {
            let total: u64 = sorted.iter().sum();
            let expected = [
                ("count", sorted.len() as f64),
                ("total_ns", total as f64),
                ("min_ns", sorted[0] as f64),
                ("max_ns", sorted[sorted.len() - 1] as f64),
                ("p50_ns", percentile(sorted, 50.0)),
                ("p95_ns", percentile(sorted, 95.0)),
                ("p99_ns", percentile(sorted, 99.0)),
                ("errors", *errors as f64),
            ];
            for (key, expected) in expected {
                // A column that was not asked for is not there.
                let Some(found) = rows[name].get(key).and_then(Value::as_f64) else { continue };
                // The last bit is that of parsing the text.
                let is_same = (found - expected).abs() <= expected * f64::EPSILON;
                assert!(is_same, "{key} of {name}: {found}, not {expected}, {arguments:?}");
            }
        }
    }
}

#[test]
fn sorting_by_a_column_that_is_not_shown_works_it_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kernel.trace");
    let spans = write(&path);
    let output = Command::new(env!("CARGO_BIN_EXE_analyze"))
        .args(["spans", "--format", "csv", "--columns", "name", "--sort", "-p95_ns"])
        .arg(&path)
        .output()
        .unwrap();
    let mut expected: Vec<(f64, &String)> =
        spans.iter().map(|(name, (sorted, _))| (percentile(sorted, 95.0), name)).collect();
    expected.sort_by(|a, b| b.0.total_cmp(&a.0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().nth(1), Some(expected[0].1.as_str()));
    assert_eq!(text.lines().count(), 1 + spans.len());
}

#[test]
fn a_damaged_chunk_is_left_out_of_every_look_and_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kernel.trace");
    write(&path);
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = 0;
    // Whichever column is hit, also one that the later looks could do without.
    for at in (whole.len() / 2..).step_by(10_007).take(16) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xFF;
        std::fs::write(&path, bytes).unwrap();
        let traces = Traces::open(std::slice::from_ref(&path)).unwrap();
        let answer = Question {
            traces: &traces,
            sieves: Vec::new(),
            kinds: |kind| kind == Kind::SPAN,
            key: Key::Name,
            group_of: vec![vec![0]],
            groups: 1,
            percentiles: vec![0.0, 50.0, 100.0],
            self_time: true,
            top: None,
            bounds_ns: Vec::new(),
        }
        .answer()
        .unwrap();
        let unreadable = traces.unreadable();
        assert!(unreadable.len() <= 1, "{unreadable:?}");
        damaged += unreadable.len();
        let group = &answer.groups[0];
        assert_eq!(group.percentiles_ns.get(0), Some(&group.min_ns), "{at:#x}");
        assert_eq!(group.percentiles_ns.get(2), Some(&group.max_ns), "{at:#x}");
    }
    assert!(damaged > 4, "{damaged}");
}
