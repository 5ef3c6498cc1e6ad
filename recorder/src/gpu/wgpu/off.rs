//! The same front door with nothing behind it: wgpu's own calls, and no more.

use std::{
    ops::{Deref, DerefMut},
    time::Duration,
};

use ::wgpu::{
    CommandBuffer, CommandEncoder, CommandEncoderDescriptor, ComputePass, ComputePassDescriptor,
    Device, Queue, SubmissionIndex,
};

use super::{CommandBufferWrapper, Polling};
use crate::gpu::{Abilities, Direction, GpuMemory, GpuReport, KernelName, SampleLog};

/// Records nothing.
#[derive(Debug)]
pub struct GpuProfiler {
    device: Device,
    queue: Queue,
    memory: GpuMemory,
}

/// Sets up a profiler that records nothing.
#[derive(Debug)]
pub struct Builder<'a> {
    device: &'a Device,
    queue: &'a Queue,
}

impl Builder<'_> {
    /// Changes nothing.
    pub fn device_number(self, _: u32) -> Self {
        self
    }

    /// Changes nothing.
    pub fn most_in_flight(self, _: usize) -> Self {
        self
    }

    /// Changes nothing.
    pub fn most_query_sets(self, _: u32) -> Self {
        self
    }

    /// Changes nothing.
    pub fn polling(self, _: Polling) -> Self {
        self
    }

    /// Changes nothing.
    pub fn log_samples(self, _: usize) -> Self {
        self
    }

    /// Makes it.
    pub fn start(self) -> GpuProfiler {
        GpuProfiler::new(self.device, self.queue)
    }
}

impl GpuProfiler {
    /// A profiler that records nothing.
    pub fn new(device: &Device, queue: &Queue) -> Self {
        let memory = GpuMemory::of("", None);
        Self { device: device.clone(), queue: queue.clone(), memory }
    }

    /// Sets one up.
    pub fn builder<'a>(device: &'a Device, queue: &'a Queue) -> Builder<'a> {
        Builder { device, queue }
    }

    /// Makes an encoder.
    #[inline]
    pub fn encoder(&self, label: &str) -> ProfiledEncoder {
        let descriptor = CommandEncoderDescriptor { label: Some(label) };
        self.attach(self.device.create_command_encoder(&descriptor))
    }

    /// Wraps an encoder.
    #[inline]
    pub fn attach<W: CommandBufferWrapper>(&self, wrapper: W) -> ProfiledEncoder<W> {
        ProfiledEncoder { wrapper }
    }

    /// Submits command buffers.
    #[inline]
    pub fn submit<B: Into<ProfiledBuffer>>(
        &self,
        buffers: impl IntoIterator<Item = B>,
    ) -> SubmissionIndex {
        self.queue.submit(buffers.into_iter().map(|buffer| buffer.into().buffer))
    }

    /// Does nothing.
    #[inline(always)]
    pub fn poll(&self) {}

    /// Nothing is in flight.
    #[inline(always)]
    pub fn flush(&self, _: Duration) -> bool {
        true
    }

    /// Reports that nothing was recorded.
    pub fn finish(self, _: Duration) -> GpuReport {
        GpuReport::default()
    }

    /// Does nothing.
    #[inline(always)]
    pub fn device_lost(&self) {}

    /// Memory of which nothing is recorded.
    pub fn memory(&self) -> &GpuMemory {
        &self.memory
    }

    /// Nothing is kept.
    pub fn sample_log(&self) -> Option<SampleLog> {
        None
    }

    /// Nothing is sampled.
    pub fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Nothing was recorded.
    pub fn report(&self) -> GpuReport {
        GpuReport::default()
    }
}

/// An encoder.
#[derive(Debug)]
pub struct ProfiledEncoder<W: CommandBufferWrapper = CommandEncoder> {
    wrapper: W,
}

impl<W: CommandBufferWrapper> ProfiledEncoder<W> {
    /// What holds the encoder.
    #[inline(always)]
    pub fn inner(&mut self) -> &mut W {
        &mut self.wrapper
    }

    /// Begins a compute pass.
    #[inline]
    pub fn profile_compute(&mut self, _: impl Into<KernelName>) -> ComputeScope<'_> {
        ComputeScope { pass: self.wrapper.encoder().begin_compute_pass(&Default::default()) }
    }

    /// Begins a compute pass.
    #[inline]
    pub fn profile_pass(&mut self, descriptor: &ComputePassDescriptor<'_>) -> ComputeScope<'_> {
        ComputeScope { pass: self.wrapper.encoder().begin_compute_pass(descriptor) }
    }

    /// Begins a compute pass.
    #[inline]
    pub fn shared_pass(&mut self, label: &str) -> SharedPass<'_> {
        let descriptor = ComputePassDescriptor { label: Some(label), timestamp_writes: None };
        SharedPass { pass: self.wrapper.encoder().begin_compute_pass(&descriptor) }
    }

    /// The encoder.
    #[inline]
    pub fn profile_blit(&mut self, _: impl Into<KernelName>) -> BlitScope<'_> {
        BlitScope { encoder: self.wrapper.encoder() }
    }

    /// What holds the encoder.
    #[inline]
    pub fn end(self) -> W {
        self.wrapper
    }
}

impl ProfiledEncoder<CommandEncoder> {
    /// Ends encoding.
    #[inline]
    pub fn finish(self) -> ProfiledBuffer {
        ProfiledBuffer { buffer: self.wrapper.finish() }
    }
}

/// A command buffer.
#[derive(Debug)]
pub struct ProfiledBuffer {
    buffer: CommandBuffer,
}

impl ProfiledBuffer {
    /// The command buffer.
    #[inline(always)]
    pub fn into_inner(self) -> CommandBuffer {
        self.buffer
    }
}

impl From<CommandBuffer> for ProfiledBuffer {
    #[inline(always)]
    fn from(buffer: CommandBuffer) -> Self {
        Self { buffer }
    }
}

macro_rules! deref {
    ($scope:ty, $field:ident, $target:ty, $($life:lifetime),+) => {
        impl<$($life),+> Deref for $scope {
            type Target = $target;
            #[inline(always)]
            fn deref(&self) -> &Self::Target {
                &self.$field
            }
        }

        impl<$($life),+> DerefMut for $scope {
            #[inline(always)]
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.$field
            }
        }
    };
}

/// A compute pass.
#[derive(Debug)]
pub struct ComputeScope<'a> {
    pass: ComputePass<'a>,
}

deref!(ComputeScope<'a>, pass, ComputePass<'a>, 'a);

impl ComputeScope<'_> {
    /// The pass without its tie to the encoder.
    pub fn forget_lifetime(self) -> ComputeScope<'static> {
        ComputeScope { pass: self.pass.forget_lifetime() }
    }
}

/// A compute pass.
#[derive(Debug)]
pub struct SharedPass<'a> {
    pass: ComputePass<'a>,
}

deref!(SharedPass<'a>, pass, ComputePass<'a>, 'a);

impl<'a> SharedPass<'a> {
    /// The pass.
    #[inline]
    pub fn profile_compute<'p>(&'p mut self, _: impl Into<KernelName>) -> DispatchScope<'p, 'a> {
        DispatchScope { pass: &mut self.pass }
    }
}

/// A compute pass.
#[derive(Debug)]
pub struct DispatchScope<'p, 'a> {
    pass: &'p mut ComputePass<'a>,
}

deref!(DispatchScope<'p, 'a>, pass, ComputePass<'a>, 'p, 'a);

/// An encoder.
#[derive(Debug)]
pub struct BlitScope<'a> {
    encoder: &'a mut CommandEncoder,
}

deref!(BlitScope<'a>, encoder, CommandEncoder, 'a);

impl BlitScope<'_> {
    /// Does nothing.
    #[inline(always)]
    pub fn set_bytes(&mut self, _: u64) {}

    /// Does nothing.
    #[inline(always)]
    pub fn set_direction(&mut self, _: Direction) {}
}
