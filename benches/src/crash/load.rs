//! The child: four threads that record trees of spans, account for each of them
//! on their own (see [`account`](super::account)) and wait to be killed.
//!
//! Each thread makes a batch of spans a millisecond, 300,000 a second, and naps
//! in the middle of a tree until the next is due, so the end may come in a span
//! as well as between two. A ring has room for 100 ms of this, so nothing should
//! be lost to a full one.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use ringscope::{Recorder, SpanWith, span};
use serde::{Deserialize, Serialize};

use super::account::{Account, THREADS, Writer};
use crate::random::Random;

/// Spans of one level bear its name.
pub(crate) const NAMES: [&str; 6] = ["session", "request", "batch", "layer", "kernel", "tile"];
/// The level of the innermost.
const DEEPEST: u64 = NAMES.len() as u64 - 1;

const SPANS_PER_BATCH: u64 = 300;
const PERIOD: Duration = Duration::from_millis(1);
/// A thread that fell behind by more lets its schedule go.
const LONGEST_CATCH_UP: Duration = Duration::from_millis(5);

#[derive(Deserialize, Serialize)]
pub(crate) struct Load {
    pub(crate) trace: PathBuf,
    pub(crate) account: PathBuf,
    pub(crate) seed: u64,
}

/// The value of a span's field: which thread's, and which of them.
pub(crate) fn span_value(thread: usize, span: u64) -> u64 {
    (thread as u64) << 40 | span
}

/// The way back.
pub(crate) fn thread_and_span(value: u64) -> (usize, u64) {
    ((value >> 40) as usize, value & ((1 << 40) - 1))
}

/// Records until killed. Prints a line once all threads do.
pub(crate) fn run(load: &Load) -> Result<()> {
    let account = Account::open(&load.account)?;
    let recorder = start(&load.trace)?;
    let recording = std::sync::Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        for index in 0..THREADS {
            let mut worker = Worker {
                index,
                log: account.writer(index),
                random: Random::new(load.seed.wrapping_add(index as u64)),
                next_span: 0,
                nap: None,
            };
            let recording = &recording;
            scope.spawn(move || {
                ringscope::register_thread();
                recording.wait();
                worker.work();
            });
        }
        recording.wait();
        println!("recording");
    });
    // Reached only if every log filled up before the parent got round to it.
    recorder.finish()?;
    Ok(())
}

fn start(path: &Path) -> Result<Recorder> {
    Ok(Recorder::builder().path(path).start()?)
}

struct Worker<'a> {
    index: usize,
    log: Writer<'a>,
    random: Random,
    next_span: u64,
    /// At which level of the tree to sleep, and until when.
    nap: Option<(u8, Instant)>,
}

impl Worker<'_> {
    fn work(&mut self) {
        let mut due = Instant::now();
        while !self.log.is_full() {
            self.session(&mut due);
        }
    }

    /// A span around 50 to 150 ms of work. For most of a thread's life its
    /// stack is not empty, so a trace that shows no stacks cannot be right.
    fn session(&mut self, due: &mut Instant) {
        let (span, guard) = self.open(0);
        for _ in 0..50 + self.random.below(100) {
            if self.log.is_full() {
                break;
            }
            *due = (*due).max(Instant::now() - LONGEST_CATCH_UP) + PERIOD;
            let batch_end = self.next_span + SPANS_PER_BATCH;
            while self.next_span < batch_end && !self.log.is_full() {
                self.tree();
            }
            self.nap = Some((1 + self.random.below(DEEPEST) as u8, *due));
            self.tree();
            // A tree that was too shallow for the nap.
            if self.nap.take().is_some() {
                thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        }
        self.log.step(false, 0, span, || drop(guard));
    }

    fn tree(&mut self) {
        let deepest = 1 + self.random.below(DEEPEST) as u8;
        self.visit(1, deepest);
    }

    fn visit(&mut self, level: u8, deepest: u8) {
        let (span, guard) = self.open(level);
        if let Some((_, until)) = self.nap.take_if(|(at, _)| *at == level) {
            thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        if level < deepest {
            for _ in 0..=self.random.below(2) {
                self.visit(level + 1, deepest);
            }
        }
        self.log.step(false, level, span, || drop(guard));
    }

    #[inline(always)]
    fn open(&mut self, level: u8) -> (u64, SpanWith<'static, 1>) {
        let span = self.next_span;
        self.next_span += 1;
        let value = span_value(self.index, span);
        let guard = self.log.step(true, level, span, || match level {
            0 => span!("session", span = value),
            1 => span!("request", span = value),
            2 => span!("batch", span = value),
            3 => span!("layer", span = value),
            4 => span!("kernel", span = value),
            _ => span!("tile", span = value),
        });
        (span, guard)
    }
}
