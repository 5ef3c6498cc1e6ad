//! From a callback of wgpu to records, off the program's threads.
//!
//! Callbacks run on whichever thread polls, the program's included, so they note the
//! time and no more. What they noted is worked off by the helper, or by who calls the profiler.
//! Callbacks of the program's run there as well, and a poll may panic: by theirs, and
//! by wgpu itself when the device is gone. Neither ends the helper.

use std::{
    any::Any,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use ::wgpu::{Device, PollError, PollStatus, PollType};

use super::{
    clock::DeviceClock,
    query_sets::{QuerySets, Read, Readback},
};
use crate::gpu::{Slots, Submissions, host_ticks};

/// Between two looks at the device while work is in flight: at first, and at most when
/// nothing comes.
const PAUSE: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(2));

/// What is in flight, and what has come back. Callbacks hold it, and nothing of the device.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) submissions: Arc<Submissions>,
    pending: Mutex<HashMap<u64, Pending>>,
    done: Mutex<Vec<Done>>,
    /// The helper, if there is one, and whether it sleeps until it is woken.
    helper: OnceLock<Thread>,
    asleep: AtomicBool,
    stop: AtomicBool,
}

/// What a command buffer holds until its samples were read.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) blocks: Vec<Slots>,
    pub(super) readback: Option<Readback>,
    /// Samples in it.
    pub(super) samples: usize,
}

#[derive(Debug)]
struct Done {
    id: u64,
    tick: u64,
    is_ok: bool,
}

/// The callback of one command buffer. Dropped without having been called, the command
/// buffer was never submitted; unless a panic drops it, of another callback in the same
/// poll, which says nothing of the command buffer.
pub(super) struct Notice {
    id: u64,
    inbox: Arc<Inbox>,
    was_called: bool,
}

impl Notice {
    pub(super) fn new(id: u64, inbox: &Arc<Inbox>) -> Self {
        Self { id, inbox: Arc::clone(inbox), was_called: false }
    }

    pub(super) fn call(mut self, is_ok: bool) {
        self.was_called = true;
        let done = Done { id: self.id, tick: host_ticks(), is_ok };
        lock(&self.inbox.done).push(done);
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        if !self.was_called {
            if thread::panicking() {
                self.inbox.submissions.not_observed(self.id);
            } else {
                self.inbox.submissions.never_submitted(self.id);
            }
            self.inbox.forget(self.id);
        }
    }
}

impl Inbox {
    pub(super) fn new(submissions: Arc<Submissions>) -> Arc<Self> {
        Arc::new(Self {
            submissions,
            pending: Mutex::default(),
            done: Mutex::default(),
            helper: OnceLock::new(),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        })
    }

    pub(super) fn expect(&self, id: u64, pending: Pending) {
        lock(&self.pending).insert(id, pending);
    }

    fn forget(&self, id: u64) {
        let forgotten = lock(&self.pending).remove(&id);
        drop(forgotten);
    }

    /// Something is in flight: the helper should look.
    pub(super) fn wake(&self) {
        // With the store in `Collector::run`: either this sees that it sleeps, or it sees
        // what is in flight.
        if self.asleep.swap(false, Ordering::SeqCst)
            && let Some(helper) = self.helper.get()
        {
            helper.unpark();
        }
    }

    /// Ends the helper and lets go of everything that is in flight.
    pub(super) fn close(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.asleep.store(false, Ordering::SeqCst);
        if let Some(helper) = self.helper.get() {
            helper.unpark();
        }
        self.submissions.close();
        let forgotten = std::mem::take(&mut *lock(&self.pending));
        drop(forgotten);
    }
}

/// Works off what has come back.
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) device: Device,
    pub(super) query_sets: QuerySets,
    pub(super) clock: Mutex<DeviceClock>,
    pub(super) inbox: Arc<Inbox>,
}

impl Collector {
    /// Looks once, without waiting, and records what has completed. Returns whether
    /// anything had.
    pub(super) fn look(&self) -> bool {
        if !is_polled(|| self.device.poll(PollType::Poll)) {
            self.lose_device();
        }
        let done = std::mem::take(&mut *lock(&self.inbox.done));
        for done in &done {
            let pending = lock(&self.inbox.pending).remove(&done.id);
            match (done.is_ok, pending) {
                (true, pending) => self.record(done, pending),
                // Our own buffers are never destroyed: if one cannot be mapped, the device is gone.
                (false, _) => self.lose_device(),
            }
        }
        !done.is_empty()
    }

    pub(super) fn lose_device(&self) {
        self.inbox.submissions.lose_device();
        let forgotten = std::mem::take(&mut *lock(&self.inbox.pending));
        drop(forgotten);
    }

    fn record(&self, done: &Done, pending: Option<Pending>) {
        let (read, held) = match pending {
            Some(Pending { blocks, readback: Some(mut readback), samples }) => {
                (readback.read(&self.device, samples), Some((blocks, readback)))
            }
            _ => (Read::Samples(Vec::new()), None),
        };
        let submissions = &self.inbox.submissions;
        match read {
            Read::Samples(samples) => {
                lock(&self.clock).complete(submissions, done.id, done.tick, &samples);
            }
            Read::Old => submissions.fail(done.id),
            Read::Gone => return self.lose_device(),
        }
        if let Some((mut blocks, readback)) = held {
            self.query_sets.give_back(readback);
            // The last one first: they are given out again in the order of their set.
            while blocks.pop().is_some() {}
        }
    }

    /// Looks until nothing is in flight, or for so long. Returns whether nothing is.
    pub(super) fn look_for(&self, at_most: Duration) -> bool {
        let begun = Instant::now();
        loop {
            self.look();
            if self.inbox.submissions.in_flight() == 0 {
                return true;
            }
            if begun.elapsed() >= at_most {
                return false;
            }
            thread::sleep(PAUSE.0);
        }
    }

    /// The helper: looks while something is in flight, until the profiler ends.
    pub(super) fn run(&self) {
        let _ = self.inbox.helper.set(thread::current());
        let mut pause = PAUSE.0;
        while !self.inbox.stop.load(Ordering::SeqCst) {
            if self.inbox.submissions.in_flight() == 0 {
                self.inbox.asleep.store(true, Ordering::SeqCst);
                if self.inbox.submissions.in_flight() == 0 {
                    thread::park();
                }
                self.inbox.asleep.store(false, Ordering::SeqCst);
                pause = PAUSE.0;
                continue;
            }
            pause = if self.look() { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
            // Parked rather than asleep: whoever ends it does not wait for the rest of the pause.
            thread::park_timeout(pause);
        }
    }
}

/// Polls that may panic one after the other before the device is taken for lost.
const MOST_PANICS: u32 = 16;

/// Polls, and returns whether the device is there.
///
/// A poll that panicked is tried again: what the program's callback did not survive is over then. The
/// next callback may panic as well, so that only wgpu's own panic says that the device is
/// gone, or one that does not end.
pub(super) fn is_polled(mut poll: impl FnMut() -> Result<PollStatus, PollError>) -> bool {
    for _ in 0..MOST_PANICS {
        // What a panic leaves behind is wgpu's own, which it keeps behind locks.
        match catch_unwind(AssertUnwindSafe(&mut poll)) {
            Ok(polled) => return polled.is_ok(),
            Err(panic) if is_fatal(&*panic) => return false,
            Err(_) => {}
        }
    }
    false
}

/// Whether a panic is how wgpu says that it cannot poll.
fn is_fatal(panic: &(dyn Any + Send)) -> bool {
    let message = panic.downcast_ref::<String>();
    message.is_some_and(|it| it.starts_with("Error in Device::poll"))
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;

    use super::*;

    /// A panic, without the hook's message.
    fn panics(message: &str) -> ! {
        resume_unwind(Box::new(message.to_owned()))
    }

    #[test]
    fn a_device_is_gone_when_wgpu_says_so_or_panics_without_end() {
        let mut polls = 0;
        assert!(!is_polled(|| {
            polls += 1;
            panics("Error in Device::poll: Parent device is lost")
        }));
        assert_eq!(polls, 1, "once is enough");
        assert!(!is_polled(|| panics("of another version of wgpu")));
        assert!(!is_polled(|| Err(PollError::Timeout)));
    }

    #[test]
    fn callbacks_that_panic_one_after_the_other_are_not_the_device() {
        let mut polls = 0;
        let callbacks = || {
            polls += 1;
            if polls < 5 { panics("as asked") } else { Ok(PollStatus::QueueEmpty) }
        };
        assert!(is_polled(callbacks));
        assert_eq!(polls, 5);
    }
}
