//! Three kernels on whatever adapter there is: a matrix product, softmax, rmsnorm.

use std::time::Duration;

use ringscope::gpu::wgpu::timing_features;
use wgpu::util::{BufferInitDescriptor, DeviceExt};

/// Rows and columns; `kernels.wgsl` has the same number.
pub(crate) const N: usize = 192;

/// A device and its queue, with what timing they offer, less what is not wanted. Says why if
/// there is none.
pub(crate) fn open(without: wgpu::Features) -> Result<(wgpu::Device, wgpu::Queue), String> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.request_adapter(&Default::default()))
        .map_err(|error| format!("no GPU adapter: {error}; on Linux install a Vulkan driver"))?;
    let required_features = timing_features(&adapter) - without;
    let descriptor = wgpu::DeviceDescriptor { required_features, ..Default::default() };
    pollster::block_on(adapter.request_device(&descriptor))
        .map_err(|error| format!("{}: {error}", adapter.get_info().name))
}

/// One kernel, ready to be dispatched.
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) groups: [u32; 3],
}

/// The kernels, in order, and what they work on.
pub(crate) struct Pipeline {
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) bindings: wgpu::BindGroup,
    pub(crate) result: wgpu::Buffer,
    /// The result is copied here.
    pub(crate) readback: wgpu::Buffer,
}

impl Pipeline {
    pub(crate) fn new(device: &wgpu::Device) -> Self {
        let matrix = |seed: usize| -> Vec<u8> {
            let element = |at: usize| ((at * 7 + seed * 13) % 31) as f32 / 31.0 - 0.5;
            (0..N * N).flat_map(|at| element(at).to_le_bytes()).collect()
        };
        let storage = |contents: &[u8]| {
            let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
            device.create_buffer_init(&BufferInitDescriptor { label: None, contents, usage })
        };
        let buffers = [matrix(1), matrix(2), vec![0; N * N * 4], vec![0; N * N * 4]];
        let buffers = buffers.map(|bytes| storage(&bytes));
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[0, 1, 2, 3].map(|binding| wgpu::BindGroupLayoutEntry {
                binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: binding < 2 },
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            }),
        });
        let bindings = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &[0, 1, 2, 3].map(|at| wgpu::BindGroupEntry {
                binding: at,
                resource: buffers[at as usize].as_entire_binding(),
            }),
        });
        let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let module = device.create_shader_module(wgpu::include_wgsl!("kernels.wgsl"));
        let kernel = |name: &'static str, groups: [u32; 3]| Kernel {
            name,
            groups,
            pipeline: device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(name),
                layout: Some(&layout),
                module: &module,
                entry_point: Some(name),
                compilation_options: Default::default(),
                cache: None,
            }),
        };
        let side = (N / 8) as u32;
        let kernels = vec![
            kernel("matmul", [side, side, 1]),
            kernel("softmax", [side, 1, 1]),
            kernel("rmsnorm", [side, 1, 1]),
        ];
        let readback = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: (N * N * 4) as u64,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        let [_, _, _, result] = buffers;
        Self { kernels, bindings, result, readback }
    }

    /// Sets a pass up for a kernel, which is then to be dispatched.
    pub(crate) fn set(&self, pass: &mut wgpu::ComputePass<'_>, kernel: &Kernel) {
        pass.set_pipeline(&kernel.pipeline);
        pass.set_bind_group(0, &self.bindings, &[]);
    }

    /// Reads the copied result, and waits for it.
    pub(crate) fn read(
        &self,
        device: &wgpu::Device,
    ) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
        self.readback.map_async(wgpu::MapMode::Read, .., |_| {});
        let timeout = Some(Duration::from_secs(60));
        device.poll(wgpu::PollType::Wait { submission_index: None, timeout })?;
        let bytes = self.readback.get_mapped_range(..)?;
        let numbers =
            bytes.chunks_exact(4).map(|it| f32::from_le_bytes([it[0], it[1], it[2], it[3]]));
        let numbers = numbers.collect();
        drop(bytes);
        self.readback.unmap();
        Ok(numbers)
    }
}
