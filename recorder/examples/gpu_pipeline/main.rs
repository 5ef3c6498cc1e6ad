//! A small layer of a model on the GPU, recorded: what `analyze kernels` and `analyze report`
//! show of it.
//!
//!     cargo run --release -p ringscope --features wgpu --example gpu_pipeline -- run.trace
//!     cargo run --release -- kernels run.trace
//!
//! A second path takes what the device said, as text: `testdata/gpu_pipeline.samples` is one.
//!
//! Takes whatever adapter there is, Mesa's software Vulkan included. The device is kept busy
//! for a while, then it waits for the host between steps, so that both can be seen.

use std::{error::Error, process::ExitCode, thread, time::Duration};

use ringscope::{
    Recorder,
    gpu::{Direction, wgpu::GpuProfiler},
    span,
};

mod pipeline;

use pipeline::{N, Pipeline};

/// Steps that are submitted without waiting, and steps after each of which the host waits and thinks.
const STEPS: (usize, usize) = (20, 20);
/// Of how many command buffers at most it is kept what the device said: all of the above.
const LOGGED: usize = 100;
const THINKS: Duration = Duration::from_millis(5);

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpu_pipeline: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args().skip(1);
    let path = paths.next().ok_or("give a trace to write: gpu_pipeline run.trace")?;
    let samples = paths.next();
    let (device, queue) = pipeline::open(wgpu::Features::empty())?;
    let work = Pipeline::new(&device);
    let recorder = Recorder::builder().path(&path).start()?;
    let builder = GpuProfiler::builder(&device, &queue);
    let builder = if samples.is_some() { builder.log_samples(LOGGED) } else { builder };
    let profiler = builder.start();
    let held = profiler.memory().allocated(4 * (N * N * 4) as u64, "matrices");

    // Drivers compile at the first use: that is not what we want to see.
    step(&profiler, &work, "warm-up");
    profiler.flush(Duration::from_secs(60));

    for number in 0..STEPS.0 + STEPS.1 {
        let _span = span!("step", number = number);
        step(&profiler, &work, "step");
        if number >= STEPS.0 {
            profiler.flush(Duration::from_secs(60));
            let _span = span!("think");
            thread::sleep(THINKS);
        }
    }
    let report = {
        let _span = span!("wait for the device");
        profiler.flush(Duration::from_secs(60));
        profiler.memory().released(held);
        if let (Some(path), Some(log)) = (&samples, profiler.sample_log()) {
            std::fs::write(path, log.to_string()).map_err(|error| format!("{path}: {error}"))?;
        }
        profiler.finish(Duration::ZERO)
    };
    let result = work.read(&device)?;
    let squares: f32 = result[..N].iter().map(|x| x * x).sum();
    eprintln!("GPU: {report}; the first row has a mean square of {:.3}", squares / N as f32);
    eprintln!("{}", recorder.finish()?);
    Ok(())
}

/// Each kernel a pass of its own, and the result copied to where the host can read it.
fn step(profiler: &GpuProfiler, work: &Pipeline, label: &str) {
    let mut encoder = profiler.encoder(label);
    for kernel in &work.kernels {
        let mut pass = encoder.profile_compute(kernel.name);
        work.set(&mut pass, kernel);
        let [x, y, z] = kernel.groups;
        pass.dispatch_workgroups(x, y, z);
    }
    {
        let mut copy = encoder.profile_blit("read back");
        copy.copy_buffer_to_buffer(&work.result, 0, &work.readback, 0, work.readback.size());
        copy.set_bytes(work.readback.size());
        copy.set_direction(Direction::DeviceToHost);
    }
    profiler.submit([encoder.finish()]);
}
