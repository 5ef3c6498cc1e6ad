//! Spans that may end on another thread than they began on, while they are open.
//!
//! A fixed table, shared by all threads and scanned by the drain. Beginning a
//! span probes a few places from one that its id picks; where all of them are
//! taken the span is still recorded when it ends, it is only not listed while
//! it is open.

use crate::atomics::{Acquire, AtomicU64, Relaxed, Release, fence};

/// How many places `open` tries.
const PROBES: usize = 8;
/// An id that no span has: the place is being written.
const BUSY: u64 = u64::MAX;

#[derive(Debug)]
struct Place {
    /// 0 free, [`BUSY`] being written, else the id of the span that is listed.
    id: AtomicU64,
    start: AtomicU64,
    /// Name in the low half, track in the high half.
    name_and_track: AtomicU64,
}

/// A copy of one open span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenSpanCopy {
    pub(crate) id: u64,
    pub(crate) start: u64,
    pub(crate) name: u32,
    pub(crate) track: u32,
}

/// The table of open spans.
#[derive(Debug)]
pub(crate) struct OpenSpans<const N: usize> {
    places: [Place; N],
}

impl<const N: usize> OpenSpans<N> {
    #[cfg_attr(test, allow(clippy::large_stack_frames))]
    pub(crate) fn new() -> Self {
        Self {
            places: std::array::from_fn(|_| Place {
                id: AtomicU64::new(0),
                start: AtomicU64::new(0),
                name_and_track: AtomicU64::new(0),
            }),
        }
    }

    /// Lists a span; returns its place, or `None` if there was no room near by.
    pub(crate) fn open(&self, span: OpenSpanCopy) -> Option<u32> {
        // Ids count up in their low half; the multiplier spreads them (Fibonacci hashing).
        let first = (span.id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        for probe in 0..PROBES.min(N) {
            let index = (first + probe) % N;
            let place = &self.places[index];
            // Acquire, with the Release in `close`: our stores come after the last owner's.
            if place.id.load(Relaxed) != 0
                || place.id.compare_exchange(0, BUSY, Acquire, Relaxed).is_err()
            {
                continue;
            }
            // Release, with the fence in `copy`: who reads these sees BUSY or what came after.
            place.start.store(span.start, Release);
            place.name_and_track.store(u64::from(span.track) << 32 | u64::from(span.name), Release);
            place.id.store(span.id, Release);
            return Some(index as u32);
        }
        None
    }

    /// Frees a place that `open` returned.
    pub(crate) fn close(&self, place: u32) {
        self.places[place as usize].id.store(0, Release);
    }

    /// Copies place `index` if a span is listed there. Never blocks anyone; a
    /// place that is being written counts as free.
    pub(crate) fn copy(&self, index: usize) -> Option<OpenSpanCopy> {
        let place = &self.places[index];
        let id = place.id.load(Acquire);
        if id == 0 || id == BUSY {
            return None;
        }
        let start = place.start.load(Relaxed);
        let name_and_track = place.name_and_track.load(Relaxed);
        fence(Acquire);
        // Ids are never reused, so the same id means the same span throughout.
        (place.id.load(Relaxed) == id).then_some(OpenSpanCopy {
            id,
            start,
            name: name_and_track as u32,
            track: (name_and_track >> 32) as u32,
        })
    }
}
