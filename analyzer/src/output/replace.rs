//! A file that is there whole or not at all.

use std::{
    fs::{self, File},
    io::BufWriter,
    path::Path,
};

use crate::{Error, Result};

/// Writes `path` beside its place and renames it when it is complete. Whatever was
/// there before stays until then.
pub fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = Path::new(&beside);
    let file = File::create(beside).map_err(|error| Error::of(path, error))?;
    write(&mut BufWriter::new(file))
        .and_then(|()| fs::rename(beside, path).map_err(|error| Error::of(path, error)))
        .inspect_err(|_| drop(fs::remove_file(beside)))
}
