//! What rocprofv3 writes, as JSON and as CSV files that belong together.

use std::fs;

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::{
    analyze::{Run, analyze},
    foreign_made::{ROCPROF_CSV, ROCPROF_JSON},
};

/// A directory with the CSV files of one run.
fn run() -> TempDir {
    let dir = tempdir().unwrap();
    for (name, content) in ROCPROF_CSV {
        fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

fn ask(name: &str, content: &str, arguments: &[&str]) -> Run {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join(name), content).unwrap();
    let arguments: Vec<&str> = arguments.iter().copied().chain([name]).collect();
    let run = analyze(dir.path(), &arguments);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

/// Kernels and copies as `name count total delay bytes device queue grid block`.
fn kernels(json: &Value) -> Vec<String> {
    let row = |row: &Value| {
        let name = row["name"].as_str().unwrap();
        let keys = ["count", "total_ns", "queue_delay_mean_ns", "bytes"];
        let figures = keys.map(|key| row[key].to_string()).join(" ");
        format!("{name} {figures} {} {}", row["device"][0], row["queue"][0])
    };
    let mut rows: Vec<String> = json["rows"].as_array().unwrap().iter().map(row).collect();
    rows.sort();
    rows
}

fn tracks(run: &Run) -> Vec<String> {
    let mut tracks: Vec<String> = run.stdout.lines().skip(1).map(str::to_owned).collect();
    tracks.sort();
    tracks
}

#[test]
fn the_files_of_one_run_are_one_trace_with_launches_linked() {
    let dir = run();
    let mut arguments = vec!["import", "-o", "run.trace"];
    arguments.extend(ROCPROF_CSV.iter().map(|it| it.0));
    let imported = analyze(dir.path(), &arguments);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    assert!(!imported.stderr.contains("not taken"), "{}", imported.stderr);
    let json = analyze(dir.path(), &["kernels", "run.trace", "--format", "json"]).json();
    assert_eq!(
        kernels(&json),
        [
            "MEMORY_COPY_DEVICE_TO_HOST 1 4000 500 null \"4\" \"GPU 4 copies\"",
            "MEMORY_COPY_HOST_TO_DEVICE 1 3001 1000 null \"4\" \"GPU 4 copies\"",
            "void axpy<float, 2>(float*) 2 52598 2650 null \"4\" \"GPU 4 queue 1\"",
        ]
    );
    let threads = ["threads", "run.trace", "--format", "csv", "--columns", "track"];
    assert_eq!(
        tracks(&analyze(dir.path(), &threads)),
        ["GPU 4 copies", "GPU 4 queue 1", "GPU 4 scratch memory", "process", "thread 77"]
    );
}

#[test]
fn files_of_two_runs_keep_their_correlations_apart() {
    let dir = tempdir().unwrap();
    let kernel = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n\
                  \"KERNEL_DISPATCH\",2,1,\"k\",5,1000,1100\n";
    let call = |start: u64| {
        format!(
            "\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n\
             \"HIP_RUNTIME_API\",\"hipLaunchKernel\",7,7,5,{start},950\n"
        )
    };
    for (rank, start) in [("a", 900), ("b", 800)] {
        fs::write(dir.path().join(format!("{rank}_kernel_trace.csv")), kernel).unwrap();
        fs::write(dir.path().join(format!("{rank}_hip_api_trace.csv")), call(start)).unwrap();
    }
    let names =
        ["a_kernel_trace.csv", "b_kernel_trace.csv", "a_hip_api_trace.csv", "b_hip_api_trace.csv"];
    let arguments: Vec<&str> = ["import", "-o", "both.trace"].into_iter().chain(names).collect();
    assert_eq!(analyze(dir.path(), &arguments).code, 0);
    let json = analyze(dir.path(), &["kernels", "both.trace", "--format", "json"]).json();
    assert_eq!(json["rows"][0]["launched"], 2);
    assert_eq!(json["rows"][0]["queue_delay_mean_ns"], 150);
    let threads = ["threads", "both.trace", "--format", "csv", "--columns", "track"];
    assert_eq!(
        tracks(&analyze(dir.path(), &threads)),
        ["a: GPU 2 queue 1", "a: thread 7", "b: GPU 2 queue 1", "b: thread 7"]
    );
}

#[test]
fn json_says_what_its_numbers_mean() {
    let run = ask("results.json", ROCPROF_JSON, &["kernels", "--format", "json"]);
    assert_eq!(run.stderr, "analyze: results.json: 9 events converted from rocprofv3\n");
    let json = run.json();
    assert_eq!(
        kernels(&json),
        [
            "MEMORY_COPY_DEVICE_TO_HOST 1 4000 500 4096 \"1\" \"GPU 1 copies\"",
            "void axpy<float, 2>(float*) 2 52598 2650 null \"1\" \"GPU 1 queue 1\"",
        ]
    );
    assert!(json["trace"]["metadata"].to_string().contains("MI300X"), "{json}");
    let spans = ask("results.json", ROCPROF_JSON, &["spans", "--format", "json"]).json();
    let mut names: Vec<&str> =
        spans["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["hipLaunchKernel", "hipMemcpy", "whole step"]);
    let shape = ["kernels", "--group-by", "shape", "--format", "json"];
    let shaped = ask("results.json", ROCPROF_JSON, &shape).json();
    // 1,024 work items by 64 are 16 groups.
    assert!(shaped["rows"].to_string().contains("16x1x1"), "{}", shaped["rows"]);
}

#[test]
fn json_that_is_cut_gives_the_records_before_the_cut() {
    let at = ROCPROF_JSON.rfind("\"memory_copy\"").unwrap();
    let run = ask("r.json", &ROCPROF_JSON[..at], &["kernels", "--format", "json"]);
    assert!(
        run.stderr
            .contains(&format!("the file is cut, at byte {at:#x}; what comes before it was taken")),
        "{}",
        run.stderr
    );
    assert_eq!(run.json()["rows"][0]["count"], 2);
    let at = ROCPROF_JSON.find("buffer_records\": {\"kernel_dispatch").unwrap();
    assert_eq!(
        ask("r.json", &ROCPROF_JSON[..at], &["kernels"]).refusal(),
        "analyze: r.json: ends before the first record; write the trace again\n"
    );
}

#[test]
fn every_truncation_of_rocprof_ends_with_an_answer_or_a_message() {
    let csv = ROCPROF_CSV[0].1;
    for length in (0..ROCPROF_JSON.len()).step_by(37) {
        ask("r.json", &ROCPROF_JSON[..length], &["summary"]);
    }
    for length in (0..csv.len()).step_by(11) {
        ask("r_kernel_trace.csv", &csv[..length], &["summary"]);
    }
}

#[test]
fn kernels_of_counters_are_taken_once_each() {
    let csv = "\"Correlation_Id\",\"Dispatch_Id\",\"Agent_Id\",\"Queue_Id\",\"Process_Id\",\"Thread_Id\",\"Grid_Size\",\"Kernel_Id\",\
               \"Kernel_Name\",\"Counter_Name\",\"Counter_Value\",\"Start_Timestamp\",\"End_Timestamp\"\n\
               1,1,\"Agent 4\",1,7,7,64,1,\"k\",\"SQ_WAVES\",16,1000,1100\n\
               1,1,\"Agent 4\",1,7,7,64,1,\"k\",\"SQ_BUSY\",9,1000,1100\n\
               2,2,\"Agent 4\",1,7,7,64,1,\"k\",\"SQ_WAVES\",16,2000,2100\n";
    let run = ask("c_counter_collection.csv", csv, &["kernels", "--format", "json"]);
    assert!(
        run.stderr.ends_with("not taken as it stands: 3 hardware counters\n"),
        "{}",
        run.stderr
    );
    assert_eq!(run.json()["rows"][0]["count"], 2);
}
