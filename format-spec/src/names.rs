//! Names: static strings with ids that mean the same in the whole recording (SPEC 8.4).

use crate::limits::{ENTRY_COST, MAX_CALL_SITES, MAX_NAME_BYTES, MAX_TABLE_BYTES};
use crate::little_endian::{u16_at, u32_at};
use std::collections::BTreeMap;

const HEAD: usize = 8;
const TEXT: u8 = 0;
const CALL_SITE: u8 = 1;
const CUT: u8 = 1;
const CALL_SITE_BYTES: usize = 12;

/// Appends the text of a name, cut at 1,024 bytes.
pub fn push_name(out: &mut Vec<u8>, id: u32, text: &str) {
    let mut end = text.len().min(MAX_NAME_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let flags = if end < text.len() { CUT } else { 0 };
    push_entry(out, id, TEXT, flags, &text.as_bytes()[..end]);
}

/// Appends a place in the source where a name is used; `file` and `module` are
/// the ids of names.
pub fn push_call_site(out: &mut Vec<u8>, name: u32, line: u32, file: u32, module: u32) {
    let mut body = [0; CALL_SITE_BYTES];
    body[0..4].copy_from_slice(&line.to_le_bytes());
    body[4..8].copy_from_slice(&file.to_le_bytes());
    body[8..12].copy_from_slice(&module.to_le_bytes());
    push_entry(out, name, CALL_SITE, 0, &body);
}

fn push_entry(out: &mut Vec<u8>, id: u32, kind: u8, flags: u8, body: &[u8]) {
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&(body.len() as u16).to_le_bytes());
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(body);
}

/// A place in the source where a name is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallSiteEntry {
    /// Line in the file.
    pub line: u32,
    /// Id of the file's name.
    pub file: u32,
    /// Id of the module path's name.
    pub module: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Name {
    text: Option<Box<str>>,
    cut: bool,
    call_sites: Vec<CallSiteEntry>,
}

/// The names of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    by_id: BTreeMap<u32, Name>,
    /// What is held, as the limits count it.
    cost: u64,
}

impl Names {
    /// The text of a name.
    pub fn get(&self, id: u32) -> Option<&str> {
        self.by_id.get(&id)?.text.as_deref()
    }

    /// Whether the text of a name was longer than the format takes.
    pub fn was_cut(&self, id: u32) -> bool {
        self.by_id.get(&id).is_some_and(|name| name.cut)
    }

    /// Where in the source a name is used, by rising line.
    pub fn call_sites(&self, id: u32) -> &[CallSiteEntry] {
        self.by_id.get(&id).map_or(&[], |name| &name.call_sites)
    }

    /// How many names have a text.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether no name has a text.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Ids and texts, by rising id.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        self.by_id.iter().filter_map(|(id, name)| Some((*id, name.text.as_deref()?)))
    }

    /// Takes in packed entries, the later ones replacing the earlier. Returns
    /// the bytes that could not be read: from the first entry that reaches past
    /// the end, or is past the format's limits.
    pub fn absorb(&mut self, entries: &[u8]) -> usize {
        let mut left = entries.len();
        for entry in Entries::new(entries) {
            let Ok(entry) = entry else { return left };
            if !self.take(&entry) {
                return left;
            }
            left -= HEAD + entry.body.len();
        }
        0
    }

    /// Whether there is no room for another name.
    pub(crate) fn is_full(&self) -> bool {
        self.cost + ENTRY_COST + MAX_NAME_BYTES as u64 > MAX_TABLE_BYTES
    }

    fn take(&mut self, entry: &Entry<'_>) -> bool {
        let known = self.by_id.contains_key(&entry.id);
        if !matches!(entry.kind, TEXT | CALL_SITE) {
            return true;
        }
        if !known && self.is_full() {
            return false;
        }
        let name = self.by_id.entry(entry.id).or_default();
        self.cost += if known { 0 } else { ENTRY_COST };
        match entry.kind {
            TEXT => {
                let text = String::from_utf8_lossy(entry.body);
                if name.text.as_deref() != Some(&text) {
                    self.cost -= name.text.as_ref().map_or(0, |text| text.len()) as u64;
                    self.cost += text.len() as u64;
                    name.text = Some(text.into());
                }
                name.cut = entry.flags & CUT != 0;
            }
            _ if entry.body.len() >= CALL_SITE_BYTES => {
                let site = CallSiteEntry {
                    line: u32_at(entry.body, 0),
                    file: u32_at(entry.body, 4),
                    module: u32_at(entry.body, 8),
                };
                let sites = &mut name.call_sites;
                if let Err(at) = sites.binary_search(&site) {
                    if sites.len() >= MAX_CALL_SITES {
                        return false;
                    }
                    sites.insert(at, site);
                    self.cost += CALL_SITE_BYTES as u64;
                }
            }
            _ => {}
        }
        true
    }
}

struct Entry<'a> {
    id: u32,
    kind: u8,
    flags: u8,
    body: &'a [u8],
}

struct Entries<'a> {
    left: &'a [u8],
}

impl<'a> Entries<'a> {
    fn new(entries: &'a [u8]) -> Self {
        Entries { left: entries }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, ()>;

    fn next(&mut self) -> Option<Self::Item> {
        let left = std::mem::take(&mut self.left);
        if left.is_empty() {
            return None;
        }
        let Some((head, rest)) = left.split_at_checked(HEAD) else { return Some(Err(())) };
        let (id, length, kind) = (u32_at(head, 0), u16_at(head, 4) as usize, head[6]);
        if length > rest.len() || (kind == TEXT && length > MAX_NAME_BYTES) {
            return Some(Err(()));
        }
        let (body, rest) = rest.split_at(length);
        self.left = rest;
        Some(Ok(Entry { id, kind, flags: head[7], body }))
    }
}

/// How many entries these bytes are, or `None` if they are not entries.
pub(crate) fn count(entries: &[u8]) -> Option<u32> {
    Entries::new(entries).try_fold(0_u32, |n, entry| entry.ok().map(|_| n + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_every_byte_where_the_format_says() {
        let mut out = Vec::new();
        push_name(&mut out, 0x0102_0304, "ab");
        push_call_site(&mut out, 5, 0x11, 0x22, 0x33);
        assert_eq!(out[..10], [4, 3, 2, 1, 2, 0, 0, 0, b'a', b'b']);
        assert_eq!(out[10..18], [5, 0, 0, 0, 12, 0, 1, 0]);
        assert_eq!(out[18..], [0x11, 0, 0, 0, 0x22, 0, 0, 0, 0x33, 0, 0, 0]);
        assert_eq!(count(&out), Some(2));
    }

    #[test]
    fn names_that_are_empty_huge_or_wide_survive_the_cut() {
        let huge = "\u{1F980}".repeat(300);
        let mut out = Vec::new();
        push_name(&mut out, 1, "");
        push_name(&mut out, 2, &huge);
        push_name(&mut out, 3, &"x".repeat(MAX_NAME_BYTES));
        push_name(&mut out, 4, &("y".to_owned() + &huge));
        let mut names = Names::default();
        assert_eq!(names.absorb(&out), 0);
        assert_eq!((names.get(1), names.was_cut(1)), (Some(""), false));
        assert_eq!(
            (names.get(2), names.was_cut(2)),
            (Some("\u{1F980}".repeat(256).as_str()), true)
        );
        assert_eq!((names.get(3).map(str::len), names.was_cut(3)), (Some(1024), false));
        assert_eq!((names.get(4).map(str::len), names.was_cut(4)), (Some(1 + 255 * 4), true));
        assert_eq!(names.len(), 4);
        assert_eq!(names.get(9), None);
    }

    #[test]
    fn later_entry_replaces_an_earlier_one_and_call_sites_gather() {
        let mut out = Vec::new();
        push_name(&mut out, 1, "old");
        push_call_site(&mut out, 1, 10, 2, 3);
        push_call_site(&mut out, 1, 20, 2, 3);
        push_call_site(&mut out, 1, 10, 2, 3);
        push_name(&mut out, 1, "new");
        let mut names = Names::default();
        names.absorb(&out);
        assert_eq!(names.iter().collect::<Vec<_>>(), [(1, "new")]);
        assert_eq!(names.call_sites(1).iter().map(|site| site.line).collect::<Vec<_>>(), [10, 20]);
        assert!(names.call_sites(2).is_empty());
    }

    #[test]
    fn unknown_entries_are_skipped_and_a_cut_table_keeps_its_start() {
        let mut out = Vec::new();
        push_entry(&mut out, 1, 77, 0, &[1; 5000]);
        push_name(&mut out, 2, "two");
        let whole = out.len();
        push_name(&mut out, 3, "three");
        let mut names = Names::default();
        assert_eq!(names.absorb(&out[..out.len() - 1]), out.len() - 1 - whole);
        assert_eq!(names.iter().collect::<Vec<_>>(), [(2, "two")]);
        assert_eq!(count(&out[..out.len() - 1]), None);
    }

    #[test]
    fn call_sites_of_a_name_are_limited() {
        let mut out = Vec::new();
        for line in 0..MAX_CALL_SITES as u32 + 1 {
            push_call_site(&mut out, 1, line, 2, 3);
        }
        let mut names = Names::default();
        assert_eq!(names.absorb(&out), HEAD + CALL_SITE_BYTES);
        assert_eq!(names.call_sites(1).len(), MAX_CALL_SITES);
    }

    #[test]
    fn text_longer_than_a_name_can_be_is_refused_and_bad_utf8_repaired() {
        let mut out = Vec::new();
        push_entry(&mut out, 1, TEXT, 0, b"\xFFa");
        push_entry(&mut out, 2, TEXT, 0, &[b'x'; MAX_NAME_BYTES + 1]);
        let mut names = Names::default();
        assert_eq!(names.absorb(&out), 8 + MAX_NAME_BYTES + 1);
        assert_eq!(names.iter().collect::<Vec<_>>(), [(1, "\u{FFFD}a")]);
    }
}
