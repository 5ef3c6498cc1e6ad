//! Which spans a thread is inside of, readable by the drain at any moment.
//!
//! The owning thread writes, the drain takes snapshots; neither waits for the
//! other. It is a sequence lock whose writer never marks the data as busy: what
//! protects a snapshot is that the owner changes `state` *before* it reuses a
//! frame that a snapshot may be reading.
//!
//! **What a snapshot promises**: a depth that the stack had while it was taken, and
//! the outermost spans of that very moment. All that are listed, unless the owner
//! moved on during every try; then those that stayed open from the last try but one
//! to the last, so that whatever is open for longer than a tick is always there.
//!
//! The outermost `N` spans are listed; deeper ones are only counted, as far as
//! [`DEEPEST`].

use crate::atomics::{Acquire, AtomicU32, AtomicU64, Relaxed, Release, fence};

/// `state` holds the depth in its low bits and a change count above them.
const ONE_CHANGE: u64 = 1 << 16;
/// Spans inside of so many others are not counted.
const DEEPEST: u32 = u16::MAX as u32;
/// The place of a span that is not counted.
const NOWHERE: u32 = u32::MAX - 1;

#[inline(always)]
fn depth_of(state: u64) -> u32 {
    u32::from(state as u16)
}

/// The stack of one thread's open spans.
// In this order, so that `state` and the outermost starts share a cache line; two
// arrays, because their elements can be addressed without a multiplication.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct InFlight<const N: usize> {
    /// Changes on every enter and leave, so that equal values before and after
    /// a snapshot prove that nothing moved in between.
    state: AtomicU64,
    starts: [AtomicU64; N],
    names: [AtomicU32; N],
}

/// What [`InFlight::snapshot`] found, apart from the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Differs whenever the stack has changed.
    pub(crate) version: u64,
    /// Whether all spans that can be listed are. If not, look again.
    pub(crate) is_whole: bool,
    /// How many spans are open, also those that are not listed.
    pub(crate) depth: u32,
    /// How many of them have a frame.
    pub(crate) listed: u32,
}

/// A place that is free, for the one span that is entered next. For who must know that
/// there is one before looking at the clock.
#[cfg(feature = "tracing")]
pub(crate) struct Room<'a> {
    state: &'a AtomicU64,
    found: u64,
    place: usize,
    start: &'a AtomicU64,
}

#[cfg(feature = "tracing")]
impl Room<'_> {
    /// The place in the stack.
    #[inline(always)]
    pub(crate) fn place(&self) -> u32 {
        self.place as u32
    }

    /// Opens the span, as [`InFlight::enter`] does.
    #[inline(always)]
    pub(crate) fn enter(self, start: u64) {
        // The orderings are those of `InFlight::enter`.
        self.start.store(start, Release);
        self.state.store(self.found.wrapping_add(ONE_CHANGE + 1), Release);
    }
}

impl<const N: usize> InFlight<N> {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            starts: std::array::from_fn(|_| AtomicU64::new(0)),
            names: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Owner only: opens a span and returns its place in the stack, if it is one
    /// of the outermost `N`. If not, nothing has happened: [`enter_unlisted`](Self::enter_unlisted).
    #[inline(always)]
    pub(crate) fn enter(&self, start: u64, name: u32) -> Option<u32> {
        let state = self.state.load(Relaxed);
        let depth = depth_of(state);
        let (starts, names) = (self.starts.get(depth as usize)?, self.names.get(depth as usize)?);
        // Release, with the fence in `snapshot`: a snapshot that reads one of
        // these sees the `state` of the leave that freed the place, and retries.
        starts.store(start, Release);
        names.store(name, Release);
        // Release, with the first load in `snapshot`: who sees the new depth sees the frame.
        self.state.store(state.wrapping_add(ONE_CHANGE + 1), Release);
        Some(depth)
    }

    /// Owner only: where [`enter`](Self::enter) would list a span of this name, if it would.
    #[cfg(feature = "tracing")]
    #[inline(always)]
    pub(crate) fn room(&self, name: u32) -> Option<Room<'_>> {
        let state = self.state.load(Relaxed);
        let place = depth_of(state) as usize;
        let (start, names) = (self.starts.get(place)?, self.names.get(place)?);
        // Nobody reads it there before the span is counted; as in `enter`.
        names.store(name, Release);
        Some(Room { state: &self.state, found: state, place, start })
    }

    /// Owner only: opens a span that [`enter`](Self::enter) would not list.
    #[cold]
    pub(crate) fn enter_unlisted(&self) -> u32 {
        let state = self.state.load(Relaxed);
        let depth = depth_of(state);
        if depth == DEEPEST {
            return NOWHERE;
        }
        self.state.store(state.wrapping_add(ONE_CHANGE + 1), Release);
        depth
    }

    /// Owner only: closes the span at `place`, and with it any above that were
    /// never closed. A span that outlived its parent changes nothing, unless its
    /// place was taken again meanwhile: then it closes what is there, which is missing
    /// from the list until it ends. Guards that are dropped in order never do that.
    #[inline(always)]
    pub(crate) fn leave(&self, place: u32) {
        let state = self.state.load(Relaxed);
        if depth_of(state) == place + 1 {
            self.state.store(state.wrapping_add(ONE_CHANGE - 1), Release);
        } else {
            self.leave_out_of_turn(place);
        }
    }

    #[cold]
    fn leave_out_of_turn(&self, place: u32) {
        let state = self.state.load(Relaxed);
        let depth = depth_of(state);
        let too_many = depth - depth.min(place);
        self.state.store((state - u64::from(too_many)).wrapping_add(ONE_CHANGE), Release);
    }

    /// Owner only: how many spans are open.
    #[inline(always)]
    pub(crate) fn depth(&self) -> u32 {
        depth_of(self.state.load(Relaxed))
    }

    /// A value that differs whenever the stack has changed.
    pub(crate) fn version(&self) -> u64 {
        self.state.load(Acquire)
    }

    /// Copies the stack as it was at one moment of this call, the listed frames as
    /// `(start, name)`. Never blocks the owner, and tries no more than so often.
    ///
    /// `spare` is where copies go that turn out to be of no use.
    pub(crate) fn snapshot(
        &self,
        tries: u32,
        frames: &mut Box<[(u64, u32); N]>,
        spare: &mut Box<[(u64, u32); N]>,
    ) -> Snapshot {
        match self.copy(frames) {
            (state, true) => Self::whole(state),
            (state, false) => self.snapshot_again(state, tries, frames, spare),
        }
    }

    fn whole(state: u64) -> Snapshot {
        let depth = depth_of(state);
        Snapshot { version: state, is_whole: true, depth, listed: depth.min(N as u32) }
    }

    /// Goes on after a first try that began in this state and was of no use.
    #[cold]
    fn snapshot_again(
        &self,
        mut state: u64,
        tries: u32,
        frames: &mut Box<[(u64, u32); N]>,
        spare: &mut Box<[(u64, u32); N]>,
    ) -> Snapshot {
        // Nothing is listed by the try before the first.
        let mut earlier = 0;
        for _ in 1..tries {
            std::mem::swap(frames, spare);
            let copied = self.copy(frames);
            (earlier, state) = (state, copied.0);
            if copied.1 {
                return Self::whole(state);
            }
        }
        // A span that both tries found in its place, which the later of them found to be in
        // use, was open when that one began. For had its place been taken only afterwards, the
        // earlier one could not have seen it without the later one's beginning to know of the
        // `leave` before it; and half of a frame is nothing that was in use.
        let both = depth_of(earlier).min(depth_of(state)) as usize;
        let agreed = frames.iter().zip(spare.iter()).take(both);
        let listed = agreed.take_while(|(later, earlier)| later == earlier).count() as u32;
        Snapshot { version: state, is_whole: false, depth: depth_of(state), listed }
    }

    /// Copies the listed frames. Returns the state before, and whether it was the same behind.
    fn copy(&self, frames: &mut [(u64, u32); N]) -> (u64, bool) {
        let before = self.state.load(Acquire);
        let listed = (depth_of(before) as usize).min(N);
        let stack = self.starts[..listed].iter().zip(&self.names[..listed]);
        for (copy, (start, name)) in frames[..listed].iter_mut().zip(stack) {
            *copy = (start.load(Relaxed), name.load(Relaxed));
        }
        // Acquire, with the Release stores of `enter`: had any frame above been
        // reused, the load below, and any after it, would see a newer state.
        fence(Acquire);
        let after = self.state.load(Relaxed);
        (before, before == after)
    }
}
