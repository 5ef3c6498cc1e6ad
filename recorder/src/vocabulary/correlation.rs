//! Which request something was done for, across threads.

use std::{fmt, marker::PhantomData};

use crate::metric;

/// A request, a run, a job: 128 random bits. What the vocabulary records while it
/// is entered carries it, on every thread that enters it.
///
/// Nothing else travels with it, and nothing about it is guessable: ids are
/// never counted up.
///
/// ```
/// use ringscope::vocabulary::{Call, CorrelationId};
///
/// let request = CorrelationId::random();
/// std::thread::spawn(move || {
///     let _working = request.enter();
///     let _call = Call::new().function("embed").span(); // says for which request
/// }).join().unwrap();
/// ```
///
/// With the feature `off` all ids are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CorrelationId(u128);

impl CorrelationId {
    /// A new one. The system is asked for randomness once for 32 of them, a thread, and anew
    /// after `fork`: child and parent never give out the same.
    #[inline]
    pub fn random() -> Self {
        Self(metric::random_id())
    }

    /// One that came from elsewhere: a trace id in a header. 0 is nobody's.
    #[inline]
    pub const fn from_u128(id: u128) -> Self {
        Self(id)
    }

    /// The bits, to hand on to another process.
    #[inline]
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// The request that this thread works for.
    #[inline]
    pub fn current() -> Option<Self> {
        Some(metric::current_request()).filter(|&id| id != 0).map(Self)
    }

    /// Works for this request on the calling thread, until the guard is dropped.
    #[inline]
    pub fn enter(self) -> Correlated {
        Correlated { before: metric::replace_request(self.0), not_send: PhantomData }
    }
}

/// As 32 hexadecimal digits.
impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// While it lives, the thread works for a request: [`CorrelationId::enter`].
#[must_use = "the request is left when this is dropped; bind it: `let _working = ...`"]
#[derive(Debug)]
pub struct Correlated {
    before: u128,
    not_send: PhantomData<*const ()>,
}

impl Drop for Correlated {
    #[inline]
    fn drop(&mut self) {
        metric::replace_request(self.before);
    }
}
