//! Step 4 of a tick: what the threads lost or skipped since the last one.

use std::sync::atomic::Ordering;

use ringscope_format::{BatchKind, Loss, LostCause, Vitals};

use super::{Drain, Seen, WIDEST, events::count_slots};
use crate::hot::{clock, ownership::DrainView, ring_pool::UNATTACHED};

/// Entries in one batch; of many threads they may not fit into one slot.
const LOSSES_AT_ONCE: usize = 256;

impl Drain {
    /// Step 4, first half: what the threads have counted since the last tick. Returns a tick that
    /// nothing of it is later than.
    #[inline]
    pub(super) fn count_losses(&mut self, now: u64) -> u64 {
        let mut counted_at = now;
        // Nearly never has anyone, and every tick asks.
        for index in 0..self.seen.len() {
            let seen = &mut self.seen[index];
            if seen.view == DrainView::Absent {
                continue;
            }
            let changes = seen.lane.counts.changes();
            if std::mem::replace(&mut seen.count_changes, changes) != changes {
                counted_at = self.count_losses_of(index, counted_at);
            }
        }
        let changes = UNATTACHED.changes();
        if std::mem::replace(&mut self.unattached_changes, changes) != changes {
            counted_at = self.count_unattached(counted_at);
        }
        counted_at
    }

    #[cold]
    fn count_losses_of(&mut self, index: usize, not_earlier: u64) -> u64 {
        let cannot_write = self.shared.cannot_write.load(Ordering::Acquire);
        let seen = &mut self.seen[index];
        // The vitals count the program's events; what the recorder's own
        // thread loses is in the table of losses alone.
        let is_recorder = seen.lane.owner().is_recorder;
        let losses = if is_recorder { &mut self.own_losses } else { &mut self.losses };
        let of_the_program = u64::from(!is_recorder);
        let [lost, lost_slots, skipped] = seen.lane.counts.read();
        // Behind the counts: rings overflow while the drain is held up, in the midst of a tick.
        let (from, to) = (self.last_pass, clock::ticks().max(not_earlier));
        for cause in 0..8 {
            let events = lost[cause] - seen.lost[cause];
            let slots = lost_slots[cause] - seen.lost_slots[cause];
            if events > 0 || slots > 0 {
                seen.lost[cause] += events;
                seen.lost_slots[cause] += slots;
                // A ring that is full because the file cannot be written says so.
                let full = cause == LostCause::RingFull as usize;
                let why = if full && cannot_write { LostCause::File as usize } else { cause };
                self.vitals.lost[why] += events * of_the_program;
                self.vitals.lost_slots[why] += slots * of_the_program;
                seen.told[why] += events;
                let total = seen.told[why];
                let what = (seen.track, Loss::LOST, why);
                note(losses, what, [events, slots, total], (from, to));
            }
            let skipped = skipped[cause] - seen.skipped[cause];
            if skipped > 0 {
                seen.skipped[cause] += skipped;
                self.vitals.skipped[cause] += skipped * of_the_program;
                let total = seen.skipped[cause];
                let what = (seen.track, Loss::SKIPPED, cause);
                note(losses, what, [skipped, 0, total], (from, to));
            }
        }
        to
    }

    /// The same for threads that have no lane.
    #[cold]
    fn count_unattached(&mut self, not_earlier: u64) -> u64 {
        let (now, zero) = (UNATTACHED.counts(), self.unattached_before);
        let (from, to) = (self.last_pass, clock::ticks().max(not_earlier));
        let seen = std::mem::replace(&mut self.unattached, now);
        for cause in 0..8 {
            let events = now.lost[cause] - seen.lost[cause];
            let slots = now.lost_slots[cause] - seen.lost_slots[cause];
            if events > 0 || slots > 0 {
                self.vitals.lost[cause] += events;
                self.vitals.lost_slots[cause] += slots;
                let total = now.lost[cause] - zero.lost[cause];
                let what = (0, Loss::LOST, cause);
                note(&mut self.losses, what, [events, slots, total], (from, to));
            }
            let events = now.skipped[cause] - seen.skipped[cause];
            if events > 0 {
                self.vitals.skipped[cause] += events;
                let total = now.skipped[cause] - zero.skipped[cause];
                note(&mut self.losses, (0, Loss::SKIPPED, cause), [events, 0, total], (from, to));
            }
        }
        to
    }

    /// Step 4, second half. Returns false if there was no room; they stay for the next tick, and
    /// the vitals say how many there are.
    #[inline]
    pub(super) fn write_losses(&mut self, now: u64) -> bool {
        (self.losses.is_empty() && self.own_losses.is_empty()) || self.write_new_losses(now)
    }

    /// The program's events that are counted and that no table has.
    pub(super) fn untold(&self) -> u64 {
        self.losses.iter().fold(self.given_up, |sum, loss| sum.saturating_add(loss.events))
    }

    /// These vitals without what the next file has to tell, as this one had no room for it.
    pub(super) fn without_untold(&self, mut vitals: Vitals) -> Vitals {
        for loss in &self.losses {
            let cause = usize::from(loss.cause);
            match loss.class {
                Loss::LOST => {
                    vitals.lost[cause] = vitals.lost[cause].saturating_sub(loss.events);
                    vitals.lost_slots[cause] = vitals.lost_slots[cause].saturating_sub(loss.slots);
                }
                _ => vitals.skipped[cause] = vitals.skipped[cause].saturating_sub(loss.events),
            }
        }
        Vitals { untold: self.given_up, ..vitals }
    }

    #[cold]
    fn write_new_losses(&mut self, now: u64) -> bool {
        for index in 0..self.seen.len() {
            let (view, track) = (self.seen[index].view, self.seen[index].track);
            let mut losses = self.losses.iter().chain(&self.own_losses);
            let concerned = losses.any(|loss| loss.track == track);
            if view != DrainView::Absent && concerned && !self.describe_track(index, now, WIDEST) {
                return false;
            }
        }
        let mut losses = std::mem::take(&mut self.losses);
        let mut own = std::mem::take(&mut self.own_losses);
        let written = self.write_all(&mut losses, now) && self.write_all(&mut own, now);
        (self.losses, self.own_losses) = (losses, own);
        written
    }

    /// Leaves those for which there was no room.
    fn write_all(&mut self, losses: &mut Vec<Loss>, now: u64) -> bool {
        while !losses.is_empty() {
            let some = losses.len().min(LOSSES_AT_ONCE);
            let bytes = bytemuck::cast_slice(&losses[..some]);
            if !self.write_bytes(BatchKind::Losses, now, some as u32, bytes) {
                return false;
            }
            losses.drain(..some);
        }
        true
    }

    /// The file cannot be written and the recording ends, or its process: what is still in the
    /// rings is lost.
    pub(super) fn give_up_the_rest(&mut self) {
        for seen in &mut self.seen {
            let lane = seen.lane;
            // One that was recycled behind the last look is the next thread's.
            if seen.view == DrainView::Retired {
                seen.view = lane.ownership.drain_view();
            }
            if seen.view == DrainView::Absent {
                continue;
            }
            let consumer = lane.consumer();
            let Ok(rest) = consumer.read_chunk(consumer.slots()) else { continue };
            let (first, second) = rest.as_slices();
            let units = first.len() + second.len();
            crate::long_texts::forget(first, second);
            let slots = count_slots(first) + count_slots(second);
            rest.commit_all();
            if !lane.owner().is_recorder {
                self.given_up += (units - slots) as u64;
                self.vitals.lost[LostCause::File as usize] += (units - slots) as u64;
                self.vitals.lost_slots[LostCause::File as usize] += slots as u64;
            }
            seen.available = 0;
        }
        self.vitals.waiting = 0;
        self.count_losses(clock::ticks());
        // Nor is there room for the table to say any of it.
        self.vitals.untold = self.untold();
    }
}

/// Makes the counts of an older recording the zero of this one.
pub(super) fn take_counts(seen: &mut Seen) {
    let counts = &seen.lane.counts;
    seen.count_changes = counts.changes();
    [seen.lost, seen.lost_slots, seen.skipped] = counts.read();
}

/// Adds a loss (track, class and cause; events, slots and total; between two
/// ticks), or makes one that is not written yet larger.
fn note(losses: &mut Vec<Loss>, what: (u32, u8, usize), counts: [u64; 3], between: (u64, u64)) {
    let (track, class, cause) = (what.0, what.1, what.2 as u8);
    let [events, slots, total] = counts;
    let same = |known: &&mut Loss| (known.track, known.class, known.cause) == (track, class, cause);
    if let Some(known) = losses.iter_mut().find(same) {
        known.events += events;
        known.slots += slots;
        // A clock that has gone back makes them cross otherwise.
        known.not_before = known.not_before.min(between.0);
        known.not_after = known.not_after.max(between.1);
        known.total = total;
        return;
    }
    let (not_before, not_after) = between;
    losses.push(Loss {
        track,
        class,
        cause,
        unused: 0,
        events,
        slots,
        not_before,
        not_after,
        total,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_written_yet_grows_and_spans_a_clock_that_has_gone_back() {
        let mut losses = Vec::new();
        let full = (3, Loss::LOST, LostCause::RingFull as usize);
        note(&mut losses, full, [2, 1, 2], (1_000, 1_100));
        note(&mut losses, full, [5, 0, 7], (40, 60));
        note(&mut losses, (4, Loss::LOST, 0), [1, 0, 1], (60, 80));
        let told =
            |loss: &Loss| (loss.events, loss.slots, loss.total, loss.not_before, loss.not_after);
        assert_eq!(
            losses.iter().map(told).collect::<Vec<_>>(),
            [(7, 1, 7, 40, 1_100), (1, 0, 1, 60, 80)]
        );
    }
}
