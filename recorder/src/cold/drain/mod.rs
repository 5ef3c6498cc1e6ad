//! The thread that empties the rings.
//!
//! One pass, a *tick*, in this order, which is what the promises rest on:
//!
//! 1. look at every stack and at how much every ring holds;
//! 2. write names and tracks that are new: whatever was looked at above uses only
//!    names that are published by now;
//! 3. copy the events into the raw slot;
//! 4. write what was lost;
//! 5. publish the slot, then the stacks, then the vitals.
//!
//! After that it goes on with [sealing](crate::cold::sealing) the slot that was full before, for
//! up to 50 us of work in turns with pauses between them. A span that ended between 1 and 3 is in the stack *and* among the events,
//! never in neither. It sleeps between ticks: a drain that spins nearly doubles
//! what a span costs.

mod events;
mod files;
mod long_texts;
mod losses;
mod pace;
mod slow_names;
mod stacks;
mod tables;

pub(crate) use self::tables::encode_names;
use self::{
    pace::{Found, Pace},
    slow_names::SlowNames,
};
use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
    time::Duration,
};

use ringscope_format::{BatchKind, LISTED_FRAMES, Loss, OpenSpan, Record, RecordingState, Vitals};

use crate::{
    cold::{
        scheduling,
        sealing::{self, Sealing},
        shared::{Shared, lock},
        trace_file::{OpenSlot, TraceFile},
    },
    hot::{
        async_span::LISTED,
        call_site, clock,
        in_flight::Snapshot,
        lane::Lane,
        names::Entry,
        ownership::DrainView,
        ring_pool::{self, UNATTACHED, UnattachedCounts},
    },
    last_words,
};

/// Units of an event that has all slots.
const WIDEST: usize = 1 + ringscope_format::MAX_SLOTS;
/// How often a stack that keeps moving is looked at again within one tick.
const SNAPSHOT_TRIES: u32 = 32;
/// Entries of the in-flight area that hold asynchronous spans, behind those of the lanes.
pub(crate) const ASYNC_ENTRIES: usize = LISTED / LISTED_FRAMES;
/// A process that is alive this long after a fatal signal has handled it.
const SURVIVED_AFTER: Duration = Duration::from_secs(1);

/// What the drain remembers about a lane.
#[derive(Debug)]
struct Seen {
    /// The sequence number of the slot that last had this lane's track described.
    described_in: u64,
    track: u32,
    /// Counts that are already in the vitals, and when they were looked at.
    count_changes: u64,
    lost: [u64; 8],
    lost_slots: [u64; 8],
    skipped: [u64; 8],
    /// Lost events of this track in the table of losses, by the cause given there.
    told: [u64; 8],
    /// Stack as of this tick, and as the file has it.
    frames: Box<[(u64, u32); LISTED_FRAMES]>,
    spare: Box<[(u64, u32); LISTED_FRAMES]>,
    stack: Snapshot,
    in_file: Option<Snapshot>,
    edition: u64,
    view: DrainView,
    available: usize,
}

impl Seen {
    fn new() -> Self {
        Self {
            described_in: 0,
            track: 0,
            count_changes: 0,
            lost: [0; 8],
            lost_slots: [0; 8],
            skipped: [0; 8],
            told: [0; 8],
            frames: Box::new([(0, 0); LISTED_FRAMES]),
            spare: Box::new([(0, 0); LISTED_FRAMES]),
            stack: Snapshot { version: 0, is_whole: false, depth: 0, listed: 0 },
            in_file: None,
            edition: 0,
            view: DrainView::Absent,
            available: 0,
        }
    }
}

/// What is left when the drain has ended.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) vitals: Vitals,
    pub(crate) edition: u64,
    pub(crate) open: Vec<(OpenSpan, u32)>,
}

impl Remains {
    /// Whoever comes to finish has survived whatever signal there was.
    pub(crate) fn of_a_survivor(mut self) -> Self {
        if matches!(self.vitals.state, RecordingState::Recording | RecordingState::FatalSignal) {
            (self.vitals.state, self.vitals.signal) = (RecordingState::Finished, 0);
        }
        self
    }
}

/// How a pass went.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    found: Found,
    /// There was no free slot for all of it.
    blocked: bool,
}

pub(crate) struct Drain {
    shared: Arc<Shared>,
    sealing: Arc<Mutex<Sealing>>,
    file: Arc<TraceFile>,
    slot: Option<OpenSlot>,
    slot_since: u64,
    lanes: Vec<&'static Lane>,
    seen: Vec<Seen>,
    /// Whose events are written first, while there is not room for all.
    first_lane: usize,
    names_written: u32,
    /// The slot that last had the queues of devices described, and how many those were.
    queues_described: (u64, u32),
    losses: Vec<Loss>,
    vitals: Vitals,
    edition: u64,
    last_pass: u64,
    started: u64,
    pairs_taken: usize,
    next_pair: u64,
    /// Counts before this recording, and those that are already in the vitals.
    unattached_before: UnattachedCounts,
    unattached: UnattachedCounts,
    unattached_changes: u64,
    /// Texts that had stayed cut before this recording.
    cut_before: u64,
    found: Found,
    /// When a fatal signal was first seen.
    dying_since: Option<u64>,
    /// Asynchronous spans as of this tick and as the file has them, entry by entry.
    async_open: [Vec<OpenSpan>; ASYNC_ENTRIES],
    async_in_file: [Vec<OpenSpan>; ASYNC_ENTRIES],
    async_editions: [u64; ASYNC_ENTRIES],
    slow: SlowNames,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    spans: Vec<OpenSpan>,
    #[cfg(feature = "exporters")]
    feed: crate::handlers::Feed,
}

impl Drain {
    /// Sets up for a new recording. What older recordings left in the rings is
    /// thrown away; what they counted becomes the zero of the counts.
    pub(crate) fn new(
        shared: Arc<Shared>,
        sealing: Arc<Mutex<Sealing>>,
        file: Arc<TraceFile>,
        names_in_file: u32,
    ) -> Self {
        let now = clock::ticks();
        crate::long_texts::prepare();
        let unattached_changes = UNATTACHED.changes();
        let unattached = UNATTACHED.counts();
        let mut drain = Self {
            shared,
            sealing,
            file,
            slot: None,
            slot_since: now,
            lanes: Vec::new(),
            seen: Vec::new(),
            first_lane: 0,
            names_written: names_in_file,
            queues_described: (0, 0),
            losses: Vec::new(),
            vitals: Vitals::default(),
            edition: 1,
            last_pass: now,
            started: now,
            pairs_taken: 0,
            next_pair: now,
            unattached_before: unattached,
            unattached,
            unattached_changes,
            cut_before: crate::long_texts::stayed_cut(),
            found: Found::default(),
            dying_since: None,
            async_open: Default::default(),
            async_in_file: Default::default(),
            async_editions: [0; ASYNC_ENTRIES],
            slow: SlowNames::default(),
            entries: Vec::new(),
            bytes: Vec::new(),
            spans: Vec::new(),
            #[cfg(feature = "exporters")]
            feed: Default::default(),
        };
        drain.meet_lanes();
        for (lane, seen) in drain.lanes.iter().zip(&mut drain.seen) {
            let view = lane.ownership.drain_view();
            if view == DrainView::Absent {
                continue;
            }
            let consumer = lane.consumer();
            if let Ok(leftover) = consumer.read_chunk(consumer.slots()) {
                let (first, second) = leftover.as_slices();
                crate::long_texts::forget(first, second);
                leftover.commit_all();
            }
            if view == DrainView::Retired {
                lane.ownership.recycle();
            } else {
                losses::take_counts(lane, seen);
            }
        }
        drain.write_vitals(now);
        drain
    }

    /// Runs until asked to stop.
    pub(crate) fn run(mut self) -> Remains {
        last_words::this_is_own_thread(0);
        // It does little, and what waits for it is a ring that fills up.
        scheduling::take_short_turns(Duration::from_micros(100));
        let rendezvous = last_words::rendezvous();
        let mut pace = Pace::new(self.shared.config.busy_tick, self.shared.config.idle_tick);
        loop {
            let stopping = self.shared.stop_drain.load(Ordering::Acquire);
            if stopping {
                self.next_pair = 0; // the longer the clocks are compared, the better they fit
            }
            let ticket = rendezvous.pending();
            let signal = last_words::fatal_signal();
            if signal.is_some() {
                // Whoever still records now would do so past the last pass.
                call_site::switch_off_now();
            }
            let mut pass = self.pass();
            if pass.blocked && signal.is_some() && self.shared.cannot_write.load(Ordering::Acquire)
            {
                // Whoever is dying does not wait for a disk that may have room again one day.
                self.give_up_the_rest();
                pass.blocked = false;
            }
            if !pass.blocked {
                self.note_signal(signal);
                rendezvous.answer(ticket);
                if stopping {
                    break;
                }
            } else if stopping && self.shared.cannot_write.load(Ordering::Acquire) {
                self.give_up_the_rest();
                break;
            }
            if !pass.blocked && signal.is_none() {
                self.seal_a_little(pass.found);
            }
            let (sleep, since) = (pace.after(pass.found), clock::ticks());
            thread::park_timeout(sleep);
            // Much too early to be the end of it, whatever the two clocks differ by.
            if clock::ticks().saturating_sub(since) < self.shared.ticks(sleep / 2) {
                pace.woken();
            }
        }
        self.finish()
    }

    /// After a pass that left nothing in the rings: the counts are exact, and the
    /// vitals say what the process is dying of. If it is still there a second
    /// later, it has survived, and recording goes on.
    fn note_signal(&mut self, signal: Option<u8>) {
        let Some(signal) = signal else { return };
        let now = clock::ticks();
        let since = *self.dying_since.get_or_insert(now);
        if now.saturating_sub(since) < self.shared.ticks(SURVIVED_AFTER) {
            (self.vitals.state, self.vitals.signal) = (RecordingState::FatalSignal, signal);
        } else {
            (self.vitals.state, self.vitals.signal) = (RecordingState::Recording, 0);
            self.dying_since = None;
            last_words::forget_signal();
            call_site::switch_on_again();
        }
        self.write_vitals(now);
    }

    fn finish(mut self) -> Remains {
        if let Some(slot) = self.slot.take().filter(|slot| !slot.writer.is_empty()) {
            slot.hand_over();
        }
        let open = self.open_spans();
        *lock(&self.shared.at_last_close) = (self.vitals, open.clone());
        rendezvous_everyone();
        Remains { vitals: self.vitals, edition: self.edition, open }
    }

    fn pass(&mut self) -> Pass {
        let now = clock::ticks();
        if now < self.last_pass {
            self.begin_time_anew(now);
        }
        // Taken before the rings are looked at: a slot that is closed on request holds all that
        // was recorded before the request.
        let closing = self.shared.close_slot.swap(false, Ordering::AcqRel);
        if closing {
            self.next_pair = 0; // what is taken out of the file has a clock of its own to fit
        }
        let left = self.switch_files();
        self.meet_lanes();
        self.look();
        let found = self.found;
        let stored = self.write_names(now)
            && self.write_tracks(now)
            && self.write_clock_pair(now)
            && self.write_device_pairs(now)
            && self.write_events(now);
        self.count_losses(now);
        let blocked = !(self.write_losses(now) && stored);
        if let Some(slot) = &mut self.slot {
            slot.writer.publish();
        }
        self.write_stacks(now);
        if let Some((file, edition, vitals)) = left {
            self.leave_file(&file, edition, vitals);
        }
        if closing && blocked {
            self.shared.close_slot.store(true, Ordering::Release);
        }
        self.close_slot(now, closing && !blocked);
        self.vitals.drain_ticks += 1;
        self.vitals.waiting = self.seen.iter().map(|seen| seen.available as u64).sum();
        self.write_vitals(now);
        self.recycle();
        self.last_pass = now;
        Pass { found, blocked }
    }

    /// The counter has gone back, as it may when a machine was asleep. What was due at a later
    /// reading would not be for as long as that takes to come again; and the clock has to be
    /// compared now, or what follows has nothing to be placed by.
    fn begin_time_anew(&mut self, now: u64) {
        (self.started, self.slot_since, self.next_pair) = (now, now, 0);
        self.dying_since = self.dying_since.map(|_| now);
    }

    fn meet_lanes(&mut self) {
        ring_pool::refresh(&mut self.lanes);
        self.seen.resize_with(self.lanes.len(), Seen::new);
    }

    /// Step 1: stacks first, rings second.
    fn look(&mut self) {
        let mut fullest = 0;
        self.found = Found::default();
        let mut rings = 0;
        for (lane, seen) in self.lanes.iter().zip(&mut self.seen) {
            seen.available = 0;
            seen.view = lane.ownership.drain_view();
            if seen.view == DrainView::Absent {
                continue;
            }
            rings += 1;
            seen.track = lane.owner().track;
            let version = lane.in_flight.version();
            if !seen.in_file.is_some_and(|known| known.is_whole && known.version == version) {
                let (frames, spare) = (&mut seen.frames, &mut seen.spare);
                seen.stack = lane.in_flight.snapshot(SNAPSHOT_TRIES, frames, spare);
            }
            seen.available = lane.consumer().slots();
            fullest = fullest.max(seen.available as u64);
            let capacity = lane.consumer().buffer().capacity().max(1);
            self.found.fill = self.found.fill.max(seen.available as f32 / capacity as f32);
            // The recorder's own readings are no reason to stay awake.
            if !lane.owner().is_recorder {
                self.found.units += seen.available;
            }
        }
        self.look_at_async_spans();
        self.shared.rings.store(rings, Ordering::Relaxed);
        self.shared.fullest_ring.fetch_max(fullest, Ordering::Relaxed);
    }

    /// A slot with room for a batch of so many payload units, or `None` while the sealer is behind.
    fn slot_with_room(&mut self, units: usize) -> Option<&mut OpenSlot> {
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

    fn hand_over(&mut self) {
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
    fn seal_a_little(&mut self, found: Found) {
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
        let full = self.slot.as_ref().map_or(0.0, |slot| slot.writer.filled());
        // Where the sealer is at it, it needs no help.
        let went_on = self.sealing.try_lock().map(|mut work| {
            work.go_on(full, self.shared.ticks_per_second, scheduling::let_others_run)
        });
        match went_on {
            Err(_) | Ok(Ok(false)) => {}
            Ok(Ok(true)) => self.shared.wake_sealer(),
            Ok(Err(_)) => self.shared.hurry_sealer(),
        }
    }

    /// A batch of anything but events. Returns false if there was no room.
    fn write_bytes(&mut self, kind: BatchKind, now: u64, items: u32, bytes: &[u8]) -> bool {
        let units = bytes.len().div_ceil(size_of::<Record>());
        let Some(slot) = self.slot_with_room(units) else { return false };
        slot.writer.push_bytes(kind, now, items, bytes);
        true
    }

    /// Hands the slot over if somebody asked for it, or if it is old.
    fn close_slot(&mut self, now: u64, asked: bool) {
        // A flight recorder's chunks must not span more than a part of its window,
        // or whole windows would age out at once.
        let window =
            self.shared.config.keep_last.as_ref().map(|keep| self.shared.ticks(keep.window) / 8);
        let too_old = window.is_some_and(|most| now.saturating_sub(self.slot_since) > most);
        let used = self.slot.as_ref().is_some_and(|slot| !slot.writer.is_empty());
        if (asked || too_old) && used {
            self.hand_over();
        }
        if asked {
            *lock(&self.shared.at_last_close) = (self.vitals, self.open_spans());
        }
    }

    fn write_vitals(&mut self, now: u64) {
        let state = self.vitals.state;
        self.vitals.tick = now;
        self.vitals.texts_cut = crate::long_texts::stayed_cut() - self.cut_before;
        self.vitals.bytes = self.shared.bytes.load(Ordering::Relaxed);
        self.vitals.overwritten = self.shared.overwritten.load(Ordering::Relaxed);
        if last_words::file_was_truncated() && state == RecordingState::Recording {
            self.vitals.state = RecordingState::GivenUp;
        }
        self.edition += 1;
        self.file.write_vitals(self.edition, &self.vitals);
    }

    /// Lanes whose threads have gone and whose rings are empty go back to the pool.
    fn recycle(&mut self) {
        for (lane, seen) in self.lanes.iter().zip(&mut self.seen) {
            if seen.view == DrainView::Retired && seen.available == 0 {
                seen.lost = [0; 8];
                seen.lost_slots = [0; 8];
                seen.skipped = [0; 8];
                seen.told = [0; 8];
                seen.described_in = 0;
                (seen.stack.depth, seen.stack.listed) = (0, 0);
                lane.ownership.recycle();
            }
        }
    }
}

/// Whoever still waits for a pass gets no other than the last one.
fn rendezvous_everyone() {
    let rendezvous = last_words::rendezvous();
    rendezvous.answer(rendezvous.pending());
}
