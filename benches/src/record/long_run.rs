//! What a span costs the whole process, through to the finished file, and how
//! many bytes it takes there.
//!
//! Spans are nested in two levels and come in bursts with a short sleep after
//! each, about the rate of a busy loop, so that background threads keep up and
//! nothing is lost. CPU time runs from after the start to the end of `finish`,
//! sleeps and wake-ups included.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::hot_path::BURST;
use super::subject::{NEST, Outcome, Subject};
use crate::counter::{TickRate, ticks};
use crate::{floor, process_cost};

const PAUSE: Duration = Duration::from_millis(2);

#[derive(Deserialize, Serialize)]
pub(crate) struct LongRun {
    pub(crate) spans: u64,
    pub(crate) cpu_ns_per_span: f64,
    /// Taken in the same process, half before and half after.
    pub(crate) floor_ns: f64,
    pub(crate) outcome: Outcome,
}

/// Records at least `spans` spans.
pub(crate) fn measure(subject: &dyn Subject, spans: u64, dir: &Path) -> Result<LongRun> {
    let outers = BURST / NEST;
    let bursts = spans.div_ceil(u64::from(outers * NEST));
    let before = floor::measure_ns(BURST);
    let session = subject.start(dir)?;
    // The first use of a call site or a thread is paid here.
    subject.nested_burst(1);
    session.collect_thread();
    let cpu = process_cost::cpu_time() + session.writer_cpu_time();
    for _ in 0..bursts {
        subject.nested_burst(outers);
        session.collect_thread();
        thread::sleep(PAUSE);
    }
    // Whatever a writing process does after this is not counted.
    let writer = session.writer_cpu_time();
    let outcome = session.finish()?;
    let spent = (process_cost::cpu_time() + writer).saturating_sub(cpu);
    let after = floor::measure_ns(BURST);
    let spans = (bursts * u64::from(outers) + 1) * u64::from(NEST);
    Ok(LongRun {
        spans,
        cpu_ns_per_span: spent.as_nanos() as f64 / spans as f64,
        floor_ns: f64::midpoint(before, after),
        outcome,
    })
}

#[derive(Deserialize, Serialize)]
pub(crate) struct VariedBytes {
    /// `None` if the subject leaves no file.
    pub(crate) bytes_per_span: Option<f64>,
    /// Of which there are no bytes; `None` if the subject keeps no account.
    pub(crate) lost: Option<u64>,
}

/// Bytes a span where durations vary as in real loops: each span holds work of
/// 0.1 to 10 us, spread evenly over the orders of magnitude. Empty spans are
/// all alike and compress better than anybody's own.
pub(crate) fn measure_varied_bytes(
    subject: &dyn Subject,
    spans: u64,
    dir: &Path,
) -> Result<VariedBytes> {
    let rate = TickRate::measure();
    let session = subject.start(dir)?;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut work = || {
        // xorshift64: any generator will do, but it must not show in the work.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let exponent = 2.0 + 2.0 * (random >> 11) as f64 / (1_u64 << 53) as f64;
        let end = ticks() + rate.ticks_in_ns(10_f64.powf(exponent));
        while ticks() < end {
            std::hint::spin_loop();
        }
    };
    for span in 0..spans / u64::from(NEST) {
        subject.around(&mut || {
            for _ in 0..NEST - 1 {
                subject.around(&mut work);
            }
        });
        if span % 1_000 == 0 {
            session.collect_thread();
        }
    }
    let outcome = session.finish()?;
    let spans = spans / u64::from(NEST) * u64::from(NEST);
    let missing = outcome.kept.map(|kept| spans.saturating_sub(kept));
    Ok(VariedBytes {
        bytes_per_span: outcome.file_bytes.map(|bytes| bytes as f64 / spans as f64),
        lost: missing.max(outcome.lost),
    })
}
