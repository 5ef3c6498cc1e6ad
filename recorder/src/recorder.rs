//! Starting, steering and finishing a recording. One runs at a time in a process.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::Ordering, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use ringscope_format::{FileHeader, Layout, Mode, RecordingState, Vitals};

#[cfg(feature = "exporters")]
use crate::Problem;
#[cfg(feature = "tracing")]
use crate::tracing::level;
use crate::{
    Builder, Error, Level, Rules, Summary,
    cold::{
        drain::{Drain, Remains},
        host,
        sealer::{self, Sealer},
        shared::{DumpReason, Shared, lock},
    },
    config::Config,
    hot::{call_site, clock, metric, ring_pool},
    last_words, settings,
};

/// How long `flush` waits for a writer that is behind.
const FLUSH_AT_MOST: Duration = Duration::from_secs(10);
/// How long a panicking thread waits for its last words to be written.
const PANIC_AT_MOST: Duration = Duration::from_secs(2);
/// How long whoever waits for events to be in the file waits for room in it, if there is none. The
/// sealer tries some times meanwhile.
const ROOM_AT_MOST: Duration = Duration::from_millis(200);

/// How long finishing waits for a sealer that is busy writing.
const LAST_READINGS: Duration = Duration::from_millis(20);

/// The recording that is running, if any.
static SESSION: Mutex<Option<Session>> = Mutex::new(None);

struct Session {
    shared: Arc<Shared>,
    drain: JoinHandle<Remains>,
    /// The file it left and its last vitals.
    sealer: JoinHandle<Option<(PathBuf, Vitals)>>,
}

/// A running recording. Dropping it finishes it.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("ringscope-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir)?;
/// # let path = dir.join("run.trace");
/// let recorder = ringscope::Recorder::builder().path(&path).start()?;
/// for step in 0..100 {
///     let _span = ringscope::span!("step", number = step);
/// }
/// let summary = recorder.finish()?;
/// assert_eq!((summary.stored, summary.lost), (100, 0));
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a recording ends when its recorder is dropped"]
#[derive(Debug)]
pub struct Recorder {
    pub(crate) shared: Arc<Shared>,
}

impl Recorder {
    /// Sets up a recording; see [`Builder`] for what can be set.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn start(mut config: Config) -> Result<Self, Error> {
        if config.level == Some(Level::Off) {
            // A recorder all the same: whoever switches it off must not have to change the program.
            let ticks_per_second = clock::nominal_hz(clock::counter());
            return Ok(Self { shared: Arc::new(Shared::new(config, ticks_per_second)) });
        }
        if call_site::is_forked() {
            return Err(Error::ForkedChild);
        }
        config.usual_level = settings::level_from_env().unwrap_or(Level::Trace);
        let mut session = lock(&SESSION);
        if let Some(running) = session.as_ref() {
            return Err(Error::AlreadyRecording { path: running.shared.config.path.clone() });
        }
        let counter = clock::counter();
        let ticks_per_second = clock::nominal_hz(counter);
        clock::set_rate(ticks_per_second);
        metric::set_gpu_latency(config.gpu_latency);
        ring_pool::configure(config.ring_records, config.ring_budget);
        last_words::arm(config.on_fatal_signal, config.dump_signal);
        if config.on_panic {
            last_words::hook_panics();
        }
        let created = clock::pair();
        let header = FileHeader {
            recording: random_id(),
            file_number: 0,
            mode: Mode::Full,
            pid: std::process::id(),
            created_wall_ns: created.wall_ns,
            created_tick: created.tick_after,
            counter,
            nominal_hz: ticks_per_second,
            layout: Layout::finished(),
        };
        let rules = config.rules.clone();
        call_site::set_rules(rules.clone()); // the file begins with them
        let shared = Arc::new(Shared::new(config, ticks_per_second));
        let started = start_threads(&shared, header);
        let (drain, sealer) = started.inspect_err(|_| {
            last_words::disarm();
            ring_pool::end();
        })?;
        #[cfg(feature = "tracing")]
        let has_changed = level::set(shared.config.level());
        call_site::switch_on(ticks_per_second, rules);
        shared.is_on.store(true, Ordering::Release);
        shared.wake_sealer(); // for its first readings
        *session = Some(Session { shared: Arc::clone(&shared), drain, sealer });
        // Dropping the recorder takes the lock, and so does whoever asks while a file of an
        // exporter is slow to open.
        drop(session);
        #[cfg(feature = "tracing")]
        if has_changed {
            level::ask_again();
        }
        let recorder = Self { shared };
        #[cfg(feature = "exporters")]
        recorder.attach_configured();
        Ok(recorder)
    }

    /// Ends the recording: everything that was recorded before this call is in
    /// the file, spans that are still open are listed as such, and the counts are exact.
    ///
    /// # Errors
    ///
    /// If the recording had to be given up on the way. Trouble that it survived,
    /// such as a disk that was full for a while, is in [`Summary::problems`].
    pub fn finish(self) -> Result<Summary, Error> {
        if self.is_off() {
            return Ok(self.finish_nothing());
        }
        let result = finish_if(|running| Arc::ptr_eq(running, &self.shared));
        result.unwrap_or_else(|| Err(Error::GaveUp { path: self.shared.config.path.clone() }))
    }

    /// Waits until everything recorded so far is in the file: where another
    /// process can read it and a kill cannot reach it. Returns whether it is.
    ///
    /// It is not where the disk is full and nothing more finds room, or where it takes longer than
    /// ten seconds.
    pub fn flush(&self) -> bool {
        self.is_off() || flush(&self.shared, FLUSH_AT_MOST)
    }

    /// Replaces the rules; takes effect at once, on all threads. Of a flight recorder the file
    /// keeps the first thousand changes and the last one.
    pub fn set_rules(&self, rules: Rules) {
        if last_words::is_recording_process() && !self.is_off() {
            call_site::set_rules(rules);
        }
    }

    /// Flight recorder: writes what it holds to a file of its own, beside the
    /// trace, and returns its path. It replaces no file that is there.
    ///
    /// # Errors
    ///
    /// If this is not a flight recorder, or the dump cannot be written.
    pub fn dump(&self) -> Result<PathBuf, Error> {
        if self.is_off() {
            return Err(Error::NotAFlightRecorder);
        }
        dump(&self.shared, DumpReason::Asked, Duration::from_secs(60))
    }

    /// Where the trace is written.
    pub fn path(&self) -> &Path {
        &self.shared.config.path
    }

    /// How much of what `tracing` tells is to be recorded, as the builder says; if it does not, the
    /// environment or else `ringscope.toml` when the recording was started; everything if nobody does.
    /// A layer, and a subscriber without a filter, go by it as long as the recording runs.
    pub fn level(&self) -> Level {
        self.shared.config.level()
    }

    /// Whether nothing is behind it; another recorder may be running.
    fn is_off(&self) -> bool {
        self.shared.config.level == Some(Level::Off)
    }

    /// Exporters that were attached are waiting for their end.
    fn finish_nothing(&self) -> Summary {
        #[cfg(feature = "exporters")]
        let problems = self.shared.handlers.end().into_iter().map(Problem::Exporter).collect();
        #[cfg(not(feature = "exporters"))]
        let problems = Vec::new();
        Summary { path: self.shared.config.path.clone(), problems, ..Summary::default() }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.is_off() {
            self.finish_nothing();
            return;
        }
        let _ = finish_if(|running| Arc::ptr_eq(running, &self.shared));
    }
}

fn random_id() -> [u8; 16] {
    let mut id = [0; 16];
    if getrandom::fill(&mut id).is_err() {
        // An id that is merely unlikely to repeat still keeps recordings apart.
        let seed = clock::pair();
        id[..8].copy_from_slice(&seed.tick_after.to_le_bytes());
        id[8..].copy_from_slice(&seed.wall_ns.to_le_bytes());
    }
    id[6] = id[6] & 0x0F | 0x40; // version 4
    id[8] = id[8] & 0x3F | 0x80; // the usual variant
    id
}

/// On the drain's thread: if that panics, nobody empties the rings any more.
struct LeavesRings(Arc<Shared>);

impl Drop for LeavesRings {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.drain_is_gone.store(true, Ordering::Release);
            call_site::switch_off_now();
        }
    }
}

/// On the sealer's thread: if that panics, nobody writes any more, and nobody must wait for it.
struct GivesUp(Arc<Shared>);

impl Drop for GivesUp {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.cannot_write.store(true, Ordering::Release);
            self.0.sealer_is_gone.store(true, Ordering::Release);
            // Whoever waits for a dump hears that none will come.
            lock(&self.0.dump_requests).clear();
        }
    }
}

type Threads = (JoinHandle<Remains>, JoinHandle<Option<(PathBuf, Vitals)>>);

fn start_threads(shared: &Arc<Shared>, header: FileHeader) -> Result<Threads, Error> {
    // The file is created on the sealer's thread, where a write past the
    // file-size limit is an error and not a signal.
    let (tell, ready) = mpsc::channel();
    let (for_sealer, for_guard) = (Arc::clone(shared), Arc::clone(shared));
    let held = last_words::hold_signals();
    let sealer = thread::Builder::new()
        .name("ringscope-seal".into())
        .spawn(move || {
            last_words::this_is_own_thread(1);
            let mut metadata = host::metadata(&for_sealer.config.metadata);
            if let Some(keep) = &for_sealer.config.keep_last {
                let window = keep.window.as_nanos().to_string();
                metadata.push(("keep_last.window_ns".to_owned(), window));
            }
            let made = sealer::first_file(&for_sealer.config, header).and_then(|file| {
                let sealer = Sealer::new(for_sealer, Arc::clone(&file), metadata);
                sealer.map(|(sealer, names)| (sealer, file, names))
            });
            match made {
                Ok((sealer, file, names)) => {
                    // Before any thread of the program can take the last ring.
                    ring_pool::attach_as(true);
                    let _ = tell.send(Ok((file, names, sealer.sealing())));
                    let _gives_up = GivesUp(for_guard);
                    sealer.run()
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
                    None
                }
            }
        })
        .map_err(|source| Error::Spawn { source })?;
    drop(held);
    let gave_up = || Error::GaveUp { path: shared.config.path.clone() };
    let (file, names_in_file, sealing) = ready.recv().map_err(|_| gave_up())??;
    let _ = shared.sealer_thread.set(sealer.thread().clone());
    let drain = Drain::new(Arc::clone(shared), sealing, Arc::clone(&file), names_in_file);
    let for_guard = Arc::clone(shared);
    let held = last_words::hold_signals();
    let drain = thread::Builder::new().name("ringscope-drain".into()).spawn(move || {
        let _leaves_rings = LeavesRings(for_guard);
        drain.run()
    });
    drop(held);
    // Its path comes last: a start that fails leaves what is there alone.
    let started = match drain {
        Err(source) => Err(Error::Spawn { source }),
        Ok(drain) => match file.put_in_place() {
            Ok(()) => Ok(drain),
            Err(error) => {
                shared.stop_drain.store(true, Ordering::Release);
                drain.thread().unpark();
                let _ = drain.join();
                Err(error)
            }
        },
    };
    drop(file);
    let drain = match started {
        Ok(drain) => drain,
        Err(error) => {
            shared.stop_sealer.store(true, Ordering::Release);
            shared.wake_sealer();
            let _ = sealer.join(); // with it goes what was made
            return Err(error);
        }
    };
    ring_pool::wake_for_new_threads(Some(drain.thread().clone()));
    let _ = shared.drain_thread.set(drain.thread().clone());
    Ok((drain, sealer))
}

/// Finishes the running recording if it is the one asked for.
fn finish_if(is_it: impl FnOnce(&Arc<Shared>) -> bool) -> Option<Result<Summary, Error>> {
    // In a forked child there is nothing to finish, and the lock may be held by
    // a thread that does not exist.
    if !last_words::is_recording_process() {
        return None;
    }
    let mut session = lock(&SESSION);
    let ended = session.take_if(|running| is_it(&running.shared))?;
    #[cfg(feature = "tracing")]
    let usual = ended.shared.config.usual_level;
    let result = finish(ended);
    #[cfg(feature = "tracing")]
    if level::set(usual) {
        drop(session);
        level::ask_again();
    }
    Some(result)
}

fn finish(session: Session) -> Result<Summary, Error> {
    let Session { shared, drain, sealer } = session;
    // The sealer's last readings, so that the shortest recording says what it cost.
    shared.last_readings.store(true, Ordering::Release);
    shared.wake_sealer();
    last_words::wait_for(|| !shared.last_readings.load(Ordering::Acquire), LAST_READINGS);
    call_site::switch_off();
    let gave_up = || Error::GaveUp { path: shared.config.path.clone() };
    shared.stop_drain.store(true, Ordering::Release);
    shared.wake_drain();
    let remains = drain.join().ok().map(Remains::of_a_survivor);
    // From here on there is nobody whose last pass a dying thread could wait for.
    last_words::stop_waiting();
    #[cfg(feature = "exporters")]
    lock(&shared.problems).extend(shared.handlers.end().into_iter().map(Problem::Exporter));
    *lock(&shared.remains) = remains;
    shared.stop_sealer.store(true, Ordering::Release);
    shared.wake_sealer();
    let finished = sealer.join();
    last_words::disarm();
    ring_pool::end();
    let Ok(Some((path, vitals))) = finished else { return Err(gave_up()) };
    if vitals.state == RecordingState::GivenUp {
        return Err(gave_up());
    }
    let mut summary = Summary {
        path,
        dumps: std::mem::take(&mut *lock(&shared.dumps)),
        problems: std::mem::take(&mut *lock(&shared.problems)),
        ..Summary::default()
    };
    summary.set_counts(&vitals);
    Ok(summary)
}

fn flush(shared: &Shared, at_most: Duration) -> bool {
    // Nobody waits for itself: a thread of the recorder that panics comes here as well.
    if !last_words::is_recording_process() || last_words::is_own_thread() {
        return false;
    }
    let rendezvous = last_words::rendezvous();
    let ticket = rendezvous.ask();
    shared.wake_drain();
    let is_gone = || shared.drain_is_gone.load(Ordering::Acquire);
    let begun = Instant::now();
    // There may be room again by now, and so many slots to be written that it takes a while.
    let has_no_room = || {
        rendezvous.is_refused(ticket)
            && shared.cannot_write.load(Ordering::Acquire)
            && begun.elapsed() > ROOM_AT_MOST
    };
    last_words::wait_for(|| rendezvous.is_done(ticket) || has_no_room() || is_gone(), at_most)
        && rendezvous.is_done(ticket)
}

fn dump(shared: &Shared, reason: DumpReason, at_most: Duration) -> Result<PathBuf, Error> {
    if shared.config.keep_last.is_none() {
        return Err(Error::NotAFlightRecorder);
    }
    // In a forked child nobody would answer.
    if !last_words::is_recording_process() {
        return Err(Error::GaveUp { path: shared.config.path.clone() });
    }
    let path = &shared.config.path;
    let (tell, answer) = mpsc::channel();
    {
        let mut requests = lock(&shared.dump_requests);
        if shared.sealer_is_gone.load(Ordering::Acquire) || last_words::is_own_thread() {
            return Err(Error::GaveUp { path: path.clone() });
        }
        requests.push((reason, Some(tell)));
    }
    shared.wake_sealer();
    let answered = answer.recv_timeout(at_most).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => Error::DumpLate { path: path.clone(), waited: at_most },
        mpsc::RecvTimeoutError::Disconnected => Error::GaveUp { path: path.clone() },
    })?;
    answered.map_err(Error::io(path, "dump"))
}

/// The running recording, unless the calling thread might be the one holding the lock.
fn running() -> Option<Arc<Shared>> {
    let session = SESSION.try_lock().ok()?;
    session.as_ref().map(|session| Arc::clone(&session.shared))
}

/// At `exit`: finishes whatever is running.
pub(crate) fn finish_at_exit() {
    if let Ok(mut session) = SESSION.try_lock()
        && let Some(session) = session.take()
    {
        let _ = finish(session);
    }
}

pub(crate) fn records_panics() -> bool {
    running().is_some_and(|shared| shared.config.on_panic)
}

/// A panic has been recorded on this thread; makes sure that it gets into a file.
pub(crate) fn after_panic() {
    let Some(shared) = running() else { return };
    if shared.config.keep_last.is_some() {
        let _ = dump(&shared, DumpReason::Panic, PANIC_AT_MOST);
    } else {
        flush(&shared, PANIC_AT_MOST);
    }
}
