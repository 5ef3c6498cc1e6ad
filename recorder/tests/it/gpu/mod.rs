//! Work of devices: what the backends share, tried with made-up faults, and the
//! backends that can run here, tried on a real adapter (`gpu` in `RINGSCOPE_REQUIRE`).

mod command_buffers;
mod launches;
mod metal_example;
#[path = "../../../examples/gpu_pipeline/pipeline.rs"]
mod pipeline;
mod replay;
mod replay_clocks;
mod replay_faults;
mod replay_live;
mod submissions;
mod wgpu_faults;
mod wgpu_lost;
mod wgpu_times;

use pipeline::{Kernel, Pipeline};
use ringscope::gpu::wgpu::ProfiledEncoder;

use crate::{
    child::Scene,
    told::{Event, Told},
};

/// A device and the kernels of the example; says so if there is none.
fn open(scene: &Scene, without: wgpu::Features) -> Option<(wgpu::Device, wgpu::Queue, Pipeline)> {
    match pipeline::open(without) {
        Ok((device, queue)) => {
            let work = Pipeline::new(&device);
            Some((device, queue, work))
        }
        Err(why) => {
            scene.lacks(why);
            None
        }
    }
}

/// Encodes a kernel of the example so many times, as one pass.
fn encode(encoder: &mut ProfiledEncoder, work: &Pipeline, kernel: &Kernel, times: u32) {
    let mut pass = encoder.profile_compute(kernel.name);
    work.set(&mut pass, kernel);
    let [x, y, z] = kernel.groups;
    (0..times).for_each(|_| pass.dispatch_workgroups(x, y, z));
}

/// Whether an event is something that a device did.
fn is_work(event: &Event) -> bool {
    use ringscope::Kind;
    matches!(event.kind, Kind::KERNEL | Kind::COPY | Kind::FILL)
}

/// What devices did, in the order in which one thread launched it. In the file it is in that of the
/// threads that record: whoever sees first that something is done.
fn device_work(told: &Told) -> Vec<&Event> {
    let mut work: Vec<&Event> = told.events.iter().filter(|event| is_work(event)).collect();
    work.sort_by_key(|event| event.link);
    work
}

/// A field whose value is a name.
#[track_caller]
fn label(told: &Told, event: &Event, key: &str) -> String {
    match event.field(key) {
        Some(ringscope_format::OwnedValue::Name(id)) => {
            told.trace.names().get(*id).expect("the name is known").to_owned()
        }
        other => panic!("{key} of {} is {other:?}", event.name),
    }
}

/// A field whose value is a time.
#[track_caller]
fn ticks(event: &Event, key: &str) -> u64 {
    match event.field(key) {
        Some(ringscope_format::OwnedValue::Ticks(ticks)) => *ticks,
        other => panic!("{key} of {} is {other:?}", event.name),
    }
}
