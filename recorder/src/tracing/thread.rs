//! What `tracing` knows of one thread: the spans it is inside of, and slots and
//! numbers for its next ones.
//!
//! Belongs to its thread alone. Nothing that could come back here, such as an
//! allocator that is itself instrumented, runs while a reference into it is held.

#![allow(unsafe_code)] // a thread-local pointer, and the cell behind it

use std::{
    cell::{Cell, UnsafeCell},
    mem::ManuallyDrop,
    ptr,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use ringscope_format::LostCause;

use super::slots::{self, Slot};
use crate::hot::{call_site::unless_reentered, ring_pool::UNATTACHED, span::Span};

/// Slots that a thread keeps for its next spans.
const KEPT_SLOTS: usize = 64;
/// Numbers that a thread takes at once.
const NUMBERS: u32 = 1 << 10;
/// Depth without an allocation.
const USUAL_DEPTH: usize = 64;

/// The next number that no thread has.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(1);

/// A span that this thread is inside of.
pub(super) struct Frame {
    pub(super) id: u64,
    pub(super) slot: &'static Slot,
    pub(super) number: u32,
    /// How many spans the thread had entered before.
    pub(super) turn: u32,
    pub(super) span: ManuallyDrop<Span>,
}

/// What belongs to one thread.
pub(super) struct Thread {
    frames: UnsafeCell<Vec<Frame>>,
    kept: UnsafeCell<([Option<&'static Slot>; KEPT_SLOTS], usize)>,
    /// The next number, and the end of those that this thread may give.
    numbers: Cell<(u32, u32)>,
    /// How many spans it has entered.
    pub(super) turn: Cell<u32>,
    /// The span that was left last.
    pub(super) last_left: Cell<u64>,
}

thread_local! {
    /// Null before the first use and after the last. Has no destructor, so that access is one load.
    static THREAD: Cell<*const Thread> = const { Cell::new(ptr::null()) };
    /// Gives everything back when the thread exits.
    static RETIREMENT: Retirement = const { Retirement };
}

struct Retirement;

impl Drop for Retirement {
    fn drop(&mut self) {
        let thread = THREAD.replace(ptr::null());
        if thread.is_null() {
            return;
        }
        // SAFETY: made by `Box::into_raw` in `begin`, and out of reach from now on.
        let thread = unsafe { Box::from_raw(thread.cast_mut()) };
        let (kept, count) = thread.kept.into_inner();
        // Not in a forked child, where another thread may have held the lock.
        unless_reentered(|| slots::give_back(kept[..count].iter().copied().flatten()));
        for frame in thread.frames.into_inner() {
            // Nobody can leave these any more.
            if frame.span.is_recording() {
                UNATTACHED.lose(LostCause::ThreadExit);
            }
        }
    }
}

/// What belongs to the calling thread; none while that exits.
#[inline(always)]
pub(super) fn current() -> Option<&'static Thread> {
    current_if_any().or_else(begin)
}

/// The same; none before the first use, too.
#[inline(always)]
pub(super) fn current_if_any() -> Option<&'static Thread> {
    // SAFETY: null, or a box that lives until this thread's destructors run. The
    // reference is used by functions that return before that.
    unsafe { THREAD.get().as_ref() }
}

#[cold]
#[inline(never)]
fn begin() -> Option<&'static Thread> {
    // Fails if the thread is past its destructors: nobody would give anything back then.
    RETIREMENT.try_with(|_| ()).ok()?;
    let thread = Box::new(Thread {
        frames: UnsafeCell::new(Vec::with_capacity(USUAL_DEPTH)),
        kept: UnsafeCell::new(([None; KEPT_SLOTS], 0)),
        numbers: Cell::new((0, 0)),
        turn: Cell::new(0),
        last_left: Cell::new(0),
    });
    // An instrumented allocator may have come here before us.
    if THREAD.get().is_null() {
        THREAD.set(Box::into_raw(thread));
    }
    // SAFETY: as in `current`.
    unsafe { THREAD.get().as_ref() }
}

impl Thread {
    /// The innermost span that this thread is inside of: its number, or 0.
    #[inline(always)]
    pub(super) fn innermost(&self) -> u32 {
        // SAFETY: this thread's alone, and nothing else runs while the reference lives.
        unsafe { &*self.frames.get() }.last().map_or(0, |frame| frame.number)
    }

    /// The same: its id and slot.
    pub(super) fn innermost_slot(&self) -> Option<(u64, &'static Slot)> {
        // SAFETY: as in `innermost`.
        unsafe { &*self.frames.get() }.last().map(|frame| (frame.id, frame.slot))
    }

    /// Whether there is room for one more frame.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        // SAFETY: as in `innermost`.
        let frames = unsafe { &*self.frames.get() };
        frames.len() < frames.capacity()
    }

    /// Makes room if there is none.
    pub(super) fn make_room(&self) {
        if self.has_room() {
            return;
        }
        // SAFETY: as in `innermost`.
        let capacity = unsafe { &*self.frames.get() }.capacity();
        let mut larger: Vec<Frame> = Vec::with_capacity(capacity * 2);
        let smaller = {
            // SAFETY: as in `innermost`; whatever the allocator may have entered it has left.
            let frames = unsafe { &mut *self.frames.get() };
            larger.append(frames);
            std::mem::replace(frames, larger)
        };
        drop(smaller);
    }

    #[inline(always)]
    pub(super) fn push(&self, frame: Frame) {
        // SAFETY: as in `innermost`; there is room, so nothing is allocated.
        let frames = unsafe { &mut *self.frames.get() };
        if frames.len() < frames.capacity() {
            frames.push(frame);
        }
    }

    /// Leaves a span: takes its innermost frame, which should be the innermost of
    /// all, and runs `f` on it. Nothing that `f` does comes back here.
    #[inline(always)]
    pub(super) fn pop(&self, id: u64, f: impl FnOnce(&Frame)) {
        // SAFETY: as in `innermost`.
        let frames = unsafe { &mut *self.frames.get() };
        let Some(last) = frames.len().checked_sub(1).filter(|&last| frames[last].id == id) else {
            return self.pop_out_of_turn(id, f);
        };
        // Read where it is: copied as a whole it would have to wait for the stores of its parts.
        // SAFETY: there are more than `last` frames, which have no destructors; the memory of
        // the one left out stays as it is until the next push.
        let frame = unsafe {
            frames.set_len(last);
            &*frames.as_ptr().add(last)
        };
        f(frame);
    }

    #[cold]
    #[inline(never)]
    fn pop_out_of_turn(&self, id: u64, f: impl FnOnce(&Frame)) {
        // SAFETY: as in `innermost`.
        let frames = unsafe { &mut *self.frames.get() };
        if let Some(at) = frames.iter().rposition(|frame| frame.id == id) {
            f(&frames.remove(at));
        }
    }

    /// A slot for a new span; none if there are too many.
    #[inline(always)]
    pub(super) fn take_slot(&self) -> Option<&'static Slot> {
        // SAFETY: as in `innermost`.
        let (kept, count) = unsafe { &mut *self.kept.get() };
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
        rest.iter().copied().flatten().for_each(|slot| self.keep_slot(slot));
        *last
    }

    /// Takes a slot back.
    #[inline(always)]
    pub(super) fn keep_slot(&self, slot: &'static Slot) {
        // SAFETY: as in `innermost`.
        let (kept, count) = unsafe { &mut *self.kept.get() };
        if let Some(place) = kept.get_mut(*count) {
            *place = Some(slot);
            *count += 1;
        } else {
            self.return_slots(slot);
        }
    }

    #[cold]
    #[inline(never)]
    fn return_slots(&self, slot: &'static Slot) {
        let mut returned = [None; KEPT_SLOTS / 2];
        {
            // SAFETY: as in `innermost`.
            let (kept, count) = unsafe { &mut *self.kept.get() };
            returned.copy_from_slice(&kept[KEPT_SLOTS / 2..]);
            *count = KEPT_SLOTS / 2;
        }
        let returned = returned.into_iter().flatten().chain([slot]);
        unless_reentered(|| slots::give_back(returned));
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
