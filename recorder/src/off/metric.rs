//! How the vocabulary is not recorded.

use std::time::Duration;

use ringscope_format::{Kind, Value};

use super::{CallSite, DeviceQueue, Span};

/// A kind of metric that could be a span.
pub trait Timed {
    /// Its name and keys.
    fn site() -> &'static CallSite;
    /// Does nothing.
    fn end(&self, span: &mut Span, request: u128);
}

/// Never.
#[inline(always)]
pub fn is_on(_: &'static CallSite) -> bool {
    false
}

/// Does nothing.
#[inline(always)]
pub fn record_point<const N: usize>(
    _: &'static CallSite,
    _: Kind,
    _: Value<'_>,
    _: [Option<Value<'_>>; N],
) {
}

/// Does nothing.
#[inline(always)]
pub fn end_span<const N: usize>(
    _: &mut Span,
    _: &'static CallSite,
    _: [Option<Value<'_>>; N],
    _: u128,
) {
}

#[inline(always)]
pub(crate) fn current_request() -> u128 {
    0
}

#[inline(always)]
pub(crate) fn replace_request(_: u128) -> u128 {
    0
}

/// A time that a thread works for a request, of which nothing is kept.
#[derive(Debug)]
pub(crate) struct Scope;

impl Scope {
    #[inline(always)]
    pub(crate) fn begin(_: u128, _: u128) -> Scope {
        Scope
    }

    #[inline(always)]
    pub(crate) fn end(&self, _: u128) {}
}

#[inline(always)]
pub(crate) fn random_id() -> u128 {
    0
}

/// No.
#[inline(always)]
pub fn gpu_latency() -> bool {
    false
}

#[inline(always)]
pub(crate) fn next_link() -> u32 {
    0
}

#[allow(dead_code)] // filled in as if somebody looked
pub(crate) struct DeviceWork {
    pub(crate) name: &'static CallSite,
    pub(crate) kind: Kind,
    pub(crate) queue: Option<&'static DeviceQueue>,
    pub(crate) took: Duration,
    pub(crate) ago: Duration,
    pub(crate) link: u32,
}

#[inline(always)]
pub(crate) fn record_work<const N: usize>(
    _: DeviceWork,
    _: &'static CallSite,
    _: [Option<Value<'_>>; N],
) -> u32 {
    0
}

#[cfg(feature = "gpu")]
#[inline(always)]
pub(crate) fn admit(_: &'static CallSite) -> Option<u32> {
    None
}

#[cfg(feature = "gpu")]
#[allow(dead_code)] // filled in as if somebody looked
pub(crate) struct AdmittedWork {
    pub(crate) site: &'static CallSite,
    pub(crate) name: u32,
    pub(crate) kind: Kind,
    pub(crate) queue: Option<&'static DeviceQueue>,
    pub(crate) start: u64,
    pub(crate) took: u64,
    pub(crate) link: u32,
    pub(crate) request: u128,
}

#[cfg(feature = "gpu")]
#[inline(always)]
pub(crate) fn name_of(_: &'static CallSite) -> Option<u32> {
    None
}

#[cfg(feature = "gpu")]
#[inline(always)]
pub(crate) fn record_admitted<const N: usize>(
    _: AdmittedWork,
    _: &'static CallSite,
    _: [Option<Value<'_>>; N],
) -> bool {
    false
}
