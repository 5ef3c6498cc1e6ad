//! What can go wrong, and how the process ends because of it.

use std::{fmt, io, path::Path};

/// Why a command could not do what it was asked to.
///
/// Reads `subject: what is wrong; what to do`. All of these end the process with
/// [`Exit::Unusable`]; verdicts such as "this trace is damaged" are no errors.
#[derive(Debug)]
pub struct Error {
    message: String,
    broken_pipe: bool,
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything is well.
    Ok = 0,
    /// The answer is no: damaged, regressed, over budget.
    Failed = 1,
    /// Wrong usage, or input that cannot be used.
    Unusable = 2,
    /// There was not enough to decide by.
    Undecided = 3,
}

impl Error {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), broken_pipe: false }
    }

    /// Something about a file.
    pub fn of(path: &Path, cause: impl fmt::Display) -> Self {
        Self::new(format!("{}: {cause}", path.display()))
    }

    /// Whether the reader of our output went away, which is no error of ours.
    pub fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Only writing the output fails with a bare I/O error; reading says which file.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self {
            message: format!("output: {error}"),
            broken_pipe: error.kind() == io::ErrorKind::BrokenPipe,
        }
    }
}

#[cfg(feature = "sql")]
impl From<polars::error::PolarsError> for Error {
    fn from(error: polars::error::PolarsError) -> Self {
        Self::new(error.to_string())
    }
}
