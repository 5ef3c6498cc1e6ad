//! Spans that are one slice of a longer one: entered now, and perhaps again later,
//! here or on another thread.
//!
//! A slice costs what a span costs; the number of the longer span travels in the
//! record's link.

#![allow(unsafe_code)] // a slice is written field by field, to where it stays

use std::mem::ManuallyDrop;

use ringscope_format::{Kind, Link, LostCause, Record, SkipCause, Status, Value, slots_needed};

use crate::hot::{
    call_site::{CallSite, LOOK_CLOSER, OFF},
    clock,
    in_flight::Room,
    lane::{Lane, depth_in},
    ring_pool::UNATTACHED,
    span::{Span, push_and_leave_in_line},
};

/// Where the place in the in-flight stack is in the last word of a slice. Its own 16 bits are
/// those of the depth and the shape.
const PLACE: u32 = 48;

/// The last word of the slices of span `number`, but for their place. Nobody tells how a
/// slice went.
#[inline(always)]
pub(crate) const fn slice_tags(number: u32) -> u64 {
    (Kind::SLICE.0 as u64) << 32 | (Status::UNKNOWN.0 as u64) << 40 | number as u64
}

/// What was entered and is to be left again. Dropping it does nothing.
#[derive(Debug)]
pub(crate) struct Slice {
    site: &'static CallSite,
    /// 0 if it is neither recorded nor timed.
    start: u64,
    /// As in a [`Span`]; without a name's id if it is not recorded.
    names: u64,
    /// The last word of the record, with the place in the in-flight stack for the depth.
    tags: u64,
}

/// A slice that can be opened, in the ordinary case: the site is on, no rule applies, and the
/// thread is known and not too deep in spans. To be opened before anything else is; nobody
/// sees it yet.
pub(crate) struct Opening {
    site: &'static CallSite,
    names: u64,
    room: Room<'static>,
}

impl Opening {
    #[inline(always)]
    pub(crate) fn of(lane: &'static Lane, site: &'static CallSite) -> Option<Opening> {
        let state = site.state();
        if state == OFF || state & LOOK_CLOSER != 0 {
            return None;
        }
        let room = lane.in_flight.room(state)?;
        let names = lane.track_word() | u64::from(state);
        Some(Opening { site, names, room })
    }

    /// Opens it. Of all that entering takes this is the last: the span's own time has none of it,
    /// and little has to be remembered beyond the look at the clock. Hence field by field, each
    /// written once and as soon as it is known; `tags` are asked for in between.
    ///
    /// # Safety
    ///
    /// `slice` is valid for writes.
    #[inline(always)]
    pub(crate) unsafe fn open(self, slice: *mut Slice, tags: impl FnOnce() -> u64) {
        let Self { site, names, room } = self;
        // SAFETY: as the caller promises.
        unsafe {
            (&raw mut (*slice).site).write(site);
            (&raw mut (*slice).names).write(names);
            (&raw mut (*slice).tags).write(tags() | u64::from(room.place()) << PLACE);
            let start = clock::hardware_ticks();
            (&raw mut (*slice).start).write(start);
            room.enter(start);
        }
    }
}

impl Slice {
    /// One that is not recorded.
    pub(crate) const fn inert(site: &'static CallSite, tags: u64) -> Slice {
        Slice { site, start: 0, names: 0, tags }
    }

    /// One that is not recorded, and timed for the life that it is part of.
    #[cold]
    pub(crate) fn only_timed(site: &'static CallSite, tags: u64, track: u32) -> Slice {
        let names = u64::from(track) << 32;
        Slice { names, start: clock::ticks(), ..Slice::inert(site, tags) }
    }

    /// What `span` has opened.
    pub(crate) fn of(span: Span, tags: u64) -> Slice {
        let Span { site, start, names, place, .. } = *ManuallyDrop::new(span);
        // The place of a span that is not counted is beyond all others in 16 bits, too.
        let place = place.min(u16::MAX.into());
        Slice { site, start, names, tags: tags | u64::from(place) << PLACE }
    }

    /// Whether it will be recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.names as u32 != 0
    }

    /// The number of the longer span.
    #[inline(always)]
    pub(crate) fn number(&self) -> u32 {
        self.tags as u32
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

    /// Ends the slice in the ordinary case, and tells `count` how long it was in ticks before it
    /// is recorded. Not to be ended again. Whether it was; in any other case nothing has happened.
    ///
    /// `lane` is that of the calling thread, which has opened it and has had no other.
    #[inline(always)]
    pub(crate) fn end_simply(&self, lane: Option<&'static Lane>, count: impl FnOnce(u64)) -> bool {
        // A name, and no `LOOK_CLOSER`: one comparison.
        let (Some(lane), 1..) = (lane, (self.names as u32).cast_signed()) else { return false };
        let duration = clock::hardware_ticks().wrapping_sub(self.start);
        count(duration);
        push_and_leave_in_line(lane, self.start, duration, self.names, self.tags);
        true
    }

    /// Ends one that is recorded, in any case: fields, a rule, no hardware counter, a span that is
    /// not listed, or a thread that has given its lane back. Returns how long it was in ticks.
    #[inline(never)]
    pub(crate) fn end_with(
        &self,
        lane: Option<&'static Lane>,
        fields: &[(u32, Value<'_>)],
        links: &[Link],
    ) -> u64 {
        let end = clock::ticks();
        let names = self.names & !u64::from(LOOK_CLOSER);
        let place = depth_in(self.tags);
        let tags = slice_tags(self.number()) | u64::from(place.min(255)) << PLACE;
        let words = [self.start, end.wrapping_sub(self.start), names, tags];
        let record: Record = bytemuck::cast(words);
        let ticks = (record.value as i64).max(0) as u64;
        let Some(lane) = lane.filter(|lane| lane.track() == record.track) else {
            UNATTACHED.lose(LostCause::ThreadExit, slots_needed(fields, links));
            return ticks;
        };
        if (0..self.site.at_least() as i64).contains(&(record.value as i64)) {
            lane.skip(SkipCause::TooShort);
        } else {
            lane.push_wide(record, fields, links);
        }
        lane.in_flight.leave(place);
        ticks
    }
}
