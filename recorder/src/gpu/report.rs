//! What a profiler could not do, counted by cause.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use super::sample::Rejection;

/// What a profiler has done and what it could not do. Printed, it is one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuReport {
    /// Pieces of work that were recorded.
    pub recorded: u64,
    /// Of these, with the times of their command buffer or of their submission.
    pub coarse: u64,
    /// Pairs of timestamps that were not believed, by cause.
    pub rejected: Vec<(Rejection, u64)>,
    /// Scopes for which no slot for timestamps was left.
    pub no_slot: u64,
    /// Command buffers that were not profiled, since too many were in flight.
    pub refused: u64,
    /// Pieces of work in these.
    pub unprofiled: u64,
    /// Pieces of work in command buffers that were never submitted.
    pub never_submitted: u64,
    /// Pieces of work that ran, or may have, in command buffers of whose end nobody told: committed
    /// before profiling had ended, or a callback's panic took the news with it.
    pub not_observed: u64,
    /// Pieces of work in command buffers that failed.
    pub failed: u64,
    /// Pieces of work that were in flight when the device was lost, or encoded later.
    pub device_lost: u64,
    /// Pieces of work that had not completed when the profiler ended.
    pub abandoned: u64,
    /// Completions of command buffers that were not in flight: a second one, or after the end.
    pub stray: u64,
    /// Scopes that ended after their encoder: they are in no command buffer.
    pub late: u64,
    /// How often the device's clock jumped.
    pub clock_jumps: u64,
    /// Command buffers that are in flight.
    pub in_flight: u64,
}

impl GpuReport {
    /// Pieces of work that ran, or may have, and of which nothing is in the trace.
    pub fn untimed(&self) -> u64 {
        self.unprofiled + self.not_observed + self.failed + self.device_lost + self.abandoned
    }
}

impl fmt::Display for GpuReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} recorded", self.recorded)?;
        let mut say = |count: u64, what: &str| match count {
            0 => Ok(()),
            count => write!(f, ", {count} {what}"),
        };
        say(self.coarse, "of them with the times of their command buffer")?;
        for (cause, count) in &self.rejected {
            say(*count, &format!("timestamps not believed ({cause})"))?;
        }
        say(self.no_slot, "without a slot for timestamps")?;
        say(self.refused, "command buffers past the limit in flight")?;
        say(self.unprofiled, "pieces of work in these")?;
        say(self.never_submitted, "never submitted")?;
        say(self.not_observed, "not observed")?;
        say(self.failed, "failed")?;
        say(self.device_lost, "lost with the device")?;
        say(self.abandoned, "not completed")?;
        say(self.stray, "completions of nothing in flight")?;
        say(self.late, "scopes ended after their encoder")?;
        say(self.clock_jumps, "jumps of the device's clock")?;
        say(self.in_flight, "command buffers in flight")
    }
}

/// The counts behind a report.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) recorded: AtomicU64,
    pub(super) coarse: AtomicU64,
    pub(super) rejected: [AtomicU64; Rejection::ALL.len()],
    pub(super) refused: AtomicU64,
    pub(super) unprofiled: AtomicU64,
    pub(super) never_submitted: AtomicU64,
    pub(super) not_observed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) device_lost: AtomicU64,
    pub(super) abandoned: AtomicU64,
    pub(super) stray: AtomicU64,
    pub(super) late: AtomicU64,
}

pub(super) fn add(to: &AtomicU64, count: usize) {
    to.fetch_add(count as u64, Ordering::Relaxed);
}

impl Counts {
    pub(super) fn reject(&self, why: Rejection) {
        add(&self.rejected[why as usize], 1);
    }

    pub(super) fn report(&self) -> GpuReport {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let rejected = Rejection::ALL.into_iter().zip(self.rejected.iter().map(load));
        GpuReport {
            recorded: load(&self.recorded),
            coarse: load(&self.coarse),
            rejected: rejected.filter(|(_, count)| *count > 0).collect(),
            refused: load(&self.refused),
            unprofiled: load(&self.unprofiled),
            never_submitted: load(&self.never_submitted),
            not_observed: load(&self.not_observed),
            failed: load(&self.failed),
            device_lost: load(&self.device_lost),
            abandoned: load(&self.abandoned),
            stray: load(&self.stray),
            late: load(&self.late),
            no_slot: 0,
            clock_jumps: 0,
            in_flight: 0,
        }
    }
}
