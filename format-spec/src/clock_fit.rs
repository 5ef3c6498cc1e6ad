//! From ticks to nanoseconds (SPEC 9).
//!
//! A clock pair brackets one reading of the host's clocks between two ticks.
//! One ratio serves the whole file, so that equal durations stay equal. It is
//! taken only between pairs that nothing came between: a counter that goes on
//! while the machine sleeps would otherwise stretch every second of the trace.
//!
//! What it cannot promise: between two pairs the counter is taken to be even,
//! and ticks that a counter went through twice belong to its later pass.

use crate::clock_step::{Step, agreed_ratio};
use bytemuck::{Pod, Zeroable};

/// One reading of the host's clocks, or of a device's, between two ticks.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
pub struct ClockPair {
    /// Tick before the clocks were read.
    pub tick_before: u64,
    /// Tick after.
    pub tick_after: u64,
    /// Monotonic clock, which stops while the machine sleeps.
    pub mono_ns: i64,
    /// Wall clock, nanoseconds since the Unix epoch.
    pub wall_ns: i64,
    /// Boot clock, which goes on while the machine sleeps.
    pub boot_ns: i64,
    /// Track whose device clock this is about; 0: the host's.
    pub track: u32,
    /// Written as zero.
    pub unused: u32,
}

impl ClockPair {
    /// The tick taken for this pair: the middle of the two.
    pub fn tick(&self) -> u64 {
        self.tick_before + self.width() / 2
    }

    pub(crate) fn width(&self) -> u64 {
        self.tick_after.saturating_sub(self.tick_before)
    }
}

/// A counter that did not advance, a monotonic clock that went back, or the two of
/// them advancing by different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// Tick of the last pair before.
    pub after_tick: u64,
    /// Tick of the first pair after.
    pub to_tick: u64,
    /// What the monotonic clock advanced by meanwhile.
    pub mono_ns: i64,
}

/// The machine slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspend {
    /// Tick of the last pair before.
    pub after_tick: u64,
    /// For how long.
    pub slept_ns: i64,
}

/// The wall clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallStep {
    /// Tick of the last pair before.
    pub after_tick: u64,
    /// By how much, forward if positive.
    pub step_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Anchor {
    tick: u64,
    mono_ns: i64,
    wall_ns: i64,
    /// Whether something came between the anchor before and this one.
    begins_run: bool,
}

/// The map from ticks to nanoseconds.
#[derive(Clone, Debug)]
pub struct ClockFit {
    ns_per_tick: f64,
    error_ns: Option<f64>,
    anchors: Vec<Anchor>,
    pairs: usize,
    jumps: Vec<Jump>,
    suspends: Vec<Suspend>,
    wall_steps: Vec<WallStep>,
}

impl ClockFit {
    /// Fits the host's pairs among these, which are in order of recording.
    /// `nominal_hz` serves where they do not give a ratio; 0 if it is not known.
    pub fn fit(pairs: &[ClockPair], nominal_hz: u64) -> ClockFit {
        let measured = (nominal_hz != 0).then(|| 1e9 / nominal_hz as f64);
        Self::fit_judged_by(pairs, nominal_hz, measured)
    }

    /// The same where `nominal_hz` is by definition, or stands in for what nobody knows.
    /// Pairs that contradict it are believed.
    pub(crate) fn fit_by_pairs_alone(pairs: &[ClockPair], nominal_hz: u64) -> ClockFit {
        Self::fit_judged_by(pairs, nominal_hz, None)
    }

    /// `measured`: nanoseconds a tick, by which pairs are judged that do not agree on a ratio.
    fn fit_judged_by(pairs: &[ClockPair], nominal_hz: u64, measured: Option<f64>) -> ClockFit {
        let nominal = if nominal_hz == 0 { 1.0 } else { 1e9 / nominal_hz as f64 };
        let mut host: Vec<ClockPair> =
            pairs.iter().filter(|pair| pair.track == 0).copied().collect();
        host.dedup();
        let mut fit = ClockFit {
            ns_per_tick: nominal,
            error_ns: None,
            anchors: Vec::with_capacity(host.len()),
            pairs: host.len(),
            jumps: Vec::new(),
            suspends: Vec::new(),
            wall_steps: Vec::new(),
        };
        let between = |two: &[ClockPair]| Step::between(&two[0], &two[1], nominal);
        let steps: Vec<Step> = host.windows(2).map(between).collect();
        let expected = agreed_ratio(&steps).or(measured);
        let (mut ticks, mut nanoseconds) = (0.0, 0.0);
        for (at, pair) in host.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| &host[at]);
            let begins_run = before.is_none_or(|before| {
                fit.interruption(before.tick(), pair.tick(), &steps[at - 1], expected)
            });
            if let (false, Some(before)) = (begins_run, before) {
                ticks += pair.tick().wrapping_sub(before.tick()) as f64;
                nanoseconds += (i128::from(pair.mono_ns) - i128::from(before.mono_ns)) as f64;
            }
            fit.anchors.push(Anchor {
                tick: pair.tick(),
                mono_ns: pair.mono_ns,
                wall_ns: pair.wall_ns,
                begins_run,
            });
        }
        if ticks > 0.0 && nanoseconds > 0.0 {
            fit.ns_per_tick = nanoseconds / ticks;
            fit.error_ns = Some(fit.largest_distance() + fit.widest_end(&host) / 2.0);
        }
        fit
    }

    /// The tick and wall clock at the file's creation, which serve where there
    /// is no pair at all. Monotonic time then counts from there.
    pub fn with_origin(mut self, tick: u64, wall_ns: i64) -> ClockFit {
        if self.anchors.is_empty() {
            self.anchors.push(Anchor { tick, mono_ns: 0, wall_ns, begins_run: true });
        }
        self
    }

    /// For a counter whose ticks are nanoseconds by definition: without a fit, durations are exact.
    pub fn of_nanoseconds(mut self) -> ClockFit {
        self.error_ns = self.error_ns.or(Some(0.0));
        self
    }

    /// Notes what came between two pairs, and tells whether it ends the run.
    fn interruption(
        &mut self,
        after_tick: u64,
        to_tick: u64,
        step: &Step,
        expected: Option<f64>,
    ) -> bool {
        let jumped = step.went_back() || expected.is_some_and(|ratio| step.parted(ratio));
        if jumped {
            self.jumps.push(Jump { after_tick, to_tick, mono_ns: clamp(step.mono_ns) });
        }
        let slept = step.slept_ns();
        if let Some(slept) = slept {
            self.suspends.push(Suspend { after_tick, slept_ns: clamp(slept) });
        }
        if let Some(set) = step.wall_step_ns() {
            self.wall_steps.push(WallStep { after_tick, step_ns: clamp(set) });
        }
        jumped || slept.is_some()
    }

    /// Of any pair from the line through the first pair of its run.
    fn largest_distance(&self) -> f64 {
        let mut origin = self.anchors[0];
        let mut largest = 0.0_f64;
        for anchor in &self.anchors {
            if anchor.begins_run {
                origin = *anchor;
            }
            let line = (anchor.tick.wrapping_sub(origin.tick)) as f64 * self.ns_per_tick;
            let mono = (i128::from(anchor.mono_ns) - i128::from(origin.mono_ns)) as f64;
            largest = largest.max((mono - line).abs());
        }
        largest
    }

    /// Width of the widest pair at an end of a run, in nanoseconds.
    fn widest_end(&self, host: &[ClockPair]) -> f64 {
        let ends = host.iter().enumerate().filter(|(at, _)| {
            self.anchors[*at].begins_run
                || self.anchors.get(at + 1).is_none_or(|next| next.begins_run)
        });
        let widest = ends.map(|(_, pair)| pair.width()).max().unwrap_or(0);
        widest as f64 * self.ns_per_tick
    }

    /// A duration in nanoseconds.
    #[inline]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    /// Nanoseconds of a tick.
    #[inline]
    pub fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    /// The monotonic clock at a tick.
    pub fn mono_ns(&self, tick: u64) -> i64 {
        let at = self.last_at_or_before(tick);
        let Some(known) = self.anchors.get(..=at) else { return self.ns(tick) as i64 };
        let run = known.iter().rfind(|anchor| anchor.begins_run).unwrap_or(&known[0]);
        run.mono_ns.saturating_add(self.elapsed(run.tick, tick))
    }

    /// The wall clock at a tick, nanoseconds since the Unix epoch.
    pub fn wall_ns(&self, tick: u64) -> i64 {
        match self.anchors.get(self.last_at_or_before(tick)) {
            Some(anchor) => anchor.wall_ns.saturating_add(self.elapsed(anchor.tick, tick)),
            None => self.ns(tick) as i64,
        }
    }

    /// The largest distance of a pair from the line, plus the uncertainty of
    /// the ends. Not known where there was nothing to fit, and the nominal frequency serves.
    pub fn error_ns(&self) -> Option<f64> {
        self.error_ns
    }

    /// How many pairs of the host's clocks there were.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Where the clock jumped.
    pub fn jumps(&self) -> &[Jump] {
        &self.jumps
    }

    /// Where the machine slept.
    pub fn suspends(&self) -> &[Suspend] {
        &self.suspends
    }

    /// Where the wall clock was set.
    pub fn wall_steps(&self) -> &[WallStep] {
        &self.wall_steps
    }

    fn last_at_or_before(&self, tick: u64) -> usize {
        if self.jumps.is_empty() {
            self.anchors.partition_point(|anchor| anchor.tick <= tick).saturating_sub(1)
        } else {
            self.anchors.iter().rposition(|anchor| anchor.tick <= tick).unwrap_or(0)
        }
    }

    fn elapsed(&self, from: u64, to: u64) -> i64 {
        if to >= from { self.ns(to - from) as i64 } else { -(self.ns(from - to) as i64) }
    }
}

fn clamp(n: i128) -> i64 {
    n.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const EPOCH: i64 = 1_700_000_000_000_000_000;
    /// Of that counter, and off by more than any measured one.
    const NOMINAL_HZ: u64 = 1_950_000_000;

    /// A pair of a counter at 2 ticks a nanosecond, at so many milliseconds.
    fn at(ms: i64) -> ClockPair {
        let tick = (1000 * MS + ms * MS) as u64 * 2;
        ClockPair {
            tick_before: tick - 100,
            tick_after: tick + 100,
            mono_ns: 5 * MS + ms * MS,
            wall_ns: EPOCH + ms * MS,
            boot_ns: 9 * MS + ms * MS,
            ..ClockPair::default()
        }
    }

    fn slept(pair: ClockPair, ms: i64) -> ClockPair {
        ClockPair { boot_ns: pair.boot_ns + ms * MS, wall_ns: pair.wall_ns + ms * MS, ..pair }
    }

    #[test]
    fn pair_lies_in_memory_as_the_format_says() {
        let pair = ClockPair {
            tick_before: 1,
            tick_after: 2,
            mono_ns: 3,
            wall_ns: 4,
            boot_ns: -1,
            track: 6,
            unused: 0,
        };
        let bytes = bytemuck::bytes_of(&pair);
        assert_eq!(bytes.len(), 48);
        for (offset, n) in [(0, 1), (8, 2), (16, 3), (24, 4)] {
            assert_eq!(bytes[offset..offset + 8], [n, 0, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(bytes[32..40], [0xFF; 8]);
        assert_eq!(bytes[40..48], [6, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn two_pairs_give_the_ratio_and_the_width_the_error() {
        let fit = ClockFit::fit(&[at(0), at(1000)], NOMINAL_HZ);
        assert_eq!(fit.ns_per_tick(), 0.5);
        assert_eq!(fit.ns(2000), 1000.0);
        assert_eq!(fit.error_ns(), Some(50.0));
        assert_eq!(fit.mono_ns(at(500).tick()), at(500).mono_ns);
        assert_eq!(fit.wall_ns(at(500).tick()), at(500).wall_ns);
        assert_eq!(fit.wall_ns(at(-5).tick()), at(-5).wall_ns);
        assert_eq!(fit.pairs(), 2);
        assert!(fit.jumps().is_empty() && fit.suspends().is_empty() && fit.wall_steps().is_empty());
    }

    #[test]
    fn pair_off_the_line_is_the_error_of_the_fit() {
        let mut off = at(500);
        off.mono_ns += 700;
        let fit = ClockFit::fit(&[at(0), off, at(1000)], 3_000_000_000);
        let error = fit.error_ns().unwrap();
        assert!((error - 750.0).abs() < 1.0, "{error}");
    }

    #[test]
    fn one_pair_takes_the_nominal_frequency_with_an_error_that_nobody_knows() {
        let fit = ClockFit::fit(&[at(0)], 4_000_000_000);
        assert_eq!((fit.ns_per_tick(), fit.error_ns(), fit.pairs()), (0.25, None, 1));
        assert_eq!(fit.clone().of_nanoseconds().error_ns(), Some(0.0));
        assert_eq!(fit.mono_ns(at(0).tick() + 4000), at(0).mono_ns + 1000);
        assert_eq!(fit.wall_ns(at(0).tick() + 4000), at(0).wall_ns + 1000);
    }

    #[test]
    fn without_pairs_time_counts_from_the_creation_of_the_file() {
        let fit = ClockFit::fit(&[], 1_000_000_000).with_origin(500, EPOCH);
        assert_eq!((fit.mono_ns(1500), fit.wall_ns(1500)), (1000, EPOCH + 1000));
        assert_eq!((fit.mono_ns(0), fit.wall_ns(0)), (-500, EPOCH - 500));
        assert_eq!(fit.pairs(), 0);
        let nothing = ClockFit::fit(&[], 0);
        assert_eq!((nothing.ns(7), nothing.mono_ns(7), nothing.wall_ns(7)), (7.0, 7, 7));
    }

    #[test]
    fn device_pairs_and_copies_do_not_count() {
        let device = ClockPair { track: 3, tick_before: 1, tick_after: 1, ..at(5) };
        let fit = ClockFit::fit(&[at(0), device, at(0), at(1000), at(1000)], NOMINAL_HZ);
        assert_eq!((fit.ns_per_tick(), fit.pairs(), fit.jumps().len()), (0.5, 2, 0));
    }

    /// A pair of a counter that has leaped ahead by so many milliseconds.
    fn leaped(pair: ClockPair, ms: i64) -> ClockPair {
        let ticks = (ms * MS) as u64 * 2;
        ClockPair {
            tick_before: pair.tick_before + ticks,
            tick_after: pair.tick_after + ticks,
            ..pair
        }
    }

    #[test]
    fn counter_that_leaps_ahead_is_a_jump_and_the_ratio_holds() {
        let leap = |second: i64| match second {
            ..8 => at(second * 1000),
            _ => leaped(at(second * 1000), 60_000),
        };
        let pairs: Vec<ClockPair> = (0..=20).map(leap).collect();
        // Whether the nominal rate is right, unknown or wrong.
        for nominal_hz in [NOMINAL_HZ, 0, 3_000_000_000] {
            let fit = ClockFit::fit(&pairs, nominal_hz);
            assert_eq!((fit.ns_per_tick(), fit.error_ns()), (0.5, Some(50.0)));
            let (after_tick, to_tick) = (pairs[7].tick(), pairs[8].tick());
            assert_eq!(fit.jumps(), [Jump { after_tick, to_tick, mono_ns: 1000 * MS }]);
            assert!(fit.suspends().is_empty() && fit.wall_steps().is_empty());
            assert_eq!(fit.mono_ns(at(500).tick()), at(500).mono_ns);
            assert_eq!(fit.mono_ns(leaped(at(9500), 60_000).tick()), at(9500).mono_ns);
            assert_eq!(fit.wall_ns(leaped(at(9500), 60_000).tick()), at(9500).wall_ns);
        }
    }

    #[test]
    fn counter_that_stands_still_for_a_while_is_a_jump() {
        let mut late = [at(2000), at(3000)];
        for pair in &mut late {
            (pair.tick_before, pair.tick_after) =
                (pair.tick_before - 1_000_000_000, pair.tick_after - 1_000_000_000);
        }
        let fit = ClockFit::fit(&[at(0), at(1000), late[0], late[1]], NOMINAL_HZ);
        assert_eq!((fit.ns_per_tick(), fit.jumps().len()), (0.5, 1));
    }

    #[test]
    fn two_pairs_that_contradict_a_measured_rate_are_a_jump_and_the_rate_serves() {
        let pairs = [at(0), leaped(at(20_000), 60_000)];
        let fit = ClockFit::fit(&pairs, 2_000_000_000);
        assert_eq!((fit.ns_per_tick(), fit.error_ns(), fit.jumps().len()), (0.5, None, 1));
        // What nobody measured contradicts nothing.
        for fit in [ClockFit::fit(&pairs, 0), ClockFit::fit_by_pairs_alone(&pairs, 1_000_000_000)] {
            assert_eq!((fit.ns_per_tick(), fit.jumps().len()), (0.125, 0));
        }
    }

    #[test]
    fn suspend_is_found_and_does_not_stretch_the_ratio() {
        // The counter goes on through ten seconds of sleep; the monotonic clock does not.
        let wake = |ms: i64| leaped(slept(at(ms), 10_000), 10_000);
        let fit = ClockFit::fit(&[at(0), at(100), wake(200), wake(300)], 3_000_000_000);
        assert_eq!(fit.ns_per_tick(), 0.5);
        assert_eq!(fit.suspends(), [Suspend { after_tick: at(100).tick(), slept_ns: 10_000 * MS }]);
        assert!(fit.wall_steps().is_empty(), "sleeping is not setting the clock");
        assert!(fit.jumps().is_empty(), "nor is a counter that goes on through it a jump");
        assert_eq!(fit.mono_ns(wake(250).tick()), at(250).mono_ns);
        assert_eq!(fit.wall_ns(wake(250).tick()), slept(at(250), 10_000).wall_ns);
    }

    #[test]
    fn counter_that_starts_anew_is_a_jump_and_the_ratio_holds() {
        let anew = |ms: i64| {
            let mut pair = at(ms);
            pair.tick_before -= 2_200_000_000;
            pair.tick_after -= 2_200_000_000;
            pair
        };
        let fit = ClockFit::fit(&[at(0), at(100), anew(200), anew(300)], 3_000_000_000);
        assert_eq!(fit.ns_per_tick(), 0.5);
        let jump =
            Jump { after_tick: at(100).tick(), to_tick: anew(200).tick(), mono_ns: 100 * MS };
        assert_eq!(fit.jumps(), [jump]);
        assert_eq!(fit.mono_ns(anew(250).tick()), at(250).mono_ns);
        assert_eq!(fit.mono_ns(at(50).tick()), at(50).mono_ns + 1100 * MS, "the later pass counts");
    }

    #[test]
    fn monotonic_clock_that_goes_back_is_a_jump() {
        let mut back = at(200);
        back.mono_ns = at(50).mono_ns;
        back.boot_ns = at(50).boot_ns;
        let fit = ClockFit::fit(&[at(0), at(100), back], NOMINAL_HZ);
        assert_eq!(fit.jumps()[0].mono_ns, -50 * MS);
        assert_eq!(fit.ns_per_tick(), 0.5);
    }

    #[test]
    fn wall_clock_that_is_set_moves_wall_time_and_nothing_else() {
        let mut set = at(200);
        set.wall_ns -= 3600 * 1000 * MS;
        let fit = ClockFit::fit(&[at(0), at(100), set], 3_000_000_000);
        let step = WallStep { after_tick: at(100).tick(), step_ns: -3600 * 1000 * MS };
        assert_eq!(fit.wall_steps(), [step]);
        assert_eq!(fit.mono_ns(at(250).tick()), at(250).mono_ns);
        assert_eq!(fit.wall_ns(at(150).tick()), at(150).wall_ns);
        assert_eq!(fit.wall_ns(at(250).tick()), at(250).wall_ns - 3600 * 1000 * MS);
    }

    #[test]
    fn extreme_pairs_neither_panic_nor_give_a_senseless_ratio() {
        let ends = [0, 1, u64::MAX / 2, u64::MAX];
        let times = [i64::MIN, -1, 0, i64::MAX];
        let mut pairs = Vec::new();
        for tick_before in ends {
            for tick_after in ends {
                for mono_ns in times {
                    for boot_ns in times {
                        let wall_ns = boot_ns ^ mono_ns;
                        pairs.push(ClockPair {
                            tick_before,
                            tick_after,
                            mono_ns,
                            wall_ns,
                            boot_ns,
                            ..ClockPair::default()
                        });
                    }
                }
            }
        }
        for pair in pairs.windows(3).chain([pairs.as_slice()]) {
            let fit = ClockFit::fit(pair, 1);
            assert!(fit.ns_per_tick().is_finite() && fit.ns_per_tick() > 0.0);
            assert!(fit.error_ns().is_none_or(|error| error >= 0.0));
            for tick in ends {
                let _ = (fit.mono_ns(tick), fit.wall_ns(tick));
            }
        }
    }
}
