//! zstd for whoever reads files of other formats: it lives in this crate alone, so
//! that one version of it is built.

use std::io::{self, BufRead, Read};

/// Reads what is packed in `from`, frame after frame. Its window takes 128 MiB at
/// most; how much comes out is for the caller to bound.
pub fn zstd_reader<'a>(from: impl BufRead + 'a) -> io::Result<impl Read + 'a> {
    zstd::stream::read::Decoder::with_buffer(from)
}

/// Packs `bytes` into one frame, for files of other formats.
pub fn zstd_packed(bytes: &[u8], level: i32) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(bytes, level)
}
