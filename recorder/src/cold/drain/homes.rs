//! Parts of steps 2 and 3: tracks that a thread's events, or spans that are open, name beside
//! that thread's own.
//!
//! A span that ends elsewhere has the track that it began on. SPEC 8.3.2 has every chunk
//! describe the tracks that it mentions, so that it can be understood alone.

use std::collections::HashSet;

use ringscope_format::{BatchKind, Record, TrackKind, push_track, whole_events};

use super::{Drain, WIDEST};
use crate::hot::{homes, lane::Owner, ownership::DrainView};

/// What the tracks of all spans that are open may take of a slot, whose half that is: with names of
/// usual lengths ten times as many as there can be.
const MOST_OF_OPEN: usize = 256 << 10;

/// Tracks that the open slot describes, as far as somebody has asked for them.
#[derive(Debug, Default)]
pub(super) struct Described {
    /// That slot, by its sequence number.
    slot: u64,
    tracks: HashSet<u32>,
    /// Those of the spans that are open are among them.
    has_open: bool,
}

impl Drain {
    /// Step 3: describes where those of a lane's next events began that began elsewhere. Returns
    /// how many units the open slot has room for behind that: whole events, whose tracks it
    /// describes. None if there is not enough for the first.
    #[inline(never)]
    pub(super) fn describe_homes_of(
        &mut self,
        index: usize,
        now: u64,
        first: &[Record],
        second: &[Record],
    ) -> usize {
        let own = self.seen[index].track;
        let room = self.slot.as_ref().map_or(0, |slot| slot.writer.room());
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let (mut count, mut explained) = (0, first.len() + second.len());
        for (at, unit) in first.iter().chain(second).enumerate() {
            if unit.track == own || !homes::wanders(unit.kind) || self.is_described(unit.track) {
                continue;
            }
            let before = bytes.len();
            count += u32::from(self.push_home(&mut bytes, unit.track));
            // The header of their batch, and the widest of events.
            if at + WIDEST + 1 + units(&bytes) > room {
                bytes.truncate(before);
                count -= u32::from(before < bytes.len());
                explained = at;
                break;
            }
            self.homes.tracks.insert(unit.track);
        }
        if count > 0 {
            self.write_bytes(BatchKind::Tracks, now, count, &bytes);
        }
        self.bytes = bytes;
        let room = self.slot.as_ref().map_or(0, |slot| slot.writer.room());
        whole_events(first, second, explained.min(room))
    }

    /// Step 2, for a new file and for every chunk of a flight recorder: describes where the
    /// asynchronous spans began that are open. Returns false if there was no room.
    pub(super) fn describe_homes_of_open_spans(&mut self, now: u64) -> bool {
        // Spans that were open before, in this slot, and still are.
        if self.homes.has_open
            && self.homes.slot == self.open_slot()
            && self.async_open == self.async_in_file
        {
            return true;
        }
        let open: Vec<u32> = self.async_open.iter().flatten().map(|span| span.track).collect();
        while !open.is_empty() {
            let slot = self.open_slot();
            let mut bytes = std::mem::take(&mut self.bytes);
            bytes.clear();
            let mut named = HashSet::new();
            let mut count = 0;
            for &track in &open {
                if bytes.len() < MOST_OF_OPEN && !self.is_described(track) && named.insert(track) {
                    count += u32::from(self.push_home(&mut bytes, track));
                }
            }
            let units = units(&bytes);
            let has_room = self.slot_with_room(units + WIDEST).is_some();
            let is_same = has_room && self.open_slot() == slot;
            if is_same && count > 0 {
                self.write_bytes(BatchKind::Tracks, now, count, &bytes);
            }
            self.bytes = bytes;
            if !has_room {
                return false;
            }
            // In a new one they have all to be described again.
            if is_same {
                self.homes.tracks.extend(named);
                self.homes.has_open = true;
                break;
            }
        }
        true
    }

    fn open_slot(&self) -> u64 {
        self.slot.as_ref().map_or(0, |slot| slot.sequence)
    }

    /// Whether the open slot, if there is one, describes this track.
    fn is_described(&mut self, track: u32) -> bool {
        let slot = self.open_slot();
        if self.homes.slot != slot {
            self.homes = Described { slot, ..Described::default() };
        }
        if track == 0 || self.homes.tracks.contains(&track) {
            return true;
        }
        let lane = self.seen.iter().find(|seen| seen.described_in == slot && seen.track == track);
        let is_described = slot != 0 && lane.is_some();
        if is_described {
            self.homes.tracks.insert(track);
        }
        is_described
    }

    /// Adds the entry of a track. Returns false, and adds none, if nobody knows it any more.
    pub(super) fn push_home(&mut self, bytes: &mut Vec<u8>, track: u32) -> bool {
        // The thread it began on may be newer than this pass.
        self.meet_lanes();
        let lanes = self.seen.iter().map(|seen| seen.lane);
        let mut owners = lanes
            .filter(|lane| lane.ownership.drain_view() != DrainView::Absent)
            .map(|lane| lane.owner());
        let owner = owners.find(|owner| owner.track == track).cloned();
        let Some(Owner { os_id, name, is_recorder, .. }) = owner.or_else(|| homes::of(track))
        else {
            return false;
        };
        let kind = if is_recorder { TrackKind::Recorder } else { TrackKind::Thread };
        push_track(bytes, track, kind, os_id, &name);
        true
    }
}

fn units(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(size_of::<Record>())
}
