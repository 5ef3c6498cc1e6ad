//! Threads come and go; lanes stay and are handed on.
//!
//! A thread gets a lane on its first use and gives it back when it exits. The
//! drain empties the lane it left and puts it back into the pool, so ten
//! thousand threads need no more rings than were alive at once. Rings that have
//! been spare for a while are given back to the system.

#![allow(unsafe_code)] // a thread-local pointer to a lane that lives for ever

use std::{
    cell::Cell,
    marker::PhantomData,
    ptr,
    sync::{
        LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    thread::Thread,
};

use ringscope_format::{Link, LostCause, Record, SkipCause, Value, slots_needed};

use crate::hot::{
    call_site::unless_reentered,
    homes,
    lane::{Lane, Owner},
    ownership::DrainView,
};

/// How many threads can record at once; the file has an in-flight entry for each.
pub(crate) const MAX_LANES: usize = 1_024;
/// Records in a thread's ring: 1.9 MiB. At 20 million spans a second it covers
/// 3 ms without a drain; at 1 million, 60 ms.
const RING_RECORDS: usize = 61_440;
/// Records in the ring of the first thread to record, 8 MiB: where one thread
/// does it all, it rides out a pause of the drain of 21 ms at 12 million spans
/// a second. Virtual machines take their processors away for that long.
const LARGE_RING_RECORDS: usize = 262_144;
/// Records in the ring of the recorder's own thread: a few readings.
const OWN_RING_RECORDS: usize = 1_024;
/// Rings that stay ready for new threads, however long they have been spare.
const SPARE_RINGS: usize = 2;
/// A thread that got no ring asks again after this many events.
const ASK_AGAIN_AFTER: u32 = 1_024;

struct Pool {
    lanes: Vec<&'static Lane>,
    /// What every ring holds, if the program has set it.
    ring_records: Option<usize>,
    /// The lane with the large ring, and how much that holds.
    large_lane: Option<u32>,
    large_records: usize,
    max_lanes: usize,
    /// Whether a drain runs or is about to: then retired lanes are its business.
    has_drain: bool,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    lanes: Vec::new(),
    ring_records: None,
    large_lane: None,
    large_records: LARGE_RING_RECORDS,
    max_lanes: 256,
    has_drain: false,
});
/// Length of `lanes`, so that the drain looks without locking.
static LANES: AtomicU32 = AtomicU32::new(0);
static DRAIN: Mutex<Option<Thread>> = Mutex::new(None);
static NEXT_TRACK: AtomicU32 = AtomicU32::new(1);

/// Events of threads that had no lane, by cause.
pub(crate) static UNATTACHED: Unattached = Unattached {
    changes: AtomicU64::new(0),
    lost: [const { AtomicU64::new(0) }; 8],
    lost_slots: [const { AtomicU64::new(0) }; 8],
    skipped: [const { AtomicU64::new(0) }; 8],
};

/// Counts shared by all threads that have no lane of their own.
#[derive(Debug)]
pub(crate) struct Unattached {
    /// Grows with each of the others, after them.
    changes: AtomicU64,
    lost: [AtomicU64; 8],
    lost_slots: [AtomicU64; 8],
    skipped: [AtomicU64; 8],
}

/// What [`UNATTACHED`] has counted since the process began, by cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnattachedCounts {
    pub(crate) lost: [u64; 8],
    pub(crate) lost_slots: [u64; 8],
    pub(crate) skipped: [u64; 8],
}

impl Unattached {
    /// Counts an event and its slots.
    #[cold]
    pub(crate) fn lose(&self, cause: LostCause, slots: usize) {
        self.lost[cause as usize].fetch_add(1, Ordering::Relaxed);
        self.lose_slots(cause, slots);
    }

    #[cold]
    fn lose_slots(&self, cause: LostCause, slots: usize) {
        self.lost_slots[cause as usize].fetch_add(slots as u64, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }

    #[cold]
    pub(crate) fn skip(&self, cause: SkipCause) {
        self.skipped[cause as usize].fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Differs whenever something was counted.
    pub(crate) fn changes(&self) -> u64 {
        // Acquire, with the Release above: who sees the change sees what was counted.
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn counts(&self) -> UnattachedCounts {
        let load = |counts: &[AtomicU64; 8]| counts.each_ref().map(|it| it.load(Ordering::Relaxed));
        UnattachedCounts {
            lost: load(&self.lost),
            lost_slots: load(&self.lost_slots),
            skipped: load(&self.skipped),
        }
    }
}

thread_local! {
    /// Has no destructor, so that access is one load.
    static HERE: Here = const { Here::new() };
    /// Events since this thread last asked for a ring in vain.
    static MISSED: Cell<u32> = const { Cell::new(0) };
    /// Gives the lane back when the thread exits.
    static RETIREMENT: Retirement = const { Retirement };
}

/// What the calling thread has at hand. In one place, since reaching a thread-local may be
/// a call, and is compiled as one even where it is not.
pub(crate) struct Here {
    /// This thread's lane, or null. A thread has no other before or after it.
    lane: Cell<*const Lane>,
    /// Which spans of `tracing` it is inside of.
    #[cfg(feature = "tracing")]
    pub(crate) tracing: crate::tracing::Thread,
}

impl Here {
    const fn new() -> Self {
        Self {
            lane: Cell::new(ptr::null()),
            #[cfg(feature = "tracing")]
            tracing: crate::tracing::Thread::new(),
        }
    }

    /// The thread's lane, if it has one now.
    #[cfg(feature = "tracing")]
    #[inline(always)]
    pub(crate) fn lane(&self) -> Option<&'static Lane> {
        // SAFETY: as in `Retirement`.
        unsafe { self.lane.get().as_ref() }
    }
}

/// What the calling thread has at hand.
#[cfg(feature = "tracing")]
#[inline(always)]
pub(crate) fn here() -> &'static Here {
    // SAFETY: there for as long as the thread, as it has no destructor. The reference is used
    // by functions that return before that, and is not `Send`.
    HERE.with(|here| unsafe { &*ptr::from_ref(here) })
}

struct Retirement;

impl Drop for Retirement {
    fn drop(&mut self) {
        let lane = HERE.with(|here| here.lane.replace(ptr::null()));
        // SAFETY: `lane` holds null or a pointer made from a `&'static Lane`.
        if let Some(lane) = unsafe { lane.as_ref() } {
            lane.retire();
        }
    }
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread's lane; null if it has none yet.
#[inline(always)]
pub(crate) fn current() -> *const Lane {
    HERE.with(|here| here.lane.get())
}

/// The calling thread's lane, claimed now if it has none. `None`, and the event
/// counted as lost, if no ring can be had; its slots are for who knows its fields to
/// count, with [`lose_slots`].
#[cold]
pub(crate) fn attach() -> Option<&'static Lane> {
    let lane = attach_as(false);
    if lane.is_none() {
        UNATTACHED.lose(why_unattached(), 0);
    }
    lane
}

/// Counts the slots of an event for which [`attach`] has found no ring.
#[cold]
#[inline(never)]
pub(crate) fn lose_slots(fields: &[(u32, Value<'_>)], links: &[Link]) {
    let slots = slots_needed(fields, links);
    if slots > 0 {
        UNATTACHED.lose_slots(why_unattached(), slots);
    }
}

fn why_unattached() -> LostCause {
    let exiting = RETIREMENT.try_with(|_| ()).is_err();
    if exiting { LostCause::ThreadExit } else { LostCause::NoRing }
}

/// Like [`attach`], without counting; `is_recorder` marks the recorder's own thread.
pub(crate) fn attach_as(is_recorder: bool) -> Option<&'static Lane> {
    // SAFETY: as in `Retirement`.
    if let Some(lane) = unsafe { current().as_ref() } {
        return Some(lane);
    }
    let missed = MISSED.get();
    if !missed.is_multiple_of(ASK_AGAIN_AFTER) {
        MISSED.set(missed.wrapping_add(1));
        return None;
    }
    // Fails if the thread is past its destructors: nobody would retire the lane then.
    RETIREMENT.try_with(|_| ()).ok()?;
    let lane = unless_reentered(|| claim(is_recorder))?;
    MISSED.set(if lane.is_some() { 0 } else { missed.wrapping_add(1) });
    HERE.with(|here| here.lane.set(lane.map_or(ptr::null(), ptr::from_ref)));
    lane
}

impl Pool {
    /// Without a drain: lanes whose threads have gone are free again. Whatever may be left
    /// in their rings the next drain throws away as it starts.
    fn recycle(&self) {
        let retired = |lane: &&&'static Lane| lane.ownership.drain_view() == DrainView::Retired;
        self.lanes.iter().filter(retired).for_each(|lane| recycle(lane));
    }

    /// How many records the ring of a lane should hold.
    fn records_for(&mut self, lane: u32, is_recorder: bool) -> usize {
        if is_recorder {
            self.large_lane.take_if(|large| *large == lane);
            return OWN_RING_RECORDS;
        }
        let is_large = *self.large_lane.get_or_insert(lane) == lane;
        let by_default = if is_large { self.large_records } else { RING_RECORDS };
        self.ring_records.unwrap_or(by_default)
    }
}

fn claim(is_recorder: bool) -> Option<&'static Lane> {
    let (lane, ring_records) = {
        let mut pool = pool();
        let free = |lane: &&&'static Lane| lane.ownership.claim();
        if !pool.has_drain {
            pool.recycle();
        }
        let spare = pool.lanes.iter().find(free).copied();
        let lane = match spare {
            Some(lane) => lane,
            // The program's threads must not keep the recorder's own from a ring.
            None if pool.lanes.len() < pool.max_lanes + usize::from(is_recorder) => {
                let lane: &'static Lane = Box::leak(Box::new(Lane::new(pool.lanes.len() as u32)));
                lane.ownership.claim();
                pool.lanes.push(lane);
                LANES.store(pool.lanes.len() as u32, Ordering::Release);
                lane
            }
            None => return None,
        };
        (lane, pool.records_for(lane.index, is_recorder))
    };
    if !lane.settle(describe_this_thread(is_recorder), ring_records) {
        lane.ownership.give_up();
        return None;
    }
    // A thread that is new is about to record: the drain should not be dozing.
    if let Ok(drain) = DRAIN.try_lock()
        && let Some(drain) = drain.as_ref()
    {
        drain.unpark();
    }
    Some(lane)
}

/// Whom to wake when a thread begins to record.
pub(crate) fn wake_for_new_threads(drain: Option<Thread>) {
    *DRAIN.lock().unwrap_or_else(PoisonError::into_inner) = drain;
}

fn describe_this_thread(is_recorder: bool) -> Owner {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let track = next_track();
    Owner { track, os_id: os_thread_id(), name, is_recorder }
}

/// The number of a new line of time; none is given out twice.
pub(crate) fn next_track() -> u32 {
    NEXT_TRACK.fetch_add(1, Ordering::Relaxed)
}

#[cfg(target_os = "linux")]
fn os_thread_id() -> u64 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::gettid() as u64 }
}

#[cfg(target_os = "macos")]
fn os_thread_id() -> u64 {
    let mut id = 0;
    // SAFETY: thread 0 means the calling one; `id` is valid to write to.
    unsafe { libc::pthread_threadid_np(0, &raw mut id) };
    id
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn os_thread_id() -> u64 {
    0
}

/// A recording begins: what rings threads get from now on.
pub(crate) fn configure(ring_records: Option<usize>, budget_bytes: u64) {
    let mut pool = pool();
    pool.has_drain = true;
    pool.ring_records = ring_records;
    (pool.large_records, pool.max_lanes) = divide(ring_records, budget_bytes);
}

/// What a budget allows: how many records in the large ring, and how many lanes.
fn divide(ring_records: Option<usize>, budget_bytes: u64) -> (usize, usize) {
    let bytes = |records: usize| (records * size_of::<Record>()).max(1) as u64;
    let usual = ring_records.unwrap_or(RING_RECORDS);
    // Only if another thread has room beside it.
    let is_large =
        ring_records.is_none() && bytes(LARGE_RING_RECORDS) + bytes(usual) <= budget_bytes;
    let large = if is_large { LARGE_RING_RECORDS } else { usual };
    let left = budget_bytes - (bytes(large) - bytes(usual));
    // At least two: the recorder's own thread has one, and may be one too many.
    let most = MAX_LANES as u64 - 1;
    (large, (left / bytes(usual)).clamp(2, most) as usize)
}

/// Drain, or without one whoever claims a lane: one whose thread has gone and whose ring is empty,
/// or emptied later, is free again.
pub(crate) fn recycle(lane: &Lane) {
    homes::remember(lane.owner());
    lane.ownership.recycle();
}

/// The recording is over, and its drain gone.
pub(crate) fn end() {
    wake_for_new_threads(None);
    pool().has_drain = false;
}

/// Drain only: how many lanes there are.
#[inline]
pub(crate) fn lanes() -> usize {
    LANES.load(Ordering::Acquire) as usize
}

/// Drain only: the lanes behind so many that it knows.
pub(crate) fn lanes_from(known: usize) -> Vec<&'static Lane> {
    pool().lanes[known..].to_vec()
}

/// Gives the memory of spare rings back, but for a few.
pub(crate) fn trim() {
    // Under the lock, as in `claim`: no thread must find a lane taken by this.
    let pool = pool();
    let mut spare = 0;
    for lane in &pool.lanes {
        if !lane.ownership.claim() {
            continue;
        }
        if lane.ring_records() > 0 {
            spare += 1;
            if spare > SPARE_RINGS {
                lane.drop_ring();
            }
        }
        lane.ownership.give_up();
    }
}

/// Pays the first-use cost of the calling thread now: its ring is allocated and
/// every page of it touched.
///
/// Call it at the start of a thread whose very first span must not be late. The thread
/// keeps its ring, 1.9 MiB or what [`Builder`](crate::Builder) says, until it exits, whether
/// or not a recorder runs.
/// Returns whether the thread has a ring.
pub fn register_thread() -> bool {
    attach_as(false).is_some()
}

/// The calling thread's recording side, looked up once.
///
/// For the hottest loops: `span!(in thread, "name")` saves the look-up of the
/// thread's lane. Not `Send`: it belongs to the thread that made it. Like
/// [`register_thread`], making one takes a ring even if no recorder runs yet.
///
/// ```
/// let thread = ringscope::ThreadHandle::current();
/// for _ in 0..1_000 {
///     let _span = ringscope::span!(in thread, "inner loop");
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ThreadHandle {
    lane: &'static Lane,
    track: u32,
    not_send: PhantomData<*const ()>,
}

impl ThreadHandle {
    /// The handle of the calling thread.
    pub fn current() -> Self {
        /// Stands in where there is no lane; never anyone's, so the tracks differ.
        static NOBODY: LazyLock<Lane> = LazyLock::new(|| Lane::new(u32::MAX));
        match attach_as(false) {
            Some(lane) => Self { lane, track: lane.track(), not_send: PhantomData },
            None => Self { lane: &NOBODY, track: u32::MAX, not_send: PhantomData },
        }
    }

    /// Whether the lane is still this thread's.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        self.lane.track() == self.track
    }

    #[inline(always)]
    pub(crate) fn lane(&self) -> &'static Lane {
        self.lane
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_large_ring_is_a_part_of_the_budget() {
        let mib = |n: u64| n << 20;
        assert_eq!(divide(None, mib(1 << 10)), (LARGE_RING_RECORDS, 542));
        assert_eq!(divide(None, mib(10)), (LARGE_RING_RECORDS, 2));
        assert_eq!(divide(None, mib(9)), (RING_RECORDS, 4));
        assert_eq!(divide(None, 0), (RING_RECORDS, 2));
        assert_eq!(divide(Some(1_024), mib(1)), (1_024, 32));
    }
}
