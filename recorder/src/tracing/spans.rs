//! The life of a span: created, entered and left any number of times, closed.
//!
//! Entering and leaving a span that is already known is the hot path: no
//! allocation, no lock, no formatting. So is creating and closing one without fields.

#![allow(unsafe_code)] // the calling thread's lane is a raw pointer

use std::collections::HashSet;

use ringscope_format::{LinkRole, LostCause};
use tracing_core::{field::ValueSet, span};

use super::{
    details::{Details, Visitor},
    life,
    sites::{self, Site},
    slots::{self, Birth, SAMPLED_OUT, Slot, Stays, UNRECORDED, UNTIMED, WAITED},
    thread::{self, Around, Frame, Thread},
};
use crate::hot::{
    call_site::{CallSite, LOOK_CLOSER, OFF, unless_reentered},
    clock,
    lane::Lane,
    ring_pool::{self, Here, UNATTACHED},
    slice::{Opening, Slice},
    span::Span,
    verdict::Verdict,
};

/// Who a new span's parent is.
enum Parent {
    /// The span that the thread is inside of.
    Around,
    Nobody,
    /// The span with this id, as its program says.
    Of(u64),
}

/// The id of spans that cannot be recorded.
pub(super) const NOTHING: u64 = u64::MAX;

/// A new span; its id, or [`NOTHING`]. Explicit parents are looked up by `find`.
#[inline(always)]
pub(super) fn create(
    attributes: &span::Attributes<'_>,
    find: impl FnOnce(&span::Id) -> u64,
) -> u64 {
    if attributes.is_contextual()
        && let Some(site) = sites::of_known(attributes.metadata())
        && site.is_plain()
        && let Some(id) = create_plain(site)
    {
        return id;
    }
    let parent = match attributes.parent() {
        Some(parent) => Parent::Of(find(parent)),
        None if attributes.is_root() => Parent::Nobody,
        None => Parent::Around,
    };
    create_closer(attributes, parent)
}

/// One of a site whose spans have no fields and are told by their slice: nothing of it is
/// looked up that its slice will look up again. None in any other than the ordinary case.
#[inline(always)]
fn create_plain(site: &'static Site) -> Option<u64> {
    let here = ring_pool::here();
    let (thread, lane) = (&here.tracing, here.lane()?);
    if !is_on(site.call_site.state()) {
        return None;
    }
    let slot = thread.take_warm_slot()?;
    thread.newest.set(slot);
    let (number, parent) = (thread.next_number(), thread.innermost());
    let id = slot.take(site, &Birth { number, parent, track: lane.track() });
    slot.begin(thread.turn.get(), UNTIMED);
    Some(id)
}

/// A name, and neither [`OFF`] nor [`LOOK_CLOSER`].
#[inline(always)]
fn is_on(state: u32) -> bool {
    state.cast_signed() > 0
}

#[inline(never)]
fn create_closer(attributes: &span::Attributes<'_>, parent: Parent) -> u64 {
    sites::of(attributes.metadata())
        .and_then(|site| create_at(site, attributes, parent))
        .unwrap_or(NOTHING)
}

fn create_at(
    site: &'static Site,
    attributes: &span::Attributes<'_>,
    parent: Parent,
) -> Option<u64> {
    let Some(thread) = thread::current() else { return create_while_exiting(site, attributes) };
    let slot = match thread.take_slot() {
        Some(slot) => slot,
        None => return none_left(site),
    };
    let (parent, told) = match parent {
        Parent::Around => (thread.innermost(), false),
        Parent::Nobody => (0, false),
        Parent::Of(id) => (slots::find(id).map_or(0, Slot::number), true),
    };
    let state = site.call_site.state();
    let birth = Birth { number: thread.next_number(), parent, track: track_if(state != OFF) };
    let id = slot.take(site, &birth);
    // Also while nothing is recorded: a recording may begin as long as the span is there.
    if told || !attributes.metadata().fields().is_empty() {
        describe(slot, site, told.then_some(parent), attributes.values());
    }
    // Last: neither a new thread's ring nor the formatting of fields is part of its life.
    let now = if site.times_creation() { now_if_on(state) } else { untimed_if_on(state) };
    slot.begin(thread.turn.get(), now);
    Some(id)
}

/// The last destructors of a thread may still create spans.
#[cold]
#[inline(never)]
fn create_while_exiting(site: &'static Site, attributes: &span::Attributes<'_>) -> Option<u64> {
    let mut slot = [None];
    unless_reentered(|| slots::take_spare(&mut slot));
    let Some(slot) = slot[0] else { return none_left(site) };
    let birth = Birth { number: 0, parent: 0, track: 0 };
    let id = slot.take(site, &birth);
    describe(slot, site, None, attributes.values());
    slot.begin(0, 0);
    Some(id)
}

/// More spans exist than there are slots for.
#[cold]
fn none_left(site: &'static Site) -> Option<u64> {
    if site.call_site.state() != OFF {
        lose(LostCause::NoRing);
    }
    None
}

/// Keeps the fields and the explicit parent of a new span.
#[cold]
#[inline(never)]
fn describe(slot: &Slot, site: &'static Site, parent: Option<u32>, values: &ValueSet<'_>) {
    // Its own until the id is given out; formatting may come back for other slots.
    let mut details = slot.take_details();
    if let Some(parent) = parent.filter(|&parent| parent != 0) {
        details.link(LinkRole::Parent, parent);
    }
    values.record(&mut Visitor { site, fields: &mut *details });
    slot.put_details(details);
}

/// Values that are known later than their span.
pub(super) fn record(id: u64, values: &span::Record<'_>) {
    let Some((slot, site)) = slots::find(id).and_then(|slot| Some((slot, slot.site()?))) else {
        return;
    };
    let mut news = Details::default();
    values.record(&mut Visitor { site, fields: &mut news });
    slot.add_details(|details| details.merge(&news));
}

/// A span that led to another one.
pub(super) fn follows_from(id: u64, earlier: u64) {
    let (Some(slot), Some(earlier)) = (slots::find(id), slots::find(earlier)) else { return };
    slot.add_details(|details| details.link(LinkRole::FollowsFrom, earlier.number()));
}

/// The calling thread enters a span.
#[inline(always)]
pub(super) fn enter(id: u64) {
    // First what is the thread's: reaching it may be a call, which whatever is in registers by
    // then would have to survive.
    let here = ring_pool::here();
    let Some((slot, site)) = slots::find_with_site(here.tracing.newest.get(), id) else {
        return;
    };
    let site = &site.call_site;
    if let Some(room) = here.tracing.room()
        && let Some(lane) = here.lane()
        && let Some(opening) = Opening::of(lane, site)
    {
        // SAFETY: `open` writes the slice, to where the room has a place for it.
        unsafe {
            room.enter(id, slot, |slice, around| opening.open(slice, || slot.come_in(&around)));
        }
    } else {
        enter_closer(id, slot, site);
    }
}

/// First use of the thread or the site, a rule, or a deep stack.
///
/// Apart from the ordinary case, which then calls nothing and has no registers to save.
#[cold]
#[inline(never)]
fn enter_closer(id: u64, slot: &'static Slot, site: &'static CallSite) {
    let Some(thread) = thread::current() else {
        if site.state() != OFF {
            lose(LostCause::ThreadExit);
        }
        return;
    };
    thread.make_room();
    let span = Span::enter(site);
    // Its life may be told, though this slice is not: rules are asked about each apart. Where
    // spans are told by their one slice, sampling spares them the look at the clock.
    let is_only_timed = !span.is_recording()
        && slot.created() > UNTIMED
        && matches!(site.how_it_skips(), Verdict::Sampled);
    let track = is_only_timed.then(|| track_if(true));
    if let Some(room) = thread.room() {
        let open = |place: *mut Slice, around: Around<'_>| {
            let tags = slot.come_in(&around);
            let slice = match track {
                Some(track) => Slice::only_timed(site, tags, track),
                None => Slice::of(span, tags),
            };
            // SAFETY: the room has a place for it there.
            unsafe { place.write(slice) };
        };
        // SAFETY: the slice is written.
        unsafe { room.enter(id, slot, open) };
    }
}

/// The calling thread leaves a span.
#[inline(always)]
pub(super) fn exit(id: u64) {
    let here = ring_pool::here();
    match here.tracing.pop(id) {
        Some(frame) => leave(frame, here.lane()),
        None => exit_out_of_turn(here, id),
    }
}

#[cold]
#[inline(never)]
fn exit_out_of_turn(here: &Here, id: u64) {
    if let Some(frame) = here.tracing.pop_out_of_turn(id) {
        leave(&frame, here.lane());
    }
}

/// The calling thread leaves those of these spans that it is inside of, as often as it is.
#[cold]
pub(super) fn leave_for_good(ids: impl Iterator<Item = u64>) {
    let entered = thread::this().entered_ids();
    // Sets, since there may be many of both.
    let inside: HashSet<u64> = entered.iter().copied().collect();
    let gone: HashSet<u64> = ids.filter(|id| inside.contains(id)).collect();
    entered.into_iter().rev().filter(|id| gone.contains(id)).for_each(exit);
}

#[inline(always)]
fn leave(frame: &Frame, lane: Option<&'static Lane>) {
    let Frame { id, slot, ref slice, .. } = *frame;
    if !slot.is(id) || slot.has_news() {
        return leave_closer(frame);
    }
    // All that decides comes before the clock is looked at: nothing has then to be remembered
    // for what is called.
    let stays = slot.stays();
    if asks(frame, stays) || slot.track() != slice.track() {
        return leave_and_note(frame);
    }
    let count = |ticks| slot.go_out_where_it_was(stays, slice.start(), ticks);
    if !slice.end_simply(lane, count) {
        leave_closer(frame);
    }
}

/// The same, if something of the span's life is to be noted, or it has moved.
#[inline(never)]
fn leave_and_note(frame: &Frame) {
    let Frame { slot, ref slice, .. } = *frame;
    let stays = slot.stays();
    let count = |ticks| slot.go_out(stays, slice.start(), ticks, slice.track());
    if !slice.end_simply(ring_pool::here().lane(), count) {
        leave_closer(frame);
    } else if asks(frame, stays) {
        note_life(frame, stays);
    }
}

/// News, a rule, a span that is not recorded or that was closed meanwhile.
///
/// Apart from the ordinary case, as [`enter_closer`] is.
#[cold]
#[inline(never)]
fn leave_closer(frame: &Frame) {
    let Frame { id, slot, ref slice, .. } = *frame;
    let is_here = slot.is(id); // or closed while it was entered, and its slot perhaps another's
    if !slice.is_recording() {
        if is_here {
            leave_unrecorded(frame); // and the next one that is recorded tells what there is
        }
        return;
    }
    let ticks = match is_here && slot.has_news() {
        false => slice.end_with(ring_pool::here().lane(), &[], &[]),
        true => tell(slot, slice),
    };
    if is_here {
        count_stay(frame, ticks);
    }
}

/// The span of this frame is here, and was left after so many ticks.
fn count_stay(frame: &Frame, ticks: u64) {
    let Frame { slot, ref slice, .. } = *frame;
    let stays = slot.stays();
    slot.go_out(stays, slice.start(), ticks, slice.track());
    if asks(frame, stays) {
        note_life(frame, stays);
    }
}

/// Whether the life of a span is to be noted, which had been left so often.
///
/// Most likely there will be no other slice of a span that was entered at once. Those of one
/// that has had two are as those before, but now and then one asks whether it became a task.
#[inline(always)]
fn asks(frame: &Frame, stays: Stays) -> bool {
    let left = stays.slices();
    left & left.wrapping_sub(1) == 0 // 0, 1, 2, 4, 8 and so on
        && (left == 1 || waited(frame) || frame.slot.created() > UNTIMED)
        // There is nothing more to note then, but for the first stay.
        && (left == 0 || !frame.slot.site().is_some_and(Site::has_lives_only))
}

/// Whether other spans were entered between the creation of this one and its enter.
#[inline(always)]
fn waited(frame: &Frame) -> bool {
    frame.turn != frame.slot.turn().wrapping_add(1)
}

/// It lives longer than a slice, or others of its site did. If those were tasks it is one
/// that waits, and somebody may want to know of it before it ends.
#[cold]
#[inline(never)]
fn note_life(frame: &Frame, before: Stays) {
    let (slot, waited) = (frame.slot, waited(frame));
    let Some(site) = slot.site() else { return };
    if before.slices() == 0 && waited {
        slot.mark(WAITED);
    }
    if before.slices() > 0 || waited {
        site.saw_life();
    }
    if site.has_tasks() {
        life::list(slot, site);
    }
}

fn leave_unrecorded(frame: &Frame) {
    let Frame { slot, ref slice, .. } = *frame;
    match slice.start() {
        0 => {
            slot.mark(UNRECORDED);
            // Where it is, and not nowhere: it has not moved by that.
            slot.go_out(slot.stays(), 0, 0, this_track());
        }
        start => {
            slot.mark(SAMPLED_OUT);
            let ticks = clock::ticks().wrapping_sub(start);
            count_stay(frame, ticks.cast_signed().max(0).cast_unsigned());
        }
    }
}

/// A slice that has something to tell.
fn tell(slot: &Slot, slice: &Slice) -> u64 {
    slot.tell_details(|details| {
        let news = details.tell_news();
        slice.end_with(ring_pool::here().lane(), news.fields(), news.links())
    })
}

/// One handle less; whether the span is closed by that.
#[inline(always)]
pub(super) fn drop_handle(id: u64) -> bool {
    let thread = thread::this();
    let Some(slot) = slots::find_near(thread.newest.get(), id) else { return false };
    let is_last = slot.drop_reference();
    if is_last {
        close(thread, slot, id);
    }
    is_last
}

/// The end of a span.
#[inline(always)]
fn close(thread: &Thread, slot: &'static Slot, id: u64) {
    // What a thread has left it has a place for.
    if slot.is_plain() && thread.last_left.get() == id {
        slot.free();
        thread.keep_slot(slot);
    } else {
        close_closer(slot, id);
    }
}

#[inline(never)]
fn close_closer(slot: &'static Slot, id: u64) {
    let thread = thread::current();
    // What was entered once, before anything else, and by the thread that closes it, is told
    // by its slice, or not at all if that is not recorded.
    let has_news = slot.has_news() && !slot.has(UNRECORDED | SAMPLED_OUT);
    if !slot.stayed_once() || slot.has(WAITED) || has_news || slot.track() != this_track() {
        life::tell(slot, thread.is_some_and(|thread| thread.last_left.get() == id));
    } else if slot.created() > UNTIMED {
        slot.site().inspect(|site| site.saw_plain());
    }
    life::unlist(slot);
    slot.forget_details();
    slot.free();
    match thread {
        Some(thread) => thread.keep_slot(slot),
        None => unless_reentered(|| slots::give_back([slot].into_iter())).unwrap_or(()),
    }
}

/// The counter, if a site with this state is on; 0 if not.
#[inline(always)]
fn now_if_on(state: u32) -> u64 {
    match state {
        OFF => 0,
        on if on & LOOK_CLOSER == 0 => clock::hardware_ticks(),
        _ => clock::ticks(),
    }
}

#[inline(always)]
fn untimed_if_on(state: u32) -> u64 {
    if state == OFF { 0 } else { UNTIMED }
}

/// The calling thread's track, which it gets now if it is to have one.
#[inline(always)]
fn track_if(wanted: bool) -> u32 {
    match this_track() {
        0 if wanted => first_track(),
        track => track,
    }
}

#[cold]
fn first_track() -> u32 {
    // Not counted as lost if there is none: the enter that follows is.
    ring_pool::attach_as(false).map_or(0, Lane::track)
}

/// The calling thread's track; 0 if it has none.
#[inline(always)]
fn this_track() -> u32 {
    // SAFETY: null, or a lane, and lanes live for ever.
    unsafe { ring_pool::current().as_ref() }.map_or(0, Lane::track)
}

#[cold]
fn lose(cause: LostCause) {
    // SAFETY: null, or a lane, and lanes live for ever.
    match unsafe { ring_pool::current().as_ref() } {
        Some(lane) => lane.lose(cause, 0),
        None => UNATTACHED.lose(cause, 0),
    }
}
