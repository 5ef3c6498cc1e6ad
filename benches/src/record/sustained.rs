//! The highest rate at which one producer loses nothing.
//!
//! The producer is paced by the counter in groups of 32 spans. After a delay it
//! catches up on at most a millisecond of its schedule and lets the rest go: a
//! loop that was preempted does not owe the spans it did not get to. What is
//! reported is therefore the rate reached, not the one asked for.
//!
//! Each rate is tried up to twice: on a machine with other work a run may lose
//! for no fault of its rate. A rate that held is one that can be held.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::subject::Subject;
use crate::counter::{TickRate, ticks};

const GROUP: u32 = 32;
const LONGEST_CATCH_UP_NS: f64 = 1e6;
/// Another rung is worth a try only if the last one still went this much faster
/// than the one below.
const PROGRESS: f64 = 1.02;

/// Rates to try, in spans a second, ascending.
pub(crate) const LADDER: &[f64] =
    &[1e6, 2e6, 4e6, 6e6, 8e6, 10e6, 12e6, 14e6, 16e6, 18e6, 20e6, 22e6, 24e6, 26e6, 28e6, 30e6];
/// Where the search begins: the goal.
pub(crate) const FIRST_RUNG: usize = 6;

#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct PacedRun {
    pub(crate) wanted_per_s: f64,
    pub(crate) reached_per_s: f64,
    pub(crate) spans: u64,
    pub(crate) lost: u64,
}

/// Records at `per_second` for `seconds`.
pub(crate) fn measure(
    subject: &dyn Subject,
    per_second: f64,
    seconds: f64,
    dir: &Path,
) -> Result<PacedRun> {
    let rate = TickRate::measure();
    let session = subject.start(dir)?;
    let step = rate.per_second() * f64::from(GROUP) / per_second;
    let catch_up = rate.ticks_in_ns(LONGEST_CATCH_UP_NS) as f64;
    subject.burst(GROUP);

    let mut spans = u64::from(GROUP);
    let begin = ticks();
    let length = rate.ticks_in_ns(seconds * 1e9) as f64;
    // Ticks since `begin`, as a float: exact to the tick for a month.
    let mut due = 0.0;
    let mut now = 0.0;
    while now < length {
        now = ticks().wrapping_sub(begin) as f64;
        if now < due {
            std::hint::spin_loop();
            continue;
        }
        subject.burst(GROUP);
        spans += u64::from(GROUP);
        due = f64::max(due + step, now - catch_up);
    }
    let took_s = now / rate.per_second();
    let outcome = session.finish()?;
    Ok(PacedRun {
        wanted_per_s: per_second,
        reached_per_s: spans as f64 / took_s,
        spans,
        lost: outcome.lost.context("the subject does not say what it lost")?,
    })
}

/// Climbs the ladder with `probe` while nothing is lost and the rate reached
/// still grows, descends while something is, and then confirms from the top down
/// with `confirm`. `None` if even the lowest rate loses.
pub(crate) fn search(
    mut probe: impl FnMut(f64) -> Result<PacedRun>,
    mut confirm: impl FnMut(f64) -> Result<PacedRun>,
) -> Result<Option<PacedRun>> {
    let mut top = FIRST_RUNG;
    let mut best = without_loss(&mut probe, LADDER[top])?;
    while best.is_none() && top > 0 {
        top -= 1;
        best = without_loss(&mut probe, LADDER[top])?;
    }
    // No use climbing again after a descent: the next rung has just lost.
    while let Some(last) = best.as_ref().filter(|_| top >= FIRST_RUNG) {
        let Some(&rate) = LADDER.get(top + 1) else { break };
        let next = without_loss(&mut probe, rate)?;
        if next.as_ref().is_none_or(|next| next.reached_per_s < PROGRESS * last.reached_per_s) {
            break;
        }
        top += 1;
        best = next;
    }
    for rung in (0..=top).rev() {
        if let Some(run) = without_loss(&mut confirm, LADDER[rung])? {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// A run at `rate` that lost nothing, out of two at most.
fn without_loss(
    run: &mut impl FnMut(f64) -> Result<PacedRun>,
    rate: f64,
) -> Result<Option<PacedRun>> {
    for _ in 0..2 {
        let paced = run(rate)?;
        if paced.lost == 0 {
            return Ok(Some(paced));
        }
    }
    Ok(None)
}
