//! How much memory may be taken for what grows with the trace: tables, the work of
//! devices, and what reports over a vocabulary have to hold. Everything else is bounded
//! whatever the trace.

use crate::{
    Error, Result,
    output::{Cell, bytes, count},
};

/// Assumed where the system does not say what is available.
const ASSUMED_AVAILABLE: u64 = 4 << 30;

/// The most bytes that may be taken.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    limit: u64,
}

impl Budget {
    /// As given, or three quarters of what is available.
    pub fn new(given: Option<u64>) -> Self {
        Self { limit: given.unwrap_or_else(|| available() / 4 * 3) }
    }

    /// The most bytes.
    pub fn limit(self) -> u64 {
        self.limit
    }

    /// Refuses what does not fit, before anything is allocated: `what` takes so many
    /// bytes; the remedy is said before the one that always helps.
    pub fn require(self, needed: u64, what: impl FnOnce() -> String, remedy: &str) -> Result<()> {
        if needed <= self.limit {
            return Ok(());
        }
        let text = |n: u64| bytes(n as f64).trim().to_owned();
        Err(Error::new(format!(
            "{} take about {}, and {} is the limit; {remedy}, or raise --max-memory",
            what(),
            text(needed),
            text(self.limit),
        )))
    }

    /// Whether an answer of so many rows fits once more, as cells.
    pub fn check_answer(self, rows: usize, columns: usize) -> Result<()> {
        self.require(
            (rows * columns * size_of::<Cell>()) as u64,
            || format!("answer: {} rows", count(rows as u64)),
            "add LIMIT or GROUP BY to the query, give --limit",
        )
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(None)
    }
}

/// What the system says can be had without swapping.
fn available() -> u64 {
    let read = || {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.checked_mul(1_024)
    };
    read().unwrap_or(ASSUMED_AVAILABLE)
}
