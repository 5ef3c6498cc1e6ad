//! The ringscope trace format, as `SPEC.md` defines it: records, chunks, names,
//! clocks; writer and reader over bytes.

mod chunk;
mod clock_fit;
mod columns;
mod error;
mod file_header;
mod in_flight;
mod limits;
mod little_endian;
mod losses;
mod metadata;
mod names;
mod raw_content;
mod raw_slot;
mod reader;
mod record;
mod sealing;
mod slots;
mod tracks;
mod twin;
mod vitals;

pub use chunk::{CHUNK_ALIGN, CHUNK_HEADER_LENGTH, ChunkKind};
pub use clock_fit::{ClockFit, ClockPair, Jump, Suspend, WallStep};
pub use error::Error;
pub use file_header::{
    Counter, FileHeader, HEADER_LENGTH, Layout, Mode, VITALS_LENGTH, VITALS_OFFSET,
    looks_like_a_trace,
};
pub use in_flight::{
    IN_FLIGHT_STRIDE, InFlight, LISTED_FRAMES, OpenSpan, read_in_flight, write_in_flight,
};
pub use limits::*;
pub use losses::{Loss, LostCause, SkipCause};
pub use names::{CallSiteEntry, Names, push_call_site, push_name};
pub use raw_content::RawContent;
pub use raw_slot::{BatchKind, SLOT_HEAD, SlotWriter, count_events, mark_free, whole_events};
pub use reader::{Batch, ChunkInfo, Columns, Damage, Damaged, Place, Source, Trace, Why};
pub use record::{Kind, Record, Status, UNIT, ValueType};
pub use sealing::ChunkEncoder;
pub use slots::{
    EventDetails, Link, LinkRole, OwnedValue, Value, parse_slots, slots_needed, too_wide,
    write_slots,
};
pub use tracks::{Track, TrackKind, parse_tracks, push_track};
pub use twin::{TWIN_HEAD, read_twin, write_twin};
pub use vitals::{RecordingState, VITALS_PAYLOAD, Vitals};
