//! Times that wgpu's profiler records, against other clocks around the same work.

use std::time::Duration;

use ringscope::{
    Kind,
    gpu::{host_ticks, wgpu::GpuProfiler},
};

use super::{device_work, encode, label, open, ticks};
use crate::child::{Scene, child};

const MINUTE: Duration = Duration::from_secs(60);

/// Runs every kernel once, unrecorded: drivers compile at the first use.
fn warm_up(profiler: &GpuProfiler, work: &super::Pipeline) {
    let mut encoder = profiler.encoder("warm-up");
    work.kernels.iter().for_each(|kernel| encode(&mut encoder, work, kernel, 1));
    profiler.submit([encoder.finish()]);
    assert!(profiler.flush(MINUTE));
}

/// Times of an independent query set around the same pass: written in the encoder, before and
/// after it.
struct Independent {
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    readback: wgpu::Buffer,
    period_ns: f64,
}

impl Independent {
    fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Self {
        let buffer = |usage| {
            let (label, size, mapped_at_creation) = (None, 16, false);
            device.create_buffer(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation })
        };
        Self {
            set: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            }),
            resolved: buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC),
            readback: buffer(wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ),
            period_ns: f64::from(queue.get_timestamp_period()),
        }
    }

    fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.set, 0..2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readback, 0, 16);
    }

    fn nanoseconds(&self, device: &wgpu::Device) -> f64 {
        self.readback.map_async(wgpu::MapMode::Read, .., |_| {});
        device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        let bytes = self.readback.get_mapped_range(..).unwrap();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let took = (word(8) - word(0)) as f64 * self.period_ns;
        drop(bytes);
        self.readback.unmap();
        took
    }
}

fn nanoseconds(told: &crate::told::Told, ticks: u64) -> f64 {
    ticks as f64 * told.trace.clock().ns_per_tick()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// So many dispatches in a pass that what lies between the two timestamps at each of its ends, tens of
/// microseconds, is small against it: matmul takes milliseconds, the others a tenth of one.
const TIMES: [u32; 3] = [4, 100, 100];
const ROUNDS: usize = 7;

#[test]
fn every_kernel_lasts_as_long_as_an_independent_query_set_says() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let profiler = GpuProfiler::new(&device, &queue);
        warm_up(&profiler, &work);
        let recorder = scene.builder().start().unwrap();
        let independent = Independent::new(&device, &queue);
        for _ in 0..ROUNDS {
            for (kernel, times) in work.kernels.iter().zip(TIMES) {
                let mut encoder = profiler.encoder("round");
                encoder.inner().write_timestamp(&independent.set, 0);
                encode(&mut encoder, &work, kernel, times);
                encoder.inner().write_timestamp(&independent.set, 1);
                independent.resolve(encoder.inner());
                profiler.submit([encoder.finish()]);
                assert!(profiler.flush(MINUTE));
                let said = independent.nanoseconds(&device);
                scene.say(&format!("{} {}", kernel.name, profiler.report().recorded), said);
            }
        }
        scene.say("report", profiler.finish(MINUTE));
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "every_kernel_lasts_as_long_as_an_independent_query_set_says") {
        return;
    }
    assert_eq!(end.said("report"), format!("{} recorded", ROUNDS * 3));
    let told = end.trace();
    for (at, name) in ["matmul", "softmax", "rmsnorm"].into_iter().enumerate() {
        let kernels = device_work(&told).into_iter().filter(|event| event.name == name);
        let ratios = kernels.enumerate().map(|(round, kernel)| {
            assert_eq!(label(&told, kernel, "source"), "pass boundary");
            let said = end.said(&format!("{name} {}", round * 3 + at + 1));
            nanoseconds(&told, kernel.end - kernel.start) / said.parse::<f64>().unwrap()
        });
        let ratios: Vec<f64> = ratios.collect();
        assert_eq!(ratios.len(), ROUNDS);
        // One that was interrupted between the two timestamps is no evidence against either.
        let ratio = median(ratios.clone());
        assert!((0.95..=1.001).contains(&ratio), "{name}: {ratios:?}");
        assert!(ratios.iter().all(|&it| it <= 1.001), "{name} is inside of the other: {ratios:?}");
    }
}

/// Rounds of three passes, the one with twice the work between two with once: what comes and goes on a
/// machine within a round, another program or a slower clock, meets both kinds.
const TURNS: usize = 60;

#[test]
fn twice_the_work_takes_twice_the_time() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let profiler = GpuProfiler::new(&device, &queue);
        warm_up(&profiler, &work);
        let recorder = scene.builder().start().unwrap();
        for _ in 0..TURNS {
            // In one command buffer: the device does not wait for the host between them.
            let mut encoder = profiler.encoder("round");
            for times in [1, 2, 1] {
                encode(&mut encoder, &work, &work.kernels[0], times);
            }
            profiler.submit([encoder.finish()]);
            assert!(profiler.flush(MINUTE));
        }
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "twice_the_work_takes_twice_the_time") {
        return;
    }
    let told = end.trace();
    let took: Vec<f64> =
        device_work(&told).iter().map(|kernel| (kernel.end - kernel.start) as f64).collect();
    assert_eq!(took.len(), 3 * TURNS);
    // Of many the one in the middle: passes are interrupted, now of one kind, now of the other.
    let ratios = took.chunks(3).map(|it| it[1] / f64::midpoint(it[0], it[2]));
    let ratio = median(ratios.collect());
    assert!((1.85..=2.15).contains(&ratio), "{ratio}: {took:?}");
}

/// Steps as the example has them, with what the host saw of each.
fn steps(scene: &Scene, count: usize) {
    let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
    let profiler = GpuProfiler::new(&device, &queue);
    warm_up(&profiler, &work);
    let recorder = scene.builder().start().unwrap();
    for step in 0..count {
        let _span = ringscope::span!("step");
        let mut encoder = profiler.encoder("step");
        work.kernels.iter().for_each(|kernel| encode(&mut encoder, &work, kernel, 1));
        let mut copy = encoder.profile_blit("read back");
        copy.copy_buffer_to_buffer(&work.result, 0, &work.readback, 0, work.readback.size());
        copy.set_bytes(work.readback.size());
        drop(copy);
        let commands = encoder.finish();
        scene.say(&format!("submitted {step}"), host_ticks());
        let submission_index = Some(profiler.submit([commands]));
        device.poll(wgpu::PollType::Wait { submission_index, timeout: Some(MINUTE) }).unwrap();
        scene.say(&format!("done {step}"), host_ticks());
    }
    scene.say("report", profiler.finish(MINUTE));
    let result = work.read(&device).unwrap();
    let squares: f32 = result[..super::pipeline::N].iter().map(|x| x * x).sum();
    scene.say("mean square", squares / super::pipeline::N as f32);
    recorder.finish().unwrap();
}

#[test]
fn work_lies_within_its_submission_in_order_and_adds_up() {
    const STEPS: usize = 25;
    let end = child(|scene| steps(scene, STEPS));
    let end = end.run().succeeded();
    if !end.had("gpu", "work_lies_within_its_submission_in_order_and_adds_up") {
        return;
    }
    let told = end.trace();
    assert_eq!(end.said("report"), format!("{} recorded", STEPS * 4));
    let mean_square: f64 = end.said("mean square").parse().unwrap();
    assert!(
        (mean_square - 1.0).abs() < 0.01,
        "the kernels computed what they should: {mean_square}"
    );

    let work = device_work(&told);
    assert_eq!(work.len(), STEPS * 4);
    let names: Vec<&str> = work.iter().take(4).map(|event| event.name).collect();
    assert_eq!(names, ["matmul", "softmax", "rmsnorm", "read back"]);
    assert!(work.is_sorted_by_key(|event| event.start), "in the order of submission");
    for (step, work) in work.chunks(4).enumerate() {
        let (submitted, done) =
            (end.number(&format!("submitted {step}")), end.number(&format!("done {step}")));
        for event in work {
            assert!(submitted <= event.start && event.end <= done, "step {step}: {event:?}");
            let launches: Vec<_> = told
                .named(event.name)
                .into_iter()
                .filter(|it| it.kind == Kind::LAUNCH && it.link == event.link)
                .collect();
            assert_eq!(launches.len(), 1, "{event:?}");
            assert!(launches[0].end <= submitted && launches[0].depth == 1);
            // Taken a little after the test took its own time.
            let delay = ticks(event, "queue");
            assert!(event.start - delay >= submitted, "{event:?}");
        }
        assert!(work.windows(2).all(|two| two[0].end <= two[1].start), "passes do not overlap");
        let busy: u64 = work.iter().map(|event| event.end - event.start).sum();
        assert!(busy <= done - submitted, "the sum of a step is no longer than the step");
    }
    let copy = work[3];
    assert_eq!((copy.kind, copy.number("bytes")), (Kind::COPY, 192 * 192 * 4));
    assert_eq!(label(&told, copy, "source"), "inside encoder");
    assert_eq!(label(&told, copy, "backend"), "wgpu");

    // How the clocks stand to each other is in the trace.
    let track = work[0].track;
    let pairs: Vec<_> = told.trace.clock_pairs().iter().filter(|it| it.track == track).collect();
    assert!(!pairs.is_empty());
    assert!(pairs.iter().all(|pair| pair.tick_before <= pair.tick_after));
    assert_eq!(pairs[0].wall_ns, 1 << 32, "a tick of this device is a nanosecond");
}

#[test]
fn kernels_that_share_a_pass_have_times_of_their_own() {
    let end = child(|scene| {
        let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
        let profiler = GpuProfiler::new(&device, &queue);
        warm_up(&profiler, &work);
        let recorder = scene.builder().start().unwrap();
        // An encoder that the program made, by reference, in a wrapper of its own.
        struct Mine {
            encoder: wgpu::CommandEncoder,
        }
        impl ringscope::gpu::wgpu::CommandBufferWrapper for Mine {
            fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
                &mut self.encoder
            }
        }
        let mut mine = Mine { encoder: device.create_command_encoder(&Default::default()) };
        let mut encoder = profiler.attach(&mut mine);
        let mut pass = encoder.shared_pass("all");
        for kernel in &work.kernels {
            let mut scope = pass.profile_compute(kernel.name);
            work.set(&mut scope, kernel);
            let [x, y, z] = kernel.groups;
            scope.dispatch_workgroups(x, y, z);
        }
        drop(pass);
        let labelled =
            wgpu::ComputePassDescriptor { label: Some("labelled"), timestamp_writes: None };
        drop(encoder.profile_pass(&labelled));
        encoder.end();
        // Submitted without the profiler.
        queue.submit([mine.encoder.finish()]);
        assert!(profiler.flush(MINUTE));
        drop(profiler);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    if !end.had("gpu", "kernels_that_share_a_pass_have_times_of_their_own") {
        return;
    }
    let told = end.trace();
    let work = device_work(&told);
    let names: Vec<&str> = work.iter().map(|event| event.name).collect();
    assert_eq!(names, ["matmul", "softmax", "rmsnorm", "labelled"]);
    for event in &work[..3] {
        assert_eq!(label(&told, event, "source"), "inside pass");
        assert!(event.end > event.start);
    }
    assert_eq!(label(&told, work[3], "source"), "pass boundary");
}
