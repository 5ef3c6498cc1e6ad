//! Keep-last mode: a circular area of sealed chunks, and dumps of it.
//!
//! The area has a fixed size. A new chunk goes behind the one before it, or to
//! the start if it does not fit before the end; chunks that it would overlap are
//! invalidated first, oldest first, so a reader never takes half of one for a whole.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use ringscope_format::{
    ChunkEncoder, FileHeader, HEADER_LENGTH, Layout, Mode, RecordingState, VITALS_LENGTH,
    VITALS_OFFSET, Vitals, write_twin,
};

use crate::{
    cold::{shared::DumpReason, trace_file::TraceFile},
    file_names::{numbered, with_suffix},
};

/// A chunk in the ring area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    offset: u64,
    length: u64,
    events: u64,
    first_end: u64,
    last_end: u64,
}

/// Where the next chunk goes and what is there.
#[derive(Debug)]
pub(crate) struct RingArea {
    start: u64,
    length: u64,
    /// Relative to `start`.
    cursor: u64,
    kept: VecDeque<Kept>,
    /// Chunks that are not kept any more and still look valid, oldest first.
    to_invalidate: VecDeque<u64>,
}

/// What a chunk is about, for those who don't decode it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkFacts {
    pub(crate) events: u64,
    /// When the first and the last of them ended: what began long before is no
    /// sign that anything else of that time is here.
    pub(crate) first_end: u64,
    pub(crate) last_end: u64,
}

impl RingArea {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            start: layout.ring_offset,
            length: layout.ring_length,
            cursor: 0,
            kept: VecDeque::new(),
            to_invalidate: VecDeque::new(),
        }
    }

    /// Writes a chunk over the oldest ones, whose events are added to `overwritten`.
    pub(crate) fn write(
        &mut self,
        file: &TraceFile,
        chunk: &[u8],
        facts: ChunkFacts,
        overwritten: &AtomicU64,
        pause: impl Fn(),
    ) -> io::Result<()> {
        let length = chunk.len() as u64;
        if length > self.length {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "a chunk is larger than the flight recorder's area; raise its size",
            ));
        }
        let (offset, dropped) = self.make_room(length);
        // Out of the list is out of the count, even if what follows fails.
        let events = dropped.iter().map(|old| old.events).sum();
        overwritten.fetch_add(events, Ordering::Relaxed);
        self.to_invalidate.extend(dropped.iter().map(|old| old.offset));
        self.invalidate(|offset| file.invalidate_chunk(offset))?;
        crate::crash_point("ring-invalidated");
        file.write_chunk(chunk, offset, pause)?;
        self.kept.push_back(Kept {
            offset,
            length,
            events: facts.events,
            first_end: facts.first_end,
            last_end: facts.last_end,
        });
        self.cursor = offset - self.start + length;
        Ok(())
    }

    /// Whatever fails stays on the list, so that nothing is written over a chunk that
    /// still looks valid, however often it has to be tried.
    fn invalidate(&mut self, mut chunk: impl FnMut(u64) -> io::Result<()>) -> io::Result<()> {
        while let Some(&offset) = self.to_invalidate.front() {
            chunk(offset)?;
            self.to_invalidate.pop_front();
        }
        Ok(())
    }

    /// Finds the place for a chunk and takes out of the list whatever is there.
    fn make_room(&mut self, length: u64) -> (u64, Vec<Kept>) {
        let mut dropped = Vec::new();
        if self.cursor + length > self.length {
            // What is left behind the cursor belongs to the lap before: it is the
            // oldest there is and would otherwise outlive all that is newer.
            let cursor = self.start + self.cursor;
            self.drop_oldest_while(|old| old.offset >= cursor, &mut dropped);
            self.cursor = 0;
        }
        let from = self.start + self.cursor;
        let overlaps = |old: &Kept| old.offset < from + length && from < old.offset + old.length;
        self.drop_oldest_while(overlaps, &mut dropped);
        (from, dropped)
    }

    fn drop_oldest_while(&mut self, condition: impl Fn(&Kept) -> bool, dropped: &mut Vec<Kept>) {
        while self.kept.front().is_some_and(&condition) {
            dropped.extend(self.kept.pop_front());
        }
    }

    /// Chunks that have something from `since` on, oldest first.
    fn since(&self, since: u64) -> impl Iterator<Item = Kept> {
        // A chunk without records (only names or losses) has no ticks; it is small.
        self.kept.iter().copied().filter(move |kept| kept.last_end >= since || kept.events == 0)
    }
}

/// Everything a dump consists of.
pub(crate) struct Dump<'a> {
    pub(crate) file: &'a TraceFile,
    pub(crate) ring: &'a RingArea,
    pub(crate) encoder: &'a mut ChunkEncoder,
    pub(crate) vitals: Vitals,
    pub(crate) reason: &'a DumpReason,
    pub(crate) metadata: &'a [(String, String)],
    /// The number of that chunk.
    pub(crate) metadata_sequence: u64,
    /// What was sampled or left out by the time of the dump.
    pub(crate) rules: &'a str,
    /// Ready chunks with all names.
    pub(crate) names: &'a [Vec<u8>],
    /// A ready chunk with the spans that are open now.
    pub(crate) open_chunk: Option<Vec<u8>>,
    /// What is older is left out.
    pub(crate) since: u64,
    pub(crate) ns_per_tick: f64,
    /// Numbers from here on are free, as far as this recording is concerned.
    pub(crate) number: u64,
}

impl Dump<'_> {
    /// Writes the dump beside the trace, under another name until it is whole. Returns its path
    /// and its number.
    pub(crate) fn write(mut self) -> io::Result<(PathBuf, u64)> {
        let (trace, reason) = (&self.file.path, self.reason);
        let number = self.number.max(highest_number(trace) + 1);
        let path = |number| dump_path(trace, number, reason);
        let beside = with_suffix(&path(number), ".writing");
        let written = self.write_to(&beside).and_then(|()| place(&beside, number, path));
        let _ = fs::remove_file(&beside); // the dump has a name of its own, or failed
        written
    }

    fn write_to(&mut self, path: &Path) -> io::Result<()> {
        // One that a killed process left may be a whole dump under its other name.
        let _ = fs::remove_file(path);
        let target = File::create_new(path)?;
        let header =
            FileHeader { mode: Mode::Dump, layout: Layout::finished(), ..self.file.header };
        let mut page = vec![0; HEADER_LENGTH as usize];
        let bytes = header.to_bytes();
        page[..bytes.len()].copy_from_slice(&bytes);
        let chunks: Vec<Kept> = self.ring.since(self.since).collect();
        let vitals = self.account(chunks.iter().map(|kept| kept.events).sum());
        write_twin(&mut page[VITALS_OFFSET..VITALS_OFFSET + VITALS_LENGTH], 1, &vitals.to_bytes());
        target.write_all_at(&page, 0)?;

        let first = chunks.iter().filter(|kept| kept.events > 0).map(|kept| kept.first_end).min();
        let last = chunks.iter().map(|kept| kept.last_end).max().unwrap_or(0);
        let covers =
            first.map_or(0.0, |first| last.saturating_sub(first) as f64 * self.ns_per_tick);
        let reason = self.reason.to_string();
        let covers = (covers as u64).to_string();
        let mut metadata: Vec<(&str, &str)> =
            self.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        if !self.rules.is_empty() {
            metadata.push(("rules", self.rules));
        }
        metadata.extend([("dump.reason", reason.as_str()), ("dump.covers_ns", covers.as_str())]);

        let mut end = HEADER_LENGTH;
        let mut append = |bytes: &[u8]| -> io::Result<()> {
            target.write_all_at(bytes, end)?;
            end += bytes.len() as u64;
            Ok(())
        };
        append(
            self.encoder.metadata(self.metadata_sequence, &metadata).map_err(io::Error::other)?,
        )?;
        self.names.iter().try_for_each(|chunk| append(chunk))?;
        let mut buffer = Vec::new();
        for kept in chunks {
            buffer.resize(kept.length as usize, 0);
            self.file.read_at(&mut buffer, kept.offset)?;
            append(&buffer)?;
        }
        if let Some(chunk) = &self.open_chunk {
            append(chunk)?;
        }
        Ok(())
    }
}

impl Dump<'_> {
    /// The counts of a dump that has so many events: those that are in none of its chunks, because they
    /// were overwritten while it was asked for or are older than it goes back, are not there any
    /// more; and chunks that came after the counts have a place in them as well.
    fn account(&self, events: u64) -> Vitals {
        let counted = self.vitals.stored + self.vitals.own;
        Vitals {
            state: RecordingState::Finished,
            stored: self.vitals.stored + events.saturating_sub(counted),
            overwritten: counted.saturating_sub(events),
            ..self.vitals
        }
    }
}

impl std::fmt::Display for DumpReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DumpReason::Asked => f.write_str("asked for by the program"),
            DumpReason::Signal => f.write_str("asked for by signal"),
            DumpReason::ControlFile => f.write_str("asked for by control file"),
            DumpReason::Panic => f.write_str("panic"),
            DumpReason::SlowSpan { name, took_ns } => {
                write!(f, "slow span: {name} took {:.3} ms", *took_ns as f64 / 1e6)
            }
        }
    }
}

/// `flight.trace` becomes `flight.dump-3-slow-span.trace`.
fn dump_path(trace: &Path, number: u64, reason: &DumpReason) -> PathBuf {
    let why = match reason {
        DumpReason::Asked => "asked",
        DumpReason::Signal => "signal",
        DumpReason::ControlFile => "control",
        DumpReason::Panic => "panic",
        DumpReason::SlowSpan { .. } => "slow-span",
    };
    numbered(trace, &format!("dump-{number}-{why}"))
}

/// The highest number among the dumps that lie beside a trace, of whatever recording. What stands
/// behind the number does not matter: one that somebody has compressed has it too.
fn highest_number(trace: &Path) -> u64 {
    let mut start = trace.file_stem().unwrap_or_default().to_owned();
    start.push(".dump-");
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(start.as_encoded_bytes())?;
        let digits = rest.split(|&byte| byte == b'-').next()?;
        str::from_utf8(digits).ok()?.parse::<u32>().ok()
    };
    // A directory that may not be listed may still be written to; `place` has the last word.
    let entries = trace.parent().and_then(|directory| fs::read_dir(directory).ok());
    entries.into_iter().flatten().flatten().filter_map(number).max().map_or(0, u64::from)
}

/// Gives a file that is whole the first free name from a number on. A dump may be all that is left
/// of an earlier run, so whatever has a name keeps it.
fn place(beside: &Path, first: u64, path: impl Fn(u64) -> PathBuf) -> io::Result<(PathBuf, u64)> {
    for number in first.. {
        let path = path(number);
        let placed = match fs::hard_link(beside, &path) {
            // A file system without such links: an empty file of ours takes the name first.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => File::create_new(&path)
                .and_then(|_| {
                    fs::rename(beside, &path).inspect_err(|_| {
                        let _ = fs::remove_file(&path);
                    })
                }),
            linked => linked,
        };
        match placed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            placed => return placed.map(|()| (path, number)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(length: u64) -> RingArea {
        RingArea {
            start: 1_000,
            length,
            cursor: 0,
            kept: VecDeque::new(),
            to_invalidate: VecDeque::new(),
        }
    }

    fn put(area: &mut RingArea, length: u64, events: u64) -> Vec<u64> {
        let (offset, dropped) = area.make_room(length);
        area.kept.push_back(Kept { offset, length, events, first_end: events, last_end: events });
        area.cursor = offset - area.start + length;
        dropped.iter().map(|kept| kept.events).collect()
    }

    #[test]
    fn new_chunks_push_out_the_oldest_they_overlap() {
        let mut area = area(100);
        assert_eq!(put(&mut area, 40, 1), [0_u64; 0]);
        assert_eq!(put(&mut area, 40, 2), [0_u64; 0]);
        assert_eq!(put(&mut area, 30, 3), [1], "goes to the start");
        assert_eq!(put(&mut area, 30, 4), [2]);
        assert_eq!(area.kept.iter().map(|kept| kept.events).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn what_is_left_of_the_lap_before_goes_when_the_next_begins() {
        let mut area = area(100);
        for events in 1..=4 {
            put(&mut area, 25, events);
        }
        put(&mut area, 25, 5); // over 1
        put(&mut area, 20, 6); // over 2
        put(&mut area, 20, 7); // over 2 and 3
        // 35 bytes are left behind the cursor, where 4 still stands.
        assert_eq!(put(&mut area, 40, 8), [4, 5, 6]);
        assert_eq!(area.kept.iter().map(|kept| kept.events).collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn numbers_go_on_behind_the_highest_one_of_the_same_trace() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("run.trace");
        assert_eq!(highest_number(&trace), 0);
        for (name, highest) in [
            ("run.dump-2-asked.trace", 2),
            ("run.dump-10-panic.trace.zst", 10),
            ("run.dump-9-panic.trace", 10),
            ("other.dump-77-panic.trace", 10),
            ("run.dump--1-panic.trace", 10),
            ("run.dump-99999999999999999999-panic.trace", 10),
        ] {
            File::create(dir.path().join(name)).unwrap();
            assert_eq!(highest_number(&trace), highest, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_taken_is_left_to_whoever_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = |number: u64| dir.path().join(number.to_string());
        fs::write(path(3), "of an earlier run").unwrap();
        std::os::unix::fs::symlink("nowhere", path(4)).unwrap();
        let beside = dir.path().join("beside");
        fs::write(&beside, "new").unwrap();
        assert_eq!(place(&beside, 3, path).unwrap(), (path(5), 5));
        assert_eq!(fs::read_to_string(path(5)).unwrap(), "new");
        assert_eq!(fs::read_to_string(path(3)).unwrap(), "of an earlier run");
    }

    #[test]
    fn an_invalidation_that_failed_is_repeated_before_anything_is_written() {
        let mut area = area(100);
        area.to_invalidate.extend([1_000, 1_040, 1_080]);
        let mut done = Vec::new();
        let mut invalidate = |area: &mut RingArea, fails: u64| {
            area.invalidate(|offset| {
                if offset == fails {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                done.push(offset);
                Ok(())
            })
        };
        invalidate(&mut area, 1_040).unwrap_err();
        area.to_invalidate.push_back(1_200); // of the next try
        invalidate(&mut area, 0).unwrap();
        assert_eq!(done, [1_000, 1_040, 1_080, 1_200]);
        assert!(area.to_invalidate.is_empty());
    }
}
