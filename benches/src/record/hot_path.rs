//! What a span costs the thread that records it: bursts of empty spans, with
//! the floor between them, on one thread or on several at once.
//!
//! A burst fits in half of ringscope's ring, and buffers are emptied untimed
//! between bursts, so nobody is timed while losing. Variants take turns, each
//! round starting with another, so that a slow phase of the machine hits all
//! alike. On several threads a round counts as the mean of theirs.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};

use super::subject::{Outcome, Session, Subject};
use crate::{floor, process_cost};

/// Spans in a burst: about a quarter of ringscope's smallest default ring of 61,440.
pub(crate) const BURST: u32 = 16_384;

const WARM_UP_ROUNDS: usize = 3;
/// However slow the subject: a median of fewer would be noise.
const LEAST_ROUNDS: usize = 7;
const MOST_ROUNDS: usize = 2_000;

/// Nanoseconds a span, one sample a round.
#[derive(Deserialize, Serialize)]
pub(crate) struct Samples {
    pub(crate) floor: Vec<f64>,
    pub(crate) span: Vec<f64>,
    pub(crate) handle: Vec<f64>,
    /// Spans recorded, warm-up included.
    pub(crate) produced: u64,
    pub(crate) outcome: Outcome,
}

impl Samples {
    /// Spans that did not survive, by whichever account is worse; `None` if the
    /// subject keeps none.
    pub(crate) fn lost(&self) -> Option<u64> {
        let missing = self.outcome.kept.map(|kept| self.produced.saturating_sub(kept));
        missing.max(self.outcome.lost)
    }

    /// Adds the samples of another process.
    pub(crate) fn append(&mut self, mut other: Samples) {
        self.floor.append(&mut other.floor);
        self.span.append(&mut other.span);
        self.handle.append(&mut other.handle);
        self.produced += other.produced;
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        self.outcome = Outcome {
            kept: sum(self.outcome.kept, other.outcome.kept),
            lost: sum(self.outcome.lost, other.outcome.lost),
            file_bytes: sum(self.outcome.file_bytes, other.outcome.file_bytes),
        };
    }
}

/// One kind of burst, and what it took in each round.
struct Variant<'a> {
    run: Box<dyn Fn(u32) + Sync + 'a>,
    records: bool,
    samples: Vec<f64>,
}

impl<'a> Variant<'a> {
    fn new(records: bool, run: impl Fn(u32) + Sync + 'a) -> Self {
        Variant { run: Box::new(run), records, samples: Vec::with_capacity(MOST_ROUNDS) }
    }
}

/// Times `subject` on `threads` threads for about `budget`.
pub(crate) fn measure(
    subject: &dyn Subject,
    threads: usize,
    budget: Duration,
    dir: &Path,
) -> Result<Samples> {
    let session = subject.start(dir)?;
    let mut variants =
        vec![Variant::new(false, floor::burst), Variant::new(true, |spans| subject.burst(spans))];
    if let Some(burst) = subject.handle_burst() {
        variants.push(Variant::new(true, burst));
    }
    let rounds = rounds(&mut variants, &*session, threads, budget)?;
    let recording = variants.iter().filter(|variant| variant.records).count() as u64;
    let produced = recording * rounds as u64 * threads as u64 * u64::from(BURST);
    let mut samples = variants.into_iter().map(|variant| variant.samples);
    let mut next = || samples.next().unwrap_or_default();
    let (floor, span, handle) = (next(), next(), next());
    Ok(Samples { floor, span, handle, produced, outcome: session.finish()? })
}

/// What opening a span costs while `subject` is not started. Not less the cost
/// of the loop around it, so it is an upper bound.
pub(crate) fn measure_off(subject: &dyn Subject, budget: Duration) -> Vec<f64> {
    let begin = Instant::now();
    let mut samples = Vec::with_capacity(MOST_ROUNDS);
    subject.burst(BURST);
    while samples.len() < LEAST_ROUNDS || (begin.elapsed() < budget && samples.len() < MOST_ROUNDS)
    {
        let start = Instant::now();
        subject.burst(BURST);
        samples.push(start.elapsed().as_nanos() as f64 / f64::from(BURST));
    }
    samples
}

/// Runs all variants in turns and returns the number of rounds, warm-up included.
fn rounds(
    variants: &mut [Variant<'_>],
    session: &dyn Session,
    threads: usize,
    budget: Duration,
) -> Result<usize> {
    let phase = Barrier::new(threads);
    let line = StartingLine::new(threads);
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let count = variants.len();
    let runs: Vec<_> = variants.iter().map(|variant| &variant.run).collect();

    let one_thread = |leader: bool| {
        let mut taken = vec![Vec::with_capacity(MOST_ROUNDS); count];
        let mut round = 0;
        loop {
            if leader {
                let full = round >= WARM_UP_ROUNDS + MOST_ROUNDS;
                let late = round >= WARM_UP_ROUNDS + LEAST_ROUNDS && begin.elapsed() > budget;
                // Relaxed: the barrier below orders it before the others' load.
                stop.store(full || late, Ordering::Relaxed);
            }
            phase.wait();
            if stop.load(Ordering::Relaxed) {
                return (round, taken);
            }
            for turn in 0..count {
                let variant = (round + turn) % count;
                phase.wait();
                line.wait();
                let start = Instant::now();
                runs[variant](BURST);
                let ns = start.elapsed().as_nanos() as f64 / f64::from(BURST);
                if round >= WARM_UP_ROUNDS {
                    taken[variant].push(ns);
                }
                phase.wait();
                session.settle_thread();
                phase.wait();
                // Also after the floor, so that every variant starts from the
                // same state of caches and clock speed.
                if leader {
                    session.settle();
                    let_others_finish();
                }
            }
            round += 1;
        }
    };

    let one_thread = &one_thread;
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|index| scope.spawn(move || one_thread(index == 0))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let mut by_thread = Vec::new();
    let mut rounds = 0;
    for result in results {
        let (count, taken) = result.map_err(|_| anyhow!("a recording thread panicked"))?;
        rounds = count;
        by_thread.push(taken);
    }
    for (index, variant) in variants.iter_mut().enumerate() {
        let timed = rounds - WARM_UP_ROUNDS;
        variant.samples = (0..timed)
            .map(|round| {
                let sum: f64 = by_thread.iter().map(|taken| taken[index][round]).sum();
                sum / threads as f64
            })
            .collect();
    }
    Ok(rounds)
}

/// Waits until no other thread of the process is at work, a few milliseconds at
/// most. Compressing what the last burst left is no part of what a span costs the
/// thread that records it: the CPU row has that.
pub(crate) fn let_others_finish() {
    const PAUSE: Duration = Duration::from_micros(500);
    for _ in 0..20 {
        let before = process_cost::cpu_time();
        thread::sleep(PAUSE);
        if process_cost::cpu_time() - before < PAUSE / 4 {
            return;
        }
    }
}

/// Lets threads go within a few nanoseconds of each other. It spins, where a
/// barrier would wake them up to a burst apart; use it right after a barrier.
struct StartingLine {
    threads: usize,
    arrived: AtomicUsize,
}

impl StartingLine {
    fn new(threads: usize) -> Self {
        StartingLine { threads, arrived: AtomicUsize::new(0) }
    }

    fn wait(&self) {
        // Arrivals are never reset: the n-th wait is over at n times `threads`.
        // Relaxed: no data passes here, the barrier before it does that.
        let arrival = self.arrived.fetch_add(1, Ordering::Relaxed);
        let all = (arrival / self.threads + 1) * self.threads;
        while self.arrived.load(Ordering::Relaxed) < all {
            std::hint::spin_loop();
        }
    }
}
