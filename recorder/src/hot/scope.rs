//! Scopes: times that a thread works for a request.
//!
//! One record for each, written when the request is left, says for whom everything was that
//! began in between on the same thread. So spans, events and counters need not say it, nor
//! look it up: what they cost does not depend on whether a request is entered.
//!
//! A scope is no span: it is not on the in-flight stack, and changes nobody's depth. What it
//! cannot promise: while it is open, only the events that carry the request themselves tell
//! of it; so it is for good if the process is killed, or if its guard is forgotten.

#![allow(unsafe_code)] // a guard holds a pointer to its thread's lane

use std::ptr;

use ringscope_format::{Kind, Link, LinkRole, LostCause, Record};

use crate::hot::{
    call_site::{CallSite, LOOK_CLOSER, OFF},
    clock,
    lane::Lane,
    ring_pool::{self, UNATTACHED},
};

static SITE: CallSite = CallSite::new("request.scope", "", "", 0, &[]);

/// A scope that is open. Ended by [`Scope::end`]; dropping it does nothing.
#[derive(Debug)]
pub(crate) struct Scope {
    /// Null if nothing is recorded.
    lane: *const Lane,
    start: u64,
    name: u32,
    /// The lane's when the scope began.
    track: u32,
    depth: u8,
}

impl Scope {
    const NOTHING: Scope = Scope { lane: ptr::null(), start: 0, name: 0, track: 0, depth: 0 };

    /// Begins to work for a request, after working for another one; 0 is none. Nothing is to be
    /// told of a thread that goes on working for nobody.
    #[inline]
    pub(crate) fn begin(request: u128, before: u128) -> Scope {
        let state = SITE.state();
        if state == OFF || (request | before) == 0 {
            return Scope::NOTHING;
        }
        let lane = ring_pool::current();
        let (lane, name) = match state & LOOK_CLOSER != 0 || lane.is_null() {
            true => look_closer(request),
            false => (lane, state),
        };
        // SAFETY: null, or a lane, and lanes live for ever.
        let Some(known) = (unsafe { lane.as_ref() }) else { return Scope::NOTHING };
        let depth = known.in_flight.depth().min(255) as u8;
        // The last look: what begins in this tick and is not on the stack yet is inside.
        Scope { lane, start: clock::ticks(), name, track: known.track(), depth }
    }

    /// Records the scope.
    #[inline]
    pub(crate) fn end(&self, request: u128) {
        // SAFETY: null, or a lane, and lanes live for ever.
        let Some(lane) = (unsafe { self.lane.as_ref() }) else { return };
        let end = clock::ticks();
        // A recorder that has stopped meanwhile takes nothing more.
        if SITE.state() == OFF {
            return;
        }
        if lane.track() != self.track {
            return UNATTACHED.lose(LostCause::ThreadExit, 1);
        }
        let ticks = end.wrapping_sub(self.start);
        let record = Record::timed(Kind::SCOPE, self.name, self.track, self.start, ticks);
        lane.push_wide(Record { depth: self.depth, ..record }, &[], &[link_to(request)]);
    }
}

fn link_to(request: u128) -> Link {
    Link { id: request, track: 0, role: LinkRole::Request }
}

/// First use of requests or of the thread, or a rule to follow. Null if nothing is to be recorded.
#[cold]
#[inline(never)]
fn look_closer(request: u128) -> (*const Lane, u32) {
    let Ok(admitted) = SITE.look_closer_at_scope().counted() else { return (ptr::null(), 0) };
    match ring_pool::attach() {
        Some(lane) => (lane, admitted.name),
        None => {
            ring_pool::lose_slots(&[], &[link_to(request)]);
            (ptr::null(), 0)
        }
    }
}
