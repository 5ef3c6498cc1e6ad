//! A file that is written while it is read shows no damage and no half of anything.

use crate::build::*;
use ringscope_format::*;
use std::cell::Cell;
use std::io;
use std::sync::Mutex;

/// A file that changes a little at every read.
struct Moving {
    state: Mutex<State>,
}

struct State {
    file: TraceFile,
    /// Chunks still to come through each slot.
    next_sequence: u64,
    last_sequence: u64,
    slots: Vec<Stage>,
    steps: u64,
    every: u64,
}

#[derive(Clone, Copy)]
enum Stage {
    Free,
    Filling(u64, usize),
    Full(u64),
    /// Sealing, with so many bytes of the payload written.
    Sealing(u64, usize, usize),
}

const PER_SLOT: usize = 60;

fn content(sequence: u64) -> RawContent {
    spans(sequence, PER_SLOT, sequence * 10_000)
}

impl State {
    /// One step of one slot, as the drain or the sealer would make it.
    fn step(&mut self) {
        self.steps += 1;
        let tick = self.steps;
        self.file.vitals(&Vitals { tick, ..Vitals::default() });
        let sealing = self.slots.iter().position(|stage| matches!(stage, Stage::Sealing(..)));
        let filling = self.slots.iter().position(|stage| matches!(stage, Stage::Filling(..)));
        if let Some(slot) = sealing.filter(|_| self.steps.is_multiple_of(2)) {
            self.seal_step(slot);
        } else if let Some(slot) = filling {
            self.fill_step(slot);
        } else if let Some(slot) = self.slots.iter().position(|it| matches!(it, Stage::Free))
            && self.next_sequence <= self.last_sequence
        {
            SlotWriter::begin(self.file.slot(slot as u32), self.next_sequence);
            self.slots[slot] = Stage::Filling(self.next_sequence, 0);
            self.next_sequence += 1;
        }
        let full = (0..self.slots.len()).filter_map(|slot| match self.slots[slot] {
            Stage::Full(sequence) => Some((sequence, slot)),
            _ => None,
        });
        if let Some((sequence, slot)) = full.min().filter(|_| sealing.is_none()) {
            let at = self.file.bytes.len();
            self.slots[slot] = Stage::Sealing(sequence, at, 80);
        }
    }

    /// Rewrites the slot with one batch more, which is what publishing one looks
    /// like from outside.
    fn fill_step(&mut self, slot: usize) {
        let Stage::Filling(sequence, batches) = self.slots[slot] else { return };
        let events = content(sequence).events;
        let bytes = self.file.slot(slot as u32);
        let generation = bytes[4..8].to_vec();
        let mut copy = bytes.to_vec();
        let mut writer = SlotWriter::begin(&mut copy, sequence);
        for batch in events.chunks(20).take(batches + 1) {
            writer.push_events(0, 1, 20, batch, &[]);
        }
        writer.publish();
        bytes[16..].copy_from_slice(&copy[16..]);
        bytes[4..8].copy_from_slice(&generation);
        self.slots[slot] = if batches == 2 {
            bytes[16] = 2;
            Stage::Full(sequence)
        } else {
            Stage::Filling(sequence, batches + 1)
        };
    }

    fn seal_step(&mut self, slot: usize) {
        let Stage::Sealing(sequence, at, written) = self.slots[slot] else { return };
        let chunk = self.file.encoder.data(&content(sequence), &[]).unwrap().to_vec();
        if written < chunk.len() {
            let next = (written + 150).min(chunk.len());
            self.file.bytes.resize(at + next, 0);
            self.file.bytes[at + written..at + next].copy_from_slice(&chunk[written..next]);
            self.slots[slot] = Stage::Sealing(sequence, at, next);
        } else if self.file.bytes[at] == 0 {
            self.file.bytes[at..at + 80].copy_from_slice(&chunk[..80]);
        } else {
            mark_free(self.file.slot(slot as u32));
            self.slots[slot] = Stage::Free;
        }
    }
}

thread_local! {
    static READS: Cell<u64> = const { Cell::new(0) };
}

impl Source for Moving {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state.lock().unwrap().file.bytes.len() as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        READS.set(READS.get() + 1);
        for _ in 0..state.every {
            state.step();
        }
        let there = state.file.bytes.get(offset as usize..).and_then(|it| it.get(..buf.len()));
        buf.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[test]
fn file_that_changes_at_every_read_shows_no_damage_and_no_event_twice() {
    for every in [1, 2, 3, 5, 9] {
        let slots = 3;
        let state = State {
            file: TraceFile::live(slots, 100),
            next_sequence: 1,
            last_sequence: 150,
            slots: vec![Stage::Free; slots as usize],
            steps: 0,
            every,
        };
        let source = Moving { state: Mutex::new(state) };
        let mut seen = 0;
        for _ in 0..25 {
            let before = source.state.lock().unwrap().steps;
            let trace = Trace::open(&source).unwrap();
            assert_eq!(trace.damage(), [], "{every} steps a read");
            let mut sequences: Vec<u64> = trace.chunks().iter().map(|it| it.sequence).collect();
            assert!(sequences.is_sorted());
            sequences.dedup();
            assert_eq!(sequences.len(), trace.chunks().len());
            for chunk in trace.chunks() {
                let batch = trace.decode(chunk, Columns::ALL).unwrap();
                let records: Vec<Record> = batch.records().map(|(record, _)| record).collect();
                let expected = content(chunk.sequence).events;
                assert_eq!(records, expected[..records.len()]);
                assert_eq!(records.len() % 20, 0, "batches are seen whole");
            }
            // What was there once stays there.
            let events: u64 = trace.chunks().iter().map(|it| u64::from(it.events)).sum();
            assert!(events >= seen, "{events} after {seen}, {every} steps a read from {before}");
            seen = events;
        }
    }
}
