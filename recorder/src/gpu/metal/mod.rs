//! Kernels of Metal, on macOS. On other systems this module is empty: the feature may be
//! switched on everywhere, and what it brings is used under `cfg(target_os = "macos")`.
//!
//! **No Metal device has run this yet.** It is type-checked and linted for Apple silicon, and
//! what it decides by is tested elsewhere, against made-up devices: the mapping of clocks, the
//! choice and the validation of samples, everything that is read from dictionaries. That Metal
//! answers as its documentation and other people's reports say is not.
//!
//! ```ignore
//! use ringscope::gpu::metal::GpuProfiler;
//!
//! let profiler = GpuProfiler::new(&queue); // a ProtocolObject<dyn MTLCommandQueue>
//!
//! let mut commands = profiler.commands("step")?;
//! {
//!     let scope = commands.profile_compute("matmul")?; // a ProtocolObject<dyn MTLComputeCommandEncoder>
//!     scope.setComputePipelineState(&matmul);
//!     scope.dispatchThreadgroups_threadsPerThreadgroup(groups, threads);
//! }
//! commands.commit();
//!
//! // Or without command buffers to think about:
//! profiler.stream().compute("softmax", |encoder| encode_softmax(encoder));
//!
//! println!("{}", profiler.finish(std::time::Duration::from_secs(1)));
//! ```
//!
//! # What is sampled
//!
//! | work | Apple silicon | Intel and AMD | no counters |
//! |---|---|---|---|
//! | `profile_compute`, `profile_blit` | stage boundary: when the pass begins and ends | dispatch boundary: between commands, behind a barrier | command buffer |
//! | `profile_compute_in`, `profile_blit_in`: in a pass of the caller's | command buffer | dispatch boundary | command buffer |
//!
//! Every point is asked for, and what the device does not grant is not used: Metal ends a process
//! that samples where it cannot. The field `source` of each record says which it was. Samples that
//! are zero, an error value, out of order, or outside of their command buffer are not
//! believed; the work then has the time of its command buffer (`GPUStartTime`, `GPUEndTime`),
//! and one record stands for all such work of a command buffer.
//!
//! Samples are resolved on the processor when a command buffer has completed, never by the device:
//! that is what still works on macOS 26, where a resolve that was queued earlier often
//! gives zeros.
//!
//! # Latency and throughput
//!
//! On Apple silicon a pass is the finest that can be timed, and passes of one command buffer may
//! overlap. In latency mode (`RINGSCOPE_GPU_LATENCY`, on by default) the stream of a profiler
//! gives each kernel a command buffer of its own: its wait, its scheduling and its
//! execution are then exact, for the price of a commit each. In throughput mode
//! up to 64 kernels share one.
//!
//! # Clocks
//!
//! The device's clock and the host's are read together when a command buffer is committed and
//! when it completes, at most every 10 ms once the line through the readings is that long. What
//! a tick of the device is worth is not asked, but follows from the line. `host_time.rs` has how
//! Metal's host times come to the recorder's counter.
//!
//! # Readings
//!
//! While something is recorded, the recorder's second thread reads with its other readings: bytes that
//! Metal has allocated for this process and the working set that it recommends (`memory.device`),
//! what the device is (`device.found`: family, unified memory), utilisation and memory in use by
//! all processes from the driver, the GPU's power from the system's energy model, the thermal
//! state and low-power mode. What the system does not tell is left out; the private library that
//! tells power is looked up at run time.
//!
//! # Limits
//!
//! - Needs macOS 10.15 to link; counters need 11, and are asked for.
//! - A scope ends its pass. Calling `endEncoding` on it as well, or ending a pass inside of a
//!   `..._in` scope on a device that samples between commands, ends the process: Metal has no
//!   way to ask whether an encoder has ended.
//! - An encoder without commands samples nothing; its kernel has the time of the command buffer.
//! - Handlers run on Metal's threads, which take a ring each for as long as they live.
//! - The driver's statistics and the energy model are not documented by Apple. They are of the whole
//!   device, not of this process, and its utilisation is a coarse one.
//! - The host's clocks part when the machine sleeps; work that was in flight then has times that
//!   are not believed, or stretched.
//! - Render passes and Metal 4's command buffers are not profiled.

// What decides, for any system: compiled where it is used or tested.
#[cfg(any(test, target_os = "macos"))]
mod abilities;
#[cfg(any(test, target_os = "macos"))]
mod accelerator;
#[cfg(any(test, target_os = "macos"))]
mod calibration;
#[cfg(any(test, target_os = "macos"))]
mod energy;
#[cfg(any(test, target_os = "macos"))]
mod host_time;
#[cfg(test)]
mod made_up_device;
#[cfg(any(test, target_os = "macos"))]
mod sharing;

// What calls macOS. `calls` and `system` have all that is unsafe.
#[cfg(target_os = "macos")]
mod calls;
#[cfg(target_os = "macos")]
mod commands;
#[cfg(target_os = "macos")]
mod profiler;
#[cfg(target_os = "macos")]
mod readings;
#[cfg(target_os = "macos")]
mod scope;
#[cfg(target_os = "macos")]
mod stream;
#[cfg(target_os = "macos")]
mod system;

#[cfg(target_os = "macos")]
pub use self::{
    commands::{CommandBufferWrapper, ProfiledCommands},
    profiler::{Builder, GpuProfiler},
    scope::{BlitScope, ComputeScope, OpenScope},
    stream::Stream,
};
