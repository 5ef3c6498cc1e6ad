//! Small files of each foreign kind, in `testdata/foreign`: what is there is what is made here, and
//! the reports on it are those beside it.
//!
//! `RINGSCOPE_REGENERATE=1 cargo test -p ringscope-analyzer --test it testdata` writes all of it anew.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tempfile::tempdir;

use crate::{
    analyze::analyze,
    foreign_made::{
        CHROME_ARRAY, CHROME_OBJECT, CSV, JSON_LINES, KINETO, ROCPROF_CSV, ROCPROF_JSON,
    },
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/foreign")
}

fn regenerates() -> bool {
    std::env::var_os("RINGSCOPE_REGENERATE").is_some()
}

/// Compares a file with what it should hold, or writes it.
fn same(name: &str, content: &str) {
    let path = folder().join(name);
    if regenerates() {
        fs::write(&path, content).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(found, content, "{name}");
}

/// What `import` says of these files, and two reports on what it made of them.
fn report(name: &str, files: &[&str]) {
    let dir = tempdir().unwrap();
    for file in files {
        fs::copy(folder().join(file), dir.path().join(file)).unwrap();
    }
    let arguments: Vec<&str> = ["import", "-o", "out.trace"].iter().chain(files).copied().collect();
    let run = analyze(dir.path(), &arguments);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let mut text = run.stderr;
    for command in ["spans", "kernels", "threads"] {
        let run = analyze(dir.path(), &[command, "out.trace", "--format", "csv"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        text += &format!("\n{command}\n{}{}", run.stdout, run.stderr);
    }
    same(&format!("{name}.report"), &text);
}

#[test]
fn testdata_of_texts_is_what_is_made_and_reports_what_it_did() {
    let files = [
        ("chrome_array.json", CHROME_ARRAY),
        ("chrome_object.json", CHROME_OBJECT),
        ("kineto.json", KINETO),
        ("rocprof.json", ROCPROF_JSON),
        ("table.csv", CSV),
        ("table.jsonl", JSON_LINES),
    ];
    for (name, content) in files {
        same(name, content);
        report(name, &[name]);
    }
}

#[test]
fn testdata_of_a_run_of_rocprofv3_is_one_trace() {
    for (name, content) in ROCPROF_CSV {
        same(name, content);
    }
    report("rocprof_run", &ROCPROF_CSV.map(|it| it.0));
}

/// Its bytes depend on the version of SQLite; what it holds does not.
#[cfg(feature = "nsight")]
#[test]
fn testdata_of_nsight_reports_what_it_did() {
    let path = folder().join("nsight.sqlite");
    if regenerates() {
        let _ = fs::remove_file(&path);
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch(crate::foreign_made::NSIGHT).unwrap();
    }
    report("nsight.sqlite", &["nsight.sqlite"]);
}
