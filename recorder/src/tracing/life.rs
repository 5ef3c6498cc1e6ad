//! Spans that live longer than a slice: one record from creation to close.

#![allow(unsafe_code)] // the calling thread's lane is a raw pointer

use std::sync::LazyLock;

use ringscope_format::{Kind, Link, LinkRole, Record, SkipCause, Status, Value, ValueType};

use super::{
    details::{self, Telling},
    sites::Site,
    slots::{ELSEWHERE, Slot, TWICE_AT_ONCE, UNRECORDED, UNTIMED},
};
use crate::hot::{
    async_span,
    call_site::{self, CallSite, LOOK_CLOSER, OFF},
    clock,
    lane::Lane,
    names,
    open_spans::OpenSpanCopy,
    ring_pool,
    verdict::{self, Admitted, Verdict},
};

/// Keys of what is told of a life.
static KEYS: LazyLock<[u32; 4]> = LazyLock::new(|| {
    const KEYS: [&str; 4] = ["busy", "slices", "moves", "from_first_enter"];
    names::with(|names| KEYS.map(|key| names.intern(key)))
});

/// Gives the keys their ids, and makes the table of open spans: neither is the hot path's to do.
pub(super) fn prepare() {
    // Nothing is recorded in a forked child, where a lock may be held by a thread that is not there.
    if call_site::is_forked() {
        return;
    }
    LazyLock::force(&KEYS);
    LazyLock::force(&async_span::OPEN);
    details::prepare();
}

/// Records a span from its creation to now, or from its first enter if nobody knows when
/// it was created. What this thread has just left it closes as futures are closed.
#[cold]
#[inline(never)]
pub(super) fn tell(slot: &Slot, is_just_left: bool) {
    let (Some(site), created) = (slot.site(), slot.created()) else { return };
    // Of a span that was there before the recording the slices that are recorded say all
    // that is known.
    if created == 0 {
        return;
    }
    if slot.has(UNRECORDED) {
        return skip_if_by_rule(site);
    }
    let now = clock::ticks();
    let began = if created == UNTIMED { slot.entered().unwrap_or(now) } else { created };
    // The same goes for one of an earlier recording.
    if call_site::was_before(began, now) {
        return;
    }
    site.saw_life();
    let look = |_| site.look_closer_at_life();
    let Some((name, least)) = admitted(&site.call_site, look) else { return };
    let ticks = now.wrapping_sub(began);
    if (0..least as i64).contains(&(ticks as i64)) {
        verdict::skip(SkipCause::TooShort);
        return;
    }
    let is_reused = slot.has(TWICE_AT_ONCE) || slot.has(ELSEWHERE) && !is_just_left;
    // A model's spans, if entered within nothing else, look like tasks until the model is gone.
    if !is_reused && (is_just_left || slot.moves() > 0) {
        site.saw_task();
    }
    let lane = this_threads_lane();
    let track = lane.map_or(0, Lane::track);
    let record = Record {
        start: began,
        value: ticks,
        name,
        track: if slot.home() == 0 { track } else { slot.home() },
        link: slot.number(),
        kind: if is_reused { Kind::REUSED } else { Kind::TASK },
        status: Status::UNKNOWN,
        depth: 0,
        shape: Record::shape_of(0, ValueType::None),
    };
    let [busy, slices, moves, from_first_enter] = *KEYS;
    slot.with_details_if_any(|details| {
        let mut telling = Telling::new();
        telling.link(Link { id: slot.number().into(), track, role: LinkRole::Own });
        telling.field(busy, Value::Ticks(slot.busy()));
        telling.field(slices, Value::U64(slot.slices().into()));
        telling.field(moves, Value::U64(slot.moves().into()));
        if created == UNTIMED {
            telling.field(from_first_enter, Value::Bool(true));
        }
        if let Some(details) = details {
            details.tell_all(&mut telling);
        }
        let knows_parent = telling.links().iter().any(|link| link.role == LinkRole::Parent);
        if slot.parent() != 0 && !knows_parent {
            telling.link(Link { id: slot.parent().into(), track: 0, role: LinkRole::Parent });
        }
        push(lane, record, &telling);
    });
}

/// A life of which not all is known, like that of a span that was entered between two recordings,
/// is none; unless a rule is why, since what rules skip is counted.
fn skip_if_by_rule(site: &'static Site) {
    let how = site.call_site.how_it_skips();
    if matches!(how, Verdict::Sampled) {
        site.saw_life(); // the slices of the next are timed, so that it can be told
    }
    let _ = how.counted();
}

/// Lists a span among those that are open, as the table has room: a task that waits is on no
/// thread's stack, and would be missing from what a killed process was doing.
///
/// Not one that is known to be used again, nor one of which nobody knows when it was created:
/// that could not be told from its first slice.
#[cold]
pub(super) fn list(slot: &Slot, site: &Site) {
    let (state, start) = (site.call_site.state(), slot.created());
    let is_reused = slot.has(TWICE_AT_ONCE | ELSEWHERE);
    let is_known = start > UNTIMED && slot.home() != 0 && !slot.has(UNRECORDED);
    if state == OFF || is_reused || !is_known || !slot.begin_listing() {
        return;
    }
    let (id, name, track) = (slot.number().into(), state & !LOOK_CLOSER, slot.home());
    if let Some(place) = async_span::list(OpenSpanCopy { id, start, name, track }) {
        slot.listed_at(place);
    }
}

/// Takes a span that is closed off that list.
pub(super) fn unlist(slot: &Slot) {
    if let Some(place) = slot.listed() {
        async_span::OPEN.close(place);
    }
}

/// The name that a site records events under now; none, and counted, if they are not to be
/// recorded.
pub(super) fn event_name(site: &'static CallSite, is_error: bool) -> Option<u32> {
    let look = if is_error { CallSite::look_closer_at_error } else { CallSite::look_closer };
    // An event has no duration that a rule could be about.
    admitted(site, look).map(|(name, _)| name)
}

/// The name that a site records under now, and how long it must have lasted in
/// ticks; none, and counted, if it is not to be recorded. Rules are asked by `look`.
fn admitted(
    site: &'static CallSite,
    look: impl FnOnce(&'static CallSite) -> Verdict,
) -> Option<(u32, u64)> {
    match site.state() {
        OFF => None,
        name if name & LOOK_CLOSER == 0 => Some((name, 0)),
        _ => {
            let Admitted { name, if_long } = look(site).counted().ok()?;
            Some((name, if if_long { site.at_least() } else { 0 }))
        }
    }
}

/// Records what there is to tell; of what has no ring, the slots are counted.
pub(super) fn push(lane: Option<&'static Lane>, record: Record, telling: &Telling<'_>) {
    match lane {
        Some(lane) => lane.push_wide(record, telling.fields(), telling.links()),
        None => ring_pool::lose_slots(telling.fields(), telling.links()),
    }
}

/// The calling thread's lane; none, and the event counted as lost but for its slots, if there is
/// no ring for it.
pub(super) fn this_threads_lane() -> Option<&'static Lane> {
    // SAFETY: null, or a lane, and lanes live for ever.
    unsafe { ring_pool::current().as_ref() }.or_else(ring_pool::attach)
}
