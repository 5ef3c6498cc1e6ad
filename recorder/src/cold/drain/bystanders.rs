//! Whether the drain has got the core of a thread that records.
//!
//! The system tells nobody whom it has pushed off a core for him. But rings do: where a thread
//! records steadily, and nothing has come since the drain woke up, that thread waits for the
//! drain. Then what can be left is left for a tick that holds up nobody.
//!
//! Threads that record in bursts are taken for such as wait, now and then; of many there is nearly
//! always one. Then slots are sealed a little later, in turns with pauses between them: a few more
//! wake-ups, and no harm.

use super::{Drain, Seen, pace::Found};
use crate::{
    cold::scheduling,
    hot::{clock, ownership::DrainView},
};

/// A ring that so many units should have come to had time enough. Where they come by chance, one
/// in 3,000 such rings has got none.
const SHOULD_HAVE_COME: u64 = 8;

/// With fewer in all rings no tick is long enough to tell.
pub(super) const ENOUGH: usize = 4 * SHOULD_HAVE_COME as usize;

/// What comes to a ring, and since when nothing more has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Units that come in so much time.
    usual: u64,
    within: u64,
    /// Those that came between the last two looks.
    before: (u64, u64),
    /// Units that this tick has left.
    remaining: usize,
    /// When so many were seen for the first time.
    still: usize,
    since: u64,
}

impl Flow {
    /// So much was there at a look, so much time after the last one.
    pub(super) fn looked(&mut self, there: usize, now: u64, after: u64) {
        // Somebody who was held up all the while is no less steady for that: the better of two times.
        let came = there.saturating_sub(self.remaining) as u64;
        let is_slower = came.saturating_mul(self.before.1) < self.before.0.saturating_mul(after);
        (self.usual, self.within) = if is_slower { self.before } else { (came, after) };
        self.before = (came, after);
        (self.remaining, self.still, self.since) = (there, there, now);
    }

    pub(super) fn took(&mut self, units: usize) {
        self.remaining = self.remaining.saturating_sub(units);
        self.still = self.still.saturating_sub(units);
    }

    /// Whether nothing has come although something should have by now, if it should.
    fn stands_still(&mut self, there: usize, now: u64) -> Option<bool> {
        let passed = now.saturating_sub(self.since);
        let enough = SHOULD_HAVE_COME.saturating_mul(self.within);
        if self.usual == 0 || self.usual.saturating_mul(passed) < enough {
            return None;
        }
        let is_still = there == self.still;
        if !is_still {
            (self.still, self.since) = (there, now);
        }
        Some(is_still)
    }
}

/// Whether somebody who records steadily has stood still since this was last asked, or since the
/// rings were looked at. Nothing if nobody can tell, as too little time has passed.
pub(super) fn wait(seen: &mut [Seen], now: u64) -> Option<bool> {
    let still = seen.iter_mut().filter_map(|seen| {
        let consumer = match seen.view {
            DrainView::Recording => seen.lane.consumer(),
            DrainView::Absent | DrainView::Retired => return None,
        };
        // To a full ring nothing comes, whoever has the core.
        let there = Some(consumer.slots()).filter(|there| *there < consumer.buffer().capacity());
        seen.flow.stands_still(there?, now)
    });
    still.reduce(|some, other| some || other)
}

impl Drain {
    /// Whether somebody waits for the core just now. A tick in which that was so at any moment
    /// is one that somebody waited for.
    pub(super) fn does_somebody_wait(&mut self) -> Option<bool> {
        let waits = wait(&mut self.seen, clock::ticks());
        self.waited = self.waited.max(waits);
        waits
    }

    /// Behind a tick: goes to another core, where that is what somebody waits for.
    pub(super) fn make_way(&mut self, found: Found) {
        if found.units >= ENOUGH {
            self.does_somebody_wait();
        }
        let waited = self.waited.take();
        if self.manners.is_time_to_go(waited) {
            if let Some(left) = scheduling::leave_core() {
                self.shared.set_hot_core(Some(left));
            }
        } else if waited == Some(false)
            && let Some(hot_core) = self.shared.hot_core()
            && scheduling::core() == Some(hot_core)
        {
            self.shared.set_hot_core(None);
        }
    }
}

/// When the drain goes to another core: after so many ticks in which somebody waited for it. Where
/// that is no better, as every core has a thread that records, it tries again after twice as many.
#[derive(Debug)]
pub(super) struct Manners {
    ticks: u32,
    patience: u32,
}

const PATIENCE: u32 = 2;
/// About a second of them.
const MOST_PATIENCE: u32 = 1_024;

impl Default for Manners {
    fn default() -> Self {
        Self { ticks: 0, patience: PATIENCE }
    }
}

impl Manners {
    /// Whether it is time to go, behind a tick that somebody waited for at any moment, or nobody.
    pub(super) fn is_time_to_go(&mut self, somebody_waits: Option<bool>) -> bool {
        match somebody_waits {
            None => false,
            Some(false) => {
                *self = Self::default();
                false
            }
            Some(true) => {
                self.ticks += 1;
                let goes = self.ticks >= self.patience;
                if goes {
                    *self = Self { ticks: 0, patience: MOST_PATIENCE.min(2 * self.patience) };
                }
                goes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ringscope_format::{Kind, Record};

    use super::*;
    use crate::hot::lane::{Lane, Owner};

    /// A thread that records a unit in every tick of the clock: 1,000 of them came.
    fn steady() -> Flow {
        let mut flow = Flow::default();
        flow.looked(1_000, 5_000, 1_000);
        flow.took(1_000);
        flow
    }

    #[test]
    fn who_records_steadily_and_has_recorded_nothing_waits() {
        assert_eq!(steady().stands_still(0, 5_007), None);
        assert_eq!(steady().stands_still(0, 5_008), Some(true));
        assert_eq!(steady().stands_still(0, 9_000), Some(true));
    }

    #[test]
    fn who_goes_on_does_not_wait_until_nothing_comes_any_more() {
        let mut flow = steady();
        assert_eq!(flow.stands_still(20, 5_020), Some(false));
        assert_eq!(flow.stands_still(20, 5_027), None);
        assert_eq!(flow.stands_still(20, 5_028), Some(true));
        assert_eq!(flow.stands_still(21, 5_029), Some(false));
    }

    #[test]
    fn what_is_taken_later_is_not_taken_for_what_came() {
        let mut flow = Flow::default();
        flow.looked(1_000, 5_000, 1_000);
        flow.took(600);
        assert_eq!(flow.stands_still(400, 5_050), Some(true));
        flow.took(400);
        assert_eq!(flow.stands_still(0, 5_060), Some(true));
    }

    #[test]
    fn what_was_left_did_not_come_again() {
        let mut flow = Flow::default();
        flow.looked(20_000, 5_000, 1_000);
        flow.took(8_192);
        // The next pass of the same tick.
        flow.looked(11_818, 5_100, 100);
        flow.took(11_818);
        flow.looked(10, 6_100, 1_000);
        flow.took(10);
        assert_eq!((flow.before, flow.usual, flow.within), ((10, 1_000), 10, 100));
        flow.looked(10, 7_100, 1_000);
        assert_eq!((flow.usual, flow.within), (10, 1_000));
    }

    #[test]
    fn who_was_held_up_before_is_as_steady_as_before_that() {
        let mut flow = steady();
        flow.looked(10, 6_000, 1_000);
        flow.took(10);
        assert_eq!(flow.stands_still(0, 6_008), Some(true));
        flow.looked(10, 7_000, 1_000);
        flow.took(10);
        assert_eq!(flow.stands_still(0, 7_008), None);
        assert_eq!(flow.stands_still(0, 7_800), Some(true));
    }

    #[test]
    fn of_who_records_now_and_then_or_not_at_all_nobody_can_tell() {
        let mut flow = Flow::default();
        assert_eq!(flow.stands_still(0, 9_000), None);
        flow.looked(0, 5_000, 1_000);
        assert_eq!(flow.stands_still(0, u64::MAX), None);
        flow.looked(3, 5_000, 1_000);
        assert_eq!(flow.stands_still(3, 7_000), None);
    }

    #[test]
    fn whose_ring_is_full_need_not_wait_for_the_core() {
        let lane: &Lane = Box::leak(Box::new(Lane::new(0)));
        assert!(lane.ownership.claim());
        lane.settle(Owner { track: 1, ..Owner::default() }, 1_000);
        let record = |_| lane.push(Record::timed(Kind::SPAN, 1, 1, 0, 0));
        (0..999).for_each(record);
        let mut seen = [Seen::new(lane)];
        seen[0].view = DrainView::Recording;
        seen[0].flow.looked(999, 5_000, 1_000);
        assert_eq!(wait(&mut seen, 6_000), Some(true));
        record(0);
        seen[0].flow.looked(1_000, 7_000, 1_000);
        assert_eq!(wait(&mut seen, 8_000), None);
    }

    #[test]
    fn the_drain_goes_after_two_ticks_and_where_that_is_no_better_ever_more_rarely() {
        let mut manners = Manners::default();
        let mut went =
            |ticks: usize| (0..ticks).filter(|_| manners.is_time_to_go(Some(true))).count();
        assert_eq!([went(1), went(1), went(3), went(1), went(7), went(1)], [0, 1, 0, 1, 0, 1]);
        assert_eq!(went(100_000), 102);
        assert!(!manners.is_time_to_go(None) && !manners.is_time_to_go(Some(false)));
        let went: Vec<bool> = (0..4).map(|_| manners.is_time_to_go(Some(true))).collect();
        assert_eq!(went, [false, true, false, false]);
    }
}
