//! `report`, `spans`, `info`, `check`: whole outputs.

use tempfile::tempdir;

use ringscope_format::{FileHeader, Kind, Mode, Status};

use crate::{
    analyze::analyze,
    made::{MS, Made},
    making,
};

#[test]
fn a_report_says_what_where_how_slow_and_what_stands_out() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let report = analyze(dir.path(), &["report", "run.trace"]).clean();
    assert_eq!(
        report,
        "\
run.trace
  2023-11-14 22:13:20 UTC, process 42
  5 events over 21.50 ms on 1 tracks; clock error at most 0.00 ns
  finished in order
  nothing lost

Performance categories, of all spans: nested ones count in their parents too
  category        from  count  count %     total  time %
  fast         0.00 ns      0      0.0   0.00 ns     0.0
  normal       1.00 ms      5    100.0  10.00 ms   100.0
  slow        10.00 ms      0      0.0   0.00 ns     0.0
  very slow  100.00 ms      0      0.0   0.00 ns     0.0

Spans
  name    count    total     self  self %     mean      p50      p95      p99      max  errors
  load        1  5.00 ms  5.00 ms    62.5  5.00 ms  5.00 ms  5.00 ms  5.00 ms  5.00 ms       1
  token       2  3.00 ms  1.00 ms    12.5  1.50 ms  1.50 ms  1.50 ms  1.50 ms  1.50 ms       0
  decode      2  2.00 ms  2.00 ms    25.0  1.00 ms  1.00 ms  1.00 ms  1.00 ms  1.00 ms       0

Errors
  name  kind  what  count  first at  last at  the last one said
  load        span      1   0.00 ns  0.00 ns

What stands out
  - `load` takes 62 % of all self time
      analyze slow --name load run.trace
  - `load` failed 1 of 1 times
      analyze errors run.trace
"
    );
}

#[test]
fn sections_can_be_asked_for_one_by_one() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let spans = analyze(dir.path(), &["report", "--section", "spans", "run.trace"]).clean();
    assert!(spans.starts_with("Spans\n"), "{spans}");
    assert_eq!(spans.lines().count(), 5);
}

#[test]
fn what_a_limit_leaves_out_is_one_row_that_adds_up() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let spans = analyze(dir.path(), &["spans", "--limit", "1", "run.trace"]).clean();
    assert_eq!(
        spans,
        "\
Spans
  name        count    total     self  self %     mean      p50      p95      p99      max  errors
  load            1  5.00 ms  5.00 ms    62.5  5.00 ms  5.00 ms  5.00 ms  5.00 ms  5.00 ms       1
  (2 others)      4  5.00 ms  3.00 ms    37.5  1.25 ms  1.25 ms  1.50 ms  1.50 ms  1.50 ms       0
  all of them: --limit 0
"
    );
}

#[test]
fn filters_say_what_is_in() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let names = |arguments: &[&str]| -> Vec<String> {
        let all =
            [&["spans", "run.trace", "--format", "csv", "--columns", "name,count"], arguments];
        let text = analyze(dir.path(), &all.concat()).clean();
        text.lines().skip(1).map(str::to_owned).collect()
    };
    assert_eq!(names(&[]), ["load,1", "token,2", "decode,2"]);
    assert_eq!(names(&["--name", "*o*", "--name", "!load"]), ["token,2", "decode,2"]);
    assert_eq!(names(&["--from", "15ms"]), ["token,1", "decode,1"]);
    assert_eq!(names(&["--to", "10ms"]), ["load,1"]);
    assert_eq!(names(&["--last", "2ms"]), ["token,1", "decode,1"]);
    assert_eq!(names(&["--from", "-2ms"]), ["token,1", "decode,1"]);
    assert_eq!(names(&["--min-duration", "1.5ms"]), ["load,1", "token,2"]);
    assert_eq!(names(&["--category", "fast"]), Vec::<String>::new());
    assert_eq!(names(&["--category", "slow", "--bounds", "1us,2ms,9ms"]), ["load,1"]);
    assert_eq!(names(&["--track", "mai?"]), ["load,1", "token,2", "decode,2"]);
    assert_eq!(names(&["--track", "other"]), Vec::<String>::new());
}

#[test]
fn self_time_is_that_of_the_span_whatever_is_filtered() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let only = ["spans", "run.trace", "--name", "token", "--format", "json"];
    let rows = analyze(dir.path(), &only).json();
    assert_eq!(rows["rows"][0]["self_ns"], 1_000_000);
}

#[test]
fn several_traces_are_one_or_apart() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("a.trace"));
    making::tokens(&dir.path().join("b.trace"));
    let base = ["spans", "a.trace", "b.trace", "--name", "load", "--format", "csv"];
    let together = analyze(dir.path(), &[&base[..], &["--columns", "name,count"]].concat()).clean();
    assert_eq!(together, "name,count\nload,2\n");
    let apart = [&base[..], &["--by", "trace", "--columns", "name,trace,count"]].concat();
    let apart = analyze(dir.path(), &apart).clean();
    assert_eq!(apart, "name,trace,count\nload,a.trace,1\nload,b.trace,1\n");
}

#[test]
fn a_whole_file_checks_out() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let check = analyze(dir.path(), &["check", "run.trace"]).clean();
    assert!(check.ends_with("  verdict    whole\n"), "{check}");
    let info = analyze(dir.path(), &["info", "run.trace"]).clean();
    assert!(info.contains("events     5 over 21.50 ms, 1 chunks, 3 names, 1 tracks"), "{info}");
}

#[test]
fn what_recording_took_is_of_the_time_since_it_began_also_in_a_dump_of_its_end() {
    let mut made = Made::with_header(FileHeader { mode: Mode::Dump, ..making::header() });
    let begun = making::header().created_tick;
    // A tenth of a second, in the second since the recording began.
    made.span("step", begun + 900 * MS, 50 * MS, Status::OK, &[]);
    made.reading(Kind::GAUGE, "recorder.drain_cpu_ns", begun + 1_000 * MS, 6 * MS);
    made.reading(Kind::GAUGE, "recorder.sealer_cpu_ns", begun + 1_000 * MS, 4 * MS);
    let report = made.finish().output(&["report"]);
    let wanted = "the recorder's own threads took 10.00 ms of CPU time in the whole recording of 1.00 s, \
                  1.00 % of a core\n";
    assert!(report.contains(wanted), "{report}");
}

#[test]
fn readings_that_no_recorder_takes_add_up_to_no_more_than_a_number_holds() {
    let mut made = Made::new();
    let begun = making::header().created_tick;
    made.reading(Kind::GAUGE, "recorder.drain_cpu_ns", begun + MS, u64::MAX);
    made.reading(Kind::GAUGE, "recorder.sealer_cpu_ns", begun + MS, u64::MAX);
    assert!(made.finish().output(&["report"]).contains("the recorder's own threads took "));
}

#[test]
fn what_a_short_recording_took_is_no_share_of_a_core_for_it_is_mostly_its_start() {
    let mut made = Made::new();
    let begun = making::header().created_tick;
    made.span("step", begun + 10 * MS, 5 * MS, Status::OK, &[]);
    made.reading(Kind::GAUGE, "recorder.drain_cpu_ns", begun + 20 * MS, 6 * MS);
    made.reading(Kind::GAUGE, "recorder.sealer_cpu_ns", begun + 20 * MS, 4 * MS);
    let report = made.finish().output(&["report"]);
    assert!(report.contains("own threads took 10.00 ms of CPU time\n"), "{report}");
}

#[test]
fn what_recording_took_is_said_to_be_of_its_beginning_if_the_last_reading_was_long_before_the_end()
{
    let mut made = Made::new();
    let begun = making::header().created_tick;
    made.reading(Kind::GAUGE, "recorder.drain_cpu_ns", begun + 30 * MS, 2 * MS);
    made.reading(Kind::GAUGE, "recorder.sealer_cpu_ns", begun + 30 * MS, MS);
    made.span("step", begun + 10 * MS, 900 * MS, Status::OK, &[]);
    let finished = made.finish();
    let report = finished.output(&["report"]);
    assert!(
        report.contains(
            "own threads took 3.00 ms of CPU time in the first 30.00 ms of the recording\n"
        ),
        "{report}"
    );
    let own_cost = finished.json(&["report"])["sections"]["header"]["own_cost"].clone();
    assert_eq!(own_cost, serde_json::json!({ "recorder_cpu_ns": 3e6, "within_ns": 3e7 }));
}

#[test]
fn tracks_on_which_nothing_was_recorded_are_told_from_those_that_threads_lists() {
    let mut made = Made::new();
    made.thread("idle");
    made.span("step", 0, 50 * MS, Status::OK, &[]);
    let finished = made.finish();
    let report = finished.output(&["report"]);
    assert!(report.contains("  1 events over 50.00 ms on 1 of 3 tracks; clock"), "{report}");
    let info = finished.output(&["info"]);
    assert!(info.contains("1 names, 1 of 3 tracks\n"), "{info}");
    let in_use = &finished.json(&["report"])["sections"]["header"]["tracks_in_use"];
    assert_eq!(in_use, &serde_json::json!(1));
    assert_eq!(finished.json(&["threads"])["rows"].as_array().unwrap().len(), 1);
}

/// A later file of a rotation: its recorder had taken 29 s before, and takes 4 ms a second.
fn later_file(file_number: u32) -> Made {
    let header = making::header();
    let mut made = Made::with_header(FileHeader { file_number, mode: Mode::Full, ..header });
    let begun = header.created_tick;
    made.span("step", begun, 9_000 * MS, Status::OK, &[]);
    for second in 1..=6 {
        let (at, taken) = (begun + second * 1_000 * MS, 7_200 * MS + second * MS);
        made.reading(Kind::GAUGE, "recorder.drain_cpu_ns", at, taken);
        made.reading(Kind::GAUGE, "recorder.sealer_cpu_ns", at, 3 * taken);
    }
    made
}

#[test]
fn what_recording_took_is_of_the_time_between_two_readings_in_later_files_of_a_rotation() {
    let finished = later_file(3).finish();
    let report = finished.output(&["report"]);
    let wanted = "own threads took 20.00 ms of CPU time in 5.00 s of this file, 0.40 % of a core\n";
    assert!(report.contains(wanted), "{report}");
    let own_cost = finished.json(&["report"])["sections"]["header"]["own_cost"].clone();
    assert_eq!(own_cost, serde_json::json!({ "recorder_cpu_ns": 2e7, "within_ns": 5e9 }));
}

#[test]
fn what_recording_took_is_not_told_of_a_single_reading_that_counts_from_another_file_on() {
    let header = FileHeader { file_number: 1, mode: Mode::Full, ..making::header() };
    let mut made = Made::with_header(header);
    made.reading(Kind::GAUGE, "recorder.drain_cpu_ns", header.created_tick + MS, 7_200 * MS);
    made.reading(Kind::GAUGE, "recorder.sealer_cpu_ns", header.created_tick + MS, 7_200 * MS);
    let report = made.finish().output(&["report"]);
    assert!(!report.contains("own threads"), "{report}");
}

#[test]
fn what_recording_took_is_of_the_part_that_was_cut_out_and_of_no_merged_trace() {
    let finished = later_file(3).finish();
    let dir = tempdir().unwrap();
    let source = finished.path.to_str().unwrap();
    let made = |arguments: &[&str]| {
        let [command, rest @ ..] = arguments else { unreachable!() };
        let edit = analyze(dir.path(), &[&[*command, source, "-o", "part.trace"], rest].concat());
        assert_eq!(edit.code, 0, "{}", edit.stderr);
        analyze(dir.path(), &["report", "part.trace"]).clean()
    };
    let report = made(&["cut", "--from", "1.5s", "--to", "4.5s"]);
    let wanted = "own threads took 8.00 ms of CPU time in 2.00 s of this file, 0.40 % of a core\n";
    assert!(report.contains(wanted), "{report}");
    let next = later_file(4).finish();
    let report = made(&["merge", next.path.to_str().unwrap()]);
    assert!(!report.contains("own threads"), "{report}");
}

#[test]
fn a_report_of_a_flight_recorder_says_why_it_was_dumped_and_how_much_it_covers() {
    let dir = tempdir().unwrap();
    let dump = {
        let _one_at_a_time = making::RECORDING.lock();
        let recorder = ringscope::Recorder::builder()
            .path(dir.path().join("flight.trace"))
            .keep_last(std::time::Duration::from_secs(30), 1 << 20)
            .start()
            .unwrap();
        for _ in 0..100 {
            drop(ringscope::span!("step"));
        }
        let dump = recorder.dump().unwrap();
        recorder.finish().unwrap();
        dump
    };
    let dump = dump.file_name().unwrap().to_str().unwrap();
    let cut = analyze(dir.path(), &["cut", dump, "-o", "part.trace", "--name", "step"]);
    assert_eq!(cut.code, 0, "{}", cut.stderr);
    let line = |trace: &str| {
        let report = analyze(dir.path(), &["report", "--section", "header", trace]);
        let line = report.stdout.lines().find(|line| line.contains("flight recorder"));
        line.unwrap_or_else(|| panic!("{}", report.stdout)).to_owned()
    };
    let is = |said: &str, start: &str| {
        assert!(said.starts_with(start), "{said}");
        assert!(said.ends_with("s, asked to keep the last 30.00 s"), "{said}");
    };
    let why = "dump of a flight recorder, asked for by the program";
    is(&line(dump), &format!("  {why}; covers "));
    is(&line("flight.trace"), "  flight recorder; covers ");
    assert_eq!(line("part.trace"), format!("  made of a {why}; asked to keep the last 30.00 s"));
    let json = analyze(dir.path(), &["report", dump, "--format", "json"]).json();
    let flight = &json["trace"]["flight_recorder"];
    assert_eq!(flight["dump_reason"], "asked for by the program");
    assert_eq!(flight["window_ns"], 30e9);
    assert!(flight["covers_ns"].as_f64().unwrap() > 0.0, "{flight}");
    // Vitals count the whole recording, and the readings of the recorder are none of it.
    let report = analyze(dir.path(), &["report", "--section", "header", dump]);
    assert!(report.stdout.contains("  100 events"), "{}", report.stdout);
}
