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
                write!(f, "{}: cannot {action}: {source}{}", path.display(), remedy(source))
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

/// What can be done about it, where that is known.
fn remedy(error: &io::Error) -> &'static str {
    // A text of our own says it by itself.
    if error.get_ref().is_some() {
        return "";
    }
    match error.kind() {
        io::ErrorKind::NotFound => "; create its directory first",
        io::ErrorKind::PermissionDenied => "; choose a path you may write to",
        io::ErrorKind::NotADirectory => "; a part of the path is a file, choose another path",
        // At the path itself it is found before; a file is begun under the other name.
        io::ErrorKind::IsADirectory => {
            "; remove the directory of that name with `.starting` behind it, or choose another path"
        }
        io::ErrorKind::InvalidFilename => "; choose a shorter name",
        io::ErrorKind::InvalidInput if error.raw_os_error().is_none() => "; choose another path",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::Unsupported => {
            "; choose a path on another file system"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "; a recording needs 12 MiB to start, a flight recorder its size as well, \
             beside the trace that it replaces"
        }
        io::ErrorKind::OutOfMemory => "; a recording maps 12 MiB: raise the limit on memory",
        _ => error.raw_os_error().map_or("", remedy_by_code),
    }
}

/// The same for what has a number and no name in Rust.
#[cfg(unix)]
fn remedy_by_code(code: i32) -> &'static str {
    match code {
        libc::EMFILE | libc::ENFILE => "; raise the limit on open files",
        // A device, or whoever serves it, and nothing about this path.
        libc::EIO | libc::ENXIO | libc::ENODEV | libc::ESTALE | libc::ETIMEDOUT => {
            "; if that stays so, choose a path on another file system"
        }
        _ => "",
    }
}

/// Nothing is recorded here: `off` is all that is built.
#[cfg(not(unix))]
fn remedy_by_code(_: i32) -> &'static str {
    ""
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn said(source: io::Error) -> String {
        Error::Io { path: "run.trace".into(), action: "create", source }.to_string()
    }

    #[test]
    fn what_the_system_says_comes_with_what_to_do() {
        for (code, what_to_do) in [
            (libc::ENOENT, "create its directory first"),
            (libc::EACCES, "choose a path you may write to"),
            (libc::EPERM, "choose a path you may write to"),
            (libc::ENOTDIR, "a part of the path is a file, choose another path"),
            (
                libc::EISDIR,
                "remove the directory of that name with `.starting` behind it, or choose another path",
            ),
            (libc::ENAMETOOLONG, "choose a shorter name"),
            (libc::EROFS, "choose a path on another file system"),
            (libc::EOPNOTSUPP, "choose a path on another file system"),
            (libc::ENOMEM, "a recording maps 12 MiB: raise the limit on memory"),
            (libc::EMFILE, "raise the limit on open files"),
            (libc::ENFILE, "raise the limit on open files"),
        ] {
            let error = || io::Error::from_raw_os_error(code);
            let expected = format!("run.trace: cannot create: {}; {what_to_do}", error());
            assert_eq!(said(error()), expected);
        }
        for code in [libc::ENOSPC, libc::EDQUOT, libc::EFBIG] {
            let said = said(io::Error::from_raw_os_error(code));
            assert!(said.contains("; a recording needs 12 MiB to start, a flight"), "{said}");
        }
    }

    #[test]
    fn only_what_a_device_says_is_a_reason_for_another_file_system() {
        for code in [libc::EIO, libc::ENXIO, libc::ENODEV, libc::ESTALE, libc::ETIMEDOUT] {
            let said = said(io::Error::from_raw_os_error(code));
            let advice = "; if that stays so, choose a path on another file system";
            assert!(said.ends_with(advice), "{said}");
        }
        for code in [libc::EINVAL, libc::ELOOP, libc::EBUSY] {
            let error = || io::Error::from_raw_os_error(code);
            assert_eq!(said(error()), format!("run.trace: cannot create: {}", error()));
        }
    }

    #[test]
    fn texts_of_our_own_say_what_to_do_by_themselves() {
        for kind in [io::ErrorKind::Other, io::ErrorKind::FileTooLarge, io::ErrorKind::NotFound] {
            let own = io::Error::new(kind, "too many; raise `most`");
            assert_eq!(said(own), "run.trace: cannot create: too many; raise `most`");
        }
    }
}
