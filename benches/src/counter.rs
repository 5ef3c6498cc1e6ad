//! The processor's tick counter, read the cheapest way there is, and its rate.
//!
//! Only x86-64 and aarch64 have one that a bench may rely on; elsewhere the
//! crate does not compile rather than measure something else. The rate is good
//! to a few parts in a thousand, which suffices for pacing; times that are
//! reported come from the monotonic clock.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the benches read rdtsc or cntvct_el0 and know no counter for this architecture");

/// One counter read, neither serialised nor fenced: what a hot path would do.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `rdtsc` touches no memory, and no system this runs on makes it
    // privileged (a kernel that did would break every vDSO clock).
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: `cntvct_el0` is readable from user space on Linux and macOS;
        // the read has no effect on memory, stack or flags.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }
}

/// How many ticks pass in a second.
#[derive(Clone, Copy)]
pub(crate) struct TickRate {
    per_second: f64,
}

impl TickRate {
    /// Compares the counter with the monotonic clock for 50 ms.
    pub(crate) fn measure() -> Self {
        let (clock, start) = (Instant::now(), ticks());
        while clock.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let passed = ticks().wrapping_sub(start);
        TickRate { per_second: passed as f64 / clock.elapsed().as_secs_f64() }
    }

    pub(crate) fn per_second(self) -> f64 {
        self.per_second
    }

    pub(crate) fn ticks_in_ns(self, ns: f64) -> u64 {
        (ns * self.per_second / 1e9) as u64
    }

    pub(crate) fn ns(self, ticks: u64) -> f64 {
        ticks as f64 * 1e9 / self.per_second
    }
}
