//! How the vocabulary is recorded: points, spans and work of devices whose fields
//! may be absent, with the id of the request that they serve.
//!
//! As hot as the rest: nothing allocates, locks or formats. What a thread does
//! for whom is a thread-local that only this module reads, so plain spans do not
//! pay for it; for whom those were is told by `scope`.

#![allow(unsafe_code)] // the calling thread's lane is a raw pointer

use std::{
    cell::Cell,
    ptr,
    sync::atomic::{AtomicBool, AtomicU32, Ordering, fence},
    time::Duration,
};

use ringscope_format::{Kind, Link, LinkRole, Record, Status, Value, ValueType};

use crate::hot::{
    call_site::{CallSite, LOOK_CLOSER, OFF},
    clock,
    lane::Lane,
    queues::DeviceQueue,
    ring_pool,
    span::Span,
    verdict::{Admitted, Refused, Verdict},
};
pub(crate) use crate::hot::{random_ids::random_id, scope::Scope};

/// A kind of metric that can be a span. Made with `metric_kind!`.
pub trait Timed {
    /// Its name and keys.
    fn site() -> &'static CallSite;
    /// Records the span with the fields as they are now.
    fn end(&self, span: &mut Span, request: u128);
}

thread_local! {
    /// The request that this thread works for; 0 if none.
    static REQUEST: Cell<u128> = const { Cell::new(0) };
}

/// The request that this thread works for; 0 if none.
#[inline]
pub(crate) fn current_request() -> u128 {
    REQUEST.get()
}

/// Changes it, and returns what it was.
pub(crate) fn replace_request(request: u128) -> u128 {
    REQUEST.replace(request)
}

/// Whether anything would come of recording here. True for a site that was never used.
#[inline(always)]
pub fn is_on(site: &'static CallSite) -> bool {
    site.state() != OFF
}

/// What becomes of an event.
enum Admission {
    Admitted(&'static Lane, u32),
    /// By a rule.
    Skipped,
    /// There is no recording.
    Nothing,
    /// Counted as lost.
    NoRing {
        name: u32,
    },
}

/// The calling thread's lane and the name to record under. Null if nothing is to be
/// recorded, with a name if that is for want of a ring. In two registers.
#[inline]
fn admitted(site: &'static CallSite, is_error: bool) -> (*const Lane, u32) {
    let state = site.state();
    let lane = ring_pool::current();
    if state == OFF {
        return (ptr::null(), 0);
    }
    if state & LOOK_CLOSER != 0 || lane.is_null() {
        return admitted_closer(site, is_error);
    }
    (lane, state)
}

#[cold]
#[inline(never)]
fn admitted_closer(site: &'static CallSite, is_error: bool) -> (*const Lane, u32) {
    let verdict = if is_error { site.look_closer_at_error() } else { site.look_closer() };
    match admission(verdict) {
        Admission::Admitted(lane, name) => (lane, name),
        Admission::NoRing { name } => (ptr::null(), name),
        Admission::Skipped | Admission::Nothing => (ptr::null(), 0),
    }
}

fn admission(verdict: Verdict) -> Admission {
    match verdict.counted() {
        // What has no span has no duration that a rule could be about.
        Ok(Admitted { name, .. }) => {
            let admitted = |lane| Admission::Admitted(lane, name);
            ring_pool::attach().map_or(Admission::NoRing { name }, admitted)
        }
        Err(Refused::Skipped) => Admission::Skipped,
        Err(Refused::Unrecorded) => Admission::Nothing,
    }
}

/// Puts keys to the values that are there, in front; returns how many.
#[inline(always)]
fn keyed<'a, const N: usize>(
    site: &'static CallSite,
    values: [Option<Value<'a>>; N],
) -> ([(u32, Value<'a>); N], usize) {
    // With the release in `CallSite::apply`: who has seen the site on sees its keys.
    fence(Ordering::Acquire);
    let mut fields = [(0, Value::Bool(false)); N];
    let mut count = 0;
    for (key, value) in site.keys().iter().zip(values) {
        if let Some(value) = value {
            fields[count] = (key.id(), value);
            count += 1;
        }
    }
    (fields, count)
}

/// Of an event that no ring was found for.
// In line: values that are handed on to a function would have to be in memory.
#[inline(always)]
fn lose_slots<const N: usize>(
    site: &'static CallSite,
    values: [Option<Value<'_>>; N],
    request: u128,
) {
    let (fields, count) = keyed(site, values);
    with_links(request, |links| ring_pool::lose_slots(&fields[..count], links));
}

#[inline(always)]
fn with_links<R>(request: u128, then: impl FnOnce(&[Link]) -> R) -> R {
    match request {
        0 => then(&[]),
        id => then(&[Link { id, track: 0, role: LinkRole::Request }]),
    }
}

/// Records something that has no duration.
#[inline]
pub fn record_point<const N: usize>(
    site: &'static CallSite,
    kind: Kind,
    value: Value<'_>,
    values: [Option<Value<'_>>; N],
) {
    let (lane, name) = admitted(site, kind == Kind::ERROR);
    // SAFETY: null, or a lane, and lanes live for ever.
    let Some(lane) = (unsafe { lane.as_ref() }) else {
        if name != 0 {
            lose_slots(site, values, current_request());
        }
        return;
    };
    let (value_type, bits) = value.to_bits();
    let record = Record {
        start: clock::ticks(),
        value: bits,
        name,
        track: lane.track(),
        link: 0,
        kind,
        status: if kind == Kind::ERROR { Status::ERROR } else { Status::UNKNOWN },
        depth: lane.in_flight.depth().min(255) as u8,
        shape: Record::shape_of(0, value_type),
    };
    let (fields, count) = keyed(site, values);
    with_links(current_request(), |links| lane.push_wide(record, &fields[..count], links));
}

/// Ends a span, with the fields that it has.
#[inline]
pub fn end_span<const N: usize>(
    span: &mut Span,
    site: &'static CallSite,
    values: [Option<Value<'_>>; N],
    request: u128,
) {
    let (fields, count) = keyed(site, values);
    with_links(request, |links| span.close_wide(&fields[..count], links));
}

/// Whether the latency of each kernel matters more than throughput.
static GPU_LATENCY: AtomicBool = AtomicBool::new(true);

/// Whether exact times of each kernel are worth some throughput (`RINGSCOPE_GPU_LATENCY`). It
/// chooses how work is put together: the stream of the profiler for Metal gives each
/// kernel a command buffer of its own, or lets kernels share one. Ask it before doing the like,
/// such as a wait for the device after every kernel. What is recorded is recorded either way.
pub fn gpu_latency() -> bool {
    GPU_LATENCY.load(Ordering::Relaxed)
}

pub(crate) fn set_gpu_latency(yes: bool) {
    GPU_LATENCY.store(yes, Ordering::Relaxed);
}

/// Work of a device: its name, what kind of work, how long it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceWork {
    pub(crate) name: &'static CallSite,
    pub(crate) kind: Kind,
    /// Without one it is on the thread's own track.
    pub(crate) queue: Option<&'static DeviceQueue>,
    pub(crate) took: Duration,
    /// How long ago it ended.
    pub(crate) ago: Duration,
    pub(crate) link: u32,
}

/// In place of its number, what a launch has that a rule skipped: its work is skipped too.
pub(crate) const SKIPPED: u32 = u32::MAX;

/// Whether a launch or work is recorded: a rule is asked once for both.
#[inline]
fn admitted_work(work: &DeviceWork) -> Admission {
    let (state, lane) = (work.name.state(), ring_pool::current());
    if state & LOOK_CLOSER != 0 || state == OFF || work.link == SKIPPED || lane.is_null() {
        return admitted_work_closer(work);
    }
    // SAFETY: not null, so it points to a lane, and lanes live for ever.
    Admission::Admitted(unsafe { &*lane }, state)
}

#[cold]
#[inline(never)]
fn admitted_work_closer(work: &DeviceWork) -> Admission {
    let is_launch = work.kind == Kind::LAUNCH;
    let verdict = match work.link {
        _ if work.name.state() == OFF => Verdict::Nothing,
        SKIPPED => work.name.look_at_skipped(),
        _ if is_launch => work.name.look_closer_at_launch(),
        0 => work.name.look_closer(),
        _ => work.name.look_closer_at_launched(),
    };
    admission(verdict)
}

/// Records work that has ended. `keys` are those of the fields, interned by their own site.
/// Returns the number for what follows from it: [`SKIPPED`] if a rule skipped it.
#[inline]
pub(crate) fn record_work<const N: usize>(
    work: DeviceWork,
    keys: &'static CallSite,
    values: [Option<Value<'_>>; N],
) -> u32 {
    let (lane, name) = match admitted_work(&work) {
        Admission::Admitted(lane, name) => (lane, name),
        Admission::Skipped => return SKIPPED,
        Admission::Nothing => return work.link,
        Admission::NoRing { .. } => {
            lose_slots(keys, values, current_request());
            return work.link;
        }
    };
    keys.intern_keys();
    let took = clock::in_ticks(work.took);
    let end = clock::ticks().wrapping_sub(clock::in_ticks(work.ago));
    let record = Record {
        start: end.wrapping_sub(took),
        value: took,
        name,
        track: work.queue.map_or(lane.track(), DeviceQueue::track),
        link: work.link,
        kind: work.kind,
        status: Status::UNKNOWN,
        depth: if work.queue.is_some() { 0 } else { lane.in_flight.depth().min(255) as u8 },
        shape: Record::shape_of(0, ValueType::None),
    };
    let (fields, count) = keyed(keys, values);
    with_links(current_request(), |links| lane.push_wide(record, &fields[..count], links));
    work.link
}

/// Whether a piece of device work is to be recorded, decided once for its launch and all
/// that follows from it: the number of its name.
#[cfg(feature = "gpu")]
#[inline]
pub(crate) fn admit(site: &'static CallSite) -> Option<u32> {
    let (lane, name) = admitted(site, false);
    (!lane.is_null()).then_some(name)
}

/// Work that was admitted, with its times in ticks.
#[cfg(feature = "gpu")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmittedWork {
    pub(crate) site: &'static CallSite,
    /// What [`admit`] returned.
    pub(crate) name: u32,
    pub(crate) kind: Kind,
    /// Without one it is on the thread's own track.
    pub(crate) queue: Option<&'static DeviceQueue>,
    pub(crate) start: u64,
    pub(crate) took: u64,
    pub(crate) link: u32,
    /// That of the launch: the work is recorded by whoever learns of its end.
    pub(crate) request: u128,
}

/// The number of a site's name, whatever rules say of it: for work that was admitted under
/// another. `None` if it has none.
#[cfg(feature = "gpu")]
pub(crate) fn name_of(site: &'static CallSite) -> Option<u32> {
    Some(site.name_id()).filter(|&id| id != 0)
}

/// Records work that was admitted, unless the recording has ended since: whether it did.
#[cfg(feature = "gpu")]
pub(crate) fn record_admitted<const N: usize>(
    work: AdmittedWork,
    keys: &'static CallSite,
    values: [Option<Value<'_>>; N],
) -> bool {
    if !is_on(work.site) {
        return false;
    }
    let lane = ring_pool::current();
    // SAFETY: a lane that is not null lives for ever.
    let lane = if lane.is_null() { ring_pool::attach() } else { Some(unsafe { &*lane }) };
    let Some(lane) = lane else {
        lose_slots(keys, values, work.request);
        return false;
    };
    keys.intern_keys();
    let record = Record {
        start: work.start,
        value: work.took,
        name: work.name,
        track: work.queue.map_or(lane.track(), DeviceQueue::track),
        link: work.link,
        kind: work.kind,
        status: Status::UNKNOWN,
        depth: if work.queue.is_some() { 0 } else { lane.in_flight.depth().min(255) as u8 },
        shape: Record::shape_of(0, ValueType::None),
    };
    let (fields, count) = keyed(keys, values);
    with_links(work.request, |links| lane.push_wide(record, &fields[..count], links));
    true
}

/// A number that ties a launch to the work that it caused; never 0, nor [`SKIPPED`].
#[inline]
pub(crate) fn next_link() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).clamp(1, SKIPPED - 1)
}
