//! Query sets, cut into blocks, and the buffers that their results are read from.
//!
//! A block is 32 queries, 16 scopes: what can be resolved to its own place in a
//! buffer, which wgpu wants at multiples of 256 bytes. Sets are made when first needed and stay.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ::wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, Device, QUERY_RESOLVE_BUFFER_ALIGNMENT,
    QUERY_SET_MAX_QUERIES, QUERY_SIZE, QuerySet, QuerySetDescriptor, QueryType,
};

use crate::gpu::{SlotPool, Slots};

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
    /// Mappable buffers that nobody uses, with their sizes in blocks.
    readbacks: Mutex<Vec<(usize, Buffer)>>,
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
    ) -> Buffer {
        let readback = self.readback(blocks.len());
        for (at, (block, written)) in blocks.iter().zip(written.chunks(PAIRS)).enumerate() {
            let set = self.set(block.buffer());
            let base = u64::from(block.first() * QUERY_SIZE);
            if written.contains(&false) {
                // What is left out must read as nothing, not as what was there before.
                encoder.clear_buffer(&set.resolved, base, Some(BLOCK_BYTES));
            }
            // Only whole blocks can be resolved to a place of their own.
            let pairs = written.iter().position(|&it| !it).unwrap_or(written.len()) as u32;
            let queries = block.first()..block.first() + pairs * 2;
            if pairs > 0 {
                encoder.resolve_query_set(&set.queries, queries, &set.resolved, base);
            }
            let bytes = written.len() as u64 * 2 * u64::from(QUERY_SIZE);
            let to = at as u64 * BLOCK_BYTES;
            encoder.copy_buffer_to_buffer(&set.resolved, base, &readback, to, bytes);
        }
        readback
    }

    fn readback(&self, blocks: usize) -> Buffer {
        let mut kept = self.readbacks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().rposition(|(size, _)| *size == blocks) {
            return kept.swap_remove(at).1;
        }
        drop(kept);
        let bytes = blocks as u64 * BLOCK_BYTES;
        self.buffer(bytes, BufferUsages::COPY_DST | BufferUsages::MAP_READ)
    }

    /// A buffer that was read and unmapped.
    pub(super) fn give_back(&self, readback: Buffer) {
        let mut kept = self.readbacks.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_READBACKS {
            kept.push(((readback.size() / BLOCK_BYTES) as usize, readback));
        }
    }
}
