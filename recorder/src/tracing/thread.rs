//! What `tracing` knows of one thread: the spans it is inside of, and slots and
//! numbers for its next ones.
//!
//! Belongs to its thread alone. Nothing that could come back here, such as an
//! allocator that is itself instrumented, runs while a reference into it is held.

#![allow(unsafe_code)] // a thread-local pointer, and the cell behind it

use std::{
    cell::{Cell, UnsafeCell},
    mem::{self, ManuallyDrop, MaybeUninit},
    ptr, slice,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use ringscope_format::LostCause;

use super::slots::{self, Slot};
use crate::hot::{call_site::unless_reentered, ring_pool::UNATTACHED, span::Span};

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
    pub(super) number: u32,
    /// How many spans the thread had entered before.
    pub(super) turn: u32,
    pub(super) span: ManuallyDrop<Span>,
}

/// What belongs to one thread.
pub(super) struct Thread {
    /// Memory for frames; those up to and with `innermost` are in use, and the first is nobody's,
    /// so that there always is an innermost one.
    frames: UnsafeCell<Box<[MaybeUninit<Frame>]>>,
    innermost: Cell<*mut Frame>,
    /// The last frame that there is memory for.
    last: Cell<*mut Frame>,
    /// The slot that was given back last: most spans are as short as the one before.
    warm: Cell<Option<&'static Slot>>,
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
        for frame in thread.entered() {
            // Nobody can leave these any more.
            if frame.span.is_recording() {
                UNATTACHED.lose(LostCause::ThreadExit, 0);
            }
        }
        let warm = thread.warm.take();
        let (kept, count) = thread.kept.into_inner();
        let slots = kept[..count].iter().copied().flatten().chain(warm);
        // Not in a forked child, where another thread may have held the lock.
        unless_reentered(|| slots::give_back(slots));
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
    let mut frames = Box::new_uninit_slice(USUAL_FRAMES);
    let nobody = ManuallyDrop::new(Span::inert(&slots::NOBODYS_SITE));
    frames[0].write(Frame { id: 0, slot: &slots::NOBODY, number: 0, turn: 0, span: nobody });
    let (first, last) = (frames.as_mut_ptr(), &raw mut frames[USUAL_FRAMES - 1]);
    let thread = Box::new(Thread {
        innermost: Cell::new(first.cast()),
        last: Cell::new(last.cast()),
        frames: UnsafeCell::new(frames),
        warm: Cell::new(None),
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

/// Room for one more frame, for as long as nothing else is entered.
pub(super) struct Room<'a> {
    thread: &'a Thread,
    /// The innermost frame so far, and not the last that there is memory for.
    around: *mut Frame,
}

impl Room<'_> {
    /// The span that the next one is entered in: its number, or 0.
    #[inline(always)]
    pub(super) fn around(&self) -> u32 {
        // SAFETY: as in `top`.
        unsafe { (*self.around).number }
    }

    /// Enters a span, which `open` opens when all the rest is done.
    #[inline(always)]
    pub(super) fn enter(self, frame: Frame, open: impl FnOnce(&mut Span)) {
        // SAFETY: not the last, so the next is in `frames` too; and as in `top`.
        unsafe {
            let next = self.around.add(1);
            next.write(frame);
            open(&mut (*next).span);
            self.thread.innermost.set(next);
        }
    }
}

impl Thread {
    /// The innermost frame, which is nobody's if the thread is inside of no span.
    #[inline(always)]
    fn top(&self) -> &Frame {
        // SAFETY: points into `frames`, at one that has been written. The owner's alone, and
        // nothing else runs while the reference lives.
        unsafe { &*self.innermost.get() }
    }

    /// The innermost span that this thread is inside of: its number, or 0.
    #[inline(always)]
    pub(super) fn innermost(&self) -> u32 {
        self.top().number
    }

    /// The same: its id and slot.
    pub(super) fn innermost_slot(&self) -> Option<(u64, &'static Slot)> {
        let Frame { id, slot, .. } = *self.top();
        (id != 0).then_some((id, slot))
    }

    /// All spans that this thread is inside of.
    fn entered(&self) -> &[Frame] {
        // SAFETY: as in `top`.
        let first = unsafe { &*self.frames.get() }.as_ptr().cast::<Frame>();
        // SAFETY: both point into `frames`, and all between them have been written.
        unsafe {
            let count = self.innermost.get().offset_from_unsigned(first);
            slice::from_raw_parts(first.add(1), count)
        }
    }

    /// Room for one more frame, if there is any.
    #[inline(always)]
    pub(super) fn room(&self) -> Option<Room<'_>> {
        let around = self.innermost.get();
        (around != self.last.get()).then_some(Room { thread: self, around })
    }

    /// Makes room if there is none.
    pub(super) fn make_room(&self) {
        if self.room().is_some() {
            return;
        }
        // SAFETY: as in `top`.
        let wanted = unsafe { &*self.frames.get() }.len() * 2;
        let mut larger = Box::new_uninit_slice(wanted);
        if self.room().is_some() {
            return; // the allocator is instrumented, and came here first
        }
        let first: *mut Frame = larger.as_mut_ptr().cast();
        // SAFETY: as in `top`; whatever the allocator may have entered it has left. `larger` has
        // room for all that are copied and for as many more.
        let smaller = unsafe {
            let frames = &mut *self.frames.get();
            ptr::copy_nonoverlapping(frames.as_ptr().cast(), first, frames.len());
            self.innermost.set(first.add(frames.len() - 1));
            self.last.set(first.add(wanted - 1));
            mem::replace(frames, larger)
        };
        drop(smaller);
    }

    /// Leaves a span: takes its innermost frame, which should be the innermost of
    /// all, and runs `f` on it. Nothing that `f` does comes back here.
    #[inline(always)]
    pub(super) fn pop(&self, id: u64, f: impl FnOnce(&Frame)) {
        // Read where it is: copied as a whole it would have to wait for the stores of its parts.
        // What is left out stays as it is until the next push.
        let frame = self.top();
        if frame.id != id {
            return self.pop_out_of_turn(id, f);
        }
        // SAFETY: no span has the id 0, so this is not the first frame.
        self.innermost.set(unsafe { self.innermost.get().sub(1) });
        f(frame);
    }

    #[cold]
    #[inline(never)]
    fn pop_out_of_turn(&self, id: u64, f: impl FnOnce(&Frame)) {
        let entered = self.entered();
        let Some(at) = entered.iter().rposition(|frame| frame.id == id) else { return };
        let above = entered.len() - 1 - at;
        // SAFETY: `at` and the frames above it have been written; those move down by one, and
        // what is read here is not used by them any more.
        let frame = unsafe {
            let place = self.innermost.get().sub(above);
            let frame = place.read();
            ptr::copy(place.add(1), place, above);
            self.innermost.set(self.innermost.get().sub(1));
            frame
        };
        f(&frame);
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
        // SAFETY: as in `top`.
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
            // SAFETY: as in `top`.
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
