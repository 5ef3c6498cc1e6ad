//! Durations of the last while: exact count, sum, least and most, and a histogram.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Parts of a window; the oldest goes when a new one begins.
const PARTS: usize = 4;

/// Durations in a window that moves on.
#[derive(Debug)]
pub(super) struct Rolling {
    parts: [Part; PARTS],
    /// Of all time.
    pub(super) total: u64,
}

#[derive(Debug, Default)]
struct Part {
    /// Which part of time, counted from the beginning.
    number: u64,
    durations: Option<Durations>,
}

/// Some durations, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Durations {
    pub(super) count: u64,
    pub(super) sum: u128,
    pub(super) min: u64,
    pub(super) max: u64,
    histogram: Histogram<u32>,
}

/// The parts of time, by which all windows move together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar {
    begun: Instant,
    part: Duration,
}

impl Calendar {
    pub(super) fn new(window: Duration) -> Self {
        let part = (window / PARTS as u32).max(Duration::from_millis(1));
        Self { begun: Instant::now(), part }
    }

    /// The part that a moment lies in, from 1.
    fn number(&self, at: Instant) -> u64 {
        let parts = at.saturating_duration_since(self.begun).as_nanos() / self.part.as_nanos();
        parts as u64 + 1
    }
}

impl Durations {
    /// None, or `None` if a histogram cannot be had.
    fn new() -> Option<Self> {
        // Two digits: within 1 %. Grows with what it holds.
        let histogram = Histogram::new(2).ok()?;
        Some(Self { count: 0, sum: 0, min: u64::MAX, max: 0, histogram })
    }

    fn record(&mut self, ns: u64) {
        self.count += 1;
        self.sum += u128::from(ns);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
        if self.histogram.record(ns).is_err() {
            self.histogram.saturating_record(ns);
        }
    }

    /// Adds others.
    pub(super) fn add(&mut self, other: &Durations) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        // It grows as needed; two of the same digits always add up.
        let _ = self.histogram.add(&other.histogram);
    }

    /// Never outside of what there was.
    pub(super) fn percentile(&self, percentile: f64) -> u64 {
        self.histogram.value_at_percentile(percentile).clamp(self.min, self.max)
    }
}

impl Rolling {
    pub(super) fn new() -> Self {
        Self { parts: std::array::from_fn(|_| Part::default()), total: 0 }
    }

    pub(super) fn record(&mut self, ns: u64, calendar: &Calendar, now: Instant) {
        self.total += 1;
        let number = calendar.number(now);
        let part = &mut self.parts[number as usize % PARTS];
        if part.number != number {
            *part = Part { number, durations: Durations::new() };
        }
        if let Some(durations) = &mut part.durations {
            durations.record(ns);
        }
    }

    /// Forgets what lies in the window; the total stays.
    #[cfg(not(feature = "off"))]
    pub(super) fn clear(&mut self) {
        self.parts = std::array::from_fn(|_| Part::default());
    }

    /// What lies in the window that ends now.
    pub(super) fn window(&self, calendar: &Calendar, now: Instant) -> Option<Durations> {
        let last = calendar.number(now);
        let recent = self.parts.iter().filter(|part| part.number + PARTS as u64 > last);
        let mut recent = recent.filter_map(|part| part.durations.as_ref());
        let mut all = recent.next()?.clone();
        recent.for_each(|part| all.add(part));
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_exact_and_percentiles_within_a_percent() {
        let calendar = Calendar::new(Duration::from_secs(10));
        let mut rolling = Rolling::new();
        for ns in 1..=100_000 {
            rolling.record(ns * 17, &calendar, calendar.begun);
        }
        let all = rolling.window(&calendar, calendar.begun).unwrap();
        assert_eq!((all.count, all.min, all.max), (100_000, 17, 1_700_000));
        assert_eq!(all.sum, 17 * 100_000 * 100_001 / 2);
        for percentile in [1.0, 50.0, 95.0, 99.0, 100.0] {
            let exact = percentile / 100.0 * 1_700_000.0;
            let found = all.percentile(percentile) as f64;
            assert!((found / exact - 1.0).abs() < 0.01, "p{percentile}: {found}, not {exact}");
        }
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten_and_counted_in_total() {
        let calendar = Calendar::new(Duration::from_secs(4));
        let at = |seconds| calendar.begun + Duration::from_secs(seconds);
        let mut rolling = Rolling::new();
        for second in 0..20 {
            rolling.record(second + 1, &calendar, at(second));
        }
        let last = rolling.window(&calendar, at(19)).unwrap();
        assert_eq!((last.count, last.min, last.max), (4, 17, 20));
        assert_eq!(rolling.total, 20);
        assert!(rolling.window(&calendar, at(23)).is_none());
    }

    #[test]
    fn the_longest_duration_there_is_can_be_recorded() {
        let calendar = Calendar::new(Duration::ZERO);
        let mut rolling = Rolling::new();
        rolling.record(u64::MAX, &calendar, calendar.begun);
        rolling.record(0, &calendar, calendar.begun);
        let all = rolling.window(&calendar, calendar.begun).unwrap();
        assert_eq!((all.min, all.max), (0, u64::MAX));
        assert!(all.percentile(100.0) >= u64::MAX / 100 * 99);
    }
}
