//! The device's clock on the host's, from what is known of submissions.

use std::time::{Duration, Instant};

use ::wgpu::{
    BufferDescriptor, BufferUsages, ComputePassDescriptor, ComputePassTimestampWrites, Device,
    MapMode, PollType, QUERY_SIZE, QuerySetDescriptor, QueryType, Queue,
};

use super::collector::is_polled;
use crate::{
    DeviceQueue,
    gpu::{
        Abilities, DeviceCounter, Entry, HostRate, LearnedClock, SampleLog, Submissions,
        host_ticks, keep_pair,
    },
};

/// wgpu does not say how many bits count.
pub(super) const COUNTER: DeviceCounter = DeviceCounter::FULL;
/// Empty passes at the start. The first of them include what a driver puts off.
const ROUNDS: u32 = 12;
/// A device that takes longer for an empty pass is not waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the trace keeps a pair, and the rate is measured anew.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// When the rate is first measured: the nominal one is off by more than clocks run apart.
const FIRST_RATE_AFTER: Duration = Duration::from_millis(100);

/// What is learned of the device's clock, and when the host's is measured again.
#[derive(Debug)]
pub(super) struct DeviceClock {
    learned: LearnedClock,
    host: HostRate,
    line: &'static DeviceQueue,
    last_kept: Instant,
    begun: Instant,
    is_measured: bool,
}

impl DeviceClock {
    pub(super) fn new(queue: &Queue, line: &'static DeviceQueue) -> Self {
        let mut host = HostRate::begin();
        let tick_ns = f64::from(queue.get_timestamp_period());
        let learned = LearnedClock::new(COUNTER, tick_ns, host.ticks_per_ns());
        let now = Instant::now();
        Self { learned, host, line, last_kept: now, begun: now, is_measured: false }
    }

    /// Keeps what the device says of its first so many command buffers.
    pub(super) fn keep_log(&mut self, most: usize, abilities: Abilities) {
        self.learned.keep_log(most, self.line.name(), abilities);
        self.measure();
    }

    /// What it has said, if that is kept.
    pub(super) fn log(&mut self) -> Option<SampleLog> {
        self.learned.log()?;
        // Ticks of the whole run lie between two readings of the host's clock.
        self.measure();
        self.learned.log().cloned()
    }

    pub(super) fn jumps(&self) -> u32 {
        self.learned.jumps()
    }

    /// A command buffer is done: learns from its samples, and records it.
    pub(super) fn complete(
        &mut self,
        submissions: &Submissions,
        id: u64,
        done: u64,
        samples: &[u64],
    ) {
        if !self.is_measured && self.begun.elapsed() >= FIRST_RATE_AFTER {
            self.is_measured = true;
            self.measure();
        }
        self.learned.complete(submissions, id, done, samples);
        if self.last_kept.elapsed() >= KEEP_EVERY {
            self.measure();
            self.keep();
        }
    }

    fn measure(&mut self) {
        let rate = self.host.ticks_per_ns();
        let (before, after, mono_ns) = self.host.last_read();
        self.learned.note(Entry::Host { before, after, mono_ns });
        self.learned.set_host_rate(rate);
    }

    /// Keeps what is known now in the trace.
    pub(super) fn keep(&mut self) {
        self.last_kept = Instant::now();
        if let Some(pair) = self.learned.pair() {
            keep_pair(self.line, pair, Some(self.learned.tick_ns()));
        }
    }

    /// Learns from empty passes; waits for each of them.
    pub(super) fn calibrate(&mut self, device: &Device, queue: &Queue) {
        let label = Some("ringscope");
        let set = QuerySetDescriptor { label, ty: QueryType::Timestamp, count: 2 };
        let set = device.create_query_set(&set);
        let size = u64::from(2 * QUERY_SIZE);
        let buffer = |usage| {
            device.create_buffer(&BufferDescriptor {
                label,
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let resolved = buffer(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC);
        let readback = buffer(BufferUsages::COPY_DST | BufferUsages::MAP_READ);
        for _ in 0..ROUNDS {
            let mut encoder = device.create_command_encoder(&Default::default());
            drop(encoder.begin_compute_pass(&ComputePassDescriptor {
                label,
                timestamp_writes: Some(ComputePassTimestampWrites {
                    query_set: &set,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                }),
            }));
            encoder.resolve_query_set(&set, 0..2, &resolved, 0);
            encoder.copy_buffer_to_buffer(&resolved, 0, &readback, 0, size);
            let commands = encoder.finish();
            let submitted = host_ticks();
            let submission_index = Some(queue.submit([commands]));
            let wait = PollType::Wait { submission_index, timeout: Some(PATIENCE) };
            let waited = is_polled(|| device.poll(wait.clone()));
            let done = host_ticks();
            readback.map_async(MapMode::Read, .., |_| {});
            if !waited || !is_polled(|| device.poll(PollType::Poll)) {
                return;
            }
            let Ok(view) = readback.get_mapped_range(..) else { return };
            let samples: Vec<u64> = words(&view).collect();
            drop(view);
            readback.unmap();
            self.learned.learn(submitted, done, &samples);
        }
        self.keep();
    }
}

/// The numbers in the bytes of a buffer, whatever its alignment is.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}
