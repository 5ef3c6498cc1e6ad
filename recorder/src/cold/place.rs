//! How a file comes to its path.
//!
//! It is made beside it, under the same name with `.starting` behind, and gets its
//! path as the last thing of all. Whoever makes it holds a lock on it from the
//! beginning to the end of the recording, so of two recorders that want the same path
//! one is refused: by the lock on what is beside it, or by the one on what is there.
//!
//! | at the path | what becomes of it |
//! |---|---|
//! | nothing | the file is linked there, which fails if somebody was faster |
//! | a trace that nobody writes to, or an empty file | replaced, when the new file is whole |
//! | a trace that is being written | refused |
//! | anything else | refused |
//!
//! An empty file has nothing to lose, and is what `mktemp` leaves to name an output.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ringscope_format::looks_like_a_trace;

use crate::{Error, file_names::with_suffix};

/// The place of a file that is being made. Dropped before the file is
/// [put there](Self::put), it takes what was made away.
#[derive(Debug)]
pub(crate) struct Place {
    beside: PathBuf,
    taken: AtomicBool,
}

impl Place {
    /// An empty file, locked, beside a path that can be recorded to.
    pub(crate) fn take(path: &Path) -> Result<(File, Place), Error> {
        in_the_way(path)?;
        let beside = with_suffix(path, ".starting");
        // Not `create_new`: one that a killed process left is used again.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&beside)
            .map_err(Error::io(path, "create"))?;
        lock(&file, path)?;
        // Another process may have finished with it before it was locked.
        if !is_at(&file, &beside) {
            return Err(Error::InUse { path: path.to_owned() });
        }
        // One that was killed between two steps of `put` has left its trace both names.
        if is_at(&file, path) {
            fs::remove_file(&beside).map_err(Error::io(path, "create"))?;
            drop(file); // and with it the lock, which would refuse us too
            return Self::take(path);
        }
        let place = Place { beside, taken: AtomicBool::new(false) };
        file.set_len(0).map_err(Error::io(path, "create"))?;
        Ok((file, place))
    }

    /// Moves the file to its path.
    pub(crate) fn put(&self, path: &Path) -> Result<(), Error> {
        // Looked at again: it took a while to make the file. Locked until it is replaced.
        let old = in_the_way(path)?;
        let placed = match old {
            Some(_) => fs::rename(&self.beside, path),
            None => fs::hard_link(&self.beside, path).or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Err(error),
                // A file system without such links. Then whoever comes last has the name.
                _ => fs::rename(&self.beside, path),
            }),
        };
        placed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::InUse { path: path.to_owned() },
            _ => Error::io(path, "create")(error),
        })?;
        crate::crash_point("file-placed");
        self.taken.store(true, Ordering::Release);
        let _ = fs::remove_file(&self.beside);
        Ok(())
    }

    /// Whether the file has its path.
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_taken() {
            let _ = fs::remove_file(&self.beside);
        }
    }
}

/// What is at the path, locked, if it may be replaced; refuses anything that may not.
fn in_the_way(path: &Path) -> Result<Option<File>, Error> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A link that leads nowhere is something all the same.
            let is_link = fs::symlink_metadata(path).is_ok();
            return if is_link {
                Err(Error::NotATrace { path: path.to_owned() })
            } else {
                Ok(None)
            };
        }
        Err(error) => return Err(Error::io(path, "look at")(error)),
        Ok(metadata) => metadata,
    };
    if metadata.is_dir() {
        return Err(Error::IsADirectory { path: path.to_owned() });
    }
    if !metadata.is_file() {
        return Err(Error::NotATrace { path: path.to_owned() });
    }
    let mut old = File::open(path).map_err(Error::io(path, "open"))?;
    let mut first = [0; 16];
    let got = old.read(&mut first).map_err(Error::io(path, "read"))?;
    if got > 0 && !looks_like_a_trace(&first[..got]) {
        return Err(Error::NotATrace { path: path.to_owned() });
    }
    lock(&old, path)?;
    Ok(Some(old))
}

/// Whether the file is what its path names.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (ours, there) = (file.metadata().map(place), fs::metadata(path).map(place));
    matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
}

fn lock(file: &File, path: &Path) -> Result<(), Error> {
    let locked = file.try_lock().or_else(|_| {
        // A reader that wants to know whether somebody records has it for a moment.
        thread::sleep(Duration::from_millis(10));
        file.try_lock()
    });
    match locked {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path: path.to_owned() }),
        // Some network file systems have no locks; recording there is still worth something.
        Err(TryLockError::Error(_)) => Ok(()),
    }
}
