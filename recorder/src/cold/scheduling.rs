//! Hints to the scheduler about the recorder's own threads.
//!
//! Hints only: where the system does not take them, nothing else changes.
//!
//! Where every core is busy, a thread that wakes up pushes another off its core, and most kernels
//! let it have its turn. So that a hot thread stands still for tens of microseconds and not for
//! hundreds, the recorder's threads do whatever takes longer in pieces, and
//! [let others run](let_others_run) in between.

#![allow(unsafe_code)] // sched_getattr, sched_setattr

use std::{thread, time::Duration};

/// The system makes about 50 us more of it.
const PAUSE: Duration = Duration::from_micros(20);

/// Lets go of the core for a moment.
pub(crate) fn let_others_run() {
    // Not parked: what wakes this thread is to wake it again when it is done.
    thread::sleep(PAUSE);
}

/// Asks for short turns that begin soon after waking (Linux 6.12 and newer:
/// a shorter slice gives an earlier deadline). Needs no privilege.
#[cfg(target_os = "linux")]
pub(crate) fn take_short_turns(turn: Duration) {
    /// `struct sched_attr` of the kernel, in its first published size.
    #[repr(C)]
    #[derive(Default)]
    struct SchedAttr {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    const SIZE: usize = size_of::<SchedAttr>();
    let mut attributes = SchedAttr::default();
    // What the thread has come by from its program, such as a nice value, stays.
    // SAFETY: thread 0 is the calling one; the struct has room for as much as is said.
    let known = unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE as libc::c_uint, 0)
    };
    if known == 0 && attributes.policy == libc::SCHED_OTHER as u32 {
        (attributes.size, attributes.flags) = (SIZE as u32, 0);
        attributes.runtime_ns = turn.as_nanos() as u64;
        // SAFETY: as above; the struct is valid and says its size.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn take_short_turns(_: Duration) {}
