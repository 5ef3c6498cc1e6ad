//! Hints to the scheduler about the recorder's own threads.
//!
//! Hints only: where the system does not take them, nothing else changes.

#![allow(unsafe_code)] // sched_setattr, setpriority

use std::time::Duration;

/// Asks for short turns that begin soon after waking (Linux 6.12 and newer:
/// a shorter slice gives an earlier deadline). Needs no privilege.
#[cfg(target_os = "linux")]
pub(crate) fn take_short_turns(turn: Duration) {
    /// `struct sched_attr` of the kernel, in its first published size.
    #[repr(C)]
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
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns: turn.as_nanos() as u64,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: thread 0 is the calling one; the struct is valid and says its size.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn take_short_turns(_: Duration) {}
