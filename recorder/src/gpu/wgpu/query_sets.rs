//! Query sets, cut into blocks, and the buffers that their results are read from.
//!
//! A block is 32 queries, 16 scopes: what can be resolved to its own place in a
//! buffer, which wgpu wants at multiples of 256 bytes. Sets are made when first needed and stay.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ::wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, Device, ErrorFilter,
    QUERY_RESOLVE_BUFFER_ALIGNMENT, QUERY_SET_MAX_QUERIES, QUERY_SIZE, QuerySet,
    QuerySetDescriptor, QueryType,
};

use super::clock::{COUNTER, words};
use crate::gpu::{Sample, SlotPool, Slots};

/// Queries in a block.
pub(super) const BLOCK: u32 = QUERY_RESOLVE_BUFFER_ALIGNMENT as u32 / QUERY_SIZE;
/// Pairs of them.
pub(super) const PAIRS: usize = BLOCK as usize / 2;
const BLOCK_BYTES: u64 = QUERY_RESOLVE_BUFFER_ALIGNMENT;
/// Buffers to read from that are kept for the next ones: no more than can be in flight as a rule.
const KEPT_READBACKS: usize = 256;

#[derive(Debug)]
struct Set {
    queries: QuerySet,
    resolved: Buffer,
}

#[derive(Debug)]
pub(super) struct QuerySets {
    device: Device,
    pool: Arc<SlotPool>,
    sets: Vec<OnceLock<Set>>,
    /// Those that nobody uses.
    readbacks: Mutex<Vec<Readback>>,
}

/// A buffer that samples are read from, again and again.
#[derive(Debug)]
pub(super) struct Readback {
    pub(super) buffer: Buffer,
    last: LastRead,
}

/// What was read from a buffer the last time; what never was is 0.
#[derive(Debug, Default)]
struct LastRead(Vec<u64>);

impl LastRead {
    /// Remembers what was read, and returns whether it is new. No two command buffers have
    /// the same times, but what is none, such as zeros or error values, may follow each other.
    fn replace(&mut self, read: &[u64]) -> bool {
        if self.0.len() < read.len() {
            self.0.resize(read.len(), 0);
        }
        let last = &mut self.0[..read.len()];
        let is_time =
            |pair: &[u64]| Sample { start: pair[0], end: pair[1] }.believed(COUNTER).is_ok();
        let is_new = last != read || !read.chunks_exact(2).any(is_time);
        last.copy_from_slice(read);
        is_new
    }
}

/// What became of samples.
#[derive(Debug)]
pub(super) enum Read {
    Samples(Vec<u64>),
    /// Those of the command buffer before: this one never ran. wgpu maps the buffer of one that
    /// it refused too.
    Old,
    /// The device was destroyed, and its buffers with it.
    Gone,
}

impl Readback {
    /// Reads so many samples from the mapped buffer, and unmaps it.
    pub(super) fn read(&mut self, device: &Device, count: usize) -> Read {
        // A device may be destroyed at any moment. What wgpu thinks of our buffers then
        // is not the program's to handle.
        let _errors = device.push_error_scope(ErrorFilter::Validation);
        let Ok(view) = self.buffer.get_mapped_range(..) else { return Read::Gone };
        let samples: Vec<u64> = words(&view).take(count).collect();
        drop(view);
        self.buffer.unmap();
        if self.last.replace(&samples) { Read::Samples(samples) } else { Read::Old }
    }

    fn blocks(&self) -> usize {
        (self.buffer.size() / BLOCK_BYTES) as usize
    }
}

impl QuerySets {
    pub(super) fn new(device: &Device, most: u32) -> Self {
        Self {
            device: device.clone(),
            pool: SlotPool::new(QUERY_SET_MAX_QUERIES, BLOCK, most),
            sets: (0..most).map(|_| OnceLock::new()).collect(),
            readbacks: Mutex::default(),
        }
    }

    pub(super) fn take(&self) -> Option<Slots> {
        self.pool.take()
    }

    pub(super) fn exhausted(&self) -> u64 {
        self.pool.exhausted()
    }

    /// The set that a block is of.
    pub(super) fn queries(&self, slots: &Slots) -> &QuerySet {
        &self.set(slots.buffer()).queries
    }

    fn set(&self, number: usize) -> &Set {
        self.sets[number].get_or_init(|| Set {
            queries: self.device.create_query_set(&QuerySetDescriptor {
                label: Some("ringscope"),
                ty: QueryType::Timestamp,
                count: QUERY_SET_MAX_QUERIES,
            }),
            resolved: self.buffer(
                u64::from(QUERY_SET_MAX_QUERIES * QUERY_SIZE),
                BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            ),
        })
    }

    fn buffer(&self, size: u64, usage: BufferUsages) -> Buffer {
        let label = Some("ringscope");
        self.device.create_buffer(&BufferDescriptor {
            label,
            size,
            usage,
            mapped_at_creation: false,
        })
    }

    /// Has the device resolve these blocks into one buffer, the pairs in order. A pair that was not
    /// written is left out: a device would wait for it for ever.
    pub(super) fn resolve(
        &self,
        encoder: &mut CommandEncoder,
        blocks: &[Slots],
        written: &[bool],
    ) -> Readback {
        let readback = self.readback(blocks.len());
        let parts: Vec<&[bool]> = written.chunks(PAIRS).collect();
        let mut at = 0;
        while at < blocks.len().min(parts.len()) {
            // Blocks that follow each other in their set are resolved together.
            let mut count = 1;
            while at + count < parts.len()
                && follows(&blocks[at + count - 1], &blocks[at + count])
                && !parts[at + count - 1].contains(&false)
            {
                count += 1;
            }
            let (block, last) = (&blocks[at], parts[at + count - 1]);
            let set = self.set(block.buffer());
            let base = u64::from(block.first() * QUERY_SIZE);
            let whole = (count - 1) * PAIRS;
            let pairs = whole + last.iter().position(|&it| !it).unwrap_or(last.len());
            if pairs < whole + last.len() {
                // What is left out must read as nothing, not as what was there before.
                let rest = base + (count as u64 - 1) * BLOCK_BYTES;
                encoder.clear_buffer(&set.resolved, rest, Some(BLOCK_BYTES));
            }
            if pairs > 0 {
                let queries = block.first()..block.first() + pairs as u32 * 2;
                encoder.resolve_query_set(&set.queries, queries, &set.resolved, base);
            }
            let bytes = (whole + last.len()) as u64 * 2 * u64::from(QUERY_SIZE);
            let to = at as u64 * BLOCK_BYTES;
            encoder.copy_buffer_to_buffer(&set.resolved, base, &readback.buffer, to, bytes);
            at += count;
        }
        readback
    }

    fn readback(&self, blocks: usize) -> Readback {
        let mut kept = self.readbacks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().rposition(|it| it.blocks() == blocks) {
            return kept.swap_remove(at);
        }
        drop(kept);
        let bytes = blocks as u64 * BLOCK_BYTES;
        let buffer = self.buffer(bytes, BufferUsages::COPY_DST | BufferUsages::MAP_READ);
        Readback { buffer, last: LastRead::default() }
    }

    /// One that was read.
    pub(super) fn give_back(&self, readback: Readback) {
        let mut kept = self.readbacks.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_READBACKS {
            kept.push(readback);
        }
    }
}

/// Whether a block lies behind another in the same set.
fn follows(block: &Slots, next: &Slots) -> bool {
    (next.buffer(), next.first()) == (block.buffer(), block.first() + block.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_buffer_held_before_is_not_new() {
        let mut last = LastRead::default();
        assert!(last.replace(&[0, 0]), "zeros are no times, and may be there again");
        assert!(last.replace(&[0, 0]));
        assert!(last.replace(&[10, 20, 30, 40]));
        assert!(!last.replace(&[10, 20, 30, 40]), "nothing was written");
        assert!(!last.replace(&[10, 20]), "nor of fewer scopes");
        assert!(last.replace(&[50, 60]));
        assert!(!last.replace(&[50, 60, 30, 40]), "what two command buffers left");
        assert!(!last.replace(&[50, 60, 30, 40, 0, 0]), "with room that was never used");
        assert!(last.replace(&[50, 60, 30, 41, 0, 0]));
    }

    #[test]
    fn what_is_no_time_may_be_read_again() {
        let error = u64::MAX;
        for pairs in [vec![error, error], vec![0, error], vec![20, 10], vec![0, 0, error, 7, 9, 0]]
        {
            let mut last = LastRead::default();
            assert!(last.replace(&pairs) && last.replace(&pairs), "{pairs:?}");
        }
        let mut last = LastRead::default();
        assert!(last.replace(&[error, error, 10, 20]));
        assert!(!last.replace(&[error, error, 10, 20]), "one of them is a time");
    }
}
