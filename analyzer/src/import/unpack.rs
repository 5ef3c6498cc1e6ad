//! Files as they were before gzip or zstd.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// What to do about a file that is too large.
const TOO_LARGE: &str = "unpacks to more than memory takes; cut it, or use a larger machine";

/// The content of a file that may be packed, and whether the end is missing.
pub(super) struct Unpacked {
    pub(super) bytes: Vec<u8>,
    /// Why unpacking stopped early.
    pub(super) cut: Option<String>,
}

/// Whether a file begins like a packed one.
pub(super) fn is_packed(head: &[u8]) -> bool {
    matches!(head, [0x1F, 0x8B, ..] | [0x28, 0xB5, 0x2F, 0xFD, ..])
}

/// Unpacks as long as there is something packed, up to `most` bytes: a few
/// kilobytes can stand for terabytes. Of a file that is cut, what came before.
pub(super) fn unpack(mut bytes: Vec<u8>, most: u64) -> Result<Unpacked, String> {
    let mut cut = None;
    // Something packed three times is a trap.
    for _ in 0..2 {
        let read = match &bytes[..] {
            [0x1F, 0x8B, ..] => take(MultiGzDecoder::new(&bytes[..]), most),
            [0x28, 0xB5, 0x2F, 0xFD, ..] => {
                let decoder = ringscope_format::zstd_reader(&bytes[..]);
                decoder.map_err(|error| error.to_string()).and_then(|decoder| take(decoder, most))
            }
            _ => break,
        };
        let (unpacked, error) = read?;
        if let Some(error) = error {
            if unpacked.is_empty() {
                return Err(format!("cannot be unpacked: {error}; fetch it again"));
            }
            cut = Some(format!("unpacking stopped at byte {:#x}: {error}", unpacked.len()));
        }
        bytes = unpacked;
    }
    Ok(Unpacked { bytes, cut })
}

/// All there is to read, and why it ended if that was too early.
fn take(from: impl Read, most: u64) -> Result<(Vec<u8>, Option<io::Error>), String> {
    let mut bytes = Vec::new();
    let error = from.take(most.saturating_add(1)).read_to_end(&mut bytes).err();
    if bytes.len() as u64 > most { Err(TOO_LARGE.to_owned()) } else { Ok((bytes, error)) }
}
