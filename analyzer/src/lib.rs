//! Answers questions about ringscope traces. The binary is `analyze`.
//!
//! Data flows one way:
//!
//! ```text
//! files -> load -> scan (chunks in parallel) -> summary, events, tables -> report/* -> output/* -> stdout
//!                        ^ filter
//! ```
//!
//! - [`load`] opens traces and gives them one dictionary.
//! - [`import`] makes traces of other profilers' files; [`load`] asks it about whatever
//!   is no trace.
//! - [`budget`] refuses what would not fit into memory.
//! - [`scan`] decodes chunks in parallel and shows them to visitors.
//! - `events` shows chosen events one by one: what reports over a vocabulary are made from.
//! - `tables` is the only place that names the columns of the tables that SQL sees,
//!   and `query` asks Polars about them; both need the feature `sql`.
//! - [`summary`] is the kernel: sums, self time and exact percentiles by group.
//! - [`fields`] sums up what events carry, whatever it is called.
//! - [`requests`] knows for which request a record was.
//! - [`device`] is work of GPUs: busy and idle, launches, what kernels do.
//! - [`report`] has one file per subcommand; each turns a question into a
//!   [`output::Document`].
//! - [`output`] has one file per format.
//! - [`export`] turns traces into what other tools read, one file per format; events
//!   stream through it from `scan`.
//! - [`diff`] compares runs: what got slower, how sure that is, whose fault it is.
//! - `edit` has one file per subcommand that writes a trace instead of a report.
//!
//! Percentiles are exact and interpolated linearly between the two nearest ranks,
//! as numpy does by default. Self time is what a span's children on its track did
//! not take; see [`summary`].

pub mod budget;
pub mod cli;
pub mod device;
pub mod diff;
mod edit;
mod error;
mod events;
pub mod export;
pub mod fields;
pub mod filter;
pub mod import;
pub mod load;
pub mod output;
mod progress;
#[cfg(feature = "sql")]
pub mod query;
pub mod report;
pub mod requests;
pub mod scan;
pub mod summary;
#[cfg(feature = "sql")]
pub mod tables;

pub use error::{Error, Exit, Result};
