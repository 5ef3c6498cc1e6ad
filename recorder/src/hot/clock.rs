//! Reading time: one counter read on the hot path, everything else later.
//!
//! **Design.** A record holds raw counter ticks. What a tick is worth is worked
//! out by the reader, from pairs of counter and clock readings taken through the
//! run; the hot path never converts. x86-64 reads the time-stamp counter,
//! aarch64 the virtual counter, everything else the monotonic clock.
//!
//! **Choice.** The time-stamp counter is used only where the processor says it is
//! invariant and the kernel has not struck it off its list of clock sources. Where
//! it is not, or with `RINGSCOPE_CLOCK=os`, every call site asks for a closer look,
//! and what looks closer reads the monotonic clock: the hot path does not ask.
//!
//! **Caveats.** The counter reads are not serialising: a few instructions around
//! a span may be counted in or out. A machine whose counters differ between
//! sockets shows it as negative durations, which the reader counts.

#![allow(unsafe_code)] // counter reads and clock_gettime

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ringscope_format::{ClockPair, Counter};

use crate::settings;

/// Whether [`ticks`] reads the hardware counter: decided once, by whoever asks first.
static HARDWARE: LazyLock<bool> =
    LazyLock::new(|| !settings::wants_os_clock() && counter_is_invariant());

/// The counter, now.
pub(crate) fn ticks() -> u64 {
    if *HARDWARE { hardware_ticks() } else { os::monotonic_ns() as u64 }
}

/// Whether there is a hardware counter to read.
pub(crate) fn is_hardware() -> bool {
    *HARDWARE
}

/// The hardware counter, now: for a call site that is on and asks for no closer
/// look, which is only so where [`is_hardware`].
#[inline(always)]
pub(crate) fn hardware_ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has `rdtsc`.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads a register that Linux and macOS open to user space; touches no memory.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        os::monotonic_ns() as u64 // other processors have none that we know of
    }
}

/// The system's monotonic clock, now: a bare `clock_gettime`, which signal handlers may call.
pub(crate) fn monotonic_ns() -> i64 {
    os::monotonic_ns()
}

/// The counter that this process reads.
pub(crate) fn counter() -> Counter {
    match (*HARDWARE, cfg!(target_arch = "x86_64")) {
        (true, true) => Counter::X86Tsc,
        (true, false) => Counter::Aarch64Cntvct,
        (false, _) => Counter::MonotonicNs,
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe)] // `__cpuid` became safe to call in Rust 1.94
fn counter_is_invariant() -> bool {
    use core::arch::x86_64::__cpuid;
    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    // SAFETY: every x86-64 processor has `cpuid`; leaf 0x8000_0000 says which leaves exist.
    let promised = unsafe {
        __cpuid(0x8000_0000).eax >= POWER_LEAF && __cpuid(POWER_LEAF).edx & INVARIANT != 0
    };
    // The kernel watches the counter and drops it when it misbehaves.
    let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let trusted = std::fs::read_to_string(sources)
        .map_or(true, |list| list.split_whitespace().any(|source| source == "tsc"));
    promised && trusted
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_invariant() -> bool {
    cfg!(target_arch = "aarch64")
}

/// Reads all host clocks between two counter reads.
///
/// Of several tries the narrowest is taken: an interrupt in between widens one.
pub(crate) fn pair() -> ClockPair {
    let read = || {
        let tick_before = ticks();
        let (mono_ns, wall_ns, boot_ns) = (os::monotonic_ns(), os::wall_ns(), os::boot_ns());
        ClockPair {
            tick_before,
            tick_after: ticks(),
            mono_ns,
            wall_ns,
            boot_ns,
            track: 0,
            unused: 0,
        }
    };
    let width = |pair: &ClockPair| pair.tick_after.wrapping_sub(pair.tick_before);
    let mut best = read();
    for _ in 0..4 {
        let next = read();
        if width(&next) < width(&best) {
            best = next;
        }
    }
    best
}

/// Ticks per second, measured over a fifth of a millisecond: good to a few
/// hundred parts per million. Readers use it only until the second clock pair.
pub(crate) fn nominal_hz(counter: Counter) -> u64 {
    if counter == Counter::MonotonicNs {
        return 1_000_000_000;
    }
    let first = pair();
    while os::monotonic_ns() - first.mono_ns < 200_000 {
        std::hint::spin_loop();
    }
    let last = pair();
    let elapsed_ns = (last.mono_ns - first.mono_ns).max(1) as u128;
    let elapsed_ticks = u128::from(last.tick_before.wrapping_sub(first.tick_before));
    (elapsed_ticks * 1_000_000_000 / elapsed_ns) as u64
}

/// Ticks per nanosecond, in units of 2^-32; 0 until something is recorded.
static RATE: AtomicU64 = AtomicU64::new(0);

/// From now on [`in_ticks`] converts by this.
pub(crate) fn set_rate(ticks_per_second: u64) {
    let rate = (u128::from(ticks_per_second) << 32) / 1_000_000_000;
    RATE.store(u64::try_from(rate).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// A duration in ticks, as well as the nominal frequency allows.
pub(crate) fn in_ticks(duration: Duration) -> u64 {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let ticks = (u128::from(ns) * u128::from(RATE.load(Ordering::Relaxed))) >> 32;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// CPU time that the calling thread has used.
pub(crate) fn thread_cpu_ns() -> u64 {
    os::thread_cpu_ns()
}

#[cfg(unix)]
mod os {
    #[allow(clippy::unnecessary_cast)] // both are narrower on 32-bit systems
    fn read(clock: libc::clockid_t) -> i64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec to write to. An unknown clock leaves it zero.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        time.tv_sec as i64 * 1_000_000_000 + time.tv_nsec as i64
    }

    // On macOS the names are swapped: UPTIME_RAW stops in sleep, MONOTONIC goes on.
    #[cfg(target_os = "macos")]
    const AWAKE: libc::clockid_t = libc::CLOCK_UPTIME_RAW;
    #[cfg(not(target_os = "macos"))]
    const AWAKE: libc::clockid_t = libc::CLOCK_MONOTONIC;
    #[cfg(target_os = "linux")]
    const SINCE_BOOT: libc::clockid_t = libc::CLOCK_BOOTTIME;
    #[cfg(not(target_os = "linux"))]
    const SINCE_BOOT: libc::clockid_t = libc::CLOCK_MONOTONIC;

    pub(super) fn monotonic_ns() -> i64 {
        read(AWAKE)
    }
    pub(super) fn boot_ns() -> i64 {
        read(SINCE_BOOT)
    }
    pub(super) fn wall_ns() -> i64 {
        read(libc::CLOCK_REALTIME)
    }
    pub(super) fn thread_cpu_ns() -> u64 {
        read(libc::CLOCK_THREAD_CPUTIME_ID) as u64
    }
}

#[cfg(not(unix))]
compile_error!("ringscope records on Linux and macOS; elsewhere, enable the feature `off`");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_brackets_its_clocks() {
        let (first, second) = (pair(), pair());
        assert!(first.tick_before <= first.tick_after);
        assert!(first.tick_after <= second.tick_before);
        assert!(first.mono_ns <= second.mono_ns);
        assert!(first.boot_ns >= first.mono_ns);
    }

    #[test]
    fn the_nominal_frequency_is_within_a_percent() {
        let hz = nominal_hz(counter()) as f64;
        let (first, begun) = (ticks(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let measured = (ticks() - first) as f64 / begun.elapsed().as_secs_f64();
        assert!((hz / measured - 1.0).abs() < 0.01, "{hz} against {measured}");
    }
}
