//! How a device's clock was mapped, for the trace to keep: the drain writes
//! these pairs beside those of the host (SPEC 9.1).

use ringscope_format::ClockPair;

use super::clock_map::Pair;
use crate::DeviceQueue;

/// Keeps a pair of a queue's device for the trace; of too many at once the oldest go.
/// `tick_ns` is the nominal length of the device's tick, if there is one.
pub fn keep_pair(queue: &'static DeviceQueue, pair: Pair, tick_ns: Option<f64>) {
    #[cfg(not(feature = "off"))]
    kept::push(ClockPair {
        tick_before: pair.before,
        tick_after: pair.after,
        mono_ns: pair.device as i64,
        wall_ns: tick_ns.map_or(0, |ns| (ns * f64::from(1_u32 << 31) * 2.0) as i64),
        boot_ns: 0,
        track: queue.track(),
        unused: 0,
    });
    #[cfg(feature = "off")]
    let _: (&DeviceQueue, Pair, Option<f64>, Option<ClockPair>) = (queue, pair, tick_ns, None);
}

#[cfg(not(feature = "off"))]
pub(crate) mod kept {
    use std::{
        collections::VecDeque,
        sync::{
            Mutex, PoisonError,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use super::ClockPair;

    const MOST: usize = 256;

    static PAIRS: Mutex<VecDeque<ClockPair>> = Mutex::new(VecDeque::new());
    /// Length of the list, so that the drain looks without locking.
    static COUNT: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn push(pair: ClockPair) {
        let mut pairs = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
        if pairs.len() == MOST {
            pairs.pop_front();
        }
        pairs.push_back(pair);
        COUNT.store(pairs.len(), Ordering::Release);
    }

    /// Drain only: those that wait, if any.
    pub(crate) fn take() -> Vec<ClockPair> {
        if COUNT.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut pairs = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
        COUNT.store(0, Ordering::Release);
        pairs.drain(..).collect()
    }

    /// Drain only: what it took and had no room for, until the next time.
    pub(crate) fn put_back(taken: &[ClockPair]) {
        let mut pairs = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST.saturating_sub(pairs.len()).min(taken.len());
        for pair in taken[taken.len() - room..].iter().rev() {
            pairs.push_front(*pair);
        }
        COUNT.store(pairs.len(), Ordering::Release);
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_had_no_room_comes_again_before_what_is_newer() {
            let pair = |tick_before| ClockPair { tick_before, ..bytemuck::Zeroable::zeroed() };
            (0..3).for_each(|tick| push(pair(tick)));
            let taken = take();
            push(pair(3));
            put_back(&taken);
            let ticks = |pairs: Vec<ClockPair>| pairs.iter().map(|it| it.tick_before).collect();
            let again: Vec<u64> = ticks(take());
            assert_eq!(again, [0, 1, 2, 3]);
            // Of too many, the newest stay.
            (0..MOST as u64).for_each(|tick| push(pair(1_000 + tick)));
            put_back(&taken);
            let full: Vec<u64> = ticks(take());
            assert_eq!((full.len(), full[0]), (MOST, 1_000));
        }
    }
}
