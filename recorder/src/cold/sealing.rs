//! The full slot that is on its way to a chunk. Both of the recorder's threads push it on.
//!
//! Compressing a slot takes 150 to 300 us. Done at a stretch, on the core of a hot thread, that is
//! how long the hot thread stands still: the scheduler lets a thread that has just woken up have its
//! turn, and most kernels look only every few milliseconds whether it was too long. So the
//! drain, which is awake anyway, does a little of it with every tick: as much of the slot
//! before as the slot that it fills has come on since, and never for long: a step or two, then
//! others have the core. What is ready is written by the sealer, in pieces as well, since a disk
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
const AT_LEAST: Duration = Duration::from_micros(20);
const AT_MOST: Duration = Duration::from_micros(50);
/// What it takes of that at a stretch: one or two steps. Before and after it there is a pause,
/// in which whoever was pushed off the core goes on.
const TURN: Duration = Duration::from_micros(12);
/// So many slots that wait behind the one that is being sealed, and there are no pauses.
const HURRY: usize = 2;
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
    /// # Errors
    ///
    /// Those that the sealer will meet as well, and report.
    pub(crate) fn go_on(
        &mut self,
        filled: f32,
        ticks_per_second: u64,
        pause: impl Fn(),
    ) -> io::Result<bool> {
        if self.work.complete().is_some() || !self.begin()? {
            return Ok(false);
        }
        let waiting = self.file.full_slots().saturating_sub(1);
        let target = filled * AHEAD + waiting as f32 * CATCHING_UP;
        let ticks = |time| call_site::to_ticks(time, ticks_per_second);
        let (turn, at_least, at_most) = (ticks(TURN), ticks(AT_LEAST), ticks(AT_MOST));
        let mut took = 0;
        loop {
            if waiting < HURRY {
                pause();
            }
            let begin = clock::ticks();
            let mut this_turn = 0;
            while this_turn < turn && self.work.progress() < 1.0 {
                self.step()?;
                this_turn = clock::ticks().saturating_sub(begin);
            }
            took += this_turn;
            let progress = self.work.progress();
            if progress >= 1.0 || took >= at_most || (took >= at_least && progress >= target) {
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ringscope_format::{Counter, FileHeader, Kind, Layout, Mode, Record};

    use super::*;

    const SPANS: usize = 12_000;
    const HZ: u64 = 1_000_000_000;

    /// A file in a directory that goes with it, and so many full slots of spans in it.
    fn file(dir: &tempfile::TempDir, full: u64) -> Arc<TraceFile> {
        let header = FileHeader {
            recording: [7; 16],
            file_number: 0,
            mode: Mode::Full,
            pid: 1,
            created_wall_ns: 0,
            created_tick: 0,
            counter: Counter::X86Tsc,
            nominal_hz: HZ,
            layout: Layout::live(1, 4, 16_384, 0),
        };
        let file = Arc::new(TraceFile::create(&dir.path().join("trace"), header).unwrap());
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

    /// Turns of the drain until there is a chunk.
    fn turns(sealing: &mut Sealing, filled: f32) -> usize {
        1 + std::iter::repeat_with(|| sealing.go_on(filled, HZ, || ()).unwrap())
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

    #[test]
    fn others_run_before_every_turn_unless_slots_wait() {
        for (full, others_run) in [(1, true), (2, true), (4, false)] {
            let dir = tempfile::tempdir().unwrap();
            let mut sealing = Sealing::new(file(&dir, full)).unwrap();
            let (pauses, mut turns) = (Cell::new(0), 0);
            // By so slow a clock a turn is a tick, which the first step of it fills.
            let slow = 100_000;
            while sealing.work.complete().is_none() {
                sealing.go_on(1.0, slow, || pauses.set(pauses.get() + 1)).unwrap();
                turns += 1;
            }
            assert!(turns > 5);
            assert_eq!(pauses.get(), if others_run { turns } else { 0 }, "{full} full slots");
        }
    }

    #[test]
    fn a_sealed_slot_is_there_until_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut sealing = Sealing::new(file(&dir, 1)).unwrap();
        turns(&mut sealing, 0.5);
        assert!(!sealing.go_on(0.0, HZ, || ()).unwrap(), "it is said once");
        assert_eq!(sealing.sealed().unwrap().content.events.len(), SPANS);
        sealing.written(|| ());
        assert!(sealing.sealed().is_none() && !sealing.go_on(1.0, HZ, || ()).unwrap());
    }

    #[test]
    fn the_sealer_ends_what_the_drain_began_and_slots_keep_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut sealing = Sealing::new(file(&dir, 3)).unwrap();
        for sequence in 1..=3 {
            sealing.go_on(0.0, HZ, || ()).unwrap();
            let sealed = sealing.finish().unwrap().unwrap();
            assert_eq!(sealed.content.sequence, sequence);
            assert_eq!(sealed.content.events.len(), SPANS);
            sealing.written(|| ());
        }
        assert!(sealing.finish().unwrap().is_none());
    }
}
