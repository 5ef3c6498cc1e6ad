//! Metadata: keys and values about the recording as a whole (SPEC 8.5).

use crate::little_endian::{u16_at, u32_at};
use std::collections::BTreeMap;

const HEAD: usize = 8;

/// Appends one entry. A key longer than 65,535 bytes is cut at a character boundary.
pub(crate) fn push_pair(out: &mut Vec<u8>, key: &str, value: &str) {
    let mut end = key.len().min(usize::from(u16::MAX));
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&(end as u16).to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(&key.as_bytes()[..end]);
    out.extend_from_slice(value.as_bytes());
}

/// Takes in packed entries, the later ones replacing the earlier. Returns the
/// bytes that could not be read: from the first entry that reaches past the end.
pub(crate) fn absorb(into: &mut BTreeMap<String, String>, mut entries: &[u8]) -> usize {
    while !entries.is_empty() {
        let Some((head, rest)) = entries.split_at_checked(HEAD) else { return entries.len() };
        let Some((key, rest)) = rest.split_at_checked(u16_at(head, 0) as usize) else {
            return entries.len();
        };
        let Some((value, rest)) = rest.split_at_checked(u32_at(head, 4) as usize) else {
            return entries.len();
        };
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        into.insert(text(key), text(value));
        entries = rest;
    }
    0
}
