//! What time it was, and what recording cost.

use std::{
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ringscope::{ThreadHandle, event, span};
use ringscope_format::{Counter, OwnedValue, TrackKind};

use crate::child::child;

fn wall_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

#[test]
fn clock_pairs_through_the_run_fit_and_give_the_time_of_day() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        scene.say("before", wall_ns());
        event!("early");
        scene.say("between", wall_ns());
        thread::sleep(Duration::from_millis(1_300));
        event!("late");
        scene.say("after", wall_ns());
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = end.trace();
    let clock = told.trace.clock();
    // At the start, three soon after it, one a second, one at the end.
    assert!(clock.pairs() >= 6, "{}", clock.pairs());
    assert_eq!((clock.jumps(), clock.suspends()), (&[][..], &[][..]));
    // A few hundred nanoseconds; more only where the machine stops us between two reads.
    let error = clock.error_ns().unwrap();
    assert!(error > 0.0 && error < 1e6, "{error}");
    let nominal = told.trace.header().nominal_hz as f64;
    assert!((nominal * clock.ns_per_tick() / 1e9 - 1.0).abs() < 0.02);
    let (early, late) = (told.only("early").start, told.only("late").start);
    assert!(clock.ns(late - early) >= 1.3e9);
    // The wall clock may be steered meanwhile, by far less than this.
    let slack = 20_000_000;
    let wall = |tick| clock.wall_ns(tick) as u64;
    assert!((end.number("before") - slack..=end.number("between") + slack).contains(&wall(early)));
    assert!((end.number("between") - slack..=end.number("after") + slack).contains(&wall(late)));
    let created = told.trace.header().created_wall_ns as u64;
    assert!(created <= end.number("before") + slack);
    let mono = clock.mono_ns(late) - clock.mono_ns(early);
    assert!((mono as f64 / clock.ns(late - early) - 1.0).abs() < 1e-3);
}

/// What machines without a counter to rely on do.
#[test]
fn recording_by_the_operating_systems_clock_records_the_same() {
    let end = child(|scene| {
        let recorder = scene.builder().rules("sampled=1/2".parse().unwrap()).start().unwrap();
        let thread = ThreadHandle::current();
        {
            let _outer = span!("outer");
            let _inner = span!(in thread, "inner", x = 1_u8);
            event!("between");
            thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..10 {
            drop(span!("sampled"));
        }
        recorder.finish().unwrap();
    });
    let told = end.environment("RINGSCOPE_CLOCK", "os").run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!(told.trace.header().counter, Counter::MonotonicNs);
    let (outer, inner) = (told.only("outer"), told.only("inner"));
    assert!(outer.end - outer.start >= 5_000_000, "not nanoseconds");
    assert!(outer.start <= inner.start && inner.end <= outer.end);
    assert_eq!((outer.depth, inner.depth, inner.number("x")), (0, 1, 1));
    assert!(told.only("between").start >= inner.start);
    assert_eq!(told.named("sampled").len(), 5);
}

#[test]
fn even_the_shortest_recording_has_a_clock() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        event!("here");
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    assert!(told.trace.clock().pairs() >= 1);
    let now = wall_ns() as i64;
    let then = told.trace.clock().wall_ns(told.only("here").start);
    assert!((now - 600_000_000_000..=now).contains(&then));
}

#[test]
fn every_trace_carries_the_price_of_having_been_recorded() {
    let end = child(|scene| {
        let builder = scene.builder().readings(Some(Duration::from_millis(20)));
        let recorder = builder.start().unwrap();
        let ballast = vec![1_u8; 32 << 20];
        // Long enough for the peak of memory to be read twice.
        for _ in 0..20 {
            (0..1_000).for_each(|_| drop(span!("step")));
            thread::sleep(Duration::from_millis(20));
        }
        std::hint::black_box(ballast);
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (20_000, 0));
        assert!(summary.own >= 24);
        scene.say("own", summary.own);
    });
    let end = end.run().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up();
    assert_eq!(told.own.len() as u64, end.number("own"));
    let own: Vec<_> =
        told.trace.tracks().iter().filter(|track| track.kind == TrackKind::Recorder).collect();
    assert_eq!((own.len(), own[0].name.as_str()), (1, "ringscope-seal"));
    let readings = |name: &str| -> Vec<u64> {
        let named = told.own.iter().filter(|event| event.name == name);
        let values = named.map(|event| match event.value {
            Some(OwnedValue::U64(value)) => value,
            ref other => panic!("{name} is {other:?}"),
        });
        values.collect()
    };
    for name in [
        "process.cpu_ns",
        "process.minor_faults",
        "process.major_faults",
        "process.peak_resident_bytes",
        "recorder.drain_cpu_ns",
        "recorder.sealer_cpu_ns",
        "recorder.bytes_written",
    ] {
        assert!(readings(name).len() >= 2, "{name}");
        assert!(readings(name).is_sorted(), "{name} only grows: {:?}", readings(name));
    }
    if cfg!(target_os = "linux") {
        let most = |name| readings(name).into_iter().max().unwrap();
        assert!(most("process.resident_bytes") > 32 << 20);
        assert!(most("process.anonymous_bytes") > 32 << 20);
        assert!(most("process.resident_bytes") <= most("process.peak_resident_bytes") + (4 << 20));
    }
    assert_eq!(readings("recorder.rings").last(), Some(&2), "the program's and the recorder's");
    assert!(readings("recorder.fullest_ring").iter().any(|&records| records > 0));
    assert!(!readings("recorder.full_slots").is_empty());
}

#[test]
fn readings_can_be_switched_off() {
    let end = child(|scene| {
        let recorder = scene.builder().readings(None).start().unwrap();
        thread::sleep(Duration::from_millis(50));
        assert_eq!(recorder.finish().unwrap().own, 0);
    });
    assert_eq!(end.run().succeeded().trace().own, []);
}
