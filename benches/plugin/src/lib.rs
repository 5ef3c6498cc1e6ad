//! Ringscope as a plugin would carry it: linked into a shared library that the
//! bench loads at run time. `benches/src/record/plugin.rs` declares these
//! functions again; change both.
//!
//! A panic does not cross the boundary: it ends the process.

#![allow(unsafe_code)] // symbols are exported under names of their own

use std::sync::{Mutex, MutexGuard};

use ringscope::{Recorder, ThreadHandle, span};

static RECORDER: Mutex<Option<Recorder>> = Mutex::new(None);

fn recorder() -> MutexGuard<'static, Option<Recorder>> {
    RECORDER.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts recording to the path of `length` bytes at `path`.
///
/// # Safety
/// `path` must point to `length` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringscope_bench_plugin_start(path: *const u8, length: usize) -> bool {
    // SAFETY: the caller promises as much.
    let bytes = unsafe { std::slice::from_raw_parts(path, length) };
    let started = std::str::from_utf8(bytes)
        .ok()
        .and_then(|path| Recorder::builder().path(path).start().ok());
    let running = started.is_some();
    *recorder() = started;
    running
}

/// Records `spans` empty spans.
#[unsafe(no_mangle)]
pub extern "C" fn ringscope_bench_plugin_burst(spans: u32) {
    for _ in 0..spans {
        let _span = span!("span");
    }
}

/// Records `spans` empty spans through a handle.
#[unsafe(no_mangle)]
pub extern "C" fn ringscope_bench_plugin_handle_burst(spans: u32) {
    let thread = ThreadHandle::current();
    for _ in 0..spans {
        let _span = span!(in thread, "span");
    }
}

/// Waits until the rings are drained.
#[unsafe(no_mangle)]
pub extern "C" fn ringscope_bench_plugin_flush() {
    if let Some(recorder) = &*recorder() {
        recorder.flush();
    }
}

/// Ends the recording and says how many spans were stored and lost.
///
/// # Safety
/// Both pointers must be good for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringscope_bench_plugin_finish(stored: *mut u64, lost: *mut u64) -> bool {
    let Some(summary) = recorder().take().and_then(|recorder| recorder.finish().ok()) else {
        return false;
    };
    // SAFETY: the caller promises as much.
    unsafe {
        stored.write(summary.stored);
        lost.write(summary.lost);
    }
    true
}
