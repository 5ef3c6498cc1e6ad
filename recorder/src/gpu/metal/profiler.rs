//! The profiler of one command queue: what its command buffers share.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use objc2::{Message, rc::Retained, runtime::ProtocolObject};
use objc2_foundation::NSString;
use objc2_metal::{MTLCommandBuffer, MTLCommandQueue, MTLCopyAllDevices, MTLDevice};

use super::{
    abilities::Answers,
    calibration::Calibration,
    calls::{self, Device, SampleBuffer},
    commands::{CommandBufferWrapper, ProfiledCommands},
    host_time::{self, Timebase},
    readings::Readings,
    stream::Stream,
};
use crate::{
    DeviceQueue, Name,
    gpu::{
        Abilities, GpuMemory, GpuReport, HostRate, MOST_IN_FLIGHT, Moment, SlotPool, Slots,
        Submissions, host_ticks, keep_pair,
    },
    vocabulary::DeviceError,
};

type CommandQueue = ProtocolObject<dyn MTLCommandQueue>;

static BACKEND: Name = Name::new("metal");

/// Samples in one buffer: 32 KiB, which is as large as Metal makes them.
const BUFFER_SAMPLES: u32 = 4_096;
/// Of the about 32 that a process may have, so many for one queue.
const SAMPLE_BUFFERS: u32 = 8;
/// Samples that a command buffer takes at a time: those of eight scopes. All buffers
/// together are enough for more command buffers than may be in flight.
pub(super) const BLOCK: u32 = 16;

/// Times the work of one command queue.
///
/// When it is dropped, what is still in flight is given up and counted. It may be used on
/// any thread; the [`ProfiledCommands`] and scopes that it makes stay on the thread that
/// encodes.
pub struct GpuProfiler {
    shared: Arc<Shared>,
}

/// What a profiler shares with its command buffers and their handlers.
pub(super) struct Shared {
    queue: Retained<CommandQueue>,
    device: Retained<Device>,
    track: &'static DeviceQueue,
    pub(super) answers: Answers,
    pub(super) submissions: Arc<Submissions>,
    pool: Arc<SlotPool>,
    /// By the number that the pool gives; `None` where Metal refused to make one.
    buffers: Vec<OnceLock<Option<SampleBuffer>>>,
    /// Blocks of buffers that Metal did not make.
    useless: Mutex<Vec<Slots>>,
    calibration: Mutex<Calibration>,
    timebase: Timebase,
    /// Nanoseconds in a tick of the device, where it says so.
    tick_ns: Option<f64>,
    /// What the device is called.
    pub(super) name: &'static Name,
    readings: Arc<Readings>,
}

/// Sets up a [`GpuProfiler`].
#[must_use = "it profiles nothing before `start`"]
#[derive(Debug)]
pub struct Builder<'a> {
    queue: &'a CommandQueue,
    number: Option<u32>,
    most_in_flight: usize,
    most_sample_buffers: u32,
}

impl Builder<'_> {
    /// The device's number, by which reports tell devices apart; its place among the
    /// machine's if nothing is said.
    pub fn device_number(mut self, number: u32) -> Self {
        self.number = Some(number);
        self
    }

    /// Command buffers in flight at most; further ones are not profiled, and counted.
    pub fn most_in_flight(mut self, most: usize) -> Self {
        self.most_in_flight = most.max(1);
        self
    }

    /// Sample buffers of 4,096 timestamps at most; 8 if nothing is said, and Metal has about 32
    /// for a process. When all are taken, scopes have the time of their command buffer.
    pub fn most_sample_buffers(mut self, most: u32) -> Self {
        self.most_sample_buffers = most.clamp(1, 32);
        self
    }

    /// Makes it: asks the device what it can sample and reads its clock, and measures the
    /// host's for a fifth of a millisecond.
    pub fn start(self) -> GpuProfiler {
        static QUEUES: AtomicU64 = AtomicU64::new(0);
        let device = self.queue.device();
        let number = self.number.unwrap_or_else(|| number_of(&device));
        let label = self.queue.label().map(|label| label.to_string()).filter(|it| !it.is_empty());
        let label =
            label.unwrap_or_else(|| format!("queue {}", QUEUES.fetch_add(1, Ordering::Relaxed)));
        let track = DeviceQueue::named(&format!("GPU {number} {label}"));
        let (name, readings) = Readings::of(&device, number);
        let most = self.most_sample_buffers;
        let shared = Shared {
            queue: self.queue.retain(),
            track,
            answers: calls::ask(&device),
            submissions: Submissions::new(track, &BACKEND, self.most_in_flight),
            pool: SlotPool::new(BUFFER_SAMPLES, BLOCK, most),
            buffers: (0..most).map(|_| OnceLock::new()).collect(),
            useless: Mutex::default(),
            calibration: Mutex::new(Calibration::new(HostRate::begin().ticks_per_ns())),
            timebase: calls::timebase(),
            tick_ns: calls::timestamp_frequency(&device).map(|hertz| 1e9 / hertz as f64),
            name,
            readings,
            device,
        };
        // The first of the two pairs without which nothing can be mapped.
        shared.calibrate();
        GpuProfiler { shared: Arc::new(shared) }
    }
}

impl GpuProfiler {
    /// A profiler with the usual settings for the work of this queue. On the trace it has a line
    /// of time of its own, named after the queue's label if it has one.
    pub fn new(queue: &CommandQueue) -> Self {
        Self::builder(queue).start()
    }

    /// Sets one up.
    pub fn builder(queue: &CommandQueue) -> Builder<'_> {
        let most_sample_buffers = SAMPLE_BUFFERS;
        Builder { queue, number: None, most_in_flight: MOST_IN_FLIGHT, most_sample_buffers }
    }

    /// A new command buffer, whose passes are profiled. `label` is for Metal's own tools. `None`
    /// if Metal makes none: the device is gone.
    ///
    /// Waits as `commandBuffer` does, if the queue has as many as it can.
    pub fn commands(&self, label: &str) -> Option<ProfiledCommands> {
        self.shared.commands(label)
    }

    /// The same for a command buffer that is already there, or for something of your own that
    /// holds one; also by reference.
    ///
    /// Passes that are made through the result are timed as in any other. Of a pass that the
    /// caller made before, what the device can sample between commands is sampled; on Apple
    /// silicon that is nothing, and the time is that of the command buffer: its `source` in
    /// the trace says so. One that was committed already is not profiled.
    pub fn attach<W: CommandBufferWrapper>(&self, wrapper: W) -> ProfiledCommands<W> {
        ProfiledCommands::new(Arc::clone(&self.shared), wrapper)
    }

    /// Kernels one after the other, without command buffers to think about: in latency
    /// mode each has one of its own, in throughput mode many share one.
    pub fn stream(&self) -> Stream {
        Stream::new(Arc::clone(&self.shared))
    }

    /// Waits until nothing is in flight, or for so long. Returns whether nothing is.
    ///
    /// Metal calls handlers some time after the device is done, so waiting for a command
    /// buffer is not enough before a recording ends.
    pub fn flush(&self, at_most: Duration) -> bool {
        let begun = Instant::now();
        while self.shared.submissions.in_flight() > 0 {
            if begun.elapsed() >= at_most {
                return false;
            }
            thread::sleep(Duration::from_micros(500));
        }
        true
    }

    /// Waits as [`flush`](Self::flush) does, gives up the rest, and says what was done.
    pub fn finish(self, at_most: Duration) -> GpuReport {
        self.flush(at_most);
        self.shared.submissions.close();
        self.report()
    }

    /// Tells it that the device is gone, for a program that observes that. Without it, it is
    /// noticed when something in flight fails.
    pub fn device_lost(&self) {
        self.shared.submissions.lose_device();
    }

    /// The device's memory: hooks for allocations. What Metal has allocated for this process is
    /// read with the recorder's readings.
    pub fn memory(&self) -> &GpuMemory {
        self.shared.readings.memory()
    }

    /// What the device can sample of compute passes.
    pub fn abilities(&self) -> Abilities {
        self.shared.answers.compute()
    }

    /// The line of time on which the work is shown.
    pub fn queue(&self) -> &'static DeviceQueue {
        self.shared.track
    }

    /// What was done so far, and what could not be.
    pub fn report(&self) -> GpuReport {
        GpuReport {
            no_slot: self.shared.pool.exhausted(),
            clock_jumps: u64::from(self.shared.lock().jumps()),
            ..self.shared.submissions.report()
        }
    }
}

impl Drop for GpuProfiler {
    fn drop(&mut self) {
        self.shared.submissions.close();
    }
}

impl fmt::Debug for GpuProfiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = &self.shared;
        f.debug_struct("GpuProfiler")
            .field("device", &shared.name.text())
            .field("queue", &shared.track.name())
            .field("samples", &shared.answers)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// A new command buffer.
    pub(super) fn commands(self: &Arc<Self>, label: &str) -> Option<ProfiledCommands> {
        let commands = self.queue.commandBuffer()?;
        commands.setLabel(Some(&NSString::from_str(label)));
        Some(ProfiledCommands::new(Arc::clone(self), commands))
    }

    /// Reads both clocks, if it is time to.
    pub(super) fn calibrate(&self) {
        if cfg!(feature = "off") || !self.lock().is_due(host_ticks()) {
            return;
        }
        // Not under the lock: the call takes its time.
        let before = host_time::uptime();
        let Some(stamps) = calls::timestamps(&self.device) else { return };
        let after = host_time::uptime();
        let pair = host_time::device_pair(before, (stamps.cpu, stamps.gpu), after, self.timebase);
        if self.lock().add(pair) {
            keep_pair(self.track, pair, self.tick_ns);
        }
    }

    /// When the device's counter said this.
    pub(super) fn at(&self, device: u64) -> Option<Moment> {
        self.lock().at(device)
    }

    /// A block of samples, and the buffer that it is in.
    pub(super) fn slots(&self) -> Option<Slots> {
        loop {
            let slots = self.pool.take()?;
            if self.buffer(&slots).is_some() {
                return Some(slots);
            }
            // Kept from whoever asks next: Metal makes no buffer for it.
            self.useless.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
        }
    }

    /// The buffer of a block; made when it is first used.
    pub(super) fn buffer(&self, slots: &Slots) -> Option<&SampleBuffer> {
        let buffer = self.buffers.get(slots.buffer())?;
        buffer.get_or_init(|| self.make_buffer()).as_ref()
    }

    fn make_buffer(&self) -> Option<SampleBuffer> {
        let made = SampleBuffer::new(&self.device, BUFFER_SAMPLES as usize);
        let whole = made.and_then(|buffer| match buffer.samples() {
            samples if samples == BUFFER_SAMPLES as usize => Ok(buffer),
            samples => Err(format!("room for {samples} samples instead of {BUFFER_SAMPLES}")),
        });
        if let Err(reason) = &whole {
            self.complain("sample buffer", reason);
        }
        whole.ok()
    }

    /// Records an error of the device.
    pub(super) fn complain(&self, kind: &str, payload: &str) {
        DeviceError::new().device(self.name).kind(kind).payload(payload).record();
    }

    fn lock(&self) -> MutexGuard<'_, Calibration> {
        self.calibration.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a device, among those of the machine.
fn number_of(device: &Device) -> u32 {
    let id = device.registryID();
    let place = MTLCopyAllDevices().iter().position(|other| other.registryID() == id);
    place.map_or(0, |place| place as u32)
}
