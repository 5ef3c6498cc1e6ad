//! Hints to the scheduler about the recorder's own threads.
//!
//! Hints only: where the system does not take them, nothing else changes.
//!
//! Where every core is busy, a thread that wakes up pushes another off its core, and most kernels
//! let it have its turn. So that a hot thread stands still for tens of microseconds and not for
//! hundreds, the recorder's threads [go elsewhere](leave_core) when they find themselves on its
//! core, do whatever takes longer in pieces, and [let others run](let_others_run) in between.

#![allow(unsafe_code)] // sched_getattr and the like

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

/// The core that the calling thread runs on, where the system tells.
pub(crate) fn core() -> Option<u32> {
    #[cfg(target_os = "linux")]
    // SAFETY: takes nothing.
    return u32::try_from(unsafe { libc::sched_getcpu() }).ok();
    #[cfg(not(target_os = "linux"))]
    None
}

/// Goes to another core, if there is one where the thread may run, and may come back at once: it
/// is the system's to say where it runs the next time, which mostly is where it ran before.
/// Returns the core that was left.
///
/// From then on the system takes the cores where the thread might run at that moment for those
/// that were asked for: of more that a container is given later it makes no use.
#[cfg(target_os = "linux")]
pub(crate) fn leave_core() -> Option<u32> {
    const SIZE: usize = size_of::<libc::cpu_set_t>();
    let core = core().filter(|core| *core < libc::CPU_SETSIZE as u32)?;
    // SAFETY: all zeros are a set, the empty one.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: thread 0 is the calling one; the set has room for as much as is said.
    if unsafe { libc::sched_getaffinity(0, SIZE, &raw mut allowed) } != 0 {
        return None;
    }
    let mut others = allowed;
    // SAFETY: the set has room for that core.
    unsafe { libc::CPU_CLR(core as usize, &mut others) };
    // SAFETY: as for the question. A set without a core that is there is refused.
    let allow = |set: &libc::cpu_set_t| unsafe { libc::sched_setaffinity(0, SIZE, set) == 0 };
    if !allow(&others) {
        return None;
    }
    if !allow(&allowed) {
        // Not even one of them is there any more: wherever there is one.
        others = allowed;
        // SAFETY: the set has room for these.
        (0..libc::CPU_SETSIZE as usize)
            .for_each(|core| unsafe { libc::CPU_SET(core, &mut others) });
        allow(&others);
    }
    Some(core)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn leave_core() -> Option<u32> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const SIZE: usize = size_of::<libc::cpu_set_t>();

    fn allowed() -> libc::cpu_set_t {
        // SAFETY: all zeros are a set; the thread is the calling one.
        unsafe {
            let mut set = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, SIZE, &mut set), 0);
            set
        }
    }

    fn are_allowed(before: &libc::cpu_set_t) -> bool {
        // SAFETY: two sets.
        unsafe { libc::CPU_EQUAL(&allowed(), before) }
    }

    #[test]
    fn who_leaves_a_core_may_run_where_it_might_before() {
        let before = allowed();
        leave_core();
        assert!(are_allowed(&before));
    }

    #[test]
    fn who_may_run_on_two_cores_is_on_another_than_it_has_left() {
        let before = allowed();
        // SAFETY: a set.
        if unsafe { libc::CPU_COUNT(&before) } < 2 {
            return;
        }
        // The system may take it back at once, and does so now and then.
        let goes = |_| {
            let left = leave_core().expect("there is another core");
            assert!(are_allowed(&before));
            core() != Some(left)
        };
        assert!((0..1_000).any(goes));
    }

    #[test]
    fn who_may_run_on_one_core_only_stays_there() {
        let stays = || {
            let here = core().unwrap();
            // SAFETY: as above, and the set has room for a core that is there.
            unsafe {
                let mut one = std::mem::zeroed();
                libc::CPU_SET(here as usize, &mut one);
                assert_eq!(libc::sched_setaffinity(0, SIZE, &one), 0);
            }
            let before = allowed();
            (leave_core(), are_allowed(&before), core() == Some(here))
        };
        assert_eq!(thread::spawn(stays).join().unwrap(), (None, true, true));
    }
}
