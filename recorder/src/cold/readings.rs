//! What the process uses, and what recording it costs, as gauges on the
//! recorder's own track.
//!
//! Taken by the sealer at an interval and recorded through a lane like anyone
//! else's, so every trace carries the price of having been recorded.

#![allow(unsafe_code)] // plain system calls

use std::sync::atomic::Ordering;
#[cfg(target_os = "linux")]
use std::{fs::File, os::unix::fs::FileExt};

use crate::{cold::shared::Shared, gauge, hot::clock};

/// Records one set of readings, on the sealer thread. Asking the system takes 10 to 50 us a
/// question; in between there is a `pause`.
pub(crate) fn take(shared: &Shared, with_peak: bool, pause: impl Fn()) {
    if let Some(memory) = memory() {
        gauge!("process.resident_bytes", memory.resident);
        if let Some(anonymous) = memory.anonymous {
            gauge!("process.anonymous_bytes", anonymous);
        }
    }
    pause();
    let usage = usage();
    gauge!("process.cpu_ns", usage.cpu_ns);
    gauge!("process.minor_faults", usage.minor_faults);
    gauge!("process.major_faults", usage.major_faults);
    if with_peak {
        pause();
        let peak = peak_resident().unwrap_or(usage.peak_resident);
        gauge!("process.peak_resident_bytes", peak);
    }
    gauge!("recorder.drain_cpu_ns", shared.drain_cpu_ns.load(Ordering::Relaxed));
    gauge!("recorder.sealer_cpu_ns", clock::thread_cpu_ns());
    gauge!("recorder.rings", shared.rings.load(Ordering::Relaxed));
    gauge!("recorder.fullest_ring", shared.fullest_ring.swap(0, Ordering::Relaxed));
    gauge!("recorder.full_slots", shared.most_full_slots.swap(0, Ordering::Relaxed));
    gauge!("recorder.bytes_written", shared.bytes.load(Ordering::Relaxed));
    #[cfg(feature = "gpu")]
    {
        pause();
        crate::gpu::take_readings();
    }
}

struct Memory {
    resident: u64,
    /// If the system tells it apart.
    anonymous: Option<u64>,
}

/// Resident pages, and how many of them are shared with files. Opened anew each time: a program may
/// close all that it has open, and what number the file had be another's.
#[cfg(target_os = "linux")]
fn memory() -> Option<Memory> {
    let file = File::open("/proc/self/statm").ok()?;
    let mut text = [0; 128];
    let length = file.read_at(&mut text, 0).ok()?;
    let mut pages = text[..length].split(|byte| *byte == b' ').skip(1).map_while(number);
    let (resident, shared) = (pages.next()?, pages.next()?);
    // SAFETY: takes a constant, cannot fail for this one.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let anonymous = resident.saturating_sub(shared) * page;
    Some(Memory { resident: resident * page, anonymous: Some(anonymous) })
}

/// A number of the system's.
#[cfg(target_os = "linux")]
fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(target_os = "macos")]
fn memory() -> Option<Memory> {
    let mut count = libc::MACH_TASK_BASIC_INFO_COUNT;
    // SAFETY: a zeroed structure of numbers is valid, and has room for as much as is said.
    let info = unsafe {
        let mut info: libc::mach_task_basic_info = std::mem::zeroed();
        #[allow(deprecated)] // in favour of a crate that would be here for this alone
        let this = libc::mach_task_self();
        let into = (&raw mut info).cast();
        let answer = libc::task_info(this, libc::MACH_TASK_BASIC_INFO, into, &raw mut count);
        (answer == libc::KERN_SUCCESS).then_some(info)
    };
    Some(Memory { resident: info?.resident_size, anonymous: None })
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn memory() -> Option<Memory> {
    None
}

struct Usage {
    cpu_ns: u64,
    minor_faults: u64,
    major_faults: u64,
    peak_resident: u64,
}

fn usage() -> Usage {
    // SAFETY: a zeroed rusage is valid, and the call fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    // In kibibytes, but on macOS in bytes.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1_024 };
    Usage {
        cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        peak_resident: usage.ru_maxrss as u64 * unit,
    }
}

/// The peak since the program began. That of `getrusage` goes back beyond: it
/// survives `exec`, so a program run by cargo would start with cargo's.
#[cfg(target_os = "linux")]
fn peak_resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    // The kernel adds up roughly, and may say less than before.
    static MOST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let now = kibibytes * 1_024;
    Some(MOST.fetch_max(now, Ordering::Relaxed).max(now))
}

#[cfg(not(target_os = "linux"))]
fn peak_resident() -> Option<u64> {
    None
}
