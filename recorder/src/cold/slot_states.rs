//! Who has which raw slot: the drain fills a free one, `sealing` empties a full one.
//!
//! Each slot goes round from free to filling to full and to free again. Only the drain takes
//! it the first two steps, and only who has the lock of `sealing` the last, so plain loads and
//! stores will do. The file's own copy of this is for readers.

use crate::atomics::{Acquire, AtomicU8, AtomicU64, Relaxed, Release};

const FREE: u8 = 0;
const FILLING: u8 = 1;
const FULL: u8 = 2;

#[derive(Debug)]
pub(crate) struct SlotStates {
    slots: Box<[Slot]>,
    /// How many were ever handed over, which the drain counts, and how many of those were freed,
    /// which sealing counts. Only to see at a glance that there is nothing to do.
    handed_over: AtomicU64,
    freed: AtomicU64,
}

#[derive(Debug)]
struct Slot {
    state: AtomicU8,
    /// Valid unless the slot is free.
    sequence: AtomicU64,
}

impl SlotStates {
    /// So many slots, all free.
    pub(crate) fn new(slots: u32) -> Self {
        let slot = |_| Slot { state: AtomicU8::new(FREE), sequence: AtomicU64::new(0) };
        let none = || AtomicU64::new(0);
        Self { slots: (0..slots).map(slot).collect(), handed_over: none(), freed: none() }
    }

    /// Drain only: takes the first free slot, which gets a sequence number. A number is taken
    /// only if there is one: one that nobody uses would read as a missing chunk.
    pub(crate) fn take(&self, next_sequence: impl FnOnce() -> u64) -> Option<(usize, u64)> {
        // Acquire, with the Release in `free`: all of it has been read.
        let index = self.slots.iter().position(|slot| slot.state.load(Acquire) == FREE)?;
        let sequence = next_sequence();
        self.slots[index].state.store(FILLING, Relaxed);
        self.slots[index].sequence.store(sequence, Relaxed);
        Some((index, sequence))
    }

    /// Drain only: passes a slot that it has taken on to be sealed.
    pub(crate) fn hand_over(&self, index: usize) {
        // Release, with the Acquire in `next_full`: all of it is written.
        self.slots[index].state.store(FULL, Release);
        // Later than the state: whoever sees the count finds the slot.
        self.handed_over.store(self.handed_over.load(Relaxed) + 1, Release);
    }

    /// Sealing only: the full slot with the lowest sequence number.
    pub(crate) fn next_full(&self) -> Option<usize> {
        // Acquire, with the Release in `hand_over`.
        if self.handed_over.load(Acquire) == self.freed.load(Relaxed) {
            return None; // nearly always, and every tick asks
        }
        // While the slots are looked at one by one, one that was passed may become full, and
        // then one after it. Whoever sees the later one is full sees the earlier one is too,
        // so the second look finds the first in line.
        self.lowest_full().and_then(|_| self.lowest_full())
    }

    fn lowest_full(&self) -> Option<usize> {
        let full = |(index, slot): (usize, &Slot)| {
            // Acquire, with the Release in `hand_over`: the drain has written all of it.
            (slot.state.load(Acquire) == FULL).then(|| (slot.sequence.load(Relaxed), index))
        };
        self.slots.iter().enumerate().filter_map(full).min().map(|(_, index)| index)
    }

    /// Sealing only: gives a full slot back to the drain.
    pub(crate) fn free(&self, index: usize) {
        // Release, with the Acquire in `take`: all of it has been read.
        self.freed.store(self.freed.load(Relaxed) + 1, Relaxed);
        self.slots[index].state.store(FREE, Release);
    }

    /// How many wait to be sealed and written, about.
    pub(crate) fn full(&self) -> usize {
        let freed = self.freed.load(Relaxed);
        self.handed_over.load(Relaxed).saturating_sub(freed) as usize
    }
}
