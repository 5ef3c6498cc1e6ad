//! The raw slot that the drain fills: taken, handed over to be sealed, and the one before sealed
//! a little with every tick.

use std::sync::{Arc, atomic::Ordering};

use ringscope_format::{BatchKind, Record};

use super::{
    Drain, bystanders,
    pace::{self, Found},
};
use crate::{
    cold::{
        scheduling, sealing,
        shared::{Shared, lock},
        trace_file::OpenSlot,
    },
    hot::clock,
    last_words,
};

impl Drain {
    /// A slot with room for a batch of so many payload units, or `None` while the sealer is behind.
    pub(super) fn slot_with_room(&mut self, units: usize) -> Option<&mut OpenSlot> {
        if self.slot.as_ref().is_some_and(|slot| slot.writer.room() < units) {
            self.hand_over();
        }
        if self.slot.is_none() {
            self.slot = self.file.take_slot(|| self.shared.take_sequence());
            self.slot_since = clock::ticks();
            if self.slot.is_none() {
                self.shared.hurry_sealer();
            }
        }
        self.slot.as_mut()
    }

    pub(super) fn hand_over(&mut self) {
        if let Some(mut slot) = self.slot.take() {
            slot.writer.publish();
            slot.hand_over();
            let waiting = self.file.full_slots();
            self.shared.most_full_slots.fetch_max(waiting as u64, Ordering::Relaxed);
            if waiting >= sealing::TOO_MANY {
                self.shared.hurry_sealer();
            }
        }
    }

    /// Goes on with the slot before, in proportion to how full this one is.
    pub(super) fn seal_a_little(&mut self, found: Found) {
        // It tries again by itself.
        if self.shared.cannot_write.load(Ordering::Acquire) {
            return;
        }
        // Rings that fill up come first.
        if found.fill > pace::EMPTY_ENOUGH {
            if self.file.full_slots() > 0 {
                self.shared.hurry_sealer();
            }
            return;
        }
        if self.seals_this_file && self.file.full_slots() == 0 {
            return;
        }
        self.seal_full_slots();
    }

    #[cold]
    fn seal_full_slots(&mut self) {
        let full = self.slot.as_ref().map_or(0.0, |slot| slot.writer.filled());
        // Where the sealer is at it, it needs no help.
        let Ok(mut work) = self.sealing.try_lock() else { return };
        self.seals_this_file = Arc::ptr_eq(&work.file, &self.file);
        let shared = &self.shared;
        let (seen, waited) = (&mut self.seen, &mut self.waited);
        let somebody_waits = || {
            let waits = bystanders::wait(seen, clock::ticks());
            *waited = (*waited).max(waits);
            waits == Some(true)
        };
        let pause = || {
            if !is_awaited(shared) {
                scheduling::let_others_run();
            }
        };
        let went_on = work.go_on(full, shared.ticks_per_second, somebody_waits, pause);
        drop(work);
        match went_on {
            Ok(false) => {}
            Ok(true) => self.shared.wake_sealer(),
            Err(_) => self.shared.hurry_sealer(),
        }
    }

    /// A batch of anything but events. Returns false if there was no room.
    pub(super) fn write_bytes(
        &mut self,
        kind: BatchKind,
        now: u64,
        items: u32,
        bytes: &[u8],
    ) -> bool {
        let units = bytes.len().div_ceil(size_of::<Record>());
        let Some(slot) = self.slot_with_room(units) else { return false };
        slot.writer.push_bytes(kind, now, items, bytes);
        true
    }

    /// Hands the slot over if somebody asked for it, or if it is old.
    #[inline]
    pub(super) fn close_slot(&mut self, now: u64, asked: bool) {
        // A flight recorder's chunks must not span more than a part of its window,
        // or whole windows would age out at once.
        let too_old = self.shared.config.keep_last.as_ref().is_some_and(|keep| {
            now.saturating_sub(self.slot_since) > self.shared.ticks(keep.window) / 8
        });
        if asked || too_old {
            self.close_slot_now(asked);
        }
    }

    #[cold]
    fn close_slot_now(&mut self, asked: bool) {
        if self.slot.as_ref().is_some_and(|slot| !slot.writer.is_empty()) {
            self.hand_over();
        }
        if asked {
            *lock(&self.shared.at_last_close) = (self.vitals, self.open_spans());
        }
    }
}

/// Whether somebody waits for the drain's next pass, or for slots to be sealed.
pub(super) fn is_awaited(shared: &Shared) -> bool {
    let rendezvous = last_words::rendezvous();
    shared.hurry.load(Ordering::Relaxed)
        || shared.stop_drain.load(Ordering::Relaxed)
        || !rendezvous.is_done(rendezvous.pending())
}
