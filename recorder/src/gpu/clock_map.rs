//! From a device's clock to the host's, by readings of both.
//!
//! **Design.** A backend that can read both clocks at once gives pairs of them, and
//! what lies between two pairs is put on the line through them; nothing need be known
//! of the unit in which the device counts. Behind the last pair the line of the
//! last two goes on, which is why a backend takes a pair before work and one after.
//!
//! **Error.** Each pair is uncertain by half its width, the time that the reading took.
//! Between two pairs the larger uncertainty of the two counts. Outside of them
//! [`DRIFT`] of the distance is added, and what the uncertainty of both makes of the line's slope:
//! much, where they are close together. It is what a [`Moment`] says.
//!
//! **Limits.** One pair alone maps nothing, and pairs are less than half a round of the
//! counter apart. A counter that went back, as after a reset of the device, begins a
//! new line: what was counted before it is not mapped any more.

use std::collections::VecDeque;

use super::counter::DeviceCounter;

/// By how much two clocks may run apart: 200 parts per million, twice what a poor
/// crystal is allowed.
pub const DRIFT: f64 = 200e-6;
/// Pairs that are kept: the oldest goes.
const KEPT: usize = 64;

/// One reading of a device's counter, between two ticks of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Tick before the device's counter was read.
    pub before: u64,
    /// Tick after.
    pub after: u64,
    /// What the counter said.
    pub device: u64,
}

impl Pair {
    /// The tick that is taken for it, the middle of the two.
    pub fn tick(&self) -> u64 {
        self.before + self.width() / 2
    }

    fn width(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// A moment on the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When, in ticks.
    pub tick: u64,
    /// By how many ticks that may be wrong.
    pub error: u64,
}

/// Maps the readings of a device's counter to ticks of the host.
#[derive(Debug)]
pub struct ClockMap {
    counter: DeviceCounter,
    /// In order, with how far the counter had come since the first of all.
    pairs: VecDeque<(i64, Pair)>,
    jumps: u32,
}

impl ClockMap {
    /// One without pairs, which maps nothing.
    pub fn new(counter: DeviceCounter) -> Self {
        Self { counter, pairs: VecDeque::with_capacity(KEPT), jumps: 0 }
    }

    /// Adds a pair, which is later than those before. Returns false if it cannot be: the host's
    /// ticks are not in order, neither clock has moved, or the device's went back between
    /// readings that overlap, which says no more than that they were taken at once.
    pub fn add(&mut self, pair: Pair) -> bool {
        self.put(pair, false)
    }

    /// The same in place of the newest pair, unless that is the only one: for pairs that
    /// are too close together to make a line.
    pub fn replace_last(&mut self, pair: Pair) -> bool {
        self.put(pair, true)
    }

    fn put(&mut self, pair: Pair, replaces_last: bool) -> bool {
        if pair.after < pair.before {
            return false;
        }
        let Some(&(extent, last)) = self.pairs.back() else {
            self.pairs.push_back((0, pair));
            return true;
        };
        if pair.tick() <= last.tick() {
            return false;
        }
        let moved = self.counter.between(last.device, pair.device);
        if moved == 0 {
            return false;
        }
        if moved < 0 && pair.before <= last.after {
            // Two threads read the clocks at once: which of them came first is not known.
            return false;
        }
        if moved < 0 {
            self.jumps += 1;
            self.pairs.clear();
            self.pairs.push_back((0, pair));
            return true;
        }
        if replaces_last && self.pairs.len() > 1 {
            self.pairs.pop_back();
        } else if self.pairs.len() == KEPT {
            self.pairs.pop_front();
        }
        self.pairs.push_back((extent.saturating_add(moved), pair));
        true
    }

    /// When the counter said this; `None` with fewer than two pairs.
    pub fn at(&self, device: u64) -> Option<Moment> {
        let (extent, last) = self.pairs.back()?;
        let extent = extent.saturating_add(self.counter.between(last.device, device));
        let behind = self.pairs.partition_point(|pair| pair.0 <= extent);
        let (first, second) = match behind {
            _ if self.pairs.len() < 2 => return None,
            0 => (self.pairs[0], self.pairs[1]),
            n if n == self.pairs.len() => (self.pairs[n - 2], self.pairs[n - 1]),
            n => (self.pairs[n - 1], self.pairs[n]),
        };
        let rate = rate(first, second);
        let from_first = extent.saturating_sub(first.0) as f64 * rate;
        let outside = extent.abs_diff(extent.clamp(first.0, second.0)) as f64 * rate;
        let errors = [first.1.width().div_ceil(2), second.1.width().div_ceil(2)];
        // By how much the line may be steeper or flatter.
        let slope =
            (errors[0] as f64 + errors[1] as f64) / (second.1.tick() - first.1.tick()) as f64;
        let grown = (outside * (DRIFT + slope)).ceil() as u64;
        Some(Moment {
            tick: first.1.tick().saturating_add_signed(from_first.round() as i64),
            error: errors[0].max(errors[1]).saturating_add(grown),
        })
    }

    /// Ticks of the host for one of the device, over all pairs that are kept.
    pub fn rate(&self) -> Option<f64> {
        (self.pairs.len() > 1).then(|| rate(self.pairs[0], self.pairs[self.pairs.len() - 1]))
    }

    /// How often the device's counter went back.
    pub fn jumps(&self) -> u32 {
        self.jumps
    }

    /// The newest pair.
    pub fn last(&self) -> Option<Pair> {
        self.pairs.back().map(|pair| pair.1)
    }
}

fn rate(first: (i64, Pair), second: (i64, Pair)) -> f64 {
    (second.1.tick() - first.1.tick()) as f64 / (second.0 - first.0) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(tick: u64, width: u64, device: u64) -> Pair {
        Pair { before: tick - width / 2, after: tick + width / 2, device }
    }

    fn map(counter: DeviceCounter, pairs: &[Pair]) -> ClockMap {
        let mut map = ClockMap::new(counter);
        assert!(pairs.iter().all(|&pair| map.add(pair)));
        map
    }

    #[test]
    fn between_two_pairs_lies_the_line_through_them() {
        // 24 MHz against 3 GHz.
        let map = map(DeviceCounter::FULL, &[pair(3_000, 20, 1_000), pair(128_000, 40, 2_000)]);
        assert_eq!(map.at(1_500), Some(Moment { tick: 65_500, error: 20 }));
        assert_eq!(map.at(1_000).map(|it| it.tick), Some(3_000));
        assert_eq!(map.at(2_000).map(|it| it.tick), Some(128_000));
        assert_eq!(map.rate(), Some(125.0));
    }

    #[test]
    fn one_pair_alone_maps_nothing() {
        assert_eq!(map(DeviceCounter::FULL, &[]).at(1), None);
        assert_eq!(map(DeviceCounter::FULL, &[pair(3_000, 20, 1_000)]).at(1_000), None);
    }

    #[test]
    fn a_clock_that_drifts_is_followed_from_pair_to_pair() {
        let pairs =
            [pair(1_000_000, 0, 0), pair(2_000_000, 0, 999_900), pair(3_000_000, 0, 2_000_000)];
        let map = map(DeviceCounter::FULL, &pairs);
        assert_eq!(map.at(499_950).map(|it| it.tick), Some(1_500_000));
        assert_eq!(map.at(1_499_950).map(|it| it.tick), Some(2_500_000));
    }

    #[test]
    fn outside_of_the_pairs_the_error_grows_with_the_distance() {
        let map =
            map(DeviceCounter::FULL, &[pair(10_000_000, 20, 0), pair(11_000_000, 20, 1_000_000)]);
        assert_eq!(map.at(2_000_000), Some(Moment { tick: 12_000_000, error: 230 }));
        let earlier = 0_u64.wrapping_sub(1_000_000);
        assert_eq!(map.at(earlier), Some(Moment { tick: 9_000_000, error: 230 }));
    }

    #[test]
    fn behind_two_pairs_that_are_close_together_the_error_covers_the_truth() {
        // The truth is tick = device; each pair is off by all that it may be.
        let (first, second) = (pair(1_000_050, 100, 1_000_000), pair(1_000_950, 100, 1_001_000));
        let map = map(DeviceCounter::FULL, &[first, second]);
        for device in [1_002_000, 1_100_000, 9_000_000, 900_000] {
            let moment = map.at(device).unwrap();
            assert!(moment.tick.abs_diff(device) <= moment.error, "{device}: {moment:?}");
        }
    }

    #[test]
    fn the_last_pair_can_be_replaced_by_a_later_one() {
        let mut map = map(DeviceCounter::FULL, &[pair(1_000, 0, 100)]);
        assert!(map.replace_last(pair(1_010, 0, 101)), "the only one stays");
        assert!(map.replace_last(pair(3_000, 0, 300)));
        assert_eq!(map.pairs.len(), 2);
        assert_eq!(map.at(200).map(|it| it.tick), Some(2_000));
        assert!(!map.replace_last(pair(2_000, 0, 400)), "the host's went back");
        assert!(map.replace_last(pair(4_000, 0, 7)), "the device's went back");
        assert_eq!((map.jumps(), map.pairs.len()), (1, 1));
    }

    #[test]
    fn readings_that_are_no_times_overflow_nothing() {
        let map = map(DeviceCounter::FULL, &[pair(1_000, 20, 1), pair(9_000_000, 20, 2)]);
        for device in [0, 1 << 62, (1 << 63) - 1, (1 << 63) + 1, u64::MAX] {
            assert!(map.at(device).is_some());
        }
    }

    #[test]
    fn a_counter_that_begins_again_between_two_pairs_goes_on() {
        let counter = DeviceCounter::of_bits(32);
        let top = 1_u64 << 32;
        let map =
            map(counter, &[pair(1_000, 0, top - 500), pair(2_000, 0, 500), pair(3_000, 0, 1_500)]);
        assert_eq!(map.at(top - 1).map(|it| it.tick), Some(1_499));
        assert_eq!(map.at(0).map(|it| it.tick), Some(1_500));
        assert_eq!(map.at(1_000).map(|it| it.tick), Some(2_500));
    }

    #[test]
    fn a_device_that_was_reset_begins_a_new_line() {
        let pairs = [pair(1_000, 0, 50_000), pair(2_000, 0, 51_000), pair(3_000, 0, 10)];
        let mut map = map(DeviceCounter::FULL, &pairs);
        assert_eq!((map.jumps(), map.at(20)), (1, None));
        assert!(map.add(pair(4_000, 0, 1_010)));
        assert_eq!(map.at(510).map(|it| it.tick), Some(3_500));
    }

    #[test]
    fn pairs_that_cannot_be_are_refused() {
        let mut map = map(DeviceCounter::FULL, &[pair(1_000, 10, 1)]);
        assert!(!map.add(pair(1_000, 10, 2)), "the host has not moved");
        assert!(!map.add(pair(2_000, 10, 1)), "the device has not moved");
        assert!(!map.add(Pair { before: 3_000, after: 2_990, device: 5 }), "ticks run backwards");
        assert_eq!(map.last(), Some(pair(1_000, 10, 1)));
    }

    #[test]
    fn pairs_that_two_threads_read_at_once_are_no_reset() {
        let pairs = [pair(1_000, 10, 300), pair(4_000, 10, 1_300)];
        let mut map = map(DeviceCounter::FULL, &pairs);
        let before = map.at(800);
        // A tick later on the host, one earlier on the device.
        for at_once in [pair(4_001, 10, 1_299), pair(4_004, 2, 1_298)] {
            assert!(!map.add(at_once) && !map.replace_last(at_once), "{at_once:?}");
        }
        assert_eq!((map.jumps(), map.at(800)), (0, before));
        assert!(map.add(pair(4_100, 10, 20)), "apart from each other it is one");
        assert_eq!(map.jumps(), 1);
    }

    #[test]
    fn old_pairs_make_room_for_new_ones() {
        let mut map = ClockMap::new(DeviceCounter::FULL);
        for n in 0..1_000_u64 {
            assert!(map.add(pair(1_000 + n * 300, 0, n * 100)));
        }
        assert_eq!(map.pairs.len(), KEPT);
        assert_eq!(map.at(99_850).map(|it| it.tick), Some(300_550));
    }
}
