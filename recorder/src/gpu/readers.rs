//! Readings of devices, taken off the hot path: whoever knows a device registers a
//! reader, and the recorder's sealer calls it at its interval of readings.
//!
//! A reader records what it reads, as any code does. It should take well under a
//! millisecond: while it runs nothing is written to the file. One that panics is not called again.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

static READERS: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

struct Entry {
    is_on: AtomicBool,
    read: Mutex<Box<dyn FnMut() + Send>>,
}

/// A registered reader; it is called until this is dropped.
#[must_use = "a reader is called until this is dropped"]
pub struct DeviceReader(Arc<Entry>);

impl DeviceReader {
    /// Has `read` called at every interval of readings while something is recorded, on the
    /// recorder's thread.
    pub fn register(read: impl FnMut() + Send + 'static) -> Self {
        let read: Box<dyn FnMut() + Send> = Box::new(read);
        let entry = Arc::new(Entry { is_on: AtomicBool::new(true), read: Mutex::new(read) });
        lock(&READERS).push(Arc::clone(&entry));
        Self(entry)
    }
}

impl Drop for DeviceReader {
    /// Does not wait for a call that is under way.
    fn drop(&mut self) {
        self.0.is_on.store(false, Ordering::Relaxed);
        lock(&READERS).retain(|entry| !Arc::ptr_eq(entry, &self.0));
    }
}

impl fmt::Debug for DeviceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceReader").finish_non_exhaustive()
    }
}

/// Calls all of them. On the sealer's thread.
#[cfg_attr(feature = "off", allow(dead_code))] // nothing is read
pub(crate) fn take() {
    // Not under the lock: a reader may register or drop others.
    let entries = lock(&READERS).clone();
    for entry in entries {
        if entry.is_on.load(Ordering::Relaxed) {
            let mut read = lock(&entry.read);
            if catch_unwind(AssertUnwindSafe(&mut *read)).is_err() {
                entry.is_on.store(false, Ordering::Relaxed);
            }
        }
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn a_reader_is_called_until_it_is_dropped_and_not_after_a_panic() {
        let calls = Arc::new(AtomicU32::new(0));
        let count = |calls: &Arc<AtomicU32>| {
            let calls = Arc::clone(calls);
            move || {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        let first = DeviceReader::register(count(&calls));
        let panics = Arc::new(AtomicU32::new(0));
        let tried = Arc::clone(&panics);
        let panicking = DeviceReader::register(move || {
            tried.fetch_add(1, Ordering::Relaxed);
            // As a panic, without the hook's message.
            std::panic::resume_unwind(Box::new("as asked"));
        });
        let second = DeviceReader::register(count(&calls));
        take();
        take();
        assert_eq!((calls.load(Ordering::Relaxed), panics.load(Ordering::Relaxed)), (4, 1));
        drop((first, panicking));
        take();
        assert_eq!(calls.load(Ordering::Relaxed), 5);
        drop(second);
        take();
        assert_eq!(calls.load(Ordering::Relaxed), 5);
    }
}
