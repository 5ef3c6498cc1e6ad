//! The thread that compresses full slots and writes chunks.
//!
//! It also does everything else that takes time or may fail: readings, rotation,
//! dumps, the control file. What it cannot write it keeps in its slot and tries
//! again; meanwhile the rings fill up and what does not fit is counted.

use std::{
    fs, io,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use ringscope_format::{
    ChunkEncoder, FileHeader, Layout, Mode, OpenSpan, RawContent, RecordingState, Vitals,
};

use crate::{
    cold::{
        drain::{ASYNC_ENTRIES, Remains, encode_names},
        flight_recorder::{ChunkFacts, Dump, RingArea, numbered},
        readings,
        shared::{DumpReason, NextFile, Shared, lock},
        trace_file::{Fate, TraceFile, with_suffix},
    },
    config::Config,
    error::Error,
    hot::{
        call_site, clock, names,
        ring_pool::{self, MAX_LANES},
    },
    last_words,
    rules::Rules,
    summary::Problem,
};

/// Units in one raw slot, which becomes one chunk: 512 KiB. Larger ones compress
/// no better and leave the second-level cache.
const UNITS_PER_SLOT: u32 = 16_384;
/// Raw slots in the file: what the sealer may fall behind by.
const RAW_SLOTS: u32 = 8;
/// How often it looks for a control file, when nothing else wakes it.
const LOOK_ROUND: Duration = Duration::from_millis(250);
/// How often it checks what became of the file, and trims spare rings.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// Pause before writing again what could not be written.
const TRY_AGAIN: Duration = Duration::from_millis(50);
/// Names in one chunk; even the longest keep below the format's limits.
const NAMES_AT_ONCE: usize = 16_384;
/// Finished files up to this size are rewritten without their work areas; in
/// larger ones those areas are a small part.
const COMPACT_UP_TO: u64 = 64 << 20;

pub(crate) struct Sealer {
    shared: Arc<Shared>,
    /// The file whose slots are being sealed.
    log: Log,
    /// The next file of a rotation, until the drain has left the one before.
    next_log: Option<Log>,
    encoder: ChunkEncoder,
    content: RawContent,
    ring: Option<RingArea>,
    names_sequence: u64,
    /// Of the data chunk that was sealed last.
    last_sequence: u64,
    metadata_sequence: u64,
    rules_version: u32,
    rules_in_file: String,
    /// What every file begins with.
    metadata: Vec<(String, String)>,
    dumps: u32,
    dump_signals_seen: u32,
    /// When the dump for a slow span is due, and why.
    pending_dump: Option<(u64, DumpReason)>,
    no_trigger_before: u64,
    next_reading: Instant,
    next_housekeeping: Instant,
}

/// A file and where its next chunk goes.
#[derive(Debug)]
struct Log {
    file: Arc<TraceFile>,
    end: u64,
}

impl Log {
    fn new(file: Arc<TraceFile>) -> Self {
        Self { end: file.header.layout.log_offset, file }
    }

    /// Bytes of chunks: about what is left of the file when it is finished.
    fn length(&self) -> u64 {
        self.end - self.file.header.layout.log_offset
    }

    fn append(&mut self, chunk: &[u8], shared: &Shared) -> io::Result<()> {
        self.file.write_chunk(chunk, self.end).inspect_err(|_| self.file.take_back(self.end))?;
        self.end += chunk.len() as u64;
        shared.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// The very first file of a recording, and the header that later ones copy.
pub(crate) fn first_file(config: &Config, header: FileHeader) -> Result<Arc<TraceFile>, Error> {
    let ring_length =
        config.keep_last.as_ref().map_or(0, |keep| keep.cap_bytes.next_multiple_of(4_096));
    let entries = (MAX_LANES + ASYNC_ENTRIES) as u32;
    let layout = Layout::live(entries, RAW_SLOTS, UNITS_PER_SLOT, ring_length);
    let mode = if config.keep_last.is_some() { Mode::KeepLast } else { Mode::Full };
    Ok(Arc::new(TraceFile::create(&config.path, FileHeader { mode, layout, ..header })?))
}

impl Sealer {
    /// Writes metadata and names into the first file, so that from the first
    /// event on the file explains itself.
    pub(crate) fn new(
        shared: Arc<Shared>,
        file: Arc<TraceFile>,
        metadata: Vec<(String, String)>,
    ) -> Result<(Self, u32), Error> {
        let layout = file.header.layout;
        let mut sealer = Self {
            encoder: ChunkEncoder::new(file.header.recording).map_err(Error::Format)?,
            content: RawContent::default(),
            ring: (layout.ring_length > 0).then(|| RingArea::new(&layout)),
            names_sequence: 0,
            last_sequence: 0,
            metadata_sequence: 0,
            rules_version: call_site::rules_version(),
            rules_in_file: String::new(),
            metadata,
            next_log: None,
            dumps: 0,
            dump_signals_seen: last_words::dumps_asked(),
            pending_dump: None,
            no_trigger_before: 0,
            next_reading: Instant::now(),
            next_housekeeping: Instant::now() + HOUSEKEEPING,
            shared,
            log: Log::new(Arc::clone(&file)),
        };
        let mut log = Log::new(Arc::clone(&file));
        let names = sealer.begin(&mut log).map_err(Error::io(&file.path, "write"))?;
        sealer.log = log;
        Ok((sealer, names))
    }

    /// Runs until asked to stop, then seals what is left.
    pub(crate) fn run(mut self) -> Self {
        while !self.shared.stop_sealer.load(Ordering::Acquire) {
            let sealed = self.seal_all();
            self.look_round();
            let wait = match sealed {
                Ok(()) => LOOK_ROUND.min(self.until_next_reading()),
                Err(_) => TRY_AGAIN,
            };
            thread::park_timeout(wait);
        }
        // The drain has ended: these are the last.
        let _ = self.seal_all();
        self.write_last_dumps();
        self
    }

    fn until_next_reading(&self) -> Duration {
        match self.shared.config.readings {
            Some(_) => self.next_reading.saturating_duration_since(Instant::now()),
            None => LOOK_ROUND,
        }
    }

    /// Seals every full slot, in order.
    fn seal_all(&mut self) -> io::Result<()> {
        loop {
            // Asked before looking: what the drain hands over as it leaves is found below.
            let left = self.next_log.is_some() && lock(&self.shared.left_file).is_some();
            let file = Arc::clone(&self.log.file);
            match file.next_full_slot() {
                Some(slot) => self.seal(&file, slot)?,
                None if left => self.enter_next_file(),
                None => return Ok(()),
            }
            let most = self.shared.config.rotate_bytes;
            if self.next_log.is_none() && most.is_some_and(|most| self.log.length() >= most) {
                self.rotate();
            }
        }
    }

    /// One slot becomes one chunk; SPEC 7.1 has the steps and what a death after each leaves.
    fn seal(&mut self, file: &TraceFile, slot: usize) -> io::Result<()> {
        // Before this chunk makes the file as long again as it should be.
        self.check_file();
        let mut content = std::mem::take(&mut self.content);
        let result = if last_words::file_was_truncated() {
            self.shared.note(Problem::FileTruncated);
            Err(io::ErrorKind::UnexpectedEof.into())
        } else if content.read_into(file.slot_bytes(slot)) {
            self.store(file, &content)
        } else {
            // The drain has marked it as full; only a truncation can have undone that.
            last_words::note_truncation();
            Err(io::ErrorKind::UnexpectedEof.into())
        };
        self.content = content;
        self.shared.cannot_write.store(result.is_err(), Ordering::Release);
        if let Err(error) = &result {
            self.shared.note(Problem::CannotWrite(error.to_string()));
            return result;
        }
        self.last_sequence = self.content.sequence;
        crate::crash_point("header-written");
        file.free_slot(slot);
        crate::crash_point("slot-free");
        Ok(())
    }

    fn store(&mut self, file: &TraceFile, content: &RawContent) -> io::Result<()> {
        if !content.names.is_empty() {
            self.names_sequence += 1;
            let chunk = self
                .encoder
                .names(self.names_sequence, &content.names)
                .map_err(io::Error::other)?;
            self.log.append(chunk, &self.shared)?;
            crate::crash_point("names-written");
        }
        let chunk = self.encoder.data(content, &[]).map_err(io::Error::other)?;
        match &mut self.ring {
            None => self.log.append(chunk, &self.shared),
            Some(ring) => {
                let overwritten = ring.write(file, chunk, facts(content))?;
                self.shared.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                self.shared.overwritten.fetch_add(overwritten, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Metadata and all names so far. Returns how many entries those are.
    fn begin(&mut self, log: &mut Log) -> io::Result<u32> {
        let mut pairs: Vec<(&str, &str)> =
            self.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        self.rules_in_file = call_site::rules().to_string();
        if !self.rules_in_file.is_empty() {
            pairs.push(("rules", &self.rules_in_file));
        }
        self.metadata_sequence += 1;
        let chunk = self.encoder.metadata(self.metadata_sequence, &pairs);
        log.append(chunk.map_err(io::Error::other)?, &self.shared)?;
        let (chunks, count) = self.name_chunks()?;
        chunks.iter().try_for_each(|chunk| log.append(chunk, &self.shared))?;
        Ok(count)
    }

    /// Rules that were changed while recording: the last ones count.
    fn write_new_rules(&mut self) {
        let version = call_site::rules_version();
        if std::mem::replace(&mut self.rules_version, version) == version {
            return;
        }
        let rules = call_site::rules().to_string();
        if rules != self.rules_in_file {
            self.metadata_sequence += 1;
            if let Ok(chunk) = self.encoder.metadata(self.metadata_sequence, &[("rules", &rules)]) {
                // On a full disk the next file of the recording will say it.
                let _ = self.log.append(chunk, &self.shared);
            }
            self.rules_in_file = rules;
        }
    }

    /// All names so far, as chunks.
    fn name_chunks(&mut self) -> io::Result<(Vec<Vec<u8>>, u32)> {
        let published = names::published();
        let (mut entries, mut bytes, mut chunks) = (Vec::new(), Vec::new(), Vec::new());
        let mut done = 0;
        while done < published {
            names::copy_entries(done, NAMES_AT_ONCE.min((published - done) as usize), &mut entries);
            encode_names(&entries, &mut bytes);
            self.names_sequence += 1;
            let chunk =
                self.encoder.names(self.names_sequence, &bytes).map_err(io::Error::other)?;
            chunks.push(chunk.to_vec());
            done += entries.len() as u32;
        }
        Ok((chunks, done))
    }

    /// Everything that is not sealing.
    fn look_round(&mut self) {
        let now = Instant::now();
        let last = self.shared.last_readings.load(Ordering::Acquire);
        if let Some(every) = self.shared.config.readings
            && self.shared.is_on.load(Ordering::Acquire)
            && (now >= self.next_reading || last)
        {
            readings::take(&self.shared, self.log.file.full_slots());
            self.next_reading = now + every;
        }
        self.shared.last_readings.store(false, Ordering::Release);
        self.write_new_rules();
        if now >= self.next_housekeeping {
            self.next_housekeeping = now + HOUSEKEEPING;
            ring_pool::trim();
            self.check_file();
        }
        if self.shared.config.control_file {
            self.read_control_file();
        }
        self.look_for_dumps();
    }

    fn check_file(&self) {
        match self.log.file.fate(self.log.end) {
            Fate::Fine => {}
            Fate::Removed => self.shared.note(Problem::FileRemoved),
            Fate::Shortened => self.shared.note(Problem::FileTruncated),
            Fate::Truncated => {
                self.shared.note(Problem::FileTruncated);
                last_words::note_truncation();
            }
        }
    }

    fn read_control_file(&mut self) {
        let path = with_suffix(&self.shared.config.path, ".control");
        let Ok(text) = fs::read_to_string(&path) else { return };
        // Removed first: commands that cannot be carried out must not be tried for ever.
        if let Err(error) = fs::remove_file(&path) {
            return self.shared.note(Problem::ControlFile(error.to_string()));
        }
        for line in
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            if line == "dump" {
                lock(&self.shared.dump_requests).push((DumpReason::ControlFile, None));
                continue;
            }
            match line.parse::<Rules>() {
                Ok(later) => {
                    let mut rules = call_site::rules();
                    rules.extend(later);
                    call_site::set_rules(rules);
                }
                Err(error) => self.shared.note(Problem::ControlFile(error.to_string())),
            }
        }
    }

    fn look_for_dumps(&mut self) {
        if self.ring.is_none() {
            return;
        }
        let now = clock::ticks();
        let slow = lock(&self.shared.slow_span).take();
        if let Some(slow) = slow
            && self.pending_dump.is_none()
            && slow.seen_at >= self.no_trigger_before
        {
            let due = now + self.shared.ticks(self.shared.config.after_trigger);
            let took_ns = self.shared.nanos(slow.ticks);
            self.pending_dump =
                Some((due, DumpReason::SlowSpan { name: name_of(slow.name), took_ns }));
        }
        if let Some((due, reason)) = self.pending_dump.take() {
            if now >= due {
                let _ = self.dump(&reason); // noted as a problem
                self.no_trigger_before =
                    clock::ticks() + self.shared.ticks(self.shared.config.hold_off);
            } else {
                self.pending_dump = Some((due, reason));
            }
        }
        let signals = last_words::dumps_asked();
        if signals != self.dump_signals_seen {
            self.dump_signals_seen = signals;
            let _ = self.dump(&DumpReason::Signal); // noted as a problem
        }
        let asked = std::mem::take(&mut *lock(&self.shared.dump_requests));
        for (reason, answer) in asked {
            let result = self.dump(&reason);
            if let Some(answer) = answer {
                let _ = answer.send(result); // whoever asked may have stopped waiting
            }
        }
    }

    /// After the drain has ended: whatever was waited for does not come any more.
    fn write_last_dumps(&mut self) {
        if let Some((due, _)) = &mut self.pending_dump {
            *due = 0;
        }
        self.look_for_dumps();
        if let Some((_, reason)) = self.pending_dump.take() {
            let _ = self.dump(&reason); // noted as a problem
        }
    }

    fn dump(&mut self, reason: &DumpReason) -> io::Result<PathBuf> {
        if self.dumps >= self.shared.config.max_dumps {
            return Err(io::Error::other(
                "this recording has written as many dumps as it may; raise `max_dumps`",
            ));
        }
        self.dumps += 1;
        let result = self.write_dump(reason);
        match &result {
            Ok(path) => lock(&self.shared.dumps).push(path.clone()),
            Err(error) => self.shared.note(Problem::DumpFailed(error.to_string())),
        }
        result
    }

    fn write_dump(&mut self, reason: &DumpReason) -> io::Result<PathBuf> {
        // What is still in the rings and in the open slot belongs into the dump too.
        if !self.shared.stop_sealer.load(Ordering::Acquire) {
            self.shared.close_slot.store(true, Ordering::Release);
            let rendezvous = last_words::rendezvous();
            let ticket = rendezvous.ask();
            self.shared.wake_drain();
            last_words::wait_for(|| rendezvous.is_done(ticket), Duration::from_secs(1));
        }
        self.seal_all()?;
        let (names, _) = self.name_chunks()?;
        let (vitals, open) = lock(&self.shared.at_last_close).clone();
        let open_chunk = match open.as_slice() {
            [] => None,
            open => Some(self.open_spans(open)?.to_vec()),
        };
        let window =
            self.shared.config.keep_last.as_ref().map_or(Duration::ZERO, |keep| keep.window);
        let Some(ring) = &self.ring else {
            return Err(io::Error::other(Error::NotAFlightRecorder));
        };
        Dump {
            file: &self.log.file,
            ring,
            encoder: &mut self.encoder,
            vitals,
            reason,
            metadata: &self.metadata,
            names: &names,
            open_chunk,
            since: clock::ticks().saturating_sub(self.shared.ticks(window)),
            ns_per_tick: 1e9 / self.shared.ticks_per_second.max(1) as f64,
            number: self.dumps,
        }
        .write()
    }

    /// A chunk that says what is open; comes behind the last one that was sealed.
    fn open_spans(&mut self, open: &[(OpenSpan, u32)]) -> io::Result<&[u8]> {
        let content = RawContent { sequence: self.last_sequence + 1, ..RawContent::default() };
        self.encoder.data(&content, open).map_err(io::Error::other)
    }

    /// Prepares the next file and asks the drain to go on there.
    fn rotate(&mut self) {
        let current = &self.log.file.header;
        let file_number = current.file_number + 1;
        let path = numbered(&self.shared.config.path, &file_number.to_string());
        let pair = clock::pair();
        let header = FileHeader {
            file_number,
            created_tick: pair.tick_after,
            created_wall_ns: pair.wall_ns,
            ..*current
        };
        let created = TraceFile::create(&path, header).and_then(|file| {
            let file = Arc::new(file);
            let mut log = Log::new(Arc::clone(&file));
            let begun = self.begin(&mut log).inspect_err(|_| {
                let _ = fs::remove_file(&path);
            });
            let names_in_file = begun.map_err(Error::io(&path, "write"))?;
            Ok((log, NextFile { file, names_in_file }))
        });
        match created {
            Ok((log, next_file)) => {
                self.next_log = Some(log);
                *lock(&self.shared.left_file) = None;
                *lock(&self.shared.next_file) = Some(next_file);
                self.shared.has_next_file.store(true, Ordering::Release);
                self.shared.wake_drain();
            }
            Err(error) => self.shared.note(Problem::CannotRotate(error.to_string())),
        }
    }

    /// Removes a next file that the drain did not come to.
    fn remove_unused_file(&mut self) {
        if let Some(unused) = lock(&self.shared.next_file).take() {
            let _ = fs::remove_file(&unused.file.path);
            self.next_log = None;
        }
    }

    /// The drain has left the old file and all its slots are sealed.
    fn enter_next_file(&mut self) {
        let (Some(next), Some((edition, vitals))) =
            (self.next_log.take(), lock(&self.shared.left_file).take())
        else {
            return;
        };
        let old = std::mem::replace(&mut self.log, next);
        // Only now: until all of it was sealed, the log might have ended anywhere.
        old.file.write_vitals(edition, &vitals);
        self.compact(&old, edition, &vitals);
    }

    fn compact(&self, log: &Log, edition: u64, vitals: &Vitals) {
        if log.end <= COMPACT_UP_TO
            && log.file.header.layout.ring_length == 0
            && log.file.fate(log.end) == Fate::Fine
            && let Err(error) = log.file.compact(log.end, edition, vitals)
        {
            self.shared.note(Problem::NotCompacted(error.to_string()));
        }
    }

    /// After drain and sealer have ended: open spans, the last vitals, and the
    /// file without its work areas.
    pub(crate) fn finish(mut self, remains: &Remains) -> (PathBuf, Vitals) {
        self.check_file();
        self.remove_unused_file();
        let file = Arc::clone(&self.log.file);
        let mut complete = file.full_slots() == 0;
        if !remains.open.is_empty() {
            let chunk = self.open_spans(&remains.open).map(<[u8]>::to_vec);
            // If they cannot be written they stay in the in-flight area.
            match chunk.and_then(|chunk| self.log.append(&chunk, &self.shared)) {
                Ok(()) => file.clear_in_flight(),
                Err(_) => complete = false,
            }
        }
        let mut vitals = remains.vitals;
        vitals.bytes = self.shared.bytes.load(Ordering::Relaxed);
        vitals.overwritten = self.shared.overwritten.load(Ordering::Relaxed);
        if last_words::file_was_truncated() && vitals.state == RecordingState::Finished {
            vitals.state = RecordingState::GivenUp;
        }
        let edition = remains.edition + 1;
        file.write_vitals(edition, &vitals);
        if complete && vitals.state == RecordingState::Finished {
            self.compact(&self.log, edition, &vitals);
        }
        (file.path.clone(), vitals)
    }
}

fn facts(content: &RawContent) -> ChunkFacts {
    let records = content.events.iter().filter(|unit| !unit.kind.is_slot());
    let mut facts = ChunkFacts { events: 0, first_tick: u64::MAX, last_tick: 0 };
    for record in records {
        facts.events += 1;
        facts.first_tick = facts.first_tick.min(record.start);
        facts.last_tick = facts.last_tick.max(record.end());
    }
    facts
}

fn name_of(id: u32) -> String {
    let mut entries = Vec::new();
    names::copy_entries(0, usize::MAX, &mut entries);
    let text = entries.iter().find_map(|entry| match *entry {
        names::Entry::Text { id: known, text } if known == id => Some(text),
        _ => None,
    });
    text.unwrap_or("?").to_owned()
}
