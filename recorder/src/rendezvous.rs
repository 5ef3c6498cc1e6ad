//! "Do one more complete pass and tell me": how flush, shutdown and the fatal
//! signal path get the drain's attention.
//!
//! Requests are numbered. A pass that *began* after a request has seen whatever
//! the requester did before it, so the drain reads the number before the pass
//! and reports it after; or says that the pass had no room for all of it, which ends nothing: the
//! next one may have. Both sides use plain atomics, which is all that a
//! signal handler may do.

use crate::atomics::{Acquire, AtomicU64, Release};

#[derive(Debug)]
pub(crate) struct Rendezvous {
    asked: AtomicU64,
    done: AtomicU64,
    refused: AtomicU64,
}

/// A request, to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl Rendezvous {
    pub(crate) fn new() -> Self {
        Self { asked: AtomicU64::new(0), done: AtomicU64::new(0), refused: AtomicU64::new(0) }
    }

    /// Asks for one complete pass.
    pub(crate) fn ask(&self) -> Ticket {
        // Release, with the load in `pending`: the pass sees what was done before.
        Ticket(self.asked.fetch_add(1, Release) + 1)
    }

    /// Drain only, before a pass: what this pass will answer.
    pub(crate) fn pending(&self) -> Ticket {
        Ticket(self.asked.load(Acquire))
    }

    /// Drain only, after the pass.
    pub(crate) fn answer(&self, ticket: Ticket) {
        self.done.store(ticket.0, Release);
    }

    /// Drain only, after a pass: there is no room for all of it, and nobody knows when there will be.
    pub(crate) fn refuse(&self, ticket: Ticket) {
        self.refused.store(ticket.0, Release);
    }

    /// Whether the drain has said so of a pass that began after this was asked for.
    pub(crate) fn is_refused(&self, ticket: Ticket) -> bool {
        self.refused.load(Acquire) >= ticket.0
    }

    /// Whether the pass asked for is complete; if so, all that it wrote is visible.
    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        self.done.load(Acquire) >= ticket.0
    }
}
