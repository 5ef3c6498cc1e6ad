//! What a reader found damaged: where, what was there, and how it knows.

use crate::chunk::{ChunkKind, section_name};
use std::fmt;
use std::ops::{Range, RangeInclusive};

/// One damaged part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it is. Empty if bytes are missing rather than wrong.
    pub bytes: Range<u64>,
    /// What was there.
    pub what: Damaged,
    /// How the reader knows.
    pub why: Why,
}

/// What was damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damaged {
    /// Both copies of the vitals.
    Vitals,
    /// Both copies of an in-flight entry.
    InFlight {
        /// Which one.
        entry: u32,
    },
    /// The rest of a raw slot.
    RawSlot {
        /// Which one.
        slot: u32,
        /// Sequence of the chunk it would have become.
        sequence: u64,
        /// Units that were published and cannot be read; 0 if even that is unknown.
        units: u32,
    },
    /// A chunk whose header is intact.
    Chunk {
        /// What it holds.
        kind: ChunkKind,
        /// Its sequence number.
        sequence: u64,
        /// Its events; 0 if they are all in a raw slot still.
        events: u64,
    },
    /// Bytes of the log, or of the ring, that once were chunks.
    Chunks {
        /// Sequence numbers of the data chunks that are missing there.
        sequences: Vec<RangeInclusive<u64>>,
        /// Events that were in them, if the vitals tell.
        events: Option<u64>,
    },
    /// A table, or the end of one.
    Table {
        /// Sequence number of the chunk.
        sequence: u64,
        /// Kind of the section.
        section: u16,
    },
    /// An area that the file is too short for.
    Area {
        /// Which one.
        name: &'static str,
    },
}

/// How a reader knows that something is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A checksum over it is wrong.
    Checksum,
    /// The file ends before it does.
    CutOff,
    /// There are zeros in its place.
    Zeros,
    /// There is something else in its place.
    NoHeader,
    /// There is no header of a raw slot in its place.
    NoSlot,
    /// A chunk of another recording is in its place.
    OtherRecording,
    /// It is larger than the format allows, or its parts do not fit into it.
    Lengths,
    /// A reserved bit is set: a newer version of ringscope can read it.
    Reserved,
    /// It does not unpack to what its directory says.
    Unpacking,
    /// It ends in the middle of an entry, or an entry is larger than the format allows.
    Entries,
    /// A unit that is neither a record nor a slot of one, or a batch that is not whole.
    Units,
    /// Its neighbours are there and it is not.
    Gap,
    /// The system could not read it.
    Unreadable,
    /// All tables of this kind together are larger than the format allows.
    TooManyTables,
}

impl Why {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Why::Checksum => "checksum mismatch",
            Why::CutOff => "cut off by the end of the file",
            Why::Zeros => "zeros instead",
            Why::NoHeader => "no chunk header",
            Why::NoSlot => "no slot header",
            Why::OtherRecording => "it belongs to another recording",
            Why::Lengths => "lengths that the format does not allow",
            Why::Reserved => {
                "a reserved bit is set, which only a newer version of ringscope can read"
            }
            Why::Unpacking => "it does not unpack to its size",
            Why::Entries => "an entry that is cut off or too large",
            Why::Units => "a batch that is not whole events",
            Why::Gap => "missing between chunks that are there",
            Why::Unreadable => "the system could not read it",
            Why::TooManyTables => "larger than the format allows, taken together",
        }
    }
}

impl Damage {
    /// Events that are lost by it, if that is known.
    pub fn events(&self) -> Option<u64> {
        match &self.what {
            Damaged::Chunk { events, .. } => Some(*events),
            Damaged::Chunks { events, .. } => *events,
            Damaged::RawSlot { .. } => None,
            _ => Some(0),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.bytes.start;
        let why = self.why.describe();
        match &self.what {
            Damaged::Vitals => write!(f, "vitals at byte {at:#x}: {why}; what was lost is unknown"),
            Damaged::InFlight { entry } => write!(
                f,
                "in-flight entry {entry} at byte {at:#x}: {why}; one stack of open spans is lost"
            ),
            Damaged::RawSlot { slot, units: 0, .. } => {
                write!(f, "raw slot {slot} at byte {at:#x}: {why}; what was in it is lost")
            }
            Damaged::RawSlot { slot, sequence, units } => write!(
                f,
                "raw slot {slot} (chunk {sequence}) at byte {at:#x}: {why}; \
                 {units} units of {} are lost, what comes before them is intact",
                crate::record::UNIT
            ),
            Damaged::Chunk { kind: ChunkKind::DATA, sequence, events: 0 } => {
                write!(f, "chunk {sequence} at byte {at:#x}: {why}; no event is lost")
            }
            Damaged::Chunk { kind: ChunkKind::DATA, sequence, events } => {
                write!(f, "chunk {sequence} at byte {at:#x}: {why}; {} lost", events_are(*events))
            }
            Damaged::Chunk { kind, sequence, .. } => {
                let what = match *kind {
                    ChunkKind::NAMES => "names",
                    ChunkKind::METADATA => "metadata",
                    ChunkKind::OPEN_SPANS => "open spans",
                    _ => "unknown",
                };
                write!(f, "{what} chunk {sequence} at byte {at:#x}: {why}; no event is lost")
            }
            Damaged::Chunks { sequences, events } => {
                if self.bytes.is_empty() && sequences.is_empty() {
                    write!(f, "end of the file at byte {at:#x}: chunks are missing")?;
                } else if self.bytes.is_empty() {
                    write!(f, "{} before byte {at:#x}: {why}", list(sequences))?;
                } else {
                    let length = self.bytes.end - at;
                    write!(f, "{length} bytes at {at:#x}: {why}; {}", list(sequences))?;
                    f.write_str(match sequences.as_slice() {
                        [] => "",
                        [one] if one.start() == one.end() => " is missing",
                        _ => " are missing",
                    })?;
                }
                match events {
                    Some(0) => f.write_str("; no event is lost"),
                    Some(events) => write!(f, "; {} lost", events_are(*events)),
                    None => f.write_str("; how many events were there is unknown"),
                }
            }
            Damaged::Table { sequence, section } => write!(
                f,
                "{} of chunk {sequence} at byte {at:#x}: {why}; events are not affected",
                section_name(*section)
            ),
            Damaged::Area { name } => write!(f, "{name} at byte {at:#x}: {why}"),
        }
    }
}

fn events_are(events: u64) -> String {
    if events == 1 { "1 event is".to_owned() } else { format!("{events} events are") }
}

fn list(sequences: &[RangeInclusive<u64>]) -> String {
    let one = |range: &RangeInclusive<u64>| match (range.start(), range.end()) {
        (a, b) if a == b => format!("{a}"),
        (a, b) => format!("{a} to {b}"),
    };
    let several = match sequences {
        [] => return "no chunk is missing".to_owned(),
        [range] => range.start() != range.end(),
        _ => true,
    };
    let ranges: Vec<String> = sequences.iter().map(one).collect();
    format!("{} {}", if several { "chunks" } else { "chunk" }, ranges.join(", "))
}
