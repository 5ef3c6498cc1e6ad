//! The longest spans while the disk is busy: a loop of spans with a fixed piece
//! of work in each, timed from outside, while another process writes and syncs
//! to the same disk. The same loop unrecorded tells how much of it is the
//! machine's doing.
//!
//! Each span gets a slot of half a microsecond and works for most of it, so
//! both loops are exposed to the disturbance for the same time. A loop that was
//! held up does not catch up.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::process::getppid;
use serde::{Deserialize, Serialize};

use super::subject::Subject;
use crate::counter::{TickRate, ticks};

const SLOT_NS: f64 = 500.0;
const WORK_NS: f64 = 350.0;
/// Only the longest matter; the tenth is less of a lottery than the first.
const KEPT: usize = 10;

/// Nanoseconds.
#[derive(Clone, Copy, Deserialize, Serialize)]
pub(crate) struct Longest {
    pub(crate) first: f64,
    pub(crate) tenth: f64,
    /// Spans the subject says it lost meanwhile.
    pub(crate) lost: Option<u64>,
}

/// Times `spans` spans of `subject`.
pub(crate) fn measure(subject: &dyn Subject, spans: u64, dir: &Path) -> Result<Longest> {
    let rate = TickRate::measure();
    let (slot, work) = (rate.ticks_in_ns(SLOT_NS), rate.ticks_in_ns(WORK_NS));
    let session = subject.start(dir)?;
    subject.burst(1);

    let mut longest = [0_u64; KEPT];
    let mut next = ticks();
    for _ in 0..spans {
        let mut start = ticks();
        while start < next {
            std::hint::spin_loop();
            start = ticks();
        }
        next = start + slot;
        subject.around(&mut || {
            while ticks() < start + work {
                std::hint::spin_loop();
            }
        });
        let took = ticks().saturating_sub(start);
        if took > longest[KEPT - 1] {
            longest[KEPT - 1] = took;
            longest.sort_unstable_by(|a, b| b.cmp(a));
        }
    }
    let outcome = session.finish()?;
    Ok(Longest {
        first: rate.ns(longest[0]),
        tenth: rate.ns(longest[KEPT - 1]),
        lost: outcome.lost,
    })
}

/// Another process that writes files of 2 GB and syncs them until dropped.
pub(crate) struct Disturbance {
    child: Child,
}

const PIECE: usize = 1 << 20;
const FILE_BYTES: u64 = 2_000_000_000;
const BYTES_BETWEEN_SYNCS: u64 = 256 << 20;

impl Disturbance {
    /// Returns once the first bytes are written.
    pub(crate) fn start(mut command: std::process::Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("no pipe to the writing process")?;
        let disturbance = Disturbance { child };
        BufReader::new(stdout).read_line(&mut String::new())?;
        Ok(disturbance)
    }
}

impl Drop for Disturbance {
    fn drop(&mut self) {
        // Either may fail only because the child is gone, which is what we want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The writing process. Ends with an error such as a full disk, or when whoever
/// started it is gone.
pub(crate) fn disturb(dir: &Path) -> Result<()> {
    let path = dir.join("disturbance");
    // Random-looking, so that no layer below gets away with compressing it.
    let mut state = Instant::now().elapsed().as_nanos() as u64 | 1;
    let piece: Vec<u8> = (0..PIECE)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut announced = false;
    let parent = getppid();
    loop {
        let mut file = File::create(&path).with_context(|| path.display().to_string())?;
        let mut written = 0;
        while written < FILE_BYTES {
            if getppid() != parent {
                return Ok(());
            }
            file.write_all(&piece)?;
            if !announced {
                println!("writing");
                announced = true;
            }
            written += PIECE as u64;
            if written % BYTES_BETWEEN_SYNCS == 0 {
                file.sync_data()?;
            }
        }
        file.sync_all()?;
    }
}
