//! Writing a whole trace in one go: for converters, generators and tests. A
//! recorder, whose file has to survive its death, goes about it differently.

use crate::chunk_encoder::ChunkEncoder;
use crate::clock_fit::ClockPair;
use crate::error::Error;
use crate::file_header::{FileHeader, HEADER_LENGTH, Layout, VITALS_LENGTH, VITALS_OFFSET};
use crate::in_flight::OpenSpan;
use crate::limits::MAX_SLOTS;
use crate::long_texts::{LongRefs, push_long_text};
use crate::losses::{Loss, LostCause};
use crate::names::{push_call_site, push_name};
use crate::raw_content::RawContent;
use crate::record::Record;
use crate::slots::{Link, Value, long_refs, slots_needed_with, too_wide, write_slots_with};
use crate::tracks::{TrackKind, push_track};
use crate::twin::write_twin;
use crate::vitals::{RecordingState, Vitals};
use std::collections::{HashMap, VecDeque};
use std::io::{Seek, SeekFrom, Write};

/// Units in one chunk: larger ones compress no better.
const UNITS_PER_CHUNK: usize = 16_384;
/// Bytes from which on a table is not added to: far from the format's limits, and
/// enough to compress well.
const TABLE_BYTES: usize = 1 << 20;

/// Writes a trace from its first byte to its last.
///
/// Events of a track are to be given in the order in which they ended: that is
/// the order in which a recorder writes them, and nesting is read off it.
///
/// ```
/// use ringscope_format::{FileHeader, Kind, Record, Trace, TraceWriter, TrackKind};
///
/// let header = FileHeader::converted([7; 16], 0);
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
    /// Contents with a full table, to be written before `content`: what fills
    /// tables cannot fail, and so does not write.
    waiting: VecDeque<RawContent>,
    /// Long texts of the event that comes next, and how many there were so far.
    texts: Vec<u8>,
    texts_given: u64,
    /// Of the next data chunk.
    sequence: u64,
    chunks: u64,
    names: HashMap<String, u32>,
    tracks: u32,
    /// Tracks of recorders, whose events are counted apart.
    recorders: Vec<u32>,
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
            content: RawContent::default(),
            waiting: VecDeque::new(),
            texts: Vec::new(),
            texts_given: 0,
            sequence: 1,
            chunks: 0,
            names: HashMap::new(),
            tracks: 0,
            recorders: Vec::new(),
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
        self.part_if_full();
        id
    }

    /// A place in the source where a name is used; `file` and `module` are the ids of
    /// names too.
    pub fn call_site(&mut self, name: u32, line: u32, file: u32, module: u32) {
        push_call_site(&mut self.content.names, name, line, file, module);
        self.part_if_full();
    }

    /// The id of a new track.
    pub fn track(&mut self, kind: TrackKind, os_id: u64, name: &str) -> u32 {
        self.tracks += 1;
        if kind == TrackKind::Recorder {
            self.recorders.push(self.tracks);
        }
        push_track(&mut self.content.tracks, self.tracks, kind, os_id, name);
        self.part_if_full();
        self.tracks
    }

    /// A reading of the clocks; they are to be given in order.
    pub fn clock_pair(&mut self, pair: ClockPair) {
        self.content.clocks.extend_from_slice(bytemuck::bytes_of(&pair));
        self.part_if_full();
    }

    /// Notes that events are missing.
    pub fn lose(&mut self, track: u32, cause: LostCause, events: u64) {
        let total = &mut self.vitals.lost[cause as usize];
        *total = total.saturating_add(events);
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
        self.part_if_full();
    }

    /// A loss as another file tells it, with its times. Counts nothing: the totals of
    /// that file come with [`missing`](Self::missing).
    pub fn loss(&mut self, loss: Loss) {
        self.content.losses.extend_from_slice(bytemuck::bytes_of(&loss));
        self.part_if_full();
    }

    /// Adds what these vitals count as lost, skipped or overwritten: the events of
    /// another file that are not in it, and so not in this one either. Its last tick
    /// is taken as well, for open spans are as long as that tells.
    pub fn missing(&mut self, of: &Vitals) {
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        let to = &mut self.vitals;
        for cause in 0..to.lost.len() {
            add(&mut to.lost[cause], of.lost[cause]);
            add(&mut to.lost_slots[cause], of.lost_slots[cause]);
            add(&mut to.skipped[cause], of.skipped[cause]);
        }
        // What was overwritten counts as stored, too.
        add(&mut to.stored, of.overwritten);
        add(&mut to.overwritten, of.overwritten);
        add(&mut to.texts_cut, of.texts_cut);
        to.tick = to.tick.max(of.tick);
    }

    /// A span that was open at the end, with its depth.
    pub fn open_span(&mut self, span: OpenSpan, depth: u32) {
        self.open.push((span, depth));
    }

    /// A long text of the event that is given next, which is to have a
    /// [`long_text_slot`](crate::long_text_slot) of the number that this returns. `cut` if
    /// its end is missing.
    pub fn long_text(&mut self, text: &str, cut: bool) -> u64 {
        self.texts_given += 1;
        push_long_text(&mut self.texts, self.texts_given, text, cut);
        self.vitals.long_texts += 1;
        self.texts_given
    }

    /// An event with its fields and links. The record's number of slots is put right;
    /// texts that do not fit into slots become long texts.
    pub fn event(
        &mut self,
        mut record: Record,
        fields: &[(u32, Value<'_>)],
        links: &[Link],
    ) -> Result<(), Error> {
        let mut long = long_refs(fields, links);
        let slots = slots_needed_with(fields, links, long);
        if too_wide(fields, links) {
            let (count, limit) = (slots as u64, crate::limits::MAX_SLOTS as u64);
            return Err(Error::TooMuch { what: "slots of an event", count, limit });
        }
        if long != LongRefs::NONE {
            long.first_number = self.texts_given + 1;
            for (_, text) in long.texts(fields) {
                self.long_text(text, false);
            }
        }
        self.begin_event(&mut record, slots)?;
        write_slots_with(fields, links, long, |unit| self.content.events.push(unit));
        Ok(())
    }

    /// An event with its slots as another file has them; ids in them are taken as
    /// they are. The record's number of slots is put right.
    pub fn event_with_slots(&mut self, mut record: Record, slots: &[Record]) -> Result<(), Error> {
        let (count, limit) = (slots.len(), MAX_SLOTS);
        if count > limit {
            let (count, limit) = (count as u64, limit as u64);
            return Err(Error::TooMuch { what: "slots of an event", count, limit });
        }
        // Found now, it costs this event; in a chunk, it would cost the chunk.
        if !record.kind.is_base() {
            return Err(Error::Misplaced { unit: 0 });
        }
        if let Some(at) = slots.iter().position(|slot| !slot.kind.is_slot()) {
            return Err(Error::Misplaced { unit: at + 1 });
        }
        self.begin_event(&mut record, count)?;
        self.content.events.extend_from_slice(slots);
        Ok(())
    }

    /// Stores a record that so many slots will follow.
    fn begin_event(&mut self, record: &mut Record, slots: usize) -> Result<(), Error> {
        self.write_waiting()?;
        let is_full = self.content.long_texts.len() + self.texts.len() > TABLE_BYTES
            && !self.content.long_texts.is_empty();
        if self.content.events.len() + 1 + slots > UNITS_PER_CHUNK || is_full {
            self.end_chunk()?;
        }
        // Into the chunk of their event, and not into another.
        self.content.long_texts.append(&mut self.texts);
        record.shape = Record::shape_of(slots, record.value_type());
        self.content.events.push(*record);
        if self.recorders.contains(&record.track) {
            self.vitals.own += 1;
        } else {
            // What other files miss may count as stored, and be any number.
            self.vitals.stored = self.vitals.stored.saturating_add(1);
            self.vitals.stored_slots += slots as u64;
        }
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
        self.write_waiting()?;
        let mut content = std::mem::take(&mut self.content);
        let written = self.write(&mut content);
        if written.is_ok() {
            content.events.clear();
            content.clear_tables();
        }
        self.content = content;
        written
    }

    fn write_waiting(&mut self) -> Result<(), Error> {
        while let Some(mut content) = self.waiting.pop_front() {
            if let Err(error) = self.write(&mut content) {
                self.waiting.push_front(content);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write(&mut self, content: &mut RawContent) -> Result<(), Error> {
        if !content.names.is_empty() {
            self.chunks += 1;
            let chunk = self.encoder.names(self.chunks, &content.names)?;
            self.out.write_all(chunk)?;
        }
        content.sequence = self.sequence;
        let chunk = self.encoder.data(content, &[])?;
        self.out.write_all(chunk)?;
        self.sequence += 1;
        Ok(())
    }

    /// Puts the content aside if a table is full.
    fn part_if_full(&mut self) {
        let RawContent { names, tracks, clocks, losses, .. } = &self.content;
        if [names, tracks, clocks, losses].iter().any(|table| table.len() >= TABLE_BYTES) {
            self.waiting.push_back(std::mem::take(&mut self.content));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Trace, write_slots};
    use std::io::Cursor;

    fn writer() -> TraceWriter<Cursor<Vec<u8>>> {
        let header = FileHeader::converted([7; 16], 0);
        TraceWriter::new(Cursor::new(Vec::new()), header).unwrap()
    }

    #[test]
    fn any_number_of_names_fits_before_the_first_event() {
        let mut writer = writer();
        // More than 32 MiB, which is what one section takes.
        let text = |at: u32| format!("{at:0200}");
        let track = writer.track(TrackKind::Thread, 1, "main");
        let ids: Vec<u32> = (0..200_000).map(|at| writer.name(&text(at))).collect();
        writer.event(Record::timed(Kind::SPAN, ids[199_999], track, 100, 25), &[], &[]).unwrap();
        let trace = Trace::open(writer.finish().unwrap().into_inner()).unwrap();
        assert!(trace.damage().is_empty());
        assert_eq!(trace.names().len(), 200_000);
        for at in [0, 100_000, 199_999] {
            assert_eq!(trace.names().get(ids[at as usize]), Some(text(at).as_str()));
        }
        assert_eq!(trace.chunks().iter().map(|chunk| chunk.events).sum::<u32>(), 1);
    }

    #[test]
    fn any_number_of_tracks_and_losses_fits_behind_the_last_event() {
        let mut writer = writer();
        let name = writer.name("step");
        writer.event(Record::timed(Kind::SPAN, name, 1, 100, 25), &[], &[]).unwrap();
        let long = "t".repeat(1_000);
        for _ in 0..40_000 {
            writer.track(TrackKind::Thread, 1, &long);
        }
        for _ in 0..1_000_000 {
            writer.lose(1, LostCause::RingFull, 1);
        }
        let trace = Trace::open(writer.finish().unwrap().into_inner()).unwrap();
        assert!(trace.damage().is_empty());
        assert_eq!(trace.tracks().len(), 40_000);
        assert_eq!(trace.losses().iter().map(|loss| loss.events).sum::<u64>(), 1_000_000);
        assert_eq!(trace.chunks().iter().map(|chunk| chunk.events).sum::<u32>(), 1);
    }

    #[test]
    fn event_with_slots_as_they_lie_in_a_file_comes_back_and_a_misplaced_unit_is_refused() {
        let mut writer = writer();
        let (name, track) = (writer.name("step"), writer.track(TrackKind::Thread, 1, "main"));
        writer.call_site(name, 17, name, name);
        let mut slots = Vec::new();
        write_slots(&[(name, Value::Text("a text of more than one slot"))], &[], |it| {
            slots.push(it);
        });
        let span = Record::timed(Kind::SPAN, name, track, 100, 25);
        writer.event_with_slots(span, &slots).unwrap();
        let wrong = |it: Result<(), Error>| it.unwrap_err().to_string();
        assert!(wrong(writer.event_with_slots(slots[0], &[])).starts_with("unit 0 "));
        assert!(wrong(writer.event_with_slots(span, &[slots[0], span])).starts_with("unit 2 "));
        assert!(wrong(writer.event_with_slots(span, &[slots[0]; 32])).starts_with("32 slots"));
        let trace = Trace::open(writer.finish().unwrap().into_inner()).unwrap();
        let batch = trace.decode(&trace.chunks()[0], crate::Columns::ALL).unwrap();
        let stored: Vec<_> = batch.records().collect();
        assert_eq!(stored, [(Record { shape: 2, ..span }, &slots[..])]);
        assert_eq!(trace.names().call_sites(name)[0].line, 17);
    }

    #[test]
    fn what_is_missing_in_another_file_is_missing_in_this_one() {
        let mut writer = writer();
        let (name, own) = (writer.name("step"), writer.track(TrackKind::Recorder, 1, "own"));
        writer.event(Record::timed(Kind::SPAN, name, own, 100, 25), &[], &[]).unwrap();
        let mut other = Vitals { tick: 999, overwritten: 7, ..Vitals::default() };
        (other.lost[1], other.lost_slots[1], other.skipped[2]) = (3, 4, 5);
        writer.missing(&other);
        let loss = Loss { track: own, class: Loss::LOST, cause: 1, events: 3, ..Loss::default() };
        let loss = Loss { slots: 4, not_before: 10, not_after: 20, total: 3, ..loss };
        writer.loss(loss);
        let trace = Trace::open(writer.finish().unwrap().into_inner()).unwrap();
        let vitals = trace.vitals().unwrap();
        assert_eq!((vitals.lost, vitals.lost_slots), (other.lost, other.lost_slots));
        assert_eq!((vitals.skipped, vitals.tick), (other.skipped, 999));
        assert_eq!((vitals.own, vitals.stored, vitals.overwritten), (1, 7, 7));
        assert_eq!(trace.losses(), [loss]);
    }

    #[test]
    fn counts_of_other_files_that_no_number_holds_are_as_large_as_one_can_be() {
        let mut writer = writer();
        let all = [u64::MAX; 8];
        writer.missing(&Vitals { overwritten: u64::MAX, lost: all, ..Vitals::default() });
        writer.lose(0, LostCause::Damaged, 5);
        writer.event(Record::timed(Kind::SPAN, 1, 1, 100, 25), &[], &[]).unwrap();
        let trace = Trace::open(writer.finish().unwrap().into_inner()).unwrap();
        let vitals = trace.vitals().unwrap();
        assert_eq!((vitals.stored, vitals.lost), (u64::MAX, all));
    }

    #[test]
    fn trace_without_a_file_header_is_read_by_its_chunks() {
        let mut writer = writer();
        let (name, track) = (writer.name("step"), writer.track(TrackKind::Thread, 1, "main"));
        writer.event(Record::timed(Kind::SPAN, name, track, 100, 25), &[], &[]).unwrap();
        let mut bytes = writer.finish().unwrap().into_inner();
        bytes[..256].fill(0);
        assert!(Trace::open(bytes.clone()).is_err());
        let trace = Trace::open_by_chunks(bytes.clone()).unwrap();
        assert_eq!((trace.damage(), trace.header().recording), (&[][..], [7; 16]));
        assert_eq!((trace.chunks()[0].events, trace.names().get(name)), (1, Some("step")));
        bytes.truncate(HEADER_LENGTH as usize);
        assert!(Trace::open_by_chunks(bytes).is_none());
    }
}
