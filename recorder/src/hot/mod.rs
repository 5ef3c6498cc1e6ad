//! What runs on the program's own threads, and what they share with the rest.
//!
//! The way of a span: its [`call_site`] says whether it is on and what its name
//! is; the thread's [`lane`] comes from the [`ring_pool`]; the guard in [`span`]
//! reads the [`clock`] twice, keeps itself listed in [`in_flight`], and pushes one
//! record into the lane's ring. Nothing in that way allocates, locks, waits or
//! calls the system. What does so is cold: the first use of a thread or a call
//! site, thread exit, and giving out names.

pub(crate) mod async_span;
pub(crate) mod call_site;
pub(crate) mod clock;
pub(crate) mod fetch_ahead;
pub(crate) mod homes;
pub(crate) mod in_flight;
pub(crate) mod lane;
pub(crate) mod metric;
pub(crate) mod name;
pub(crate) mod names;
pub(crate) mod open_spans;
pub(crate) mod ownership;
pub(crate) mod queues;
pub(crate) mod random_ids;
pub(crate) mod ring_pool;
pub(crate) mod scope;
#[cfg(feature = "tracing")]
pub(crate) mod slice;
pub(crate) mod span;
pub(crate) mod turns;
pub(crate) mod verdict;
