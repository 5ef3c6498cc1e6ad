//! The ringscope trace format: the one implementation of `SPEC.md`, which stands
//! beside this crate and is the authority.
//!
//! What it promises:
//!
//! - **A killed process leaves a file that opens without repair.** Events are in
//!   the file once [`SlotWriter::publish`] has returned; the hand-over from raw
//!   slot to sealed chunk can stop after any step without losing or doubling one.
//! - **A reader never trusts a length.** Every length is checked against the
//!   format's limits and the length of the file before memory is taken for it.
//! - **Damage is told exactly.** [`Trace::open`] fails only for an unusable file
//!   header; [`Trace::damage`] says which bytes are damaged, which chunks and how many
//!   events that costs, and everything else is read.
//! - **A reader that wants two columns decodes two**, on as many threads as it likes.
//! - **Texts that are longer than an event holds** lie beside the events and are
//!   decoded for those who ask: [`Columns::LONG_TEXTS`].
//! - **What runs in the measured program allocates nothing and never panics**:
//!   [`Record`], [`slots_needed`], [`write_slots`], [`SlotWriter`], [`write_in_flight`].
//!
//! What it does not do: it knows no threads, no clocks and no paths. Those are the
//! recorder's, and whoever opens a file puts its path before an error.
//!
//! # From a raw slot to a column
//!
//! ```
//! use ringscope_format::*;
//!
//! // A recorder drains records into a raw slot, usually in a mapped file...
//! let records = [
//!     Record { depth: 1, ..Record::timed(Kind::SPAN, 2, 1, 1_010, 80) },
//!     Record::timed(Kind::SPAN, 1, 1, 1_000, 100),
//! ];
//! let mut slot = vec![0; SLOT_HEAD + 16 * UNIT];
//! let mut writer = SlotWriter::begin(&mut slot, 1);
//! assert!(writer.push_events(0, 1_200, 2, &records, &[]));
//! writer.mark_full();
//!
//! // ...and seals it when it is full.
//! let header = FileHeader {
//!     recording: *b"a random uuid v4",
//!     file_number: 0,
//!     mode: Mode::Full,
//!     pid: 1,
//!     created_wall_ns: 0,
//!     created_tick: 0,
//!     counter: Counter::MonotonicNs,
//!     nominal_hz: 1_000_000_000,
//!     layout: Layout::finished(),
//! };
//! let mut file = header.to_bytes().to_vec();
//! file.resize(header.layout.log_offset as usize, 0);
//! let mut encoder = ChunkEncoder::new(header.recording)?;
//! let mut content = RawContent::default();
//! assert!(content.read_into(&slot));
//! file.extend_from_slice(encoder.data(&content, &[])?);
//!
//! // A reader takes the columns it wants.
//! let trace = Trace::open(file)?;
//! assert!(trace.damage().is_empty());
//! for chunk in trace.chunks() {
//!     let batch = trace.decode(chunk, Columns::NAME | Columns::VALUE)?;
//!     assert_eq!((batch.name, batch.value), (vec![2, 1], vec![80, 100]));
//! }
//! # Ok::<(), Error>(())
//! ```

mod batch_order;
mod checksum;
mod chunk;
mod chunk_encoder;
mod clock_fit;
mod clock_step;
mod columns;
mod error;
mod file_header;
mod in_flight;
mod limits;
mod little_endian;
mod long_texts;
mod losses;
mod metadata;
mod names;
mod parts;
mod planes;
mod raw_content;
mod raw_slot;
mod reader;
mod record;
#[cfg(feature = "repro")]
pub mod repro;
mod runs;
mod slot_sealing;
mod slots;
mod starts;
mod texture;
mod tracks;
mod twin;
mod vitals;
mod writer;
mod zstd_stream;

pub use chunk::{CHUNK_ALIGN, CHUNK_HEADER_LENGTH, ChunkKind};
pub use chunk_encoder::ChunkEncoder;
pub use clock_fit::{ClockFit, ClockPair, Jump, Suspend, WallStep};
pub use error::Error;
pub use file_header::{
    Counter, FileHeader, HEADER_LENGTH, Layout, Mode, VITALS_LENGTH, VITALS_OFFSET,
    looks_like_a_trace,
};
pub use in_flight::{
    IN_FLIGHT_STRIDE, InFlight, LISTED_FRAMES, OpenSpan, read_in_flight, write_in_flight,
    write_in_flight_from,
};
pub use limits::*;
pub use long_texts::{
    LongRefs, LongText, LongTexts, long_text_bytes, long_text_slot, push_long_text,
};
pub use losses::{Loss, LostCause, SkipCause};
pub use names::{CallSiteEntry, Names, push_call_site, push_name};
pub use raw_content::RawContent;
pub use raw_slot::{BatchKind, SLOT_HEAD, SlotWriter, count_events, mark_free, whole_events};
pub use reader::{Batch, ChunkInfo, Columns, Damage, Damaged, Place, Source, Trace, Why};
pub use record::{Kind, Record, Status, UNIT, ValueType};
pub use slot_sealing::SlotSealing;
pub use slots::{
    EventDetails, Link, LinkRole, OwnedValue, Value, long_refs, parse_slots, request_of,
    slots_needed, slots_needed_with, texts_left_cut, too_wide, write_slots, write_slots_with,
};
pub use tracks::{Track, TrackKind, parse_tracks, push_track};
pub use twin::{TWIN_HEAD, read_twin, write_twin};
pub use vitals::{RecordingState, VITALS_PAYLOAD, Vitals, write_vitals};
pub use writer::TraceWriter;
pub use zstd_stream::{zstd_packed, zstd_reader};
