//! Step 2 of a tick: what the file must know to explain the events that follow,
//! names, tracks and clock pairs.

use std::{sync::atomic::Ordering, time::Duration};

use ringscope_format::{BatchKind, TrackKind, push_call_site, push_name, push_track};

use super::{Drain, WIDEST};
use crate::hot::{
    clock,
    names::{self, Entry},
    ownership::DrainView,
    queues,
};

/// Name entries written in one batch; even the longest fit into a slot.
const NAMES_AT_ONCE: usize = 256;
/// The clock is compared this long after the start, then every second: short
/// recordings get several pairs, long ones few.
const FIRST_PAIRS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(100)];
const CLOCK_EVERY: Duration = Duration::from_secs(1);

impl Drain {
    /// Step 2. Returns false if there was no room.
    #[inline]
    pub(super) fn write_names(&mut self, now: u64) -> bool {
        let published = names::published();
        self.names_written >= published || self.write_names_up_to(published, now)
    }

    #[cold]
    fn write_names_up_to(&mut self, published: u32, now: u64) -> bool {
        while self.names_written < published {
            let mut entries = std::mem::take(&mut self.entries);
            names::copy_entries(self.names_written, NAMES_AT_ONCE, &mut entries);
            let mut bytes = std::mem::take(&mut self.bytes);
            encode_names(&entries, &mut bytes);
            let count = entries.len() as u32;
            let written = self.write_bytes(BatchKind::Names, now, count, &bytes);
            (self.entries, self.bytes) = (entries, bytes);
            if !written {
                return false;
            }
            self.names_written += count;
        }
        true
    }

    /// Step 2 for threads: one that has recorded nothing yet may be inside of a
    /// span, or have begun one that ends elsewhere. Returns false if there was no room.
    #[inline]
    pub(super) fn write_tracks(&mut self, now: u64) -> bool {
        // A flight recorder overwrites what it has said; of those that may be
        // stuck in a span it says it again in every chunk.
        let says_it_again = self.shared.config.keep_last.is_some();
        !(self.looked.at_new || says_it_again) || self.write_unknown_tracks(says_it_again, now)
    }

    #[inline(never)]
    fn write_unknown_tracks(&mut self, say_it_again: bool, now: u64) -> bool {
        for index in 0..self.seen.len() {
            let seen = &self.seen[index];
            let known = seen.described_in != 0 && !(say_it_again && seen.stack.depth > 0);
            if seen.view != DrainView::Absent && !known && !self.describe_track(index, now, WIDEST)
            {
                return false;
            }
        }
        self.describe_homes_of_open_spans(now)
    }

    #[inline]
    pub(super) fn write_clock_pair(&mut self, now: u64) -> bool {
        now < self.next_pair || self.write_due_clock_pair(now)
    }

    #[cold]
    fn write_due_clock_pair(&mut self, now: u64) -> bool {
        let pair = clock::pair();
        if !self.write_bytes(BatchKind::ClockPairs, now, 1, bytemuck::bytes_of(&pair)) {
            return false;
        }
        self.next_pair = match FIRST_PAIRS.get(self.pairs_taken) {
            Some(&since_start) => self.started + self.shared.ticks(since_start),
            None => now + self.shared.ticks(CLOCK_EVERY),
        };
        self.pairs_taken += 1;
        self.shared.drain_cpu_ns.store(clock::thread_cpu_ns(), Ordering::Relaxed);
        true
    }

    /// Step 2 for devices' clocks. Returns false if there was no room.
    pub(super) fn write_device_pairs(&mut self, now: u64) -> bool {
        #[cfg(feature = "gpu")]
        {
            let pairs = crate::gpu::kept_pairs::take();
            if !pairs.is_empty() {
                let bytes = bytemuck::cast_slice(&pairs);
                let count = pairs.len() as u32;
                let written = self.write_bytes(BatchKind::ClockPairs, now, count, bytes);
                if !written {
                    crate::gpu::kept_pairs::put_back(&pairs);
                }
                return written;
            }
        }
        let _ = now;
        true
    }

    /// Makes sure that the open slot describes the lane's track and has room for so many
    /// payload units.
    #[inline]
    pub(super) fn describe_track(&mut self, index: usize, now: u64, units: usize) -> bool {
        let is_described = self.slot.as_ref().is_some_and(|slot| {
            slot.writer.room() >= units
                && self.seen[index].described_in == slot.sequence
                && self.queues_described == (slot.sequence, queues::count())
        });
        is_described || self.describe_track_anew(index, now, units)
    }

    #[cold]
    fn describe_track_anew(&mut self, index: usize, now: u64, units: usize) -> bool {
        loop {
            let Some(slot) = self.slot_with_room(units) else { return false };
            let sequence = slot.sequence;
            if self.seen[index].described_in == sequence {
                if self.queues_described == (sequence, queues::count()) {
                    return true;
                }
                if !self.describe_queues(now) {
                    return false;
                }
                continue;
            }
            let track = self.seen[index].track;
            if !self.write_track(index, track, now) {
                return false;
            }
            self.seen[index].described_in = self.slot.as_ref().map_or(0, |slot| slot.sequence);
        }
    }

    /// Describes the queues of devices in the open slot; nothing if there are none.
    fn describe_queues(&mut self, now: u64) -> bool {
        let count = queues::count();
        if count > 0 {
            let mut bytes = std::mem::take(&mut self.bytes);
            bytes.clear();
            for queue in queues::all().iter().take(count as usize) {
                push_track(&mut bytes, queue.track(), TrackKind::GpuQueue, 0, queue.name());
            }
            let written = self.write_bytes(BatchKind::Tracks, now, count, &bytes);
            self.bytes = bytes;
            if !written {
                return false;
            }
        }
        self.queues_described = (self.slot.as_ref().map_or(0, |slot| slot.sequence), count);
        true
    }

    fn write_track(&mut self, index: usize, track: u32, now: u64) -> bool {
        let owner = self.seen[index].lane.owner();
        let kind = if owner.is_recorder { TrackKind::Recorder } else { TrackKind::Thread };
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        push_track(&mut bytes, track, kind, owner.os_id, &owner.name);
        let written = self.write_bytes(BatchKind::Tracks, now, 1, &bytes);
        self.bytes = bytes;
        written
    }
}

pub(crate) fn encode_names(entries: &[Entry], bytes: &mut Vec<u8>) {
    bytes.clear();
    for entry in entries {
        match *entry {
            Entry::Text { id, text } => push_name(bytes, id, text),
            Entry::CallSite { name, line, file, module } => {
                push_call_site(bytes, name, line, file, module)
            }
        }
    }
}
