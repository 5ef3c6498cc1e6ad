//! A real run, replayed: what Mesa's llvmpipe said of the example's pipeline goes through the
//! types that the backend of wgpu uses, and comes out as the samples have it.
//!
//! `testdata/gpu_pipeline.samples` is that run. Its device counts the nanoseconds of the host's monotonic
//! clock, which the log has readings of: where each kernel really lies is therefore known, while the
//! profiler has to find it out from submissions and completions alone.

use std::{
    collections::{HashSet, VecDeque},
    path::Path,
};

use ringscope::{
    DeviceQueue, Name,
    gpu::{
        DRIFT, DeviceCounter, Entry, GpuReport, KernelName, Launch, LearnedClock, LoggedScope,
        Place, Ran, SampleLog, Scope, SlotPool, Slots, Submissions, Work, host_ticks,
    },
};

use super::{is_work, label, ticks};
use crate::{
    child::{End, Scene, child},
    told::{Event, Told},
};

static BACKEND: Name = Name::new("replayed");
/// As the backend has them: queries in a block, and scopes that these are enough for.
const BLOCK: u32 = 32;
const PAIRS: usize = 16;
/// Kernels and copies of the run.
pub(super) const SCOPES: usize = 164;

/// The run, as it was.
pub(super) fn real() -> SampleLog {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/gpu_pipeline.samples");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The command buffers of a log that have scopes, in the order in which they were done.
pub(super) fn command_buffers(log: &SampleLog) -> impl Iterator<Item = &Ran> {
    log.entries.iter().filter_map(|entry| match entry {
        Entry::Ran(ran) if !ran.scopes.is_empty() => Some(ran),
        _ => None,
    })
}

/// Every command buffer, the profiler's own included, to be changed.
pub(super) fn each_ran(log: &mut SampleLog, change: impl FnMut(&mut Ran)) {
    let rans = log.entries.iter_mut().filter_map(|entry| match entry {
        Entry::Ran(ran) => Some(ran),
        _ => None,
    });
    rans.for_each(change);
}

/// What is different from the run itself, besides what the log says.
#[derive(Clone, Copy)]
pub(super) struct Stage {
    /// Blocks for samples that there are.
    pub(super) blocks: u32,
    /// Of the command buffers, how many complete before the device is lost.
    pub(super) lost_after: usize,
    /// Which of them, by their number, complete at all.
    pub(super) completes: fn(usize) -> bool,
}

pub(super) const AS_IT_WAS: Stage =
    Stage { blocks: 2_048, lost_after: usize::MAX, completes: |_| true };

/// A command buffer that is in flight.
struct InFlight<'a> {
    ran: &'a Ran,
    id: u64,
    held: Option<Slots>,
}

/// Tells the shared logic what the log says, by the calls that the backend makes, in a
/// recording that ends now.
pub(super) fn play(scene: &Scene, log: &SampleLog, stage: Stage) {
    let recorder = scene.builder().ring_records(16_384).start().unwrap();
    let counter = DeviceCounter::of_bits(log.counter_bits);
    let first_rate = log.entries.iter().find_map(|entry| match entry {
        Entry::Rate(rate) => Some(*rate),
        _ => None,
    });
    let mut clock = LearnedClock::new(counter, log.tick_ns, first_rate.expect("a rate"));
    let submissions = Submissions::new(DeviceQueue::named(&log.device), &BACKEND, 1_024);
    let pool = SlotPool::new(stage.blocks.min(128) * BLOCK, BLOCK, stage.blocks.div_ceil(128));
    // The run is over when this process begins. Wraps around where the machine has been on for
    // less long than the one of the log.
    let last = command_buffers(log).map(|ran| ran.done).max().expect("something ran");
    let shift = host_ticks().wrapping_sub(last);

    let mut by_submission: Vec<&Ran> = command_buffers(log).collect();
    by_submission.sort_by_key(|ran| ran.submitted);
    let mut to_submit = VecDeque::from(by_submission);
    let mut in_flight: Vec<InFlight<'_>> = Vec::new();
    let mut completed = 0;
    for entry in &log.entries {
        let ran = match entry {
            Entry::Host { .. } => continue,
            Entry::Rate(rate) => {
                clock.set_host_rate(*rate);
                continue;
            }
            Entry::Ran(ran) if ran.scopes.is_empty() => {
                let (from, to) = (ran.submitted.wrapping_add(shift), ran.done.wrapping_add(shift));
                clock.learn(from, to, &ran.samples);
                continue;
            }
            Entry::Ran(ran) => ran,
        };
        // All that were submitted before it was done are in flight by now.
        while to_submit.front().is_some_and(|next| next.submitted <= ran.done) {
            let next = to_submit.pop_front().unwrap();
            if let Some(entered) = submit(&submissions, &pool, log, next, shift) {
                in_flight.push(entered);
            }
        }
        let places = in_flight.iter().filter_map(|it| it.held.as_ref());
        let places: Vec<_> = places.map(|slots| (slots.buffer(), slots.first())).collect();
        let distinct: HashSet<_> = places.iter().collect();
        assert_eq!(distinct.len(), places.len(), "no slot is given out twice");

        if completed == stage.lost_after {
            submissions.lose_device();
        }
        completed += 1;
        let Some(at) = in_flight.iter().position(|it| std::ptr::eq(it.ran, ran)) else { continue };
        if (stage.completes)(completed - 1) {
            let InFlight { id, held, .. } = in_flight.remove(at);
            clock.complete(&submissions, id, ran.done.wrapping_add(shift), &ran.samples);
            drop(held);
        }
    }
    submissions.close();
    scene.say("shift", shift);
    let (no_slot, clock_jumps) = (pool.exhausted(), u64::from(clock.jumps()));
    let mut report: GpuReport = submissions.report();
    (report.no_slot, report.clock_jumps) = (no_slot, clock_jumps);
    scene.say("report", report);
    recorder.finish().unwrap();
}

fn submit<'a>(
    submissions: &std::sync::Arc<Submissions>,
    pool: &std::sync::Arc<SlotPool>,
    log: &SampleLog,
    ran: &'a Ran,
    shift: u64,
) -> Option<InFlight<'a>> {
    assert!(ran.samples.len() <= PAIRS * 2, "one block is enough for it");
    let Some(mut batch) = submissions.begin() else {
        submissions.count_unprofiled(ran.scopes.len());
        return None;
    };
    let held = pool.take();
    for scope in &ran.scopes {
        let place = if scope.work == Work::Kernel { Place::OwnPass } else { Place::Encoder };
        let source = log.abilities.finest(place);
        let first = scope.sampled.map(|it| it.0).filter(|_| held.is_some() && source.is_exact());
        let launched = Launch::begin(KernelName::from(&scope.name)).end().expect("it is recorded");
        let sampled = first.map(|first| (first, source));
        batch.push(Scope { launched, work: scope.work, sampled });
    }
    let id = batch.enter()?;
    submissions.submitted(id, ran.submitted.wrapping_add(shift));
    Some(InFlight { ran, id, held })
}

/// What came of a replay.
pub(super) struct Replayed {
    pub(super) told: Told,
    pub(super) report: String,
    shift: u64,
}

/// A kernel or copy of the log, with the record of it.
pub(super) struct Match<'a> {
    pub(super) ran: &'a Ran,
    pub(super) scope: &'a LoggedScope,
    /// Readings of the device's counter.
    pub(super) start: u64,
    pub(super) end: u64,
    /// On the host's clock as it was in the run.
    pub(super) event: Event,
    pub(super) source: String,
}

impl Replayed {
    pub(super) fn of(end: End) -> Self {
        let end = end.succeeded();
        Self { told: end.trace(), report: end.said("report"), shift: end.number("shift") }
    }

    /// The run itself, as it was recorded.
    pub(super) fn live(end: &End) -> Self {
        Self { told: end.trace(), report: end.said("report"), shift: 0 }
    }

    /// All records of devices in the order of the file, with their ticks as in the run.
    pub(super) fn events(&self) -> Vec<(Event, String)> {
        let as_it_was = |event: &Event| {
            let before = |tick: u64| tick.wrapping_sub(self.shift);
            let (start, end) = (before(event.start), before(event.end));
            (Event { start, end, ..event.clone() }, label(&self.told, event, "source"))
        };
        self.told.events.iter().filter(|event| is_work(event)).map(as_it_was).collect()
    }

    /// The records of a replay in which every scope has one, in the order of the log. `log` is
    /// the run whose samples are meant, whatever was told of it.
    #[track_caller]
    pub(super) fn matches<'a>(&self, log: &'a SampleLog) -> Vec<Match<'a>> {
        let (matches, coarse) = self.matches_and_coarse(log);
        assert_eq!(coarse, [0; 0], "all scopes have a record of their own");
        matches
    }

    /// The same, beside the numbers of the command buffers that are one record each, of all their
    /// scopes: those have the time of their submission.
    #[track_caller]
    pub(super) fn matches_and_coarse<'a>(
        &self,
        log: &'a SampleLog,
    ) -> (Vec<Match<'a>>, Vec<usize>) {
        let mut events = VecDeque::from(self.events());
        let (mut matches, mut coarse) = (Vec::new(), Vec::new());
        for (number, ran) in command_buffers(log).enumerate() {
            let all = format!("{} + {} more", ran.scopes[0].name, ran.scopes.len() - 1);
            if let Some((event, source)) = events.front().filter(|(event, _)| event.name == all) {
                assert_eq!(source, "submit to done");
                assert_eq!((event.start, event.end), (ran.submitted, ran.done));
                events.pop_front();
                coarse.push(number);
                continue;
            }
            // Of a command buffer, what has no times of its own is recorded last.
            let mut of_it: Vec<_> = events.drain(..ran.scopes.len().min(events.len())).collect();
            for scope in &ran.scopes {
                let at = of_it.iter().position(|(event, _)| event.name == scope.name);
                let at = at.unwrap_or_else(|| panic!("{} is not recorded: {of_it:?}", scope.name));
                let (event, source) = of_it.remove(at);
                let first = scope.sampled.expect("all of this run are sampled").0 as usize;
                let (start, end) = (ran.samples[first], ran.samples[first + 1]);
                matches.push(Match { ran, scope, start, end, event, source });
            }
        }
        assert!(events.is_empty(), "more records than scopes: {events:?}");
        (matches, coarse)
    }
}

impl Match<'_> {
    pub(super) fn took(&self) -> u64 {
        self.event.end - self.event.start
    }

    /// What the samples say it took, in ticks of the host.
    pub(super) fn sampled_ticks(&self, host_rate: f64) -> f64 {
        (self.end - self.start) as f64 * host_rate
    }

    /// It ran after its submission and before it was seen to be done, and its delay says when.
    #[track_caller]
    pub(super) fn lies_within(&self) {
        let (event, Ran { submitted, done, .. }) = (&self.event, self.ran);
        assert!(*submitted <= event.start && event.end <= *done, "{event:?}: {submitted}..{done}");
        assert_eq!(ticks(event, "queue"), event.start - submitted, "{event:?}");
    }
}

/// The host's tick at a time of its monotonic clock: on the line through the first and the last
/// reading of both, and by how many ticks that may be off.
pub(super) struct Truth {
    first: (f64, f64),
    last: (f64, f64),
    pub(super) off: f64,
}

impl Truth {
    pub(super) fn of(log: &SampleLog) -> Self {
        let readings: Vec<(f64, f64, f64)> = log
            .entries
            .iter()
            .filter_map(|entry| match *entry {
                Entry::Host { before, after, mono_ns } => {
                    Some((mono_ns as f64, before.midpoint(after) as f64, (after - before) as f64))
                }
                _ => None,
            })
            .collect();
        let (first, last) = (readings[0], readings[readings.len() - 1]);
        assert!(last.0 - first.0 > 1e8, "a tenth of a second apart");
        Self { first: (first.0, first.1), last: (last.0, last.1), off: first.2.max(last.2) / 2.0 }
    }

    pub(super) fn rate(&self) -> f64 {
        (self.last.1 - self.first.1) / (self.last.0 - self.first.0)
    }

    pub(super) fn tick(&self, mono_ns: u64) -> f64 {
        self.first.1 + (mono_ns as f64 - self.first.0) * self.rate()
    }
}

#[test]
fn a_real_run_comes_out_as_its_samples_have_it() {
    let end = child(|scene| play(scene, &real(), AS_IT_WAS)).run();
    let (log, replayed) = (real(), Replayed::of(end));
    let scopes: usize = command_buffers(&log).map(|ran| ran.scopes.len()).sum();
    assert_eq!((scopes, command_buffers(&log).count(), log.left_out), (SCOPES, 41, 0));
    assert_eq!(replayed.report, format!("{scopes} recorded"), "all believed, no jump");

    let (matches, rate) = (replayed.matches(&log), Truth::of(&log).rate());
    for one in &matches {
        one.lies_within();
        // As long as the device says, to a tick of the host: each end is rounded.
        let off = one.took() as f64 - one.sampled_ticks(rate);
        let drifted = one.sampled_ticks(rate) * 20e-6;
        assert!(off.abs() <= 1.0 + drifted, "{}: off by {off}", one.event.name);
        let expected = one.scope.sampled.map(|it| it.1.name());
        assert_eq!(Some(one.source.as_str()), expected, "the source that the run had");
    }
    assert!(matches.is_sorted_by_key(|one| one.event.start), "in the order of the device");
    let overlap = matches.windows(2).any(|two| two[0].event.end > two[1].event.start + 1);
    assert!(!overlap, "which ran one after the other");
    for name in ["matmul", "softmax", "rmsnorm", "read back"] {
        let of_it = || matches.iter().filter(|one| one.event.name == name);
        assert_eq!(of_it().count(), 41, "{name}");
        let recorded: u64 = of_it().map(Match::took).sum();
        let sampled: f64 = of_it().map(|one| one.sampled_ticks(rate)).sum();
        assert!((recorded as f64 - sampled).abs() <= 41.0 + sampled * 20e-6, "{name}");
    }
}

#[test]
fn a_real_run_is_where_the_monotonic_clock_says_as_far_as_it_claims() {
    let end = child(|scene| play(scene, &real(), AS_IT_WAS)).run();
    let (log, replayed) = (real(), Replayed::of(end));
    claims_hold(&replayed.matches(&log), &Truth::of(&log));
}

/// No start is further from where it really was than its record claims it may be, and the claim is not
/// larger than what a submission leaves open.
#[track_caller]
pub(super) fn claims_hold(matches: &[Match<'_>], truth: &Truth) {
    for one in matches {
        let off = (one.event.start as f64 - truth.tick(one.start)).abs();
        let claimed = ticks(&one.event, "uncertainty");
        let name = one.event.name;
        assert!(off <= claimed as f64 + truth.off + 1.0, "{name}: off by {off}, claims {claimed}");
        assert!(claimed < one.ran.done - one.ran.submitted, "{name}: claims {claimed}");
    }
}

/// Each lies within its submission and lasts as long as its samples say.
#[track_caller]
pub(super) fn are_as_sampled(matches: &[Match<'_>], rate: f64) {
    assert!(!matches.is_empty());
    for one in matches {
        one.lies_within();
        assert_ne!(one.source, "submit to done", "{}", one.event.name);
        let (off, sampled) = (one.took() as f64 - one.sampled_ticks(rate), one.sampled_ticks(rate));
        assert!(off.abs() <= 1.0 + sampled * 20e-6, "{}: off by {off}", one.event.name);
    }
}

#[test]
fn of_a_real_run_no_more_is_claimed_than_its_brackets_leave_open() {
    let end = child(|scene| play(scene, &real(), AS_IT_WAS)).run();
    let (log, replayed) = (real(), Replayed::of(end));
    let (matches, truth) = (replayed.matches(&log), Truth::of(&log));
    // Every command buffer so far says between which ticks a reading lies, by itself.
    let mut so_far: Vec<&Ran> = Vec::new();
    let mut matches = matches.iter().peekable();
    for entry in &log.entries {
        let Entry::Ran(ran) = entry else { continue };
        so_far.push(ran);
        while let Some(one) = matches.next_if(|one| std::ptr::eq(one.ran, ran)) {
            let apart = |from: u64, to: u64| (to as f64 - from as f64) * truth.rate();
            let low = so_far.iter().map(|it| {
                it.submitted as f64 + apart(*it.samples.iter().min().unwrap(), one.start)
            });
            let high = so_far
                .iter()
                .map(|it| it.done as f64 - apart(one.start, *it.samples.iter().max().unwrap()));
            let (low, high) = (low.fold(0.0, f64::max), high.fold(f64::INFINITY, f64::min));
            assert!(low <= high, "the run contradicts itself");
            // Bounds are let out on both sides, as far as to the end of the kernel.
            let drift = apart(so_far[0].samples[0], one.end) * 2.0 * DRIFT;
            let claimed = ticks(&one.event, "uncertainty") as f64;
            let start = one.event.start as f64;
            assert!(low - drift <= start && start <= high + drift, "{}", one.event.name);
            // At least the way to the farther bound, and no more than the whole way.
            let farther = (high - start).max(start - low);
            assert!(claimed + 1.0 >= farther - drift, "{claimed} of {farther}");
            assert!(claimed <= high - low + drift + 1.0, "{claimed} of {}", high - low);
        }
    }
    assert!(matches.next().is_none());
}
