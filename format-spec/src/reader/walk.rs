//! Finding the chunks of a file: by their headers alone, and past damage to the
//! next one that is intact (SPEC 8.1, 8.6 and 11).

use super::damage::{Damage, Damaged, Why};
use super::source::Source;
use super::window::Window;
use crate::chunk::{
    CHUNK_ALIGN, CHUNK_HEADER_LENGTH, CHUNK_MAGIC, ChunkHeader, ChunkKind, SECTION_ENTRY_LENGTH,
    SectionEntry,
};
use crate::limits::{MAX_CHUNK_BYTES, MAX_ITEMS, MAX_SECTIONS};
use std::ops::Range;

/// Read at once from the start of a chunk: header, the largest directory, and
/// usually all tables.
const PREFIX: u64 = 4096;
/// Read at once while searching.
const BLOCK: usize = 256 << 10;
/// A store to a file may be cut short here, where a page ends.
const PAGE: u64 = 4096;

/// A chunk whose header and directory are intact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) header: ChunkHeader,
    pub(crate) offset: u64,
    pub(crate) sections: Box<[SectionEntry]>,
}

impl Found {
    /// Where each section is.
    pub(crate) fn places(&self) -> impl Iterator<Item = (SectionEntry, u64)> {
        places(self.offset, &self.sections)
    }
}

/// Where each section of the chunk at `offset` is.
pub(crate) fn places(
    offset: u64,
    sections: &[SectionEntry],
) -> impl Iterator<Item = (SectionEntry, u64)> {
    let directory = CHUNK_HEADER_LENGTH + sections.len() * SECTION_ENTRY_LENGTH;
    let mut at = offset + directory as u64;
    sections.iter().map(move |section| {
        let here = at;
        at += u64::from(section.stored);
        (*section, here)
    })
}

/// The recording of the first chunk whose header is intact, wherever that is.
pub(crate) fn first_recording<S: Source>(source: &S) -> Option<[u8; 16]> {
    let end = source.len().ok()?;
    let mut block = Vec::new();
    let mut at = 0;
    while at < end {
        // A header may reach from one block into the next.
        let length = (end - at).min((BLOCK + CHUNK_HEADER_LENGTH) as u64);
        block.resize(length as usize, 0);
        // What cannot be read is no header.
        if source.read_exact_at(&mut block, at).is_ok() {
            let places = (0..BLOCK.min(block.len())).step_by(CHUNK_ALIGN);
            if let Some(header) =
                places.map(|it| ChunkHeader::parse(&block[it..])).find_map(|it| it)
            {
                return Some(header.recording);
            }
        }
        at += BLOCK as u64;
    }
    None
}

/// What is at a place where a chunk should be.
enum Look {
    Chunk(Found),
    /// Of a kind that this version does not know; the next one is so many bytes on.
    Unknown(u64),
    /// A chunk that cannot be used, though its header is intact and its length plausible.
    Refused(ChunkHeader, Why),
    /// An intact header whose length cannot be right, or reaches past the end.
    Cut(ChunkHeader, Why),
    Nothing(Why),
}

/// Bytes of the log that are no chunk, and the data chunks on either side.
pub(crate) struct Hole {
    pub(crate) damage: usize,
    pub(crate) after: Option<u64>,
    pub(crate) before: Option<u64>,
}

/// Walks over the chunks of one file.
pub(crate) struct Walker<'a, S> {
    source: &'a S,
    recording: [u8; 16],
    window: Window<'a, S>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) holes: Vec<Hole>,
    pub(crate) unknown: u64,
}

impl<'a, S: Source> Walker<'a, S> {
    pub(crate) fn new(source: &'a S, recording: [u8; 16]) -> Self {
        Walker {
            source,
            recording,
            window: Window::new(source),
            damage: Vec::new(),
            holes: Vec::new(),
            unknown: 0,
        }
    }

    /// Visits the chunks of the log, which begins at `start`. `complete`: the
    /// file ended in good order, so that nothing but chunks is in it. The visitor
    /// also gets the first bytes of the chunk. Returns where the file ended.
    pub(crate) fn log(
        &mut self,
        start: u64,
        complete: bool,
        visit: &mut impl FnMut(Found, &[u8]),
    ) -> u64 {
        let mut end = self.length();
        let mut at = start;
        let mut last_data = None;
        loop {
            if at >= end {
                // The file may have grown meanwhile.
                end = self.length();
                if at >= end {
                    return end;
                }
            }
            let mut look = self.look(at, end);
            let overtaken = match look {
                Look::Cut(_, Why::CutOff) => true,
                // A header that was written since its bytes were read is not to be searched past.
                Look::Nothing(_) => !complete && self.window.is_outdated(at, CHUNK_HEADER_LENGTH),
                _ => false,
            };
            if overtaken {
                end = self.length();
                look = self.look(at, end);
            }
            match look {
                Look::Chunk(found) => {
                    let length = u64::from(found.header.length);
                    if found.header.kind == ChunkKind::DATA {
                        self.close_holes(found.header.sequence);
                        last_data = Some(found.header.sequence);
                    }
                    visit(found, self.window.kept(at));
                    at += length;
                }
                Look::Unknown(length) => {
                    self.unknown += 1;
                    at += length;
                }
                Look::Refused(header, why) => {
                    let next = at + u64::from(header.length);
                    self.lose_chunk(at..next, &header, why);
                    at = next;
                }
                Look::Cut(header, why) => {
                    let next = self.search(at + CHUNK_ALIGN as u64, end);
                    let stop = next.unwrap_or(end);
                    self.lose_chunk(at..stop, &header, why);
                    at = stop;
                }
                Look::Nothing(why) => {
                    let unfinished = !complete && self.may_be_unfinished(at, end);
                    let next = self.search(at + CHUNK_ALIGN as u64, end);
                    let stop = next.unwrap_or(end);
                    if next.is_some() || !unfinished {
                        self.holes.push(Hole {
                            damage: self.damage.len(),
                            after: last_data,
                            before: None,
                        });
                        let what = Damaged::Chunks { sequences: Vec::new(), events: None };
                        self.damage.push(Damage { bytes: at..stop, what, why });
                    }
                    at = stop;
                }
            }
        }
    }

    /// Visits the chunks of the ring, in the order they lie there. What lies
    /// between them is left over from older ones.
    pub(crate) fn ring(&mut self, area: Range<u64>, visit: &mut impl FnMut(Found, &[u8])) {
        let end = area.end.min(self.length());
        let mut at = area.start;
        while at < end {
            match self.look(at, end) {
                Look::Chunk(found) => {
                    let length = u64::from(found.header.length);
                    visit(found, self.window.kept(at));
                    at += length;
                }
                Look::Unknown(length) => {
                    self.unknown += 1;
                    at += length;
                }
                Look::Refused(header, why) => {
                    let next = at + u64::from(header.length);
                    self.lose_chunk(at..next, &header, why);
                    at = next;
                }
                Look::Cut(header, why) => {
                    self.lose_chunk(at..end, &header, why);
                    at = self.search(at + CHUNK_ALIGN as u64, end).unwrap_or(end);
                }
                Look::Nothing(_) => {
                    at = self.search(at + CHUNK_ALIGN as u64, end).unwrap_or(end);
                }
            }
        }
    }

    fn length(&self) -> u64 {
        self.source.len().unwrap_or(0)
    }

    fn lose_chunk(&mut self, bytes: Range<u64>, header: &ChunkHeader, why: Why) {
        if header.kind == ChunkKind::DATA {
            self.close_holes(header.sequence);
        }
        let events = if header.kind == ChunkKind::DATA { u64::from(header.events) } else { 0 };
        let what = Damaged::Chunk { kind: header.kind, sequence: header.sequence, events };
        self.damage.push(Damage { bytes, what, why });
    }

    fn close_holes(&mut self, sequence: u64) {
        for hole in self.holes.iter_mut().rev().take_while(|hole| hole.before.is_none()) {
            hole.before = Some(sequence);
        }
    }

    fn look(&mut self, at: u64, end: u64) -> Look {
        if end - at < CHUNK_HEADER_LENGTH as u64 {
            return Look::Nothing(Why::CutOff);
        }
        let prefix = at..end.min(at + PREFIX);
        let Ok(bytes) = self.window.hold(prefix.clone(), CHUNK_HEADER_LENGTH) else {
            return Look::Nothing(Why::Unreadable);
        };
        let Some(header) = ChunkHeader::parse(bytes) else {
            let bytes = &bytes[..CHUNK_HEADER_LENGTH];
            return Look::Nothing(if bytes.iter().all(|byte| *byte == 0) {
                Why::Zeros
            } else if bytes.starts_with(&CHUNK_MAGIC) {
                Why::Checksum
            } else {
                Why::NoHeader
            });
        };
        if header.recording != self.recording {
            return Look::Nothing(Why::OtherRecording);
        }
        let chunk = u64::from(header.length);
        let directory = usize::from(header.sections) * SECTION_ENTRY_LENGTH;
        let least = (CHUNK_HEADER_LENGTH + directory) as u64;
        if chunk > MAX_CHUNK_BYTES || chunk < least || !chunk.is_multiple_of(CHUNK_ALIGN as u64) {
            return Look::Cut(header, Why::Lengths);
        }
        if chunk > end - at {
            return Look::Cut(header, Why::CutOff);
        }
        if !header.kind.is_known() {
            return Look::Unknown(chunk);
        }
        if header.flags != 0 {
            return Look::Refused(header, Why::Reserved);
        }
        if usize::from(header.sections) > MAX_SECTIONS
            || header.events as usize > MAX_ITEMS
            || header.slots as usize > MAX_ITEMS
        {
            return Look::Refused(header, Why::Lengths);
        }
        // The prefix has room for the largest directory.
        let Ok(bytes) = self.window.hold(prefix, chunk.min(PREFIX) as usize) else {
            return Look::Nothing(Why::Unreadable);
        };
        let directory = &bytes[CHUNK_HEADER_LENGTH..CHUNK_HEADER_LENGTH + directory];
        if crc32c::crc32c(directory) != header.directory_crc {
            return Look::Refused(header, Why::Checksum);
        }
        let sections: Box<[SectionEntry]> =
            directory.chunks_exact(SECTION_ENTRY_LENGTH).map(SectionEntry::parse).collect();
        let stored: u64 = sections.iter().map(|section| u64::from(section.stored)).sum();
        if least + stored > chunk {
            return Look::Refused(header, Why::Lengths);
        }
        Look::Chunk(Found { header, offset: at, sections })
    }

    /// Whether what is at `at`, with no chunk after it, may be an append that
    /// was cut short: zeros, less than a header, or a header of which only the
    /// part on the first of two pages was written.
    fn may_be_unfinished(&self, at: u64, end: u64) -> bool {
        if end - at < CHUNK_HEADER_LENGTH as u64 {
            return true;
        }
        let page_ends = (PAGE - at % PAGE) as usize;
        let Some(header) = self.window.kept(at).get(..CHUNK_HEADER_LENGTH) else { return false };
        let written = if page_ends < CHUNK_HEADER_LENGTH && header.starts_with(&CHUNK_MAGIC) {
            page_ends
        } else {
            0
        };
        header[written..].iter().all(|byte| *byte == 0)
    }

    /// The first intact chunk header of this recording at or after `at`.
    fn search(&mut self, mut at: u64, end: u64) -> Option<u64> {
        while end.saturating_sub(at) >= CHUNK_HEADER_LENGTH as u64 {
            let block = at..end.min(at + BLOCK as u64);
            // What cannot be read is no header.
            let Ok(bytes) = self.window.hold(block, CHUNK_HEADER_LENGTH) else {
                at += BLOCK as u64;
                continue;
            };
            // A header that reaches past what is kept is looked at with what comes next.
            for bytes in bytes.windows(CHUNK_HEADER_LENGTH).step_by(CHUNK_ALIGN) {
                if at + CHUNK_HEADER_LENGTH as u64 > end {
                    return None;
                }
                if bytes.starts_with(&CHUNK_MAGIC)
                    && ChunkHeader::parse(bytes).is_some_and(|it| it.recording == self.recording)
                {
                    return Some(at);
                }
                at += CHUNK_ALIGN as u64;
            }
        }
        None
    }
}
