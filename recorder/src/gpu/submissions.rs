//! Command buffers between their encoding and their end, whenever and in whichever
//! order that comes.
//!
//! A [`Batch`] collects the scopes of one command buffer. Once it is
//! [entered](Batch::enter) it is known by a number, and whoever learns that the device is done
//! says so with [`Submissions::complete`], which decides on a time for each scope
//! and records it. Nobody waits: a lock is held for as long as it takes to find a number.
//!
//! # What can go wrong
//!
//! - **Out of order:** numbers are looked up; order does not matter.
//! - **Never submitted:** the batch, or [`Submissions::never_submitted`], gives it back.
//! - **Submitted, but nobody tells of its end:** [`Submissions::not_observed`] counts it, and the trace
//!   says so, since it runs all the same.
//! - **Twice, or after the end:** the second time nothing is found; it is counted.
//! - **Never completed, device lost:** what is in flight at the [`close`](Submissions::close), or
//!   when the [device is lost](Submissions::lose_device), is counted, and the trace says so.
//! - **Too many in flight:** past the limit [`Submissions::begin`] returns none; the
//!   command buffer runs unprofiled and is counted, and so is its work, by
//!   [`Submissions::count_unprofiled`].

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
};

use super::{
    clock_map::Moment,
    counter::DeviceCounter,
    host_clock::host_ticks,
    recording::{Launched, Work},
    report::{Counts, GpuReport, add},
    sample::{Interval, Rejection, Sample},
    source::TimingSource,
};
use crate::{DeviceQueue, Name, vocabulary::KernelUntimed};

/// Command buffers in flight at most, unless asked for otherwise.
pub const MOST_IN_FLIGHT: usize = 1_024;

/// One scope of a command buffer.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// The launch that it came from.
    pub launched: Launched,
    /// What it is around.
    pub work: Work,
    /// Where in [`Completion::samples`] its two begin, and how they were taken. `None`
    /// if it has the times of its command buffer.
    pub sampled: Option<(u32, TimingSource)>,
}

/// What is known once a command buffer is done.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    /// Tick of the host at which that was seen.
    pub done: u64,
    /// The samples of its scopes, two each.
    pub samples: &'a [u64],
    /// When the device says it ran as a whole, if it says so.
    pub whole: Option<Interval>,
}

/// The command buffers of one queue that are under way.
#[derive(Debug)]
pub struct Submissions {
    queue: &'static DeviceQueue,
    backend: &'static Name,
    most: usize,
    state: Mutex<State>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct State {
    entered: HashMap<u64, Entered>,
    /// Batches that have begun and were not entered yet: they count as in flight.
    open: usize,
    /// Of what is entered no more, how much is still being recorded.
    recording: usize,
    last: u64,
    closed: bool,
    lost: bool,
}

#[derive(Debug)]
struct Entered {
    scopes: Vec<Scope>,
    submitted: u64,
}

/// Something that was in flight is being recorded, until this is dropped.
struct Recording<'a>(&'a Submissions);

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        self.0.lock().recording -= 1;
    }
}

/// A command buffer that is being encoded.
#[derive(Debug)]
pub struct Batch {
    submissions: Arc<Submissions>,
    scopes: Vec<Scope>,
    is_entered: bool,
}

impl Submissions {
    /// For work on this queue, through this backend (`metal`, `wgpu`).
    pub fn new(queue: &'static DeviceQueue, backend: &'static Name, most: usize) -> Arc<Self> {
        let (state, counts) = Default::default();
        Arc::new(Self { queue, backend, most, state, counts })
    }

    /// Begins a command buffer; `None` if it cannot be profiled. What work is encoded in it then
    /// is told by [`count_unprofiled`](Self::count_unprofiled).
    pub fn begin(self: &Arc<Self>) -> Option<Batch> {
        let mut state = self.lock();
        if state.closed || state.lost {
            return None;
        }
        if state.entered.len() + state.open >= self.most {
            drop(state);
            add(&self.counts.refused, 1);
            return None;
        }
        state.open += 1;
        drop(state);
        Some(Batch { submissions: Arc::clone(self), scopes: Vec::new(), is_entered: false })
    }

    /// It is being submitted now, rather than when it was entered.
    pub fn submitted(&self, id: u64, tick: u64) {
        if let Some(entered) = self.lock().entered.get_mut(&id) {
            entered.submitted = tick;
        }
    }

    /// When it was submitted, if it is in flight.
    pub fn submitted_at(&self, id: u64) -> Option<u64> {
        self.lock().entered.get(&id).map(|entered| entered.submitted)
    }

    /// Its scopes, if it is in flight.
    pub fn scopes(&self, id: u64) -> Vec<Scope> {
        self.lock().entered.get(&id).map_or_else(Vec::new, |entered| entered.scopes.clone())
    }

    /// The device is done with it: records its scopes. `at` maps readings of the device's
    /// counter to the host's clock.
    pub fn complete(
        &self,
        id: u64,
        completion: &Completion<'_>,
        counter: DeviceCounter,
        at: impl Fn(u64) -> Option<Moment>,
    ) {
        let Some((entered, _recording)) = self.take(id) else { return };
        let mut coarse = Vec::new();
        for scope in &entered.scopes {
            let timed = scope.sampled.map(|(first, source)| {
                believe(first, completion, entered.submitted, counter, &at).map(|it| (it, source))
            });
            match timed {
                Some(Ok((interval, source))) => {
                    self.record(scope, &[], interval, entered.submitted, source);
                }
                Some(Err(why)) => {
                    self.counts.reject(why);
                    coarse.push(scope);
                }
                None => coarse.push(scope),
            }
        }
        self.record_coarse(&coarse, &entered, completion);
    }

    /// What has no times of its own has those of its command buffer. Several such are
    /// one record: given to each of them, the same time would count several times.
    fn record_coarse(&self, coarse: &[&Scope], entered: &Entered, completion: &Completion<'_>) {
        let Some(&first) = coarse.first() else { return };
        let submitted = entered.submitted;
        let whole = completion.whole.and_then(|whole| {
            let believed = whole.between(submitted, completion.done);
            believed.inspect_err(|&why| self.counts.reject(why)).ok()
        });
        let (interval, source) = match whole {
            Some(whole) => (whole, TimingSource::CommandBuffer),
            None => {
                let end = completion.done.max(submitted);
                (Interval { start: submitted, end, error: 0 }, TimingSource::SubmitToDone)
            }
        };
        let others: Vec<Launched> = coarse[1..].iter().map(|scope| scope.launched).collect();
        self.record(first, &others, interval, submitted, source);
    }

    /// Records a scope, which stands for those of the others too, and counts what was recorded.
    fn record(
        &self,
        scope: &Scope,
        others: &[Launched],
        interval: Interval,
        submitted: u64,
        source: TimingSource,
    ) {
        let launched = scope.launched.with_others(others);
        if launched.record(scope.work, self.queue, self.backend, interval, submitted, source) {
            let pieces = others.len() + 1;
            add(&self.counts.recorded, pieces);
            add(&self.counts.coarse, if source.is_exact() { 0 } else { pieces });
        }
    }

    /// It failed on the device, or what it sampled could not be read.
    pub fn fail(&self, id: u64) {
        if let Some((entered, _recording)) = self.take(id) {
            add(&self.counts.failed, entered.scopes.len());
            self.say_untimed(entered.scopes.len(), "failed");
        }
    }

    /// It was given up before it was submitted.
    pub fn never_submitted(&self, id: u64) {
        let mut state = self.lock();
        let Some(entered) = state.entered.remove(&id) else { return };
        add(&self.counts.never_submitted, entered.scopes.len());
    }

    /// It was submitted, or may have been, and nobody will tell when it is done.
    pub fn not_observed(&self, id: u64) {
        let Some(entered) = self.lock().entered.remove(&id) else { return };
        add(&self.counts.not_observed, entered.scopes.len());
        self.say_untimed(entered.scopes.len(), "not observed");
    }

    /// Work was encoded in a command buffer that [`begin`](Self::begin) had returned none for:
    /// counts it, and says so in the trace, since it runs all the same.
    pub fn count_unprofiled(&self, scopes: usize) {
        let state = self.lock();
        let (count, reason) = match (state.lost, state.closed) {
            (true, _) => (&self.counts.device_lost, "device lost"),
            (_, true) => (&self.counts.abandoned, "not completed"),
            _ => (&self.counts.unprofiled, "too many in flight"),
        };
        drop(state);
        add(count, scopes);
        self.say_untimed(scopes, reason);
    }

    /// The device is gone: nothing in flight will complete, and nothing begins any more.
    pub fn lose_device(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.lost, true) {
            return;
        }
        let (scopes, _recording) = self.drain(&mut state);
        drop(state);
        add(&self.counts.device_lost, scopes);
        self.say_untimed(scopes, "device lost");
    }

    /// A scope ended after its encoder had, and belongs to no command buffer.
    pub fn count_late_scope(&self) {
        add(&self.counts.late, 1);
    }

    /// Whether the device is gone.
    pub fn is_lost(&self) -> bool {
        self.lock().lost
    }

    /// The profiler ends: what is in flight is given up, and nothing begins any more.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let (scopes, _recording) = self.drain(&mut state);
        drop(state);
        add(&self.counts.abandoned, scopes);
        self.say_untimed(scopes, "not completed");
    }

    /// Command buffers in flight, with those that are done and being recorded right now.
    pub fn in_flight(&self) -> usize {
        let state = self.lock();
        state.entered.len() + state.recording
    }

    /// What was done so far, and what could not be.
    pub fn report(&self) -> GpuReport {
        GpuReport { in_flight: self.in_flight() as u64, ..self.counts.report() }
    }

    fn say_untimed(&self, scopes: usize, reason: &str) {
        if scopes > 0 {
            let untimed = KernelUntimed::new().count(scopes as u64).reason(reason);
            untimed.device(self.queue.name()).record();
        }
    }

    fn take(&self, id: u64) -> Option<(Entered, Recording<'_>)> {
        let mut state = self.lock();
        let Some(entered) = state.entered.remove(&id) else {
            add(&self.counts.stray, 1);
            return None;
        };
        state.recording += 1;
        Some((entered, Recording(self)))
    }

    /// Lets go of all that is in flight; how many scopes that are.
    fn drain(&self, state: &mut State) -> (usize, Recording<'_>) {
        let scopes = state.entered.drain().map(|(_, entered)| entered.scopes.len()).sum();
        state.recording += 1;
        (scopes, Recording(self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whatever panicked did so between whole assignments.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn believe(
    first: u32,
    completion: &Completion<'_>,
    submitted: u64,
    counter: DeviceCounter,
    at: impl Fn(u64) -> Option<Moment>,
) -> Result<Interval, Rejection> {
    let first = first as usize;
    let Some(&[start, end]) = completion.samples.get(first..first + 2) else {
        return Err(Rejection::Missing);
    };
    let sample = Sample { start, end }.believed(counter)?;
    let (Some(start), Some(end)) = (at(sample.start), at(sample.end)) else {
        return Err(Rejection::NoClock);
    };
    let interval = Interval::mapped(start, end).between(submitted, completion.done)?;
    completion.whole.map_or(Ok(interval), |whole| interval.within(whole))
}

impl Batch {
    /// Adds a scope that has ended.
    pub fn push(&mut self, scope: Scope) {
        self.scopes.push(scope);
    }

    /// How many scopes it has.
    pub fn len(&self) -> usize {
        self.scopes.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Encoding has ended: from now on it is known by the number that this returns. The tick is
    /// that of its submission, until [`Submissions::submitted`] tells a later one. `None` if
    /// the profiler has ended or the device was lost meanwhile: its scopes are counted, and
    /// the trace says so.
    pub fn enter(mut self) -> Option<u64> {
        let scopes = std::mem::take(&mut self.scopes);
        let entered = Entered { scopes, submitted: host_ticks() };
        let submissions = Arc::clone(&self.submissions);
        let mut state = submissions.lock();
        state.open -= 1;
        self.is_entered = true;
        if state.lost || state.closed {
            drop(state);
            submissions.count_unprofiled(entered.scopes.len());
            return None;
        }
        state.last += 1;
        let id = state.last;
        state.entered.insert(id, entered);
        Some(id)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.is_entered {
            self.submissions.lock().open -= 1;
            self.submissions
                .counts
                .never_submitted
                .fetch_add(self.scopes.len() as u64, Ordering::Relaxed);
        }
    }
}
