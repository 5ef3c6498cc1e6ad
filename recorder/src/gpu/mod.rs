//! GPU kernels: their real start, end and queue delay, in the same trace as the spans
//! of the threads that launched them.
//!
//! A backend is a feature, with a `GpuProfiler` of its own. What is here is free of any GPU API:
//! what backends share, and what one of your own (CUDA, OpenCL) would be built on.
//!
//! # The way of a kernel
//!
//! 1. A [`Launch`] begins on the caller's thread when its scope does, and is recorded when that ends.
//! 2. The scope joins the [`Batch`] of its command buffer, with a place in a block of
//!    [`Slots`] for its two timestamps if the device can sample ([`Abilities`]) and a block is left.
//! 3. The batch is [entered](Batch::enter) into the [`Submissions`] of its queue, and the command
//!    buffer goes its way.
//! 4. Whoever learns that it is done reads the samples and calls [`Submissions::complete`]: each is
//!    validated ([`Sample`]), mapped to the host's clock ([`ClockMap`] where both clocks
//!    can be read at once, [`LearnedClock`] where not) and recorded on the line of time of the
//!    [`DeviceQueue`](crate::DeviceQueue), with where its time came from ([`TimingSource`]).
//!
//! # What is promised
//!
//! Nobody waits for a device. A time is never made up: what was not sampled has the time of its
//! command buffer and says so, and what ran, or may have, and has no time at all is counted
//! ([`GpuReport::untimed`]) and stands in the trace as `kernel.untimed`. What was never submitted
//! did not run: it is in the report alone.

mod calibration;
mod clock_bounds;
mod clock_map;
mod counter;
mod host_clock;
mod learned_clock;
mod memory;
#[cfg(feature = "metal")]
pub mod metal;
mod readers;
mod recording;
mod report;
mod sample;
mod sample_log;
mod slot_pool;
mod source;
mod submissions;
#[cfg(feature = "wgpu")]
pub mod wgpu;

pub use calibration::keep_pair;
#[cfg(not(feature = "off"))]
pub(crate) use calibration::kept as kept_pairs;
pub use clock_bounds::{Bracket, ClockBounds, Narrowed};
pub use clock_map::{ClockMap, DRIFT, Moment, Pair};
pub use counter::DeviceCounter;
pub use host_clock::{HostRate, host_ticks};
pub use learned_clock::LearnedClock;
pub use memory::{Allocation, GpuMemory};
pub use readers::DeviceReader;
#[cfg(not(feature = "off"))]
pub(crate) use readers::take as take_readings;
pub use recording::{Direction, KernelName, Launch, Launched, Work};
pub use report::GpuReport;
pub use sample::{Interval, Rejection, Sample};
pub use sample_log::{Entry, LoggedScope, Ran, SampleLog, SampleLogError};
pub use slot_pool::{SlotPool, Slots};
pub use source::{Abilities, Place, TimingSource};
pub use submissions::{Batch, Completion, MOST_IN_FLIGHT, Scope, Submissions};
