//! A real recording of a GPU: `testdata/gpu_pipeline.trace`.

use std::path::Path;

use crate::analyze::analyze;

fn testdata() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata"))
}

#[test]
fn kernels_of_a_real_recording_say_what_they_said() {
    let said = analyze(testdata(), &["kernels", "gpu_pipeline.trace"]).clean();
    assert_eq!(said, include_str!("../../../testdata/gpu_pipeline.kernels"));
}

#[test]
fn memory_and_report_of_a_real_recording_say_what_they_said() {
    let said = analyze(testdata(), &["memory", "gpu_pipeline.trace"]).clean();
    assert_eq!(said, include_str!("../../../testdata/gpu_pipeline.memory"));
    let said = analyze(testdata(), &["report", "gpu_pipeline.trace"]).clean();
    assert_eq!(said, include_str!("../../../testdata/gpu_pipeline.report"));
}

#[test]
fn a_real_recording_of_a_gpu_has_kernels_delays_idle_and_overlap() {
    let run = analyze(testdata(), &["kernels", "--format", "json", "gpu_pipeline.trace"]).json();
    let device = &run["sections"]["devices"][0];
    assert_eq!(device["count"], 164, "41 steps of three kernels and a copy: {run}");
    let (busy, idle, span) = (&device["busy_ns"], &device["idle_ns"], &device["span_ns"]);
    let sum = busy.as_f64().unwrap() + idle.as_f64().unwrap();
    assert!((sum / span.as_f64().unwrap() - 1.0).abs() < 1e-6, "{device}");
    assert_eq!(device["overlap_ns"], 0, "one queue");
    assert!(device["host_bound_ns"].as_f64().unwrap() > 50e6, "the host thought: {device}");
}
