//! From the clocks that Metal speaks of to the recorder's counter.
//!
//! **What there is.** A record holds ticks of the processor's counter
//! (`hot/clock.rs`; `cntvct_el0` on Apple silicon). Metal gives host times in two
//! ways: `GPUStartTime` and its like are seconds of `mach_absolute_time`, and
//! `sampleTimestamps:` gives a CPU timestamp beside the GPU's.
//!
//! **What a tick is not.** `mach_absolute_time` is a counter plus an offset that
//! changes with every sleep, so it is not the recorder's counter. Nor is the unit the
//! same for certain: it counts at 24 MHz on Apple silicon, and `cntvct_el0`
//! does so too on older chips or in programs linked with an older SDK, but at
//! 1 GHz in programs linked with a newer one on chips whose counter is scaled. So
//! neither is ever taken for the other. What does hold is that
//! `CLOCK_UPTIME_RAW` *is* `mach_absolute_time` in nanoseconds (`clock_gettime(3)`
//! promises it), and the recorder reads that clock together with its counter
//! ([`uptime`]). Two such readings around a moment give its ticks by interpolation.
//!
//! **What is found out.** Whether the CPU timestamp is in mach ticks or in
//! nanoseconds is not documented, and reports differ. The reading before the call
//! and the one after tell: only one unit puts it between them.

use crate::gpu::{ClockMap, DeviceCounter, Interval, Pair};

/// By how much the clock of command buffers may differ from that of counters, which
/// is documented nowhere: samples that are further outside of their command buffer are not
/// believed.
const SLACK_NS: f64 = 20_000.0;

/// What a mach tick is worth: `numer / denom` nanoseconds. 125/3 on Apple silicon,
/// 1/1 on Intel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timebase {
    pub(crate) numer: u32,
    pub(crate) denom: u32,
}

impl Timebase {
    /// Nanoseconds of so many mach ticks, rounded down as the system does.
    pub(crate) fn nanoseconds(self, ticks: u64) -> Option<u64> {
        let ns =
            (u128::from(ticks) * u128::from(self.numer)).checked_div(u128::from(self.denom))?;
        u64::try_from(ns).ok()
    }
}

/// The recorder's counter, and between two reads of it the nanoseconds of uptime.
#[cfg(all(not(feature = "off"), target_os = "macos"))]
pub(crate) fn uptime() -> Pair {
    // On macOS `mono_ns` is `CLOCK_UPTIME_RAW`.
    let pair = crate::hot::clock::pair();
    Pair { before: pair.tick_before, after: pair.tick_after, device: pair.mono_ns as u64 }
}

/// Nothing is read.
#[cfg(all(feature = "off", target_os = "macos"))]
pub(crate) fn uptime() -> Pair {
    Pair { before: 0, after: 0, device: 0 }
}

/// Nanoseconds of uptime for what Metal gives in seconds; `None` for what means "not
/// yet": zero, and whatever else is not a time.
///
/// A double holds 2^20 seconds of uptime, twelve days, to a quarter of a nanosecond.
pub(crate) fn uptime_ns(seconds: f64) -> Option<u64> {
    // The last bound is 570 years, short of what a `u64` holds in nanoseconds.
    (seconds > 0.0 && seconds < 1.8e10).then_some((seconds * 1e9).round() as u64)
}

/// A line through two readings of [`uptime`]; one that maps nothing if they are no line.
fn line(first: Pair, last: Pair) -> ClockMap {
    let mut line = ClockMap::new(DeviceCounter::FULL);
    let _ = line.add(first) && line.add(last);
    line
}

/// Two clocks were read at once, by `sampleTimestamps:` between two readings of
/// [`uptime`]: the pair of the recorder's counter and the device's.
///
/// The call may take long; `cpu` says at which moment of it the device's clock was read. If it makes no sense in any unit, the whole call is the answer.
pub(crate) fn device_pair(
    before: Pair,
    (cpu, gpu): (u64, u64),
    after: Pair,
    timebase: Timebase,
) -> Pair {
    let whole = Pair { before: before.before, after: after.after, device: gpu };
    let inside = |ns: &u64| (before.device..=after.device).contains(ns);
    let ns = Some(cpu).filter(inside).or_else(|| timebase.nanoseconds(cpu).filter(inside));
    let line = line(before, after);
    let Some((moment, rate)) = ns.and_then(|ns| line.at(ns)).zip(line.rate()) else { return whole };
    // The clock has a grain of one mach tick: 42 nanoseconds on Apple silicon.
    let grain = timebase.nanoseconds(1).unwrap_or(1) + 1;
    let error = moment.error + (grain as f64 * rate).ceil() as u64;
    Pair {
        before: moment.tick.saturating_sub(error).max(whole.before),
        after: moment.tick.saturating_add(error).min(whole.after),
        device: gpu,
    }
}

/// When a command buffer ran as a whole, by its own account: seconds of uptime
/// between two readings of [`uptime`]. `None` if it has no account to give.
pub(crate) fn whole(first: Pair, last: Pair, start: f64, end: f64) -> Option<Interval> {
    let (start, end) = (uptime_ns(start)?, uptime_ns(end)?);
    let line = line(first, last);
    let slack = (SLACK_NS * line.rate()?).ceil() as u64;
    let interval = Interval::mapped(line.at(start)?, line.at(end)?);
    (start <= end).then_some(Interval { error: interval.error + slack, ..interval })
}

/// Nanoseconds of uptime at a tick of the recorder's counter, on the line through two readings of
/// [`uptime`].
pub(crate) fn uptime_at(first: Pair, last: Pair, tick: u64) -> Option<u64> {
    let since_first = tick as i64 - first.tick() as i64;
    let ns = (since_first as f64 / line(first, last).rate()?).round();
    first.device.checked_add_signed(ns as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLE: Timebase = Timebase { numer: 125, denom: 3 };
    const INTEL: Timebase = Timebase { numer: 1, denom: 1 };

    fn reading(tick: u64, width: u64, uptime_ns: u64) -> Pair {
        Pair { before: tick - width / 2, after: tick + width / 2, device: uptime_ns }
    }

    #[test]
    fn mach_ticks_become_nanoseconds_as_the_system_rounds_them() {
        assert_eq!(APPLE.nanoseconds(0), Some(0));
        assert_eq!(APPLE.nanoseconds(1), Some(41));
        assert_eq!(APPLE.nanoseconds(3), Some(125));
        assert_eq!(APPLE.nanoseconds(24_000_000), Some(1_000_000_000));
        assert_eq!(INTEL.nanoseconds(u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn mach_ticks_of_a_hundred_years_do_not_overflow() {
        let ticks = 24_000_000 * 86_400 * 365 * 100;
        assert_eq!(APPLE.nanoseconds(ticks), Some(86_400 * 365 * 100 * 1_000_000_000));
        assert_eq!(APPLE.nanoseconds(u64::MAX), None);
    }

    #[test]
    fn a_timebase_that_was_not_filled_in_converts_nothing() {
        assert_eq!(Timebase { numer: 0, denom: 0 }.nanoseconds(5), None);
    }

    #[test]
    fn seconds_of_uptime_become_nanoseconds() {
        assert_eq!(uptime_ns(1.5), Some(1_500_000_000));
        assert_eq!(uptime_ns(138_194.481_157_083), Some(138_194_481_157_083));
    }

    #[test]
    fn what_is_not_a_time_yet_is_none() {
        for seconds in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            assert_eq!(uptime_ns(seconds), None, "{seconds}");
        }
    }

    #[test]
    fn a_cpu_timestamp_in_nanoseconds_narrows_the_pair() {
        // As an M1 gives it: the call took 60 us, the timestamps are from its middle.
        let before = reading(3_316_667_547, 2, 138_194_481_127_000);
        let after = reading(3_316_668_987, 2, 138_194_481_187_000);
        let narrow = device_pair(before, (138_194_481_157_000, 77), after, APPLE);
        assert_eq!(narrow, Pair { before: 3_316_668_264, after: 3_316_668_270, device: 77 });
    }

    #[test]
    fn a_cpu_timestamp_in_mach_ticks_gives_the_same_pair() {
        let before = reading(3_316_667_547, 2, 138_194_481_127_000);
        let after = reading(3_316_668_987, 2, 138_194_481_187_000);
        let ns = device_pair(before, (138_194_481_157_000, 77), after, APPLE);
        let ticks = device_pair(before, (138_194_481_157_000 * 3 / 125, 77), after, APPLE);
        assert_eq!(ns, ticks);
    }

    #[test]
    fn a_counter_of_one_gigahertz_is_not_taken_for_mach_ticks() {
        let before = reading(9_000_000_000, 40, 138_194_481_127_000);
        let after = reading(9_000_060_000, 40, 138_194_481_187_000);
        let pair = device_pair(before, (138_194_481_157_000 * 3 / 125, 77), after, APPLE);
        assert!(pair.tick().abs_diff(9_000_030_000) <= 42, "{pair:?}");
    }

    #[test]
    fn a_cpu_timestamp_of_no_known_unit_leaves_the_whole_call() {
        let (before, after) = (reading(24_000, 2, 5_000_000), reading(48_000, 2, 6_000_000));
        let whole = Pair { before: 23_999, after: 48_001, device: 77 };
        for cpu in [0, 1, 4_999_999, 6_000_001, u64::MAX] {
            assert_eq!(device_pair(before, (cpu, 77), after, INTEL), whole, "{cpu}");
        }
    }

    #[test]
    fn a_pair_never_leaves_the_call() {
        let (before, after) = (reading(24_000, 200, 5_000_000), reading(48_000, 200, 6_000_000));
        assert_eq!(device_pair(before, (5_000_000, 7), after, INTEL).before, 23_900);
        assert_eq!(device_pair(before, (6_000_000, 7), after, INTEL).after, 48_100);
    }

    #[test]
    fn readings_that_stand_still_leave_the_whole_call() {
        let still = reading(24_000, 2, 5_000_000);
        let whole = Pair { before: 23_999, after: 24_001, device: 77 };
        assert_eq!(device_pair(still, (5_000_000, 77), still, INTEL), whole);
    }

    #[test]
    fn a_command_buffer_is_placed_by_its_own_account() {
        // 24 MHz; a millisecond between commit and completion, the work in its middle.
        let (commit, done) = (reading(24_000, 2, 5_000_000), reading(48_000, 2, 6_000_000));
        let whole = whole(commit, done, 0.005_25, 0.005_75).expect("an account");
        assert_eq!((whole.start, whole.end), (30_000, 42_000));
        assert_eq!(whole.error, 1 + 480, "a tick of reading and 20 us of slack");
    }

    #[test]
    fn a_command_buffer_without_times_has_no_interval() {
        let (commit, done) = (reading(24_000, 2, 5_000_000), reading(48_000, 2, 6_000_000));
        assert_eq!(whole(commit, done, 0.0, 0.0), None, "not executed");
        assert_eq!(whole(commit, done, 0.005_25, 0.0), None, "not completed");
        assert_eq!(whole(commit, done, 0.005_75, 0.005_25), None, "ends before it starts");
        assert_eq!(whole(done, commit, 0.005_25, 0.005_75), None, "the host's clock went back");
    }

    #[test]
    fn a_tick_has_its_moment_of_uptime() {
        let (commit, done) = (reading(24_000, 2, 5_000_000), reading(48_000, 2, 6_000_000));
        assert_eq!(uptime_at(commit, done, 24_000), Some(5_000_000));
        assert_eq!(uptime_at(commit, done, 30_000), Some(5_250_000));
        assert_eq!(uptime_at(commit, done, 23_976), Some(4_999_000));
        assert_eq!(uptime_at(done, commit, 30_000), None);
    }
}
