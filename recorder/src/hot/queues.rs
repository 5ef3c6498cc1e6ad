//! Lines of time that are not threads: queues and streams of devices.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use crate::hot::{call_site, names, ring_pool};

/// How many a process can have; the file describes each in every chunk.
const MOST: usize = 64;
/// Of a name, as many bytes as are kept.
const NAME_BYTES: usize = 128;

static QUEUES: Mutex<Vec<&'static DeviceQueue>> = Mutex::new(Vec::new());
/// What a forked child has for all of them.
static IN_A_FORK: DeviceQueue = DeviceQueue { name: String::new(), track: 0 };
/// Length of the list, so that the drain looks without locking.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A queue or stream of a device, on which its work is shown: a line of time of its own.
#[derive(Debug)]
pub struct DeviceQueue {
    name: String,
    track: u32,
}

impl DeviceQueue {
    /// The queue of this name, such as `GPU 0 queue 1`: the number in it is
    /// taken for the device's.
    ///
    /// Takes a lock: call it once and keep the result. The same name gives the
    /// same queue. Past 64 of them, all further ones are the last.
    pub fn named(name: &str) -> &'static DeviceQueue {
        // Nothing is recorded here, and the lock may be held by a thread that does not exist.
        if call_site::is_forked() {
            return &IN_A_FORK;
        }
        let mut queues = lock();
        let name = names::cut(name, NAME_BYTES);
        if let Some(known) = queues.iter().find(|queue| queue.name == name) {
            return known;
        }
        if let Some(last) = queues.get(MOST - 1) {
            return last;
        }
        let queue = DeviceQueue { name: name.to_owned(), track: ring_pool::next_track() };
        let queue: &'static DeviceQueue = Box::leak(Box::new(queue));
        queues.push(queue);
        // Release, with the load in `count`: work that reaches the drain through a
        // ring is on a queue that is in the list by then.
        COUNT.store(queues.len() as u32, Ordering::Release);
        queue
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    #[inline(always)]
    pub(crate) fn track(&self) -> u32 {
        self.track
    }
}

fn lock() -> MutexGuard<'static, Vec<&'static DeviceQueue>> {
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many there are.
pub(crate) fn count() -> u32 {
    COUNT.load(Ordering::Acquire)
}

/// Drain only: all of them.
pub(crate) fn all() -> Vec<&'static DeviceQueue> {
    lock().clone()
}
