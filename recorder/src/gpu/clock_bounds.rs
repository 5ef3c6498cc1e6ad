//! From a device's clock to the host's, where no API reads both at once.
//!
//! **Design.** What is known is the length of the device's tick, and of every piece of
//! work that it began after the host had submitted it and ended before the host saw that it was
//! done. Each such [`Bracket`] bounds the difference of the clocks from both
//! sides, and what all of them leave is narrower than any: the lower bound comes
//! from work that began at once, the upper one from work whose end was seen at once.
//!
//! The difference is moved only when a bracket forces it, and then no further than to
//! the bound, so that work of one queue keeps its order and its gaps. As time passes the
//! bounds are let out by [`DRIFT`], and clocks that run apart are followed.
//!
//! **Error.** The distance to the farther bound, which is what a [`Moment`] says. It is
//! never better than the shortest way from submission to work or from its end to whoever looks.
//!
//! **Limits.** A bracket that cannot be true, because the device worked for longer than there was
//! time, teaches nothing. One that contradicts the bounds is doubted: samples that an earlier command buffer
//! left behind look the same as a reset of the device or a sleep of the machine. It is kept aside,
//! and only when the next one that contradicts the bounds agrees with it, and so is no copy of it,
//! do the two begin anew, which is counted.

use super::{
    clock_map::{DRIFT, Moment, Pair},
    counter::DeviceCounter,
};

/// Some work of a device, and between which ticks of the host it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// Tick of the host before which the device did not begin: when it was submitted.
    pub not_before: u64,
    /// Reading of the device's counter when it began.
    pub start: u64,
    /// Reading when it ended.
    pub end: u64,
    /// Tick of the host after which it did not end: when that was seen.
    pub not_after: u64,
}

/// What came of a bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is doubted has no times"]
pub enum Narrowed {
    /// It is taken into account.
    Taken,
    /// It cannot be: its ends are not in order, or it took longer than there was time for it,
    /// by more than the clocks may run apart.
    Impossible,
    /// It contradicts those before it, and nothing speaks for it yet: the readings in it are
    /// perhaps not those of this work.
    Doubted,
}

/// The host's tick at one reading of the device's counter.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    device: u64,
    low: i64,
    high: i64,
    taken: i64,
}

/// Maps the readings of a device's counter to ticks of the host.
#[derive(Debug)]
pub struct ClockBounds {
    counter: DeviceCounter,
    /// Ticks of the host for one of the device.
    rate: f64,
    anchor: Option<Anchor>,
    /// What the last bracket that contradicted it would have it be, until another contradicts that.
    candidate: Option<Anchor>,
    jumps: u32,
}

impl ClockBounds {
    /// One that maps nothing yet. `rate` is how many ticks of the host go into one of
    /// the device.
    pub fn new(counter: DeviceCounter, rate: f64) -> Self {
        Self { counter, rate, anchor: None, candidate: None, jumps: 0 }
    }

    /// A rate that is known better by now.
    pub fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// Takes into account what is known of some work, if that can be.
    pub fn narrow(&mut self, bracket: Bracket) -> Narrowed {
        let took = self.counter.between(bracket.start, bracket.end);
        let (low, high) = (bracket.not_before as i64, bracket.not_after as i64);
        if took < 0 || high < low {
            return Narrowed::Impossible;
        }
        // Both for the moment at which it began.
        let mut high = high.saturating_sub(self.in_ticks(took));
        if high < low {
            // Perhaps the host's clock was slow meanwhile: then that is how far it may be off.
            high = high.saturating_add(self.drift(took));
        }
        if high < low {
            return Narrowed::Impossible;
        }
        let alone = Anchor { device: bracket.start, low, high, taken: low.midpoint(high) };
        let Some(anchor) = self.anchor else {
            self.anchor = Some(alone);
            return Narrowed::Taken;
        };
        let candidate = self.candidate.take();
        if let Some(narrower) = self.narrower(anchor, alone) {
            self.anchor = Some(narrower);
            // A bracket that leaves much open may agree with both.
            self.candidate = candidate.filter(|it| self.narrower(*it, alone).is_some());
            return Narrowed::Taken;
        }
        // The same readings twice are one and the same witness.
        let other = candidate.filter(|candidate| candidate.device != alone.device);
        if let Some(agreed) = other.and_then(|candidate| self.narrower(candidate, alone)) {
            self.jumps += 1;
            self.anchor = Some(agreed);
            return Narrowed::Taken;
        }
        self.candidate = Some(alone);
        Narrowed::Doubted
    }

    /// What an anchor and a later bracket leave together; `None` if they contradict each other.
    fn narrower(&self, anchor: Anchor, bracket: Anchor) -> Option<Anchor> {
        let moved = self.counter.between(anchor.device, bracket.device);
        let (distance, slack) = (self.in_ticks(moved), self.drift(moved));
        let aged_low = anchor.low.saturating_add(distance).saturating_sub(slack);
        let aged_high = anchor.high.saturating_add(distance).saturating_add(slack);
        if bracket.low > aged_high || bracket.high < aged_low {
            return None;
        }
        let (low, high) = (bracket.low.max(aged_low), bracket.high.min(aged_high));
        let taken = anchor.taken.saturating_add(distance).clamp(low, high);
        Some(Anchor { device: bracket.device, low, high, taken })
    }

    /// When the counter said this; `None` before the first bracket.
    pub fn at(&self, device: u64) -> Option<Moment> {
        let anchor = self.anchor.as_ref()?;
        let moved = self.counter.between(anchor.device, device);
        let error = anchor.high.abs_diff(anchor.taken).max(anchor.taken.abs_diff(anchor.low));
        Some(Moment {
            tick: anchor.taken.saturating_add(self.in_ticks(moved)).max(0) as u64,
            error: error.saturating_add(self.drift(moved) as u64),
        })
    }

    /// What is known now, as the pair that a trace keeps.
    pub fn pair(&self) -> Option<Pair> {
        let anchor = self.anchor.as_ref()?;
        Some(Pair { before: anchor.low as u64, after: anchor.high as u64, device: anchor.device })
    }

    /// How often brackets that agreed contradicted the ones before them.
    pub fn jumps(&self) -> u32 {
        self.jumps
    }

    fn in_ticks(&self, device_ticks: i64) -> i64 {
        (device_ticks as f64 * self.rate).round() as i64
    }

    fn drift(&self, device_ticks: i64) -> i64 {
        (device_ticks.unsigned_abs() as f64 * self.rate * DRIFT).ceil() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bracket(not_before: u64, start: u64, end: u64, not_after: u64) -> Bracket {
        Bracket { not_before, start, end, not_after }
    }

    /// A device that counts nanoseconds, on a host of 3 GHz.
    fn bounds(brackets: &[Bracket]) -> ClockBounds {
        let mut bounds = ClockBounds::new(DeviceCounter::FULL, 3.0);
        assert!(brackets.iter().all(|&bracket| bounds.takes(bracket)));
        bounds
    }

    impl ClockBounds {
        fn takes(&mut self, bracket: Bracket) -> bool {
            self.narrow(bracket) == Narrowed::Taken
        }
    }

    #[test]
    fn one_bracket_leaves_half_its_room_as_the_error() {
        // From 30,000 to 60,000 with 5,000 ns of work: 15,000 ticks of room.
        let bounds = bounds(&[bracket(30_000, 1_000, 6_000, 60_000)]);
        assert_eq!(bounds.at(1_000), Some(Moment { tick: 37_500, error: 7_500 }));
        assert_eq!(bounds.at(6_000).map(|it| it.tick), Some(52_500));
    }

    #[test]
    fn brackets_together_are_narrower_than_each_alone() {
        // The truth is: tick = 100,000 + 3 x device.
        let late = bracket(90_000, 1_000, 2_000, 106_010);
        let early = bracket(105_990, 2_000, 3_000, 130_000);
        let both = bounds(&[late, early]);
        let moment = both.at(2_000).unwrap();
        assert!(moment.tick.abs_diff(106_000) <= 10, "{moment:?}");
        assert!(moment.error <= 21, "{moment:?}");
        assert_eq!(both.jumps(), 0);
    }

    #[test]
    fn what_was_mapped_stays_put_while_nothing_contradicts_it() {
        let mut bounds = bounds(&[bracket(106_000, 2_000, 2_000, 106_200)]);
        let before = bounds.at(2_500).unwrap();
        assert!(bounds.takes(bracket(107_000, 2_500, 2_600, 108_000)));
        assert_eq!(bounds.at(2_500).map(|it| it.tick), Some(before.tick));
    }

    #[test]
    fn work_lies_between_its_submission_and_its_end() {
        // Jittery, with a device clock that is 150 parts per million fast.
        let mut bounds = ClockBounds::new(DeviceCounter::FULL, 3.0);
        for n in 0..2_000_u64 {
            let at_host = 1_000_000 + n * 3_000_000;
            let device = ((at_host as f64) / 3.0 * 1.000_15) as u64;
            let (wait, late) = ((n * 7_919) % 50_000, (n * 104_729) % 90_000);
            let not_before = at_host - wait - 300;
            let not_after = at_host + 30_000 + late + 600;
            assert!(bounds.takes(bracket(not_before, device, device + 10_000, not_after)));
            let (start, end) = (bounds.at(device).unwrap(), bounds.at(device + 10_000).unwrap());
            assert!(not_before <= start.tick && end.tick <= not_after, "{n}: {start:?} {end:?}");
            if n > 100 {
                let off = start.tick.abs_diff(at_host);
                assert!(off <= start.error + 5, "{n}: off by {off}, claimed {}", start.error);
                assert!(start.error < 30_000, "{n}: {start:?}");
            }
        }
        assert_eq!(bounds.jumps(), 0);
    }

    #[test]
    fn a_device_that_was_reset_begins_anew_and_is_counted() {
        let mut bounds = bounds(&[bracket(1_000_000, 500_000, 500_100, 1_000_900)]);
        let before = bounds.at(40);
        assert_eq!(bounds.narrow(bracket(2_000_000, 40, 140, 2_000_400)), Narrowed::Doubted);
        assert_eq!((bounds.jumps(), bounds.at(40)), (0, before), "one alone is not believed");
        assert!(bounds.takes(bracket(2_000_300, 140, 240, 2_000_900)));
        assert_eq!((bounds.jumps(), bounds.at(40).map(|it| it.tick)), (1, Some(2_000_050)));
    }

    #[test]
    fn readings_that_an_earlier_work_left_behind_do_not_move_the_clock() {
        // The truth is: tick = 3 x device.
        let true_one = |device: u64| bracket(device * 3 - 60, device, device + 10, device * 3 + 90);
        let mut bounds = bounds(&[true_one(1_000), true_one(2_000)]);
        let before = bounds.at(2_000);
        for later in [3_000_u64, 3_100, 5_000] {
            let left = Bracket { start: 1_000, end: 1_010, ..true_one(later) };
            assert_eq!(bounds.narrow(left), Narrowed::Doubted, "{later}");
        }
        // Those of two command buffers that are in flight together agree, being the same.
        let left = Bracket { not_before: 8_000, start: 1_000, end: 1_010, not_after: 18_000 };
        assert_eq!(bounds.narrow(left), Narrowed::Doubted);
        assert_eq!(bounds.narrow(left), Narrowed::Doubted);
        assert_eq!((bounds.at(2_000), bounds.jumps()), (before, 0));
        assert!(bounds.takes(true_one(6_000)));
        assert_eq!(bounds.jumps(), 0);
    }

    #[test]
    fn a_bracket_that_leaves_much_open_does_not_hide_a_jump() {
        let mut bounds = bounds(&[bracket(30_000, 10_000, 10_000, 30_020)]);
        // From here on the device is 1,000 of the host's ticks late.
        assert_eq!(bounds.narrow(bracket(61_000, 20_000, 20_000, 61_020)), Narrowed::Doubted);
        assert!(bounds.takes(bracket(80_000, 30_000, 30_000, 100_000)), "agrees with both");
        assert!(bounds.takes(bracket(121_000, 40_000, 40_000, 121_020)));
        assert_eq!(bounds.jumps(), 1);
        assert!(bounds.at(40_000).unwrap().tick.abs_diff(121_010) <= 10);
    }

    #[test]
    fn a_counter_that_begins_again_goes_on() {
        let mut bounds = ClockBounds::new(DeviceCounter::of_bits(32), 1.0);
        let top = 1_u64 << 32;
        assert!(bounds.takes(bracket(10_000, top - 100, top - 50, 10_060)));
        assert!(bounds.takes(bracket(10_190, 100, 150, 10_270)));
        assert_eq!(bounds.jumps(), 0);
        assert!(bounds.at(100).unwrap().tick.abs_diff(10_205) <= 15);
        assert!(bounds.takes(bracket(10_050, top - 1, 200, 10_900)), "work across the end");
    }

    #[test]
    fn brackets_that_cannot_be_are_refused() {
        let mut bounds = bounds(&[]);
        assert!(!bounds.takes(bracket(10, 200, 100, 20)));
        assert!(!bounds.takes(bracket(20, 100, 200, 10)));
        assert_eq!(bounds.at(100), None);
    }

    #[test]
    fn work_that_took_longer_than_there_was_time_teaches_nothing() {
        // 100,000 ns are 300,000 ticks, give or take 60.
        let mut bounds = bounds(&[]);
        assert!(!bounds.takes(bracket(1_000_000, 5_000, 105_000, 1_299_939)));
        assert_eq!(bounds.at(5_000), None);
        assert!(bounds.takes(bracket(1_000_000, 5_000, 105_000, 1_299_950)), "clocks run apart");
        assert_eq!(bounds.at(5_000), Some(Moment { tick: 1_000_005, error: 5 }));
        let before = bounds.at(9_000);
        assert!(!bounds.takes(bracket(1_400_000, 200_000, 900_000, 1_400_100)));
        assert_eq!((bounds.at(9_000), bounds.jumps()), (before, 0));
    }

    #[test]
    fn readings_that_are_no_times_overflow_nothing() {
        let mut bounds = bounds(&[bracket(1_000, 5, 6, 2_000)]);
        let far = 1_u64 << 62;
        assert_eq!(bounds.at(5 + far).map(|it| it.tick), Some(i64::MAX as u64));
        assert!(bounds.at(5_u64.wrapping_sub(far)).is_some());
        for no_time in [bracket(3_000, far, far, i64::MAX as u64), bracket(0, 5, 5, 9_000)] {
            assert_ne!(bounds.narrow(no_time), Narrowed::Impossible);
        }
        assert!(bounds.at(far).is_some() && bounds.at(u64::MAX / 2).is_some());
    }
}
