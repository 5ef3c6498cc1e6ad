//! `gpu`: what profiling a kernel costs the host, over the bare cost of writing and resolving two
//! timestamps, here and with wgpu-profiler; and what profiling costs the device.
//!
//! **Host.** A command buffer of many empty passes is encoded, submitted and, once the
//! device is done, read. What is timed is the calling thread: encoding, submitting and reading,
//! not the wait between. The pass itself counts on both sides. Everything runs on one thread; in
//! a program the reading is the helper's. Rounds go through all subjects in turn.
//!
//! **Device.** Steps of real kernels, as many as the example has, submitted without
//! waiting, with the profiler and without, in turns.

mod figures;
mod host;
#[path = "../../../recorder/examples/gpu_pipeline/pipeline.rs"]
#[allow(dead_code, unreachable_pub)] // it is the example's, whole
mod pipeline;
mod subjects;
mod throughput;

use std::path::Path;

use anyhow::{Result, anyhow};
use ringscope::Recorder;

use crate::machine::Machine;

pub(crate) use figures::{Figures, table};

/// Measures everything.
pub(crate) fn run(quick: bool, scratch: &Path) -> Result<Figures> {
    let (device, queue) = pipeline::open(wgpu::Features::empty()).map_err(|why| anyhow!(why))?;
    let mut figures = Figures::new(Machine::describe(scratch), quick, &device.adapter_info());
    let recorder = Recorder::builder().path(scratch.join("gpu.trace")).start()?;
    eprintln!("gpu: the host");
    figures.host(&host::measure(&device, &queue, if quick { 120 } else { 400 })?);
    eprintln!("gpu: the device");
    let rounds = if quick { 8 } else { 24 };
    figures.device(&throughput::measure(&device, &queue, rounds));
    figures.lost(recorder.finish()?.lost);
    Ok(figures)
}
