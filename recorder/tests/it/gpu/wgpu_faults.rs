//! Adapters that lack something, and programs that do not do their part.

use std::{path::PathBuf, process::Command, time::Duration};

use ringscope::gpu::{
    DeviceReader,
    wgpu::{GpuProfiler, Polling},
};

use super::{device_work, encode, label, open};
use crate::child::child;

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn without_an_adapter_the_example_says_so() {
    let mut program = PathBuf::from(std::env::current_exe().unwrap().parent().unwrap());
    program.pop();
    let program = program.join("examples").join("gpu_pipeline");
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .arg(dir.path().join("run.trace"))
        .env("VK_DRIVER_FILES", "/nonexistent.json")
        .env("VK_ICD_FILENAMES", "/nonexistent.json")
        .output()
        .expect("the example is built with the tests");
    let said = String::from_utf8_lossy(&output.stderr);
    if cfg!(target_os = "linux") {
        assert!(!output.status.success(), "{said}");
        assert!(said.starts_with("gpu_pipeline: no GPU adapter: "), "{said}");
        assert!(said.trim_end().ends_with("on Linux install a Vulkan driver"), "{said}");
    }
}

#[test]
fn without_timestamps_times_are_from_submit_to_done() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::all()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::new(&device, &queue);
        let mut encoder = profiler.encoder("one");
        encode(&mut encoder, &work, &work.kernels[0], 1);
        profiler.submit([encoder.finish()]);
        assert!(profiler.flush(MINUTE));
        let mut encoder = profiler.encoder("three");
        work.kernels.iter().for_each(|kernel| encode(&mut encoder, &work, kernel, 1));
        profiler.submit([encoder.finish()]);
        scene.say("report", profiler.finish(MINUTE));
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "without_timestamps_times_are_from_submit_to_done") {
        return;
    }
    assert_eq!(end.said("report"), "4 recorded, 4 of them with the times of their command buffer");
    let told = end.trace();
    let work = device_work(&told);
    let names: Vec<&str> = work.iter().map(|event| event.name).collect();
    assert_eq!(names, ["matmul", "matmul + 2 more"]);
    for event in work {
        assert_eq!(label(&told, event, "source"), "submit to done");
        assert!(event.end > event.start);
    }
}

#[test]
fn a_pass_that_has_timestamps_of_its_own_keeps_them_and_is_marked() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::new(&device, &queue);
        let query_set = device.create_query_set(&wgpu::QuerySetDescriptor {
            label: None,
            ty: wgpu::QueryType::Timestamp,
            count: 2,
        });
        let buffer = |usage| {
            let (label, size, mapped_at_creation) = (None, 16, false);
            device.create_buffer(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation })
        };
        let resolved = buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC);
        let readback = buffer(wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ);
        let mut encoder = profiler.encoder("theirs");
        let mut pass = encoder.profile_pass(&wgpu::ComputePassDescriptor {
            label: Some("theirs"),
            timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                query_set: &query_set,
                beginning_of_pass_write_index: Some(0),
                end_of_pass_write_index: Some(1),
            }),
        });
        let kernel = &work.kernels[0];
        work.set(&mut pass, kernel);
        pass.dispatch_workgroups(kernel.groups[0], kernel.groups[1], kernel.groups[2]);
        drop(pass);
        encoder.inner().resolve_query_set(&query_set, 0..2, &resolved, 0);
        encoder.inner().copy_buffer_to_buffer(&resolved, 0, &readback, 0, 16);
        profiler.submit([encoder.finish()]);
        assert!(profiler.flush(MINUTE));
        readback.map_async(wgpu::MapMode::Read, .., |_| {});
        device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        let bytes = readback.get_mapped_range(..).unwrap();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let period_ns = f64::from(queue.get_timestamp_period());
        scene.say("theirs", (word(8) - word(0)) as f64 * period_ns);
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "a_pass_that_has_timestamps_of_its_own_keeps_them_and_is_marked") {
        return;
    }
    let told = end.trace();
    let work = device_work(&told);
    assert_eq!((work.len(), work[0].name), (1, "theirs"), "called as the pass is labelled");
    assert_eq!(label(&told, work[0], "source"), "submit to done");
    let theirs: f64 = end.said("theirs").parse().unwrap();
    let took = (work[0].end - work[0].start) as f64 * told.trace.clock().ns_per_tick();
    assert!(0.0 < theirs && theirs <= took, "{theirs} ns of {took}");
}

#[test]
fn more_scopes_than_queries_give_way_to_a_coarser_source() {
    // One set has room for 2,048 scopes.
    let end = child(|scene| {
        let Some((device, queue, _)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().ring_records(65_536).start().unwrap();
        let profiler = GpuProfiler::builder(&device, &queue).most_query_sets(1).start();
        let mut encoder = profiler.encoder("many");
        for _ in 0..2_100 {
            drop(encoder.profile_compute("empty"));
        }
        profiler.submit([encoder.finish()]);
        assert!(profiler.flush(MINUTE));
        let report = profiler.report();
        assert_eq!((report.recorded, report.coarse, report.no_slot), (2_100, 52, 52));
        // What was taken came back.
        let mut encoder = profiler.encoder("again");
        drop(encoder.profile_compute("again"));
        profiler.submit([encoder.finish()]);
        assert!(profiler.flush(MINUTE));
        assert_eq!(profiler.report().coarse, 52);
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "more_scopes_than_queries_give_way_to_a_coarser_source") {
        return;
    }
    let told = end.trace();
    let work = device_work(&told);
    assert_eq!(work.len(), 2_050);
    let coarse: Vec<_> =
        work.iter().filter(|event| label(&told, event, "source") == "submit to done").collect();
    assert_eq!(coarse.len(), 1);
    assert_eq!(coarse[0].name, "empty + 51 more");
}

#[test]
fn a_scope_that_ends_after_its_encoder_is_counted_and_does_no_harm() {
    let end = child(|scene| {
        let Some((device, queue, _)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::new(&device, &queue);
        let errors = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let mut encoder = profiler.encoder("left open");
        drop(encoder.profile_compute("closed"));
        let left_open = encoder.profile_compute("left open").forget_lifetime();
        drop(encoder.finish());
        drop(left_open);
        scene.say("wgpu", pollster::block_on(errors.pop()).is_some());
        let report = profiler.report();
        assert_eq!((report.late, report.never_submitted, report.recorded), (1, 1, 0));
        // A copy whose scope is leaked: its second timestamp is never written.
        let mut encoder = profiler.encoder("leaked");
        std::mem::forget(encoder.profile_blit("leaked"));
        drop(encoder.profile_compute("after it"));
        profiler.submit([encoder.finish()]);
        assert!(profiler.flush(MINUTE));
        assert_eq!(profiler.report().recorded, 1);
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "a_scope_that_ends_after_its_encoder_is_counted_and_does_no_harm") {
        return;
    }
    assert_eq!(end.said("wgpu"), "true", "to wgpu that is an error as well");
    let told = end.trace();
    let names: Vec<&str> = device_work(&told).iter().map(|event| event.name).collect();
    assert_eq!(names, ["after it"]);
}

#[test]
fn a_submission_that_is_refused_has_no_times_and_teaches_nothing() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::builder(&device, &queue).polling(Polling::Caller).start();
        let buffer = |usage| {
            let label = None;
            device.create_buffer(&wgpu::BufferDescriptor {
                label,
                size: 64,
                usage,
                mapped_at_creation: false,
            })
        };
        let (from, to) =
            (buffer(wgpu::BufferUsages::COPY_SRC), buffer(wgpu::BufferUsages::COPY_DST));
        let mut submit = |is_refused: bool| {
            let mut encoder = profiler.encoder("step");
            encode(&mut encoder, &work, &work.kernels[0], 1);
            if is_refused {
                encoder.inner().copy_buffer_to_buffer(&from, 0, &to, 0, 64);
            }
            let commands = encoder.finish();
            let errors = device.push_error_scope(wgpu::ErrorFilter::Validation);
            if is_refused {
                from.destroy();
            }
            profiler.submit([commands]);
            let error = pollster::block_on(errors.pop());
            assert_eq!(error.is_some(), is_refused, "{error:?}");
            assert!(profiler.flush(MINUTE));
        };
        [false, true, false].into_iter().for_each(&mut submit);
        scene.say("report", profiler.finish(MINUTE));
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "a_submission_that_is_refused_has_no_times_and_teaches_nothing") {
        return;
    }
    assert_eq!(end.said("report"), "2 recorded, 1 failed");
    let told = end.trace();
    let work = device_work(&told);
    assert_eq!(work.len(), 2);
    assert!(work.iter().all(|event| label(&told, event, "source") == "pass boundary"));
    assert!(work[0].end <= work[1].start);
    assert_eq!(told.only("kernel.untimed").number("count"), 1);
}

#[test]
fn without_a_helper_a_submission_records_what_was_done_before() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::builder(&device, &queue).polling(Polling::Caller).start();
        for before in 0..3 {
            assert_eq!(profiler.report().recorded, before);
            let mut encoder = profiler.encoder("step");
            encode(&mut encoder, &work, &work.kernels[0], 1);
            profiler.submit([encoder.finish()]);
            device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
            assert_eq!(profiler.report().recorded, before, "who polls records nothing");
            profiler.submit::<wgpu::CommandBuffer>([]);
        }
        assert_eq!(profiler.report().recorded, 3);
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    end.had("gpu", "without_a_helper_a_submission_records_what_was_done_before");
}

#[test]
fn what_is_never_submitted_or_never_waited_for_is_counted() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().start().unwrap();
        let profiler = GpuProfiler::new(&device, &queue);
        let mut given_up = profiler.encoder("given up");
        encode(&mut given_up, &work, &work.kernels[0], 1);
        drop(given_up);
        let mut finished = profiler.encoder("finished");
        encode(&mut finished, &work, &work.kernels[0], 1);
        drop(finished.finish());
        let report = profiler.report();
        assert_eq!((report.never_submitted, report.in_flight), (2, 0));
        // Held back: it is in flight and never completes.
        let mut held = profiler.encoder("held");
        encode(&mut held, &work, &work.kernels[1], 1);
        let held = held.finish();
        assert!(!profiler.flush(Duration::from_millis(20)));
        // The profiler is gone before results arrive, and nobody waits for them.
        let mut late = profiler.encoder("late");
        (0..4).for_each(|_| encode(&mut late, &work, &work.kernels[0], 20));
        profiler.submit([late.finish()]);
        drop(profiler);
        let polled = device.poll(wgpu::PollType::Poll).unwrap();
        assert!(!polled.is_queue_empty(), "the device was waited for");
        queue.submit([held.into_inner()]);
        device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "what_is_never_submitted_or_never_waited_for_is_counted") {
        return;
    }
    let told = end.trace();
    let recorded = device_work(&told).len() as u64;
    let untimed: u64 = told.named("kernel.untimed").iter().map(|event| event.number("count")).sum();
    assert_eq!((recorded, untimed), (0, 5), "the one held and the four that were late");
}

#[test]
fn a_thousand_command_buffers_are_in_flight_and_each_is_recorded() {
    let end = child(|scene| {
        let Some((device, queue, _)) = open(scene, wgpu::Features::empty()) else { return };
        let recorder = scene.builder().ring_records(65_536).start().unwrap();
        let profiler = GpuProfiler::builder(&device, &queue).most_in_flight(1_000).start();
        let make = |name: &'static str| {
            let mut encoder = profiler.encoder(name);
            drop(encoder.profile_compute(name));
            encoder.finish()
        };
        let buffers: Vec<_> = (0..1_000).map(|_| make("one of many")).collect();
        assert_eq!(profiler.report().in_flight, 1_000);
        let past_the_limit = make("one too many");
        profiler.submit(buffers);
        profiler.submit([past_the_limit]);
        scene.say("report", profiler.finish(MINUTE));
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "a_thousand_command_buffers_are_in_flight_and_each_is_recorded") {
        return;
    }
    assert_eq!(
        end.said("report"),
        "1000 recorded, 1 command buffers past the limit in flight, 1 pieces of work in these"
    );
    let told = end.trace();
    assert_eq!(told.only("kernel.untimed").number("count"), 1);
    let work = device_work(&told);
    assert_eq!(work.len(), 1_000);
    assert!(work.iter().all(|event| label(&told, event, "source") == "pass boundary"));
}

#[test]
fn allocations_and_readings_of_a_device_are_in_the_trace() {
    let end = child(|scene| {
        let Some((device, queue, _work)) = open(scene, wgpu::Features::empty()) else { return };
        let every = Some(Duration::from_millis(10));
        let recorder = scene.builder().readings(every).start().unwrap();
        let profiler = GpuProfiler::new(&device, &queue);
        let held = profiler.memory().allocated(4_096, "scratch");
        // Readers are called in the order in which they came: once this one was called twice,
        // the profiler's was at least once.
        let (read, readings) = std::sync::mpsc::channel();
        let reader = DeviceReader::register(move || {
            let _ = read.send(());
        });
        (0..2).for_each(|_| readings.recv_timeout(MINUTE).expect("readings are taken"));
        drop(reader);
        profiler.memory().released(held);
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "allocations_and_readings_of_a_device_are_in_the_trace") {
        return;
    }
    let told = end.trace();
    let (allocated, released) = (told.only("memory.allocate"), told.only("memory.release"));
    assert_eq!((allocated.number("bytes"), released.number("bytes")), (4_096, 4_096));
    assert_eq!(allocated.number("id"), released.number("id"));
    let snapshots: Vec<_> = told.own.iter().filter(|it| it.name == "memory.device").collect();
    assert!(!snapshots.is_empty(), "the driver's allocator was read");
    // The matrices of the example, at least.
    assert!(snapshots.iter().all(|it| it.number("allocated") >= 4 * 192 * 192 * 4));
}
