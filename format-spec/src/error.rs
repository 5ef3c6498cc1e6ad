//! Why a trace could not be read or a chunk not be made.
//!
//! Messages leave out the file's path: whoever knows it puts it in front.

use crate::reader::Why;
use std::{fmt, io};

/// Why a trace could not be read or a chunk not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read.
    Io(io::Error),
    /// The file does not begin as a trace does.
    NotATrace,
    /// The file is of a major version that this reader does not know.
    NewerVersion {
        /// Major version of the file.
        major: u16,
        /// Minor version of the file.
        minor: u16,
    },
    /// The file header cannot be used.
    Header {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A section of a chunk cannot be used.
    Section {
        /// Sequence number of the chunk.
        sequence: u64,
        /// Kind of the section.
        section: u16,
        /// Where the section is in the file.
        offset: u64,
        /// What is wrong with it.
        why: Why,
    },
    /// More than the format takes.
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// How many there may be.
        limit: u64,
    },
    /// A unit that is not where an event can have it.
    Misplaced {
        /// Index of the unit.
        unit: usize,
    },
    /// A table that was not made by this crate's functions.
    BrokenTable {
        /// Of what.
        what: &'static str,
    },
    /// The compressor failed.
    Compressor(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(cause) => write!(f, "{cause}"),
            Error::NotATrace => {
                f.write_str("not a ringscope trace; a trace begins with the bytes 89 52 53 43 50")
            }
            Error::NewerVersion { major, minor } => write!(
                f,
                "format version {major}.{minor}, this reader knows 1.x; \
                 read it with the version of ringscope that wrote it, or a newer one"
            ),
            Error::Header { why } => write!(
                f,
                "file header at byte 0x0: {why}; \
                 the chunks may be intact, but nothing says where they are"
            ),
            Error::Section { sequence, section, offset, why } => write!(
                f,
                "{} of chunk {sequence} at byte {offset:#x}: {}; other columns and chunks are not affected",
                crate::chunk::section_name(*section),
                why.describe()
            ),
            Error::TooMuch { what, count, limit } => {
                write!(f, "{count} {what}, the format takes {limit}")
            }
            Error::Misplaced { unit } => {
                write!(f, "unit {unit} is neither a record nor a slot of the record before it")
            }
            Error::BrokenTable { what } => {
                write!(f, "the table of {what} ends in the middle of an entry")
            }
            Error::Compressor(cause) => write!(f, "zstd: {cause}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(cause) | Error::Compressor(cause) => Some(cause),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(cause: io::Error) -> Error {
        Error::Io(cause)
    }
}
