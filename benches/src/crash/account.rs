//! What the child did, by its own account: every opening and closing of a span,
//! with counter reads around it, in shared memory that outlives the child.
//!
//! It shares nothing with the recorder: no file, no thread, no code. A step is
//! written before it is taken and completed after, so a child killed in between
//! leaves a step without an end rather than a gap. When a thread's log is full
//! the thread must stop; [`Writer::is_full`] says so.

#![allow(unsafe_code)] // shared memory, viewed as atomics

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use memmap2::MmapRaw;

use crate::counter::ticks;

pub(crate) const THREADS: usize = 4;
/// A second and more of a thread at the rate of [`super::load`].
const STEPS: usize = 1 << 20;
/// What, before, after.
const WORDS_PER_STEP: usize = 3;
/// One count, then the steps.
const WORDS_PER_THREAD: usize = 1 + STEPS * WORDS_PER_STEP;
const BYTES: usize = THREADS * WORDS_PER_THREAD * size_of::<u64>();

/// The shared memory. The parent creates it, the child opens it by path.
pub(crate) struct Account {
    map: MmapRaw,
    /// Keeps the memory alive, and reachable under `path`.
    _file: File,
    path: PathBuf,
}

/// One opening or closing of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) opens: bool,
    pub(crate) level: u8,
    /// The span's number on its thread.
    pub(crate) span: u64,
    pub(crate) before: u64,
    /// `None` if the child died before the step was done.
    pub(crate) after: Option<u64>,
}

impl Account {
    /// Memory for a new child, all zero.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        let (file, path) = shared_file(dir)?;
        file.set_len(BYTES as u64)?;
        Self::map(file, path)
    }

    /// The memory that the parent created under `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::options().read(true).write(true).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        ensure!(file.metadata()?.len() == BYTES as u64, "the account has another size");
        Self::map(file, path.to_owned())
    }

    fn map(file: File, path: PathBuf) -> Result<Self> {
        let map = MmapRaw::map_raw(&file)?;
        Ok(Account { map, _file: file, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn words(&self, thread: usize) -> &[AtomicU64] {
        assert!(thread < THREADS);
        // SAFETY: the map is page-aligned, `BYTES` long and lives as long as
        // `self`; every thread's part lies inside it; any bits are an
        // `AtomicU64`, and both processes access them as such only.
        unsafe {
            let first = self.map.as_mut_ptr().cast::<AtomicU64>();
            std::slice::from_raw_parts(first.add(thread * WORDS_PER_THREAD), WORDS_PER_THREAD)
        }
    }

    /// The log of one thread. Only that thread may write to it.
    pub(crate) fn writer(&self, thread: usize) -> Writer<'_> {
        Writer { words: self.words(thread), steps: 0 }
    }

    /// Everything a thread has written.
    pub(crate) fn steps(&self, thread: usize) -> Vec<Step> {
        let words = self.words(thread);
        // Acquire: pairs with the release store in `begin`, so that what the
        // count covers is there.
        let count = (words[0].load(Ordering::Acquire) as usize).min(STEPS);
        let steps = words[1..].chunks_exact(WORDS_PER_STEP).take(count);
        steps
            .map(|step| {
                let [what, before, after] =
                    [0, 1, 2].map(|word: usize| step[word].load(Ordering::Relaxed));
                Step {
                    opens: what & 1 == 1,
                    level: (what >> 1) as u8 & 0x7f,
                    span: what >> 8,
                    before,
                    after: (after != 0).then_some(after),
                }
            })
            .collect()
    }
}

/// One thread's log.
pub(crate) struct Writer<'a> {
    words: &'a [AtomicU64],
    steps: usize,
}

impl Writer<'_> {
    pub(crate) fn is_full(&self) -> bool {
        // Room for closing what is open.
        self.steps + 64 >= STEPS
    }

    /// Writes a step down and takes it.
    #[inline(always)]
    pub(crate) fn step<R>(
        &mut self,
        opens: bool,
        level: u8,
        span: u64,
        take: impl FnOnce() -> R,
    ) -> R {
        let at = 1 + self.steps * WORDS_PER_STEP;
        let what = span << 8 | u64::from(level) << 1 | u64::from(opens);
        self.words[at].store(what, Ordering::Relaxed);
        self.words[at + 1].store(ticks(), Ordering::Relaxed);
        self.steps += 1;
        // Release: pairs with the acquire load in `Account::steps`.
        self.words[0].store(self.steps as u64, Ordering::Release);
        let result = take();
        self.words[at + 2].store(ticks(), Ordering::Release);
        result
    }
}

/// Memory without a file where the system has it: the account must not compete
/// with the trace for the disk.
#[cfg(target_os = "linux")]
fn shared_file(_dir: &Path) -> Result<(File, PathBuf)> {
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::os::fd::AsRawFd;

    let file = File::from(memfd_create("ringscope-crash-account", MemfdFlags::CLOEXEC)?);
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok((file, path.into()))
}

#[cfg(not(target_os = "linux"))]
fn shared_file(dir: &Path) -> Result<(File, PathBuf)> {
    let path = dir.join("account");
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    Ok((options.open(&path)?, path))
}
