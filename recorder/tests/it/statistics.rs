//! Rolling figures in process are those of what was recorded.

use std::{fs, thread, time::Duration};

use ringscope::{
    Recorder, init_from_env, span,
    statistics::{LatencyRow, MemoryRow, Statistics},
    vocabulary::{Allocate, DeviceMemory, KvCacheGrow, MemoryPool, Release, WeightTensor},
};
use serde_json::Value;

use crate::child::{Scene, child, wait_until};

fn work() {
    for _ in 0..50 {
        let _generate = span!("generate");
        for _ in 0..2 {
            let _forward = span!("forward");
            drop(span!("attention"));
            thread::sleep(Duration::from_micros(100));
        }
    }
    drop(span!("attention"));
    for id in 0..3_u64 {
        Allocate::new().bytes(1_000).kind("scratch").device(0).id(id).record();
    }
    Release::new().id(1_u64).record();
    Allocate::new().bytes(500).kind("tensor").device("cpu").record();
    Release::new().bytes(200).kind("tensor").record();
    DeviceMemory::new().device(0).allocated(2_000).total(8_000).record();
    MemoryPool::new().pool("arena").used(7).capacity(9).record();
    (0..3).for_each(|_| KvCacheGrow::new().cache("layer 0").bytes(64).record());
    for block in 0..2 {
        let path = format!("model.blocks.{block}.attention.q.weight");
        WeightTensor::new().path(&path).bytes(4_096).record();
    }
}

/// Waits until all of it has been seen.
fn seen(recorder: &Recorder, statistics: &Statistics) {
    recorder.flush();
    let weights = |row: &MemoryRow| row.path == ["weights"] && row.bytes == 8_192;
    wait_until("the last event", || statistics.memory().iter().any(weights));
    // The first reading may have come before anybody watched; the next one comes after a second.
    let reading = |row: &MemoryRow| row.path == ["process", "resident"];
    wait_until("a reading", || statistics.memory().iter().any(reading));
}

#[test]
fn figures_by_name_by_path_and_of_memory() {
    child(|scene| {
        let recorder = scene.builder().readings(Some(Duration::from_secs(1))).start().unwrap();
        let statistics = recorder.statistics(Duration::from_secs(600));
        work();
        seen(&recorder, &statistics);
        let paths = statistics.by_path();
        let shown: Vec<(String, u64)> =
            paths.iter().map(|row| (row.path.join(" > "), row.count)).collect();
        let expected = [
            ("attention", 1),
            ("generate", 50),
            ("generate > forward", 100),
            ("generate > forward > attention", 100),
        ];
        assert_eq!(shown, expected.map(|(path, count)| (path.to_owned(), count)));
        let names = statistics.by_name();
        let of =
            |name: &str| -> &LatencyRow { names.iter().find(|row| row.path == [name]).unwrap() };
        assert_eq!(
            (names.len(), of("attention").count, of("attention").total_count),
            (3, 101, 101)
        );
        assert_eq!(names[0].path, ["generate"]);
        let forward = of("forward");
        assert!(forward.min >= Duration::from_micros(100));
        assert!(forward.min <= forward.p50 && forward.p50 <= forward.p95, "{forward:?}");
        assert!(forward.p95 <= forward.p99 && forward.p99 <= forward.max, "{forward:?}");
        assert!(forward.min <= forward.mean && forward.mean <= forward.max, "{forward:?}");
        assert_eq!(forward.mean.as_nanos(), forward.sum.as_nanos() / 100);
        assert!(of("generate").sum >= forward.sum);

        let memory = statistics.memory();
        let bytes = |path: &[&str]| {
            let row = memory.iter().find(|row| row.path == path);
            row.map(|row| (row.bytes, row.peak)).unwrap_or_else(|| panic!("{path:?}: {memory:#?}"))
        };
        assert_eq!(bytes(&["allocated", "0", "scratch"]), (2_000, 3_000));
        assert_eq!(bytes(&["allocated", "host", "tensor"]), (300, 500));
        assert_eq!(bytes(&["allocated"]), (2_300, 3_000));
        assert_eq!(bytes(&["device", "0", "allocated"]), (2_000, 2_000));
        assert_eq!(bytes(&["pool", "arena", "used"]), (7, 7));
        assert_eq!(bytes(&["kv cache", "layer 0"]), (192, 192));
        assert_eq!(bytes(&["weights", "model", "blocks", "1", "attention"]), (4_096, 4_096));
        assert!(bytes(&["process", "resident"]).0 > 1 << 20);
        assert_eq!(statistics.lost(), 0);
        recorder.finish().unwrap();
        assert!(!statistics.by_name().is_empty(), "the handle outlives the recording");
    })
    .run()
    .succeeded();
}

#[test]
fn memory_is_paired_by_id_and_device_as_the_analyzer_does_it() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let statistics = recorder.statistics(Duration::from_secs(600));
        for (device, bytes) in [(0_u64, 1_000), (1, 200)] {
            Allocate::new().bytes(bytes).kind("scratch").device(device).id(7_u64).record();
        }
        Release::new().id(7_u64).device(0_u64).record();
        Allocate::new().bytes(50).kind("tensor").id(8_u64).record();
        Allocate::new().bytes(3).kind("tensor").device(1_u64).id(8_u64).record();
        // Of no device: the one of the host, and where there is none the last.
        Release::new().id(8_u64).record();
        Allocate::new().bytes(9).kind("cache").device(2_u64).id(9_u64).record();
        Release::new().id(9_u64).record();
        DeviceMemory::new().device("cpu").allocated(10).record();
        DeviceMemory::new().allocated(30).record();
        recorder.flush();
        let has = |row: &MemoryRow| row.path == ["device", "host", "allocated"] && row.bytes == 30;
        wait_until("the last event", || statistics.memory().iter().any(has));
        let memory = statistics.memory();
        let shown: Vec<(String, i64)> =
            memory.iter().map(|row| (row.path.join(" "), row.bytes)).collect();
        let expected = [
            ("allocated", 203),
            ("allocated 0", 0),
            ("allocated 0 scratch", 0),
            ("allocated 1", 203),
            ("allocated 1 scratch", 200),
            ("allocated 1 tensor", 3),
            ("allocated 2", 0),
            ("allocated 2 cache", 0),
            ("allocated host", 0),
            ("allocated host tensor", 0),
            ("device host allocated", 30),
        ];
        let of_program = shown.into_iter().filter(|(path, _)| !path.starts_with("process"));
        let of_program: Vec<_> = of_program.collect();
        assert_eq!(of_program, expected.map(|(path, bytes)| (path.to_owned(), bytes)));
        recorder.finish().unwrap();
    })
    .run()
    .succeeded();
}

#[test]
fn the_total_of_a_name_never_goes_down() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let statistics = recorder.statistics(Duration::from_millis(200));
        let mut early = 0;
        // Again and again: what is seen late is past the window.
        wait_until("both paths to be seen", || {
            let around = span!("early");
            (0..5).for_each(|_| drop(span!("token")));
            drop(around);
            early += 5;
            recorder.flush();
            statistics.by_path().len() == 2
        });
        wait_until("them to be forgotten", || statistics.by_path().is_empty());
        let mut names = Vec::new();
        wait_until("the name to be back on another path", || {
            drop(span!("token"));
            recorder.flush();
            names = statistics.by_name();
            !names.is_empty()
        });
        assert_eq!(names[0].path, ["token"]);
        assert!(names[0].total_count >= early + names[0].count, "{early} and {:?}", names[0]);
        recorder.finish().unwrap();
    })
    .run()
    .succeeded();
}

#[test]
fn what_is_past_the_window_is_out_of_it() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let statistics = recorder.statistics(Duration::from_millis(200));
        // Again and again: what is seen late is past the window.
        wait_until("it to be seen", || {
            drop(span!("again"));
            recorder.flush();
            !statistics.by_name().is_empty()
        });
        wait_until("it to be forgotten", || statistics.by_name().is_empty());
        recorder.finish().unwrap();
    })
    .run()
    .succeeded();
}

#[test]
fn what_they_missed_is_known_also_when_the_recording_is_over() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let statistics = recorder.statistics(Duration::from_secs(600));
        let mut recorded = 0;
        wait_until("something to be missed", || {
            (0..100_000).for_each(|_| drop(span!("token")));
            recorded += 100_000;
            // As many as the ring has room for, so that it is the figures alone that miss some.
            assert!(recorder.flush());
            statistics.lost() > 0
        });
        let count = || statistics.by_name().iter().map(|row| row.total_count).sum::<u64>();
        // Finishing waits two seconds, and a busy machine may need more for what is queued.
        wait_until("the rest to be seen", || count() + statistics.lost() == recorded);
        let summary = recorder.finish().unwrap();
        let seen = count();
        assert_eq!((summary.stored, summary.lost), (recorded, 0));
        assert!(statistics.lost() > 0);
        assert_eq!(seen + statistics.lost(), summary.stored);
        let note = format!("exporter statistics: too slow for {} events", statistics.lost());
        assert!(summary.problems.iter().any(|it| it.to_string() == note), "{summary}");
    })
    .run()
    .succeeded();
}

fn rows(end: &crate::child::End, what: &str) -> Vec<Value> {
    let names = end.files(".jsonl");
    let prefix = format!("run.{what}-20");
    let mut names = names.iter().filter(|name| name.starts_with(&prefix));
    let (name, none) = (names.next().expect(what), names.next());
    assert_eq!(none, None);
    assert!(name.ends_with("Z.jsonl"), "{name}");
    let text = fs::read_to_string(end.path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn rows_are_written_at_an_interval_to_files_named_after_the_time() {
    let end = child(|scene: &Scene| {
        std::env::set_current_dir(scene.path("")).unwrap();
        let recorder = init_from_env().expect("it was asked for");
        work();
        thread::sleep(Duration::from_millis(2_300));
        drop(span!("late"));
        recorder.finish().unwrap();
    });
    let end = end
        .environment("RINGSCOPE_TRACE", "run.trace")
        .environment("RINGSCOPE_JSONL", "run.jsonl")
        .environment("RINGSCOPE_JSONL_INTERVAL", "1");
    let end = end.run().succeeded();
    assert_eq!(end.stderr, "");
    let latency = rows(&end, "latency");
    let forward: Vec<&Value> =
        latency.iter().filter(|row| row["path"][1] == "forward" && row["depth"] == 1).collect();
    // Each once, in the row of the interval it was in.
    let counts = forward.iter().map(|row| row["count"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), 100, "{latency:#?}");
    for row in forward {
        assert_eq!(row["of"], "calls");
        assert!(row["p99_ns"].as_u64().unwrap() >= 100_000);
    }
    assert_eq!(latency.last().unwrap()["path"][0], "late");
    let memory = rows(&end, "memory");
    let scratch = memory.iter().rfind(|row| row["path"][2] == "scratch").unwrap();
    assert_eq!((&scratch["bytes"], &scratch["peak_bytes"]), (&2_000.into(), &3_000.into()));
    assert!(end.path("run.jsonl").exists());
}
