//! How much one pass copies.
//!
//! Where the drain comes late to its turn, as beside a busy writer, ten times as many events as
//! usual have gathered, and copying them at once takes 100 us from whoever had the core. As long
//! as nobody waits for all of them a pass takes a stretch, and there is another one after a pause,
//! or at once if that core is nobody's but the drain's.
//! Stacks are left as they are meanwhile: a span that has ended is off the stack in the file only
//! when it is among the events.

use super::{
    Asked, Drain, Pass,
    pace::{FULL_ENOUGH, Found},
};
use crate::cold::scheduling;

/// Records and slots of a stretch, which takes 25 us.
pub(super) const STRETCH: usize = 8_192;
/// More than so many stretches are no stretches any more; and behind so many, the next pass of the
/// same tick takes all there is.
pub(super) const MOST: usize = 4;

/// How many units a pass that found this may copy.
pub(super) fn limit(found: Found, all: bool) -> usize {
    // Rings that fill up are emptied at once, before a pause takes longer than it should.
    let at_once = all || found.fill > FULL_ENOUGH || found.units > MOST * STRETCH;
    if at_once { usize::MAX } else { STRETCH }
}

impl Drain {
    /// As many passes as it takes. Returns what the last of them was asked for and how it went,
    /// with what all of them have found.
    pub(super) fn tick(&mut self) -> (Asked, Pass) {
        let (mut found, mut stretches) = (Found::default(), 0);
        loop {
            let asked = self.asked();
            let pass = self.pass(asked.for_all() || stretches == MOST);
            found = found.and(pass.found);
            if !pass.stretched {
                return (asked, Pass { found, ..pass });
            }
            crate::crash_point("stretch-copied");
            stretches += 1;
            if self.does_somebody_wait() != Some(false) {
                scheduling::let_others_run();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_that_fill_up_many_events_and_whoever_waits_for_all_of_them_have_no_stretches() {
        let found = |units, fill| Found { units, fill };
        assert_eq!(limit(found(20_000, 0.2), false), STRETCH);
        assert_eq!(limit(found(20_000, 0.2), true), usize::MAX);
        assert_eq!(limit(found(20_000, 0.3), false), usize::MAX);
        assert_eq!(limit(found(40_000, 0.2), false), usize::MAX);
    }
}
