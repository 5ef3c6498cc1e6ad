//! Devices that go away while they work, as wgpu really lets them, and callbacks that do not
//! survive.

use std::{
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use ringscope::gpu::wgpu::{GpuProfiler, Polling};

use super::{device_work, encode, open};
use crate::child::{Scene, child};

const MINUTE: Duration = Duration::from_secs(60);
/// Kernels that are in flight when the device goes.
const IN_FLIGHT: u64 = 3;

/// A kernel that completes, then some that are in flight and take a while, one command buffer each.
fn submit_work(profiler: &GpuProfiler, work: &super::Pipeline) {
    let submit = |times: u32| {
        let mut encoder = profiler.encoder("step");
        encode(&mut encoder, work, &work.kernels[0], times);
        profiler.submit([encoder.finish()]);
    };
    submit(1);
    assert!(profiler.flush(MINUTE));
    (0..IN_FLIGHT).for_each(|_| submit(10));
}

/// Everything that ran, or may have, is in the report; returns once nothing is in flight any more.
fn is_accounted_for(scene: &Scene, profiler: &GpuProfiler) {
    let begun = Instant::now();
    assert!(profiler.flush(MINUTE), "nothing stays in flight: {}", profiler.report());
    assert!(begun.elapsed() < MINUTE / 2);
    let report = profiler.report();
    let untold = report.never_submitted + report.not_observed;
    let known = report.recorded + report.device_lost + report.failed + untold;
    assert_eq!(known, 1 + IN_FLIGHT, "{report}");
    scene.say("recorded", report.recorded);
    scene.say("untimed", report.untimed());
}

/// The trace has what was recorded, and says what was not.
fn trace_agrees(end: &crate::child::End) {
    let told = end.trace();
    told.is_finished_and_adds_up();
    assert_eq!(device_work(&told).len() as u64, end.number("recorded"));
    let untimed: u64 = told.named("kernel.untimed").iter().map(|it| it.number("count")).sum();
    assert_eq!(untimed, end.number("untimed"));
}

#[test]
fn a_device_that_is_destroyed_unannounced_leaves_nothing_unaccounted_for() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::new(&device, &queue);
        submit_work(&profiler, &work);
        // Nobody tells the profiler.
        device.destroy();
        is_accounted_for(scene, &profiler);
        // What is encoded on it later never runs, and harms nobody.
        let mut encoder = profiler.encoder("after");
        drop(encoder.profile_compute("after"));
        profiler.submit([encoder.finish()]);
        assert!(profiler.flush(MINUTE));
        let after = profiler.report();
        let lost = after.device_lost + after.never_submitted + after.not_observed;
        assert_eq!((after.recorded + lost, after.in_flight), (2 + IN_FLIGHT, 0), "{after}");
        scene.say("recorded", after.recorded);
        scene.say("untimed", after.untimed());
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if end.had("gpu", "a_device_that_is_destroyed_unannounced_leaves_nothing_unaccounted_for") {
        trace_agrees(&end);
    }
}

#[test]
fn the_callback_of_a_lost_device_may_tell_the_profiler_from_its_own_thread() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = Arc::new(GpuProfiler::new(&device, &queue));
        let (told, lost) = mpsc::channel();
        let to_tell = Arc::clone(&profiler);
        device.set_device_lost_callback(move |reason, _| {
            to_tell.device_lost();
            let _ = told.send((reason, thread::current().name().map(str::to_owned)));
        });
        submit_work(&profiler, &work);
        device.destroy();
        // Nobody but the helper polls: it runs the callback, which calls the profiler.
        let (reason, by) = lost.recv_timeout(MINUTE).expect("the callback is called");
        assert_eq!(reason, wgpu::DeviceLostReason::Destroyed);
        assert_eq!(by.as_deref(), Some("ringscope-gpu"));
        is_accounted_for(scene, &profiler);
        assert!(profiler.report().in_flight == 0);
        // Of what begins now nothing is recorded, and it is counted.
        let before = profiler.report().device_lost;
        let _errors = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let mut encoder = profiler.encoder("after");
        drop(encoder.profile_compute("after"));
        drop(encoder);
        assert_eq!(profiler.report().device_lost, before + 1);
        scene.say("untimed", profiler.report().untimed());
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if end.had("gpu", "the_callback_of_a_lost_device_may_tell_the_profiler_from_its_own_thread") {
        trace_agrees(&end);
    }
}

#[test]
fn a_program_that_drops_its_device_has_the_times_of_what_it_submitted() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::new(&device, &queue);
        submit_work(&profiler, &work);
        drop((work, queue, device));
        is_accounted_for(scene, &profiler);
        assert_eq!(profiler.report().recorded, 1 + IN_FLIGHT, "{}", profiler.report());
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if end.had("gpu", "a_program_that_drops_its_device_has_the_times_of_what_it_submitted") {
        trace_agrees(&end);
    }
}

#[test]
fn a_profiler_ends_with_its_thread_even_if_a_callback_there_drops_it() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::new(&device, &queue);
        submit_work(&profiler, &work);
        assert_eq!(helpers(), Some(1));
        drop(profiler);
        assert_eq!(helpers(), Some(0), "it is gone when the drop returns");

        // The last one who holds it is a callback, on the helper itself.
        let last = Arc::new(OnceLock::new());
        let (dropped, is_dropped) = mpsc::channel();
        let profiler = GpuProfiler::new(&device, &queue);
        let mut encoder = profiler.encoder("step");
        encode(&mut encoder, &work, &work.kernels[0], 5);
        let commands = encoder.finish().into_inner();
        let held: Arc<OnceLock<GpuProfiler>> = Arc::clone(&last);
        queue.submit([commands]);
        queue.on_submitted_work_done(move || {
            drop(held);
            let _ = dropped.send(thread::current().name().map(str::to_owned));
        });
        assert!(last.set(profiler).is_ok());
        drop(last);
        let by = is_dropped.recv_timeout(MINUTE).expect("the callback is called");
        assert_eq!(by.as_deref(), Some("ringscope-gpu"));
        let begun = Instant::now();
        while helpers() != Some(0) {
            assert!(begun.elapsed() < MINUTE, "it ends after the callback");
            thread::sleep(Duration::from_millis(1));
        }
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    end.had("gpu", "a_profiler_ends_with_its_thread_even_if_a_callback_there_drops_it");
}

#[test]
fn a_device_that_is_lost_takes_what_is_in_flight_and_nothing_else() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::builder(&device, &queue).polling(Polling::Caller).start();
        let mut encoder = profiler.encoder("before");
        encode(&mut encoder, &work, &work.kernels[0], 1);
        profiler.submit([encoder.finish()]);
        assert!(profiler.flush(MINUTE));
        let mut encoder = profiler.encoder("in flight");
        encode(&mut encoder, &work, &work.kernels[0], 50);
        encode(&mut encoder, &work, &work.kernels[1], 1);
        profiler.submit([encoder.finish()]);
        let _errors = device.push_error_scope(wgpu::ErrorFilter::Validation);
        device.destroy();
        profiler.device_lost();
        assert!(profiler.flush(MINUTE), "nothing is left in flight");
        let mut encoder = profiler.encoder("after");
        drop(encoder.profile_compute("after"));
        drop(encoder);
        let report = profiler.report();
        assert_eq!((report.recorded, report.device_lost, report.in_flight), (1, 3, 0));
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "a_device_that_is_lost_takes_what_is_in_flight_and_nothing_else") {
        return;
    }
    let told = end.trace();
    assert_eq!(device_work(&told).len(), 1);
    let untimed = told.named("kernel.untimed");
    let counts: Vec<u64> = untimed.iter().map(|event| event.number("count")).collect();
    assert_eq!(counts, [2, 1], "in flight, and encoded later");
}

#[test]
fn a_callback_that_panics_on_the_helper_ends_neither_it_nor_the_program() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::new(&device, &queue);
        // Slow to say so: the next callback is due before this one's panic is over.
        std::panic::set_hook(Box::new(|_| std::thread::sleep(Duration::from_millis(50))));
        let (ran, runs) = std::sync::mpsc::channel();
        for _ in 0..4 {
            let mut encoder = profiler.encoder("step");
            encode(&mut encoder, &work, &work.kernels[0], 1);
            profiler.submit([encoder.finish()]);
            let ran = ran.clone();
            queue.on_submitted_work_done(move || {
                ran.send(std::thread::current().name().map(str::to_owned)).unwrap();
                panic!("as asked");
            });
            // Nobody else polls.
            let thread = runs.recv_timeout(MINUTE).expect("the helper goes on");
            assert_eq!(thread.as_deref(), Some("ringscope-gpu"));
        }
        assert!(profiler.flush(Duration::MAX));
        let report = profiler.finish(Duration::MAX);
        let _ = std::panic::take_hook();
        assert_eq!(report.recorded + report.not_observed, 4, "all of it ran: {report}");
        scene.say("untimed", report.untimed());
        assert_eq!(report.device_lost, 0, "{report}");
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if end.had("gpu", "a_callback_that_panics_on_the_helper_ends_neither_it_nor_the_program") {
        let told = end.trace();
        let untimed = told.named("kernel.untimed");
        let count: u64 = untimed.iter().map(|event| event.number("count")).sum();
        assert_eq!(count, end.number("untimed"), "the trace says so");
    }
}

#[test]
fn work_whose_callback_goes_down_with_anothers_panic_is_not_observed() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::builder(&device, &queue).polling(Polling::Caller).start();
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let mapped_at_creation = false;
        let own = wgpu::BufferDescriptor { label: None, size: 16, usage, mapped_at_creation };
        let own = device.create_buffer(&own);
        let mut profiled = profiler.encoder("step");
        (0..2).for_each(|_| encode(&mut profiled, &work, &work.kernels[0], 20));
        // In one submission, so that both are due in the same poll, this one first.
        let mut before = device.create_command_encoder(&Default::default());
        before.clear_buffer(&own, 0, None);
        before.map_buffer_on_submit(&own, wgpu::MapMode::Read, .., |_| {
            std::panic::resume_unwind(Box::new("as asked"));
        });
        queue.submit([before.finish(), profiled.finish().into_inner()]);
        assert!(profiler.flush(MINUTE));
        let report = profiler.report();
        assert_eq!((report.not_observed, report.never_submitted), (2, 0), "{report}");
        assert_eq!((report.recorded, report.untimed()), (0, 2), "{report}");
        // Those that follow are seen.
        let mut next = profiler.encoder("next");
        encode(&mut next, &work, &work.kernels[0], 1);
        profiler.submit([next.finish()]);
        assert_eq!(profiler.finish(MINUTE).recorded, 1);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "work_whose_callback_goes_down_with_anothers_panic_is_not_observed") {
        return;
    }
    let told = end.trace();
    assert_eq!(told.only("kernel.untimed").number("count"), 2);
    assert_eq!(device_work(&told).len(), 1);
}

/// Threads of this process that belong to a profiler. Not those that are on their way out: whoever
/// has joined one may still find it there.
fn helpers() -> Option<usize> {
    /// `PF_EXITING`, in the ninth number of a thread's line.
    const EXITING: u64 = 4;
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    let is_one = |entry: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(entry.ok()?.path().join("stat")).ok()?;
        let (before, numbers) = stat.rsplit_once(") ")?;
        let flags: u64 = numbers.split(' ').nth(6)?.parse().ok()?;
        (before.ends_with("(ringscope-gpu") && flags & EXITING == 0).then_some(())
    };
    Some(threads.filter_map(is_one).count())
}
