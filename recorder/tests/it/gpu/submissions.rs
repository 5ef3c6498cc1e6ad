//! Command buffers that complete late, never, twice and out of order, with samples as
//! they should be and as METAL.md's devices leave them.

use std::{sync::Arc, thread};

use ringscope::{
    DeviceQueue, Kind, Name,
    gpu::{
        Completion, DeviceCounter, Interval, KernelName, Launch, Moment, Rejection, Scope,
        Submissions, TimingSource, Work, host_ticks,
    },
};
use ringscope_format::{OwnedValue, TrackKind};

use crate::{
    child::child,
    told::{Event, Told},
};

static BACKEND: Name = Name::new("made up");

pub(super) fn submissions(most: usize) -> Arc<Submissions> {
    Submissions::new(DeviceQueue::named("GPU 0 queue 0"), &BACKEND, most)
}

pub(super) fn scope(name: &str, sampled: Option<u32>) -> Scope {
    let launched = Launch::begin(KernelName::from(name)).end().expect("something records");
    let sampled = sampled.map(|first| (first, TimingSource::PassBoundary));
    Scope { launched, work: Work::Kernel, sampled }
}

/// One command buffer of these kernels, each with two samples; its number and when it was submitted.
pub(super) fn submit(submissions: &Arc<Submissions>, names: &[&str]) -> (u64, u64) {
    let mut batch = submissions.begin().expect("there is room");
    for (at, name) in names.iter().enumerate() {
        batch.push(scope(name, Some(at as u32 * 2)));
    }
    let id = batch.enter().expect("nothing is lost");
    let submitted = submissions.submitted_at(id).expect("it is in flight");
    (id, submitted)
}

/// A device that counts in ticks of the host, from half of where the host is.
fn at(device: u64) -> Option<Moment> {
    Some(Moment { tick: device * 2, error: 4 })
}

pub(super) fn complete(submissions: &Submissions, id: u64, done: u64, samples: &[u64]) {
    let completion = Completion { done, samples, whole: None };
    submissions.complete(id, &completion, DeviceCounter::FULL, at);
}

fn source(told: &Told, event: &Event) -> String {
    match event.field("source") {
        Some(OwnedValue::Name(id)) => told.trace.names().get(*id).unwrap().to_owned(),
        other => panic!("the source of {} is {other:?}", event.name),
    }
}

fn ticks(event: &Event, key: &str) -> u64 {
    match event.field(key) {
        Some(OwnedValue::Ticks(ticks)) => *ticks,
        other => panic!("{key} of {} is {other:?}", event.name),
    }
}

pub(super) fn kernels(told: &Told) -> Vec<&Event> {
    told.events.iter().filter(|event| event.kind == Kind::KERNEL).collect()
}

#[test]
fn a_kernel_has_its_device_times_its_launch_and_its_delay() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(8);
        let _step = ringscope::span!("step");
        let (id, submitted) = submit(&submissions, &["matmul", "softmax"]);
        let base = submitted / 2 + 500;
        let samples = [base, base + 1_000, base + 1_000, base + 1_200];
        complete(&submissions, id, submitted + 1_000_000, &samples);
        scene.say("submitted", submitted);
        scene.say("base", base);
        scene.say("report", submissions.report());
        drop(_step);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = end.trace();
    let (base, submitted) = (end.number("base"), end.number("submitted"));
    let [matmul, softmax] = kernels(&told)[..] else { panic!("two kernels") };
    assert_eq!((matmul.name, matmul.start, matmul.end), ("matmul", base * 2, base * 2 + 2_000));
    assert_eq!((softmax.start, softmax.end), (matmul.end, matmul.end + 400));
    assert_eq!(ticks(matmul, "queue"), base * 2 - submitted);
    assert_eq!(ticks(matmul, "uncertainty"), 4);
    assert_eq!(source(&told, matmul), "pass boundary");
    let queue = told.trace.tracks().iter().find(|track| track.id == matmul.track).unwrap();
    assert_eq!((queue.kind, queue.name.as_str()), (TrackKind::GpuQueue, "GPU 0 queue 0"));
    for kernel in [matmul, softmax] {
        let launches: Vec<&Event> =
            told.named(kernel.name).into_iter().filter(|it| it.kind == Kind::LAUNCH).collect();
        assert_eq!(launches.len(), 1);
        assert_eq!((launches[0].link, launches[0].depth), (kernel.link, 1), "inside of the step");
        assert!(launches[0].start <= kernel.start && kernel.link != 0);
        assert_ne!(launches[0].track, kernel.track);
    }
    assert_eq!(end.said("report"), "2 recorded");
}

#[test]
fn samples_that_are_no_times_give_way_to_a_coarser_source() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(64);
        type Faulty = fn(u64) -> Vec<u64>;
        let faults: [(&str, Faulty); 6] = [
            ("zeros", |_| vec![0, 0]),
            ("error value", |base| vec![base, u64::MAX]),
            ("end before start", |base| vec![base + 10, base]),
            ("too early", |base| vec![base - 100_000, base]),
            ("too late", |base| vec![base, base * 2]),
            ("missing", |base| vec![base]),
        ];
        for (name, samples) in faults {
            let (id, submitted) = submit(&submissions, &[name]);
            complete(&submissions, id, submitted + 90_000, &samples(submitted / 2 + 50));
        }
        // The device knows at least when the command buffer ran.
        let (id, submitted) = submit(&submissions, &["whole"]);
        let whole = Some(Interval { start: submitted + 10, end: submitted + 40, error: 0 });
        let completion = Completion { done: submitted + 90, samples: &[0, 0], whole };
        submissions.complete(id, &completion, DeviceCounter::FULL, at);
        // There is no clock to map by.
        let (id, submitted) = submit(&submissions, &["no clock"]);
        let completion = Completion { done: submitted + 90_000, samples: &[7, 9], whole: None };
        submissions.complete(id, &completion, DeviceCounter::FULL, |_| None);
        let report = submissions.report();
        assert_eq!((report.recorded, report.coarse), (8, 8));
        assert_eq!(
            report.rejected,
            [
                (Rejection::Missing, 1),
                (Rejection::Zero, 2),
                (Rejection::ErrorValue, 1),
                (Rejection::EndBeforeStart, 1),
                (Rejection::Outside, 2),
                (Rejection::NoClock, 1),
            ]
        );
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let kernels = kernels(&told);
    assert_eq!(kernels.len(), 8);
    for kernel in kernels {
        let (expected, took) = match kernel.name {
            "whole" => ("command buffer", 30),
            _ => ("submit to done", 90_000),
        };
        assert_eq!(source(&told, kernel), expected, "{}", kernel.name);
        assert_eq!(kernel.end - kernel.start, took, "{}", kernel.name);
    }
}

#[test]
fn a_counter_that_began_again_within_a_kernel_is_a_time() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(8);
        let (id, submitted) = submit(&submissions, &["wrapped"]);
        let counter = DeviceCounter::of_bits(36);
        let (top, start) = (1_u64 << 36, (1_u64 << 36) - 300);
        let at = |device: u64| {
            let since = counter.between(start, device) as u64;
            Some(Moment { tick: submitted + 10 + since, error: 0 })
        };
        let completion =
            Completion { done: submitted + 9_000, samples: &[start, top + 700], whole: None };
        submissions.complete(id, &completion, counter, at);
        assert!(submissions.report().rejected.is_empty());
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    assert_eq!(kernels(&told)[0].end - kernels(&told)[0].start, 1_000);
}

#[test]
fn several_kernels_without_times_of_their_own_are_one_record() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(8);
        let mut batch = submissions.begin().unwrap();
        batch.push(scope("matmul", Some(0)));
        for name in ["softmax", "rmsnorm", "add"] {
            batch.push(scope(name, None));
        }
        let id = batch.enter().unwrap();
        let submitted = submissions.submitted_at(id).unwrap();
        let base = submitted / 2 + 10;
        complete(&submissions, id, submitted + 5_000, &[base, base + 100]);
        let report = submissions.report();
        assert_eq!((report.recorded, report.coarse), (4, 3));
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let [matmul, rest] = kernels(&told)[..] else { panic!("two records") };
    assert_eq!((matmul.name, source(&told, matmul).as_str()), ("matmul", "pass boundary"));
    assert_eq!((rest.name, source(&told, rest).as_str()), ("softmax + 2 more", "submit to done"));
    assert_eq!(rest.end - rest.start, 5_000);
}

#[test]
fn completions_come_in_any_order_and_from_any_thread() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(2_000);
        // A thousand in flight at once.
        let mut ids: Vec<(u64, u64)> =
            (0..1_000).map(|n| submit(&submissions, &[["even", "odd"][n % 2]])).collect();
        assert_eq!(submissions.in_flight(), 1_000);
        ids.reverse();
        thread::scope(|scope| {
            for part in ids.chunks(250) {
                let submissions = &submissions;
                scope.spawn(move || {
                    for &(id, submitted) in part {
                        let base = submitted / 2 + 5;
                        let done = submitted + 1_000_000;
                        complete(submissions, id, done, &[base, base + 50]);
                    }
                });
            }
        });
        assert_eq!((submissions.in_flight(), submissions.report().recorded), (0, 1_000));
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let mut links: Vec<u32> = kernels(&told).iter().map(|kernel| kernel.link).collect();
    links.sort_unstable();
    links.dedup();
    assert_eq!(links.len(), 1_000, "each launch has its kernel");
    assert!(kernels(&told).iter().all(|kernel| kernel.end - kernel.start == 100));
}

#[test]
fn past_the_limit_command_buffers_run_unprofiled_and_are_counted() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(3);
        let open = submissions.begin().unwrap();
        let (id, submitted) = submit(&submissions, &["a"]);
        let _second = submit(&submissions, &["b"]);
        assert!(submissions.begin().is_none() && submissions.begin().is_none());
        assert_eq!(submissions.report().refused, 2);
        submissions.count_unprofiled(0);
        submissions.count_unprofiled(5);
        assert_eq!((submissions.report().unprofiled, submissions.report().untimed()), (5, 5));
        drop(open);
        assert!(submissions.begin().is_some(), "one was given back");
        complete(&submissions, id, submitted + 100, &[submitted / 2 + 1, submitted / 2 + 2]);
        assert_eq!(submissions.in_flight(), 1);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    assert_eq!(told.only("kernel.untimed").number("count"), 5);
}

#[test]
fn what_is_being_recorded_is_in_flight() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(8);
        let (id, submitted) = submit(&submissions, &["slow to record"]);
        let samples = [submitted / 2 + 5, submitted / 2 + 6];
        let completion = Completion { done: submitted + 1_000, samples: &samples, whole: None };
        submissions.complete(id, &completion, DeviceCounter::FULL, |device| {
            assert_eq!((submissions.in_flight(), submissions.report().recorded), (1, 0));
            assert_eq!(submissions.submitted_at(id), None, "it was taken");
            at(device)
        });
        assert_eq!((submissions.in_flight(), submissions.report().recorded), (0, 1));
        recorder.finish().unwrap();
    });
    end.run().succeeded();
}

#[test]
fn a_second_completion_is_counted_and_nothing_else() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(8);
        let (id, submitted) = submit(&submissions, &["once"]);
        let samples = [submitted / 2 + 5, submitted / 2 + 6];
        for _ in 0..2 {
            complete(&submissions, id, submitted + 1_000, &samples);
        }
        complete(&submissions, 4_711, submitted, &samples);
        let report = submissions.report();
        assert_eq!((report.recorded, report.stray), (1, 2));
        recorder.finish().unwrap();
    });
    assert_eq!(kernels(&end.run().succeeded().trace()).len(), 1);
}

#[test]
fn what_never_completes_is_counted_and_the_trace_says_so() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(8);
        let mut never_entered = submissions.begin().unwrap();
        never_entered.push(scope("never entered", None));
        drop(never_entered);
        let (never_submitted, _) = submit(&submissions, &["never submitted", "either"]);
        submissions.never_submitted(never_submitted);
        let (not_observed, _) = submit(&submissions, &["committed", "by", "others", "before"]);
        submissions.not_observed(not_observed);
        submissions.not_observed(not_observed);
        let (failed, _) = submit(&submissions, &["failed"]);
        submissions.fail(failed);
        let (late, submitted) = submit(&submissions, &["a", "b", "c"]);
        let mut open_at_the_end = submissions.begin().unwrap();
        open_at_the_end.push(scope("open at the end", None));
        submissions.close();
        assert!(submissions.begin().is_none(), "it has ended");
        assert!(open_at_the_end.enter().is_none());
        // After the profiler is gone.
        complete(&submissions, late, submitted + 100, &[submitted / 2, submitted / 2]);
        let report = submissions.report();
        assert_eq!((report.never_submitted, report.failed), (3, 1));
        assert_eq!((report.abandoned, report.stray, report.untimed()), (4, 1, 9));
        scene.say("report", report);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = end.trace();
    assert!(kernels(&told).is_empty());
    let untimed = told.named("kernel.untimed");
    let counts: Vec<u64> = untimed.iter().map(|event| event.number("count")).collect();
    assert_eq!(counts, [4, 1, 3, 1]);
    let reason = |event: &&Event| match event.field("reason") {
        Some(OwnedValue::Text { text, .. }) => text.to_string(),
        other => panic!("the reason is {other:?}"),
    };
    let reasons: Vec<String> = untimed.iter().map(reason).collect();
    assert_eq!(reasons, ["not observed", "failed", "not completed", "not completed"]);
    let document = include_str!("../../../../format-spec/VOCABULARY.md");
    let row = document.lines().find(|line| line.starts_with("| `kernel.untimed`")).unwrap();
    for reason in reasons.into_iter().chain(["device lost", "too many in flight"].map(String::from))
    {
        assert!(row.contains(&format!("`{reason}`")), "{reason}: {row}");
    }
    assert_eq!(
        end.said("report"),
        "0 recorded, 3 never submitted, 4 not observed, 1 failed, 4 not completed, \
         1 completions of nothing in flight"
    );
}

#[test]
fn a_lost_device_takes_what_is_in_flight_and_begins_nothing_more() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(8);
        let (id, submitted) = submit(&submissions, &["a", "b"]);
        let mut open = submissions.begin().unwrap();
        open.push(scope("c", None));
        submissions.lose_device();
        submissions.lose_device();
        complete(&submissions, id, submitted + 100, &[]);
        assert!(open.enter().is_none() && submissions.begin().is_none());
        let report = submissions.report();
        assert_eq!((report.device_lost, report.stray, report.in_flight), (3, 1, 0));
        assert!(host_ticks() > submitted, "the program goes on");
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let untimed = told.named("kernel.untimed");
    let counts: Vec<u64> = untimed.iter().map(|event| event.number("count")).collect();
    assert_eq!(counts, [2, 1], "in flight, and entered later");
}
