//! Devices that tell when a command buffer ran, as Metal's do: what is sampled must lie within. And
//! their readings, as the sealer takes them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use ringscope::{
    DeviceQueue, Kind, Name,
    gpu::{
        Completion, DeviceCounter, DeviceReader, GpuMemory, Interval, KernelName, Launch, Moment,
        Rejection, Scope, SlotPool, Submissions, TimingSource, Work,
    },
    vocabulary::{DeviceFound, DeviceState},
};
use ringscope_format::OwnedValue;

use crate::{
    child::child,
    told::{Event, Told},
};

static BACKEND: Name = Name::new("made up");

/// A command buffer with a pass for each name; its number and when it was submitted.
fn submit(submissions: &Arc<Submissions>, names: &[&str]) -> (u64, u64) {
    let mut batch = submissions.begin().expect("there is room");
    for (at, name) in names.iter().enumerate() {
        let launched = Launch::begin(KernelName::from(*name)).end().expect("something records");
        let sampled = Some((at as u32 * 2, TimingSource::StageBoundary));
        batch.push(Scope { launched, work: Work::Kernel, sampled });
    }
    let id = batch.enter().expect("nothing is lost");
    (id, submissions.submitted_at(id).expect("it is in flight"))
}

/// The device's counter is the host's.
fn at(device: u64) -> Option<Moment> {
    Some(Moment { tick: device, error: 2 })
}

fn source(told: &Told, event: &Event) -> String {
    match event.field("source") {
        Some(OwnedValue::Name(id)) => told.trace.names().get(*id).unwrap().to_owned(),
        other => panic!("the source of {} is {other:?}", event.name),
    }
}

#[test]
fn a_sample_outside_of_its_command_buffer_gives_way_to_it() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = Submissions::new(DeviceQueue::named("GPU 0 queue 0"), &BACKEND, 8);
        let (id, submitted) = submit(&submissions, &["inside", "outside"]);
        let (start, end) = (submitted + 1_000, submitted + 9_000);
        let whole = Some(Interval { start, end, error: 10 });
        // Both after the submission and before the end, which is all that other devices tell.
        let samples = [start + 100, end + 5, submitted + 100, submitted + 200];
        let completion = Completion { done: submitted + 50_000, samples: &samples, whole };
        submissions.complete(id, &completion, DeviceCounter::FULL, at);
        let report = submissions.report();
        assert_eq!((report.recorded, report.coarse), (2, 1));
        assert_eq!(report.rejected, [(Rejection::Outside, 1)]);
        scene.say("start", start);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let (told, start) = (end.trace(), end.number("start"));
    let only = |name| {
        let all = told.named(name).into_iter();
        let kernels: Vec<&Event> = all.filter(|event| event.kind == Kind::KERNEL).collect();
        assert_eq!(kernels.len(), 1, "{name}");
        kernels[0]
    };
    let (inside, outside) = (only("inside"), only("outside"));
    assert_eq!((inside.start, inside.end), (start + 100, start + 8_005));
    assert_eq!(source(&told, inside), "stage boundary");
    assert_eq!((outside.start, outside.end), (start, start + 8_000));
    assert_eq!(source(&told, outside), "command buffer");
}

#[test]
fn samples_that_an_earlier_command_buffer_left_are_not_believed() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = Submissions::new(DeviceQueue::named("GPU 0 queue 0"), &BACKEND, 8);
        let pool = SlotPool::new(4, 4, 1);
        let mut memory = [0; 4];
        for (name, writes) in [("full", true), ("empty", false)] {
            // The same block both times: a pass without commands leaves in it what was there.
            let slots = pool.take().expect("it came back");
            let (id, submitted) = submit(&submissions, &[name]);
            if writes {
                memory = [submitted + 20, submitted + 70, 0, 0];
            }
            let whole = Interval { start: submitted + 10, end: submitted + 80, error: 0 };
            let samples = &memory[slots.first() as usize..][..slots.count() as usize];
            let completion = Completion { done: submitted + 90, samples, whole: Some(whole) };
            submissions.complete(id, &completion, DeviceCounter::FULL, at);
        }
        assert_eq!(submissions.report().rejected, [(Rejection::Outside, 1)]);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let kernels = told.events.iter().filter(|event| event.kind == Kind::KERNEL);
    let sources: Vec<(&str, String, u64)> =
        kernels.map(|it| (it.name, source(&told, it), it.end - it.start)).collect();
    let expected =
        [("full", "stage boundary".to_owned(), 50), ("empty", "command buffer".to_owned(), 70)];
    assert_eq!(sources, expected);
}

#[test]
fn readings_of_a_device_are_in_the_trace_with_those_of_the_process() {
    let end = child(|scene| {
        let builder = scene.builder().readings(Some(Duration::from_millis(5)));
        let recorder = builder.start().unwrap();
        let taken = Arc::new(AtomicU32::new(0));
        let memory = GpuMemory::of("GPU 0 made up", Some(1 << 30));
        let counting = Arc::clone(&taken);
        let reader = DeviceReader::register(move || {
            let before = counting.fetch_add(1, Ordering::Relaxed);
            if before == 0 {
                let found = DeviceFound::new().device("GPU 0 made up").family("Apple 9");
                found.unified(true).total(1_u64 << 30).record();
            }
            memory.snapshot(4_096, None);
            let state = DeviceState::new().device("GPU 0 made up").utilization_percent(50.0);
            state.power_watts(7.5).record();
        });
        let begun = Instant::now();
        while taken.load(Ordering::Relaxed) < 3 && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(reader);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    // On the recorder's own line of time.
    let named = |name| told.own.iter().filter(|it| it.name == name).collect::<Vec<&Event>>();
    assert_eq!(named("device.found").len(), 1);
    let (memory, power) = (named("memory.device"), named("device.power_watts"));
    assert!(memory.len() >= 3 && memory.len() == power.len(), "{} readings", memory.len());
    assert_eq!(memory[0].number("allocated"), 4_096);
    assert_eq!(memory[0].number("total"), 1 << 30);
    assert_eq!((power[0].kind, &power[0].value), (Kind::GAUGE, &Some(OwnedValue::F64(7.5))));
}
