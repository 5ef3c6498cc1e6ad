//! Device work whose times are coarse, and work that has none: both are said wherever
//! figures of it are shown.

use std::path::Path;

use ringscope_format::{Kind, Record, TrackKind, Value, ValueType};
use tempfile::tempdir;

use crate::{
    analyze::{analyze, analyze_piped},
    making::{self, THREAD, Writer},
};

/// Events that say of how much work there is no time.
fn untimed(writer: &mut Writer, all: &[(u64, &str, u64)]) {
    let (main, name) = (writer.track(THREAD, 1, "main"), writer.name("kernel.untimed"));
    let [device, count, reason] = ["device", "count", "reason"].map(|key| writer.name(key));
    let gpu = writer.name("gpu 0");
    for &(at, why, n) in all {
        let event = Record::point(Kind::EVENT, name, main, at, (ValueType::None, 0));
        let why = writer.name(why);
        let fields =
            [(device, Value::Name(gpu)), (count, Value::U64(n)), (reason, Value::Name(why))];
        writer.event(event, &fields, &[]).unwrap();
    }
}

/// Ten kernels of 100 ns each, the first so many of them timed by the host.
fn kernels(path: &Path, coarse: u64, without: &[(u64, &str, u64)]) {
    making::trace(path, |writer| {
        let (queue, name) = (writer.track(TrackKind::GpuQueue, 1, "gpu 0"), writer.name("gemm"));
        let [source, uncertainty] = ["source", "uncertainty"].map(|key| writer.name(key));
        let ways = ["submit to done", "pass boundary"].map(|way| writer.name(way));
        for at in 0..10_u64 {
            let (way, off) = if at < coarse { (ways[0], 50 + at) } else { (ways[1], 5) };
            let fields = [(source, Value::Name(way)), (uncertainty, Value::Ticks(off))];
            let kernel = Record::timed(Kind::KERNEL, name, queue, at * 1_000, 100);
            writer.event(kernel, &fields, &[]).unwrap();
        }
        untimed(writer, without);
    });
}

#[test]
fn coarse_and_lost_work_is_told_at_the_head_of_kernels_and_in_report() {
    let dir = tempdir().unwrap();
    let lost = [(100, "failed", 30), (5_000, "device lost", 10), (9_000, "failed", 10)];
    kernels(&dir.path().join("run.trace"), 5, &lost);
    let shown = analyze_piped(dir.path(), &["kernels", "run.trace"]).clean();
    let head = "Kernels, copies and fills; 50.0 % of the time is not of single ones, see Timing; \
                50 more have NO TIME: 40 failed, 10 device lost\n";
    assert!(shown.starts_with(head), "{shown}");
    let tables = "\
Timing of device work
  source          of it alone  count  count %      total  time %  off by at most
  pass boundary   yes              5     50.0  500.00 ns    50.0         5.00 ns
  submit to done  no               5     50.0  500.00 ns    50.0        54.00 ns
  submit to done: the host's, from handing that in to hearing that it is done

Device work without a time, which is in no figure
  device  reason       count
  gpu 0   failed          40
  gpu 0   device lost     10
";
    assert!(shown.ends_with(tables), "{shown}");
    let report = analyze_piped(dir.path(), &["report", "run.trace"]).clean();
    let line = "  nothing lost\n  NO TIME of device work: 40 failed, 10 device lost\n";
    assert!(report.contains(line) && report.contains(tables) && report.contains(head), "{report}");
    let header = analyze(dir.path(), &["report", "run.trace", "--section", "header"]).clean();
    assert!(header.contains(line), "{header}");
}

#[test]
fn machines_get_sources_and_reasons() {
    let dir = tempdir().unwrap();
    kernels(&dir.path().join("run.trace"), 2, &[(100, "failed", 3)]);
    let json = analyze(dir.path(), &["kernels", "run.trace", "--format", "json"]).json();
    let timing = &json["sections"]["timing"];
    assert_eq!(timing[0]["source"], "pass boundary");
    assert_eq!((&timing[0]["of_the_work_alone"], &timing[0]["count"]), (&true.into(), &8.into()));
    assert_eq!(timing[1]["of_the_work_alone"], false);
    assert_eq!((&timing[1]["total_ns"], &timing[1]["time_percent"]), (&200.into(), &20.into()));
    assert_eq!(timing[1]["uncertainty_ns"], 51);
    let lost = &json["sections"]["untimed"][0];
    assert_eq!((&lost["reason"], &lost["count"]), (&"failed".into(), &3.into()));
    let json = analyze(dir.path(), &["report", "run.trace", "--format", "json"]).json();
    assert_eq!(json["sections"]["header"]["device_work_without_a_time"], 3);
    assert_eq!(json["sections"]["untimed"][0]["count"], 3);
}

#[test]
fn exact_times_need_no_words() {
    let dir = tempdir().unwrap();
    kernels(&dir.path().join("run.trace"), 0, &[]);
    let shown = analyze(dir.path(), &["kernels", "run.trace"]).clean();
    assert!(shown.starts_with("Kernels, copies and fills\n"), "{shown}");
    assert!(!shown.contains("Timing") && !shown.contains("without a time"), "{shown}");
    let report = analyze(dir.path(), &["report", "run.trace"]).clean();
    assert!(!report.contains("NO TIME") && !report.contains("Timing"), "{report}");
}

#[test]
fn work_that_is_all_lost_is_told_and_hostile_counts_do_not_overflow() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        untimed(writer, &[(10, "failed", u64::MAX), (20, "failed", 7), (900, "not completed", 1)]);
    });
    let shown = analyze(dir.path(), &["kernels", "run.trace"]).clean();
    let told = "18,446,744,073,709,551,615 failed, 1 not completed";
    assert!(shown.contains(told) && shown.contains("no kernels"), "{shown}");
    let report = analyze(dir.path(), &["report", "run.trace"]).clean();
    assert!(report.contains(told), "{report}");
    // Of the filters, those of time apply.
    let late = ["kernels", "run.trace", "--from", "500ns", "--name", "gemm"];
    let shown = analyze(dir.path(), &late).clean();
    assert!(shown.contains("1 more have NO TIME: 1 not completed"), "{shown}");
}
