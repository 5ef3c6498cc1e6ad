//! One trace, opened.

use super::batch::{Batch, Columns};
use super::damage::{Damage, Why};
use super::decode::{self, SealedChunk};
use super::inventory::Inventory;
use super::source::Source;
use super::tables::ToldOpen;
use super::walk::{Found, first_recording};
use crate::chunk::{SectionEntry, section};
use crate::clock_fit::{ClockFit, ClockPair};
use crate::error::Error;
use crate::file_header::{Counter, FIXED_LENGTH, FileHeader, MINOR, TELLS_OF_PARTS};
use crate::in_flight::{InFlight, OpenSpan};
use crate::losses::Loss;
use crate::names::Names;
use crate::raw_content::RawContent;
use crate::record::{Kind, Record};
use crate::tracks::Track;
use crate::vitals::Vitals;
use std::collections::{BTreeMap, HashSet};

/// A file that is being written may look damaged while it changes. Only what
/// looks the same at the next look is damaged.
const LOOKS: usize = 4;

/// Where a data chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the log or ring area.
    Sealed {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        length: u32,
    },
    /// In a raw slot, and sealed nowhere.
    Raw {
        /// Which one.
        slot: u32,
    },
}

/// One data chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Its sequence number.
    pub sequence: u64,
    /// How many events it has.
    pub events: u32,
    /// How many slots these have.
    pub slots: u32,
    /// Earliest start of its events, in ticks; 0 without events.
    pub first_tick: u64,
    /// Latest end of its events, in ticks; 0 without events.
    pub last_tick: u64,
    /// Bytes of its long texts, unpacked.
    pub long_text_bytes: u32,
    /// Where it is.
    pub place: Place,
    pub(crate) origin: u64,
    pub(crate) sections: Box<[SectionEntry]>,
}

impl ChunkInfo {
    pub(crate) fn sealed(found: Found) -> ChunkInfo {
        let header = found.header;
        ChunkInfo {
            sequence: header.sequence,
            events: header.events,
            slots: header.slots,
            first_tick: header.first_tick,
            last_tick: header.last_tick,
            long_text_bytes: {
                let mut sections = found.sections.iter();
                let texts = sections.find(|entry| entry.kind == section::LONG_TEXTS);
                texts.map_or(0, |entry| entry.raw)
            },
            place: Place::Sealed { offset: found.offset, length: header.length },
            origin: header.origin,
            sections: found.sections,
        }
    }

    pub(crate) fn raw(slot: u32, content: &RawContent) -> ChunkInfo {
        let records = || content.events.iter().filter(|unit| !unit.kind.is_slot());
        let events = records().count();
        ChunkInfo {
            sequence: content.sequence,
            events: events as u32,
            slots: (content.events.len() - events) as u32,
            first_tick: records().map(|record| record.start).min().unwrap_or(0),
            last_tick: records().map(Record::end).max().unwrap_or(0),
            long_text_bytes: content.long_texts.len() as u32,
            place: Place::Raw { slot },
            origin: 0,
            sections: Box::default(),
        }
    }
}

/// A trace file: what it is, what is in it, and what is damaged.
///
/// It holds names, tables and the content of raw slots; columns are read when
/// they are asked for, by as many threads at once as the caller likes.
pub struct Trace<S> {
    source: S,
    header: FileHeader,
    inventory: Inventory,
    tracks: Vec<Track>,
    losses: Vec<Loss>,
    /// In which chunk each of them is; rising.
    loss_sequences: Vec<u64>,
    clock_pairs: Vec<ClockPair>,
    clock: ClockFit,
    tells_of_parts: bool,
}

impl<S: Source> Trace<S> {
    /// Opens a trace. It fails only if the file header is unusable; whatever
    /// else is damaged is in [`damage`](Self::damage).
    pub fn open(source: S) -> Result<Trace<S>, Error> {
        let length = source.len()?.min(FIXED_LENGTH as u64) as usize;
        let mut fixed = [0; FIXED_LENGTH];
        source.read_exact_at(&mut fixed[..length], 0)?;
        let header = FileHeader::parse(&fixed[..length])?;
        Ok(Self::with_header(source, header, FileHeader::minor_version(&fixed)))
    }

    /// Opens a trace by its chunks alone, for want of a usable file header; `None` if
    /// there is none. What only the header tells is not known: where raw slots and
    /// stacks in flight are, and, without two clock pairs, how long a tick is, which is
    /// then taken for a nanosecond.
    pub fn open_by_chunks(source: S) -> Option<Trace<S>> {
        let recording = first_recording(&source)?;
        Some(Self::with_header(source, FileHeader::converted(recording, 0), MINOR))
    }

    fn with_header(source: S, header: FileHeader, minor: u16) -> Trace<S> {
        let tells_of_parts = minor >= TELLS_OF_PARTS;
        let mut inventory = Inventory::take(&source, &header, tells_of_parts);
        for _ in 1..LOOKS {
            if inventory.damage.is_empty() || inventory.is_complete() {
                break;
            }
            let before = inventory.damage;
            inventory = Inventory::take(&source, &header, tells_of_parts);
            if inventory.damage == before {
                break;
            }
            inventory.damage.retain(|it| before.contains(it));
        }
        let tables = &mut inventory.tables;
        let tracks = std::mem::take(&mut tables.tracks).into_values().collect();
        tables.losses.sort_by_key(|(sequence, _)| *sequence);
        let (loss_sequences, losses) = std::mem::take(&mut tables.losses).into_iter().unzip();
        let mut clock_pairs = in_order(std::mem::take(&mut tables.clock_pairs));
        // Pairs are repeated where a recording goes on in another file.
        let mut seen = HashSet::new();
        clock_pairs.retain(|pair| seen.insert(*pair));
        // Nobody measures how long a nanosecond is, and where the header was lost or made for
        // what came from elsewhere, it is said of any counter.
        let clock = match header.counter {
            Counter::MonotonicNs => {
                ClockFit::fit_by_pairs_alone(&clock_pairs, header.nominal_hz).of_nanoseconds()
            }
            _ => ClockFit::fit(&clock_pairs, header.nominal_hz),
        };
        let clock = clock.with_origin(header.created_tick, header.created_wall_ns);
        Trace {
            source,
            header,
            inventory,
            tracks,
            losses,
            loss_sequences,
            clock_pairs,
            clock,
            tells_of_parts,
        }
    }

    /// Where its bytes come from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// What the file is.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// What the recorder knew about itself, if a copy of that is intact.
    pub fn vitals(&self) -> Option<&Vitals> {
        self.inventory.vitals.as_ref()
    }

    /// Whether the vitals count what is in no table of losses. Those of versions before 1.2
    /// do not: their [`Vitals::untold`] is 0 whatever there was.
    pub fn counts_untold(&self) -> bool {
        self.tells_of_parts
    }

    /// The names.
    pub fn names(&self) -> &Names {
        &self.inventory.tables.names
    }

    /// Keys and values about the recording as a whole.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.inventory.tables.metadata
    }

    /// The data chunks by rising sequence number, sealed and raw. A raw slot
    /// whose events are sealed is not among them.
    pub fn chunks(&self) -> &[ChunkInfo] {
        &self.inventory.chunks
    }

    /// Chunks of kinds that this version does not know.
    pub fn unknown_chunks(&self) -> u64 {
        self.inventory.unknown_chunks
    }

    /// The tracks, by rising id.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// What did not make it into the file, in order of recording.
    pub fn losses(&self) -> &[Loss] {
        &self.losses
    }

    /// The same without what the chunks before this sequence number tell.
    pub fn losses_since(&self, sequence: u64) -> &[Loss] {
        let first = self.loss_sequences.partition_point(|it| *it < sequence);
        &self.losses[first..]
    }

    /// The clock pairs, in order of recording.
    pub fn clock_pairs(&self) -> &[ClockPair] {
        &self.clock_pairs
    }

    /// The map from ticks to time.
    pub fn clock(&self) -> &ClockFit {
        &self.clock
    }

    /// What is damaged, but for columns: these are only looked at, and
    /// their damage only found, when they are decoded.
    pub fn damage(&self) -> &[Damage] {
        &self.inventory.damage
    }

    /// Events that should be in the chunks and are not: exact for a finished
    /// recording that is all in this file and for a dump since version 1.2, and otherwise unknown.
    pub fn events_missing(&self) -> Option<u64> {
        self.inventory.events_missing
    }

    /// Decodes columns of a chunk.
    pub fn decode(&self, chunk: &ChunkInfo, columns: Columns) -> Result<Batch, Error> {
        let mut batch = Batch::default();
        self.decode_into(chunk, columns, &mut batch)?;
        Ok(batch)
    }

    /// Decodes columns of a chunk into a batch whose memory is used again.
    /// After an error the batch is empty.
    pub fn decode_into(
        &self,
        chunk: &ChunkInfo,
        columns: Columns,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        batch.clear();
        match chunk.place {
            Place::Raw { slot } => {
                let held = self.inventory.raw.iter().find(|held| held.slot == slot);
                let units = held.map_or(&[][..], |held| &held.content.events);
                batch.fill_from_units(units, columns);
                if let Some(held) = held.filter(|_| columns.contains(Columns::LONG_TEXTS)) {
                    let left = batch.long_texts.absorb(&held.content.long_texts);
                    batch.long_texts_error = (left > 0).then_some(Error::Section {
                        sequence: chunk.sequence,
                        section: section::LONG_TEXTS,
                        offset: held.bytes.start,
                        why: Why::Entries,
                    });
                }
                Ok(())
            }
            Place::Sealed { offset, .. } => {
                let sealed = SealedChunk {
                    sequence: chunk.sequence,
                    offset,
                    events: chunk.events as usize,
                    slots: chunk.slots as usize,
                    origin: chunk.origin,
                    sections: &chunk.sections,
                };
                let done = decode::decode(&self.source, &sealed, columns, batch);
                if done.is_err() {
                    batch.clear();
                } else if columns.contains(Columns::LONG_TEXTS) {
                    decode::long_texts(&self.source, &sealed, batch);
                }
                done
            }
        }
    }

    /// The open spans as the file tells them: a stack a track, and the
    /// asynchronous ones under track 0. Some may have ended; see
    /// [`in_flight`](Self::in_flight).
    pub fn open_spans(&self) -> Vec<InFlight> {
        let mut stacks: Vec<InFlight> = Vec::new();
        for entry in self.inventory.in_flight.iter().filter(|entry| entry.depth > 0) {
            add(&mut stacks, entry.clone());
        }
        let mut listed: HashSet<OpenSpan> =
            stacks.iter().flat_map(|stack| stack.spans.iter().copied()).collect();
        let mut told: BTreeMap<u32, InFlight> = BTreeMap::new();
        for ToldOpen { tick, span, depth } in &self.inventory.tables.open {
            if !listed.insert(*span) {
                continue;
            }
            let asynchronous = *depth == u32::MAX;
            let stack = told.entry(if asynchronous { 0 } else { span.track }).or_default();
            stack.track = if asynchronous { 0 } else { span.track };
            stack.tick = stack.tick.max(*tick);
            stack.spans.push(*span);
            let least = if asynchronous { stack.spans.len() as u32 } else { depth + 1 };
            stack.depth = stack.depth.max(least);
        }
        told.into_values().for_each(|stack| add(&mut stacks, stack));
        stacks
    }

    /// The spans that were open at the end: [`open_spans`](Self::open_spans)
    /// without those that a record shows to have ended. Chunks that
    /// cannot be decoded show nothing.
    pub fn in_flight(&self) -> Result<Vec<InFlight>, Error> {
        let mut stacks = self.open_spans();
        let open = || stacks.iter().flat_map(|stack| &stack.spans);
        let wanted: HashSet<Identity> = open().map(identity).collect();
        let mut starts: Vec<u64> = open().map(|span| span.start).collect();
        starts.sort_unstable();
        let mut ended = HashSet::new();
        let mut batch = Batch::default();
        for chunk in self.chunks() {
            let next = starts.partition_point(|start| *start < chunk.first_tick);
            if starts.get(next).is_none_or(|start| *start > chunk.last_tick) {
                continue;
            }
            let columns = Columns::START | Columns::NAME | Columns::TRACK | Columns::KIND;
            match self.decode_into(chunk, columns, &mut batch) {
                Err(Error::Section { .. }) => continue,
                done => done?,
            }
            let records = batch.start.iter().zip(&batch.track).zip(&batch.name).zip(&batch.kind);
            // A scope is on no stack, so that its end is no span's.
            let ends = records.filter(|(_, kind)| Kind(**kind) != Kind::SCOPE);
            let identities = ends.map(|(((start, track), name), kind)| {
                let is_whole = matches!(Kind(*kind), Kind::ASYNC_SPAN | Kind::TASK | Kind::REUSED);
                (*start, *track, *name, is_whole)
            });
            ended.extend(identities.filter(|it| wanted.contains(it)));
        }
        for stack in &mut stacks {
            let before = stack.spans.len();
            stack.spans.retain(|span| !ended.contains(&identity(span)));
            stack.depth = stack.depth.saturating_sub((before - stack.spans.len()) as u32);
        }
        stacks.retain(|stack| stack.depth > 0);
        Ok(stacks)
    }
}

/// Asynchronous spans take as many entries as they need, and are one set all the same.
fn add(stacks: &mut Vec<InFlight>, more: InFlight) {
    match stacks.iter_mut().find(|stack| stack.track == 0 && more.track == 0) {
        Some(set) => {
            set.tick = set.tick.max(more.tick);
            set.depth = set.depth.saturating_add(more.depth);
            set.spans.extend(more.spans);
        }
        None => stacks.push(more),
    }
}

/// Start, track and name, and whether it is on no stack.
type Identity = (u64, u32, u32, bool);

/// What an open span and its record have in common. One that is on no stack ends with a record
/// of its own kind: a first slice that began in the tick of the task's creation is no end.
fn identity(span: &OpenSpan) -> Identity {
    (span.start, span.track, span.name, span.id != 0)
}

/// Rows by the sequence of their chunk; those of one chunk stay in order.
fn in_order<T>(mut rows: Vec<(u64, T)>) -> Vec<T> {
    rows.sort_by_key(|(sequence, _)| *sequence);
    rows.into_iter().map(|(_, row)| row).collect()
}
