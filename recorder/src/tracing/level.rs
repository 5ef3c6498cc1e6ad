//! The level that whatever has no filter of its own goes by: that of the recording that runs,
//! and while none does, that of the environment or the file.
//!
//! One atomic number, so that nobody waits who asks. What is asked for once and kept, the
//! interests that `tracing` caches, is asked for again when it changes.

use std::sync::atomic::{
    AtomicU8, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use tracing_core::{
    Dispatch, LevelFilter, Metadata, callsite, dispatcher, subscriber::NoSubscriber,
};

use crate::{Level, settings};

/// In place of a level: nobody has needed one yet, nor has there been a recording.
const UNKNOWN: u8 = u8::MAX;

/// A [`Level`] as a number, or [`UNKNOWN`].
static NOW: AtomicU8 = AtomicU8::new(UNKNOWN);
/// How often it has changed.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Somebody is about to go by it.
pub(super) fn prepare() {
    if NOW.load(Relaxed) == UNKNOWN {
        let usual = settings::level_from_env().unwrap_or(Level::Trace);
        // Fails if a recording has begun meanwhile, which knows better.
        let _ = NOW.compare_exchange(UNKNOWN, usual as u8, SeqCst, Relaxed);
    }
}

#[inline(always)]
pub(super) fn now() -> LevelFilter {
    const OFF: u8 = Level::Off as u8;
    const ERROR: u8 = Level::Error as u8;
    const WARN: u8 = Level::Warn as u8;
    const INFO: u8 = Level::Info as u8;
    const DEBUG: u8 = Level::Debug as u8;
    match NOW.load(Relaxed) {
        OFF => LevelFilter::OFF,
        ERROR => LevelFilter::ERROR,
        WARN => LevelFilter::WARN,
        INFO => LevelFilter::INFO,
        DEBUG => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

#[inline(always)]
pub(super) fn takes(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= now()
}

/// A recording with this level begins, or one has ended and this is what goes now. Returns whether
/// [`ask_again`] is to be called, with no lock held.
pub(crate) fn set(level: Level) -> bool {
    let before = NOW.swap(level as u8, SeqCst);
    let has_changed = before != level as u8 && before != UNKNOWN;
    // After the level: who reads this number later than another thread has asked sees the change.
    CHANGES.fetch_add(u32::from(has_changed), SeqCst);
    has_changed
}

/// Has every call site of `tracing` ask its subscribers again what they take, which is calling code
/// of the program.
pub(crate) fn ask_again() {
    loop {
        let changes = CHANGES.load(SeqCst);
        // As long as there has been only one subscriber, `tracing` asks that of this thread, and
        // if this thread has none, it would take it that nobody wants anything. With a second one
        // it looks for all there are.
        if dispatcher::get_default(|dispatch| dispatch.is::<NoSubscriber>()) {
            drop(Dispatch::new(NoSubscriber::default()));
        }
        callsite::rebuild_interest_cache();
        // What another thread has changed meanwhile may have come in before what was asked for here.
        if CHANGES.load(SeqCst) == changes {
            return;
        }
    }
}
