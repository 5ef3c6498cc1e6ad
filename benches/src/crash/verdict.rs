//! Compares what a killed child left in its trace with what it says it did.
//!
//! Death is taken as the last sign of life of any of its threads. Times are
//! counter ticks on both sides, so nothing is converted before the end.

use super::account::{Account, Step, THREADS};
use super::load::{NAMES, thread_and_span};
use super::trace::{OpenSpan, Trace};
use crate::counter::TickRate;

/// What came of one trial. Empty `faults` is a good one.
#[derive(Default)]
pub(crate) struct Verdict {
    /// Spans closed according to the account.
    pub(crate) spans: u64,
    pub(crate) spans_per_s: f64,
    /// Spans that are in the trace more than once.
    pub(crate) doubled: u64,
    /// Spans missing although a later one of the same thread is there.
    pub(crate) holes: u64,
    /// Spans that the trace itself says were lost.
    pub(crate) admitted: u64,
    /// Age at death of the oldest span that is missing.
    pub(crate) lost_ms: f64,
    /// Threads whose stack in the trace is none that they held in the last
    /// [`LAST_TICK_MS`].
    pub(crate) stacks_wrong: u64,
    /// Open spans that the trace shows, all threads together.
    pub(crate) open_shown: u64,
    /// How long before death the stacks in the trace were last held, at most.
    pub(crate) stack_age_ms: f64,
    /// What was wrong, in words, the first of each kind.
    pub(crate) faults: Vec<String>,
}

/// How old a stack may be: what the recorder may lose, it may also not have seen.
pub(crate) const LAST_TICK_MS: f64 = 10.0;

/// A span of the account, and how often the trace has it.
#[derive(Clone, Default)]
struct Life {
    open: Option<Step>,
    close: Option<Step>,
    recorded: u32,
}

pub(crate) fn judge(account: &Account, trace: &Trace, rate: TickRate) -> Verdict {
    let threads: Vec<Vec<Step>> = (0..THREADS).map(|thread| account.steps(thread)).collect();
    let death = threads.iter().filter_map(|steps| steps.last().map(last_sign)).max().unwrap_or(0);
    let birth = threads.iter().filter_map(|steps| steps.first()).map(|step| step.before).min();
    let ms_before_death = |ticks: u64| rate.ns(death.saturating_sub(ticks)) / 1e6;

    let mut verdict = Verdict::default();
    let mut lives: Vec<Vec<Life>> = threads.iter().map(|steps| lives(steps)).collect();
    let tracks = check_spans(&mut lives, trace, &mut verdict);

    let mut first_hole = None;
    for (thread, steps) in threads.iter().enumerate() {
        let closed: Vec<&Step> =
            steps.iter().filter(|step| !step.opens && step.after.is_some()).collect();
        let is_there = |step: &&&Step| lives[thread][step.span as usize].recorded > 0;
        // A ring is emptied in order, so what death took is at the end.
        let end = closed.iter().rposition(|step| is_there(&step)).map_or(0, |last| last + 1);
        verdict.spans += closed.len() as u64;
        let mut holes = closed[..end].iter().filter(|step| !is_there(step));
        if let Some(step) = holes.next() {
            verdict.holes += 1 + holes.count() as u64;
            first_hole.get_or_insert_with(|| {
                let (name, ms) = (NAMES[usize::from(step.level)], ms_before_death(step.before));
                format!("{name} {} of thread {thread}, {ms:.2} ms before the end", step.span)
            });
        }
        if let Some(first) = closed.get(end) {
            verdict.lost_ms = verdict.lost_ms.max(ms_before_death(first.before));
        }

        let track = tracks[thread].or_else(|| track_by_stack(steps, trace, &tracks));
        let stack: &[OpenSpan] =
            track.and_then(|track| trace.in_flight.get(&track)).map_or(&[], Vec::as_slice);
        verdict.open_shown += stack.len() as u64;
        match last_held(steps, stack, death) {
            Some(held) if ms_before_death(held) <= LAST_TICK_MS => {
                verdict.stack_age_ms = verdict.stack_age_ms.max(ms_before_death(held));
            }
            held => {
                verdict.stacks_wrong += 1;
                let when = held.map_or("never held".to_owned(), |held| {
                    format!("last held {:.1} ms before the end", ms_before_death(held))
                });
                verdict.faults.push(format!("thread {thread}: stack {stack:?} was {when}"));
            }
        }
    }
    let lived_s = rate.ns(death - birth.unwrap_or(death)) / 1e9;
    verdict.spans_per_s = verdict.spans as f64 / lived_s.max(1e-9);
    if verdict.doubled > 0 {
        verdict.faults.push(format!("{} spans are there twice", verdict.doubled));
    }
    verdict.admitted = trace.lost;
    if verdict.holes > verdict.admitted {
        let (holes, admitted) = (verdict.holes, verdict.admitted);
        verdict.faults.push(format!(
            "{holes} spans are missing before one that is there, first {}; the trace admits {admitted}",
            first_hole.unwrap_or_default()
        ));
    }
    verdict
}

/// The spans of one thread, by number.
fn lives(steps: &[Step]) -> Vec<Life> {
    let mut lives = Vec::new();
    for step in steps {
        let index = step.span as usize;
        if lives.len() <= index {
            lives.resize(index + 1, Life::default());
        }
        let life: &mut Life = &mut lives[index];
        *(if step.opens { &mut life.open } else { &mut life.close }) = Some(*step);
    }
    lives
}

fn last_sign(step: &Step) -> u64 {
    step.after.unwrap_or(step.before)
}

/// Every recorded span must be one that the account knows, with the name and
/// the times it had. Returns which track is which thread.
fn check_spans(
    lives: &mut [Vec<Life>],
    trace: &Trace,
    verdict: &mut Verdict,
) -> [Option<u32>; THREADS] {
    let mut tracks = [None; THREADS];
    let mut strange = 0_u64;
    let mut first = None;
    for span in &trace.spans {
        let (thread, number) = thread_and_span(span.value);
        let life = lives.get_mut(thread).and_then(|lives| lives.get_mut(number as usize));
        let agrees = life.is_some_and(|life| {
            life.recorded += 1;
            verdict.doubled += u64::from(life.recorded == 2);
            life.open.zip(life.close).is_some_and(|(open, close)| {
                during(&open, span.start)
                    && during(&close, span.start.wrapping_add(span.duration))
                    && span.level == Some(open.level)
                    && *tracks[thread].get_or_insert(span.track) == span.track
            })
        });
        if !agrees {
            strange += 1;
            first.get_or_insert(span);
        }
    }
    if let Some(span) = first {
        verdict.faults.push(format!("{strange} spans differ from the account, first {span:?}"));
    }
    tracks
}

/// Whether `ticks` lies within a step.
fn during(step: &Step, ticks: u64) -> bool {
    ticks >= step.before && step.after.is_none_or(|after| ticks <= after)
}

/// The track of a thread none of whose spans got into the trace: one that is
/// nobody else's and whose outermost open span this thread opened.
fn track_by_stack(steps: &[Step], trace: &Trace, known: &[Option<u32>]) -> Option<u32> {
    let opened = |span: &OpenSpan| {
        steps
            .iter()
            .any(|step| step.opens && span.level == Some(step.level) && during(step, span.start))
    };
    let mut others = trace.in_flight.iter().filter(|(track, _)| !known.contains(&Some(**track)));
    others.find(|(_, stack)| stack.first().is_some_and(opened)).map(|(track, _)| *track)
}

/// When a thread was last inside exactly these spans: `death` if it still was,
/// `None` if it never was.
fn last_held(steps: &[Step], stack: &[OpenSpan], death: u64) -> Option<u64> {
    // From the start, because a stack is the sum of all steps before.
    let mut open: Vec<&Step> = Vec::new();
    let mut held = None;
    let same = |open: &[&Step]| {
        open.len() == stack.len()
            && open
                .iter()
                .zip(stack)
                .all(|(step, span)| during(step, span.start) && span.level == Some(step.level))
    };
    let mut matches = same(&open);
    for step in steps {
        if matches {
            // Held until this step took effect, at its end at the latest.
            held = Some(step.after.unwrap_or(death));
        }
        if step.opens {
            open.push(step);
        } else {
            open.pop();
        }
        matches = same(&open);
    }
    if matches { Some(death) } else { held }
}
