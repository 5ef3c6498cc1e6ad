//! Machines as they are reported to be, made up: from their clocks to intervals, all the way
//! that a command buffer's times go.

use super::{
    calibration::Calibration,
    host_time::{Timebase, device_pair, whole},
};
use crate::gpu::{DeviceCounter, Interval, Moment, Pair, Rejection, Sample};

/// A machine, and where its clocks stand at a moment of nanoseconds since it began.
struct Machine {
    /// Of the recorder's counter.
    counter_hz: f64,
    timebase: Timebase,
    /// Of the GPU's timestamps.
    device_hz: f64,
    /// Whether `sampleTimestamps:` gives mach ticks, or nanoseconds.
    cpu_in_ticks: bool,
    random: u64,
}

/// It was started so long before.
const UPTIME_NS: f64 = 138_194e9;

impl Machine {
    fn random(&mut self, below: u64) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below) as f64
    }

    fn tick(&self, ns: f64) -> u64 {
        // It went on through a sleep of an hour, which uptime knows nothing of.
        ((UPTIME_NS + 3_600e9 + ns) * self.counter_hz / 1e9) as u64
    }

    fn mach_ticks(&self, ns: f64) -> u64 {
        let Timebase { numer, denom } = self.timebase;
        ((UPTIME_NS + ns) * f64::from(denom) / f64::from(numer)) as u64
    }

    fn uptime_ns(&self, ns: f64) -> u64 {
        self.timebase.nanoseconds(self.mach_ticks(ns)).unwrap()
    }

    fn device(&self, ns: f64) -> u64 {
        ((77e9 + ns) * self.device_hz / 1e9) as u64
    }

    /// The counter, the clock, the counter again; how long that took.
    fn reading(&mut self, ns: f64) -> (Pair, f64) {
        let (middle, end) = (ns + 20.0 + self.random(40), ns + 60.0 + self.random(60));
        let pair =
            Pair { before: self.tick(ns), after: self.tick(end), device: self.uptime_ns(middle) };
        (pair, end - ns)
    }

    /// Both clocks, as the profiler reads them.
    fn pair(&mut self, ns: f64) -> (Pair, f64) {
        let (before, took) = self.reading(ns);
        let called = ns + took;
        let sampled = called + 5_000.0 + self.random(40_000);
        let returned = sampled + 3_000.0 + self.random(5_000);
        let cpu =
            if self.cpu_in_ticks { self.mach_ticks(sampled) } else { self.uptime_ns(sampled) };
        let (after, took) = self.reading(returned);
        let pair = device_pair(before, (cpu, self.device(sampled)), after, self.timebase);
        (pair, returned + took - ns)
    }
}

/// Where a command buffer and its kernel were, and what became of their times.
struct Outcome {
    truth: [u64; 2],
    kernel: Result<Interval, Rejection>,
    whole: Interval,
}

/// Runs command buffers of one kernel, one after the other.
fn run(machine: &mut Machine, count: usize) -> Vec<Outcome> {
    let mut calibration = Calibration::new(machine.counter_hz / 1e9);
    let mut now = 0.0;
    let mut outcomes = Vec::new();
    for _ in 0..=count {
        let mut calibrate = |machine: &mut Machine, now: &mut f64| {
            if calibration.is_due(machine.tick(*now)) {
                let (pair, took) = machine.pair(*now);
                assert!(calibration.add(pair));
                *now += took;
            }
        };
        calibrate(machine, &mut now);
        let (ended, took) = machine.reading(now);
        now += took;
        let submitted = machine.tick(now);
        let begin = now + 20_000.0 + machine.random(100_000);
        let start = begin + machine.random(5_000);
        let end = start + 10_000.0 + machine.random(3_000_000);
        let finish = end + machine.random(5_000);
        now = finish + 10_000.0 + machine.random(100_000);
        let done = machine.tick(now);
        let (seen, took) = machine.reading(now);
        now += took;
        calibrate(machine, &mut now);
        let seconds = |ns: f64| machine.uptime_ns(ns) as f64 / 1e9;
        let whole = whole(ended, seen, seconds(begin), seconds(finish)).expect("it completed");
        let sample = Sample { start: machine.device(start), end: machine.device(end) };
        let at = |device| calibration.at(device).ok_or(Rejection::NoClock);
        let mapped = |sample: Sample| -> Result<(Moment, Moment), Rejection> {
            Ok((at(sample.start)?, at(sample.end)?))
        };
        let kernel = sample
            .believed(DeviceCounter::FULL)
            .and_then(mapped)
            .and_then(|(start, end)| Interval::mapped(start, end).between(submitted, done))
            .and_then(|interval| interval.within(whole));
        outcomes.push(Outcome { truth: [machine.tick(start), machine.tick(end)], kernel, whole });
        now += machine.random(2_000_000);
    }
    outcomes
}

#[track_caller]
fn every_kernel_is_where_it_was(mut machine: Machine) {
    let ticks = |ns: f64| (ns * machine.counter_hz / 1e9).ceil() as u64;
    // What is claimed grows with the distance from the last pair; what is off does not.
    let (claimed, near) = (ticks(4_000.0), ticks(1_000.0));
    // A tick of the device at each end, and two of ours.
    let length = ticks(200.0 + 1e9 / machine.device_hz) + 2;
    let outcomes = run(&mut machine, 2_000);
    for (at, outcome) in outcomes.iter().enumerate() {
        let [start, end] = outcome.truth;
        let kernel = outcome.kernel.unwrap_or_else(|why| panic!("{at}: {why}"));
        let off = kernel.start.abs_diff(start).max(kernel.end.abs_diff(end));
        assert!(off <= near.min(kernel.error + 2), "{at}: {kernel:?} was {start} to {end}");
        assert!(kernel.error <= claimed, "{at}: {kernel:?}");
        let longer = (kernel.end - kernel.start).abs_diff(end - start);
        assert!(longer <= length, "{at}: {kernel:?} was {start} to {end}");
        let whole = outcome.whole;
        assert!(whole.start <= start + near && end <= whole.end + near, "{at}: {whole:?}");
    }
}

const APPLE: Timebase = Timebase { numer: 125, denom: 3 };
const INTEL: Timebase = Timebase { numer: 1, denom: 1 };

#[test]
fn an_m1_with_one_clock_for_all_and_timestamps_in_nanoseconds() {
    every_kernel_is_where_it_was(Machine {
        counter_hz: 24e6,
        timebase: APPLE,
        device_hz: 1e9,
        cpu_in_ticks: false,
        random: 1,
    });
}

#[test]
fn a_newer_chip_whose_counter_is_scaled_and_timestamps_in_mach_ticks() {
    every_kernel_is_where_it_was(Machine {
        counter_hz: 1e9,
        timebase: APPLE,
        device_hz: 24e6,
        cpu_in_ticks: true,
        random: 2,
    });
}

#[test]
fn an_intel_mac_with_a_card_whose_clock_is_a_little_slow() {
    every_kernel_is_where_it_was(Machine {
        counter_hz: 2.7e9,
        timebase: INTEL,
        device_hz: 100e6 * (1.0 - 50e-6),
        cpu_in_ticks: false,
        random: 3,
    });
}
