//! Exports that sum up: folded stacks, pprof and OpenMetrics.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ringscope_format::{Kind, Record, Status, TrackKind, Value, ValueType};
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    export_made::{everything, export},
    making,
    nested_traces::{make, run, steps, sums},
    protobuf::Message,
};

#[test]
fn folded_stacks_have_own_time_and_frames_that_cannot_be_mistaken() {
    let dir = tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let export = |more: &[&str]| {
        analyze(dir.path(), &[&["export", "run.trace", "--to", "folded"], more].concat()).clean()
    };
    assert_eq!(export(&[]), "load 5000000\ntoken 1000000\ntoken;decode 2000000\n");
    assert_eq!(
        export(&["--per-track"]),
        "main;load 5000000\nmain;token 1000000\nmain;token;decode 2000000\n"
    );
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (name, track) = (writer.name("a;b\nc d"), writer.track(making::THREAD, 1, "t"));
        writer.event(making::span(name, track, 0, 10), &[], &[]).unwrap();
    });
    assert_eq!(export(&[]), "a:b\\nc d 10\n");
}

/// Samples of a profile by their stacks, outermost first.
fn samples(bytes: &[u8]) -> BTreeMap<Vec<String>, (u64, u64)> {
    let profile = Message::parse(bytes);
    let texts = profile.texts(6);
    assert_eq!(texts[0], "");
    let text = |at: Option<u64>| texts[at.unwrap() as usize].clone();
    let types: Vec<(String, String)> =
        profile.messages(1).iter().map(|it| (text(it.number(1)), text(it.number(2)))).collect();
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(types, [pair("spans", "count"), pair("time", "nanoseconds")]);
    assert_eq!(text(profile.number(14)), "time");
    let functions: BTreeMap<u64, String> =
        profile.messages(5).iter().map(|it| (it.number(1).unwrap(), text(it.number(2)))).collect();
    let locations: BTreeMap<u64, String> = profile
        .messages(4)
        .iter()
        .map(|it| {
            let function = it.message(4).unwrap().number(1).unwrap();
            (it.number(1).unwrap(), functions[&function].clone())
        })
        .collect();
    assert!(!locations.contains_key(&0));
    let mut samples = BTreeMap::new();
    for sample in profile.messages(2) {
        let frames = sample.packed(1).into_iter().rev().map(|id| locations[&id].clone()).collect();
        let [spans, time] = sample.packed(2)[..] else { panic!("two values") };
        assert!(samples.insert(frames, (spans, time)).is_none());
    }
    samples
}

#[test]
fn pprof_keeps_names_that_are_empty_or_those_of_its_types() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    making::trace(&path, |writer| {
        let track = writer.track(making::THREAD, 1, "t");
        for (at, name) in ["", "time", "a;b"].into_iter().enumerate() {
            let name = writer.name(name);
            writer.event(making::span(name, track, 20 * at as u64, 10), &[], &[]).unwrap();
        }
    });
    let found = samples(&run(&["export", path.to_str().unwrap(), "--to", "pprof"]).stdout);
    let expected = ["", "time", "a;b"].map(|name| (vec![name.to_owned()], (1, 10)));
    assert_eq!(found, BTreeMap::from(expected));
}

#[test]
fn openmetrics_has_every_family_with_its_labels() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let main = writer.track(TrackKind::Thread, 7, "main");
        let queue = writer.track(TrackKind::GpuQueue, 1, "gpu 1 stream 3");
        let name = writer.name("a \"b\"\\\nc");
        let (gemm, resident) = (writer.name("gemm"), writer.name("process.resident_bytes"));
        let (memory, oops) = (writer.name("memory.device"), writer.name("oops"));
        let (device, allocated) = (writer.name("device"), writer.name("allocated"));
        let mut put = |record, fields: &[(u32, Value<'_>)]| {
            writer.event(record, fields, &[]).unwrap();
        };
        let failed = Record { status: Status::ERROR, ..making::span(name, main, 0, 1_000) };
        put(failed, &[]);
        put(making::span(name, main, 2_000, 1_001), &[]);
        put(Record::timed(Kind::KERNEL, gemm, queue, 4_000, 250), &[]);
        put(Record::timed(Kind::KERNEL, gemm, queue, 4_750, 250), &[]);
        let bytes = |n| (ValueType::U64, n);
        put(Record::point(Kind::GAUGE, resident, main, 6_000, bytes(900)), &[]);
        put(Record::point(Kind::GAUGE, resident, main, 7_000, bytes(800)), &[]);
        let fields = [(device, Value::Text("cuda:1")), (allocated, Value::U64(512))];
        put(Record::point(Kind::EVENT, memory, main, 7_500, (ValueType::None, 0)), &fields);
        put(Record::point(Kind::ERROR, oops, main, 8_000, (ValueType::None, 0)), &[]);
    });
    let text = analyze(dir.path(), &["export", "run.trace", "--to", "openmetrics"]).clean();
    // Buckets are the next test's.
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("_bucket")).collect();
    let host = r#"name="a \"b\"\\\nc",kind="span",device="host""#;
    let gpu = r#"name="gemm",kind="kernel",device="1",result="unknown""#;
    let duration = "ringscope_operation_duration_seconds";
    let expected = [
        "# TYPE ringscope_operations counter".to_owned(),
        "# HELP ringscope_operations Timed events that have ended.".to_owned(),
        format!("ringscope_operations_total{{{host},result=\"error\"}} 1"),
        format!("ringscope_operations_total{{{host},result=\"unknown\"}} 1"),
        format!("ringscope_operations_total{{{gpu}}} 2"),
        "# TYPE ringscope_errors counter".to_owned(),
        "# HELP ringscope_errors Timed events that failed, and errors.".to_owned(),
        format!("ringscope_errors_total{{{host}}} 1"),
        r#"ringscope_errors_total{name="oops",kind="error",device="host"} 1"#.to_owned(),
        format!("# TYPE {duration} histogram"),
        format!("# UNIT {duration} seconds"),
        format!("# HELP {duration} How long timed events took."),
        format!("{duration}_count{{{host},result=\"error\"}} 1"),
        format!("{duration}_sum{{{host},result=\"error\"}} 0.000001000"),
        format!("{duration}_count{{{host},result=\"unknown\"}} 1"),
        format!("{duration}_sum{{{host},result=\"unknown\"}} 0.000001001"),
        format!("{duration}_count{{{gpu}}} 2"),
        format!("{duration}_sum{{{gpu}}} 0.000000500"),
        "# TYPE ringscope_memory_usage_bytes gauge".to_owned(),
        "# UNIT ringscope_memory_usage_bytes bytes".to_owned(),
        "# HELP ringscope_memory_usage_bytes Memory in use at the last reading.".to_owned(),
        r#"ringscope_memory_usage_bytes{name="memory.device",kind="event",device="cuda:1"} 512"#
            .to_owned(),
        r#"ringscope_memory_usage_bytes{name="process.resident_bytes",kind="gauge",device="host"} 800"#
            .to_owned(),
        "# TYPE ringscope_gpu_utilization_ratio gauge".to_owned(),
        "# UNIT ringscope_gpu_utilization_ratio ratio".to_owned(),
        "# HELP ringscope_gpu_utilization_ratio Share of the time from the first to the last work \
         in which any ran."
            .to_owned(),
        r#"ringscope_gpu_utilization_ratio{device="1"} 0.5"#.to_owned(),
        "# EOF".to_owned(),
    ];
    assert_eq!(lines, expected);
    // A duration that equals a bound is within it.
    let bucket = |result: &str, le: &str| {
        format!("{duration}_bucket{{{host},result=\"{result}\",le=\"{le}\"}} ")
    };
    assert!(text.contains(&(bucket("error", "1e-06") + "1\n")));
    assert!(text.contains(&(bucket("unknown", "1e-06") + "0\n")));
    assert!(text.contains(&(bucket("unknown", "2.5e-06") + "1\n")));
}

#[test]
fn what_is_no_stack_is_not_folded() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    let run = analyze(dir.path(), &["export", "run.trace", "--to", "folded"]);
    let said = "analyze: stacks are of threads: the work of devices is left out; chrome and perfetto \
                have it\n";
    assert_eq!((run.code, run.stderr.as_str()), (0, said));
    assert_eq!(run.stdout, "step \"1\"\\u{1b} 180\nstep \"1\"\\u{1b};launch 20\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn stacks_add_up_to_the_spans(steps in steps(120), loses in any::<bool>()) {
        let made = make(&steps, loses);
        let expected = sums(&made, |at, _| made.path(at));
        let samples = samples(&export(&made, "pprof"));
        let of_pprof: BTreeMap<_, _> =
            expected.iter().map(|(path, sum)| (path.clone(), (sum.0, sum.2))).collect();
        prop_assert_eq!(samples, of_pprof);
        let folded = String::from_utf8(export(&made, "folded")).unwrap();
        let lines: BTreeMap<String, u64> = folded
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap())
            .map(|(stack, ns)| (stack.to_owned(), ns.parse().unwrap()))
            .collect();
        let of_folded: BTreeMap<String, u64> = expected
            .iter()
            .filter(|(_, sum)| sum.2 > 0)
            .map(|(path, sum)| (path.join(";"), sum.2))
            .collect();
        prop_assert_eq!(lines, of_folded);
    }

    #[test]
    fn histograms_equal_naive_ones(
        durations in prop::collection::vec((0_u32..2, 0_u32..11, 1_u64..10), 1..80),
    ) {
        let dir = tempdir().unwrap();
        let spans: Vec<(u32, u64)> = durations
            .iter()
            .map(|&(name, power, digit)| (name, digit * 10_u64.pow(power) / 2))
            .collect();
        making::trace(&dir.path().join("run.trace"), |writer| {
            let names = [writer.name("n0"), writer.name("n1")];
            let track = writer.track(making::THREAD, 1, "t");
            let mut now = 0;
            for &(name, duration) in &spans {
                let record = making::span(names[name as usize], track, now, duration);
                writer.event(record, &[], &[]).unwrap();
                now += duration + 1;
            }
        });
        let text = analyze(dir.path(), &["export", "run.trace", "--to", "openmetrics"]).clean();
        for number in 0..2 {
            let of_name: Vec<u64> =
                spans.iter().filter(|it| it.0 == number).map(|it| it.1).collect();
            let marker = format!("{{name=\"n{number}\",");
            let mut buckets = 0;
            for line in text.lines().filter(|line| line.contains(&marker)) {
                let (series, value) = line.rsplit_once(' ').unwrap();
                if let Some((_, bound)) = series.split_once("le=\"") {
                    let bound: f64 =
                        bound.trim_end_matches("\"}").replace("+Inf", "inf").parse().unwrap();
                    let bound_ns = (bound * 1e9).round();
                    let within = of_name.iter().filter(|&&ns| ns as f64 <= bound_ns).count();
                    prop_assert_eq!(value, within.to_string(), "{}", line);
                    buckets += 1;
                } else if series.contains("_sum{") {
                    let sum: u64 = of_name.iter().sum();
                    let ns: u64 = value.replace('.', "").parse().unwrap();
                    prop_assert_eq!(ns, sum);
                } else {
                    prop_assert_eq!(value, of_name.len().to_string(), "{}", line);
                }
            }
            prop_assert_eq!(buckets, if of_name.is_empty() { 0 } else { 23 });
        }
    }
}
