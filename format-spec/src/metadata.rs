//! Metadata: keys and values about the recording as a whole (SPEC 8.5).

use crate::little_endian::{u16_at, u32_at};

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

/// Reads packed entries and hands each to `take`, which says whether to go on.
/// Returns the bytes that could not be read: from the first entry that reaches
/// past the end or was not taken.
pub(crate) fn parse_pairs(
    mut entries: &[u8],
    mut take: impl FnMut(String, String) -> bool,
) -> usize {
    while !entries.is_empty() {
        let Some((head, rest)) = entries.split_at_checked(HEAD) else { return entries.len() };
        let Some((key, rest)) = rest.split_at_checked(u16_at(head, 0) as usize) else {
            return entries.len();
        };
        let Some((value, rest)) = rest.split_at_checked(u32_at(head, 4) as usize) else {
            return entries.len();
        };
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        if !take(text(key), text(value)) {
            return entries.len();
        }
        entries = rest;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn absorb(pairs: &mut BTreeMap<String, String>, entries: &[u8]) -> usize {
        parse_pairs(entries, |key, value| {
            pairs.insert(key, value);
            true
        })
    }

    #[test]
    fn entry_has_every_byte_where_the_format_says() {
        let mut out = Vec::new();
        push_pair(&mut out, "key", "value");
        assert_eq!(out[..8], [3, 0, 0, 0, 5, 0, 0, 0]);
        assert_eq!(&out[8..], b"keyvalue");
    }

    #[test]
    fn later_value_replaces_an_earlier_one_and_a_cut_table_keeps_its_start() {
        let mut out = Vec::new();
        push_pair(&mut out, "a", "1");
        push_pair(&mut out, "a", "2");
        let whole = out.len();
        push_pair(&mut out, "b", "3");
        let mut pairs = BTreeMap::new();
        assert_eq!(absorb(&mut pairs, &out), 0);
        assert_eq!((pairs["a"].as_str(), pairs["b"].as_str()), ("2", "3"));
        for cut in whole + 1..out.len() {
            let mut pairs = BTreeMap::new();
            assert_eq!(absorb(&mut pairs, &out[..cut]), cut - whole);
            assert_eq!(pairs.len(), 1);
        }
    }
}
