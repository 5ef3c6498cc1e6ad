//! The thread that writes chunks, and compresses full slots where the drain does not come to it.
//!
//! It also does everything else that takes time or may fail: readings, rotation,
//! dumps, the control file. What it cannot write it keeps in its slot and tries
//! again; meanwhile the rings fill up and what does not fit is counted.

mod files;
mod requests;
#[cfg(test)]
mod tests;

use std::{
    cell::Cell,
    io,
    path::PathBuf,
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use ringscope_format::{ChunkEncoder, FileHeader, Layout, Mode, RawContent, Vitals};

use crate::{
    cold::{
        drain::{ASYNC_ENTRIES, encode_names},
        flight_recorder::{ChunkFacts, RingArea},
        readings, scheduling,
        sealing::{self, Sealed, Sealing},
        shared::{DumpReason, Shared, lock},
        trace_file::{Fate, TraceFile},
    },
    config::Config,
    error::Error,
    hot::{
        call_site, clock, names,
        ring_pool::{self, MAX_LANES},
    },
    last_words,
    summary::Problem,
};

/// Units in one raw slot, which becomes one chunk: 512 KiB. Larger ones compress
/// no better and leave the second-level cache.
const UNITS_PER_SLOT: u32 = 16_384;
/// An event and its long texts go into one.
const _: () = assert!(crate::long_texts::MOST_OF_AN_EVENT <= UNITS_PER_SLOT as usize * 32 / 2);
/// Raw slots in the file: what the sealer may fall behind by. The drain takes the
/// lowest that is free, so those that are not needed are never touched.
const RAW_SLOTS: u32 = 16;
/// How often it looks for a control file, checks what became of the file and trims
/// spare rings, when nothing else wakes it: as often as readings are taken, since
/// waking costs more than looking.
const LOOK_ROUND: Duration = Duration::from_secs(1);
/// The peak of memory is read with the first of so many readings, and with the last.
const READINGS_A_PEAK: u32 = 10;
/// Pause before writing again what could not be written.
const TRY_AGAIN: Duration = Duration::from_millis(50);
/// Changes of rules that a flight recorder keeps in its log until its end.
const MOST_RULES: u32 = 1_000;
/// Names in one chunk; even the longest keep below the format's limits.
const NAMES_AT_ONCE: usize = 16_384;

/// All that the thread keeps from one turn to the next. Nobody else writes to the log of a file.
pub(crate) struct Sealer {
    shared: Arc<Shared>,
    /// The slot that is being sealed, and which the drain goes on with as well.
    sealing: Arc<Mutex<Sealing>>,
    /// The file that chunks go to.
    log: Log,
    /// The next file of a rotation, until the drain has left the one before.
    next_log: Option<Log>,
    /// For all chunks but those of slots.
    encoder: ChunkEncoder,
    ring: Option<RingArea>,
    names_sequence: u64,
    /// The slot whose names were written last, by its sequence number.
    names_written_of: u64,
    metadata_sequence: u64,
    /// How often the rules were changed, as far as the log has it.
    changes_in_file: u32,
    /// Those that are not in it until the end, and only if they are the last.
    last_rules: Option<String>,
    /// What every file begins with.
    metadata: Vec<(String, String)>,
    dumps: u32,
    /// The number that the last of them has in its name.
    last_dump: u64,
    dump_signals_seen: u32,
    /// What a control file had that did not end with the end of a line, or nothing yet.
    control_seen: Option<Vec<u8>>,
    /// When the dump for a slow span is due, and why.
    pending_dump: Option<(Instant, DumpReason)>,
    no_trigger_before: Option<Instant>,
    next_reading: Instant,
    /// How many were taken.
    readings_taken: u32,
    next_housekeeping: Instant,
}

/// What is written, or made writable, between two pauses.
const TURN: Duration = Duration::from_micros(10);

/// Whether there is time for pauses: not if too many slots of the file wait behind the one that is
/// being written, or somebody for the end.
fn has_time(shared: &Shared, file: &TraceFile) -> bool {
    let hurried =
        shared.hurry.load(Ordering::Relaxed) || shared.stop_sealer.load(Ordering::Relaxed);
    !hurried && file.full_slots() <= sealing::HURRY
}

/// Lets others run between two pieces of a chunk when those before have taken a [`TURN`].
fn pauses<'a>(shared: &'a Shared, file: &'a TraceFile) -> impl Fn() + 'a {
    let (turn, begin) = (shared.ticks(TURN), Cell::new(clock::ticks()));
    move || {
        let is_over = clock::ticks().saturating_sub(begin.get()) >= turn;
        if is_over && has_time(shared, file) {
            scheduling::let_others_run();
            begin.set(clock::ticks());
        }
    }
}

/// A file and where its next chunk goes.
#[derive(Debug)]
struct Log {
    file: Arc<TraceFile>,
    end: u64,
    /// The rules that it says, and of which version of all of them.
    rules: String,
    rules_version: u32,
}

impl Log {
    fn new(file: Arc<TraceFile>) -> Self {
        Self {
            end: file.header.layout.log_offset,
            file,
            rules: String::new(),
            rules_version: call_site::rules_version(),
        }
    }

    /// Bytes of chunks: about what is left of the file when it is finished.
    fn length(&self) -> u64 {
        self.end - self.file.header.layout.log_offset
    }

    fn append(&mut self, chunk: &[u8], shared: &Shared) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        self.append_while(chunk, shared, &file)
    }

    /// The same, while it is slots of that file that may wait.
    fn append_while(
        &mut self,
        chunk: &[u8],
        shared: &Shared,
        filled: &TraceFile,
    ) -> io::Result<()> {
        self.file
            .write_chunk(chunk, self.end, pauses(shared, filled))
            .inspect_err(|_| self.file.take_back(self.end))?;
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
        let sealing = Sealing::new(Arc::clone(&file)).map_err(Error::Format)?;
        let mut sealer = Self {
            sealing: Arc::new(Mutex::new(sealing)),
            encoder: ChunkEncoder::new(file.header.recording).map_err(Error::Format)?,
            ring: (layout.ring_length > 0).then(|| RingArea::new(&layout)),
            names_sequence: 0,
            names_written_of: 0,
            metadata_sequence: 0,
            changes_in_file: 0,
            last_rules: None,
            metadata,
            next_log: None,
            dumps: 0,
            last_dump: 0,
            dump_signals_seen: last_words::dumps_asked(),
            control_seen: None,
            pending_dump: None,
            no_trigger_before: None,
            next_reading: Instant::now(),
            readings_taken: 0,
            next_housekeeping: Instant::now() + LOOK_ROUND,
            shared,
            log: Log::new(Arc::clone(&file)),
        };
        let mut log = Log::new(Arc::clone(&file));
        let names = sealer.begin(&mut log).map_err(Error::io(&file.path, "write"))?;
        sealer.log = log;
        Ok((sealer, names))
    }

    /// For the drain.
    pub(crate) fn sealing(&self) -> Arc<Mutex<Sealing>> {
        Arc::clone(&self.sealing)
    }

    /// Runs until asked to stop, then seals what is left and ends the file. Returns where
    /// it is and its last vitals, unless the drain has left nothing to end it with.
    ///
    /// All on this thread, where a write past the file-size limit is an error code.
    pub(crate) fn run(mut self) -> Option<(PathBuf, Vitals)> {
        scheduling::take_short_turns(Duration::from_micros(100));
        while !self.shared.stop_sealer.load(Ordering::Acquire) {
            let sealed = if self.shared.hurry.swap(false, Ordering::AcqRel) {
                self.seal_all()
            } else {
                self.write_sealed()
            };
            self.look_round();
            let failed = sealed.is_err() || self.shared.cannot_write.load(Ordering::Acquire);
            let wait = match failed {
                false => LOOK_ROUND.min(self.until_next_reading()).min(self.until_next_dump()),
                true => TRY_AGAIN,
            };
            thread::park_timeout(wait);
        }
        // The drain has ended: these are the last.
        let _ = self.seal_all();
        self.write_last_dumps();
        let remains = lock(&self.shared.remains).take()?;
        Some(self.finish(&remains))
    }

    fn until_next_reading(&self) -> Duration {
        match self.shared.config.readings {
            Some(_) => self.next_reading.saturating_duration_since(Instant::now()),
            None => LOOK_ROUND,
        }
    }

    fn until_next_dump(&self) -> Duration {
        match &self.pending_dump {
            Some((due, _)) => due.saturating_duration_since(Instant::now()),
            None => LOOK_ROUND,
        }
    }

    /// Seals every full slot, in order.
    fn seal_all(&mut self) -> io::Result<()> {
        loop {
            // Asked before looking: what the drain hands over as it leaves is found below.
            let left = self.next_log.is_some() && lock(&self.shared.left_file).is_some();
            let sealing = Arc::clone(&self.sealing);
            let mut sealing = sealing::lock(&sealing);
            let ready = sealing.finish().map(|sealed| sealed.is_some());
            match ready.inspect_err(|error| self.note_failure(error))? {
                true => self.write(&mut sealing)?,
                false if left => self.enter_next_file(&mut sealing),
                false => return Ok(()),
            }
            drop(sealing);
            self.rotate_if_due();
        }
    }

    /// Writes the slot that the drain has sealed, if it has one ready.
    fn write_sealed(&mut self) -> io::Result<()> {
        let sealing = Arc::clone(&self.sealing);
        if sealing::lock(&sealing).sealed().is_none() {
            return Ok(());
        }
        let hot_core = self.shared.hot_core();
        if hot_core.is_some() && hot_core == scheduling::core() {
            scheduling::leave_core();
        } else if has_time(&self.shared, &self.log.file) {
            // Whoever was pushed off the core by the drain, whose tick has just ended.
            scheduling::let_others_run();
        }
        self.write(&mut sealing::lock(&sealing))?;
        self.rotate_if_due();
        Ok(())
    }

    /// One sealed slot becomes one chunk of the file; SPEC 7.1 has the steps and what a death
    /// after each leaves.
    fn write(&mut self, sealing: &mut Sealing) -> io::Result<()> {
        self.note(self.log.file.shortened(self.log.end));
        let Some(sealed) = sealing.sealed() else { return Ok(()) };
        crate::crash_point("slot-sealed");
        let stored = if last_words::file_was_truncated() {
            self.shared.note(Problem::FileTruncated);
            Err(io::ErrorKind::UnexpectedEof.into())
        } else {
            if sealed.content.units_unreadable > 0 {
                self.shared.note(Problem::SlotDamaged(sealed.content.units_unreadable));
            }
            self.store(&sealing.file, &sealed)
        };
        stored.inspect_err(|error| self.note_failure(error))?;
        self.shared.cannot_write.store(false, Ordering::Release);
        crate::crash_point("header-written");
        let file = Arc::clone(&sealing.file);
        sealing.written(pauses(&self.shared, &file));
        crate::crash_point("slot-free");
        Ok(())
    }

    /// Chunks cannot be written, as the drain and the summary must know. It is tried again.
    fn note_failure(&self, error: &io::Error) {
        self.shared.cannot_write.store(true, Ordering::Release);
        self.shared.hurry.store(true, Ordering::Release);
        self.shared.note(Problem::CannotWrite(error.to_string()));
    }

    fn store(&mut self, file: &TraceFile, sealed: &Sealed<'_>) -> io::Result<()> {
        let Sealed { chunk, content } = *sealed;
        // Not again when only what follows has to be written again.
        if !content.names.is_empty() && self.names_written_of != content.sequence {
            self.names_sequence += 1;
            let names = self
                .encoder
                .names(self.names_sequence, &content.names)
                .map_err(io::Error::other)?;
            self.log.append(names, &self.shared)?;
            self.names_written_of = content.sequence;
            crate::crash_point("names-written");
        }
        match &mut self.ring {
            None => self.log.append(chunk, &self.shared),
            Some(ring) => {
                let pause = pauses(&self.shared, file);
                ring.write(file, chunk, facts(content), &self.shared.overwritten, pause)?;
                self.shared.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn rotate_if_due(&mut self) {
        let most = self.shared.config.rotate_bytes;
        if self.next_log.is_none() && most.is_some_and(|most| self.log.length() >= most) {
            self.rotate();
        }
    }

    /// Metadata and all names so far. Returns how many entries those are.
    fn begin(&mut self, log: &mut Log) -> io::Result<u32> {
        let mut pairs: Vec<(&str, &str)> =
            self.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        log.rules = call_site::rules().to_string();
        if !log.rules.is_empty() {
            pairs.push(("rules", &log.rules));
        }
        self.metadata_sequence += 1;
        let chunk = self.encoder.metadata(self.metadata_sequence, &pairs);
        let filled = &self.log.file;
        log.append_while(chunk.map_err(io::Error::other)?, &self.shared, filled)?;
        let (chunks, count) = self.name_chunks()?;
        let filled = &self.log.file;
        chunks.iter().try_for_each(|chunk| log.append_while(chunk, &self.shared, filled))?;
        Ok(count)
    }

    /// Rules that were changed while recording: the last ones count. A flight recorder, whose file
    /// must not grow, keeps only so many until its end; its dumps say them anyway.
    fn write_new_rules(&mut self) {
        let version = call_site::rules_version();
        // What has no event under them any more need not say them; the next file does.
        let is_over = || lock(&self.shared.left_file).is_some();
        if self.log.rules_version == version || is_over() {
            return;
        }
        let rules = call_site::rules().to_string();
        // What waited for the end was not the last: who finishes the recording is told what is missing.
        if self.last_rules.take_if(|last| *last != rules).is_some() {
            self.shared.note(Problem::RulesLeftOut);
        }
        if rules != self.log.rules {
            let is_at_end = self.shared.stop_sealer.load(Ordering::Relaxed);
            if self.ring.is_some() && self.changes_in_file >= MOST_RULES && !is_at_end {
                // Whoever kills it finds older ones.
                self.last_rules = Some(rules);
                return;
            }
            self.metadata_sequence += 1;
            self.changes_in_file += 1;
            if let Ok(chunk) = self.encoder.metadata(self.metadata_sequence, &[("rules", &rules)]) {
                // On a full disk the next file of the recording will say it.
                let _ = self.log.append(chunk, &self.shared);
            }
            self.log.rules = rules;
        }
        self.log.rules_version = version;
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
        self.look_for_readings(now, |shared, with_peak, pause| {
            readings::take(shared, with_peak, pause)
        });
        self.write_new_rules();
        if now >= self.next_housekeeping {
            self.next_housekeeping = now + LOOK_ROUND;
            scheduling::let_others_run();
            ring_pool::trim();
            self.check_file();
            scheduling::let_others_run();
            if self.shared.config.control_file {
                self.read_control_file();
            }
        }
        self.look_for_dumps();
    }

    /// Readings that are due, or the last ones, which somebody waits for.
    fn look_for_readings(&mut self, now: Instant, take: impl FnOnce(&Shared, bool, &dyn Fn())) {
        let last = self.shared.last_readings.load(Ordering::Acquire);
        if let Some(every) = self.shared.config.readings
            && self.shared.is_on.load(Ordering::Acquire)
            && (now >= self.next_reading || last)
        {
            // Peaks keep until they are read, and reading them takes longest.
            let with_peak = last || self.readings_taken.is_multiple_of(READINGS_A_PEAK);
            // For the last ones somebody waits, though not for long.
            let pause = || {
                if !last {
                    scheduling::let_others_run()
                }
            };
            take(&self.shared, with_peak, &pause);
            self.readings_taken += 1;
            self.next_reading = now + every;
        }
        // Who asked since then waits for readings that are later than that.
        if last {
            self.shared.last_readings.store(false, Ordering::Release);
        }
    }

    fn check_file(&self) {
        self.note(self.log.file.fate(self.log.end));
    }

    fn note(&self, fate: Fate) {
        match fate {
            Fate::Fine => {}
            Fate::Removed => self.shared.note(Problem::FileRemoved),
            Fate::Shortened => self.shared.note(Problem::FileTruncated),
            Fate::Truncated => {
                self.shared.note(Problem::FileTruncated);
                last_words::note_truncation();
            }
        }
    }
}

fn facts(content: &RawContent) -> ChunkFacts {
    let records = content.events.iter().filter(|unit| !unit.kind.is_slot());
    let mut facts = ChunkFacts { events: 0, first_end: u64::MAX, last_end: 0 };
    for record in records {
        facts.events += 1;
        facts.first_end = facts.first_end.min(record.end());
        facts.last_end = facts.last_end.max(record.end());
    }
    facts
}
