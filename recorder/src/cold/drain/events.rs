//! Step 3 of a tick: events go from the rings into the raw slot.

use std::time::Instant;

use ringscope_format::{Record, whole_events};

use super::{Drain, WIDEST};
use crate::{
    cold::shared::{SlowSpan, lock},
    hot,
};

impl Drain {
    /// Step 3, as far as the stretch goes. Returns false if there was no room for that.
    pub(super) fn write_events(&mut self, now: u64) -> bool {
        let lanes = self.seen.len();
        let mut next = if self.first_lane < lanes { self.first_lane } else { 0 };
        for _ in 0..lanes {
            let index = next;
            next = if index + 1 < lanes { index + 1 } else { 0 };
            let found = self.seen[index].available;
            if found == 0 {
                continue;
            }
            let stored = self.write_events_of(index, now);
            #[cfg(feature = "exporters")]
            self.feed_exporters(index);
            if !stored || self.stretch < WIDEST {
                // Else those behind lanes that take all the room would never have a turn. One
                // that got nothing of it comes first.
                let got_some = self.seen[index].available < found;
                self.first_lane = index + usize::from(got_some);
                return stored;
            }
        }
        true
    }

    fn write_events_of(&mut self, index: usize, now: u64) -> bool {
        let lane = self.seen[index].lane;
        while self.seen[index].available > 0 && self.stretch >= WIDEST {
            let Some(most) = self.prepare_events(index, now) else { return false };
            // That left room for at least one whole event.
            let Some(room) = self.slot.as_ref().map(|slot| slot.writer.room()) else {
                return false;
            };
            let available = self.seen[index].available;
            let Ok(chunk) = lane.consumer().read_chunk(available) else { break };
            let (first, second) = chunk.as_slices();
            // The ring holds whole events; only a cut for lack of room, or at the end of a stretch,
            // can split one.
            let most = room.min(most).min(self.stretch);
            let mut take = whole_events(first, second, most);
            let (mut first, mut second) = split(first, second, take);
            let mut slots = count_slots_of(first, second);
            // All that can have begun elsewhere has slots.
            if slots > 0 && hot::homes::are_kept() {
                let explained = self.describe_homes_of(index, now, first, second);
                if explained == 0 {
                    // In a slot of its own there is.
                    self.hand_over();
                    continue;
                }
                if explained < take {
                    take = explained;
                    (first, second) = split(first, second, take);
                    slots = count_slots_of(first, second);
                }
            }
            let events = take - slots;
            let Some(slot) = &mut self.slot else { return false };
            slot.writer.push_events(lane.index, now, events as u32, first, second);
            if !self.shared.config.triggers.is_empty() {
                let slowest = self.slow.slowest(&self.shared, first, second);
                if let Some((name, ticks)) = slowest {
                    let slow_span = SlowSpan { name, ticks, seen_at: Instant::now() };
                    lock(&self.shared.slow_span).get_or_insert(slow_span);
                    self.shared.wake_sealer();
                }
            }
            #[cfg(feature = "exporters")]
            if self.shared.handlers.are_watching() {
                self.feed.take(first, second, events);
            }
            chunk.commit(take);
            if lane.owner().is_recorder {
                self.vitals.own += events as u64;
            } else {
                self.vitals.stored += events as u64;
                self.vitals.stored_slots += slots as u64;
            }
            let seen = &mut self.seen[index];
            seen.available -= take;
            seen.flow.took(take);
            self.stretch -= take;
        }
        true
    }

    /// Hands on what was just written of a lane, with the spans that were open when
    /// its ring was looked at.
    #[cfg(feature = "exporters")]
    fn feed_exporters(&mut self, index: usize) {
        let seen = &self.seen[index];
        let open = &seen.frames[..seen.stack.listed as usize];
        self.feed.send(&self.shared.handlers, seen.lane.owner(), open);
    }
}

/// The first `take` units of two slices.
fn split<'a>(
    first: &'a [Record],
    second: &'a [Record],
    take: usize,
) -> (&'a [Record], &'a [Record]) {
    let from_first = take.min(first.len());
    (&first[..from_first], &second[..(take - from_first).min(second.len())])
}

#[inline]
fn count_slots_of(first: &[Record], second: &[Record]) -> usize {
    let of_second = if second.is_empty() { 0 } else { count_slots(second) };
    count_slots(first) + of_second
}

#[inline]
pub(super) fn count_slots(units: &[Record]) -> usize {
    // Most threads record none for ticks on end, which takes a quarter of the work to see.
    let (fours, rest) = units.as_chunks::<4>();
    let either = |kinds: u8, unit: &Record| kinds | unit.kind.0;
    let kinds = fours.iter().fold(0, |kinds, four| four.iter().fold(kinds, either));
    let has_slots = rest.iter().fold(kinds, either) >= 0x80;
    if has_slots { count_slots_one_by_one(units) } else { 0 }
}

#[inline(never)]
fn count_slots_one_by_one(units: &[Record]) -> usize {
    units.iter().map(|unit| usize::from(unit.kind.is_slot())).sum()
}
