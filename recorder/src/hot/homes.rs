//! Threads that are gone, by their tracks.
//!
//! A span that ends on another thread has the track that it began on, and the thread of that track
//! may have exited long before: its lane is another's by then, and a file of a rotation may never
//! have heard of it. So whoever gives such a lane back leaves its owner here. None of this
//! is the hot path's; nothing is kept until a span of that kind can begin.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use ringscope_format::Kind;

use crate::hot::{call_site, lane::Owner};

/// Of more, those that are gone for longest are forgotten; readers show the number of their track
/// instead of a name.
const MOST: usize = 4_096;

static KEPT: AtomicBool = AtomicBool::new(false);
static HOMES: Mutex<Gone> = Mutex::new(Gone { owners: BTreeMap::new(), in_order: VecDeque::new() });

struct Gone {
    owners: BTreeMap<u32, Owner>,
    in_order: VecDeque<u32>,
}

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
    if homes.owners.insert(owner.track, owner.clone()).is_none() {
        homes.in_order.push_back(owner.track);
    }
    if homes.owners.len() > MOST
        && let Some(oldest) = homes.in_order.pop_front()
    {
        homes.owners.remove(&oldest);
    }
}

/// What may end on another thread than it began on: its track is the one that it began on, and
/// it is recorded by the one that it ended on.
pub(crate) fn wanders(kind: Kind) -> bool {
    kind == Kind::ASYNC_SPAN || kind.is_life()
}

/// Whose this track was, if that thread is gone and not forgotten.
pub(crate) fn of(track: u32) -> Option<Owner> {
    lock().owners.get(&track).cloned()
}

fn lock() -> MutexGuard<'static, Gone> {
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
        let known = |n| Some(format!("thread {}", track(n)));
        // A thread of the first hour that goes last is not the one to be forgotten.
        let mut order: Vec<u32> = (2..=MOST as u32 + 1).collect();
        order.push(1);
        order.iter().for_each(|n| remember(&owner(track(*n))));
        remember(&Owner { is_recorder: true, ..owner(track(9_999)) });
        assert_eq!((name(0), name(2), name(9_999)), (None, None, None));
        assert_eq!((name(1), name(3)), (known(1), known(3)));
        let gone = lock();
        assert_eq!((gone.owners.len(), gone.in_order.len()), (MOST, MOST));
    }
}
