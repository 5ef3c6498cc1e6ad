//! When both clocks are read, and what their pairs make of a device's timestamps.
//!
//! A pair costs a call into the driver, which others have found to be slow, so not every command
//! buffer can have two of its own. What a time needs is a pair before and one after that are not
//! too close: over a short base the error of a pair becomes an error of the rate. So a
//! pair is taken at every commit and completion until the base is [`BASE_NS`] long, each in place
//! of the one before, and from then on when the last one is that old.

use crate::gpu::{ClockMap, DeviceCounter, Moment, Pair};

/// How old the last pair may be, and how long the line through all of them is at least, before
/// no further one is needed. An error of 100 ns in a pair is then one part in 100,000.
const BASE_NS: f64 = 10_000_000.0;

/// The clock of a device, as far as it is known.
#[derive(Debug)]
pub(crate) struct Calibration {
    map: ClockMap,
    /// Of the first pair since the device's counter last went back.
    first: Option<Pair>,
    base: u64,
}

impl Calibration {
    /// One that knows nothing; the host's counter makes so many ticks in a nanosecond.
    pub(crate) fn new(ticks_per_ns: f64) -> Self {
        let base = (BASE_NS * ticks_per_ns).ceil() as u64;
        Self { map: ClockMap::new(DeviceCounter::FULL), first: None, base }
    }

    /// Whether a pair should be taken at this tick.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        let Some(last) = self.map.last() else { return true };
        now.saturating_sub(last.tick()) >= self.base || self.is_short()
    }

    /// Whether the line through all pairs is.
    fn is_short(&self) -> bool {
        let (Some(first), Some(last)) = (self.first, self.map.last()) else { return true };
        last.tick() - first.tick() < self.base
    }

    /// Takes in a pair. Returns whether it was of use.
    pub(crate) fn add(&mut self, pair: Pair) -> bool {
        let jumps = self.map.jumps();
        let added = if self.is_short() { self.map.replace_last(pair) } else { self.map.add(pair) };
        if added && (self.first.is_none() || self.map.jumps() != jumps) {
            self.first = Some(pair);
        }
        added
    }

    /// When the device's counter said this.
    pub(crate) fn at(&self, device: u64) -> Option<Moment> {
        self.map.at(device)
    }

    /// How often the device's counter went back.
    pub(crate) fn jumps(&self) -> u32 {
        self.map.jumps()
    }

    /// Nanoseconds in a tick of the device, by the pairs.
    #[cfg(test)]
    pub(crate) fn rate(&self) -> Option<f64> {
        self.map.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host of 1 GHz: a tick is a nanosecond.
    fn calibration() -> Calibration {
        Calibration::new(1.0)
    }

    fn pair(tick: u64, device: u64) -> Pair {
        Pair { before: tick - 50, after: tick + 50, device }
    }

    #[test]
    fn pairs_are_taken_until_the_base_is_long_enough() {
        let mut calibration = calibration();
        assert!(calibration.is_due(0), "there is none");
        for tick in [1_000_000, 2_000_000, 10_900_000] {
            assert!(calibration.is_due(tick));
            assert!(calibration.add(pair(tick, tick)));
        }
        assert!(calibration.is_due(11_000_000), "the base is short of 10 ms");
        assert!(calibration.add(pair(11_000_000, 11_000_000)));
        assert!(!calibration.is_due(11_000_001));
        assert!(!calibration.is_due(20_999_999));
        assert!(calibration.is_due(21_000_000), "the last pair is old");
    }

    #[test]
    fn pairs_that_are_close_together_are_not_what_a_time_depends_on() {
        // Each reading of the device is off by up to 50, one way and the other.
        let mut calibration = calibration();
        for n in 0..10_u64 {
            let tick = 1_000_000 + n * 900_000;
            calibration.add(pair(tick, tick + if n % 2 == 0 { 50 } else { 0 }));
            calibration.add(pair(tick + 1_000, tick + 1_000));
        }
        let moment = calibration.at(9_200_000).unwrap();
        assert!(moment.tick.abs_diff(9_200_000) <= 60 && moment.error < 200, "{moment:?}");
    }

    #[test]
    fn after_a_reset_of_the_device_the_base_begins_anew() {
        let mut calibration = calibration();
        calibration.add(pair(1_000_000, 1_000_000));
        calibration.add(pair(20_000_000, 20_000_000));
        assert!(!calibration.is_due(20_000_100));
        assert!(calibration.add(pair(21_000_000, 5)), "the counter went back");
        assert!(calibration.is_due(21_000_100));
        assert_eq!(calibration.at(5), None, "one pair alone maps nothing");
        assert_eq!(calibration.jumps(), 1);
        calibration.add(pair(31_000_000, 10_000_005));
        assert_eq!(calibration.at(5_000_005).map(|it| it.tick), Some(26_000_000));
        assert!(!calibration.is_due(31_000_100));
    }

    #[test]
    fn a_device_that_ticks_otherwise_is_mapped() {
        // 12 MHz against 1 GHz.
        let mut calibration = calibration();
        calibration.add(pair(1_000_000, 12_000));
        calibration.add(pair(13_000_000, 156_000));
        assert_eq!(calibration.at(84_000).map(|it| it.tick), Some(7_000_000));
        let rate = calibration.rate().unwrap();
        assert!((rate - 1_000.0 / 12.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn a_pair_that_says_nothing_new_is_left_out() {
        let mut calibration = calibration();
        assert!(calibration.add(pair(1_000_000, 500)));
        assert!(!calibration.add(pair(2_000_000, 500)), "the device's clock stands");
        assert!(!calibration.add(pair(900_000, 600)), "the host's went back");
        assert!(calibration.is_due(2_000_000));
    }
}
