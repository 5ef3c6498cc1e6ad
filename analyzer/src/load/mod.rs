//! Opening traces: one or several, from files or a pipe, with one dictionary
//! over all of them.
//!
//! Files are read with `pread` into buffers of our own: a map of a file that
//! somebody truncates would end the process.

mod account;

use std::{
    collections::{HashMap, HashSet},
    fs::{File, TryLockError},
    io::{self, Read},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use ringscope_format::{
    Batch, ChunkInfo, Columns, Error as FormatError, Mode, RecordingState, Source, Trace,
    TrackKind, looks_like_a_trace,
};

pub use account::{Account, Counts, Scope};
pub(crate) use account::{SOURCE_ACCOUNT, texts_cut_somewhere};

use crate::{
    Error, Result,
    budget::Budget,
    import,
    scan::{CHUNKS_IN_A_PIECE, glance},
};

/// Where the bytes of a trace are.
#[derive(Debug)]
pub enum Bytes {
    /// In a file, read where and when they are needed.
    File(File),
    /// In memory: they came through a pipe, or were converted.
    Memory(Vec<u8>),
}

impl Source for Bytes {
    fn len(&self) -> io::Result<u64> {
        match self {
            Bytes::File(file) => Source::len(file),
            Bytes::Memory(bytes) => Source::len(bytes),
        }
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Bytes::File(file) => file.read_exact_at(buf, offset),
            Bytes::Memory(bytes) => bytes.read_exact_at(buf, offset),
        }
    }
}

/// One trace that has been opened.
pub struct Loaded {
    /// As it was given.
    pub path: PathBuf,
    /// What tells it from the others: its file name, or its path if names repeat.
    pub label: String,
    /// The file.
    pub trace: Trace<Bytes>,
    /// Earliest start of an event, in ticks.
    pub first_tick: u64,
    /// Latest end of an event, in ticks.
    pub last_tick: u64,
    /// How many events the readable chunks hold.
    pub events: u64,
    /// Index into [`Traces::names`] by the name's id in this file; see
    /// [`name_index`](Self::name_index).
    pub name_of: Vec<u32>,
    /// What each track is called, by its id in this file.
    pub tracks: HashMap<u32, TrackLabel>,
    /// Whether it was made just now, of a file of another format.
    pub is_converted: bool,
    /// How many of the events are the recorder's own, once that has been asked.
    readings: OnceLock<u64>,
    /// How many tracks have anything, once that has been asked.
    tracks_in_use: OnceLock<usize>,
}

/// What a track is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackLabel {
    /// Its name, or what stands in for it.
    pub name: String,
    /// Whether it is the recorder's own.
    pub is_recorder: bool,
    /// Whether it is a queue of a device.
    pub is_queue: bool,
}

/// All traces of one invocation.
pub struct Traces {
    /// In the order in which they were given.
    pub list: Vec<Loaded>,
    /// Every distinct name of all of them, in order.
    pub names: Vec<String>,
    /// How many chunks a worker takes at once. No answer depends on it.
    pub chunks_in_a_piece: usize,
    /// What could not be decoded so far.
    unreadable: Mutex<Vec<Unreadable>>,
}

/// A chunk that could not be decoded: its columns are read when they are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Which trace.
    pub trace: usize,
    /// The chunk's sequence number.
    pub sequence: u64,
    /// Where and why.
    pub message: String,
    /// Events that are missing because of it; 0 if it is only long texts, which are cut then.
    pub events: u64,
}

impl Traces {
    /// Opens all of `paths`; `-` is standard input.
    pub fn open(paths: &[PathBuf]) -> Result<Traces> {
        Self::open_within(paths, Budget::default())
    }

    /// The same; what other profilers wrote is converted within the budget.
    pub fn open_within(paths: &[PathBuf], budget: Budget) -> Result<Traces> {
        let mut names = Dictionary::new();
        let load = |path: &PathBuf| load_from(path, &mut names, budget);
        let list = paths.iter().map(load).collect::<Result<_>>()?;
        Ok(Self::of(list, names))
    }

    /// Opens those of `paths` that can be; why the others cannot. None at all is an error.
    pub(crate) fn open_usable(paths: &[PathBuf], budget: Budget) -> Result<(Traces, Vec<Error>)> {
        let mut names = Dictionary::new();
        let (mut list, mut errors) = (Vec::new(), Vec::new());
        for path in paths {
            match load_from(path, &mut names, budget) {
                Ok(loaded) => list.push(loaded),
                Err(error) => errors.push(error),
            }
        }
        if list.is_empty() && !errors.is_empty() {
            return Err(errors.remove(0));
        }
        Ok((Self::of(list, names), errors))
    }

    /// Opens one that may have lost its file header, and tells what is wrong with that.
    pub(crate) fn open_damaged(path: &Path) -> Result<(Traces, Option<String>)> {
        let mut names = Dictionary::new();
        let open = || read(path).map_err(|error| Error::of(path, error));
        let (trace, wrong) = match Trace::open(open()?) {
            Ok(trace) => (trace, None),
            Err(error) => {
                let whole = match &error {
                    FormatError::Header { .. } | FormatError::NotATrace
                        if path != Path::new("-") =>
                    {
                        Trace::open_by_chunks(open()?)
                    }
                    _ => None,
                };
                (whole.ok_or_else(|| Error::of(path, &error))?, Some(error.to_string()))
            }
        };
        let list = vec![load(path, trace, &mut names)];
        Ok((Self::of(list, names), wrong))
    }

    fn of(mut list: Vec<Loaded>, names: Dictionary) -> Traces {
        name_apart(&mut list);
        let (names, sorted) = names.sorted();
        for name in list.iter_mut().flat_map(|loaded| &mut loaded.name_of) {
            *name = sorted[*name as usize];
        }
        Traces { list, names, chunks_in_a_piece: CHUNKS_IN_A_PIECE, unreadable: Mutex::default() }
    }

    /// Notes a chunk that could not be decoded, once however often it is tried.
    pub(crate) fn note_unreadable(
        &self,
        trace: usize,
        chunk: &ChunkInfo,
        error: &ringscope_format::Error,
    ) {
        self.note(trace, chunk, error, u64::from(chunk.events));
    }

    /// Notes long texts of a chunk that could not be decoded, if there are any.
    pub(crate) fn note_cut_texts(&self, trace: usize, chunk: &ChunkInfo, batch: &Batch) {
        if let Some(error) = &batch.long_texts_error {
            self.note(trace, chunk, error, 0);
        }
    }

    fn note(&self, trace: usize, chunk: &ChunkInfo, error: &ringscope_format::Error, events: u64) {
        let mut all = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = chunk.sequence;
        let known = |it: &Unreadable| (it.trace, it.sequence, it.events);
        if !all.iter().any(|it| known(it) == (trace, sequence, events)) {
            all.push(Unreadable { trace, sequence, message: error.to_string(), events });
        }
    }

    /// What could not be decoded so far, in order.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        let mut all = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort_unstable_by_key(|it| (it.trace, it.sequence));
        all
    }

    /// Whether every event that was looked for could be read so far.
    pub fn is_whole(&self) -> bool {
        let is_damaged = |loaded: &Loaded| !loaded.trace.damage().is_empty();
        self.unreadable().iter().all(|it| it.events == 0) && !self.list.iter().any(is_damaged)
    }

    /// Events of a trace that could not be decoded so far.
    pub fn events_unreadable(&self, trace: usize) -> u64 {
        let of_trace = |it: &&Unreadable| it.trace == trace;
        self.unreadable().iter().filter(of_trace).map(|it| it.events).sum()
    }

    /// Events in all of them.
    pub fn events(&self) -> u64 {
        self.list.iter().map(|loaded| loaded.events).sum()
    }
}

impl Loaded {
    /// How long it covers, in nanoseconds.
    pub fn length_ns(&self) -> f64 {
        self.trace.clock().ns(self.last_tick.saturating_sub(self.first_tick))
    }

    /// Nanoseconds from the first event to `tick`; negative before it.
    pub fn since_start_ns(&self, tick: u64) -> f64 {
        tick.wrapping_sub(self.first_tick) as i64 as f64 * self.trace.clock().ns_per_tick()
    }

    /// Whether its recorder still has it open, which it says by a lock; `None` if that
    /// cannot be asked, of a pipe or where there are no locks.
    pub fn is_being_written(&self) -> Option<bool> {
        let Bytes::File(file) = self.trace.source() else { return None };
        match file.try_lock_shared() {
            Ok(()) => file.unlock().is_ok().then_some(false),
            Err(TryLockError::WouldBlock) => Some(true),
            Err(TryLockError::Error(_)) => None,
        }
    }

    /// What became of the events of the time that it is of, if its vitals are readable.
    pub fn account(&self) -> Option<Account> {
        self.trace.vitals().map(|vitals| Account::of(self, vitals))
    }

    /// Whether the track is the recorder's own.
    pub(crate) fn is_recorder(&self, track: u32) -> bool {
        self.tracks.get(&track).is_some_and(|track| track.is_recorder)
    }

    /// How many of the events are the recorder's own readings.
    pub(crate) fn readings(&self) -> u64 {
        *self.readings.get_or_init(|| self.count_readings())
    }

    fn count_readings(&self) -> u64 {
        let header = self.trace.header();
        let counted = self.trace.vitals().filter(|vitals| {
            let is_alone = match header.mode {
                Mode::Full => header.file_number == 0,
                Mode::Converted => true,
                // Their vitals count what is overwritten or not in the dump, too.
                Mode::KeepLast | Mode::Dump => false,
            };
            is_alone && vitals.state == RecordingState::Finished && self.trace.damage().is_empty()
        });
        match counted {
            Some(vitals) => vitals.own.min(self.events),
            None if !self.tracks.values().any(|track| track.is_recorder) => 0,
            None => {
                let take = |sum: &mut u64, batch: &Batch| {
                    *sum += self.readings_of(batch);
                    ControlFlow::Continue(())
                };
                glance(self, Columns::TRACK, || 0, take).iter().sum()
            }
        }
    }

    /// The same of one chunk; 0 if that cannot be read.
    pub(crate) fn readings_in(&self, chunk: &ChunkInfo) -> u64 {
        if !self.tracks.values().any(|track| track.is_recorder) {
            return 0;
        }
        self.readings_of(&self.trace.decode(chunk, Columns::TRACK).unwrap_or_default())
    }

    fn readings_of(&self, batch: &Batch) -> u64 {
        batch.track.iter().filter(|&&track| self.is_recorder(track)).count() as u64
    }

    /// How many tracks have events, or have lost or skipped any: those that `threads` lists.
    pub(crate) fn tracks_in_use(&self) -> usize {
        *self.tracks_in_use.get_or_init(|| self.count_tracks_in_use())
    }

    fn count_tracks_in_use(&self) -> usize {
        let mut found: HashSet<u32> = self.losses().iter().map(|loss| loss.track).collect();
        found.remove(&0);
        let has_all = |found: &HashSet<u32>| self.tracks.keys().all(|it| found.contains(it));
        let take = |found: &mut HashSet<u32>, batch: &Batch| {
            let runs = batch.track.chunk_by(|a, b| a == b);
            found.extend(runs.filter_map(|run| run.first()));
            // As a rule the first chunks have them all.
            if has_all(found) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if !has_all(&found) {
            let by_worker = glance(self, Columns::TRACK, || found.clone(), take);
            found.extend(by_worker.into_iter().flatten());
        }
        found.len()
    }

    /// What the track is called.
    pub fn track_name(&self, track: u32) -> String {
        self.tracks.get(&track).map_or_else(|| format!("track {track}"), |it| it.name.clone())
    }

    /// How the recording or the file ended that this one was made of, if that was too early: how
    /// much is missing then is not known.
    pub fn source_state(&self) -> Option<&str> {
        self.trace.metadata().get(SOURCE_STATE).map(String::as_str)
    }

    /// What was done to other traces to make this one, in order.
    pub(crate) fn edits(&self) -> impl Iterator<Item = &str> {
        self.trace.metadata().get(EDIT).into_iter().flat_map(|edits| edits.split(", "))
    }

    /// Index into [`Traces::names`] of a name's id in this file.
    #[inline]
    pub fn name_index(&self, id: u32) -> u32 {
        self.name_of.get(id as usize).copied().unwrap_or(UNKNOWN)
    }
}

/// Gives each distinct text one index.
struct Dictionary {
    texts: Vec<String>,
    index: HashMap<String, u32>,
}

impl Dictionary {
    fn new() -> Self {
        let mut names = Self { texts: Vec::new(), index: HashMap::new() };
        names.intern(UNKNOWN_NAME);
        names
    }

    fn intern(&mut self, text: &str) -> u32 {
        if let Some(&at) = self.index.get(text) {
            return at;
        }
        let at = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.index.insert(text.to_owned(), at);
        at
    }

    /// The texts in order, behind the one that stands in for what is unknown, and
    /// where each went. Reports put what weighs the same in the order of names: which
    /// name was interned first is an accident of the recording.
    fn sorted(self) -> (Vec<String>, Vec<u32>) {
        let mut all: Vec<(String, usize)> = self.texts.into_iter().zip(0..).collect();
        all[1..].sort_unstable();
        let mut new_index = vec![UNKNOWN; all.len()];
        for (new, (_, old)) in all.iter().enumerate() {
            new_index[*old] = new as u32;
        }
        (all.into_iter().map(|(text, _)| text).collect(), new_index)
    }
}

/// The key in a trace's metadata of how its source ended, if that was too early.
pub(crate) const SOURCE_STATE: &str = "source.state";
/// The key of what was done to its source.
pub(crate) const EDIT: &str = "edit";

/// Stands in for names that were lost with a damaged part of the file.
const UNKNOWN_NAME: &str = "(unknown name)";
/// Its index in every dictionary.
const UNKNOWN: u32 = 0;
/// Ids past this are taken for damage: the recorder numbers names from 1 on.
const MOST_NAMES: u32 = 1 << 24;

/// A trace, or one made of what another profiler wrote.
fn load_from(path: &Path, names: &mut Dictionary, budget: Budget) -> Result<Loaded> {
    let bytes = read(path).map_err(|error| Error::of(path, error))?;
    let (bytes, is_converted) = import::converted(path, bytes, budget)?;
    let trace = Trace::open(bytes).map_err(|error| Error::of(path, error))?;
    Ok(Loaded { is_converted, ..load(path, trace, names) })
}

fn load(path: &Path, trace: Trace<Bytes>, names: &mut Dictionary) -> Loaded {
    let known = || trace.names().iter().filter(|(id, _)| *id < MOST_NAMES);
    let mut name_of = vec![UNKNOWN; known().map(|(id, _)| id as usize + 1).max().unwrap_or(0)];
    for (id, text) in known() {
        name_of[id as usize] = names.intern(text);
    }
    let with_events = || trace.chunks().iter().filter(|chunk| chunk.events > 0);
    let first_tick = with_events().map(|chunk| chunk.first_tick).min().unwrap_or(0);
    let last_tick = with_events().map(|chunk| chunk.last_tick).max().unwrap_or(0);
    let events = trace.chunks().iter().map(|chunk| u64::from(chunk.events)).sum();
    let tracks = trace.tracks().iter().map(|track| {
        let name = match (track.name.as_str(), track.os_id) {
            ("", 0) => format!("track {}", track.id),
            ("", os_id) => format!("thread {os_id}"),
            (name, _) => name.to_owned(),
        };
        let label = TrackLabel {
            name,
            is_recorder: track.kind == TrackKind::Recorder,
            is_queue: track.kind == TrackKind::GpuQueue,
        };
        (track.id, label)
    });
    let tracks = tracks.collect();
    let mut loaded = Loaded {
        path: path.to_owned(),
        label: String::new(),
        trace,
        first_tick,
        last_tick,
        events,
        name_of,
        tracks,
        is_converted: false,
        readings: OnceLock::new(),
        tracks_in_use: OnceLock::new(),
    };
    loaded.tell_tracks_apart();
    loaded
}

impl Loaded {
    /// Threads of the same name get their number behind it.
    fn tell_tracks_apart(&mut self) {
        let mut count: HashMap<String, u32> = HashMap::new();
        for label in self.tracks.values() {
            *count.entry(label.name.clone()).or_default() += 1;
        }
        for (id, label) in &mut self.tracks {
            if count[&label.name] > 1 {
                label.name = format!("{} #{id}", label.name);
            }
        }
    }
}

/// A report that takes the place of what it is about, or of any trace, would be the last one.
pub(crate) fn refuse_to_replace(path: &Path, sources: &[PathBuf]) -> Result<()> {
    if sources.iter().any(|source| is_same_file(source, path)) {
        return Err(Error::of(path, "is the source itself; give another name"));
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8).read_to_end(&mut head));
    if read.is_ok() && looks_like_a_trace(&head) {
        return Err(Error::of(path, "is a trace, which a report would replace; give another name"));
    }
    Ok(())
}

/// Whether two paths lead to the same file, which is there.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// The bytes of a file; `-` is standard input.
pub(crate) fn read(path: &Path) -> io::Result<Bytes> {
    if path == Path::new("-") {
        return in_memory(&mut io::stdin().lock());
    }
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::other("is a directory; give a trace file"));
    }
    if metadata.is_file() { Ok(Bytes::File(file)) } else { in_memory(&mut file) }
}

fn in_memory(from: &mut impl Read) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    Ok(Bytes::Memory(bytes))
}

/// Labels by file name; by path where two have the same, and numbered where
/// even that repeats.
fn name_apart(list: &mut [Loaded]) {
    let file_name = |loaded: &Loaded| {
        loaded.path.file_name().map_or_else(
            || loaded.path.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        )
    };
    let mut labels: Vec<String> = list.iter().map(file_name).collect();
    if has_repeats(&labels) {
        labels = list.iter().map(|loaded| loaded.path.display().to_string()).collect();
    }
    if has_repeats(&labels) {
        for (number, label) in labels.iter_mut().enumerate() {
            *label = format!("{label} ({})", number + 1);
        }
    }
    for (loaded, label) in list.iter_mut().zip(labels) {
        loaded.label = label;
    }
}

fn has_repeats(labels: &[String]) -> bool {
    let distinct: std::collections::HashSet<&String> = labels.iter().collect();
    distinct.len() < labels.len()
}
