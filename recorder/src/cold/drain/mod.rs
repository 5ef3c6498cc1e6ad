//! The thread that empties the rings.
//!
//! One pass, most often a whole *tick*, in this order, which is what the promises rest on:
//!
//! 1. look at every stack and at how much every ring holds;
//! 2. write names and tracks that are new: whatever was looked at above uses only
//!    names that are published by now;
//! 3. copy the events into the raw slot;
//! 4. write what was lost;
//! 5. publish the slot, then the stacks, then the vitals.
//!
//! After that it goes on with [sealing](crate::cold::sealing) the slot that was full before, for
//! up to 80 us of work, unless a [thread that records](bystanders) waits for its core meanwhile. A
//! span that ended between 1 and 3 is in the stack *and* among the events, never in neither.
//! Where many events have gathered a tick is several passes, each of which copies a [stretch] of
//! them; only the last writes stacks. It sleeps between ticks: a drain that spins nearly doubles
//! what a span costs.

mod bystanders;
mod events;
mod files;
mod homes;
mod long_texts;
mod losses;
mod pace;
mod raw_slot;
mod slow_names;
mod stacks;
mod stretch;
mod tables;
#[cfg(test)]
mod tests;

pub(crate) use self::tables::encode_names;
use self::{
    bystanders::{Flow, Manners},
    pace::{Found, Pace},
    slow_names::SlowNames,
};
use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
    time::Duration,
};

use ringscope_format::{LISTED_FRAMES, Loss, OpenSpan, RecordingState, Vitals};

use crate::{
    cold::{
        scheduling,
        sealing::Sealing,
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
    rendezvous::Ticket,
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
    lane: &'static Lane,
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
    /// The two differ.
    has_moved: bool,
    edition: u64,
    view: DrainView,
    available: usize,
    flow: Flow,
}

impl Seen {
    fn new(lane: &'static Lane) -> Self {
        Self {
            lane,
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
            has_moved: false,
            edition: 0,
            view: DrainView::Absent,
            available: 0,
            flow: Flow::default(),
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

/// What the look at the lanes has found, so that steps with nothing to do need no look of their own.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    /// At a lane whose track no slot of this file describes.
    at_new: bool,
    /// At one whose thread has gone.
    at_retired: bool,
}

/// How a pass went.
#[derive(Clone, Copy, Debug, Default)]
struct Pass {
    found: Found,
    /// There was no free slot for all of it.
    blocked: bool,
    /// It was a stretch: there may be more.
    stretched: bool,
}

/// What is asked of a tick, as known before it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// To be the last.
    stopping: bool,
    /// To be told to who waits with up to this ticket.
    ticket: Ticket,
    /// The process is dying of this one.
    signal: Option<u8>,
}

impl Asked {
    /// Whether somebody waits for all that is in the rings.
    fn for_all(&self) -> bool {
        self.stopping || self.signal.is_some() || !last_words::rendezvous().is_done(self.ticket)
    }
}

pub(crate) struct Drain {
    shared: Arc<Shared>,
    sealing: Arc<Mutex<Sealing>>,
    file: Arc<TraceFile>,
    slot: Option<OpenSlot>,
    slot_since: u64,
    /// Lane by lane.
    seen: Vec<Seen>,
    looked: Looked,
    manners: Manners,
    /// Whether somebody has waited for the core in this tick, as far as anybody can tell.
    waited: Option<bool>,
    /// Whose events are written first, while not all are.
    first_lane: usize,
    /// Units that this pass may still copy.
    stretch: usize,
    names_written: u32,
    /// The slot that last had the queues of devices described, and how many those were.
    queues_described: (u64, u32),
    homes: homes::Described,
    /// What is counted and not written yet: of the program, and of the recorder's own readings.
    losses: Vec<Loss>,
    own_losses: Vec<Loss>,
    /// The program's events that were lost at once when nothing could be written.
    given_up: u64,
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
    /// `sealing` has come to the file that the drain is in.
    seals_this_file: bool,
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
            seen: Vec::new(),
            looked: Looked::default(),
            manners: Manners::default(),
            waited: None,
            first_lane: 0,
            stretch: 0,
            names_written: names_in_file,
            queues_described: (0, 0),
            homes: homes::Described::default(),
            losses: Vec::new(),
            own_losses: Vec::new(),
            given_up: 0,
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
            seals_this_file: false,
            #[cfg(feature = "exporters")]
            feed: Default::default(),
        };
        drain.meet_lanes();
        for seen in &mut drain.seen {
            let lane = seen.lane;
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
                ring_pool::recycle(lane);
            } else {
                losses::take_counts(seen);
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
        let mut pace = Pace::new(self.shared.config.busy_tick, self.shared.config.idle_tick);
        loop {
            let (asked, pass) = self.tick();
            if self.was_the_last(&asked, pass.blocked) {
                break;
            }
            self.behind(&asked, pass);
            let (sleep, since) = (pace.after(pass.found), clock::ticks());
            thread::park_timeout(sleep);
            // Much too early to be the end of it, whatever the two clocks differ by.
            if pace.may_be_idle()
                && clock::ticks().saturating_sub(since) < self.shared.ticks(sleep / 2)
            {
                pace.woken();
            }
        }
        self.finish()
    }

    /// Behind a tick that was not the last: what there is to do beside the rings, and then out of
    /// somebody's way.
    fn behind(&mut self, asked: &Asked, pass: Pass) {
        if !pass.blocked && asked.signal.is_none() {
            self.seal_a_little(pass.found);
        }
        self.make_way(pass.found);
    }

    /// What the next tick is asked for.
    fn asked(&mut self) -> Asked {
        let stopping = self.shared.stop_drain.load(Ordering::Acquire);
        if stopping {
            self.next_pair = 0; // the longer the clocks are compared, the better they fit
        }
        let ticket = last_words::rendezvous().pending();
        let signal = last_words::fatal_signal();
        if signal.is_some() {
            // Whoever still records now would do so past the last pass.
            call_site::switch_off_now();
        }
        Asked { stopping, ticket, signal }
    }

    /// Behind a whole tick: tells whoever waits for it, unless there was no room for all of it.
    /// Returns whether it was the last one.
    fn was_the_last(&mut self, asked: &Asked, mut blocked: bool) -> bool {
        let ends = asked.stopping || asked.signal.is_some();
        if blocked && self.shared.cannot_write.load(Ordering::Acquire) {
            // Nobody waits for a disk that may have room again one day.
            if !ends {
                last_words::rendezvous().refuse(asked.ticket);
                return false;
            }
            self.give_up_the_rest();
            blocked = false;
        }
        if blocked {
            return false;
        }
        if let Some(signal) = asked.signal {
            self.note_signal(signal);
        }
        last_words::rendezvous().answer(asked.ticket);
        asked.stopping
    }

    /// After a pass that left nothing in the rings: the counts are exact, and the
    /// vitals say what the process is dying of. If it is still there a second
    /// later, it has survived, and recording goes on.
    #[cold]
    fn note_signal(&mut self, signal: u8) {
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

    /// One pass; without `all` it may copy no more than a [stretch].
    fn pass(&mut self, all: bool) -> Pass {
        let now = clock::ticks();
        if now < self.last_pass {
            self.begin_time_anew(now);
        }
        // Taken before the rings are looked at: a slot that is closed on request holds all that
        // was recorded before the request.
        let closing = self.shared.close_slot.load(Ordering::Acquire)
            && self.shared.close_slot.swap(false, Ordering::AcqRel);
        if closing {
            self.next_pair = 0; // what is taken out of the file has a clock of its own to fit
        }
        let left = self.switch_files();
        self.meet_lanes();
        self.look(now);
        let found = self.found;
        let all = all || closing || left.is_some() || self.is_watched();
        self.stretch = stretch::limit(found, all);
        let stored = self.write_names(now)
            && self.write_tracks(now)
            && self.write_clock_pair(now)
            && self.write_device_pairs(now)
            && self.write_events(now);
        let counted_at = self.count_losses(now);
        let blocked = !(self.write_losses(now) && stored);
        if let Some(slot) = &mut self.slot {
            slot.writer.publish();
        }
        let is_whole = self.stretch >= WIDEST;
        if is_whole {
            self.write_stacks(now);
        }
        if let Some((file, edition, vitals)) = left {
            self.leave_file(&file, edition, vitals);
        }
        if closing && blocked {
            self.shared.close_slot.store(true, Ordering::Release);
        }
        // Whatever this pass was to store is stored, or there was not room for all of it.
        let waiting = || self.seen.iter().map(|seen| seen.available as u64).sum();
        self.vitals.waiting = if blocked { waiting() } else { 0 };
        self.vitals.untold = if blocked { self.untold() } else { self.given_up };
        self.close_slot(now, closing && !blocked);
        let stretched = !is_whole && !blocked;
        self.vitals.drain_ticks += u64::from(!stretched);
        self.write_vitals(counted_at);
        if self.looked.at_retired {
            self.recycle();
        }
        self.last_pass = now;
        Pass { found, blocked, stretched }
    }

    /// Whether there are exporters: what encloses an event, and has ended, is to be in its batch.
    fn is_watched(&self) -> bool {
        #[cfg(feature = "exporters")]
        return self.shared.handlers.are_watching();
        #[cfg(not(feature = "exporters"))]
        false
    }

    /// The counter has gone back, as it may when a machine was asleep. What was due at a later
    /// reading would not be for as long as that takes to come again; and the clock has to be
    /// compared now, or what follows has nothing to be placed by.
    #[cold]
    fn begin_time_anew(&mut self, now: u64) {
        (self.started, self.slot_since, self.last_pass, self.next_pair) = (now, now, now, 0);
        self.dying_since = self.dying_since.map(|_| now);
    }

    #[inline]
    fn meet_lanes(&mut self) {
        if ring_pool::lanes() > self.seen.len() {
            let new = ring_pool::lanes_from(self.seen.len());
            self.seen.extend(new.into_iter().map(Seen::new));
        }
    }

    /// Step 1: stacks first, rings second.
    fn look(&mut self, now: u64) {
        let after_last = now.saturating_sub(self.last_pass);
        let (mut rings, mut fullest) = (0, 0);
        let (mut looked, mut found) = (Looked::default(), Found::default());
        for seen in &mut self.seen {
            let lane = seen.lane;
            seen.available = 0;
            seen.view = lane.ownership.drain_view();
            if seen.view == DrainView::Absent {
                seen.has_moved = seen.in_file.is_some();
                continue;
            }
            rings += 1;
            let owner = lane.owner();
            seen.track = owner.track;
            looked.at_new |= seen.described_in == 0;
            looked.at_retired |= seen.view == DrainView::Retired;
            let version = lane.in_flight.version();
            let is_same = |known: Snapshot| known.is_whole && known.version == version;
            seen.has_moved = !seen.in_file.is_some_and(is_same);
            if seen.has_moved {
                let (frames, spare) = (&mut seen.frames, &mut seen.spare);
                seen.stack = lane.in_flight.snapshot(SNAPSHOT_TRIES, frames, spare);
            }
            let available = lane.consumer().slots();
            seen.flow.looked(available, now, after_last);
            if available == 0 {
                continue;
            }
            seen.available = available;
            fullest = available.max(fullest);
            let fill = available as f32 / lane.consumer().buffer().capacity() as f32;
            if fill > found.fill {
                found.fill = fill;
            }
            // The recorder's own readings are no reason to stay awake.
            if !owner.is_recorder {
                found.units += available;
            }
        }
        (self.looked, self.found) = (looked, found);
        self.look_at_async_spans();
        self.shared.rings.store(rings, Ordering::Relaxed);
        // Hardly ever: and whoever takes it meanwhile has got more than this.
        if fullest as u64 > self.shared.fullest_ring.load(Ordering::Relaxed) {
            self.shared.fullest_ring.fetch_max(fullest as u64, Ordering::Relaxed);
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
    #[cold]
    fn recycle(&mut self) {
        for seen in &mut self.seen {
            if seen.view == DrainView::Retired && seen.available == 0 {
                seen.lost = [0; 8];
                seen.lost_slots = [0; 8];
                seen.skipped = [0; 8];
                seen.told = [0; 8];
                seen.described_in = 0;
                seen.flow = Flow::default();
                (seen.stack.depth, seen.stack.listed) = (0, 0);
                ring_pool::recycle(seen.lane);
            }
        }
    }
}

/// Whoever still waits for a pass gets no other than the last one.
fn rendezvous_everyone() {
    let rendezvous = last_words::rendezvous();
    rendezvous.answer(rendezvous.pending());
}
