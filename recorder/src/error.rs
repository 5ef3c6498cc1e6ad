//! What can go wrong, said so that it can be mended.

use std::{fmt, io, path::PathBuf, time::Duration};

/// Why a recorder could not be started, flushed or finished.
#[non_exhaustive]
pub enum Error {
    /// This process is already recording.
    AlreadyRecording {
        /// Where to.
        path: PathBuf,
    },
    /// The path is a directory.
    IsADirectory {
        /// The path.
        path: PathBuf,
    },
    /// There is a file at the path that is not a trace.
    NotATrace {
        /// The path.
        path: PathBuf,
    },
    /// Another recorder is writing to the path.
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The file could not be created, written or read.
    Io {
        /// The path.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// This process is a fork of one that records, and cannot record itself.
    ForkedChild,
    /// The recorder's threads could not be started.
    Spawn {
        /// What the system said.
        source: io::Error,
    },
    /// A dump was asked for, but this is not a flight recorder.
    NotAFlightRecorder,
    /// No dump was written in time. It still may be: the disk is slow, or full.
    DumpLate {
        /// The path of the trace.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The recording ended before it could answer: its file was truncated by
    /// another process, or its threads are gone.
    GaveUp {
        /// The path.
        path: PathBuf,
    },
    /// The process has a `tracing` subscriber already.
    #[cfg(feature = "tracing")]
    SubscriberAlreadySet,
    /// The compressor could not be set up.
    Format(ringscope_format::Error),
}

#[cfg(not(feature = "off"))]
impl Error {
    pub(crate) fn io(
        path: &std::path::Path,
        action: &'static str,
    ) -> impl FnOnce(io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::Io { path, action, source }
    }
}

/// As people read it: `main` prints what it returns in this form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::AlreadyRecording { path } => write!(
                f,
                "{}: this process is already recording there; finish that recorder first",
                path.display()
            ),
            Error::IsADirectory { path } => {
                write!(f, "{}: is a directory; give the name of a file in it", path.display())
            }
            Error::NotATrace { path } => write!(
                f,
                "{}: exists and is not a trace; remove it or choose another path",
                path.display()
            ),
            Error::InUse { path } => write!(
                f,
                "{}: another recorder is writing to it; choose another path",
                path.display()
            ),
            Error::Io { path, action, source } => {
                write!(f, "{}: cannot {action}: {source}", path.display())?;
                match source.kind() {
                    io::ErrorKind::NotFound => f.write_str("; create its directory first"),
                    io::ErrorKind::PermissionDenied => f.write_str("; choose a path you may write to"),
                    io::ErrorKind::NotADirectory => {
                        f.write_str("; a part of the path is a file, choose another path")
                    }
                    io::ErrorKind::ReadOnlyFilesystem => {
                        f.write_str("; choose a path on another file system")
                    }
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                        f.write_str(
                            "; a recording needs 12 MiB to start, a flight recorder its size as well, \
                             beside the trace that it replaces",
                        )
                    }
                    _ => Ok(()),
                }
            }
            Error::ForkedChild => f.write_str(
                "this process was forked from one that was recording; start recording after the fork",
            ),
            Error::Spawn { source } => write!(
                f,
                "cannot start the recorder's threads: {source}; raise the limit on threads"
            ),
            Error::NotAFlightRecorder => f.write_str(
                "no dump: this recording keeps everything; set `keep_last` to make it a flight recorder",
            ),
            Error::DumpLate { path, waited } => write!(
                f,
                "{}: no dump of it within {} s; the disk is slow or full, and the dump may still come",
                path.display(),
                waited.as_secs()
            ),
            Error::GaveUp { path } => write!(
                f,
                "{}: the recording ended early: its file was truncated by another process, this is a fork \
                 of the process that records, or a thread of the recorder has panicked, which is on standard \
                 error; what was written before is readable, and a new recorder needs a path that nobody \
                 else writes to",
                path.display()
            ),
            #[cfg(feature = "tracing")]
            Error::SubscriberAlreadySet => f.write_str(
                "this process has a `tracing` subscriber already; add `MetricsLayer` to that one, or \
                 install ringscope's first",
            ),
            Error::Format(error) => write!(f, "cannot set up the compressor: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } | Error::Spawn { source } => Some(source),
            Error::Format(error) => Some(error),
            _ => None,
        }
    }
}
