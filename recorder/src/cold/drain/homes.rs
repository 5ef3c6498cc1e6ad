//! Parts of steps 2 and 3: tracks that a thread's events, or spans that are open, name beside
//! that thread's own.
//!
//! A span that ends elsewhere has the track that it began on. SPEC 8.3.2 has every chunk
//! describe the tracks that it mentions, so that it can be understood alone.

use std::collections::HashSet;

use ringscope_format::{BatchKind, Record, TrackKind, push_track};

use super::{Drain, WIDEST};
use crate::hot::{homes, lane::Owner, ownership::DrainView};

/// Tracks described in one batch, which fits into a slot however long their names are.
const AT_ONCE: usize = 64;

/// Tracks of threads that are gone and that the open slot describes.
#[derive(Debug, Default)]
pub(super) struct Described {
    /// That slot, by its sequence number.
    slot: u64,
    tracks: HashSet<u32>,
}

/// What became of a wish to have tracks described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Homes {
    /// The open slot describes all of them.
    Known,
    /// It describes more of them than before: another look tells whether that is all, and whether
    /// there is still as much room.
    Described,
    NoRoom,
}

impl Drain {
    /// Step 3: describes where those events of a lane began that began elsewhere.
    #[cold]
    pub(super) fn describe_homes_of(
        &mut self,
        index: usize,
        now: u64,
        first: &[Record],
        second: &[Record],
    ) -> Homes {
        let own = self.seen[index].track;
        let began_elsewhere = |unit: &&Record| unit.track != own && homes::wanders(unit.kind);
        let tracks = first.iter().chain(second).filter(began_elsewhere).map(|unit| unit.track);
        let unknown = self.unknown(tracks);
        self.describe_some(&unknown, now)
    }

    /// Step 2, for a new file and for every chunk of a flight recorder: describes where the
    /// asynchronous spans began that are open. Returns false if there was no room.
    pub(super) fn describe_homes_of_open_spans(&mut self, now: u64) -> bool {
        loop {
            let open = self.async_open.iter().flatten();
            let unknown = self.unknown(open.map(|span| span.track));
            match self.describe_some(&unknown, now) {
                Homes::Known => return true,
                Homes::Described => {}
                Homes::NoRoom => return false,
            }
        }
    }

    /// Those of the tracks that the open slot does not describe, each once, up to [`AT_ONCE`].
    fn unknown(&self, tracks: impl Iterator<Item = u32>) -> Vec<u32> {
        let slot = self.slot.as_ref().map_or(0, |slot| slot.sequence);
        let is_described = |track: u32| match self.lane_of(track) {
            Some(index) => slot != 0 && self.seen[index].described_in == slot,
            None => self.homes.slot == slot && self.homes.tracks.contains(&track),
        };
        let mut unknown = Vec::new();
        for track in tracks {
            if track != 0 && !unknown.contains(&track) && !is_described(track) {
                unknown.push(track);
                if unknown.len() == AT_ONCE {
                    break;
                }
            }
        }
        unknown
    }

    /// The lane that has this track now.
    fn lane_of(&self, track: u32) -> Option<usize> {
        self.seen.iter().position(|seen| seen.view != DrainView::Absent && seen.track == track)
    }

    fn describe_some(&mut self, unknown: &[u32], now: u64) -> Homes {
        if unknown.is_empty() {
            return Homes::Known;
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut count = 0;
        for &track in unknown {
            let owner = match self.lane_of(track) {
                Some(index) => Some(self.seen[index].lane.owner().clone()),
                None => homes::of(track),
            };
            if let Some(Owner { os_id, name, .. }) = owner {
                push_track(&mut bytes, track, TrackKind::Thread, os_id, &name);
                count += 1;
            }
        }
        let units = bytes.len().div_ceil(size_of::<Record>()) + 1;
        // With room for an event behind them, or they would be said in vain.
        let has_room = self.slot_with_room(units + WIDEST).is_some();
        let written =
            has_room && (count == 0 || self.write_bytes(BatchKind::Tracks, now, count, &bytes));
        self.bytes = bytes;
        if !written {
            return Homes::NoRoom;
        }
        let slot = self.slot.as_ref().map_or(0, |slot| slot.sequence);
        if self.homes.slot != slot {
            self.homes = Described { slot, tracks: HashSet::new() };
        }
        for &track in unknown {
            match self.lane_of(track) {
                Some(index) => self.seen[index].described_in = slot,
                // Nor is asked again for one that nobody knows any more.
                None => drop(self.homes.tracks.insert(track)),
            }
        }
        Homes::Described
    }
}
