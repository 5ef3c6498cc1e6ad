//! Exports of Nsight Systems, made here with SQLite itself.

use std::{fs, path::Path};

use rusqlite::Connection;
use tempfile::tempdir;

#[cfg(target_os = "linux")]
use crate::analyze::peak_kib;
use crate::analyze::{Run, analyze, analyze_fed};

/// The bytes of a database that these statements make.
fn made(statements: &str) -> Vec<u8> {
    let dir = tempdir().unwrap();
    let path = dir.path().join("made.sqlite");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(statements).unwrap();
    drop(connection);
    fs::read(path).unwrap()
}

const PROCESS: i64 = 5 << 24;
const THREAD: i64 = PROCESS | 6;

/// Three kernels, a copy, their calls, a range and a thread's name.
fn export() -> Vec<u8> {
    let long = format!("void huge<{}>()", "int, ".repeat(3_000));
    made(&format!(
        "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, -- a number,
           value TEXT NOT NULL);
         INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'cudaLaunchKernel'), (3, '{long}'), (4, 'worker'), (5, 'forward');
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER,
           streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, gridX INTEGER,
           gridY INTEGER, gridZ INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
           (1000, 1500, 1, 7, 11, {PROCESS}, 1, 64, 2, 1), (2000, 2250, 1, 7, 12, {PROCESS}, 1, 64, 2, 1),
           (3000, 3100, 1, 7, 13, {PROCESS}, 3, 64, 2, 1);
         ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN addedLater INTEGER;
         CREATE INDEX covering ON CUPTI_ACTIVITY_KIND_KERNEL (end DESC, start);
         CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
           bytes INTEGER, copyKind INTEGER, globalPid INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (4000, 4010, 1, 7, 4096, 1, {PROCESS});
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
           correlationId INTEGER, nameId INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 910, {THREAD}, 11, 2), (920, 930, {THREAD}, 12, 2);
         CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER,
           globalTid INTEGER, domainId INTEGER);
         INSERT INTO NVTX_EVENTS VALUES (890, 990, 59, NULL, 5, {THREAD}, 0), (900, NULL, 34, 'mark', NULL, {THREAD}, 0),
           (0, NULL, 75, 'model', NULL, {THREAD}, 0);
         CREATE TABLE SCHED_EVENTS (start INTEGER);
         INSERT INTO SCHED_EVENTS VALUES (1), (2);
         CREATE TABLE ThreadNames (nameId INTEGER, globalTid INTEGER);
         INSERT INTO ThreadNames VALUES (4, {THREAD});
         CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
         INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1696392839587175550);"
    ))
}

fn ask(content: &[u8], arguments: &[&str]) -> Run {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("run"), content).unwrap();
    let arguments: Vec<&str> = arguments.iter().copied().chain(["run"]).collect();
    let run = analyze(dir.path(), &arguments);
    assert!(run.code == 0 || run.code == 2, "{}: {}", run.code, run.stderr);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

#[test]
fn an_export_of_nsight_systems_is_a_trace() {
    let run = ask(&export(), &["kernels", "--format", "json"]);
    assert_eq!(
        run.stderr,
        "analyze: run: 8 events converted from Nsight Systems\n\
         analyze: run: not taken as it stands: 1 names longer than 1,024 bytes (cut); 2 rows of SCHED_EVENTS\n"
    );
    let json = run.json();
    let rows: Vec<String> = json["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let name: String = row["name"].as_str().unwrap().chars().take(12).collect();
            let (total, delay, bytes) =
                (&row["total_ns"], &row["queue_delay_mean_ns"], &row["bytes"]);
            format!("{name} {} {total} {delay} {bytes} {}", row["count"], row["device"])
        })
        .collect();
    assert_eq!(
        rows,
        [
            "gemm 2 750 590 null [\"1\"]",
            "void huge<in 1 100 null null [\"1\"]",
            "Memcpy HtoD 1 10 null 4096 [\"1\"]",
        ]
    );
    let tree =
        ask(&export(), &["tree", "--format", "csv", "--columns", "path,count,total_ns,self_ns"]);
    assert!(tree.stdout.contains("cudaLaunchKernel"), "{}", tree.stdout);
    let threads = ask(&export(), &["threads", "--format", "csv", "--columns", "track"]);
    assert!(threads.stdout.contains("worker"), "{}", threads.stdout);
    assert!(ask(&export(), &["info"]).stdout.contains("2023-10-04 04:13:59"));
}

#[test]
fn a_database_of_somebody_else_is_refused() {
    assert_eq!(
        ask(
            &made("CREATE TABLE Bookmarks (name TEXT); INSERT INTO Bookmarks VALUES ('home')"),
            &["kernels"]
        )
        .refusal(),
        "analyze: run: an SQLite database, but none of Nsight Systems; give what `nsys export --type \
         sqlite` writes\n"
    );
    let said = ask(&made("CREATE TABLE rocpd_string_1 (id INTEGER)"), &["kernels"]).refusal();
    assert!(said.contains("a rocpd database of rocprofv3"), "{said}");
    let empty =
        "CREATE TABLE StringIds (id INTEGER, value TEXT); CREATE TABLE NVTX_EVENTS (start INTEGER)";
    let said = ask(&made(empty), &["kernels"]).refusal();
    assert!(said.contains("without kernels, calls or ranges"), "{said}");
}

#[test]
fn a_view_or_a_virtual_table_in_place_of_a_table_is_left_alone() {
    let endless = "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE c(start) AS \
                   (SELECT 1 UNION ALL SELECT start + 1 FROM c) SELECT start FROM c;\
                   CREATE TABLE StringIds (id INTEGER, value TEXT);\
                   CREATE TABLE TARGET_INFO_GPU (id INTEGER)";
    let said = ask(&made(endless), &["kernels"]).refusal();
    assert!(said.contains("without kernels, calls or ranges"), "{said}");
}

#[test]
fn a_database_may_be_packed_or_come_through_a_pipe() {
    use std::io::Write;
    // The name of the file is the only difference.
    let listed = |run: Run| run.json()["rows"].to_string().replace("[\"-\"]", "[\"run\"]");
    let arguments = ["kernels", "--format", "json"];
    let plain = listed(ask(&export(), &arguments));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&export()).unwrap();
    assert_eq!(listed(ask(&gz.finish().unwrap(), &arguments)), plain);
    let dir = tempdir().unwrap();
    let piped = analyze_fed(dir.path(), &["kernels", "--format", "json", "-"], &export());
    assert_eq!(listed(piped), plain);
    // One that is written by a log is the same without it.
    let mut logged = export();
    logged[18..20].fill(2);
    assert_eq!(listed(ask(&logged, &arguments)), plain);
    let piped = analyze_fed(dir.path(), &["kernels", "--format", "json", "-"], &logged);
    assert_eq!(listed(piped), plain);
}

#[test]
fn changes_that_lie_beside_a_database_are_not_read_and_that_is_said() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.sqlite");
    fs::write(&path, export()).unwrap();
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL", []).unwrap();
    let before = files(dir.path());
    let run = analyze(dir.path(), &["kernels", "run.sqlite", "--format", "json"]);
    assert!(
        run.stderr.contains(
            "analyze: run.sqlite: run.sqlite-wal lies beside it and was not read; rows that only that \
             file has are missing\n"
        ),
        "{}",
        run.stderr
    );
    assert_eq!(run.json()["rows"][0]["count"], 2);
    assert_eq!(files(dir.path()), before, "nothing is written beside a database");
}

/// Names and contents of a directory's files.
fn files(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|it| it.unwrap());
    let mut files: Vec<_> =
        entries.map(|it| (it.file_name(), fs::read(it.path()).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_damaged_page_is_said_with_its_table_and_row() {
    let rows: Vec<String> = (0..2_000).map(|at| format!("({at}, {at})")).collect();
    let mut bytes = made(&format!(
        "PRAGMA page_size = 512; CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
         CREATE TABLE OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);
         INSERT INTO OSRT_API (start, end) VALUES {}",
        rows.join(",")
    ));
    let middle = bytes.len() / 2 / 512 * 512;
    bytes[middle..middle + 512].fill(0xA5);
    let said = ask(&bytes, &["spans"]).refusal();
    assert!(said.starts_with("analyze: run: OSRT_API, row "), "{said}");
    assert!(said.ends_with(": database disk image is malformed; export it again\n"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_database_takes_no_more_memory_than_its_events() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.sqlite");
    fs::write(&path, export()).unwrap();
    let without = peak_kib(dir.path(), &["kernels", "run.sqlite"]);
    // 64 MB of what nobody reads.
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("CREATE TABLE ANALYSIS_FILE (content BLOB); INSERT INTO ANALYSIS_FILE VALUES (zeroblob(64000000))")
        .unwrap();
    drop(connection);
    let with = peak_kib(dir.path(), &["kernels", "run.sqlite"]);
    assert!(with < without + 16_000, "{without} KiB, with something else in it {with} KiB");
}

#[test]
fn tables_of_other_versions_are_taken_as_far_as_they_say_something() {
    let (one, other) = (7_i64 << 24, 8_i64 << 24);
    let run = ask(
        &made(&format!(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
             INSERT INTO StringIds VALUES (1, 'MPI_Send'), (2, 'copy_kernel');
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, shortName INTEGER, globalPid INTEGER);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 30, 2, {one}), (10, 30, 2, {other}), (40, 50, 99, {one});
             CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, graphId INTEGER, globalPid INTEGER);
             INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (60, 90, 3, {one});
             CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, bytes INTEGER);
             INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (100, 95, 64), (NULL, 1, 1);
             CREATE TABLE MPI_P2P_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER);
             INSERT INTO MPI_P2P_EVENTS VALUES (1, 9, {one} | 7, 1);
             CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId INTEGER,
               address INTEGER, bytes INTEGER, memoryOperationType INTEGER);
             INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (2, {one}, 0, 4096, 512, 0);"
        )),
        &["kernels", "--format", "json"],
    );
    assert_eq!(
        run.stderr,
        "analyze: run: 7 events converted from Nsight Systems, 1 left out\n\
         analyze: run: not taken as it stands: 1 negative durations (taken as 0); 1 rows without a \
         name (called `(unnamed)`); 1 rows without a usable time\n\
         analyze: run: 1 of 8 events were lost (12.50 %): 1 could not be converted; figures \
         are of what was stored\n"
    );
    let rows = run.json()["rows"].clone();
    let mut rows: Vec<String> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            format!("{} {} {}", row["name"].as_str().unwrap(), row["count"], row["total_ns"])
        })
        .collect();
    rows.sort();
    assert_eq!(rows, ["(unnamed) 1 10", "CUDA graph 3 1 30", "Memset 1 0", "copy_kernel 2 40"]);
}

#[test]
fn a_database_that_is_cut_or_flipped_ends_with_an_answer_or_a_message() {
    let whole = export();
    for length in (0..whole.len()).step_by(1_531) {
        ask(&whole[..length], &["kernels"]);
    }
    // Bytes that say something: headers, pointers, lengths; the rest is mostly zeros.
    let speaking = (0..whole.len()).filter(|&at| whole[at] != 0 && whole[at] != b',').step_by(23);
    for at in speaking.take(150) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xFF;
        ask(&bytes, &["kernels"]);
    }
}
