//! How much memory tables may take: they are the one thing whose size grows
//! with the trace.

use super::Wanted;
use crate::{
    Error, Result,
    output::{Cell, bytes, count},
};

/// Assumed where the system does not say what is available.
const ASSUMED_AVAILABLE: u64 = 4 << 30;

/// A query works on copies: one that sorts a whole table takes three times its
/// size and a little more.
const ROOM_TO_WORK: u64 = 3;

/// The most bytes that tables and the query over them may take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    limit: u64,
}

impl Budget {
    /// As given, or three quarters of what is available.
    pub fn new(given: Option<u64>) -> Self {
        Self { limit: given.unwrap_or_else(|| available() / 4 * 3) }
    }

    /// Whether an answer of so many rows fits once more, as cells.
    pub fn check_answer(self, rows: usize, columns: usize) -> Result<()> {
        let needed = (rows * columns * size_of::<Cell>()) as u64;
        if needed <= self.limit {
            return Ok(());
        }
        Err(Error::new(format!(
            "answer: {} rows take about {} to print, and {} is the limit; add LIMIT or GROUP BY \
             to the query, give --limit, or raise --max-memory",
            count(rows as u64),
            bytes(needed as f64).trim(),
            bytes(self.limit as f64).trim(),
        )))
    }

    /// Whether so many rows of these tables fit.
    pub(super) fn check(self, tables: &[(&Wanted, u64)]) -> Result<()> {
        let size = |&(wanted, rows): &(&Wanted, u64)| rows * wanted.width();
        let needed = tables.iter().map(size).sum::<u64>() * ROOM_TO_WORK;
        let largest = tables.iter().max_by_key(|table| size(table));
        let Some(&(wanted, rows)) = largest.filter(|_| needed > self.limit) else { return Ok(()) };
        let text = |n: u64| bytes(n as f64).trim().to_owned();
        Err(Error::new(format!(
            "table {}: {} rows of {} columns ({}) take about {} with the query over them, and \
             {} is the limit; name fewer columns, ask about a part with --from, --to, --last, \
             --name, --track or --min-duration, or raise --max-memory",
            wanted.table.name,
            count(rows),
            wanted.columns.len(),
            wanted.columns.join(", "),
            text(needed),
            text(self.limit),
        )))
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
