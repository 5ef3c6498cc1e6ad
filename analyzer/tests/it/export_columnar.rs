//! Parquet and Arrow: groups by time, statistics, bounded memory, and what others read.

use std::{fs, io::Write, path::Path, process::Command};

use parquet::file::{
    reader::{FileReader, SerializedFileReader},
    statistics::Statistics,
};
use tempfile::tempdir;

#[cfg(target_os = "linux")]
use crate::analyze::peak_kib;
use crate::{analyze::analyze, making};

/// A span every 100 ns on two threads.
fn many(path: &Path, spans: u64) {
    making::trace(path, |writer| {
        let names = ["a", "b", "c"].map(|name| writer.name(name));
        let tracks = ["t", "u"].map(|track| writer.track(making::THREAD, 1, track));
        for at in 0..spans {
            let (name, track) = (names[at as usize % 3], tracks[at as usize % 2]);
            writer.event(making::span(name, track, 100 * at, 10 + at % 7), &[], &[]).unwrap();
        }
    });
}

#[test]
fn row_groups_are_bounded_and_their_statistics_tell_their_times() {
    let dir = tempdir().unwrap();
    many(&dir.path().join("run.trace"), 600_000);
    analyze(dir.path(), &["export", "run.trace", "--to", "parquet", "-o", "run.parquet"]).clean();
    let file = fs::File::open(dir.path().join("run.parquet")).unwrap();
    let metadata = SerializedFileReader::new(file).unwrap().metadata().clone();
    let rows: Vec<i64> = metadata.row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [262_144, 262_144, 75_712]);
    let mut end = -1;
    for group in metadata.row_groups() {
        let column = |name: &str| {
            let mut all = group.columns().iter();
            all.find(|column| column.column_path().string() == name).unwrap()
        };
        let Some(Statistics::Int64(times)) = column("start_ns").statistics() else { panic!() };
        let (first, last) = (*times.min_opt().unwrap(), *times.max_opt().unwrap());
        assert!(first > end && last > first, "{first} {last}");
        end = last;
        let Some(Statistics::ByteArray(names)) = column("name").statistics() else { panic!() };
        let bound = |it: &parquet::data_type::ByteArray| it.as_utf8().unwrap().to_owned();
        assert_eq!(names.min_opt().map(bound), Some("a".to_owned()));
        assert_eq!(names.max_opt().map(bound), Some("c".to_owned()));
        assert!(column("name").dictionary_page_offset().is_some());
        assert!(column("start_ns").offset_index_offset().is_some());
    }
    assert_eq!(end, 59_999_900);
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_trace() {
    let dir = tempdir().unwrap();
    let peaks = |format| {
        [1_600_000, 4_800_000].map(|spans| {
            many(&dir.path().join("run.trace"), spans);
            peak_kib(dir.path(), &["export", "run.trace", "--to", format, "-o", "out"])
        })
    };
    for format in ["parquet", "arrow"] {
        let [less, more] = peaks(format);
        assert!(more < less + less / 2, "{format}: {less} KiB, then {more} KiB");
    }
}

#[test]
fn a_directory_of_traces_is_one_data_set_to_others() {
    let dir = tempdir().unwrap();
    fs::create_dir(dir.path().join("set")).unwrap();
    for (file, spans) in [("a", 3_000), ("b", 5_000)] {
        many(&dir.path().join("run.trace"), spans);
        let out = format!("set/{file}.parquet");
        analyze(dir.path(), &["export", "run.trace", "--to", "parquet", "-o", &out]).clean();
        let out = format!("{file}.arrow");
        analyze(dir.path(), &["export", "run.trace", "--to", "arrow", "-o", &out]).clean();
    }
    let script = r#"
import duckdb, polars, pyarrow.dataset, pyarrow.ipc
query = "SELECT name, count(*), sum(dur_ns) FROM read_parquet('set/*.parquet') GROUP BY 1 ORDER BY 1"
print("duckdb", duckdb.sql(query).fetchall())
late = "SELECT count(*) FROM read_parquet('set/*.parquet') WHERE start_ns >= 400000"
print("duckdb", duckdb.sql(late).fetchall())
grouped = polars.scan_parquet("set/*.parquet").group_by("name").agg(polars.len(), polars.col("dur_ns").sum())
print("polars", grouped.collect().sort("name").rows())
table = pyarrow.dataset.dataset("set").to_table()
grouped = table.group_by("name").aggregate([([], "count_all"), ("dur_ns", "sum")]).sort_by("name")
print("pyarrow", [tuple(row.values()) for row in grouped.to_pylist()])
print("arrow", pyarrow.ipc.open_file("a.arrow").read_all().num_rows, polars.read_ipc("b.arrow").height)
"#;
    let python = std::env::var_os("RINGSCOPE_PYTHON").unwrap_or_else(|| "python3".into());
    let run = Command::new(python).args(["-c", script]).current_dir(dir.path()).output();
    let missing = match &run {
        Err(error) => Some(error.to_string()),
        Ok(run) => {
            let said = String::from_utf8_lossy(&run.stderr);
            said.lines().last().filter(|line| line.starts_with("ModuleNotFound")).map(str::to_owned)
        }
    };
    if let Some(why) = missing {
        let required = std::env::var("RINGSCOPE_REQUIRE").unwrap_or_default();
        assert!(!required.contains("duckdb"), "required: {why}");
        let _ = writeln!(std::io::stderr(), "skipped: DuckDB, Polars and pyarrow: {why}");
        return;
    }
    let run = run.unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let sum = |name: u64| -> (u64, u64) {
        let of = |spans: u64| (0..spans).filter(move |at| at % 3 == name).map(|at| 10 + at % 7);
        let all: Vec<u64> = of(3_000).chain(of(5_000)).collect();
        (all.len() as u64, all.iter().sum())
    };
    let grouped: Vec<String> = ["a", "b", "c"]
        .iter()
        .zip(0..)
        .map(|(name, at)| format!("('{name}', {}, {})", sum(at).0, sum(at).1))
        .collect();
    let grouped = format!("[{}]", grouped.join(", "));
    let said = String::from_utf8(run.stdout).unwrap();
    let expected = format!(
        "duckdb {grouped}\nduckdb [(1000,)]\npolars {grouped}\npyarrow {grouped}\narrow 3000 5000\n"
    );
    assert_eq!(said, expected);
}
