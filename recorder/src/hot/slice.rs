//! Ends of spans that are one slice of a longer one: entered now, and perhaps
//! again later, here or on another thread.
//!
//! A slice costs what a span costs; the number of the longer span travels in the
//! record's link.

#![allow(unsafe_code)] // the guard's pointer to its thread's lane

use ringscope_format::{Kind, Link, LostCause, Record, SkipCause, Value, slots_needed};

use crate::hot::{
    call_site::{CallSite, LOOK_CLOSER, OFF},
    clock,
    lane::{Lane, span_words},
    ring_pool::{self, UNATTACHED},
    span::{Span, push_and_leave},
};

/// What makes the last word of a span that of a slice.
const SLICE_NOT_SPAN: u64 = ((Kind::SLICE.0 ^ Kind::SPAN.0) as u64) << 32;

impl Span {
    /// Opens a span in the ordinary case: the site is on, no rule applies, and the
    /// thread is known and not too deep in spans. In any other nothing has happened.
    #[inline(always)]
    pub(crate) fn enter_simple(site: &'static CallSite) -> Option<Span> {
        let state = site.state();
        if state == OFF || state & LOOK_CLOSER != 0 {
            return None;
        }
        // SAFETY: null, or a lane, and lanes live for ever.
        let lane = unsafe { ring_pool::current().as_ref() }?;
        let room = lane.in_flight.room()?;
        let names = lane.track_word() | u64::from(state);
        let start = clock::hardware_ticks();
        Some(Span::begun(lane, site, start, names, room.enter(start, state)))
    }

    /// When it began; 0 if it is not recorded.
    #[inline(always)]
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The track it began on; 0 if it is not recorded.
    #[inline(always)]
    pub(crate) fn track(&self) -> u32 {
        (self.names >> 32) as u32
    }

    /// Ends the span as a slice of span `number`, and returns how long it was in
    /// ticks. Not to be ended again: neither by this nor by dropping it.
    #[inline(always)]
    pub(crate) fn end_slice(&self, number: u32) -> u64 {
        // SAFETY: null, or a lane, and lanes live for ever.
        let Some(lane) = (unsafe { self.lane.as_ref() }) else { return 0 };
        if self.needs_closer_look(lane) {
            return end_slice_closer(lane, self, number, &[], &[]);
        }
        let end = clock::hardware_ticks();
        let [start, duration, names, tags] = self.slice_words(end, self.names, self.place, number);
        push_and_leave(lane, start, duration, names, tags);
        duration
    }

    /// The same for a slice that has something to tell.
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
        let [start, duration, names, tags] = span_words(self.start, end, names, depth, self.status);
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
