//! The recording side of one thread: one ring, one stack of open spans, a few
//! counts. This is the hot path; nothing here allocates, locks, formats, waits
//! or makes a system call (`tests/it/no_allocation.rs` proves the first). The one
//! exception is cold: an error whose texts are longer than an event holds.
//!
//! A span costs two counter reads, one 32-byte push and four plain stores. A
//! full ring loses the newest event and counts it; the thread goes on.
//!
//! Not for use inside signal handlers: a handler that records while its thread
//! is in the middle of a push would tear the ring.

#![allow(unsafe_code)] // the producer half is behind an UnsafeCell; see `Lane::producer`

use std::{
    cell::UnsafeCell,
    ptr,
    sync::{Mutex, PoisonError},
};

use memmap2::MmapMut;
use ringscope_format::{
    Kind, LISTED_FRAMES, Link, LongRefs, LostCause, MAX_SLOTS, Record, SkipCause, Status, Value,
    slots_needed, slots_needed_with, texts_left_cut, too_wide, write_slots_with,
};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::{
    atomics::{Acquire, AtomicU32, AtomicU64, Relaxed, Release},
    hot::{fetch_ahead::FetchAhead, in_flight::InFlight, ownership::Ownership},
    long_texts::{self, Parcel},
};

/// What one thread records through. Lives for ever and passes from thread to thread.
///
/// Aligned to two cache lines: the producer half is written on every push, and
/// two of them in one line double the cost of both.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Lane {
    /// Touched by the owning thread alone, see [`Ownership`]; re-created by the
    /// thread that claims the lane.
    producer: UnsafeCell<Producer<Record>>,
    /// Owner only.
    ahead: FetchAhead,
    /// The owner's track, in the upper half as in a record's third word; 0 once it
    /// has retired. Tracks are never reused, so a guard that finds another track
    /// here knows that the lane is not its own any more.
    track_word: AtomicU64,
    pub(crate) in_flight: InFlight<LISTED_FRAMES>,
    pub(crate) counts: Counts,
    /// Owner only: how many asynchronous spans it has begun.
    begun: AtomicU32,
    pub(crate) ownership: Ownership,
    /// Place in the pool and in the file's in-flight area.
    pub(crate) index: u32,
    /// The drain's half, see [`Ownership`].
    consumer: UnsafeCell<Consumer<Record>>,
    /// Who the owner is: written by the claimant, read by the drain.
    owner: UnsafeCell<Owner>,
}

// SAFETY: the cells are what keeps `Lane` from being Sync by itself. `Ownership`
// says at each moment which single thread may touch each of them, and hands over
// with release and acquire.
unsafe impl Sync for Lane {}
// SAFETY: as above; nothing in a lane is tied to the thread that made it.
unsafe impl Send for Lane {}

/// Events that did not reach the ring. Written by the owner with a plain load
/// and store (a `fetch_add` would lock the bus for each), read by the drain.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Grows with each of the others, after them: equal twice, nothing was counted meanwhile.
    changes: AtomicU64,
    pub(crate) lost: [AtomicU64; 8],
    pub(crate) lost_slots: [AtomicU64; 8],
    pub(crate) skipped: [AtomicU64; 8],
}

/// The thread behind a lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owner {
    /// Stays here after the thread has retired, until the drain recycles the lane.
    pub(crate) track: u32,
    pub(crate) os_id: u64,
    pub(crate) name: String,
    /// The recorder's own thread, whose events are accounted apart.
    pub(crate) is_recorder: bool,
}

impl Counts {
    #[cold]
    fn lose(&self, cause: LostCause, slots: u64) {
        add(&self.lost[cause as usize], 1);
        add(&self.lost_slots[cause as usize], slots);
        self.change();
    }

    #[inline]
    fn skip(&self, cause: SkipCause) {
        add(&self.skipped[cause as usize], 1);
        self.change();
    }

    #[inline(always)]
    fn change(&self) {
        // Release, with the load in `changes`: who sees the change sees what was counted.
        self.changes.store(self.changes.load(Relaxed).wrapping_add(1), Release);
    }

    /// Differs whenever something was counted.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Lost events, their slots, and skipped events, by cause.
    pub(crate) fn read(&self) -> [[u64; 8]; 3] {
        [&self.lost, &self.lost_slots, &self.skipped]
            .map(|counts| counts.each_ref().map(|count| count.load(Relaxed)))
    }

    /// Owner only: for the next one.
    fn reset(&self) {
        for count in self.lost.iter().chain(&self.lost_slots).chain(&self.skipped) {
            count.store(0, Relaxed);
        }
        self.change();
    }
}

#[inline(always)]
fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Relaxed) + n, Relaxed);
}

impl Lane {
    /// A lane without a ring: pushes fail until a thread claims it and makes one.
    pub(crate) fn new(index: u32) -> Self {
        let (producer, consumer) = RingBuffer::new(0);
        Self {
            producer: UnsafeCell::new(producer),
            ahead: FetchAhead::nowhere(),
            track_word: AtomicU64::new(0),
            in_flight: InFlight::new(),
            counts: Counts::default(),
            begun: AtomicU32::new(0),
            ownership: Ownership::new(),
            index,
            consumer: UnsafeCell::new(consumer),
            owner: UnsafeCell::new(Owner::default()),
        }
    }

    /// The owner's track, or 0.
    #[inline(always)]
    pub(crate) fn track(&self) -> u32 {
        (self.track_word() >> 32) as u32
    }

    /// The owner's track as it is in a record's third word, above the name.
    #[inline(always)]
    pub(crate) fn track_word(&self) -> u64 {
        self.track_word.load(Relaxed)
    }

    /// Owner only: records a finished span, or counts it as lost if the ring is full.
    ///
    /// Never waits: a late measurement would disturb what it measures.
    #[inline(always)]
    pub(crate) fn push(&self, record: Record) {
        // SAFETY: only the owning thread calls this (guards and handles are not
        // Send and compare tracks first), it does not call itself, and no
        // reference outlives the call.
        let producer = unsafe { &mut *self.producer.get() };
        match producer.push(record) {
            Ok(()) => self.ahead.step_once(),
            Err(_) => self.lose(LostCause::RingFull, 0),
        }
    }

    /// Owner only: records an event with more to say. All of it is pushed in one
    /// step, so that no reader ever sees a part.
    #[inline]
    pub(crate) fn push_wide(&self, record: Record, fields: &[(u32, Value<'_>)], links: &[Link]) {
        let slots = slots_needed(fields, links);
        if too_wide(fields, links) {
            return self.lose(LostCause::TooWide, slots as u64);
        }
        // Where a text was cut, the slots are used up. Those of errors take the long way.
        if slots == MAX_SLOTS && record.kind == Kind::ERROR {
            return self.push_error(record, fields, links);
        }
        self.push_slots(record, slots, fields, links, LongRefs::NONE);
    }

    /// Owner only: an error whose texts may not fit. Allocates for those that do not.
    #[cold]
    #[inline(never)]
    fn push_error(&self, record: Record, fields: &[(u32, Value<'_>)], links: &[Link]) {
        let parcel = Parcel::pack(fields, links);
        let long = parcel.long;
        let slots = slots_needed_with(fields, links, long);
        // SAFETY: as in `push`.
        let room = unsafe { &*self.producer.get() }.slots();
        if room <= slots {
            return self.lose_for_want_of_room(slots);
        }
        // Only this thread takes room, so what is there now is there below: a text that is
        // on its way has an event.
        long_texts::count_cut(u64::from(texts_left_cut(fields, links, long)));
        parcel.send();
        self.push_slots(record, slots, fields, links, long);
    }

    #[inline(always)]
    fn push_slots(
        &self,
        mut record: Record,
        slots: usize,
        fields: &[(u32, Value<'_>)],
        links: &[Link],
        long: LongRefs,
    ) {
        record.shape = Record::shape_of(slots, record.value_type());
        // SAFETY: as in `push`.
        let producer = unsafe { &mut *self.producer.get() };
        let Ok(mut room) = producer.write_chunk_uninit(1 + slots) else {
            return self.lose_for_want_of_room(slots);
        };
        let (first, second) = room.as_mut_slices();
        let mut places = first.iter_mut().chain(second);
        let mut written = 0;
        let mut put = |unit: Record| {
            if let Some(place) = places.next() {
                place.write(unit);
                written += 1;
            }
        };
        put(record);
        write_slots_with(fields, links, long, &mut put);
        debug_assert_eq!(written, 1 + slots);
        if written == 1 + slots {
            // SAFETY: all `1 + slots` places have just been written.
            unsafe { room.commit_all() };
            self.ahead.step(1 + slots);
        }
    }

    /// Owner only: the event does not fit into the ring now, or never would.
    #[cold]
    fn lose_for_want_of_room(&self, slots: usize) {
        // SAFETY: as in `push`.
        let capacity = unsafe { &*self.producer.get() }.buffer().capacity();
        let cause = if slots < capacity { LostCause::RingFull } else { LostCause::TooWide };
        self.lose(cause, slots as u64);
    }

    #[cold]
    pub(crate) fn lose(&self, cause: LostCause, slots: u64) {
        self.counts.lose(cause, slots);
    }

    #[inline]
    pub(crate) fn skip(&self, cause: SkipCause) {
        self.counts.skip(cause);
    }

    /// Owner only: an id for an asynchronous span, unique in this process.
    pub(crate) fn next_span_id(&self) -> u64 {
        let n = self.begun.load(Relaxed).wrapping_add(1);
        self.begun.store(n, Relaxed);
        u64::from(self.track()) << 32 | u64::from(n)
    }

    /// Claimant only: makes the lane ready for its new owner. Returns false, and the lane is as it
    /// was, if there is no memory for a ring.
    pub(crate) fn settle(&self, owner: Owner, ring_records: usize) -> bool {
        let track = owner.track;
        // SAFETY: between `claim` and `settle` the claimant has all cells to itself.
        unsafe {
            if (*self.producer.get()).buffer().capacity() != ring_records {
                let Some((mut producer, consumer)) = new_ring(ring_records) else { return false };
                self.ahead.begin(touch_every_page(&mut producer), ring_records);
                *self.producer.get() = producer;
                *self.consumer.get() = consumer;
            }
            *self.owner.get() = owner;
        }
        self.in_flight.leave(0);
        self.counts.reset();
        self.begun.store(0, Relaxed);
        self.track_word.store(u64::from(track) << 32, Relaxed);
        self.ownership.settle();
        true
    }

    /// Owner only, at thread exit: no push after this.
    pub(crate) fn retire(&self) {
        self.in_flight.leave(0);
        // Guards and handles that outlive their thread's registration compare this.
        self.track_word.store(0, Release);
        self.ownership.retire();
    }

    /// Drain only, while the lane is recording or retired.
    #[allow(clippy::mut_from_ref)] // the cell is the drain's; see `Ownership`
    pub(crate) fn consumer(&self) -> &mut Consumer<Record> {
        // SAFETY: the consumer half is the drain's in these states, there is one
        // drain, and it holds one such reference at a time.
        unsafe { &mut *self.consumer.get() }
    }

    /// Drain only, while the lane is recording or retired.
    pub(crate) fn owner(&self) -> &Owner {
        // SAFETY: written before `settle`'s release, not again until the drain recycles the lane.
        unsafe { &*self.owner.get() }
    }

    /// Claimant only: gives the ring's memory back.
    pub(crate) fn drop_ring(&self) {
        let (producer, consumer) = RingBuffer::new(0);
        // SAFETY: between `claim` and `settle` or `give_up` the claimant has all cells to itself.
        unsafe {
            *self.producer.get() = producer;
            *self.consumer.get() = consumer;
        }
    }

    /// Claimant only: how many records the ring takes.
    pub(crate) fn ring_records(&self) -> usize {
        // SAFETY: as in `drop_ring`.
        unsafe { (*self.producer.get()).buffer().capacity() }
    }
}

/// Memory that rings leave to the program.
const LEFT_TO_THE_PROGRAM: usize = 4 << 20;

/// A ring, if there is memory for one: to ask the allocator for more than there is would end the
/// program. So it is asked for before, one ring at a time, and of the system, since memory that is given
/// back to an allocator may change how that treats the program.
fn new_ring(records: usize) -> Option<(Producer<Record>, Consumer<Record>)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = records.checked_mul(size_of::<Record>())?.checked_add(LEFT_TO_THE_PROGRAM)?;
    drop(MmapMut::map_anon(bytes).ok()?);
    Some(RingBuffer::new(records))
}

/// Writes to every page of a new ring once, so that the kernel hands them out now
/// and not one by one on the hot path. Returns where its records are.
fn touch_every_page(producer: &mut Producer<Record>) -> *const Record {
    /// Records in the smallest page that there is, 4 KiB.
    const PAGE: usize = 4_096 / size_of::<Record>();
    let everything = producer.slots();
    let Ok(mut room) = producer.write_chunk_uninit(everything) else { return ptr::null() };
    // In one piece, as long as nothing was pushed.
    let (first, _) = room.as_mut_slices();
    for begin in (0..first.len()).step_by(PAGE) {
        first[begin].write(Record::default());
    }
    // The ring need not begin where a page does, and then ends one page later.
    if let Some(last) = first.last_mut() {
        last.write(Record::default());
    }
    // Dropped without a commit: the ring stays empty.
    first.as_ptr().cast()
}

/// The record of a span that has just ended, as four words: the compiler stores
/// them as they are, where nine fields would be nine stores.
///
/// `names` is the name's id, with the track above it; `depth` is at most 255.
#[inline(always)]
pub(crate) fn span_words(start: u64, end: u64, names: u64, depth: u32, status: Status) -> [u64; 4] {
    let tags = u64::from(Kind::SPAN.0) << 32 | u64::from(status.0) << 40 | u64::from(depth) << 48;
    // The duration is negative if the counter ran backwards; the reader counts those.
    [start, end.wrapping_sub(start), names, tags]
}

/// The depth in the last word of a span, which has no slots.
#[inline(always)]
pub(crate) fn depth_in(tags: u64) -> u32 {
    (tags >> 48) as u32
}

#[cfg(test)]
mod tests {
    use ringscope_format::ValueType;

    use super::*;

    fn owned(ring_records: usize) -> Lane {
        let lane = Lane::new(0);
        assert!(lane.ownership.claim());
        lane.settle(Owner { track: 7, ..Owner::default() }, ring_records);
        lane
    }

    fn record(start: u64) -> Record {
        bytemuck::cast(span_words(start, start + 1, 7 << 32 | 1, 0, Status::UNKNOWN))
    }

    #[test]
    fn the_words_of_a_span_are_its_fields() {
        let expected = Record {
            start: 5,
            value: 4,
            name: 3,
            track: 2,
            link: 0,
            kind: Kind::SPAN,
            status: Status::ERROR,
            depth: 255,
            shape: Record::shape_of(0, ValueType::None),
        };
        let words = span_words(5, 9, 2 << 32 | 3, 255, Status::ERROR);
        assert_eq!(bytemuck::cast::<_, Record>(words), expected);
        assert_eq!(depth_in(words[3]), 255);
    }

    #[test]
    fn a_full_ring_counts_the_newest_record_as_lost() {
        let lane = owned(2);
        (0..5).for_each(|i| lane.push(record(i)));
        assert_eq!(lane.counts.lost[LostCause::RingFull as usize].load(Relaxed), 3);
        let starts: Vec<u64> = (0..2).map(|_| lane.consumer().pop().unwrap().start).collect();
        assert_eq!(starts, [0, 1]);
    }

    #[test]
    fn a_ring_of_one_takes_one_record_at_a_time() {
        let lane = owned(1);
        lane.push(record(1));
        lane.push(record(2));
        assert_eq!(lane.consumer().pop().unwrap().start, 1);
        lane.push(record(3));
        assert_eq!(lane.consumer().pop().unwrap().start, 3);
        assert_eq!(lane.counts.lost[LostCause::RingFull as usize].load(Relaxed), 1);
    }

    #[test]
    fn a_wide_event_is_pushed_whole_or_not_at_all() {
        let lane = owned(4);
        let fields = [(1, Value::U64(1)), (2, Value::U64(2)), (3, Value::U64(3))];
        lane.push_wide(record(1), &fields, &[]);
        assert_eq!(lane.consumer().slots(), 3);
        lane.push_wide(record(2), &fields, &[]);
        assert_eq!(lane.consumer().slots(), 3, "nothing of the second event is there");
        assert_eq!(lane.counts.lost[LostCause::RingFull as usize].load(Relaxed), 1);
        assert_eq!(lane.counts.lost_slots[LostCause::RingFull as usize].load(Relaxed), 2);
    }

    #[test]
    fn an_event_wider_than_its_ring_is_lost_as_too_wide() {
        let lane = owned(1);
        lane.push_wide(record(1), &[(1, Value::U64(1))], &[]);
        assert_eq!(lane.counts.lost[LostCause::TooWide as usize].load(Relaxed), 1);
    }
}
