//! Every call into Metal that the compiler cannot check, behind functions that it can.
//!
//! What is unchecked is of four kinds, and each is kept here:
//!
//! - **Indices** into sample buffers and descriptors. A [`SampleBuffer`] knows how
//!   many samples it has, and nothing outside of them is passed on.
//! - **Pointers** to numbers that Metal fills in: to locals of the calling function.
//! - **Blocks**, which Metal calls later, once, on a thread of its own: [`on_completion`]
//!   takes closures that are `Send` and own what they use, which the type of the
//!   binding does not ask for.
//! - **Sharing** sample buffers between threads, which the headers say nothing
//!   about: see [`SampleBuffer`].
//!
//! Selectors that are younger than Metal itself are asked for first.

#![allow(unsafe_code)]

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::NonNull,
    sync::{Mutex, PoisonError},
};

use block2::RcBlock;
use objc2::{
    rc::{Retained, autoreleasepool},
    runtime::{NSObjectProtocol, ProtocolObject},
    sel,
};
use objc2_foundation::{NSError, NSRange, NSString};
use objc2_metal::{
    MTLBlitCommandEncoder, MTLBlitPassDescriptor, MTLCommandBuffer, MTLCommandBufferError,
    MTLCommandBufferErrorDomain, MTLCommandBufferStatus, MTLCommonCounterSetTimestamp,
    MTLCommonCounterTimestamp, MTLComputeCommandEncoder, MTLComputePassDescriptor, MTLCounter,
    MTLCounterSampleBuffer, MTLCounterSampleBufferDescriptor, MTLCounterSamplingPoint,
    MTLCounterSet, MTLDevice, MTLDispatchType, MTLStorageMode,
};

use super::{abilities::Answers, host_time::Timebase};

pub(super) type Device = ProtocolObject<dyn MTLDevice>;
pub(super) type CommandBuffer = ProtocolObject<dyn MTLCommandBuffer>;
pub(super) type ComputeEncoder = ProtocolObject<dyn MTLComputeCommandEncoder>;
pub(super) type BlitEncoder = ProtocolObject<dyn MTLBlitCommandEncoder>;
type CounterSet = ProtocolObject<dyn MTLCounterSet>;

/// The set that timestamps are sampled from, if the device has it.
pub(super) fn timestamp_set(device: &Device) -> Option<Retained<CounterSet>> {
    if !device.respondsToSelector(sel!(counterSets)) {
        return None;
    }
    // SAFETY: constants of the framework: set when it is loaded, never changed.
    let (set_name, counter_name) =
        unsafe { (MTLCommonCounterSetTimestamp, MTLCommonCounterTimestamp) };
    let has_timestamp =
        |set: &CounterSet| set.counters().iter().any(|counter| *counter.name() == *counter_name);
    device.counterSets()?.iter().find(|set| *set.name() == *set_name && has_timestamp(set))
}

/// Where the device samples, asked point by point.
pub(super) fn ask(device: &Device) -> Answers {
    // macOS 11. Before, there are no points to choose from and no descriptors of passes.
    if !device.respondsToSelector(sel!(supportsCounterSampling:)) {
        return Answers::default();
    }
    Answers {
        timestamps: timestamp_set(device).is_some(),
        stage_boundary: device.supportsCounterSampling(MTLCounterSamplingPoint::AtStageBoundary),
        dispatch_boundary: device
            .supportsCounterSampling(MTLCounterSamplingPoint::AtDispatchBoundary),
        blit_boundary: device.supportsCounterSampling(MTLCounterSamplingPoint::AtBlitBoundary),
    }
}

/// The clocks of the host and of the device, read as close together as Metal can.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timestamps {
    pub(super) cpu: u64,
    pub(super) gpu: u64,
}

/// Reads both clocks. `None` from a device that has no such clock: it leaves zeros.
pub(super) fn timestamps(device: &Device) -> Option<Timestamps> {
    if !device.respondsToSelector(sel!(sampleTimestamps:gpuTimestamp:)) {
        return None;
    }
    let (mut cpu, mut gpu) = (0, 0);
    // SAFETY: both point to a local that is written before the call returns.
    unsafe {
        device.sampleTimestamps_gpuTimestamp(NonNull::from(&mut cpu), NonNull::from(&mut gpu));
    }
    (cpu != 0 && gpu != 0).then_some(Timestamps { cpu, gpu })
}

/// Ticks of the device's clock in a second, where it says so (Metal 4). 0 is no answer.
pub(super) fn timestamp_frequency(device: &Device) -> Option<u64> {
    device
        .respondsToSelector(sel!(queryTimestampFrequency))
        .then(|| device.queryTimestampFrequency())
        .filter(|&hertz| hertz != 0)
}

/// What a tick of `mach_absolute_time` is worth.
pub(super) fn timebase() -> Timebase {
    #[repr(C)]
    struct Info {
        numer: u32,
        denom: u32,
    }
    unsafe extern "C" {
        fn mach_timebase_info(info: *mut Info) -> i32;
    }
    let mut info = Info { numer: 0, denom: 0 };
    // SAFETY: the layout is that of `mach_timebase_info_data_t`, two `uint32_t`, and
    // the pointer is to a local.
    let result = unsafe { mach_timebase_info(&raw mut info) };
    // If it failed, nanoseconds are the better guess: so it is on Intel.
    if result != 0 || info.denom == 0 {
        return Timebase { numer: 1, denom: 1 };
    }
    Timebase { numer: info.numer, denom: info.denom }
}

/// Room for timestamps, which the device writes and the host reads.
#[derive(Debug)]
pub(super) struct SampleBuffer {
    buffer: Retained<ProtocolObject<dyn MTLCounterSampleBuffer>>,
    samples: usize,
    /// Held while reading.
    reading: Mutex<()>,
}

// SAFETY: the object has no setters: what we call on it are its creation, its
// retain and release (atomic for every object), handing it to encoders, and
// `resolveCounterRange:`, one thread at a time by `reading`. Metal ties none of its
// objects to a thread. The samples themselves are written by the device, and a range is
// read only after the command buffer that writes it has completed. Until then
// `commands::InFlight`, which its completion handler owns, holds the `Shared` that
// owns this buffer: a command buffer need not retain what it refers to.
unsafe impl Send for SampleBuffer {}
// SAFETY: as above.
unsafe impl Sync for SampleBuffer {}

impl SampleBuffer {
    /// Room for so many timestamps.
    ///
    /// # Errors
    ///
    /// In Metal's words: too many live at once, or too large.
    pub(super) fn new(device: &Device, samples: usize) -> Result<Self, String> {
        let set = timestamp_set(device).ok_or("the device has no timestamps")?;
        autoreleasepool(|_| {
            let descriptor = MTLCounterSampleBufferDescriptor::new();
            descriptor.setCounterSet(Some(&set));
            descriptor.setLabel(&NSString::from_str("ringscope"));
            descriptor.setStorageMode(MTLStorageMode::Shared);
            // SAFETY: any count will do here; one that is too large is an error below.
            unsafe { descriptor.setSampleCount(samples) };
            let buffer = device
                .newCounterSampleBufferWithDescriptor_error(&descriptor)
                .map_err(|error| error.localizedDescription().to_string())?;
            // What it has, not what was asked for.
            let samples = samples.min(buffer.sampleCount());
            Ok(Self { buffer, samples, reading: Mutex::new(()) })
        })
    }

    /// How many it holds.
    pub(super) fn samples(&self) -> usize {
        self.samples
    }

    /// The timestamps in a range, after the work that writes them has completed.
    /// `None` if the range is not in the buffer, or Metal has no answer.
    pub(super) fn read(&self, range: Range<usize>) -> Option<Vec<u64>> {
        if range.start > range.end || range.end > self.samples {
            return None;
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        autoreleasepool(|_| {
            // SAFETY: the range lies within the buffer, by the check above, and its
            // storage is shared, by `new`.
            let data = unsafe { self.buffer.resolveCounterRange(NSRange::from(range.clone())) }?;
            let bytes = data.to_vec();
            let values = bytes.chunks_exact(size_of::<u64>()).map(|bytes| {
                let mut value = [0; size_of::<u64>()];
                value.copy_from_slice(bytes);
                u64::from_ne_bytes(value)
            });
            let values: Vec<u64> = values.collect();
            (values.len() == range.len()).then_some(values)
        })
    }
}

/// Where the begin and the end of a piece of work are sampled.
#[derive(Clone, Copy, Debug)]
pub(super) struct SamplePair<'a> {
    buffer: &'a SampleBuffer,
    begin: usize,
}

impl<'a> SamplePair<'a> {
    /// The sample at `begin` and the one after; `None` if the buffer ends before.
    pub(super) fn new(buffer: &'a SampleBuffer, begin: usize) -> Option<Self> {
        (begin.checked_add(2)? <= buffer.samples).then_some(Self { buffer, begin })
    }
}

/// A compute pass; with `samples`, one that samples where it begins and ends. The
/// latter only on a device with [`Answers::stage_boundary`].
pub(super) fn compute_encoder(
    commands: &CommandBuffer,
    dispatch_type: MTLDispatchType,
    samples: Option<SamplePair<'_>>,
) -> Option<Retained<ComputeEncoder>> {
    let Some(samples) = samples else {
        return commands.computeCommandEncoderWithDispatchType(dispatch_type);
    };
    autoreleasepool(|_| {
        let pass = MTLComputePassDescriptor::computePassDescriptor();
        pass.setDispatchType(dispatch_type);
        // SAFETY: every pass has at least one attachment, of index 0.
        let attachment = unsafe { pass.sampleBufferAttachments().objectAtIndexedSubscript(0) };
        attachment.setSampleBuffer(Some(&samples.buffer.buffer));
        // SAFETY: both indices lie within the buffer: `SamplePair::new`.
        unsafe {
            attachment.setStartOfEncoderSampleIndex(samples.begin);
            attachment.setEndOfEncoderSampleIndex(samples.begin + 1);
        }
        commands.computeCommandEncoderWithDescriptor(&pass)
    })
}

/// A pass for copies and fills; see [`compute_encoder`].
pub(super) fn blit_encoder(
    commands: &CommandBuffer,
    samples: Option<SamplePair<'_>>,
) -> Option<Retained<BlitEncoder>> {
    let Some(samples) = samples else { return commands.blitCommandEncoder() };
    autoreleasepool(|_| {
        let pass = MTLBlitPassDescriptor::blitPassDescriptor();
        // SAFETY: every pass has at least one attachment, of index 0.
        let attachment = unsafe { pass.sampleBufferAttachments().objectAtIndexedSubscript(0) };
        attachment.setSampleBuffer(Some(&samples.buffer.buffer));
        // SAFETY: both indices lie within the buffer: `SamplePair::new`.
        unsafe {
            attachment.setStartOfEncoderSampleIndex(samples.begin);
            attachment.setEndOfEncoderSampleIndex(samples.begin + 1);
        }
        commands.blitCommandEncoderWithDescriptor(&pass)
    })
}

/// Which of the two samples of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Begin,
    End,
}

/// An encoder that can sample between its commands, on devices that can.
pub(super) trait SamplesBetweenCommands {
    /// Samples here, after all work before it in this pass: only on a device that has
    /// the boundary of this kind of pass among its [`Answers`]. Elsewhere Metal ends the
    /// process.
    fn sample(&self, samples: SamplePair<'_>, edge: Edge);
}

impl SamplesBetweenCommands for ComputeEncoder {
    fn sample(&self, samples: SamplePair<'_>, edge: Edge) {
        let index = samples.begin + usize::from(edge == Edge::End);
        let buffer = &samples.buffer.buffer;
        // SAFETY: the index lies within the buffer: `SamplePair::new`.
        unsafe { self.sampleCountersInBuffer_atSampleIndex_withBarrier(buffer, index, true) };
    }
}

impl SamplesBetweenCommands for BlitEncoder {
    fn sample(&self, samples: SamplePair<'_>, edge: Edge) {
        let index = samples.begin + usize::from(edge == Edge::End);
        let buffer = &samples.buffer.buffer;
        // SAFETY: the index lies within the buffer: `SamplePair::new`.
        unsafe { self.sampleCountersInBuffer_atSampleIndex_withBarrier(buffer, index, true) };
    }
}

/// What a command buffer says of itself when it is done. Times are seconds of
/// uptime, and 0 where there is none.
#[derive(Clone, Debug)]
pub(super) struct Finished {
    pub(super) gpu_start: f64,
    pub(super) gpu_end: f64,
    /// The system's work of scheduling it, on the processor.
    pub(super) kernel_start: f64,
    pub(super) kernel_end: f64,
    pub(super) failure: Option<Failure>,
}

/// Why a command buffer was not executed to its end.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// The device is gone, or this process may not use it any more.
    pub(super) device_lost: bool,
    /// In Metal's words.
    pub(super) reason: String,
}

/// Whether handlers can still be added: not once it is committed.
pub(super) fn takes_handlers(commands: &CommandBuffer) -> bool {
    commands.status() < MTLCommandBufferStatus::Committed
}

/// Calls `handler` once when the command buffer is done, on a thread of Metal's. It is dropped,
/// uncalled, together with a command buffer that is never committed. Only for one that
/// [`takes_handlers`]: elsewhere Metal ends the process.
pub(super) fn on_completion(
    commands: &CommandBuffer,
    handler: impl FnOnce(&Finished) + Send + 'static,
) {
    let handler = Mutex::new(Some(handler));
    let block = RcBlock::new(move |commands: NonNull<CommandBuffer>| {
        let handler = handler.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(handler) = handler else { return };
        // A panic must not unwind into Metal. What it says was printed by the hook.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: Metal passes the buffer that is done and keeps it alive for the call.
            handler(&finished(unsafe { commands.as_ref() }));
        }));
    });
    // SAFETY: the pointer is to a live block, which Metal copies (retains). It may be
    // called and dropped on any thread: the closure is `Send` and `'static` by
    // the bounds above, the mutex makes it `Sync`, and `CommandBuffer` is not captured.
    unsafe { commands.addCompletedHandler(RcBlock::as_ptr(&block)) };
}

fn finished(commands: &CommandBuffer) -> Finished {
    let failed = commands.status() == MTLCommandBufferStatus::Error;
    Finished {
        gpu_start: commands.GPUStartTime(),
        gpu_end: commands.GPUEndTime(),
        kernel_start: commands.kernelStartTime(),
        kernel_end: commands.kernelEndTime(),
        failure: failed.then(|| failure(commands.error().as_deref())),
    }
}

fn failure(error: Option<&NSError>) -> Failure {
    let Some(error) = error else {
        return Failure { device_lost: false, reason: String::new() };
    };
    // SAFETY: a constant of the framework: set when it is loaded, never changed.
    let domain = unsafe { MTLCommandBufferErrorDomain };
    let code = MTLCommandBufferError(error.code() as usize);
    let lost = [MTLCommandBufferError::DeviceRemoved, MTLCommandBufferError::AccessRevoked];
    Failure {
        device_lost: *error.domain() == *domain && lost.contains(&code),
        reason: error.localizedDescription().to_string(),
    }
}
