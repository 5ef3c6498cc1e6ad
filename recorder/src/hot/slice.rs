//! Ends of spans that are one slice of a longer one: entered now, and perhaps
//! again later, here or on another thread.
//!
//! A slice costs what a span costs; the number of the longer span travels in the
//! record's link.

#![allow(unsafe_code)] // the guard's pointer to its thread's lane

use ringscope_format::{Kind, Link, LostCause, Record, SkipCause, Status, Value, slots_needed};

use crate::hot::{
    call_site::{CallSite, LOOK_CLOSER, OFF},
    clock,
    in_flight::Room,
    lane::{Lane, span_words},
    ring_pool::UNATTACHED,
    span::{Span, push_and_leave_in_line},
};

/// What makes the last word of a span that of a slice.
const SLICE_NOT_SPAN: u64 = ((Kind::SLICE.0 ^ Kind::SPAN.0) as u64) << 32;

impl Span {
    /// A span that can be opened, in the ordinary case: the site is on, no rule applies, and the
    /// thread is known and not too deep in spans. To be opened before anything else is, and not to
    /// be dropped otherwise; nobody sees it yet.
    #[inline(always)]
    pub(crate) fn prepare(
        lane: &'static Lane,
        site: &'static CallSite,
    ) -> Option<(Span, Room<'static>)> {
        let state = site.state();
        if state == OFF || state & LOOK_CLOSER != 0 {
            return None;
        }
        let room = lane.in_flight.room(state)?;
        let names = lane.track_word() | u64::from(state);
        Some((Span::begun(lane, site, 0, names, room.place()), room))
    }

    /// Opens it. Of all that entering takes this is the last: the span's own time has none of it,
    /// and little has to be remembered beyond the look at the clock.
    #[inline(always)]
    pub(crate) fn open_in(&mut self, room: Room<'_>) {
        self.start = clock::hardware_ticks();
        room.enter(self.start);
    }

    /// One that is not recorded, and timed for the life that it is part of.
    #[cold]
    pub(crate) fn only_timed(site: &'static CallSite, track: u32) -> Span {
        let mut span = Span::inert(site);
        span.names = u64::from(track) << 32;
        span.start = clock::ticks();
        span
    }

    /// When it began; 0 if it is neither recorded nor timed.
    #[inline(always)]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The track it began on; 0 if it is neither recorded nor timed.
    #[inline(always)]
    pub(crate) fn track(&self) -> u32 {
        (self.names >> 32) as u32
    }

    /// Ends the span as a slice of span `number`, in the ordinary case, and returns how long it
    /// was in ticks. Not to be ended again: neither by this nor by dropping it. In any other case
    /// nothing has happened.
    #[inline(always)]
    pub(crate) fn end_simple_slice(&self, number: u32) -> Option<u64> {
        // SAFETY: null, or a lane, and lanes live for ever.
        let lane = unsafe { self.lane.as_ref() }?;
        if self.needs_closer_look(lane) {
            return None;
        }
        let end = clock::hardware_ticks();
        let [start, duration, names, tags] = self.slice_words(end, self.names, self.place, number);
        push_and_leave_in_line(lane, start, duration, names, tags);
        Some(duration)
    }

    /// The same in any case, for a slice that may have something to tell.
    pub(crate) fn end_slice_with(
        &self,
        number: u32,
        fields: &[(u32, Value<'_>)],
        links: &[Link],
    ) -> u64 {
        // SAFETY: null, or a lane, and lanes live for ever.
        let Some(lane) = (unsafe { self.lane.as_ref() }) else { return 0 };
        end_slice_closer(lane, self, number, fields, links)
    }

    #[inline(always)]
    fn slice_words(&self, end: u64, names: u64, depth: u32, number: u32) -> [u64; 4] {
        // Nobody tells how a slice went.
        let status = Status::UNKNOWN;
        let [start, duration, names, tags] = span_words(self.start, end, names, depth, status);
        [start, duration, names, tags ^ SLICE_NOT_SPAN | u64::from(number)]
    }
}

/// Fields, a rule, no hardware counter, a span that is not listed, or a thread
/// that has given its lane back.
#[inline(never)]
fn end_slice_closer(
    lane: &'static Lane,
    span: &Span,
    number: u32,
    fields: &[(u32, Value<'_>)],
    links: &[Link],
) -> u64 {
    let end = clock::ticks();
    let names = span.names & !u64::from(LOOK_CLOSER);
    let words = span.slice_words(end, names, span.place.min(255), number);
    let record: Record = bytemuck::cast(words);
    let ticks = (record.value as i64).max(0) as u64;
    if lane.track() != record.track {
        UNATTACHED.lose(LostCause::ThreadExit, slots_needed(fields, links));
        return ticks;
    }
    if (0..span.site.at_least() as i64).contains(&(record.value as i64)) {
        lane.skip(SkipCause::TooShort);
    } else {
        lane.push_wide(record, fields, links);
    }
    lane.in_flight.leave(span.place);
    ticks
}
