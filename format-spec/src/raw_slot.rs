//! The writing half of a raw slot: a recycled area of the file that holds
//! drained events until they are sealed (SPEC 7).
//!
//! A slot usually lies in a shared file map, and two others may look at it at
//! any time: a reader in another process, and whoever opens the file after this
//! process was killed between two instructions. What they rely on is the order
//! of the stores to the slot's header, so these are release stores, each of
//! which comes after everything before it in program order.
//!
//! Nothing here panics. A slot that is too small takes nothing.
#![allow(unsafe_code)]

use crate::checksum;
use crate::little_endian::u32_at;
use crate::record::{Record, UNIT};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Bytes before the first unit of a slot.
pub const SLOT_HEAD: usize = 64;

pub(crate) const SLOT_MAGIC: [u8; 4] = *b"RSLT";
pub(crate) const GENERATION: usize = 4;
pub(crate) const SEQUENCE: usize = 8;
pub(crate) const STATE: usize = 16;
pub(crate) const PUBLISHED: usize = 20;

pub(crate) const FREE: u32 = 0;
const FILLING: u32 = 1;
const FULL: u32 = 2;

/// What a batch holds.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// Records and their slots.
    Events = 0xF0,
    /// Entries of a names chunk.
    Names = 0xF1,
    /// Tracks.
    Tracks = 0xF2,
    /// Clock pairs.
    ClockPairs = 0xF3,
    /// Losses.
    Losses = 0xF4,
    /// Long texts, of events that come after them.
    LongTexts = 0xF5,
}

/// The header unit of a batch.
#[derive(Clone, Copy)]
pub(crate) struct BatchHead {
    pub(crate) ring: u32,
    pub(crate) units: u32,
    pub(crate) bytes: u32,
    pub(crate) tick: u64,
    pub(crate) items: u32,
    pub(crate) kind: u8,
}

impl BatchHead {
    /// Bytes 4 to 31.
    #[inline]
    fn body(&self) -> [u8; UNIT - 4] {
        let mut body = [0; UNIT - 4];
        body[0..4].copy_from_slice(&self.ring.to_le_bytes());
        body[4..8].copy_from_slice(&self.units.to_le_bytes());
        body[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        body[12..20].copy_from_slice(&self.tick.to_le_bytes());
        body[20..24].copy_from_slice(&self.items.to_le_bytes());
        body[24] = self.kind;
        body
    }
}

/// Fills one raw slot.
pub struct SlotWriter<'a> {
    bytes: &'a mut [u8],
    /// What the checksums of its batches begin with.
    crc_seed: u32,
    /// Units written, batch headers included; at least what is published.
    written: usize,
    /// Units that the slot has room for.
    capacity: usize,
}

impl<'a> SlotWriter<'a> {
    /// Takes a free slot into use for the events that will become data chunk
    /// `sequence`. A slot should start at a multiple of 4 in memory, as every
    /// slot of a mapped file does; elsewhere its stores are not atomic.
    pub fn begin(bytes: &'a mut [u8], sequence: u64) -> SlotWriter<'a> {
        let mut capacity = 0;
        if bytes.len() >= SLOT_HEAD {
            capacity = ((bytes.len() - SLOT_HEAD) / UNIT).min(u32::MAX as usize);
            let generation = u32_at(bytes, GENERATION).wrapping_add(1);
            store(bytes, STATE, FREE);
            store(bytes, PUBLISHED, 0);
            store(bytes, 0, u32::from_le_bytes(SLOT_MAGIC));
            store(bytes, SEQUENCE, sequence as u32);
            store(bytes, SEQUENCE + 4, (sequence >> 32) as u32);
            store(bytes, GENERATION, generation);
            store(bytes, STATE, FILLING);
        }
        SlotWriter { bytes, crc_seed: batch_crc_seed(sequence), written: 0, capacity }
    }

    /// Payload units that one further batch can take.
    #[inline]
    pub fn room(&self) -> usize {
        (self.capacity - self.written).saturating_sub(1)
    }

    /// How much of the slot is taken, from 0 to 1.
    #[inline]
    pub fn filled(&self) -> f32 {
        self.written as f32 / self.capacity.max(1) as f32
    }

    /// Whether no batch was written yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Writes the two halves of a ring read as one batch of `events` events,
    /// which the caller cut at the end of an event. Nothing is visible before
    /// [`publish`](Self::publish). Returns false, with nothing written, if
    /// there is no [`room`](Self::room).
    #[inline]
    pub fn push_events(
        &mut self,
        ring: u32,
        tick: u64,
        events: u32,
        first: &[Record],
        second: &[Record],
    ) -> bool {
        let units = first.len() + second.len();
        let (first, second) = (bytemuck::cast_slice(first), bytemuck::cast_slice(second));
        self.push(BatchKind::Events, ring, tick, events, units, first, second)
    }

    /// Writes a table as one batch of `items` entries. Nothing is visible before
    /// [`publish`](Self::publish). Returns false, with nothing written, if there
    /// is no [`room`](Self::room).
    #[inline]
    pub fn push_bytes(&mut self, kind: BatchKind, tick: u64, items: u32, payload: &[u8]) -> bool {
        self.push(kind, 0, tick, items, payload.len().div_ceil(UNIT), payload, &[])
    }

    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn push(
        &mut self,
        kind: BatchKind,
        ring: u32,
        tick: u64,
        items: u32,
        units: usize,
        first: &[u8],
        second: &[u8],
    ) -> bool {
        let length = first.len() + second.len();
        if units == 0 {
            return true;
        }
        if units > self.room() || length > u32::MAX as usize {
            return false;
        }
        let at = SLOT_HEAD + self.written * UNIT;
        let head = BatchHead {
            ring,
            units: units as u32,
            bytes: length as u32,
            tick,
            items,
            kind: kind as u8,
        };
        let body = head.body();
        let target = &mut self.bytes[at..at + (1 + units) * UNIT];
        let (target, payload) = target.split_at_mut(UNIT);
        payload[..first.len()].copy_from_slice(first);
        // Hardly ever is there anything to do here, and either is a call.
        if !second.is_empty() {
            payload[first.len()..length].copy_from_slice(second);
        }
        if length < payload.len() {
            payload[length..].fill(0);
        }
        let crc = checksum::append_headed(self.crc_seed, &body, &payload[..length]);
        target[0..4].copy_from_slice(&crc.to_le_bytes());
        target[4..UNIT].copy_from_slice(&body);
        self.written += 1 + units;
        true
    }

    /// Makes all batches written so far visible to readers, and safe from the
    /// death of this process.
    #[inline]
    pub fn publish(&mut self) {
        if self.capacity > 0 {
            store(self.bytes, PUBLISHED, self.written as u32);
        }
    }

    /// Publishes, and marks the slot as ready to be sealed.
    pub fn mark_full(mut self) {
        self.publish();
        if self.bytes.len() >= SLOT_HEAD {
            store(self.bytes, STATE, FULL);
        }
    }
}

/// Marks a slot as free: its events are in a sealed chunk.
pub fn mark_free(bytes: &mut [u8]) {
    if bytes.len() >= SLOT_HEAD {
        store(bytes, STATE, FREE);
    }
}

/// A batch's checksum begins with its slot's sequence, so that neither a batch
/// left over from the slot's last use nor one beneath a damaged slot header
/// passes for one of this chunk.
#[inline]
pub(crate) fn batch_crc_seed(sequence: u64) -> u32 {
    checksum::append(0, &sequence.to_le_bytes())
}

/// Stores one word of a slot's header after everything stored before.
#[inline]
fn store(bytes: &mut [u8], offset: usize, word: u32) {
    let field = &mut bytes[offset..offset + 4];
    let pointer = field.as_mut_ptr().cast::<u32>();
    if pointer.is_aligned() {
        // SAFETY: the pointer comes from an exclusive borrow of exactly four
        // bytes, was just found to be aligned, and nothing else in this program
        // accesses them while the borrow lives. Other processes only read the
        // file beneath.
        let atomic = unsafe { AtomicU32::from_ptr(pointer) };
        atomic.store(word.to_le(), Ordering::Release);
    } else {
        fence(Ordering::Release);
        field.copy_from_slice(&word.to_le_bytes());
    }
}

/// How many of these units, at most `room`, can be taken without splitting an
/// event. The units begin with a record and end with the end of an event, as
/// what is read from a ring does.
#[inline]
pub fn whole_events(first: &[Record], second: &[Record], room: usize) -> usize {
    let total = first.len() + second.len();
    if total <= room {
        return total;
    }
    let unit = |at: usize| if at < first.len() { &first[at] } else { &second[at - first.len()] };
    let mut cut = room;
    while cut > 0 && !unit(cut).kind.is_base() {
        cut -= 1;
    }
    cut
}

/// How many events these units are.
#[inline]
pub fn count_events(units: &[Record]) -> u32 {
    // Every kind below 0x80 begins an event; 0 never comes out of a ring.
    units.iter().map(|unit| u32::from(unit.kind.0 < 0x80)).sum()
}
