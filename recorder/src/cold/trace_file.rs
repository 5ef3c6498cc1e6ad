//! The trace file: its creation, its memory map, and who may touch which part.
//!
//! | part | who | how |
//! |---|---|---|
//! | header | the creator, before anyone else knows the file | map |
//! | vitals, in-flight area | the drain; whoever comes after it, once it has left the file | map |
//! | a raw slot | the drain while it is free or filling, whoever has the lock of `sealing` while it is full | map |
//! | ring and log areas | the sealer | `pwrite`, so that a full disk is an error code |
//!
//! **What a memory map cannot survive.** If another process truncates the file,
//! the next store to the map raises SIGBUS. With fatal signals handled (the
//! default), [`last_words`](crate::last_words) puts plain memory under the map
//! and the recording is given up, counted; otherwise the signal ends the program.
//! The file is locked (advisory) while it is written.

#![allow(unsafe_code)] // slices of the map

use std::{
    fs::{self, File},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::{MmapOptions, MmapRaw};
use ringscope_format::{
    CHUNK_HEADER_LENGTH, FileHeader, HEADER_LENGTH, OpenSpan, SlotWriter, VITALS_LENGTH,
    VITALS_OFFSET, Vitals, mark_free, write_in_flight_from, write_vitals,
};

use crate::{
    Error,
    cold::{disk_space, place::Place, slot_states::SlotStates},
    file_names::with_suffix,
    last_words,
};

/// What is written between two moments for a pause: the system takes about 2 us a
/// page, and more beside a busy disk.
const BYTES_AT_ONCE: usize = 8 << 10;
/// What has a page at least.
const PAGE: usize = 4 << 10;
/// Pages that are made writable between two moments for a pause: next to no work if all of them
/// still are, and 1 or 2 us each if not.
const WRITABLE_AT_ONCE: usize = 4;

#[derive(Debug)]
pub(crate) struct TraceFile {
    pub(crate) path: PathBuf,
    pub(crate) header: FileHeader,
    place: Place,
    file: File,
    map: MmapRaw,
    slots: SlotStates,
}

impl TraceFile {
    /// Makes the file beside its place, where it stays until it is
    /// [put there](Self::put_in_place): neither a kill nor a failure before that touches
    /// what is in its place now, and none leaves a file there that nobody can read.
    pub(crate) fn create(path: &Path, header: FileHeader) -> Result<Self, Error> {
        let (file, place) = Place::take(path)?;
        let trace = Self::prepare(path, file, place, header)?;
        crate::crash_point("file-prepared");
        Ok(trace)
    }

    /// Gives the file its path, from where it may push out a trace that nobody is writing to.
    pub(crate) fn put_in_place(&self) -> Result<(), Error> {
        self.place.put(&self.path)
    }

    fn prepare(path: &Path, file: File, place: Place, header: FileHeader) -> Result<Self, Error> {
        let layout = header.layout;
        disk_space::write_zeros(&file, layout.mapped_length())
            .and_then(|()| disk_space::reserve(&file, layout.log_offset))
            .map_err(Error::io(path, "allocate"))?;
        let map = MmapOptions::new()
            .len(layout.mapped_length() as usize)
            .map_raw(&file)
            .map_err(Error::io(path, "map"))?;
        // A forked child must not be able to touch the parent's file.
        #[cfg(target_os = "linux")]
        map.advise(memmap2::Advice::DontFork).map_err(Error::io(path, "map"))?;
        let trace = Self {
            path: path.to_owned(),
            header,
            place,
            file,
            map,
            slots: SlotStates::new(layout.raw_slots),
        };
        let bytes = trace.header.to_bytes();
        // SAFETY: nobody else knows the file yet.
        unsafe { trace.part(0, bytes.len()) }.copy_from_slice(&bytes);
        let map = &trace.map;
        last_words::watch(map.as_ptr() as usize, map.len(), trace.file.as_raw_fd());
        Ok(trace)
    }

    /// A part of the map.
    ///
    /// # Safety
    ///
    /// By the table at the top, the caller is the one that may touch this part,
    /// and holds no other reference into it.
    #[allow(clippy::mut_from_ref)]
    unsafe fn part(&self, offset: usize, length: usize) -> &mut [u8] {
        assert!(offset + length <= self.map.len(), "the layout lies within the map");
        // SAFETY: in bounds by the assertion, alive as long as `self`, exclusive by contract.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(offset), length) }
    }

    fn slot_range(&self, index: usize) -> (usize, usize) {
        let layout = &self.header.layout;
        let stride = layout.raw_stride as usize;
        (layout.raw_offset as usize + index * stride, stride)
    }

    /// Drain only: takes a free raw slot into use, if there is one.
    pub(crate) fn take_slot(
        self: &Arc<Self>,
        next_sequence: impl FnOnce() -> u64,
    ) -> Option<OpenSlot> {
        let (index, sequence) = self.slots.take(next_sequence)?;
        let (offset, length) = self.slot_range(index);
        // SAFETY: the slot is free, so the drain has it; sealing looks at full ones only.
        let bytes = unsafe { self.part(offset, length) };
        // SAFETY: `OpenSlot` keeps the file, and with it the map, alive for as long as the writer.
        let bytes: &'static mut [u8] = unsafe { &mut *std::ptr::from_mut(bytes) };
        Some(OpenSlot {
            writer: SlotWriter::begin(bytes, sequence),
            index,
            sequence,
            file: Arc::clone(self),
        })
    }

    /// Sealing only: the full slot with the lowest sequence number.
    pub(crate) fn next_full_slot(&self) -> Option<usize> {
        self.slots.next_full()
    }

    /// How many slots wait to be sealed and written.
    pub(crate) fn full_slots(&self) -> usize {
        self.slots.full()
    }

    /// Sealing only, for a full slot.
    pub(crate) fn slot_bytes(&self, index: usize) -> &[u8] {
        let (offset, length) = self.slot_range(index);
        // SAFETY: the slot is full, so it is whose sealing it is.
        unsafe { self.part(offset, length) }
    }

    /// Sealing only: gives a sealed slot back to the drain.
    pub(crate) fn free_slot(&self, index: usize, pause: impl Fn()) {
        let (offset, length) = self.slot_range(index);
        // SAFETY: the slot is full, so it is whose sealing it is, until it is freed below.
        let slot = unsafe { self.part(offset, length) };
        mark_free(slot);
        // Written-back pages are write-protected, and the next store to one may
        // have to wait for the disk. That wait is better had here than in the drain. What is written is
        // what is there: should the chunk come to harm, the slot still has its events. Asking the
        // system to do it takes 60 us a slot, as it looks at every page, and nearly all can be written.
        let first = PAGE - offset % PAGE; // the page of the header, which is aligned, has been written to
        for (page, at) in (first..length).step_by(PAGE).enumerate() {
            if page.is_multiple_of(WRITABLE_AT_ONCE) {
                pause();
            }
            let byte = std::ptr::from_mut(&mut slot[at]);
            // SAFETY: in bounds and exclusive; volatile, as it changes nothing that anybody can tell.
            unsafe { byte.write_volatile(byte.read_volatile()) };
        }
        self.slots.free(index);
    }

    /// Drain, or whoever comes after it: writes the next edition of the vitals.
    pub(crate) fn write_vitals(&self, edition: u64, vitals: &Vitals) {
        // SAFETY: the vitals are the drain's, and the caller's once the drain is gone.
        let block = unsafe { self.part(VITALS_OFFSET, VITALS_LENGTH) };
        write_vitals(block, edition, vitals);
    }

    /// Drain only: copies a stack into its in-flight entry.
    #[inline]
    pub(crate) fn write_in_flight(
        &self,
        entry: usize,
        edition: u64,
        tick: u64,
        track: u32,
        depth: u32,
        spans: impl ExactSizeIterator<Item = OpenSpan>,
    ) {
        let layout = &self.header.layout;
        if entry >= layout.in_flight_entries as usize {
            return;
        }
        let stride = layout.in_flight_stride as usize;
        // SAFETY: the in-flight area is the drain's.
        let block = unsafe { self.part(layout.in_flight_offset as usize + entry * stride, stride) };
        write_in_flight_from(block, edition, tick, track, depth, spans);
    }

    /// Drain, or whoever comes after it: nothing is open in this file any more.
    pub(crate) fn clear_in_flight(&self) {
        let layout = &self.header.layout;
        let length = layout.in_flight_entries as usize * layout.in_flight_stride as usize;
        // SAFETY: the in-flight area is the drain's.
        unsafe { self.part(layout.in_flight_offset as usize, length) }.fill(0);
    }

    /// Sealer only: writes a chunk, its header last. Between pieces of it there is a `pause`.
    pub(crate) fn write_chunk(
        &self,
        chunk: &[u8],
        offset: u64,
        pause: impl Fn(),
    ) -> io::Result<()> {
        let (header, rest) = chunk.split_at(CHUNK_HEADER_LENGTH);
        let mut at = offset + header.len() as u64;
        for piece in rest.chunks(BYTES_AT_ONCE) {
            self.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
            pause();
        }
        crate::crash_point("payload-written");
        self.file.write_all_at(header, offset)
    }

    /// Sealer only: takes back what a failed append may have left at the end of the log.
    pub(crate) fn take_back(&self, log_end: u64) {
        if self.file.metadata().is_ok_and(|ours| ours.len() > log_end) {
            let _ = self.file.set_len(log_end); // what stays is without a header
        }
    }

    /// Sealer only: makes sure that nobody takes a chunk there for valid.
    pub(crate) fn invalidate_chunk(&self, offset: u64) -> io::Result<()> {
        self.file.write_all_at(&[0; 8], offset)
    }

    /// Reads from the ring or log area.
    pub(crate) fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    /// What has become of the file under its path, when chunks up to `log_end` were written.
    pub(crate) fn fate(&self, log_end: u64) -> Fate {
        let Ok(ours) = self.file.metadata() else { return Fate::Fine };
        match (self.shortened(log_end), fs::metadata(&self.path)) {
            _ if self.has_lost_its_log(log_end) => Fate::Truncated,
            (Fate::Fine, Ok(there)) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                Fate::Fine
            }
            // Nobody has promised it to be there yet.
            (Fate::Fine, _) if !self.place.is_taken() => Fate::Fine,
            (Fate::Fine, _) => Fate::Removed,
            (shortened, _) => shortened,
        }
    }

    /// What its length tells of that, before the next chunk makes it as long again as it should be.
    pub(crate) fn shortened(&self, log_end: u64) -> Fate {
        match self.file.metadata() {
            Ok(ours) if ours.len() < self.header.layout.mapped_length() => Fate::Truncated,
            Ok(ours) if ours.len() < log_end => Fate::Shortened,
            _ => Fate::Fine,
        }
    }

    /// A file that is as long as it should be may have been shorter before the last write made it
    /// so; then there are zeros where its first chunk was.
    fn has_lost_its_log(&self, log_end: u64) -> bool {
        let log = self.header.layout.log_offset;
        let mut first = [1; 8];
        log_end > log && self.read_at(&mut first, log).is_ok() && first == [0; 8]
    }

    /// Rewrites a finished file without its in-flight and raw areas, beside
    /// itself, then puts the copy in its place.
    ///
    /// A kill at any point leaves the one or the other, both complete.
    pub(crate) fn compact(&self, log_end: u64, edition: u64, vitals: &Vitals) -> io::Result<()> {
        let mut header = self.header;
        header.layout = ringscope_format::Layout::finished();
        let mut first_page = vec![0; HEADER_LENGTH as usize];
        let bytes = header.to_bytes();
        first_page[..bytes.len()].copy_from_slice(&bytes);
        let block = &mut first_page[VITALS_OFFSET..VITALS_OFFSET + VITALS_LENGTH];
        write_vitals(block, edition, vitals);

        let beside = with_suffix(&self.path, ".finishing");
        let copy = || -> io::Result<()> {
            let target = File::create(&beside)?;
            target.write_all_at(&first_page, 0)?;
            let mut buffer = vec![0; 1 << 20];
            let (mut from, mut to) = (self.header.layout.log_offset, HEADER_LENGTH);
            while from < log_end {
                let step = (log_end - from).min(buffer.len() as u64) as usize;
                self.file.read_exact_at(&mut buffer[..step], from)?;
                target.write_all_at(&buffer[..step], to)?;
                (from, to) = (from + step as u64, to + step as u64);
            }
            crate::crash_point("compact-copied");
            fs::rename(&beside, &self.path)
        };
        copy().inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        last_words::unwatch(self.map.as_ptr() as usize);
    }
}

/// What has become of a file that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Fine,
    Removed,
    /// Some chunks are gone; what follows is written behind the gap.
    Shortened,
    /// What is mapped is gone.
    Truncated,
}

/// A raw slot that the drain is filling.
pub(crate) struct OpenSlot {
    pub(crate) writer: SlotWriter<'static>,
    pub(crate) sequence: u64,
    index: usize,
    /// Keeps the map that `writer` writes to.
    file: Arc<TraceFile>,
}

impl OpenSlot {
    /// Passes the slot on to be sealed.
    pub(crate) fn hand_over(self) {
        self.writer.mark_full();
        crate::crash_point("slot-full");
        self.file.slots.hand_over(self.index);
    }
}

/// The header of a file that tests write to.
#[cfg(test)]
pub(crate) fn test_header(layout: ringscope_format::Layout) -> FileHeader {
    use crate::hot::clock;
    let counter = clock::counter();
    FileHeader {
        recording: [7; 16],
        file_number: 0,
        mode: ringscope_format::Mode::Full,
        pid: 1,
        created_wall_ns: 0,
        created_tick: 0,
        counter,
        nominal_hz: clock::nominal_hz(counter),
        layout,
    }
}

#[cfg(test)]
impl TraceFile {
    /// In a directory that goes with it.
    pub(crate) fn for_a_test(dir: &tempfile::TempDir, layout: ringscope_format::Layout) -> Self {
        Self::create(&dir.path().join("trace"), test_header(layout)).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use ringscope_format::{Kind, Layout, Record};

    use super::*;

    fn file(dir: &tempfile::TempDir) -> TraceFile {
        TraceFile::for_a_test(dir, Layout::live(1, 3, 16_384, 0))
    }

    #[test]
    fn a_chunk_that_is_written_in_pieces_is_whole_and_has_its_header_last() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        let at = file.header.layout.log_offset;
        let chunk: Vec<u8> = (0..3 * BYTES_AT_ONCE).map(|byte| byte as u8 | 1).collect();
        let pauses = Cell::new(0);
        let pause = || {
            let mut header = [0; CHUNK_HEADER_LENGTH];
            file.read_at(&mut header, at).unwrap();
            assert_eq!(header, [0; CHUNK_HEADER_LENGTH]);
            pauses.set(pauses.get() + 1);
        };
        file.write_chunk(&chunk, at, pause).unwrap();
        assert_eq!(pauses.get(), 3);
        let mut stored = vec![0; chunk.len()];
        file.read_at(&mut stored, at).unwrap();
        assert!(stored == chunk);
    }

    #[test]
    fn a_slot_is_nobodys_until_all_of_it_can_be_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = Arc::new(file(&dir));
        let slot = file.take_slot(|| 1).unwrap();
        let index = slot.index;
        slot.hand_over();
        let pauses = Cell::new(0);
        file.free_slot(index, || {
            assert_eq!(file.full_slots(), 1);
            pauses.set(pauses.get() + 1);
        });
        assert!(pauses.get() > 1);
        assert_eq!((file.full_slots(), file.next_full_slot()), (0, None));
    }

    #[test]
    fn a_slot_that_is_free_again_has_what_it_had() {
        let dir = tempfile::tempdir().unwrap();
        let file = Arc::new(file(&dir));
        for sequence in 1..=3 {
            let mut slot = file.take_slot(|| sequence).unwrap();
            let spans: Vec<Record> =
                (0..16_000).map(|at| Record::timed(Kind::SPAN, 1, 1, at, !at)).collect();
            assert!(slot.writer.push_events(0, 1, 16_000, &spans, &[]));
            let index = slot.index;
            slot.hand_over();
            let mut before = file.slot_bytes(index).to_vec();
            file.free_slot(index, || ());
            mark_free(&mut before);
            // They begin at another place of a page each.
            assert!(file.slot_bytes(index) == before, "slot {index}");
            file.slots.take(|| 9); // so that the next one is another
        }
    }

    /// Minor faults of the calling thread.
    #[cfg(target_os = "linux")]
    fn faults() -> usize {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        // The name of the thread may have spaces in it.
        let (_, behind_name) = stat.rsplit_once(')').unwrap();
        behind_name.split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    #[test]
    #[cfg(target_os = "linux")] // which tells how often a thread has to wait for a page
    fn pages_that_were_written_back_are_waited_for_before_a_slot_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let file = Arc::new(file(&dir));
        let [one, other] = [1, 2].map(|sequence| {
            let slot = file.take_slot(|| sequence).unwrap();
            let index = slot.index;
            slot.hand_over();
            index
        });
        let (offset, length) = file.slot_range(one);
        let store_to_all = |index| {
            let (offset, _) = file.slot_range(index);
            // SAFETY: the slot is full, and this is the only reference into it.
            let slot = unsafe { file.part(offset, length) };
            slot.iter_mut().skip(PAGE).step_by(PAGE).for_each(|byte| *byte = !*byte);
        };
        let faults_in = |stores: &dyn Fn()| {
            let before = faults();
            stores();
            faults() - before
        };
        [one, other].into_iter().for_each(store_to_all);
        file.file.sync_all().unwrap();
        // A file system in memory writes nothing back.
        let pages = (offset + length) / PAGE - offset / PAGE - 4;
        if faults_in(&|| store_to_all(other)) < pages {
            return;
        }
        let waited = faults_in(&|| file.free_slot(one, || ()));
        assert!(waited >= pages, "for {waited} of {pages}");
    }

    #[test]
    fn a_file_that_was_truncated_is_known_by_its_length_and_behind_the_next_chunk_by_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        let log = file.header.layout.log_offset;
        file.put_in_place().unwrap();
        file.write_chunk(&[1; 4_096], log, || ()).unwrap();
        let end = log + 4_096;
        assert_eq!((file.shortened(end), file.fate(end)), (Fate::Fine, Fate::Fine));
        file.file.set_len(log + 100).unwrap();
        assert_eq!((file.shortened(end), file.fate(end)), (Fate::Shortened, Fate::Shortened));
        file.file.set_len(log).unwrap();
        file.write_chunk(&[1; 4_096], end, || ()).unwrap();
        assert_eq!((file.shortened(end), file.fate(end)), (Fate::Fine, Fate::Truncated));
        file.file.set_len(10).unwrap();
        assert_eq!((file.shortened(end), file.fate(end)), (Fate::Truncated, Fate::Truncated));
    }
}
