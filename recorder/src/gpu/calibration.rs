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
}
