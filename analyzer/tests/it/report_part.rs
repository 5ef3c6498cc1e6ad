//! A report with filters says so.

use tempfile::tempdir;

use crate::{analyze::analyze, making};

#[test]
fn a_report_of_a_part_says_of_which() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let header = |more: &[&str]| {
        let arguments = [&["report", "run.trace", "--section", "header"], more].concat();
        analyze(dir.path(), &arguments)
    };
    let said = |more: &[&str]| {
        let report = header(more).clean();
        report.lines().last().unwrap().to_owned()
    };
    assert_eq!(
        said(&["--from", "5ms", "--until", "-1ms", "--name", "token", "--name", "!load"]),
        "  tables are of a part only: from 5.00 ms on; until 1.00 ms before the end; names `token`, `!load`"
    );
    assert_eq!(
        said(&["--last", "15ms", "--track", "main", "--category", "slow", "--min-duration", "1ms"]),
        "  tables are of a part only: the last 15.00 ms; threads and queues `main`; category slow; \
         durations of at least 1.00 ms"
    );
    assert_eq!(said(&[]), "  nothing lost");
    let value = |more: &[&str]| {
        let json = header(&[more, &["--format", "json"]].concat()).json();
        json["sections"]["header"]["tables_of"].clone()
    };
    let of = serde_json::json!({ "from_ns": 5e6, "name": ["token"] });
    assert_eq!(value(&["--from", "5ms", "--name", "token"]), of);
    assert_eq!(value(&[]), serde_json::Value::Null);
}
