//! Spans from their creation to their close: a table of slots that are taken and
//! given back.
//!
//! A span's id is the index of its slot and, above it, how often the slot had been
//! taken before. So an id leads to its slot in two loads, and one that is out of date
//! leads nowhere. What most spans never have, such as fields and second handles, is cleared by
//! those that had it. Slots are made in blocks that live for ever; at most [`BLOCKS`]
//! of these, so four million spans can exist at once.
//!
//! Everything in a slot is atomic, so nothing here can be torn. Where two threads
//! are inside of the same span at the same moment, one may overwrite what the other
//! has just counted; such a span is marked as entered twice at once, and what its life says of
//! slices and busy time is too low.

#![allow(unsafe_code)] // blocks of slots that live for ever, behind atomic pointers

use std::{
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicPtr, AtomicU32, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
};

use super::{details::Details, sites::Site, thread::Around};
use crate::hot::{call_site::CallSite, slice::slice_tags};

const BLOCK: usize = 1 << 10;
const BLOCKS: usize = 1 << 12;
/// The low bits of an id: the index of the slot. Block 0 has none, so that no id is 0, and the
/// table has a place for all that these bits can say, so that looking needs no comparison.
const INDEX_BITS: u32 = 24;
const PLACES: usize = (1 << INDEX_BITS) / BLOCK;
/// In the id of a slot that nobody has: the next span's, with this bit.
///
/// A bit of the index that no slot's has, so that the table has nothing where such an id leads:
/// who finds a slot finds one that is taken.
const FREE: u64 = 1 << (INDEX_BITS - 1);
const _: () = assert!(((1 + BLOCKS) * BLOCK) as u64 <= FREE);

/// How many threads are inside of a span just now, in the low bits of its state. With the flags
/// in half a word: such constants need no register.
const INSIDE: u32 = (1 << 24) - 1;
/// Entered while a thread was inside of it.
pub(super) const TWICE_AT_ONCE: u32 = 1 << 24;
/// Entered within a span that is not its parent.
pub(super) const ELSEWHERE: u32 = 1 << 25;
/// Entered, and neither recorded nor timed: what the slot has counted is not all.
pub(super) const UNRECORDED: u32 = 1 << 26;
/// Another span was entered between its creation and its first enter.
pub(super) const WAITED: u32 = 1 << 27;
/// Entered, and timed, but a rule took others to be recorded.
pub(super) const SAMPLED_OUT: u32 = 1 << 28;

/// In place of the moment of creation, where that was not looked up.
pub(super) const UNTIMED: u64 = 1;

/// Has fields or links.
const HAS_DETAILS: u32 = 1;
/// Has some that no slice has told yet.
const NEWS: u32 = 2;
/// Somebody is about to list it among the open spans.
const LISTING: u32 = 4;
/// It is listed, at `place`.
const LISTED: u32 = 8;

/// One span.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct Slot {
    /// Of the span that has the slot, or [`FREE`] and that of the next one.
    id: AtomicU64,
    site: AtomicPtr<Site>,
    /// Flags, and how many threads are inside.
    state: AtomicU32,
    /// What is known of `details` without locking them, and whether it is listed; 0 while nobody
    /// has the slot. Apart from `state`: any thread may add details while another enters.
    told: AtomicU32,
    /// Handles that are left; 1 while nobody has the slot.
    references: AtomicU32,
    /// Number of the span, as [`slice_tags`].
    tags: AtomicU64,
    /// When it was created; 0 if nothing was recorded then, [`UNTIMED`] if nobody looked.
    created: AtomicU64,
    /// When it was entered first, once it has been left.
    entered: AtomicU64,
    /// Ticks inside of it so far, once it has been left.
    busy: AtomicU64,
    /// How often it was left, and in the upper half how often on another track than before.
    stays: AtomicU64,
    /// The track that was inside last.
    track: AtomicU32,
    /// The one that created it or was the first inside; 0 if that is not known yet.
    home: AtomicU32,
    /// Number of its parent, or 0.
    parent: AtomicU32,
    /// How many spans its thread had entered when it was created.
    turn: AtomicU32,
    /// Where it is among the open spans, if it is listed.
    place: AtomicU32,
    details: Mutex<Option<Box<Details>>>,
}

/// 128 KiB, of which the system hands out the pages that are used.
static TABLE: [AtomicPtr<[Slot; BLOCK]>; PLACES] =
    [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];
/// Slots that nobody has, and how many blocks there are.
static SPARE: Mutex<(Vec<&'static Slot>, usize)> = Mutex::new((Vec::new(), 0));

/// Of the frame that is around all others.
pub(super) static NOBODY: Slot = Slot::new(0);
pub(super) static NOBODYS_SITE: CallSite = CallSite::new("", "", "", 0, &[]);

/// What a slot has counted: how often its span was left, and in the upper half how often on
/// another track than before.
#[derive(Clone, Copy)]
pub(super) struct Stays(u64);

impl Stays {
    /// How often it was left.
    #[inline(always)]
    pub(super) fn slices(self) -> u32 {
        self.0 as u32
    }
}

/// What a new span is.
pub(super) struct Birth {
    pub(super) number: u32,
    pub(super) parent: u32,
    pub(super) track: u32,
}

/// The slot of a span, if that exists.
#[inline(always)]
pub(super) fn find(id: u64) -> Option<&'static Slot> {
    let index = id as usize;
    let block = TABLE[index / BLOCK % PLACES].load(Acquire);
    // SAFETY: null, or made by `Box::leak` in `add_block`.
    let block: &'static [Slot; BLOCK] = unsafe { block.as_ref() }?;
    // Acquire, with the Release in `take`: who sees the id sees the site, also with an id that
    // was guessed.
    Some(&block[index % BLOCK]).filter(|slot| slot.id.load(Acquire) == id)
}

/// The same, where it is most likely this one: then what follows waits for no load that the id
/// leads to. An id that was only just written by halves may take as long to be read as a span takes.
#[inline(always)]
pub(super) fn find_near(likely: &'static Slot, id: u64) -> Option<&'static Slot> {
    // As in `find`: the id of a slot that nobody has leads nowhere, also if it was guessed.
    if likely.id.load(Acquire) == id && id & FREE == 0 { Some(likely) } else { find(id) }
}

/// [`find_near`], and its site.
#[inline(always)]
pub(super) fn find_with_site(
    likely: &'static Slot,
    id: u64,
) -> Option<(&'static Slot, &'static Site)> {
    let slot = find_near(likely, id)?;
    // SAFETY: the ids of slots that nobody has lead nowhere, so `take` has stored this one, and
    // before it a site; which is a `&'static Site` ever after.
    Some((slot, unsafe { &*slot.site.load(Relaxed) }))
}

impl Slot {
    /// Gives a slot that nobody has to a new span, and returns the span's id.
    #[inline(always)]
    pub(super) fn take(&self, site: &'static Site, birth: &Birth) -> u64 {
        let id = self.id.load(Relaxed) & !FREE;
        self.site.store(ptr::from_ref(site).cast_mut(), Relaxed);
        self.state.store(0, Relaxed);
        self.tags.store(slice_tags(birth.number), Relaxed);
        self.parent.store(birth.parent, Relaxed);
        self.stays.store(0, Relaxed);
        self.track.store(birth.track, Relaxed);
        self.home.store(birth.track, Relaxed);
        self.id.store(id, Release);
        id
    }

    /// Its life begins, when its thread had entered so many spans. `now` may be [`UNTIMED`],
    /// or 0 if nothing is recorded.
    #[inline(always)]
    pub(super) fn begin(&self, turn: u32, now: u64) {
        self.turn.store(turn, Relaxed);
        self.created.store(now, Relaxed);
    }

    /// When it was created; see [`begin`](Self::begin).
    #[inline(always)]
    pub(super) fn created(&self) -> u64 {
        self.created.load(Relaxed)
    }

    /// When it was entered first; none if it was never left.
    pub(super) fn entered(&self) -> Option<u64> {
        (self.slices() > 0).then(|| self.entered.load(Relaxed))
    }

    /// Ticks inside of it.
    pub(super) fn busy(&self) -> u64 {
        if self.slices() > 0 { self.busy.load(Relaxed) } else { 0 }
    }

    /// Whether there is nothing to say or to clear up at its close: nobody looked when it was
    /// created, and it was entered once, where and when spans are.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.created.load(Relaxed) == UNTIMED
            && self.stays.load(Relaxed) == 1
            && self.state.load(Relaxed) == 0
            && self.told.load(Relaxed) == 0
    }

    /// Takes the slot from its span, which has no details and no handle any more.
    #[inline(always)]
    pub(super) fn free(&self) {
        let id = self.id.load(Relaxed);
        self.id.store(id.wrapping_add(1 << INDEX_BITS) | FREE, Release);
    }

    /// Its site; none if it has never been taken.
    #[inline(always)]
    pub(super) fn site(&self) -> Option<&'static Site> {
        // SAFETY: null, or made from a `&'static Site`.
        unsafe { self.site.load(Relaxed).as_ref() }
    }

    #[inline(always)]
    pub(super) fn is(&self, id: u64) -> bool {
        self.id.load(Relaxed) == id
    }

    #[inline(always)]
    pub(super) fn number(&self) -> u32 {
        self.tags.load(Relaxed) as u32
    }

    #[inline(always)]
    pub(super) fn turn(&self) -> u32 {
        self.turn.load(Relaxed)
    }

    pub(super) fn parent(&self) -> u32 {
        self.parent.load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn has(&self, flags: u32) -> bool {
        self.state.load(Relaxed) & flags != 0
    }

    pub(super) fn mark(&self, flags: u32) {
        self.state.store(self.state.load(Relaxed) | flags, Relaxed);
    }

    /// Whether it has fields or links that no slice has told yet.
    #[inline(always)]
    pub(super) fn has_news(&self) -> bool {
        self.told.load(Relaxed) & NEWS != 0
    }

    /// A thread enters that is inside of another span, or of none. Returns the number of
    /// this one, as [`slice_tags`].
    #[inline(always)]
    pub(super) fn come_in(&self, around: &Around<'_>) -> u64 {
        let mut state = self.state.load(Relaxed);
        if state & INSIDE != 0 {
            seldom();
            state |= TWICE_AT_ONCE;
        }
        // Spans that are used again are so for good, and need not be asked.
        if state & ELSEWHERE == 0 {
            let around = around.number();
            if around != self.parent() && around != 0 {
                seldom();
                state |= ELSEWHERE;
            }
        }
        self.state.store(state.wrapping_add(1), Relaxed);
        self.tags.load(Relaxed)
    }

    /// How often it was left, and how often on another track than before: for [`go_out`](Self::go_out).
    #[inline(always)]
    pub(super) fn stays(&self) -> Stays {
        Stays(self.stays.load(Relaxed))
    }

    /// A thread leaves that had entered then and was inside for so long.
    #[inline(always)]
    pub(super) fn go_out(&self, stays: Stays, start: u64, ticks: u64, track: u32) {
        self.go_out_where_it_was(stays, start, ticks);
        if self.track() != track {
            self.move_to(track);
        }
    }

    /// The same on the track that was inside last.
    #[inline(always)]
    pub(super) fn go_out_where_it_was(&self, stays: Stays, start: u64, ticks: u64) {
        let state = self.state.load(Relaxed);
        if state & INSIDE != 0 {
            self.state.store(state - 1, Relaxed);
        }
        if stays.slices() == 0 {
            self.entered.store(start, Relaxed);
            self.busy.store(ticks, Relaxed);
        } else {
            self.busy.store(self.busy.load(Relaxed).wrapping_add(ticks), Relaxed);
        }
        // After 2^32 of them it carries into the upper half: to stop there would cost every exit.
        self.stays.store(stays.0.wrapping_add(1), Relaxed);
    }

    #[cold]
    fn move_to(&self, track: u32) {
        // If there is none yet, it was created before its thread had a track.
        let home = if self.home() == 0 { track } else { self.home() };
        self.stays.fetch_add(u64::from(home == self.home()) << 32, Relaxed);
        self.home.store(home, Relaxed);
        self.track.store(track, Relaxed);
    }

    /// How often it was left.
    #[inline(always)]
    pub(super) fn slices(&self) -> u32 {
        self.stays().slices()
    }

    /// How often on another track than the time before.
    pub(super) fn moves(&self) -> u32 {
        (self.stays.load(Relaxed) >> 32) as u32
    }

    /// Whether it was left once, without having moved.
    #[inline(always)]
    pub(super) fn stayed_once(&self) -> bool {
        self.stays.load(Relaxed) == 1
    }

    /// The track that was inside last.
    #[inline(always)]
    pub(super) fn track(&self) -> u32 {
        self.track.load(Relaxed)
    }

    /// The track that created it; 0 if that has none.
    pub(super) fn home(&self) -> u32 {
        self.home.load(Relaxed)
    }

    /// One handle more.
    #[inline(always)]
    pub(super) fn add_reference(&self) {
        self.references.fetch_add(1, Relaxed);
    }

    /// One handle less; whether it was the last.
    #[inline(always)]
    pub(super) fn drop_reference(&self) -> bool {
        // Who has the only handle need not fear that somebody copies it meanwhile.
        // Acquire and Release: what others did with theirs comes before the close.
        self.references.load(Acquire) == 1 || self.drop_shared_reference()
    }

    #[inline(never)]
    fn drop_shared_reference(&self) -> bool {
        let is_last = self.references.fetch_sub(1, AcqRel) == 1;
        if is_last {
            self.references.store(1, Relaxed); // for the next span
        }
        is_last
    }

    /// Runs `f`, which adds to the fields and links.
    pub(super) fn add_details(&self, f: impl FnOnce(&mut Details)) {
        f(self.lock_details().get_or_insert_default());
        self.told.fetch_or(HAS_DETAILS | NEWS, Relaxed);
    }

    /// Runs `f`, which tells what no slice has told yet.
    pub(super) fn tell_details<R>(&self, f: impl FnOnce(&mut Details) -> R) -> R {
        let mut details = self.lock_details();
        // Before they are told: what another thread adds meanwhile waits for the lock, and
        // comes after this.
        self.told.fetch_and(!NEWS, Relaxed);
        f(details.get_or_insert_default())
    }

    /// Runs `f` on the fields and links, if there ever were any in this slot.
    pub(super) fn with_details_if_any<R>(&self, f: impl FnOnce(Option<&Details>) -> R) -> R {
        f(self.lock_details().as_deref())
    }

    /// The memory that a former span has left for details, if that is there.
    pub(super) fn take_details(&self) -> Box<Details> {
        self.lock_details().take().unwrap_or_default()
    }

    pub(super) fn put_details(&self, details: Box<Details>) {
        if !details.is_empty() {
            self.told.fetch_or(HAS_DETAILS | NEWS, Relaxed);
        }
        *self.lock_details() = Some(details);
    }

    /// Whether the caller is the one to list it among the open spans.
    pub(super) fn begin_listing(&self) -> bool {
        self.told.load(Relaxed) & LISTING == 0
            && self.told.fetch_or(LISTING, Relaxed) & LISTING == 0
    }

    /// It is listed at this place.
    pub(super) fn listed_at(&self, place: u32) {
        self.place.store(place, Relaxed);
        // Release, with the load in `listed`: who sees it listed sees where.
        self.told.fetch_or(LISTED, Release);
    }

    /// Its place among the open spans.
    pub(super) fn listed(&self) -> Option<u32> {
        (self.told.load(Acquire) & LISTED != 0).then(|| self.place.load(Relaxed))
    }

    /// They are not told of any more; their memory stays for the next span.
    pub(super) fn forget_details(&self) {
        let told = self.told.load(Relaxed);
        if told & HAS_DETAILS != 0
            && let Some(details) = self.lock_details().as_mut()
        {
            details.clear();
        }
        if told != 0 {
            self.told.store(0, Relaxed);
        }
    }

    fn lock_details(&self) -> MutexGuard<'_, Option<Box<Details>>> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner)
    }

    const fn new(index: u32) -> Self {
        Self {
            id: AtomicU64::new(FREE | 1 << INDEX_BITS | index as u64),
            site: AtomicPtr::new(ptr::null_mut()),
            state: AtomicU32::new(0),
            told: AtomicU32::new(0),
            references: AtomicU32::new(1),
            tags: AtomicU64::new(0),
            created: AtomicU64::new(0),
            entered: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            stays: AtomicU64::new(0),
            track: AtomicU32::new(0),
            home: AtomicU32::new(0),
            parent: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            place: AtomicU32::new(0),
            details: Mutex::new(None),
        }
    }
}

/// Where few spans come: their way may be the longer one.
#[cold]
#[inline(always)]
fn seldom() {}

/// Moves spare slots into `into`, until it is full or there are no more.
#[cold]
pub(super) fn take_spare(into: &mut [Option<&'static Slot>]) -> usize {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    let (free, blocks) = &mut *spare;
    if free.is_empty() && *blocks < BLOCKS {
        add_block(*blocks, free);
        *blocks += 1;
    }
    let taken = free.len().min(into.len());
    let rest = free.len() - taken;
    into.iter_mut().zip(free.drain(rest..)).for_each(|(place, slot)| *place = Some(slot));
    taken
}

/// Gives slots back.
#[cold]
pub(super) fn give_back(slots: impl Iterator<Item = &'static Slot>) {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner).0.extend(slots);
}

fn add_block(number: usize, free: &mut Vec<&'static Slot>) {
    let first = ((1 + number) * BLOCK) as u32;
    let block: Box<[Slot]> = (first..first + BLOCK as u32).map(Slot::new).collect();
    let Ok(block) = <Box<[Slot; BLOCK]>>::try_from(block) else { return };
    let block: &'static [Slot; BLOCK] = Box::leak(block);
    TABLE[1 + number].store(ptr::from_ref(block).cast_mut(), Release);
    // Downwards, so that the first is taken first.
    free.extend(block.iter().rev());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_to_its_slot_until_that_is_given_back() {
        let mut mine = [None; 2];
        assert_eq!(take_spare(&mut mine), 2);
        let slot = mine[0].unwrap();
        let next = || {
            let free = slot.id.load(Relaxed);
            assert!(find(free).is_none(), "nor does that of a slot that nobody has");
            let id = free & !FREE;
            assert!(find(id).is_none());
            slot.id.store(id, Relaxed);
            id
        };
        let id = next();
        assert!(ptr::eq(find(id).unwrap(), slot));
        assert!(ptr::eq(find_near(slot, id).unwrap(), slot));
        assert!(ptr::eq(find_near(&NOBODY, id).unwrap(), slot));
        assert!(find(id | FREE).is_none() && find_near(slot, id | FREE).is_none());
        slot.free();
        let free = slot.id.load(Relaxed);
        for id in [id, free, free & !FREE] {
            assert!(find(id).is_none() && find_near(slot, id).is_none());
        }
        let later = next();
        assert!(find(id).is_none(), "the next span has another id");
        assert!(ptr::eq(find(later).unwrap(), slot));
        slot.free();
        give_back(mine.into_iter().flatten());
    }

    #[test]
    fn ids_that_were_never_given_out_lead_nowhere() {
        let nobodys = NOBODY.id.load(Relaxed);
        for id in
            [1, 2, 0xFF_FFFF, u64::MAX, 1 << 24, 1 << 63, (BLOCK * (1 + BLOCKS)) as u64, nobodys]
        {
            assert!(find(id).is_none() && find_near(&NOBODY, id).is_none(), "{id:#x}");
        }
    }

    #[test]
    fn slots_are_handed_out_once() {
        let mut mine = vec![None; 3 * BLOCK];
        let mut taken = 0;
        while taken < mine.len() {
            taken += take_spare(&mut mine[taken..]);
        }
        let mine = || mine.iter().copied().flatten();
        let mut addresses: Vec<usize> = mine().map(|slot| ptr::from_ref(slot).addr()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 3 * BLOCK);
        give_back(mine());
    }
}
