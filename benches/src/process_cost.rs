//! What this process has cost so far: CPU time of all its threads, and memory
//! by kind. Linux tells memory by kind; elsewhere it is `None`.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// User and system time of every thread, those that have ended included.
pub(crate) fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec.cast_unsigned(), u32::try_from(spent.tv_nsec).unwrap_or(0))
}

/// The same of all processes of one name, in hundredths of a second as Linux
/// counts them; zero where it cannot be told.
#[cfg(feature = "peers")]
pub(crate) fn cpu_time_of(name: &str) -> Duration {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Duration::ZERO };
    let ticks: u64 = processes
        .flatten()
        .filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok())
        .filter_map(|stat| ticks_of(&stat, name))
        .sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// User and system time in a line of `/proc/PID/stat`, if it is of that name.
#[cfg(feature = "peers")]
fn ticks_of(stat: &str, name: &str) -> Option<u64> {
    // The name is in parentheses and may itself contain some.
    let (front, rest) = stat.rsplit_once(')')?;
    let (_, its_name) = front.split_once('(')?;
    if its_name != name {
        return None;
    }
    // Fields 14 and 15 of the line; the first after the name is the third.
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    Some(user + system)
}

/// Resident memory in KiB.
#[derive(Clone, Copy, Default, Deserialize, Serialize)]
pub(crate) struct Resident {
    /// Heap, stacks, anonymous maps.
    pub(crate) anonymous_kib: u64,
    /// Pages of mapped files, this program's own code among them, and of
    /// shared memory.
    pub(crate) mapped_kib: u64,
}

impl Resident {
    pub(crate) fn now() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let kib = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key))?;
            line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()
        };
        Some(Resident {
            anonymous_kib: kib("RssAnon:")?,
            mapped_kib: kib("RssFile:")? + kib("RssShmem:")?,
        })
    }

    /// The larger of both in each kind.
    pub(crate) fn max(self, other: Self) -> Self {
        Resident {
            anonymous_kib: self.anonymous_kib.max(other.anonymous_kib),
            mapped_kib: self.mapped_kib.max(other.mapped_kib),
        }
    }
}
