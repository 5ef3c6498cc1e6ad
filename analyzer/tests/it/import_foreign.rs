//! Real traces of other profilers against figures that somebody else computed from them. They lie
//! beside the checkout, in `shared/foreign-traces`, and are no part of it: without them these
//! tests are skipped, and fail if `RINGSCOPE_REQUIRE` names `foreign`.

use std::{
    collections::HashMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tempfile::tempdir;

use crate::analyze::analyze;

/// Where the traces are, if they are there.
fn traces(test: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/foreign-traces");
    if root.is_dir() {
        return Some(root);
    }
    let required = std::env::var("RINGSCOPE_REQUIRE").unwrap_or_default();
    assert!(!required.contains("foreign"), "required: {} is not there", root.display());
    // Past the harness, which hides what a passing test prints.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {} is not there", root.display());
    None
}

/// A table with its header, by RFC 4180.
fn table(path: &Path) -> Vec<HashMap<String, String>> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().map(|line| {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                other => cells.last_mut().unwrap().push(other),
            }
        }
        cells
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let of = |row: &Vec<String>| rows[0].iter().cloned().zip(row.iter().cloned()).collect();
    rows[1..].iter().map(of).collect()
}

fn summary(root: &Path, label: &str) -> Value {
    let path = root.join("gt").join(label).join("summary.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn asked(root: &Path, file: &str, command: &str) -> Value {
    let dir = tempdir().unwrap();
    let path = root.join(file).display().to_string();
    analyze(dir.path(), &[command, &path, "--format", "json"]).json()
}

/// Every row of the truth is a row of ours: counts and sums exact, percentiles to 1 ns.
fn compare(label: &str, expected: &[HashMap<String, String>], rows: &Value) {
    let rows = rows.as_array().unwrap();
    for truth in expected {
        let exact = |key: &str| truth[key].parse::<f64>().unwrap();
        // Names that are too long for a trace are cut.
        let name: String = truth["name"].chars().take(1_000).collect();
        let same = |row: &&Value| {
            row["name"].as_str().unwrap().starts_with(&name)
                && row["total_ns"].as_f64() == Some(exact("total_ns"))
        };
        let row = rows.iter().find(same).unwrap_or_else(|| panic!("{label}: {truth:?}"));
        if truth["name"].len() <= 1_000 {
            assert_eq!(row["name"], truth["name"].as_str());
        }
        for key in ["count", "total_ns", "min_ns", "max_ns"] {
            assert_eq!(row[key].as_f64().unwrap(), exact(key), "{label}: {key} of {name}");
        }
        for key in ["p50_ns", "p95_ns", "p99_ns"] {
            let found = row[key].as_f64().unwrap();
            assert!((found - exact(key)).abs() <= 1.0, "{label}: {key} of {name}: {found}");
        }
    }
}

const PYTORCH: [&str; 3] = ["nccl_a100", "qwen_h100", "qwen_mi300"];

#[test]
fn kernels_copies_and_fills_of_pytorch_are_those_of_the_truth() {
    let Some(root) = traces("kernels_copies_and_fills_of_pytorch_are_those_of_the_truth") else {
        return;
    };
    for label in PYTORCH {
        let document = asked(&root, &format!("{label}.json.gz"), "kernels");
        let mut truth = table(&root.join("gt").join(label).join("kernels.csv"));
        truth.extend(table(&root.join("gt").join(label).join("gpu_mem.csv")));
        assert_eq!(document["rows"].as_array().unwrap().len(), truth.len(), "{label}");
        compare(label, &truth, &document["rows"]);
    }
}

#[test]
fn operations_and_calls_of_pytorch_are_those_of_the_truth() {
    let Some(root) = traces("operations_and_calls_of_pytorch_are_those_of_the_truth") else {
        return;
    };
    for label in PYTORCH {
        let rows = asked(&root, &format!("{label}.json.gz"), "summary")["rows"].clone();
        for file in ["cpu_ops.csv", "runtime.csv"] {
            compare(label, &table(&root.join("gt").join(label).join(file)), &rows);
        }
    }
}

#[test]
fn busy_idle_overlap_and_launch_delays_are_those_of_the_truth() {
    let Some(root) = traces("busy_idle_overlap_and_launch_delays_are_those_of_the_truth") else {
        return;
    };
    for label in PYTORCH {
        let (truth, document) =
            (summary(&root, label), asked(&root, &format!("{label}.json.gz"), "kernels"));
        let devices = document["sections"]["devices"].as_array().unwrap();
        for (device, figures) in truth["devices"].as_object().unwrap() {
            let all = |row: &&Value| row["device"] == device.as_str() && row["queue"] == "all";
            let row = devices.iter().find(all).unwrap();
            for (ours, theirs) in [
                ("count", "gpu_events"),
                ("span_ns", "span_ns"),
                ("busy_ns", "busy_union_ns"),
                ("idle_ns", "idle_ns"),
                ("computation_ns", "compute_union_ns"),
                ("communication_ns", "comm_union_ns"),
                ("communication_overlap_ns", "comm_comp_overlap_ns"),
            ] {
                assert_eq!(row[ours].as_f64(), figures[theirs].as_f64(), "{label}: {ours}");
            }
        }
        let rows = document["rows"].as_array().unwrap();
        // Copies and fills are no kernels.
        let kernels = || rows.iter().filter(|row| row["category"] != "memory");
        let launched: u64 = kernels().map(|row| row["launched"].as_u64().unwrap()).sum();
        assert_eq!(launched, truth["launch"]["kernels_with_launch"], "{label}");
        let delay = |row: &Value| {
            row["queue_delay_mean_ns"].as_f64().unwrap_or(0.0) * row["launched"].as_f64().unwrap()
        };
        let total: f64 = kernels().map(delay).sum();
        let expected = truth["launch"]["start_to_start_delay_ns"]["total_ns"].as_f64().unwrap();
        assert!((total - expected).abs() < 1.0, "{label}: {total} {expected}");

        // Where all kernels are of one category, its row is of all of them.
        let path = root.join(format!("{label}.json.gz")).display().to_string();
        let by_category = ["kernels", &path, "--group-by", "category", "--format", "json"];
        let categories = analyze(&root, &by_category).json();
        let rows = categories["rows"].as_array().unwrap();
        let all: Vec<&Value> = rows.iter().filter(|row| row["category"] != "memory").collect();
        if let [only] = all[..] {
            let expected = &truth["launch"]["start_to_start_delay_ns"]["p95_ns"];
            let (p95, expected) = (&only["queue_delay_p95_ns"], expected.as_f64().unwrap());
            let p95 = p95.as_f64().unwrap();
            assert!((p95 - expected).abs() <= 1.0, "{label}: {p95} {expected}");
        } else {
            assert_eq!(label, "nccl_a100", "{all:?}");
        }
    }
}

#[cfg(feature = "nsight")]
#[test]
fn kernels_calls_and_copies_of_nsight_are_those_of_the_truth() {
    let Some(root) = traces("kernels_calls_and_copies_of_nsight_are_those_of_the_truth") else {
        return;
    };
    let (label, file) = ("nsys_cloverleaf", "nsys_cloverleaf.sqlite");
    let (truth, document) = (summary(&root, label), asked(&root, file, "kernels"));
    compare(label, &table(&root.join("gt").join(label).join("kernels.csv")), &document["rows"]);
    let rows = asked(&root, file, "summary")["rows"].clone();
    compare(label, &table(&root.join("gt").join(label).join("runtime.csv")), &rows);
    let copies = [("Memcpy HtoD", 1), ("Memcpy DtoH", 2)];
    for figures in truth["memcpy_by_kind_count_ns_bytes"].as_array().unwrap() {
        let name = copies.iter().find(|it| figures[0] == it.1).unwrap().0;
        let row =
            document["rows"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        let ours = [&row["count"], &row["total_ns"], &row["bytes"]];
        assert_eq!(ours, [&figures[1], &figures[2], &figures[3]], "{name}");
    }
}

#[test]
fn every_edge_case_is_imported_or_refused_with_a_message() {
    let Some(root) = traces("every_edge_case_is_imported_or_refused_with_a_message") else {
        return;
    };
    let dir = tempdir().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(root.join("trace-event-edge")).unwrap() {
        let path = entry.unwrap().path();
        let run = analyze(dir.path(), &["import", &path.display().to_string(), "-o", "edge.trace"]);
        assert!(run.code == 0 || run.code == 2, "{}: {}", path.display(), run.stderr);
        assert!(run.stderr.starts_with("analyze: "), "{}", run.stderr);
        if run.code == 0 {
            assert_eq!(analyze(dir.path(), &["check", "edge.trace"]).code, 0, "{}", path.display());
        }
        seen += 1;
    }
    assert_eq!(seen, 30);
}
