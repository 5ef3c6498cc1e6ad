//! Spans: guards that record how long they lived.

#![allow(unsafe_code)] // a guard holds a pointer to its thread's lane

use std::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr,
    sync::atomic::{Ordering::Acquire, fence},
};

use ringscope_format::{Kind, Link, LostCause, Record, SkipCause, Status, Value, slots_needed};

use crate::hot::{
    call_site::{CallSite, LOOK_CLOSER, OFF},
    clock,
    lane::{Lane, depth_in, span_words},
    ring_pool::{self, ThreadHandle, UNATTACHED},
    verdict::Admitted,
};

/// An open span. Dropping it records it.
///
/// Made by [`span!`](crate::span!). Not `Send`: it nests within the spans of its
/// thread. For a span that ends on another thread, see [`AsyncSpan`](crate::AsyncSpan).
#[must_use = "a span lasts until it is dropped; bind it: `let _span = span!(...)`"]
#[derive(Debug)]
pub struct Span {
    /// Null if nothing is recorded.
    pub(super) lane: *const Lane,
    pub(super) site: &'static CallSite,
    pub(super) start: u64,
    /// The name's id, with [`LOOK_CLOSER`] if the end needs a closer look too, and
    /// above it the lane's track when the span began.
    pub(super) names: u64,
    /// Place in the in-flight stack, which is also the depth.
    pub(super) place: u32,
    pub(super) status: Status,
    not_send: PhantomData<*const ()>,
}

impl Span {
    /// For the macros: opens a span on the calling thread.
    #[doc(hidden)]
    #[inline(always)]
    pub fn enter(site: &'static CallSite) -> Span {
        Self::enter_or(site, || {})
    }

    /// The same, and what to do if there is no ring for it.
    #[inline(always)]
    fn enter_or(site: &'static CallSite, no_ring: impl FnOnce()) -> Span {
        let name = site.state();
        if name == OFF {
            return Span::inert(site);
        }
        let lane = ring_pool::current();
        if name & LOOK_CLOSER != 0 || lane.is_null() {
            return Span::open_closer(site, no_ring);
        }
        // SAFETY: not null, so it points to a lane, and lanes live for ever.
        Span::open(unsafe { &*lane }, site, name, clock::hardware_ticks)
    }

    /// For the macros: opens a span through a handle.
    #[doc(hidden)]
    #[inline(always)]
    pub fn enter_in(thread: &ThreadHandle, site: &'static CallSite) -> Span {
        Self::enter_in_or(thread, site, || {})
    }

    #[inline(always)]
    fn enter_in_or(thread: &ThreadHandle, site: &'static CallSite, no_ring: impl FnOnce()) -> Span {
        let name = site.state();
        if name == OFF {
            return Span::inert(site);
        }
        if name & LOOK_CLOSER != 0 || !thread.is_current() {
            return Span::open_closer(site, no_ring);
        }
        Span::open(thread.lane(), site, name, clock::hardware_ticks)
    }

    #[inline(always)]
    pub(crate) fn inert(site: &'static CallSite) -> Span {
        Span {
            lane: ptr::null(),
            site,
            start: 0,
            names: 0,
            place: 0,
            status: Status::UNKNOWN,
            not_send: PhantomData,
        }
    }

    #[inline(always)]
    fn open_closer(site: &'static CallSite, no_ring: impl FnOnce()) -> Span {
        let (lane, name) = look_closer(site);
        // SAFETY: null, or a lane, and lanes live for ever.
        let Some(lane) = (unsafe { lane.as_ref() }) else {
            if name != 0 {
                no_ring();
            }
            return Span::inert(site);
        };
        Span::open(lane, site, name, clock::ticks)
    }

    #[inline(always)]
    fn open(
        lane: &'static Lane,
        site: &'static CallSite,
        name: u32,
        now: impl FnOnce() -> u64,
    ) -> Span {
        let track = lane.track_word();
        let start = now();
        let (place, name) = match lane.in_flight.enter(start, name & !LOOK_CLOSER) {
            Some(place) => (place, name),
            None => enter_unlisted(lane, name),
        };
        let names = track | u64::from(name);
        Span { lane, site, start, names, place, status: Status::UNKNOWN, not_send: PhantomData }
    }

    /// Marks the span as failed.
    #[inline]
    pub fn fail(&mut self) {
        self.status = Status::ERROR;
    }

    /// Marks the span as succeeded, which is not the same as saying nothing.
    #[inline]
    pub fn succeed(&mut self) {
        self.status = Status::OK;
    }

    /// Marks the span as cancelled.
    #[inline]
    pub fn cancel(&mut self) {
        self.status = Status::CANCELLED;
    }

    /// Whether this span will be recorded.
    #[inline]
    pub fn is_recording(&self) -> bool {
        !self.lane.is_null()
    }

    /// Ends the span: reads the clock, and leaves the rest to [`push_and_leave`].
    #[inline(always)]
    fn close(&self) {
        // SAFETY: null, or a lane, and lanes live for ever.
        let Some(lane) = (unsafe { self.lane.as_ref() }) else { return };
        if self.needs_closer_look(lane) {
            let Self { site, start, names, place, status, .. } = *self;
            return close_closer(lane, site, start, names, place, status);
        }
        let end = clock::hardware_ticks();
        let [start, duration, names, tags] =
            span_words(self.start, end, self.names, self.place, self.status);
        push_and_leave(lane, start, duration, names, tags);
    }

    /// Ends the span with more to say. Dropping it then does nothing more.
    #[inline(always)]
    pub(crate) fn close_wide(&mut self, fields: &[(u32, Value<'_>)], links: &[Link]) {
        let Some(lane) = take_lane(&mut self.lane) else { return };
        if self.needs_closer_look(lane) {
            return close_wide_closer(lane, self, fields, links);
        }
        let end = clock::hardware_ticks();
        let words = span_words(self.start, end, self.names, self.place, self.status);
        lane.push_wide(bytemuck::cast(words), fields, links);
        lane.in_flight.leave(self.place);
    }

    /// Whether a rule decides at the end, or the lane is not this thread's any
    /// more. One comparison: `names` with the bit set, or with another track.
    #[inline(always)]
    fn needs_closer_look(&self, lane: &Lane) -> bool {
        (self.names ^ lane.track_word()) >> LOOK_CLOSER.trailing_zeros() != 0
    }
}

/// The end of a span, after its second look at the clock.
///
/// Not in line: what is in line at every span is then small enough that the
/// compiler keeps it there, and a span without a recorder calls nothing. The record
/// comes as words, in registers, and goes from there to the ring.
#[inline(never)]
pub(super) fn push_and_leave(
    lane: &'static Lane,
    start: u64,
    duration: u64,
    names: u64,
    tags: u64,
) {
    push_and_leave_in_line(lane, start, duration, names, tags);
}

/// The same for the one place that every span of `tracing` ends at.
#[inline(always)]
pub(super) fn push_and_leave_in_line(
    lane: &'static Lane,
    start: u64,
    duration: u64,
    names: u64,
    tags: u64,
) {
    // Record first, leave second: whoever looks in between finds the span twice,
    // never not at all.
    lane.push(bytemuck::cast([start, duration, names, tags]));
    lane.in_flight.leave(depth_in(tags));
}

impl Drop for Span {
    #[inline(always)]
    fn drop(&mut self) {
        self.close();
    }
}

/// Takes a span's lane away: dropping the span then has nothing left to do.
#[inline(always)]
fn take_lane(lane: &mut *const Lane) -> Option<&'static Lane> {
    // SAFETY: null, or a lane, and lanes live for ever.
    unsafe { std::mem::take(lane).as_ref() }
}

/// First use of the site or the thread, or a rule to follow. Null if nothing is to be recorded,
/// with a name if that is for want of a ring.
///
/// Returns what fits into registers: the guard of the ordinary case then never
/// needs to exist in memory.
#[cold]
#[inline(never)]
fn look_closer(site: &'static CallSite) -> (*const Lane, u32) {
    const NOTHING: (*const Lane, u32) = (ptr::null(), 0);
    let Ok(Admitted { name, if_long }) = site.look_closer().counted() else { return NOTHING };
    let name = if if_long || !clock::is_hardware() { name | LOOK_CLOSER } else { name };
    (ring_pool::attach().map_or(ptr::null(), ptr::from_ref), name)
}

/// Opens a span inside of too many others to be listed. Its end needs a closer
/// look: only there is the depth cut to what a record holds.
#[cold]
#[inline(never)]
fn enter_unlisted(lane: &'static Lane, name: u32) -> (u32, u32) {
    (lane.in_flight.enter_unlisted(), name | LOOK_CLOSER)
}

/// End of a span that a rule applies to, whose thread has given its lane back,
/// that is not listed, or for which there is no hardware counter to read.
///
/// The guard comes in pieces, so that it never needs to exist in memory.
#[cold]
#[inline(never)]
fn close_closer(
    lane: &'static Lane,
    site: &'static CallSite,
    start: u64,
    names: u64,
    place: u32,
    status: Status,
) {
    let span = Span { lane, site, start, names, place, status, not_send: PhantomData };
    close_wide_closer(lane, &ManuallyDrop::new(span), &[], &[]);
}

#[cold]
#[inline(never)]
fn close_wide_closer(
    lane: &'static Lane,
    span: &Span,
    fields: &[(u32, Value<'_>)],
    links: &[Link],
) {
    let end = clock::ticks();
    let names = span.names & !u64::from(LOOK_CLOSER);
    let depth = span.place.min(255);
    let words = span_words(span.start, end, names, depth, span.status);
    let record: Record = bytemuck::cast(words);
    if lane.track() != record.track {
        return UNATTACHED.lose(LostCause::ThreadExit, slots_needed(fields, links));
    }
    // A counter that ran backwards makes a negative duration: that is news.
    if (0..span.site.at_least() as i64).contains(&(record.value as i64)) {
        lane.skip(SkipCause::TooShort);
    } else {
        lane.push_wide(record, fields, links);
    }
    lane.in_flight.leave(span.place);
}

/// An open span with fields, recorded together with it when it ends.
#[must_use = "a span lasts until it is dropped; bind it: `let _span = span!(...)`"]
#[derive(Debug)]
pub struct SpanWith<'a, const N: usize> {
    span: Span,
    fields: [(u32, Value<'a>); N],
}

impl<'a, const N: usize> SpanWith<'a, N> {
    /// For the macros.
    #[doc(hidden)]
    #[inline(always)]
    pub fn enter(site: &'static CallSite, values: [Value<'a>; N]) -> Self {
        // `move`, here and below: values that are referred to would have to be in memory.
        Self::new(Span::enter_or(site, move || lose_slots(site, values)), site, values)
    }

    /// For the macros.
    #[doc(hidden)]
    #[inline(always)]
    pub fn enter_in(
        thread: &ThreadHandle,
        site: &'static CallSite,
        values: [Value<'a>; N],
    ) -> Self {
        let span = Span::enter_in_or(thread, site, move || lose_slots(site, values));
        Self::new(span, site, values)
    }

    #[inline(always)]
    fn new(span: Span, site: &'static CallSite, values: [Value<'a>; N]) -> Self {
        // Not looked up for a span that is not recorded, which has no use for them.
        let fields =
            if span.is_recording() { keyed(site, values) } else { values.map(|value| (0, value)) };
        Self { span, fields }
    }
}

/// Of an event that no ring was found for.
#[cold]
#[inline(never)]
pub(super) fn lose_slots<const N: usize>(site: &'static CallSite, values: [Value<'_>; N]) {
    ring_pool::lose_slots(&keyed(site, values), &[]);
}

/// Puts the keys of a site to its values.
#[inline(always)]
pub(crate) fn keyed<'a, const N: usize>(
    site: &'static CallSite,
    values: [Value<'a>; N],
) -> [(u32, Value<'a>); N] {
    // With the release in `CallSite::apply`: who has seen the site switched on
    // sees its keys. Costs nothing on x86-64, and elsewhere only events with fields.
    fence(Acquire);
    let keys = site.keys();
    std::array::from_fn(|i| (keys.get(i).map_or(0, |key| key.id()), values[i]))
}

impl<const N: usize> std::ops::Deref for SpanWith<'_, N> {
    type Target = Span;
    fn deref(&self) -> &Span {
        &self.span
    }
}

impl<const N: usize> std::ops::DerefMut for SpanWith<'_, N> {
    fn deref_mut(&mut self) -> &mut Span {
        &mut self.span
    }
}

impl<const N: usize> Drop for SpanWith<'_, N> {
    #[inline(always)]
    fn drop(&mut self) {
        self.span.close_wide(&self.fields, &[]);
    }
}

/// For the macros: records something that has no duration.
#[doc(hidden)]
#[inline]
pub fn record_point<const N: usize>(
    site: &'static CallSite,
    kind: Kind,
    value: Value<'_>,
    values: [Value<'_>; N],
) {
    let state = site.state();
    if state == OFF {
        return;
    }
    let lane = ring_pool::current();
    if state & LOOK_CLOSER != 0 || lane.is_null() {
        return record_point_closer(site, kind, value, values);
    }
    // SAFETY: not null, so it points to a lane, and lanes live for ever.
    push_point(unsafe { &*lane }, clock::hardware_ticks(), site, state, kind, value, values);
}

#[cold]
#[inline(never)]
fn record_point_closer<const N: usize>(
    site: &'static CallSite,
    kind: Kind,
    value: Value<'_>,
    values: [Value<'_>; N],
) {
    let is_error = kind == Kind::ERROR;
    let verdict = if is_error { site.look_closer_at_error() } else { site.look_closer() };
    // A point has no duration, so a rule about durations does not concern it.
    let Ok(Admitted { name, .. }) = verdict.counted() else { return };
    match ring_pool::attach() {
        Some(lane) => push_point(lane, clock::ticks(), site, name, kind, value, values),
        None => lose_slots(site, values),
    }
}

#[inline]
fn push_point<const N: usize>(
    lane: &'static Lane,
    start: u64,
    site: &'static CallSite,
    name: u32,
    kind: Kind,
    value: Value<'_>,
    values: [Value<'_>; N],
) {
    let (value_type, bits) = value.to_bits();
    let status = if kind == Kind::ERROR { Status::ERROR } else { Status::UNKNOWN };
    let record = Record {
        start,
        value: bits,
        name,
        track: lane.track(),
        link: 0,
        kind,
        status,
        depth: lane.in_flight.depth().min(255) as u8,
        shape: Record::shape_of(0, value_type),
    };
    if N == 0 {
        lane.push(record);
    } else {
        lane.push_wide(record, &keyed(site, values), &[]);
    }
}

/// For the macros: "no value".
#[doc(hidden)]
pub const NO_VALUE: Value<'static> = Value::Text("");
