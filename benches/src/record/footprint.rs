//! What recording takes besides time on the hot path: memory, by kind, and CPU
//! time when there is nothing to record. Always in a process of its own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::subject::Subject;
use crate::process_cost::{self, Resident};

/// With the pause, about a million spans a second and thread.
const BURST: u32 = 2_048;
const PAUSE: Duration = Duration::from_millis(2);

/// The most memory seen, in each kind, while `threads` threads record for
/// `length`. The session is still running when the last sample is taken.
pub(crate) fn measure_memory(
    subject: &dyn Subject,
    threads: usize,
    length: Duration,
    dir: &Path,
) -> Result<Resident> {
    let session = subject.start(dir)?;
    let stop = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    subject.burst(BURST);
                    session.settle_thread();
                    thread::sleep(PAUSE);
                }
            });
        }
        let begin = Instant::now();
        let mut most = Resident::now();
        while begin.elapsed() < length {
            thread::sleep(Duration::from_millis(20));
            most = most.zip(Resident::now()).map(|(most, now)| most.max(now));
        }
        stop.store(true, Ordering::Relaxed);
        most
    });
    session.finish()?;
    most.context("this system does not tell anonymous from mapped memory")
}

/// Percent of one core that a started subject takes while nothing is recorded,
/// after one burst has made it set everything up.
pub(crate) fn measure_idle(subject: &dyn Subject, length: Duration, dir: &Path) -> Result<f64> {
    let session = subject.start(dir)?;
    subject.burst(BURST);
    session.settle_thread();
    session.settle();
    thread::sleep(Duration::from_secs(1));
    let (begin, cpu) = (Instant::now(), process_cost::cpu_time());
    thread::sleep(length);
    let spent = process_cost::cpu_time() - cpu;
    let percent = 100.0 * spent.as_secs_f64() / begin.elapsed().as_secs_f64();
    session.finish()?;
    Ok(percent)
}
