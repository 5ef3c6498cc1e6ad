//! Tracks: lines of time (SPEC 8.3.2).

use crate::limits::MAX_NAME_BYTES;
use crate::little_endian::{u16_at, u32_at, u64_at};

const HEAD: usize = 16;

/// What a line of time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrackKind {
    /// A thread of the program.
    Thread,
    /// A queue of a GPU.
    GpuQueue,
    /// The recorder itself.
    Recorder,
    /// Something else.
    Other,
    /// A kind of a later version.
    Unknown(u8),
}

impl TrackKind {
    fn to_byte(self) -> u8 {
        match self {
            TrackKind::Thread => 1,
            TrackKind::GpuQueue => 2,
            TrackKind::Recorder => 3,
            TrackKind::Other => 4,
            TrackKind::Unknown(byte) => byte,
        }
    }

    fn from_byte(byte: u8) -> TrackKind {
        match byte {
            1 => TrackKind::Thread,
            2 => TrackKind::GpuQueue,
            3 => TrackKind::Recorder,
            4 => TrackKind::Other,
            other => TrackKind::Unknown(other),
        }
    }
}

/// A line of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its id, from 1; never reused within a recording.
    pub id: u32,
    /// What it is.
    pub kind: TrackKind,
    /// The system's id of the thread or queue.
    pub os_id: u64,
    /// Its name.
    pub name: String,
}

/// Appends a track. A name longer than 1,024 bytes is cut at a character boundary.
pub fn push_track(out: &mut Vec<u8>, id: u32, kind: TrackKind, os_id: u64, name: &str) {
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&id.to_le_bytes());
    out.extend_from_slice(&[kind.to_byte(), 0]);
    out.extend_from_slice(&(end as u16).to_le_bytes());
    out.extend_from_slice(&os_id.to_le_bytes());
    out.extend_from_slice(&name.as_bytes()[..end]);
}

/// Reads packed tracks and hands each to `take`. Returns the bytes that could
/// not be read: from the first track that reaches past the end.
pub fn parse_tracks(entries: &[u8], mut take: impl FnMut(Track)) -> usize {
    parse_tracks_while(entries, |track| {
        take(track);
        true
    })
}

/// [`parse_tracks`] up to the first track that `take` refuses.
pub(crate) fn parse_tracks_while(mut entries: &[u8], mut take: impl FnMut(Track) -> bool) -> usize {
    while !entries.is_empty() {
        let Some((head, rest)) = entries.split_at_checked(HEAD) else { return entries.len() };
        let Some((name, rest)) = rest.split_at_checked(u16_at(head, 6) as usize) else {
            return entries.len();
        };
        let track = Track {
            id: u32_at(head, 0),
            kind: TrackKind::from_byte(head[4]),
            os_id: u64_at(head, 8),
            name: String::from_utf8_lossy(name).into_owned(),
        };
        if name.len() > MAX_NAME_BYTES || !take(track) {
            return entries.len();
        }
        entries = rest;
    }
    0
}

/// How many tracks these bytes are, or `None` if they are not tracks.
pub(crate) fn count(mut entries: &[u8]) -> Option<u32> {
    let mut n = 0;
    while !entries.is_empty() {
        let name = entries.get(..HEAD).map(|head| u16_at(head, 6) as usize)?;
        entries = entries.get(HEAD + name..)?;
        n += 1;
    }
    Some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn track_has_every_byte_where_the_format_says() {
        let mut out = Vec::new();
        push_track(&mut out, 0x0102_0304, TrackKind::GpuQueue, 0x1112_1314_1516_1718, "gpu");
        assert_eq!(out[..8], [4, 3, 2, 1, 2, 0, 3, 0]);
        assert_eq!(out[8..16], [0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]);
        assert_eq!(&out[16..], b"gpu");
    }

    #[test]
    fn tracks_come_back_and_a_cut_table_keeps_its_start() {
        let mut out = Vec::new();
        push_track(&mut out, 1, TrackKind::Thread, 9, &"\u{E9}".repeat(600));
        let whole = out.len();
        push_track(&mut out, 2, TrackKind::Unknown(200), 0, "");
        let mut tracks = Vec::new();
        assert_eq!(parse_tracks(&out, |track| tracks.push(track)), 0);
        assert_eq!(count(&out), Some(2));
        assert_eq!((tracks[0].name.len(), tracks[1].kind), (1024, TrackKind::Unknown(200)));
        for cut in whole + 1..out.len() {
            let mut ids = Vec::new();
            assert_eq!(parse_tracks(&out[..cut], |track| ids.push(track.id)), cut - whole);
            assert_eq!((ids.as_slice(), count(&out[..cut])), (&[1][..], None));
        }
    }
}
