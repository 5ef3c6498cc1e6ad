//! Writing a whole trace in one go: for converters, generators and tests. A
//! recorder, whose file has to survive its death, goes about it differently.

use crate::clock_fit::ClockPair;
use crate::error::Error;
use crate::file_header::{FileHeader, HEADER_LENGTH, Layout, VITALS_LENGTH, VITALS_OFFSET};
use crate::in_flight::OpenSpan;
use crate::losses::{Loss, LostCause};
use crate::names::push_name;
use crate::raw_content::RawContent;
use crate::record::Record;
use crate::sealing::ChunkEncoder;
use crate::slots::{Link, Value, slots_needed, too_wide, write_slots};
use crate::tracks::{TrackKind, push_track};
use crate::twin::write_twin;
use crate::vitals::{RecordingState, Vitals};
use std::collections::HashMap;
use std::io::{Seek, SeekFrom, Write};

/// Units in one chunk: larger ones compress no better.
const UNITS_PER_CHUNK: usize = 16_384;

/// Writes a trace from its first byte to its last.
///
/// Events of a track are to be given in the order in which they ended: that is
/// the order in which a recorder writes them, and nesting is read off it.
///
/// ```
/// use ringscope_format::{Counter, FileHeader, Kind, Layout, Mode, Record, Trace, TraceWriter, TrackKind};
///
/// let header = FileHeader {
///     recording: [7; 16],
///     file_number: 0,
///     mode: Mode::Converted,
///     pid: 1,
///     created_wall_ns: 0,
///     created_tick: 0,
///     counter: Counter::MonotonicNs,
///     nominal_hz: 1_000_000_000,
///     layout: Layout::finished(),
/// };
/// let mut writer = TraceWriter::new(std::io::Cursor::new(Vec::new()), header)?;
/// let (name, track) = (writer.name("step"), writer.track(TrackKind::Thread, 1, "main"));
/// writer.event(Record::timed(Kind::SPAN, name, track, 100, 25), &[], &[])?;
/// let bytes = writer.finish()?.into_inner();
/// assert_eq!(Trace::open(bytes)?.chunks()[0].events, 1);
/// # Ok::<(), ringscope_format::Error>(())
/// ```
pub struct TraceWriter<W> {
    out: W,
    encoder: ChunkEncoder,
    content: RawContent,
    chunks: u64,
    names: HashMap<String, u32>,
    tracks: u32,
    open: Vec<(OpenSpan, u32)>,
    vitals: Vitals,
}

impl<W: Write + Seek> TraceWriter<W> {
    /// Begins a file. Of the header all is taken but the layout, which is that
    /// of a file that only has chunks.
    pub fn new(mut out: W, header: FileHeader) -> Result<Self, Error> {
        let header = FileHeader { layout: Layout::finished(), ..header };
        let mut page = vec![0; HEADER_LENGTH as usize];
        let fixed = header.to_bytes();
        page[..fixed.len()].copy_from_slice(&fixed);
        out.write_all(&page)?;
        Ok(Self {
            out,
            encoder: ChunkEncoder::new(header.recording)?,
            content: RawContent { sequence: 1, ..RawContent::default() },
            chunks: 0,
            names: HashMap::new(),
            tracks: 0,
            open: Vec::new(),
            vitals: Vitals { state: RecordingState::Finished, ..Vitals::default() },
        })
    }

    /// Keys and values about where the trace comes from.
    pub fn metadata(&mut self, pairs: &[(&str, &str)]) -> Result<(), Error> {
        self.chunks += 1;
        let chunk = self.encoder.metadata(self.chunks, pairs)?;
        Ok(self.out.write_all(chunk)?)
    }

    /// The id of a name.
    pub fn name(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.names.get(text) {
            return id;
        }
        let id = self.names.len() as u32 + 1;
        self.names.insert(text.to_owned(), id);
        push_name(&mut self.content.names, id, text);
        id
    }

    /// The id of a new track.
    pub fn track(&mut self, kind: TrackKind, os_id: u64, name: &str) -> u32 {
        self.tracks += 1;
        push_track(&mut self.content.tracks, self.tracks, kind, os_id, name);
        self.tracks
    }

    /// A reading of the clocks; they are to be given in order.
    pub fn clock_pair(&mut self, pair: ClockPair) {
        self.content.clocks.extend_from_slice(bytemuck::bytes_of(&pair));
    }

    /// Notes that events are missing.
    pub fn lose(&mut self, track: u32, cause: LostCause, events: u64) {
        let total = &mut self.vitals.lost[cause as usize];
        *total += events;
        let loss = Loss {
            track,
            class: 1,
            cause: cause as u8,
            unused: 0,
            events,
            slots: 0,
            not_before: 0,
            not_after: 0,
            total: *total,
        };
        self.content.losses.extend_from_slice(bytemuck::bytes_of(&loss));
    }

    /// A span that was open at the end, with its depth.
    pub fn open_span(&mut self, span: OpenSpan, depth: u32) {
        self.open.push((span, depth));
    }

    /// An event with its fields and links. The record's number of slots is put right.
    pub fn event(
        &mut self,
        mut record: Record,
        fields: &[(u32, Value<'_>)],
        links: &[Link],
    ) -> Result<(), Error> {
        let slots = slots_needed(fields, links);
        if too_wide(fields, links) {
            let (count, limit) = (slots as u64, crate::limits::MAX_SLOTS as u64);
            return Err(Error::TooMuch { what: "slots of an event", count, limit });
        }
        if self.content.events.len() + 1 + slots > UNITS_PER_CHUNK {
            self.end_chunk()?;
        }
        record.shape = Record::shape_of(slots, record.value_type());
        self.content.events.push(record);
        write_slots(fields, links, |unit| self.content.events.push(unit));
        self.vitals.stored += 1;
        self.vitals.stored_slots += slots as u64;
        self.vitals.tick = self.vitals.tick.max(record.end());
        Ok(())
    }

    /// Writes what is left, and the vitals.
    pub fn finish(mut self) -> Result<W, Error> {
        self.end_chunk()?;
        if !self.open.is_empty() {
            self.chunks += 1;
            let chunk = self.encoder.open_spans(self.chunks, self.vitals.tick, &self.open)?;
            self.out.write_all(chunk)?;
        }
        let end = self.out.stream_position()?;
        self.vitals.bytes = end - HEADER_LENGTH;
        let mut block = [0; VITALS_LENGTH];
        write_twin(&mut block, 1, &self.vitals.to_bytes());
        self.out.seek(SeekFrom::Start(VITALS_OFFSET as u64))?;
        self.out.write_all(&block)?;
        self.out.seek(SeekFrom::Start(end))?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Ends a chunk before it is full: what comes next can be read without it.
    pub fn end_chunk(&mut self) -> Result<(), Error> {
        let content = &mut self.content;
        if !content.names.is_empty() {
            self.chunks += 1;
            let chunk = self.encoder.names(self.chunks, &content.names)?;
            self.out.write_all(chunk)?;
        }
        let chunk = self.encoder.data(content, &[])?;
        self.out.write_all(chunk)?;
        let sequence = content.sequence + 1;
        content.events.clear();
        content.names.clear();
        content.tracks.clear();
        content.clocks.clear();
        content.losses.clear();
        content.sequence = sequence;
        Ok(())
    }
}
