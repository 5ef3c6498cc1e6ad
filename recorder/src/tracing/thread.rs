//! What `tracing` knows of one thread: the spans it is inside of, and slots and
//! numbers for its next ones.
//!
//! Belongs to its thread alone. Nothing that could come back here, such as an
//! allocator that is itself instrumented, runs while a reference into it is held.

#![allow(unsafe_code)] // pointers to frames, and the cells behind a pointer

use std::{
    cell::{Cell, UnsafeCell},
    mem::{self, MaybeUninit},
    ptr, slice,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use ringscope_format::LostCause;

use super::slots::{self, Slot};
use crate::hot::{
    call_site::unless_reentered,
    ring_pool::{self, UNATTACHED},
    slice::Slice,
};

/// Slots that a thread keeps for its next spans.
const KEPT_SLOTS: usize = 64;
/// Numbers that a thread takes at once.
const NUMBERS: u32 = 1 << 10;
/// Frames without an allocation, the outermost of which is nobody's.
const USUAL_FRAMES: usize = 64;

/// The next number that no thread has.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// A span that this thread is inside of.
pub(super) struct Frame {
    pub(super) id: u64,
    pub(super) slot: &'static Slot,
    /// How many spans the thread has entered up to and with this one.
    pub(super) turn: u32,
    pub(super) slice: Slice,
}

impl Frame {
    const NOBODYS: Frame = Frame {
        id: 0,
        slot: &slots::NOBODY,
        turn: 0,
        slice: Slice::inert(&slots::NOBODYS_SITE, 0),
    };
}

/// What belongs to one thread. What every enter and leave needs is in the thread-local itself,
/// which is that of the thread's lane: see [`Here`](ring_pool::Here).
pub(crate) struct Thread {
    /// Of the frames in `store` those up to and with this one are in use, and the first is
    /// nobody's, so that there always is an innermost one. Without a store that is [`NOBODY`].
    innermost: Cell<*mut Frame>,
    /// The last frame that there is memory for.
    last: Cell<*mut Frame>,
    /// The span that was left last; 0 without a store.
    pub(super) last_left: Cell<u64>,
    /// How many spans it has entered.
    pub(super) turn: Cell<u32>,
    /// The next number, and the end of those that this thread may give.
    numbers: Cell<(u32, u32)>,
    /// That of the span that was created last, most likely the next to be entered and to be closed.
    pub(super) newest: Cell<&'static Slot>,
    /// The slot that was given back last: most spans are as short as the one before.
    warm: Cell<Option<&'static Slot>>,
    /// Null before the first use and after the last.
    store: Cell<*const Store>,
}

/// What a thread allocates on its first use.
struct Store {
    frames: UnsafeCell<Box<[MaybeUninit<Frame>]>>,
    kept: UnsafeCell<([Option<&'static Slot>; KEPT_SLOTS], usize)>,
}

/// The frame of threads that have no store.
static NOBODY: Shared = Shared(Frame::NOBODYS);

struct Shared(Frame);

// SAFETY: nothing writes to it, since no frame behind it is ever used, and what it points to
// is static.
unsafe impl Sync for Shared {}

thread_local! {
    /// Gives everything back when the thread exits.
    static RETIREMENT: Retirement = const { Retirement };
}

struct Retirement;

impl Drop for Retirement {
    fn drop(&mut self) {
        let thread = this();
        for frame in thread.entered() {
            // Nobody can leave these any more.
            if frame.slice.is_recording() {
                UNATTACHED.lose(LostCause::ThreadExit, 0);
            }
        }
        let store = thread.store.replace(ptr::null());
        if store.is_null() {
            return;
        }
        let nobody = (&raw const NOBODY.0).cast_mut();
        thread.innermost.set(nobody);
        thread.last.set(nobody);
        thread.last_left.set(0);
        // SAFETY: made by `Box::into_raw` in `begin`, and out of reach from now on.
        let store = unsafe { Box::from_raw(store.cast_mut()) };
        let warm = thread.warm.take();
        let (kept, count) = store.kept.into_inner();
        let slots = kept[..count].iter().copied().flatten().chain(warm);
        // Not in a forked child, where another thread may have held the lock.
        unless_reentered(|| slots::give_back(slots));
    }
}

/// What belongs to the calling thread, whether or not that has been used: there is no room
/// in it before the first use and after the last, and nothing to leave.
#[inline(always)]
pub(super) fn this() -> &'static Thread {
    &ring_pool::here().tracing
}

/// The same, ready to be used; none while the thread exits.
#[inline(always)]
pub(super) fn current() -> Option<&'static Thread> {
    let thread = this();
    (!thread.store.get().is_null() || begin(thread)).then_some(thread)
}

/// Whether there is a store now.
#[cold]
#[inline(never)]
fn begin(thread: &Thread) -> bool {
    // Fails if the thread is past its destructors: nobody would give anything back then.
    if RETIREMENT.try_with(|_| ()).is_err() {
        return false;
    }
    let mut frames = Box::new_uninit_slice(USUAL_FRAMES);
    frames[0].write(Frame::NOBODYS);
    let (first, last) = (frames.as_mut_ptr(), &raw mut frames[USUAL_FRAMES - 1]);
    let store = Box::new(Store {
        frames: UnsafeCell::new(frames),
        kept: UnsafeCell::new(([None; KEPT_SLOTS], 0)),
    });
    // An instrumented allocator may have come here before us.
    if thread.store.get().is_null() {
        thread.store.set(Box::into_raw(store));
        thread.innermost.set(first.cast());
        thread.last.set(last.cast());
    }
    true
}

/// Room for one more frame, for as long as nothing else is entered.
pub(super) struct Room<'a> {
    thread: &'a Thread,
    /// The innermost frame so far, and not the last that there is memory for.
    around: *mut Frame,
}

impl Room<'_> {
    /// Enters a span. When all the rest is done `open` opens its slice, given what is around it.
    ///
    /// # Safety
    ///
    /// `open` writes the slice.
    #[inline(always)]
    pub(super) unsafe fn enter(
        self,
        id: u64,
        slot: &'static Slot,
        open: impl FnOnce(*mut Slice, Around<'_>),
    ) {
        // SAFETY: not the last, so the next is in `frames` too; and as in `top`. All of its
        // fields are written.
        unsafe {
            let next = self.around.add(1);
            (&raw mut (*next).id).write(id);
            (&raw mut (*next).slot).write(slot);
            let turn = self.thread.turn.get().wrapping_add(1);
            self.thread.turn.set(turn);
            (&raw mut (*next).turn).write(turn);
            // Before the span is opened, and so not in its time. Nothing looks there meanwhile.
            self.thread.innermost.set(next);
            open(&raw mut (*next).slice, Around(&(*self.around).slice));
        }
    }
}

/// What a span is entered in.
pub(super) struct Around<'a>(&'a Slice);

impl Around<'_> {
    /// The number of that span, or 0.
    #[inline(always)]
    pub(super) fn number(&self) -> u32 {
        self.0.number()
    }
}

impl Thread {
    pub(crate) const fn new() -> Self {
        let nobody = (&raw const NOBODY.0).cast_mut();
        Self {
            innermost: Cell::new(nobody),
            last: Cell::new(nobody),
            last_left: Cell::new(0),
            turn: Cell::new(0),
            numbers: Cell::new((0, 0)),
            newest: Cell::new(&slots::NOBODY),
            warm: Cell::new(None),
            store: Cell::new(ptr::null()),
        }
    }

    fn store(&self) -> Option<&Store> {
        // SAFETY: null, or made in `begin` and there until `Retirement`, when nothing else runs.
        unsafe { self.store.get().as_ref() }
    }

    /// The innermost frame, which is nobody's if the thread is inside of no span.
    #[inline(always)]
    fn top(&self) -> &Frame {
        // SAFETY: points into `frames`, at one that has been written, or to `NOBODY`. The owner's
        // alone, and nothing else runs while the reference lives.
        unsafe { &*self.innermost.get() }
    }

    /// The innermost span that this thread is inside of: its number, or 0.
    #[inline(always)]
    pub(super) fn innermost(&self) -> u32 {
        self.top().slice.number()
    }

    /// The same: its id and slot.
    pub(super) fn innermost_slot(&self) -> Option<(u64, &'static Slot)> {
        let Frame { id, slot, .. } = *self.top();
        (id != 0).then_some((id, slot))
    }

    /// All spans that this thread is inside of.
    fn entered(&self) -> &[Frame] {
        let Some(store) = self.store() else { return &[] };
        // SAFETY: as in `top`.
        let first = unsafe { &*store.frames.get() }.as_ptr().cast::<Frame>();
        // SAFETY: both point into `frames`, and all between them have been written.
        unsafe {
            let count = self.innermost.get().offset_from_unsigned(first);
            slice::from_raw_parts(first.add(1), count)
        }
    }

    /// The ids of all spans that this thread is inside of, the outermost first.
    pub(super) fn entered_ids(&self) -> Vec<u64> {
        // What the allocator may enter meanwhile it leaves again.
        let mut ids = Vec::with_capacity(self.entered().len());
        ids.extend(self.entered().iter().map(|frame| frame.id));
        ids
    }

    /// Room for one more frame, if there is any.
    #[inline(always)]
    pub(super) fn room(&self) -> Option<Room<'_>> {
        let around = self.innermost.get();
        (around != self.last.get()).then_some(Room { thread: self, around })
    }

    /// Makes room if there is none.
    pub(super) fn make_room(&self) {
        let Some(store) = self.store() else { return };
        if self.room().is_some() {
            return;
        }
        // SAFETY: as in `top`.
        let wanted = unsafe { &*store.frames.get() }.len() * 2;
        let mut larger = Box::new_uninit_slice(wanted);
        if self.room().is_some() {
            return; // the allocator is instrumented, and came here first
        }
        let first: *mut Frame = larger.as_mut_ptr().cast();
        // SAFETY: as in `top`; whatever the allocator may have entered it has left. `larger` has
        // room for all that are copied and for as many more.
        let smaller = unsafe {
            let frames = &mut *store.frames.get();
            ptr::copy_nonoverlapping(frames.as_ptr().cast(), first, frames.len());
            self.innermost.set(first.add(frames.len() - 1));
            self.last.set(first.add(wanted - 1));
            mem::replace(frames, larger)
        };
        drop(smaller);
    }

    /// Leaves a span: takes its frame, if that is the innermost of all, as it should be. If
    /// not, nothing has happened: [`pop_out_of_turn`](Self::pop_out_of_turn).
    ///
    /// The frame stays as it is until the next span is entered.
    #[inline(always)]
    pub(super) fn pop(&self, id: u64) -> Option<&Frame> {
        // Read where it is: copied as a whole it would have to wait for the stores of its parts.
        let frame = self.top();
        if frame.id != id {
            return None;
        }
        // SAFETY: no span has the id 0, so this is not the first frame.
        self.innermost.set(unsafe { self.innermost.get().sub(1) });
        self.last_left.set(id);
        Some(frame)
    }

    /// Leaves a span, wherever its innermost frame is.
    #[cold]
    pub(super) fn pop_out_of_turn(&self, id: u64) -> Option<Frame> {
        self.store()?;
        self.last_left.set(id);
        let entered = self.entered();
        let at = entered.iter().rposition(|frame| frame.id == id)?;
        let above = entered.len() - 1 - at;
        // SAFETY: `at` and the frames above it have been written; those move down by one, and
        // what is read here is not used by them any more.
        unsafe {
            let place = self.innermost.get().sub(above);
            let frame = place.read();
            ptr::copy(place.add(1), place, above);
            self.innermost.set(self.innermost.get().sub(1));
            Some(frame)
        }
    }

    /// The slot that was given back last, if it is there.
    #[inline(always)]
    pub(super) fn take_warm_slot(&self) -> Option<&'static Slot> {
        self.warm.take()
    }

    /// A slot for a new span; none if there are too many.
    pub(super) fn take_slot(&self) -> Option<&'static Slot> {
        self.warm.take().or_else(|| self.take_kept_slot())
    }

    fn take_kept_slot(&self) -> Option<&'static Slot> {
        // SAFETY: as in `top`.
        let (kept, count) = unsafe { &mut *self.store()?.kept.get() };
        match count.checked_sub(1) {
            Some(last) => {
                *count = last;
                *kept.get(last)?
            }
            None => self.fetch_slot(),
        }
    }

    #[cold]
    #[inline(never)]
    fn fetch_slot(&self) -> Option<&'static Slot> {
        let mut fetched = [None; KEPT_SLOTS / 2];
        let taken = unless_reentered(|| slots::take_spare(&mut fetched)).unwrap_or(0);
        let (last, rest) = fetched[..taken].split_last()?;
        rest.iter().copied().flatten().for_each(|slot| self.keep_colder_slot(slot));
        *last
    }

    /// Takes a slot back.
    #[inline(always)]
    pub(super) fn keep_slot(&self, slot: &'static Slot) {
        if let Some(colder) = self.warm.replace(Some(slot)) {
            self.keep_colder_slot(colder);
        }
    }

    #[inline(never)]
    fn keep_colder_slot(&self, slot: &'static Slot) {
        let Some(store) = self.store() else { return };
        // SAFETY: as in `top`.
        let (kept, count) = unsafe { &mut *store.kept.get() };
        if let Some(place) = kept.get_mut(*count) {
            *place = Some(slot);
            *count += 1;
        } else {
            return_slots(store, slot);
        }
    }

    /// A number for a new span, never 0.
    #[inline(always)]
    pub(super) fn next_number(&self) -> u32 {
        let (next, end) = self.numbers.get();
        if next == end {
            return self.fetch_numbers();
        }
        self.numbers.set((next + 1, end));
        next
    }

    #[cold]
    #[inline(never)]
    fn fetch_numbers(&self) -> u32 {
        // 0 is nobody's number; after four billion spans they begin again.
        let mut first = NEXT_NUMBER.fetch_add(NUMBERS, Relaxed);
        if first == 0 || first.checked_add(NUMBERS).is_none() {
            NEXT_NUMBER.store(NUMBERS + 1, Relaxed);
            first = 1;
        }
        self.numbers.set((first + 1, first + NUMBERS));
        first
    }
}

/// Gives back half of what is kept, and one more.
#[cold]
#[inline(never)]
fn return_slots(store: &Store, slot: &'static Slot) {
    let mut returned = [None; KEPT_SLOTS / 2];
    {
        // SAFETY: as in `Thread::top`.
        let (kept, count) = unsafe { &mut *store.kept.get() };
        returned.copy_from_slice(&kept[KEPT_SLOTS / 2..]);
        *count = KEPT_SLOTS / 2;
    }
    let returned = returned.into_iter().flatten().chain([slot]);
    unless_reentered(|| slots::give_back(returned));
}
