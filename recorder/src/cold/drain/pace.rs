//! How long the drain sleeps between two ticks.
//!
//! Waking costs more than most ticks have to do: 25 to 50 us on a virtual machine, so
//! 4,000 times a second would be a tenth of a core. What a longer sleep costs is what a kill
//! takes along, and room in the rings. So the drain sleeps
//!
//! - as short as it may once a ring is a quarter full, and longer as long as none is
//!   more than an eighth full, up to [`LONGEST_BUSY`];
//! - up to [`PAUSE`] where next to nothing is recorded;
//! - for the idle tick once there has been nothing at all for half a second.

use std::time::Duration;

const LONGEST_BUSY: u64 = 1_000_000;
pub(super) const EMPTY_ENOUGH: f32 = 0.125;
pub(super) const FULL_ENOUGH: f32 = 0.25;
/// Records and slots that are worth waking up for, in the time of [`LONGEST_BUSY`].
const WORTHWHILE: u64 = 64;
/// Ticks with less than that before the drain begins to sleep longer.
const BUSY_FOR: u32 = 16;
const PAUSE: u64 = 4_000_000;
/// Ticks without an event after which it takes the program for idle: half a second.
const IDLE_AFTER: u32 = BUSY_FOR + 125;

/// What a tick found in the rings.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Units of the program's threads, in all rings together.
    pub(super) units: usize,
    /// How full the fullest ring was, up to 1.
    pub(super) fill: f32,
}

impl Found {
    /// What a tick found that took several passes.
    pub(super) fn and(self, later: Found) -> Found {
        Found { units: self.units.max(later.units), fill: self.fill.max(later.fill) }
    }
}

/// The next sleep, worked out from the last ones. In nanoseconds, up to centuries of them: each tick
/// works with them, and a `Duration` is two numbers with a carry in between.
#[derive(Debug)]
pub(super) struct Pace {
    shortest: u64,
    idle: u64,
    tick: u64,
    /// Ticks in a row that were hardly worth waking up for, and that found nothing at all.
    quiet_ticks: u32,
    idle_ticks: u32,
}

impl Pace {
    /// For sleeps between these two.
    pub(super) fn new(shortest: Duration, idle: Duration) -> Self {
        let ns = |sleep: Duration| u64::try_from(sleep.as_nanos()).unwrap_or(u64::MAX);
        let (shortest, idle) = (ns(shortest), ns(idle.max(shortest)));
        Self { shortest, idle, tick: shortest, quiet_ticks: 0, idle_ticks: 0 }
    }

    /// Whether it takes the program for idle, or is about to: then it matters who wakes the drain.
    pub(super) fn may_be_idle(&self) -> bool {
        self.idle_ticks > 0
    }

    /// Somebody has woken the drain: there may be events soon.
    pub(super) fn woken(&mut self) {
        self.idle_ticks = 0;
    }

    /// How long to sleep after a tick that found this.
    pub(super) fn after(&mut self, found: Found) -> Duration {
        // Nothing is worthwhile after a sleep of centuries, as some settings ask for.
        let worthwhile =
            LONGEST_BUSY.saturating_mul(found.units as u64) >= self.tick.saturating_mul(WORTHWHILE);
        let count = |ticks: u32, goes_on| if goes_on { ticks.saturating_add(1) } else { 0 };
        self.quiet_ticks = count(self.quiet_ticks, !worthwhile);
        self.idle_ticks = count(self.idle_ticks, found.units == 0);
        // Whatever it slept before: a ring that fills up after a long sleep cannot wait for half of it.
        let busy = self.tick.min(LONGEST_BUSY);
        let next = match (self.quiet_ticks, found.fill) {
            _ if self.idle_ticks >= IDLE_AFTER => self.idle,
            (_, fill) if fill > FULL_ENOUGH => busy / 2,
            (_, fill) if fill > EMPTY_ENOUGH => busy,
            (BUSY_FOR.., _) => self.tick.saturating_mul(2).min(PAUSE),
            (0, _) => (busy * 2).min(LONGEST_BUSY),
            _ => busy,
        };
        self.tick = next.clamp(self.shortest, self.idle);
        Duration::from_nanos(self.tick)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn pace() -> Pace {
        Pace::new(200 * US, 100_000 * US)
    }

    fn after(pace: &mut Pace, ticks: u32, units: usize, fill: f32) -> Duration {
        (0..ticks).map(|_| pace.after(Found { units, fill })).last().unwrap_or_default()
    }

    #[test]
    fn busy_rings_that_are_nearly_empty_are_looked_at_every_millisecond() {
        let mut pace = pace();
        assert_eq!(after(&mut pace, 1, 5_000, 0.02), 400 * US);
        assert_eq!(after(&mut pace, 100, 5_000, 0.02), 1_000 * US);
    }

    #[test]
    fn rings_that_fill_up_are_looked_at_more_often() {
        let mut pace = pace();
        after(&mut pace, 10, 5_000, 0.02);
        assert_eq!(after(&mut pace, 1, 30_000, 0.2), 1_000 * US);
        assert_eq!(after(&mut pace, 2, 30_000, 0.5), 250 * US);
        assert_eq!(after(&mut pace, 9, 30_000, 0.5), 200 * US);
    }

    #[test]
    fn few_events_are_waited_for_longer_and_many_end_that_at_once() {
        let mut pace = pace();
        after(&mut pace, 20, 5_000, 0.02);
        assert_eq!(after(&mut pace, BUSY_FOR - 1, 10, 0.0), 1_000 * US);
        assert_eq!(after(&mut pace, 100, 10, 0.0), 4_000 * US);
        // As many in a millisecond as before, and four times as many in four of them.
        assert_eq!(after(&mut pace, 100, 40, 0.0), 4_000 * US);
        assert_eq!(after(&mut pace, 1, 1_000, 0.01), 1_000 * US);
    }

    #[test]
    fn nothing_for_half_a_second_is_idle_and_one_event_ends_it() {
        let mut pace = pace();
        let asleep: Duration = (0..IDLE_AFTER - 1).map(|_| after(&mut pace, 1, 0, 0.0)).sum();
        assert!((490_000 * US..520_000 * US).contains(&asleep), "{asleep:?}");
        assert_eq!(after(&mut pace, 1, 0, 0.0), 100_000 * US);
        assert_eq!(after(&mut pace, 1, 1, 0.0), 4_000 * US);
        assert_eq!(after(&mut pace, 1, 9_000, 0.3), 500 * US);
    }

    #[test]
    fn a_ring_that_fills_up_after_an_idle_tick_ends_it_at_once() {
        for (fill, next) in [(0.2, 1_000), (0.3, 500), (0.9, 500)] {
            let mut pace = pace();
            assert_eq!(after(&mut pace, IDLE_AFTER, 0, 0.0), 100_000 * US);
            assert_eq!(after(&mut pace, 1, 20_000, fill), next * US);
        }
    }

    #[test]
    fn a_drain_that_is_woken_stays_awake_for_half_a_second() {
        let mut pace = pace();
        after(&mut pace, 2 * IDLE_AFTER, 0, 0.0);
        pace.woken();
        assert_eq!(after(&mut pace, 1, 0, 0.0), 4_000 * US);
        assert_eq!(after(&mut pace, IDLE_AFTER, 0, 0.0), 100_000 * US);
    }

    #[test]
    fn a_ring_that_filled_up_while_stretches_were_taken_is_what_the_next_sleep_goes_by() {
        let first = Found { units: 9_000, fill: 0.02 };
        let both = first.and(Found { units: 4_000, fill: 0.6 });
        assert_eq!((both.units, both.fill), (9_000, 0.6));
        assert_eq!(pace().after(both), 200 * US);
    }

    #[test]
    fn sleeps_may_last_for_centuries() {
        let mut pace = Pace::new(US, Duration::MAX);
        let centuries = Duration::from_nanos(u64::MAX);
        assert_eq!(after(&mut pace, 2 * IDLE_AFTER, 0, 0.0), centuries);
        assert_eq!(after(&mut pace, 1, 5, 0.0), 4_000 * US);
    }

    #[test]
    fn sleeps_stay_between_what_was_asked_for() {
        let mut pace = Pace::new(3_000 * US, 3_000 * US);
        for (units, fill) in [(0, 0.0), (5, 0.0), (60_000, 1.0), (0, 0.0)] {
            assert_eq!(after(&mut pace, 200, units, fill), 3_000 * US);
        }
    }
}
