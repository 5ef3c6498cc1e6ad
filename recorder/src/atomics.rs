//! The atomics that the lock-free parts are built from.
//!
//! One place, so that `tests/loom.rs` can compile the same source files against
//! loom's atomics and explore every interleaving.

pub(crate) use std::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
