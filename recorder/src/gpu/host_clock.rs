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
#[derive(Debug)]
pub struct HostRate {
    #[cfg(not(feature = "off"))]
    first: ringscope_format::ClockPair,
    nominal: f64,
}

/// Before so many nanoseconds the nominal frequency is the better one.
#[cfg(not(feature = "off"))]
const LONG_ENOUGH_NS: i64 = 100_000_000;

impl HostRate {
    /// Begins to measure. Takes a fifth of a millisecond.
    #[cfg(not(feature = "off"))]
    pub fn begin() -> Self {
        use crate::hot::clock;
        let nominal = clock::nominal_hz(clock::counter()) as f64 / 1e9;
        Self { first: clock::pair(), nominal }
    }

    /// Ticks of the host in a nanosecond.
    #[cfg(not(feature = "off"))]
    pub fn ticks_per_ns(&self) -> f64 {
        let now = crate::hot::clock::pair();
        let ns = now.mono_ns - self.first.mono_ns;
        if ns < LONG_ENOUGH_NS {
            return self.nominal;
        }
        now.tick().saturating_sub(self.first.tick()) as f64 / ns as f64
    }

    /// Measures nothing.
    #[cfg(feature = "off")]
    pub fn begin() -> Self {
        Self { nominal: 1.0 }
    }

    /// One, of nothing.
    #[cfg(feature = "off")]
    pub fn ticks_per_ns(&self) -> f64 {
        self.nominal
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
        let rate = HostRate::begin();
        let (tick, begun) = (host_ticks(), std::time::Instant::now());
        let soon = rate.ticks_per_ns();
        std::thread::sleep(std::time::Duration::from_millis(110));
        let measured = (host_ticks() - tick) as f64 / begun.elapsed().as_nanos() as f64;
        let later = rate.ticks_per_ns();
        assert!((soon / measured - 1.0).abs() < 0.01, "{soon} against {measured}");
        assert!((later / measured - 1.0).abs() < 0.001, "{later} against {measured}");
    }
}
