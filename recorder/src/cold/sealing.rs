//! The full slot that is on its way to a chunk. Both of the recorder's threads push it on.
//!
//! Compressing a slot takes 150 to 300 us. Done at a stretch, on the core of a hot thread, that is
//! how long the hot thread stands still: the scheduler lets a thread that has just woken up have its
//! turn, and most kernels look only every few milliseconds whether it was too long. So the
//! drain, which is awake anyway, does a little of it with every tick: as much of the slot
//! before as the slot that it fills has come on since. As long as somebody who records waits
//! for its core it does none of it, until some slots are left; then it takes turns of a step or two with
//! pauses in between. What is ready is written by the sealer, in pieces as well, since a disk
//! may be waited for.
//!
//! Where that is not enough (slots fill up faster, rings as well, somebody waits for a dump or the
//! end), the sealer does the rest at a stretch. There is one piece of work and one lock around it,
//! which the drain only tries; so slots are sealed in their order, each once.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use ringscope_format::{RawContent, SlotSealing};

use crate::{
    cold::trace_file::TraceFile,
    hot::{call_site, clock},
    last_words,
};

/// What a tick may take even if it need not, and at most even if it should take more: where
/// that is not enough, slots wait, and the sealer comes to help.
const AT_LEAST: Duration = Duration::from_micros(30);
const AT_MOST: Duration = Duration::from_micros(80);
/// What it takes of that, at a stretch, from somebody who records and waits for it, with the tick
/// before it: a step or two, the longest of which take 25 us. In between there are pauses.
const TURN: Duration = Duration::from_micros(8);
/// Pauses that have taken longer are enough: rings may be filling up.
const LONG_PAUSE: Duration = Duration::from_micros(300);
/// As long as fewer slots wait behind the one that is being sealed, nobody is made to wait for it:
/// there will be ticks that have a core of their own.
const LEFT_FOR_LATER: usize = 3;
/// So many of them, and there are no pauses.
pub(crate) const HURRY: usize = 5;
/// How far ahead of the slot that is being filled, so that the one before is sealed in time.
const AHEAD: f32 = 1.2;
/// More of a slot for every one that waits behind it.
const CATCHING_UP: f32 = 0.25;
/// So many full slots, the one that is being sealed among them, and ticks are no longer enough.
/// Half of all: a disk that was waited for leaves some behind, which ticks make up for.
pub(crate) const TOO_MANY: usize = 8;

pub(crate) struct Sealing {
    /// Whose slots are sealed. Those of the next file wait until all of these are.
    pub(crate) file: Arc<TraceFile>,
    work: SlotSealing,
    slot: usize,
}

/// Waits for the other thread's turn to end. One that panicked has left work that cannot be gone
/// on with; the slot is whole, and begun anew.
pub(crate) fn lock(sealing: &Mutex<Sealing>) -> MutexGuard<'_, Sealing> {
    sealing.lock().unwrap_or_else(|poisoned| {
        sealing.clear_poison();
        let mut guard = poisoned.into_inner();
        guard.work.end();
        guard
    })
}

/// A slot that is sealed, but neither written nor free.
pub(crate) struct Sealed<'a> {
    pub(crate) chunk: &'a [u8],
    pub(crate) content: &'a RawContent,
}

impl Sealing {
    pub(crate) fn new(file: Arc<TraceFile>) -> Result<Self, ringscope_format::Error> {
        let work = SlotSealing::new(file.header.recording)?;
        Ok(Self { file, work, slot: 0 })
    }

    /// Drain: goes on with the work, until there is a chunk or as much is done as of the slot that
    /// it fills is `filled`, which goes from 0 to 1. Returns whether there is something to write now.
    ///
    /// As long as somebody waits it leaves the work for later, or, where too much was left, takes
    /// short turns with a `pause` before each.
    ///
    /// # Errors
    ///
    /// Those that the sealer will meet as well, and report.
    pub(crate) fn go_on(
        &mut self,
        filled: f32,
        ticks_per_second: u64,
        mut somebody_waits: impl FnMut() -> bool,
        pause: impl Fn(),
    ) -> io::Result<bool> {
        if self.work.complete().is_some() || !self.begin()? {
            return Ok(false);
        }
        let waiting = self.file.full_slots().saturating_sub(1);
        let target = filled * AHEAD + waiting as f32 * CATCHING_UP;
        let ticks = |time| call_site::to_ticks(time, ticks_per_second);
        let (turn, at_least, at_most) = (ticks(TURN), ticks(AT_LEAST), ticks(AT_MOST));
        let (mut took, mut paused) = (0, 0);
        loop {
            if waiting < HURRY && somebody_waits() {
                if waiting < LEFT_FOR_LATER {
                    return Ok(false);
                }
                let begin = clock::ticks();
                pause();
                paused += passed(begin);
                somebody_waits(); // what came in the pause says nothing of the turn
            }
            let begin = clock::ticks();
            loop {
                self.step()?;
                if passed(begin) >= turn || self.work.progress() >= 1.0 {
                    break;
                }
            }
            took += passed(begin);
            let progress = self.work.progress();
            let is_enough = took >= at_most || (took >= at_least && progress >= target);
            if progress >= 1.0 || is_enough || paused > ticks(LONG_PAUSE) {
                return Ok(progress >= 1.0);
            }
        }
    }

    /// Sealer: does all of the work that is left. Returns nothing if no slot is full.
    pub(crate) fn finish(&mut self) -> io::Result<Option<Sealed<'_>>> {
        if !self.begin()? {
            return Ok(None);
        }
        while self.work.progress() < 1.0 {
            self.step()?;
        }
        Ok(self.sealed())
    }

    fn step(&mut self) -> io::Result<()> {
        self.work.step(self.file.slot_bytes(self.slot)).map_err(io::Error::other)
    }

    /// The slot that is ready to be written, if there is one.
    pub(crate) fn sealed(&self) -> Option<Sealed<'_>> {
        let (chunk, content) = self.work.complete()?;
        Some(Sealed { chunk, content })
    }

    /// The chunk is in the file: the drain may have the slot again.
    pub(crate) fn written(&mut self, pause: impl Fn()) {
        self.work.end();
        self.file.free_slot(self.slot, pause);
    }

    /// Begins with the next full slot, unless one is begun. Returns false if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        if self.work.is_busy() {
            return Ok(true);
        }
        let Some(slot) = self.file.next_full_slot() else { return Ok(false) };
        self.slot = slot;
        if self.work.begin(self.file.slot_bytes(slot)) {
            crate::crash_point("sealing-begun");
            return Ok(true);
        }
        // The drain has marked it as full; only a truncation can have undone that.
        last_words::note_truncation();
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn passed(since: u64) -> u64 {
    clock::ticks().saturating_sub(since)
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        panic::{self, AssertUnwindSafe},
        sync::LazyLock,
    };

    use ringscope_format::{Kind, Layout, Record};

    use super::*;

    const SPANS: usize = 12_000;
    static HZ: LazyLock<u64> = LazyLock::new(|| clock::nominal_hz(clock::counter()));

    /// A file in a directory that goes with it, and so many full slots of spans in it.
    fn file(dir: &tempfile::TempDir, full: u64) -> Arc<TraceFile> {
        let file = Arc::new(TraceFile::for_a_test(dir, Layout::live(1, 6, 16_384, 0)));
        for sequence in 1..=full {
            let mut slot = file.take_slot(|| sequence).unwrap();
            let span = |at: u64| Record::timed(Kind::SPAN, 1, 1, at * 1_000, at * at % 977);
            let spans: Vec<Record> = (0..SPANS as u64).map(span).collect();
            for batch in spans.chunks(1_000) {
                assert!(slot.writer.push_events(0, 1, batch.len() as u32, batch, &[]));
            }
            slot.writer.publish();
            slot.hand_over();
        }
        file
    }

    /// Turns of the drain until there is a chunk, while nobody waits.
    fn turns(sealing: &mut Sealing, filled: f32) -> usize {
        1 + std::iter::repeat_with(|| sealing.go_on(filled, *HZ, || false, || ()).unwrap())
            .take_while(|ready| !ready)
            .count()
    }

    #[test]
    fn a_slot_is_sealed_in_short_turns_whatever_else_there_is_to_do() {
        for filled in [0.0, 1.0] {
            let dir = tempfile::tempdir().unwrap();
            let mut sealing = Sealing::new(file(&dir, 1)).unwrap();
            assert!(turns(&mut sealing, filled) >= 2);
        }
    }

    /// Somebody who records whenever the drain pauses, and never else.
    #[derive(Default)]
    struct Bystander {
        recorded: Cell<u64>,
        known: Cell<u64>,
        pauses: Cell<u64>,
        turns: Cell<u64>,
    }

    impl Bystander {
        fn waits(&self) -> bool {
            self.turns.set(self.turns.get() + 1);
            self.recorded.get() == self.known.replace(self.recorded.get())
        }

        fn has_a_pause(&self) {
            self.pauses.set(self.pauses.get() + 1);
            self.recorded.set(self.recorded.get() + 1);
        }
    }

    #[test]
    fn nobody_is_made_to_wait_unless_slots_do_and_then_with_a_pause_before_every_turn() {
        for (full, gets_on, pauses) in [
            (1, false, false),
            (3, false, false),
            (4, true, true),
            (5, true, true),
            (6, true, false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let mut sealing = Sealing::new(file(&dir, full)).unwrap();
            // By so slow a clock a turn is over with its first step.
            let (slow, mut ticks) = (1_000, 0);
            let other = Bystander::default();
            while sealing.work.complete().is_none() && ticks < 1_000 {
                sealing.go_on(1.0, slow, || other.waits(), || other.has_a_pause()).unwrap();
                ticks += 1;
            }
            assert_eq!(sealing.work.complete().is_some(), gets_on, "{full} full slots");
            // Asked before each turn, and told of each pause.
            let turns = other.turns.get() - other.pauses.get();
            assert_eq!(other.pauses.get(), if pauses { turns } else { 0 }, "{full} full slots");
            assert!(!pauses || turns > 10);
        }
    }

    #[test]
    fn who_waits_only_at_times_has_the_work_left_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let mut sealing = Sealing::new(file(&dir, 1)).unwrap();
        let mut waits = [true, false].into_iter().cycle();
        let begun = sealing.go_on(0.0, 1_000, || waits.next().unwrap(), || unreachable!());
        assert!(!begun.unwrap() && sealing.work.progress() == 0.0);
        let gone_on = sealing.go_on(0.0, 1_000, || waits.next().unwrap(), || unreachable!());
        assert!(!gone_on.unwrap() && sealing.work.progress() > 0.0);
    }

    #[test]
    fn pauses_that_have_taken_long_are_enough_so_that_the_rings_are_looked_at() {
        for (each, at_most) in [(2 * LONG_PAUSE, 1), (LONG_PAUSE / 2, 3)] {
            let dir = tempfile::tempdir().unwrap();
            let mut sealing = Sealing::new(file(&dir, 4)).unwrap();
            let paused = Cell::new(0);
            let pause = || {
                paused.set(paused.get() + 1);
                std::thread::sleep(each);
            };
            assert!(!sealing.go_on(1.0, *HZ, || true, pause).unwrap());
            assert!((1..=at_most).contains(&paused.get()), "{}", paused.get());
            assert!(sealing.work.progress() > 0.0);
        }
    }

    #[test]
    fn a_sealed_slot_is_there_until_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut sealing = Sealing::new(file(&dir, 1)).unwrap();
        turns(&mut sealing, 0.5);
        assert!(!sealing.go_on(0.0, *HZ, || false, || ()).unwrap(), "it is said once");
        assert_eq!(sealing.sealed().unwrap().content.events.len(), SPANS);
        sealing.written(|| ());
        let gone_on = sealing.go_on(1.0, *HZ, || false, || ()).unwrap();
        assert!(sealing.sealed().is_none() && !gone_on);
    }

    #[test]
    fn who_panics_in_the_midst_of_a_slot_leaves_it_to_be_sealed_anew() {
        let dir = tempfile::tempdir().unwrap();
        let sealing = Mutex::new(Sealing::new(file(&dir, 1)).unwrap());
        let mut asked = 0;
        // By so slow a clock it a turn is a step.
        let mut panics_in_the_midst = || {
            asked += 1;
            assert!(asked < 5, "as the test wants it");
            false
        };
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            let mut sealing = sealing.lock().unwrap();
            while !sealing.go_on(1.0, 1_000, &mut panics_in_the_midst, || ()).unwrap() {}
        }));
        assert!(caught.is_err() && sealing.is_poisoned());
        let mut sealing = lock(&sealing);
        assert!(!sealing.work.is_busy(), "what is half done is not gone on with");
        assert_eq!(sealing.finish().unwrap().unwrap().content.events.len(), SPANS);
        sealing.written(|| ());
        assert!(sealing.finish().unwrap().is_none());
    }

    #[test]
    fn the_sealer_ends_what_the_drain_began_and_slots_keep_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut sealing = Sealing::new(file(&dir, 3)).unwrap();
        for sequence in 1..=3 {
            sealing.go_on(0.0, *HZ, || false, || ()).unwrap();
            let sealed = sealing.finish().unwrap().unwrap();
            assert_eq!(sealed.content.sequence, sequence);
            assert_eq!(sealed.content.events.len(), SPANS);
            sealing.written(|| ());
        }
        assert!(sealing.finish().unwrap().is_none());
    }
}
