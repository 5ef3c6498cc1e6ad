//! Room on the disk, had before it is needed.

#![allow(unsafe_code)] // plain system calls

use std::{fs::File, io, os::unix::fs::FileExt};

use memmap2::MmapOptions;

/// Writes zeros, so that every page has its place on the disk before it is
/// stored to through the map: a store to a hole on a full disk is a SIGBUS.
pub(crate) fn write_zeros(file: &File, length: u64) -> io::Result<()> {
    // Not from the allocator: giving back that much at once changes how glibc's serves the
    // program from then on. Pages that are only read are all the same one.
    let zeros = MmapOptions::new().len(256 << 10).map_anon()?;
    let mut offset = 0;
    while offset < length {
        let step = (length - offset).min(zeros.len() as u64) as usize;
        file.write_all_at(&zeros[..step], offset)?;
        offset += step as u64;
    }
    Ok(())
}

/// Reserves the bytes between the end of the file and `length`, without writing them,
/// and makes the file that long.
///
/// Where the file system cannot reserve, they are a hole, and a disk that has no room
/// for them says so when they are written.
pub(crate) fn reserve(file: &File, length: u64) -> io::Result<()> {
    let end = file.metadata()?.len();
    if length > end {
        loop {
            match reserve_behind(file, end, length - end) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_unsupported(&error) => break,
                done => break done?,
            }
        }
    }
    file.set_len(length)
}

#[cfg(target_os = "linux")]
fn reserve_behind(file: &File, end: u64, length: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let (Ok(end), Ok(length)) = (end.try_into(), length.try_into()) else {
        return Err(io::ErrorKind::FileTooLarge.into());
    };
    // Not `posix_fallocate`, which writes to every block where the file system cannot do it.
    // SAFETY: takes numbers; the descriptor is open.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, end, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(target_os = "macos")]
fn reserve_behind(file: &File, _: u64, length: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let Ok(length) = length.try_into() else { return Err(io::ErrorKind::FileTooLarge.into()) };
    let mut wanted = libc::fstore_t {
        fst_flags: libc::F_ALLOCATEALL,
        fst_posmode: libc::F_PEOFPOSMODE,
        fst_offset: 0,
        fst_length: length,
        fst_bytesalloc: 0,
    };
    // SAFETY: the descriptor is open, the pointer valid.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_PREALLOCATE, &raw mut wanted) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn reserve_behind(_: &File, _: u64, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn is_unsupported(error: &io::Error) -> bool {
    let known = [libc::EOPNOTSUPP, libc::ENOTSUP, libc::ENOSYS, libc::EINVAL];
    error.kind() == io::ErrorKind::Unsupported
        || error.raw_os_error().is_some_and(|code| known.contains(&code))
}
