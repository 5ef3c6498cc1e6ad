//! Kernels of wgpu: Vulkan, Metal, DX12 and GL through one API.
//!
//! ```no_run
//! use ringscope::gpu::wgpu::GpuProfiler;
//!
//! # fn run(device: wgpu::Device, queue: wgpu::Queue, pipeline: wgpu::ComputePipeline) {
//! let profiler = GpuProfiler::new(&device, &queue);
//!
//! let mut encoder = profiler.encoder("step");
//! {
//!     let mut pass = encoder.profile_compute("matmul"); // a wgpu::ComputePass
//!     pass.set_pipeline(&pipeline);
//!     pass.dispatch_workgroups(8, 8, 1);
//! }
//! profiler.submit([encoder.finish()]);
//!
//! println!("{}", profiler.finish(std::time::Duration::from_secs(1)));
//! # }
//! ```
//!
//! # What is sampled
//!
//! | scope | needs of the device | without it |
//! |---|---|---|
//! | [`profile_compute`](ProfiledEncoder::profile_compute), [`profile_pass`](ProfiledEncoder::profile_pass) | `TIMESTAMP_QUERY` | submit to done |
//! | [`profile_blit`](ProfiledEncoder::profile_blit) | `TIMESTAMP_QUERY_INSIDE_ENCODERS` | submit to done |
//! | [`SharedPass::profile_compute`] | `TIMESTAMP_QUERY_INSIDE_PASSES` | submit to done |
//!
//! Ask for [`timing_features`] when requesting the device: what it was not asked for it does
//! not have. Each record says where its time came from, in the field `source`.
//!
//! # Who looks
//!
//! wgpu tells that work is done only to someone who polls. A thread of the profiler's does, every
//! fraction of a millisecond while something is in flight, and sleeps otherwise; it never uses
//! wgpu's blocking wait, which would hold up threads that destroy resources. With
//! [`Polling::Caller`] there is no such thread: results are recorded in
//! [`submit`](GpuProfiler::submit) and [`poll`](GpuProfiler::poll).
//!
//! Whoever polls runs all callbacks that are due, so yours (`map_async`, `on_submitted_work_done`,
//! device lost) may run on the profiler's thread, or within a call of the profiler. If one panics
//! there, the panic ends with it: others that were due at the same moment are dropped, and work
//! that they were to tell of is counted as not observed. When wgpu itself
//! panics because the device is gone, the device is taken for lost.
//!
//! # Clocks
//!
//! wgpu has no call that reads the device's clock and the host's together. The two are tied by what
//! is certain, that work runs between its submission and its end ([`ClockBounds`](super::ClockBounds)):
//! by a few empty passes when the profiler is made, which takes some milliseconds, and by every
//! command buffer since. The field `uncertainty` says how far a start may be off;
//! durations do not depend on it.
//!
//! # Limits
//!
//! - The device's counter is taken to have 64 bits: wgpu does not tell how many count. A kernel
//!   during which a shorter one began again has no time of its own.
//! - `submit to done` includes the time until somebody looked.
//! - wgpu does not tell whether it refused a submission. It is noticed by timestamps that are those
//!   of an earlier command buffer, and counted as failed; where there was none before, or none are
//!   sampled, the command buffer is recorded as submit to done.

#[cfg(feature = "off")]
mod off;

#[cfg(not(feature = "off"))]
mod clock;
#[cfg(not(feature = "off"))]
mod collector;
#[cfg(not(feature = "off"))]
mod encoder;
#[cfg(not(feature = "off"))]
mod profiler;
#[cfg(not(feature = "off"))]
mod query_sets;
#[cfg(not(feature = "off"))]
mod scope;

#[cfg(feature = "off")]
pub use off::{
    BlitScope, Builder, ComputeScope, DispatchScope, GpuProfiler, ProfiledBuffer, ProfiledEncoder,
    SharedPass,
};
#[cfg(not(feature = "off"))]
pub use {
    encoder::{ProfiledBuffer, ProfiledEncoder},
    profiler::{Builder, GpuProfiler},
    scope::{BlitScope, ComputeScope, DispatchScope, SharedPass},
};

/// What of an adapter's features a profiler makes use of: ask for these, beside your own, when
/// requesting the device.
pub fn timing_features(adapter: &::wgpu::Adapter) -> ::wgpu::Features {
    adapter.features()
        & (::wgpu::Features::TIMESTAMP_QUERY
            | ::wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS
            | ::wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES)
}

/// Who polls the device for work that is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// A thread of the profiler's.
    #[default]
    Helper,
    /// The program itself, through the profiler or by `Device::poll`.
    Caller,
}

/// Something of your own that holds an encoder: implement it, and
/// [`GpuProfiler::attach`] takes it.
pub trait CommandBufferWrapper {
    /// The encoder that commands go to.
    fn encoder(&mut self) -> &mut ::wgpu::CommandEncoder;
}

impl CommandBufferWrapper for ::wgpu::CommandEncoder {
    #[inline]
    fn encoder(&mut self) -> &mut ::wgpu::CommandEncoder {
        self
    }
}

impl<W: CommandBufferWrapper> CommandBufferWrapper for &mut W {
    #[inline]
    fn encoder(&mut self) -> &mut ::wgpu::CommandEncoder {
        (**self).encoder()
    }
}
