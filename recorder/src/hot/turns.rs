//! One of every so many, and not always the same one: a loop of four layers that is sampled
//! one in four would show one of its layers alone.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::hot::clock;

/// Which of the next ones is taken.
#[derive(Debug)]
pub(crate) struct Turns(
    /// How many of this round have come, and above [`CHOSEN`] which of them is taken. 0 at first.
    AtomicU64,
);

/// Marks that a round has begun: of the very first one the first is taken, so that every name
/// comes up.
const CHOSEN: u64 = 1 << 32;

impl Turns {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Begins anew.
    pub(crate) fn reset(&self) {
        self.0.store(0, Relaxed);
    }

    /// Whether this one is taken, of `one_in`.
    ///
    /// Threads may overwrite each other's count here. That moves which one is taken; the
    /// number skipped is counted by each thread itself.
    pub(crate) fn takes(&self, one_in: u32) -> bool {
        self.takes_by(one_in, chance)
    }

    fn takes_by(&self, one_in: u32, chance: impl FnOnce() -> u32) -> bool {
        let found = self.0.load(Relaxed);
        let at = found as u32;
        let chosen = match at {
            0 if found != 0 => (u64::from(chance()) * u64::from(one_in.min(1 << 31))) >> 32,
            _ => found >> 33,
        };
        let next = if at.saturating_add(1) >= one_in { 0 } else { at + 1 };
        self.0.store(chosen << 33 | CHOSEN | u64::from(next), Relaxed);
        u64::from(at) == chosen
    }
}

fn chance() -> u32 {
    scattered(clock::ticks())
}

/// Any number, which has nothing to do with that of a time a fixed step later: rounds of a regular
/// loop come at regular times. (The finalizer of MurmurHash3; a single multiplication keeps
/// regular steps regular, and some of them then favour a few turns of the loop.)
fn scattered(time: u64) -> u32 {
    let mut mixed = time;
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    (mixed >> 32) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_of_every_so_many_is_taken_at_first_the_first_and_then_any() {
        for one_in in [1, 2, 3, 10, 1_000] {
            let turns = Turns::new();
            let taken: Vec<bool> = (0..100 * one_in).map(|_| turns.takes(one_in)).collect();
            assert!(taken[0]);
            for round in taken.chunks(one_in as usize) {
                assert_eq!(round.iter().filter(|taken| **taken).count(), 1, "of {one_in}");
            }
        }
    }

    /// Whatever the time between two rounds: the counter of some processors goes in steps of its
    /// own, and a loop adds those of its work.
    #[test]
    fn a_loop_as_long_as_the_distance_is_seen_in_all_its_turns() {
        for step in 1..5_000 {
            let turns = Turns::new();
            let (mut seen, mut now) = ([0; 4], 0_u64);
            for i in 0..4_000 {
                now = now.wrapping_add(step);
                seen[i % 4] += u32::from(turns.takes_by(4, || scattered(now)));
            }
            // 250 each, and 14 more or less by chance.
            assert!(seen.iter().all(|&times| times > 150), "{step}: {seen:?}");
        }
    }

    #[test]
    fn the_last_of_a_round_may_be_chosen_and_rules_may_change_within_one() {
        let turns = Turns::new();
        let round = |one_in: u32| -> Vec<bool> {
            (0..one_in).map(|_| turns.takes_by(one_in, || u32::MAX)).collect()
        };
        assert_eq!(round(3), [true, false, false]);
        assert_eq!(round(3), [false, false, true]);
        assert!(!turns.takes_by(u32::MAX, || u32::MAX));
        turns.reset();
        assert!(turns.takes_by(u32::MAX, || 7));
    }
}
