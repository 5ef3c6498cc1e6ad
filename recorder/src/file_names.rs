//! Names of the files that lie beside a trace, made from its own.

use std::path::{Path, PathBuf};

/// `dir/name.trace` becomes `dir/name.TAG.trace`.
pub(crate) fn numbered(path: &Path, tag: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(tag);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// A path with something behind its whole name.
#[cfg(not(feature = "off"))]
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_files_keep_their_extension() {
        assert_eq!(numbered(Path::new("a/run.trace"), "1"), Path::new("a/run.1.trace"));
        assert_eq!(numbered(Path::new("run"), "dump-1-panic"), Path::new("run.dump-1-panic"));
    }
}
