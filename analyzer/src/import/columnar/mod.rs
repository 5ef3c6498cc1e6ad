//! Tables of events as Parquet or Arrow IPC files, by the names of their columns as
//! [`super::rows`] has them.
//!
//! Numbers of any width, decimals, texts, dictionaries and flags are taken as they are,
//! without rounding. Columns of timestamps and durations bring their unit: `start`, `ts`,
//! `timestamp`, `end`, `dur` and `duration` will do for them. Nested columns, dates and times of day are
//! left out, and counted. Parquet may be packed with Snappy, gzip, LZ4 or zstd, Arrow with LZ4 or zstd;
//! Arrow streams are no files and not taken.
//!
//! What a file says about itself is checked before memory is taken for it.

#[cfg(feature = "parquet")]
mod arrow_file;
#[cfg(feature = "parquet")]
mod cells;
#[cfg(feature = "parquet")]
mod parquet_file;
#[cfg(feature = "parquet")]
mod table;

use super::collector::Collector;

const PARQUET: &[u8] = b"PAR1";
/// Whose footer is encrypted.
const ENCRYPTED: &[u8] = b"PARE";
const ARROW: &[u8] = b"ARROW1";

/// Whether a file begins like one of these.
pub(super) fn is_columnar(head: &[u8]) -> bool {
    [PARQUET, ENCRYPTED, ARROW].iter().any(|magic| head.starts_with(magic))
}

/// What was read.
pub(super) struct Read {
    pub(super) format: &'static str,
    /// Wall time of the clock's zero, if told.
    pub(super) epoch_ns: Option<i64>,
}

/// Reads all rows.
#[cfg(feature = "parquet")]
pub(super) fn read(file: Vec<u8>, found: &mut Collector, prefix: &str) -> Result<Read, String> {
    if file.starts_with(ENCRYPTED) {
        return Err("is an encrypted Parquet file; decrypt it first".to_owned());
    }
    let (format, epoch_ns) = if file.starts_with(ARROW) {
        ("Arrow", arrow_file::read(file, found, prefix)?)
    } else {
        ("Parquet", parquet_file::read(file, found, prefix)?)
    };
    Ok(Read { format, epoch_ns })
}

/// Says that this build cannot.
#[cfg(not(feature = "parquet"))]
pub(super) fn read(_: Vec<u8>, _: &mut Collector, _: &str) -> Result<Read, String> {
    Err("is Parquet or Arrow, which this build does not read; cargo install --path analyzer builds \
         with them"
        .to_owned())
}
