//! Which request something was done for, across threads.

use std::{fmt, marker::PhantomData};

use crate::metric;

/// A request, a run, a job: 128 random bits. Whatever is recorded while it is entered was done
/// for it, on every thread that enters it: spans, events and counters of any kind, those of
/// `tracing` among them.
///
/// Events of the vocabulary carry it themselves. For all else, one record is made when
/// the request is left, of the time that it was entered; what began in that time on that
/// thread is known to be the request's (`analyze requests`, and `--request` anywhere). So a
/// span costs the same in a request as outside of one; entering and leaving it costs two looks
/// at the clock and one event with a slot.
///
/// Nothing else travels with it, and nothing about it is guessable: ids are
/// never counted up.
///
/// ```
/// use ringscope::{span, vocabulary::{Call, CorrelationId}};
///
/// let request = CorrelationId::random();
/// std::thread::spawn(move || {
///     let _working = request.enter();
///     let _call = Call::new().function("embed").span(); // says for which request
///     let _span = span!("tokenize"); // need not say it: it is in the time of the request
/// }).join().unwrap();
/// ```
///
/// # Limits
///
/// What is around a request is not the request's: a span that began before it was entered. Of a
/// process that is killed in a request, and of a dump that is made meanwhile, only those events
/// tell of it that carry it; so it is if the guard is forgotten. Rules (`RINGSCOPE_SAMPLE`,
/// `*=1/100`, `*=10us`) thin out what is in a request, but not the record of it, whose name is
/// `request.scope`; `request.scope=off` leaves it out.
///
/// With the feature `off` all ids are 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

    /// Works for this request on the calling thread, until the guard is dropped. Of requests
    /// that are entered within each other, the innermost counts. 0 is nobody's, which
    /// leaves whatever is recorded in it to nobody.
    #[inline]
    pub fn enter(self) -> Correlated {
        let before = metric::replace_request(self.0);
        let scope = metric::Scope::begin(self.0, before);
        Correlated { scope, request: self.0, before, not_send: PhantomData }
    }
}

/// As `--request` of `analyze` takes it.
impl fmt::Debug for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CorrelationId({self})")
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
    scope: metric::Scope,
    request: u128,
    before: u128,
    not_send: PhantomData<*const ()>,
}

impl Drop for Correlated {
    #[inline]
    fn drop(&mut self) {
        metric::replace_request(self.before);
        self.scope.end(self.request);
    }
}
