//! The host's clock, as backends need it.

/// The host's counter, now: what records have as their start.
#[inline]
pub fn host_ticks() -> u64 {
    #[cfg(not(feature = "off"))]
    {
        crate::hot::clock::ticks()
    }
    #[cfg(feature = "off")]
    {
        0
    }
}

/// How long the host's tick is, measured from when this was made: after a tenth of a
/// second to about a part in a million.
///
/// A machine that slept begins the measurement anew: whether the counter went on meanwhile differs
/// from one to the next, and the monotonic clock did not.
#[derive(Debug)]
pub struct HostRate {
    #[cfg(not(feature = "off"))]
    first: ringscope_format::ClockPair,
    #[cfg(not(feature = "off"))]
    last: ringscope_format::ClockPair,
    /// The best known: the nominal one until there is a measured one.
    rate: f64,
}

/// Before so many nanoseconds the frequency that was known is the better one.
#[cfg(not(feature = "off"))]
const LONG_ENOUGH_NS: i64 = 100_000_000;
/// If the boot clock goes ahead of the monotonic one by more, the machine slept.
#[cfg(not(feature = "off"))]
const SLEPT_NS: i64 = 1_000_000;

impl HostRate {
    /// Begins to measure. Takes a fifth of a millisecond.
    #[cfg(not(feature = "off"))]
    pub fn begin() -> Self {
        use crate::hot::clock;
        let nominal = clock::nominal_hz(clock::counter()) as f64 / 1e9;
        let first = clock::pair();
        Self { first, last: first, rate: nominal }
    }

    /// The reading that the rate was last measured by: of the monotonic clock, in nanoseconds,
    /// between two ticks.
    #[cfg(not(feature = "off"))]
    pub fn last_read(&self) -> (u64, u64, i64) {
        (self.last.tick_before, self.last.tick_after, self.last.mono_ns)
    }

    /// Ticks of the host in a nanosecond.
    #[cfg(not(feature = "off"))]
    pub fn ticks_per_ns(&mut self) -> f64 {
        self.measured_at(crate::hot::clock::pair())
    }

    #[cfg(not(feature = "off"))]
    fn measured_at(&mut self, now: ringscope_format::ClockPair) -> f64 {
        self.last = now;
        let ns = now.mono_ns - self.first.mono_ns;
        let slept_ns = now.boot_ns - self.first.boot_ns - ns;
        if slept_ns > SLEPT_NS || now.tick() < self.first.tick() {
            self.first = now;
        } else if ns >= LONG_ENOUGH_NS {
            self.rate = (now.tick() - self.first.tick()) as f64 / ns as f64;
        }
        self.rate
    }

    /// Measures nothing.
    #[cfg(feature = "off")]
    pub fn begin() -> Self {
        Self { rate: 1.0 }
    }

    /// Nothing was read.
    #[cfg(feature = "off")]
    pub fn last_read(&self) -> (u64, u64, i64) {
        (0, 0, 0)
    }

    /// One, of nothing.
    #[cfg(feature = "off")]
    pub fn ticks_per_ns(&mut self) -> f64 {
        self.rate
    }
}

impl Default for HostRate {
    fn default() -> Self {
        Self::begin()
    }
}

#[cfg(all(test, not(feature = "off")))]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_monotonic_clock() {
        let mut rate = HostRate::begin();
        let (tick, begun) = (host_ticks(), std::time::Instant::now());
        let soon = rate.ticks_per_ns();
        std::thread::sleep(std::time::Duration::from_millis(110));
        let measured = (host_ticks() - tick) as f64 / begun.elapsed().as_nanos() as f64;
        let later = rate.ticks_per_ns();
        assert!((soon / measured - 1.0).abs() < 0.01, "{soon} against {measured}");
        assert!((later / measured - 1.0).abs() < 0.001, "{later} against {measured}");
    }

    #[test]
    fn a_machine_that_slept_does_not_change_the_rate() {
        // 3 GHz; the counter goes on while the machine sleeps for an hour, or begins again.
        let pair = |tick: u64, mono_ns: i64, slept_ns: i64| ringscope_format::ClockPair {
            tick_before: tick,
            tick_after: tick,
            mono_ns,
            wall_ns: 0,
            boot_ns: mono_ns + slept_ns,
            track: 0,
            unused: 0,
        };
        let hour = 3_600_000_000_000_i64;
        for after in [3_000_000_000 + 3 * hour as u64, 1_000] {
            let mut rate = HostRate { first: pair(0, 0, 0), last: pair(0, 0, 0), rate: 2.9 };
            assert_eq!(rate.measured_at(pair(3_000, 1_000, 0)), 2.9, "not long enough");
            assert_eq!(rate.measured_at(pair(3_000_000_000, 1_000_000_000, 0)), 3.0);
            assert_eq!(rate.measured_at(pair(after, 1_001_000_000, hour)), 3.0);
            let next = pair(after + 3_100_000_000, 2_001_000_000, hour);
            assert_eq!(rate.measured_at(next), 3.1, "measured anew");
        }
    }
}
