//! Random ids, drawn from the system some at a time: each by itself would be a
//! system call.
//!
//! A forked child inherits what was drawn, and would give out the same ids as its
//! parent. So forks are counted, and what was drawn before the last one is nobody's.
//! This knows of `fork`, which calls those who registered with it; not of a bare `clone`.

use std::{
    cell::RefCell,
    sync::atomic::{
        AtomicBool, AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::{hot::clock, last_words};

/// Ids drawn from one request for randomness.
const DRAWN: usize = 32;

/// How many forks are between this process and the one that first drew an id.
static FORKS: AtomicU32 = AtomicU32::new(0);

struct Ids {
    drawn: [u128; DRAWN],
    left: usize,
    /// [`FORKS`] when they were drawn.
    forks: u32,
}

thread_local! {
    static IDS: RefCell<Ids> =
        const { RefCell::new(Ids { drawn: [0; DRAWN], left: 0, forks: 0 }) };
}

/// A random id; never 0.
pub(crate) fn random_id() -> u128 {
    IDS.with_borrow_mut(|ids| {
        // Relaxed: what changes it runs on this thread, or before this thread exists.
        let forks = FORKS.load(Relaxed);
        if (ids.left == 0 || ids.forks != forks) && !ids.draw(forks) {
            return unlikely_id();
        }
        ids.left -= 1;
        // One that was given out must not be found here again.
        std::mem::take(&mut ids.drawn[ids.left]).max(1)
    })
}

impl Ids {
    /// Whether there was randomness to be had.
    #[cold]
    fn draw(&mut self, forks: u32) -> bool {
        hear_of_forks();
        let mut bytes = [0_u8; DRAWN * 16];
        if getrandom::fill(&mut bytes).is_err() {
            return false;
        }
        *self = Self { drawn: bytemuck::cast(bytes), left: DRAWN, forks };
        true
    }
}

/// In a forked child, before anything else runs there.
pub(crate) fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// From before the first ids are drawn: a program may fork before it records, or never record.
fn hear_of_forks() {
    static HEARS: AtomicBool = AtomicBool::new(false);
    // Two threads may both register, which does no harm; a child whose parent was just about
    // to would wait for ever if this were a lock.
    if !HEARS.load(Acquire) {
        last_words::hear_of_forks();
        HEARS.store(true, Release);
    }
}

/// Where the system has no randomness to give: an id that is merely unlikely to repeat.
#[cold]
fn unlikely_id() -> u128 {
    use std::hash::{BuildHasher, RandomState};
    let seed = (clock::ticks(), std::process::id());
    let half = || u128::from(RandomState::new().hash_one(seed));
    (half() << 64 | half()).max(1)
}
