//! Threads that are gone, by their tracks.
//!
//! A span that ends on another thread has the track that it began on, and the thread of that track
//! may have exited long before: its lane is another's by then, and a file of a rotation may never
//! have heard of it. So whoever gives such a lane back leaves its owner here. None of this
//! is the hot path's; nothing is kept until a span of that kind can begin.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use ringscope_format::Kind;

use crate::hot::{call_site, lane::Owner};

/// The oldest of more are forgotten; readers show the number of their track instead of a name.
const MOST: usize = 4_096;

static KEPT: AtomicBool = AtomicBool::new(false);
static HOMES: Mutex<BTreeMap<u32, Owner>> = Mutex::new(BTreeMap::new());

/// From now on there are spans that may outlive the thread they began on.
pub(crate) fn keep() {
    // The thread that one begins on is there, so what it exits after is seen in time.
    KEPT.store(true, Ordering::Relaxed);
}

/// Whether there may be such spans.
#[inline]
pub(crate) fn are_kept() -> bool {
    KEPT.load(Ordering::Relaxed)
}

/// Before a lane whose thread is gone becomes another's.
pub(crate) fn remember(owner: &Owner) {
    // In a forked child the lock may be held by a thread that does not exist.
    if !are_kept() || owner.is_recorder || call_site::is_forked() {
        return;
    }
    let mut homes = lock();
    homes.insert(owner.track, owner.clone());
    // Tracks are given out in order.
    if homes.len() > MOST {
        homes.pop_first();
    }
}

/// What may end on another thread than it began on: its track is the one that it began on, and
/// it is recorded by the one that it ended on.
pub(crate) fn wanders(kind: Kind) -> bool {
    kind == Kind::ASYNC_SPAN || kind.is_life()
}

/// Whose this track was, if that thread is gone and not forgotten.
pub(crate) fn of(track: u32) -> Option<Owner> {
    lock().get(&track).cloned()
}

fn lock() -> MutexGuard<'static, BTreeMap<u32, Owner>> {
    HOMES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(track: u32) -> Owner {
        Owner { track, os_id: 7, name: format!("thread {track}"), is_recorder: false }
    }

    #[test]
    fn nothing_is_kept_before_anybody_needs_it_and_then_the_latest() {
        // Tracks that no thread of this process has.
        let track = |n: u32| u32::MAX / 2 + n;
        let name = |n| of(track(n)).map(|owner| owner.name);
        remember(&owner(track(0)));
        // Unless another test of this process has needed it meanwhile.
        if !are_kept() {
            assert_eq!(name(0), None);
        }
        keep();
        (1..=MOST as u32 + 1).for_each(|n| remember(&owner(track(n))));
        remember(&Owner { is_recorder: true, ..owner(track(9_999)) });
        assert_eq!((name(0), name(1), name(9_999)), (None, None, None));
        assert_eq!(name(MOST as u32 + 1), Some(format!("thread {}", track(MOST as u32 + 1))));
        assert_eq!(lock().len(), MOST);
    }
}
