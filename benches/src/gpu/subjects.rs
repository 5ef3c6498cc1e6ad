//! Ways to time the passes of a command buffer, driven alike: encode and submit, then read.

use anyhow::Result;
use ringscope::gpu::wgpu::{GpuProfiler, Polling};

/// Passes in a command buffer.
pub(super) const PASSES: u32 = 64;

/// One way. Both calls are timed; between them somebody waits for the device.
pub(super) trait Subject {
    fn name(&self) -> &'static str;
    /// Encodes and submits a command buffer of [`PASSES`] empty passes.
    fn submit(&mut self);
    /// Reads what came of it; returns how many passes have a time.
    fn read(&mut self) -> Result<u32>;
}

pub(super) fn all(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<Vec<Box<dyn Subject>>> {
    #[cfg_attr(not(feature = "peers"), allow(unused_mut))]
    let mut subjects: Vec<Box<dyn Subject>> =
        vec![Box::new(Bare::new(device, queue)), Box::new(Ringscope::new(device, queue))];
    #[cfg(feature = "peers")]
    subjects.push(Box::new(peer::WgpuProfiler::new(device, queue)?));
    Ok(subjects)
}

/// Two timestamps for each, resolved, copied and mapped: what anybody has to do.
struct Bare {
    device: wgpu::Device,
    queue: wgpu::Queue,
    set: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    readback: wgpu::Buffer,
}

impl Bare {
    fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Self {
        let buffer = |usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: u64::from(PASSES) * 16,
                usage,
                mapped_at_creation: false,
            })
        };
        Bare {
            set: device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: PASSES * 2,
            }),
            resolved: buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC),
            readback: buffer(wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ),
            device: device.clone(),
            queue: queue.clone(),
        }
    }
}

impl Subject for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn submit(&mut self) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        for pass in 0..PASSES {
            drop(encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: Some("empty"),
                timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                    query_set: &self.set,
                    beginning_of_pass_write_index: Some(pass * 2),
                    end_of_pass_write_index: Some(pass * 2 + 1),
                }),
            }));
        }
        encoder.resolve_query_set(&self.set, 0..PASSES * 2, &self.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readback, 0, self.readback.size());
        self.queue.submit([encoder.finish()]);
        self.readback.map_async(wgpu::MapMode::Read, .., |_| {});
    }

    fn read(&mut self) -> Result<u32> {
        let view = self.readback.get_mapped_range(..)?;
        let words =
            view.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap_or_default()));
        let times: Vec<u64> = words.collect();
        drop(view);
        self.readback.unmap();
        Ok(times.chunks_exact(2).filter(|pair| pair[0] != 0 && pair[0] <= pair[1]).count() as u32)
    }
}

/// Recorded, with a launch and a kernel each, and named by a text, as the README shows it.
struct Ringscope {
    profiler: GpuProfiler,
    recorded: u64,
}

impl Ringscope {
    fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Self {
        let profiler = GpuProfiler::builder(device, queue).polling(Polling::Caller).start();
        Ringscope { profiler, recorded: 0 }
    }
}

impl Subject for Ringscope {
    fn name(&self) -> &'static str {
        "ringscope"
    }

    fn submit(&mut self) {
        let mut encoder = self.profiler.encoder("bench");
        for _ in 0..PASSES {
            drop(encoder.profile_compute("empty"));
        }
        self.profiler.submit([encoder.finish()]);
    }

    fn read(&mut self) -> Result<u32> {
        self.profiler.poll();
        let report = self.profiler.report();
        let recorded = report.recorded - report.coarse;
        Ok((recorded - std::mem::replace(&mut self.recorded, recorded)) as u32)
    }
}

#[cfg(feature = "peers")]
mod peer {
    use anyhow::Context;
    use wgpu_profiler::{GpuProfiler, GpuProfilerSettings};

    use super::{PASSES, Result, Subject};

    /// The peer, with the same passes and its debug groups off.
    pub(super) struct WgpuProfiler {
        device: wgpu::Device,
        queue: wgpu::Queue,
        profiler: GpuProfiler,
    }

    impl WgpuProfiler {
        pub(super) fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<Self> {
            let settings = GpuProfilerSettings {
                enable_debug_groups: false,
                ..GpuProfilerSettings::default()
            };
            let profiler = GpuProfiler::new(device, settings).context("wgpu-profiler")?;
            Ok(WgpuProfiler { device: device.clone(), queue: queue.clone(), profiler })
        }
    }

    impl Subject for WgpuProfiler {
        fn name(&self) -> &'static str {
            "wgpu-profiler"
        }

        fn submit(&mut self) {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            for _ in 0..PASSES {
                let query = self.profiler.begin_pass_query("empty", &mut encoder);
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: Some("empty"),
                    timestamp_writes: query.compute_pass_timestamp_writes(),
                });
                self.profiler.end_query(&mut pass, query);
            }
            self.profiler.resolve_queries(&mut encoder);
            self.queue.submit([encoder.finish()]);
            let _ = self.profiler.end_frame();
        }

        fn read(&mut self) -> Result<u32> {
            let period = self.queue.get_timestamp_period();
            let results = self.profiler.process_finished_frame(period).context("no results")?;
            Ok(results.iter().filter(|it| it.time.is_some()).count() as u32)
        }
    }
}
