//! Spans that may end on another thread than they began on.

#![allow(unsafe_code)] // the calling thread's lane is a raw pointer

use std::sync::{
    LazyLock,
    atomic::{AtomicBool, Ordering},
};

use ringscope_format::{Kind, Link, LinkRole, Record, SkipCause, Status, Value, ValueType};

use crate::hot::{
    call_site::{CallSite, LOOK_CLOSER, OFF},
    clock::ticks,
    homes,
    lane::Lane,
    open_spans::{OpenSpanCopy, OpenSpans},
    ring_pool,
    span::keyed,
    verdict::Admitted,
};

/// How many asynchronous spans, tasks of `tracing` among them, are listed while they are open.
pub(crate) const LISTED: usize = 512;

/// The table of open spans, made when the first one begins.
pub(crate) static OPEN: LazyLock<Box<OpenSpans<LISTED>>> = LazyLock::new(|| {
    homes::keep();
    Box::new(OpenSpans::new())
});

/// Whether the drain has anything to look for there.
pub(crate) static EVER_USED: AtomicBool = AtomicBool::new(false);

/// A span that can be sent to another thread, held across an `await`, and ended
/// wherever that is. Made by [`async_span!`](crate::async_span!).
///
/// It belongs to no thread's stack and may overlap others in any way. One
/// record, written when it ends, says on which thread it began and ended; its
/// [`id`](AsyncSpan::id) tells it from others of the same name.
///
/// ```
/// let request = ringscope::async_span!("request", size = 17);
/// std::thread::spawn(move || request.end()).join().unwrap();
/// ```
#[must_use = "a span lasts until it is dropped or ended"]
#[derive(Debug)]
pub struct AsyncSpan<const N: usize = 0> {
    /// 0 if nothing is recorded.
    id: u64,
    start: u64,
    name: u32,
    track: u32,
    listed: Option<u32>,
    /// Whether a rule decides at the end.
    if_long: bool,
    status: Status,
    site: &'static CallSite,
    values: [Value<'static>; N],
}

impl<const N: usize> AsyncSpan<N> {
    /// For the macros.
    #[doc(hidden)]
    pub fn begin(site: &'static CallSite, values: [Value<'static>; N]) -> Self {
        let mut span = Self {
            id: 0,
            start: 0,
            name: 0,
            track: 0,
            listed: None,
            if_long: false,
            status: Status::UNKNOWN,
            site,
            values,
        };
        let state = site.state();
        let name = match state {
            OFF => return span,
            on if on & LOOK_CLOSER == 0 => on,
            _ => {
                let Ok(Admitted { name, if_long }) = site.look_closer().counted() else {
                    return span;
                };
                span.if_long = if_long;
                name
            }
        };
        let Some(lane) = this_threads_lane() else {
            span.lose_slots();
            return span;
        };
        span.id = lane.next_span_id();
        span.name = name;
        span.track = lane.track();
        span.start = ticks();
        span.listed =
            list(OpenSpanCopy { id: span.id, start: span.start, name, track: span.track });
        span
    }

    /// No ring was found for it.
    #[cold]
    fn lose_slots(&self) {
        let own = Link { id: u128::from(self.id), track: 0, role: LinkRole::Own };
        ring_pool::lose_slots(&keyed(self.site, self.values), &[own]);
    }

    /// Ends the span here and now; dropping it does the same.
    pub fn end(self) {}

    /// Tells this span from all others of the recording; 0 if it is not recorded.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Marks the span as failed.
    pub fn fail(&mut self) {
        self.status = Status::ERROR;
    }

    /// Marks the span as succeeded.
    pub fn succeed(&mut self) {
        self.status = Status::OK;
    }
}

impl<const N: usize> Drop for AsyncSpan<N> {
    fn drop(&mut self) {
        if self.id == 0 {
            return;
        }
        let end = ticks();
        // A recorder that has stopped meanwhile takes nothing more.
        let is_on = self.site.state() != OFF;
        if is_on && let Some(lane) = this_threads_lane() {
            let record = Record {
                start: self.start,
                value: end.wrapping_sub(self.start),
                name: self.name,
                track: self.track,
                link: 0,
                kind: Kind::ASYNC_SPAN,
                status: self.status,
                depth: 0,
                shape: Record::shape_of(0, ValueType::None),
            };
            let least = if self.if_long { self.site.at_least() } else { 0 };
            let own = Link { id: u128::from(self.id), track: lane.track(), role: LinkRole::Own };
            if (0..least as i64).contains(&(record.value as i64)) {
                lane.skip(SkipCause::TooShort);
            } else {
                lane.push_wide(record, &keyed(self.site, self.values), &[own]);
            }
        } else if is_on {
            self.lose_slots();
        }
        if let Some(place) = self.listed {
            OPEN.close(place);
        }
    }
}

/// Lists a span while it is open; its place, if there was one.
pub(crate) fn list(span: OpenSpanCopy) -> Option<u32> {
    EVER_USED.store(true, Ordering::Relaxed);
    OPEN.open(span)
}

fn this_threads_lane() -> Option<&'static Lane> {
    // SAFETY: null, or a lane, and lanes live for ever.
    let lane = unsafe { ring_pool::current().as_ref() };
    lane.or_else(ring_pool::attach)
}
