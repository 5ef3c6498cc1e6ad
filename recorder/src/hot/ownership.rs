//! Who may touch a lane's ring: one small state machine, four states.
//!
//! ```text
//!          claim (a thread)        settle (that thread)
//!   Free ------------------> Claimed ------------------> Owned
//!    ^                                                     |
//!    |  recycle (the drain, once the ring is empty)        | retire (that thread, at exit)
//!    +---------------------- Retired <---------------------+
//! ```
//!
//! | state | producer half, track | consumer half |
//! |---|---|---|
//! | Free, Claimed | the claiming thread | the claiming thread |
//! | Owned | the owning thread | the drain |
//! | Retired | nobody | the drain |
//!
//! Every move is a release store or exchange, every look an acquire load, so
//! each holder sees all that the one before it did.

use crate::atomics::{Acquire, AtomicU8, Relaxed, Release};

const FREE: u8 = 0;
const CLAIMED: u8 = 1;
const OWNED: u8 = 2;
const RETIRED: u8 = 3;

/// What the drain may do with a lane now. Numbered as the states are, so that it takes no work to
/// tell from them.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrainView {
    /// Not the drain's business.
    Absent = FREE,
    /// A thread is recording; read its ring.
    Recording = OWNED,
    /// The thread has gone; read its ring to the end, then recycle.
    Retired = RETIRED,
}

#[derive(Debug)]
pub(crate) struct Ownership(AtomicU8);

impl Ownership {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(FREE))
    }

    /// Takes a free lane. At most one of several threads succeeds.
    pub(crate) fn claim(&self) -> bool {
        self.0.compare_exchange(FREE, CLAIMED, Acquire, Relaxed).is_ok()
    }

    /// The claimant has prepared the lane and starts to record.
    pub(crate) fn settle(&self) {
        self.0.store(OWNED, Release);
    }

    /// The claimant could not prepare the lane after all.
    pub(crate) fn give_up(&self) {
        self.0.store(FREE, Release);
    }

    /// The owner will not touch the lane again.
    pub(crate) fn retire(&self) {
        self.0.store(RETIRED, Release);
    }

    /// Drain only: the ring of a retired lane is empty, the next thread may have it.
    pub(crate) fn recycle(&self) {
        self.0.store(FREE, Release);
    }

    pub(crate) fn drain_view(&self) -> DrainView {
        match self.0.load(Acquire) {
            OWNED => DrainView::Recording,
            RETIRED => DrainView::Retired,
            _ => DrainView::Absent,
        }
    }
}
