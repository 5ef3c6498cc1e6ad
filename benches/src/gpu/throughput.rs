//! What profiling takes from a device that is kept busy.

use std::time::{Duration, Instant};

use ringscope::gpu::wgpu::{GpuProfiler, ProfiledEncoder};

use super::pipeline::{Kernel, Pipeline};

/// Steps that are submitted before anybody waits.
const STEPS: usize = 20;

/// Seconds for the same steps, with the profiler and without, in pairs.
pub(super) struct Rounds {
    pub(super) pairs: Vec<(f64, f64)>,
    pub(super) kernels: usize,
}

pub(super) fn measure(device: &wgpu::Device, queue: &wgpu::Queue, rounds: usize) -> Rounds {
    let work = Pipeline::new(device);
    let profiler = GpuProfiler::new(device, queue);
    let wait = || {
        let timeout = Some(Duration::from_secs(60));
        let _ = device.poll(wgpu::PollType::Wait { submission_index: None, timeout });
    };
    let timed = |is_profiled: bool| {
        let begun = Instant::now();
        for _ in 0..STEPS {
            if is_profiled {
                let mut encoder = profiler.encoder("step");
                work.kernels.iter().for_each(|kernel| profiled(&mut encoder, &work, kernel));
                profiler.submit([encoder.finish()]);
            } else {
                let mut encoder = device.create_command_encoder(&Default::default());
                work.kernels.iter().for_each(|kernel| plain(&mut encoder, &work, kernel));
                queue.submit([encoder.finish()]);
            }
        }
        wait();
        let took = begun.elapsed().as_secs_f64();
        profiler.flush(Duration::from_secs(60));
        took
    };
    timed(true);
    timed(false);
    // Who goes first changes: a machine that slows down as it warms up favours neither.
    let pairs = (0..rounds).map(|round| {
        let first = timed(round % 2 == 0);
        let second = timed(round % 2 == 1);
        if round % 2 == 0 { (first, second) } else { (second, first) }
    });
    Rounds { pairs: pairs.collect(), kernels: STEPS * work.kernels.len() }
}

fn profiled(encoder: &mut ProfiledEncoder, work: &Pipeline, kernel: &Kernel) {
    let mut pass = encoder.profile_compute(kernel.name);
    work.set(&mut pass, kernel);
    let [x, y, z] = kernel.groups;
    pass.dispatch_workgroups(x, y, z);
}

fn plain(encoder: &mut wgpu::CommandEncoder, work: &Pipeline, kernel: &Kernel) {
    let mut pass = encoder.begin_compute_pass(&Default::default());
    work.set(&mut pass, kernel);
    let [x, y, z] = kernel.groups;
    pass.dispatch_workgroups(x, y, z);
}
