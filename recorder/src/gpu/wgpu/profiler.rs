//! The front door of the backend.

use std::{
    fmt,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ::wgpu::{CommandEncoderDescriptor, Device, Features, Queue, SubmissionIndex};

use super::{
    CommandBufferWrapper, Polling,
    clock::DeviceClock,
    collector::{Collector, Inbox, lock},
    encoder::{ProfiledBuffer, ProfiledEncoder},
    query_sets::QuerySets,
};
use crate::{
    DeviceQueue, Name,
    gpu::{
        Abilities, DeviceReader, GpuMemory, GpuReport, MOST_IN_FLIGHT, SampleLog, Submissions,
        host_ticks,
    },
};

static BACKEND: Name = Name::new("wgpu");
/// Query sets of 4,096 timestamps each: with 16 scopes in a command buffer, enough for 2,048.
const QUERY_SETS: u32 = 16;
/// A look takes less than a millisecond, unless callbacks of the program's run in it.
const HELPER_ENDS_WITHIN: Duration = Duration::from_millis(50);

/// Records the kernels of one queue of wgpu; see the [module](super).
///
/// Dropped, it gives up what is in flight, which is counted in the trace; [`GpuProfiler::finish`]
/// waits for it. Either ends its thread, if that is not held up for longer than a twentieth of a second.
pub struct GpuProfiler {
    collector: Arc<Collector>,
    queue: Queue,
    abilities: Abilities,
    /// The thread of its own that polls, if there is one.
    helper: Option<JoinHandle<()>>,
    memory: Arc<GpuMemory>,
    _reader: DeviceReader,
}

/// Sets up a [`GpuProfiler`].
#[derive(Debug)]
pub struct Builder<'a> {
    device: &'a Device,
    queue: &'a Queue,
    number: u32,
    most_in_flight: usize,
    query_sets: u32,
    polling: Polling,
    logged: Option<usize>,
}

impl Builder<'_> {
    /// The device's number, by which reports tell devices apart; 0 if nothing is said.
    pub fn device_number(mut self, number: u32) -> Self {
        self.number = number;
        self
    }

    /// Command buffers in flight at most; further ones are not profiled, and counted.
    pub fn most_in_flight(mut self, most: usize) -> Self {
        self.most_in_flight = most.max(1);
        self
    }

    /// Query sets of 4,096 timestamps at most. When all are taken, scopes have the time of
    /// their command buffer.
    pub fn most_query_sets(mut self, most: u32) -> Self {
        self.query_sets = most.max(1);
        self
    }

    /// Who polls.
    pub fn polling(mut self, polling: Polling) -> Self {
        self.polling = polling;
        self
    }

    /// Keeps what the device says of the first so many command buffers, the profiler's own included,
    /// before any of it is judged: for [`GpuProfiler::sample_log`].
    pub fn log_samples(mut self, most: usize) -> Self {
        self.logged = Some(most);
        self
    }

    /// Makes it. Waits for a few empty passes, to learn how the device's clock stands
    /// to the host's.
    pub fn start(self) -> GpuProfiler {
        let Self { device, queue, number, most_in_flight, query_sets, polling, logged } = self;
        let adapter = device.adapter_info().name;
        let line = DeviceQueue::named(format!("GPU {number} {adapter}").trim_end());
        let features = device.features();
        let abilities = Abilities {
            pass_boundary: features.contains(Features::TIMESTAMP_QUERY),
            inside_pass: features.contains(Features::TIMESTAMP_QUERY_INSIDE_PASSES),
            inside_encoder: features.contains(Features::TIMESTAMP_QUERY_INSIDE_ENCODERS),
            ..Abilities::default()
        };
        let mut clock = DeviceClock::new(queue, line);
        if let Some(most) = logged {
            clock.keep_log(most, abilities);
        }
        if abilities.pass_boundary {
            clock.calibrate(device, queue);
        }
        let inbox = Inbox::new(Submissions::new(line, &BACKEND, most_in_flight));
        let collector = Arc::new(Collector {
            device: device.clone(),
            query_sets: QuerySets::new(device, query_sets),
            clock: Mutex::new(clock),
            inbox,
        });
        // Without one, who calls the profiler polls.
        let helper = (polling == Polling::Helper).then(|| {
            let collector = Arc::clone(&collector);
            let thread = thread::Builder::new().name("ringscope-gpu".to_owned());
            thread.spawn(move || collector.run()).ok()
        });
        let memory = Arc::new(GpuMemory::of(&number.to_string(), None));
        let (read, allocator) = (Arc::clone(&memory), device.clone());
        let reader = DeviceReader::register(move || {
            if let Some(report) = allocator.generate_allocator_report() {
                read.snapshot(report.total_allocated_bytes, Some(report.total_reserved_bytes));
            }
        });
        let queue = queue.clone();
        let helper = helper.flatten();
        GpuProfiler { collector, queue, abilities, helper, memory, _reader: reader }
    }
}

impl GpuProfiler {
    /// A profiler with the usual settings; see [`Builder::start`].
    pub fn new(device: &Device, queue: &Queue) -> Self {
        Self::builder(device, queue).start()
    }

    /// Sets one up.
    pub fn builder<'a>(device: &'a Device, queue: &'a Queue) -> Builder<'a> {
        Builder {
            device,
            queue,
            number: 0,
            most_in_flight: MOST_IN_FLIGHT,
            query_sets: QUERY_SETS,
            polling: Polling::default(),
            logged: None,
        }
    }

    /// Makes an encoder whose scopes are recorded. `label` is for wgpu's own messages.
    pub fn encoder(&self, label: &str) -> ProfiledEncoder {
        let descriptor = CommandEncoderDescriptor { label: Some(label) };
        self.attach(self.collector.device.create_command_encoder(&descriptor))
    }

    /// The same for an encoder that is already there, or for something of your own that
    /// holds one; also by reference. What was encoded before has no scopes.
    pub fn attach<W: CommandBufferWrapper>(&self, wrapper: W) -> ProfiledEncoder<W> {
        ProfiledEncoder::new(wrapper, Arc::clone(&self.collector), self.abilities)
    }

    /// Submits command buffers, profiled ones and others. Those of a profiler may be submitted
    /// without it as well ([`ProfiledBuffer::into_inner`]); their queue delay
    /// then counts from the end of their encoding.
    ///
    /// With [`Polling::Caller`] it also looks for work that is done, as [`poll`](Self::poll) does.
    pub fn submit<B: Into<ProfiledBuffer>>(
        &self,
        buffers: impl IntoIterator<Item = B>,
    ) -> SubmissionIndex {
        let buffers: Vec<ProfiledBuffer> = buffers.into_iter().map(Into::into).collect();
        let now = host_ticks();
        for id in buffers.iter().filter_map(|buffer| buffer.id) {
            self.collector.inbox.submissions.submitted(id, now);
        }
        let index = self.queue.submit(buffers.into_iter().map(ProfiledBuffer::into_inner));
        if self.helper.is_some() {
            self.collector.inbox.wake();
        } else {
            self.collector.look();
        }
        index
    }

    /// Looks once for work that is done and records it, without waiting. With
    /// [`Polling::Caller`], call it now and then.
    pub fn poll(&self) {
        self.collector.look();
    }

    /// Waits until nothing is in flight, or for so long. Returns whether nothing is.
    pub fn flush(&self, at_most: Duration) -> bool {
        self.collector.look_for(at_most)
    }

    /// Waits as [`flush`](Self::flush) does, gives up the rest, and says what was done.
    pub fn finish(self, at_most: Duration) -> GpuReport {
        self.flush(at_most);
        lock(&self.collector.clock).keep();
        self.collector.inbox.close();
        self.report()
    }

    /// Tells it that the device is lost, for a program that has a callback for that. Without
    /// it, it is noticed when something in flight fails.
    pub fn device_lost(&self) {
        self.collector.lose_device();
    }

    /// The device's memory: hooks for allocations. What wgpu's allocator has in use is read
    /// with the recorder's readings, where the backend tells.
    pub fn memory(&self) -> &GpuMemory {
        &self.memory
    }

    /// What the device can sample.
    pub fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// What the device has said so far, if [`Builder::log_samples`] asked for that: for
    /// a report of times that look wrong.
    pub fn sample_log(&self) -> Option<SampleLog> {
        lock(&self.collector.clock).log()
    }

    /// What was done so far, and what could not be.
    pub fn report(&self) -> GpuReport {
        GpuReport {
            no_slot: self.collector.query_sets.exhausted(),
            clock_jumps: u64::from(lock(&self.collector.clock).jumps()),
            ..self.collector.inbox.submissions.report()
        }
    }
}

impl Drop for GpuProfiler {
    fn drop(&mut self) {
        self.collector.look();
        self.collector.inbox.close();
        if let Some(helper) = self.helper.take() {
            wait_for(&helper);
        }
    }
}

/// Waits for a helper that was told to end: a program that ends meanwhile would take the driver
/// away beneath its last look. Not for long, since a callback of the program's that runs there may wait
/// for the caller, and not if the caller is one.
fn wait_for(helper: &JoinHandle<()>) {
    let begun = Instant::now();
    helper.thread().unpark();
    while !helper.is_finished()
        && helper.thread().id() != thread::current().id()
        && begun.elapsed() < HELPER_ENDS_WITHIN
    {
        thread::sleep(Duration::from_micros(50));
    }
}

impl fmt::Debug for GpuProfiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuProfiler").field("report", &self.report()).finish_non_exhaustive()
    }
}
