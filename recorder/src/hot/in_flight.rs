//! Which spans a thread is inside of, readable by the drain at any moment.
//!
//! The owning thread writes, the drain takes snapshots; neither waits for the
//! other. It is a sequence lock whose writer never marks the data as busy: what
//! protects a snapshot is that the owner changes `state` *before* it reuses a
//! frame that a snapshot may be reading.
//!
//! The outermost `N` spans are listed; deeper ones are only counted.

use crate::atomics::{Acquire, AtomicU32, AtomicU64, Relaxed, Release, fence};

/// `state` holds the depth in its low bits and a change count above them.
const DEPTH_BITS: u32 = 24;
const DEPTH_MASK: u64 = (1 << DEPTH_BITS) - 1;
const ONE_CHANGE: u64 = 1 << DEPTH_BITS;

#[derive(Debug)]
struct Frame {
    start: AtomicU64,
    name: AtomicU32,
}

/// The stack of one thread's open spans.
// In this order, so that `state` and the outermost frames share a cache line.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct InFlight<const N: usize> {
    /// Changes on every enter and leave, so that equal values before and after
    /// a snapshot prove that nothing moved in between.
    state: AtomicU64,
    frames: [Frame; N],
}

/// What [`InFlight::snapshot`] found, apart from the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Differs whenever the stack has changed.
    pub(crate) version: u64,
    /// How many spans are open, also those that are not listed.
    pub(crate) depth: u32,
}

impl<const N: usize> InFlight<N> {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            frames: std::array::from_fn(|_| Frame {
                start: AtomicU64::new(0),
                name: AtomicU32::new(0),
            }),
        }
    }

    /// Owner only: opens a span and returns its place in the stack.
    #[inline(always)]
    pub(crate) fn enter(&self, start: u64, name: u32) -> u32 {
        let state = self.state.load(Relaxed);
        let depth = (state & DEPTH_MASK) as u32;
        if let Some(frame) = self.frames.get(depth as usize) {
            // Release, with the fence in `snapshot`: a snapshot that reads one of
            // these sees the `state` of the leave that freed the frame, and retries.
            frame.start.store(start, Release);
            frame.name.store(name, Release);
        }
        // Release, with the first load in `snapshot`: who sees the new depth sees the frame.
        self.state.store(state.wrapping_add(ONE_CHANGE + 1), Release);
        depth
    }

    /// Owner only: closes the span at `place`, and with it any above that were
    /// never closed. A span that outlived its parent changes nothing.
    #[inline(always)]
    pub(crate) fn leave(&self, place: u32) {
        let state = self.state.load(Relaxed);
        if state & DEPTH_MASK == u64::from(place) + 1 {
            self.state.store(state.wrapping_add(ONE_CHANGE - 1), Release);
        } else {
            self.leave_out_of_turn(place);
        }
    }

    #[cold]
    fn leave_out_of_turn(&self, place: u32) {
        let state = self.state.load(Relaxed);
        let depth = state & DEPTH_MASK;
        let left = depth.min(u64::from(place));
        self.state.store((state - depth + left).wrapping_add(ONE_CHANGE), Release);
    }

    /// Owner only: how many spans are open.
    #[inline(always)]
    pub(crate) fn depth(&self) -> u32 {
        (self.state.load(Relaxed) & DEPTH_MASK) as u32
    }

    /// A value that differs whenever the stack has changed.
    pub(crate) fn version(&self) -> u64 {
        self.state.load(Acquire)
    }

    /// Copies the listed frames as `(start, name)`, or `None` if the owner moved
    /// meanwhile; then try again. Never blocks the owner.
    pub(crate) fn snapshot(&self, frames: &mut [(u64, u32); N]) -> Option<Snapshot> {
        let before = self.state.load(Acquire);
        let depth = (before & DEPTH_MASK) as u32;
        for (copy, frame) in frames.iter_mut().zip(&self.frames).take(depth as usize) {
            *copy = (frame.start.load(Relaxed), frame.name.load(Relaxed));
        }
        // Acquire, with the Release stores of `enter`: had any frame above been
        // reused, the load below would see a newer state.
        fence(Acquire);
        let after = self.state.load(Relaxed);
        (before == after).then_some(Snapshot { version: before, depth })
    }
}
