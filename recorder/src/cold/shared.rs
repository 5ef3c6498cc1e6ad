//! What the drain, the sealer and the recorder's handle tell each other.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
    thread::Thread,
    time::Instant,
};

use ringscope_format::{OpenSpan, Vitals};

use crate::{
    cold::{drain::Remains, trace_file::TraceFile},
    config::Config,
    summary::Problem,
};

/// The file that the drain should go on in.
#[derive(Debug)]
pub(crate) struct NextFile {
    pub(crate) file: Arc<TraceFile>,
    /// How many name entries it already has.
    pub(crate) names_in_file: u32,
}

/// Why a dump is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DumpReason {
    Asked,
    Signal,
    ControlFile,
    Panic,
    SlowSpan { name: String, took_ns: u64 },
}

/// A request for a dump, and who wants to know how it went.
pub(crate) type DumpRequest = (DumpReason, Option<mpsc::Sender<io::Result<PathBuf>>>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) ticks_per_second: u64,
    /// Asks the drain for its last pass.
    pub(crate) stop_drain: AtomicBool,
    /// Asks the sealer to finish what the drain has left.
    pub(crate) stop_sealer: AtomicBool,
    /// Call sites are switched on: readings can be recorded.
    pub(crate) is_on: AtomicBool,
    /// Asks the sealer for readings now; it answers by resetting this.
    pub(crate) last_readings: AtomicBool,
    /// The drain passes its open slot on even though it is not full.
    pub(crate) close_slot: AtomicBool,
    /// Asks the sealer to seal all that is full, and not only to write what is sealed.
    pub(crate) hurry: AtomicBool,
    /// The sealer cannot write; what is lost now is lost to the file.
    pub(crate) cannot_write: AtomicBool,
    /// The drain has panicked: nobody empties rings any more.
    pub(crate) drain_is_gone: AtomicBool,
    /// The sealer has panicked: nobody answers any more.
    pub(crate) sealer_is_gone: AtomicBool,
    /// Sequence number of the next chunk.
    pub(crate) next_sequence: AtomicU64,
    pub(crate) next_file: Mutex<Option<NextFile>>,
    pub(crate) has_next_file: AtomicBool,
    /// What the drain left behind, for the sealer to end the last file with.
    pub(crate) remains: Mutex<Option<Remains>>,
    /// Edition and last vitals of the file that the drain has left, once it has.
    pub(crate) left_file: Mutex<Option<(u64, Vitals)>>,
    /// Vitals and open spans as of when the drain last closed a slot on request.
    pub(crate) at_last_close: Mutex<(Vitals, Vec<(OpenSpan, u32)>)>,
    /// What the sealer has written, and what it has overwritten.
    pub(crate) bytes: AtomicU64,
    pub(crate) overwritten: AtomicU64,
    /// Readings of the drain about itself.
    pub(crate) drain_cpu_ns: AtomicU64,
    pub(crate) fullest_ring: AtomicU64,
    pub(crate) most_full_slots: AtomicU64,
    pub(crate) rings: AtomicU32,
    hot_core: AtomicU32,
    /// A span that was slow enough to cause a dump.
    pub(crate) slow_span: Mutex<Option<SlowSpan>>,
    pub(crate) dump_requests: Mutex<Vec<DumpRequest>>,
    pub(crate) dumps: Mutex<Vec<PathBuf>>,
    pub(crate) problems: Mutex<Vec<Problem>>,
    pub(crate) drain_thread: OnceLock<Thread>,
    pub(crate) sealer_thread: OnceLock<Thread>,
    #[cfg(feature = "exporters")]
    pub(crate) handlers: crate::handlers::Handlers,
}

/// As [`Shared::hot_core`].
const NO_CORE: u32 = u32::MAX;

/// What the drain saw.
#[derive(Clone, Debug)]
pub(crate) struct SlowSpan {
    pub(crate) name: u32,
    pub(crate) ticks: u64,
    pub(crate) seen_at: Instant,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whatever panicked did so between whole assignments.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The core that the drain has left last, as somebody who records waited for it there, if
    /// it has not been back since without anybody waiting.
    pub(crate) fn hot_core(&self) -> Option<u32> {
        Some(self.hot_core.load(Ordering::Relaxed)).filter(|core| *core != NO_CORE)
    }

    pub(crate) fn set_hot_core(&self, core: Option<u32>) {
        self.hot_core.store(core.unwrap_or(NO_CORE), Ordering::Relaxed);
    }

    pub(crate) fn new(config: Config, ticks_per_second: u64) -> Self {
        Self {
            config,
            ticks_per_second,
            stop_drain: AtomicBool::new(false),
            stop_sealer: AtomicBool::new(false),
            is_on: AtomicBool::new(false),
            last_readings: AtomicBool::new(false),
            close_slot: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
            cannot_write: AtomicBool::new(false),
            drain_is_gone: AtomicBool::new(false),
            sealer_is_gone: AtomicBool::new(false),
            next_sequence: AtomicU64::new(1),
            next_file: Mutex::new(None),
            has_next_file: AtomicBool::new(false),
            remains: Mutex::new(None),
            left_file: Mutex::new(None),
            at_last_close: Mutex::default(),
            bytes: AtomicU64::new(0),
            overwritten: AtomicU64::new(0),
            drain_cpu_ns: AtomicU64::new(0),
            fullest_ring: AtomicU64::new(0),
            most_full_slots: AtomicU64::new(0),
            rings: AtomicU32::new(0),
            hot_core: AtomicU32::new(NO_CORE),
            slow_span: Mutex::new(None),
            dump_requests: Mutex::new(Vec::new()),
            dumps: Mutex::new(Vec::new()),
            problems: Mutex::new(Vec::new()),
            drain_thread: OnceLock::new(),
            sealer_thread: OnceLock::new(),
            #[cfg(feature = "exporters")]
            handlers: Default::default(),
        }
    }

    pub(crate) fn take_sequence(&self) -> u64 {
        self.next_sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes a problem, each kind once.
    pub(crate) fn note(&self, problem: Problem) {
        let mut problems = lock(&self.problems);
        let same =
            |known: &Problem| std::mem::discriminant(known) == std::mem::discriminant(&problem);
        if !problems.iter().any(same) {
            problems.push(problem);
        }
    }

    pub(crate) fn wake_drain(&self) {
        if let Some(thread) = self.drain_thread.get() {
            thread.unpark();
        }
    }

    pub(crate) fn wake_sealer(&self) {
        if let Some(thread) = self.sealer_thread.get() {
            thread.unpark();
        }
    }

    /// Wakes the sealer to seal everything that is full, at full speed.
    pub(crate) fn hurry_sealer(&self) {
        self.hurry.store(true, Ordering::Release);
        self.wake_sealer();
    }

    pub(crate) fn ticks(&self, duration: std::time::Duration) -> u64 {
        crate::hot::call_site::to_ticks(duration, self.ticks_per_second)
    }

    pub(crate) fn nanos(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second.max(1))) as u64
    }
}
