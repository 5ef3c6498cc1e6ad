//! Making chunks: of the content of a raw slot, which is sealing, and of names, metadata and
//! open spans (SPEC 8).

use crate::chunk::{
    CHUNK_ALIGN, CHUNK_HEADER_LENGTH, ChunkHeader, ChunkKind, SECTION_ENTRY_LENGTH, SectionEntry,
    encoding, section,
};
use crate::columns::{self, RECORD_COLUMNS, SLOT_COLUMNS};
use crate::error::Error;
use crate::in_flight::OpenSpan;
use crate::limits::{MAX_CHUNK_BYTES, MAX_ITEMS, MAX_SECTION_BYTES, within};
use crate::little_endian::round_up;
use crate::parts::{Apart, Parts};
use crate::planes::{Planes, Words};
use crate::raw_content::RawContent;
use crate::texture::{Texture, repeats};
use crate::{metadata, names, runs};
use zstd::zstd_safe::{CCtx, CParameter, ParamSwitch, compress_bound, get_error_name};

/// Level 1 for tables.
const TABLES: [CParameter; 5] = [
    CParameter::CompressionLevel(1),
    CParameter::MinMatch(0),
    CParameter::HashLog(0),
    CParameter::TargetLength(0),
    CParameter::LiteralCompressionMode(ParamSwitch::Enable),
];
/// Byte planes are mostly noise with few different values, where short matches
/// cost more than they save. Looking only for long ones, in a table that stays
/// in the L1 cache, takes a third of level 1's time for 0 to 8 % more bytes.
const PLANES: [CParameter; 5] = [
    CParameter::CompressionLevel(1),
    CParameter::MinMatch(7),
    CParameter::HashLog(10),
    CParameter::TargetLength(0),
    CParameter::LiteralCompressionMode(ParamSwitch::Enable),
];
/// What repeats in planes of measured times does so by chance, but for the highest ones, where
/// runs are long, and those of loops that always take as long. Looking at every sixth place of these
/// saves a tenth of the time, for 2 to 3 % more bytes.
const TIMES: [CParameter; 5] = [
    CParameter::CompressionLevel(1),
    CParameter::MinMatch(7),
    CParameter::HashLog(9),
    CParameter::TargetLength(TIMES_STEP),
    CParameter::LiteralCompressionMode(ParamSwitch::Enable),
];

/// Places that are stepped over, in planes of times.
const TIMES_STEP: u32 = 5;
/// The next place to look at is behind the end: all there is to a plane is how frequent its bytes are.
const NO_SEARCH: u32 = 128 << 10;

/// Tables up to this size are stored as they are. A frame of its own would save half of it, for
/// as much work as a tenth of a whole slot is.
const PLAIN_TABLE: usize = 2_048;

/// Bytes that the encoder keeps for the next chunk.
const KEPT: usize = 2 << 20;

/// Makes chunks. It keeps its memory from chunk to chunk: 2 MiB of addresses, of which
/// pages are taken as chunks need them, and about 0.7 MiB besides for chunks of 16,384 units.
pub struct ChunkEncoder {
    recording: [u8; 16],
    zstd: CCtx<'static>,
    /// As long as the longest chunk so far could have become; `used` bytes of it
    /// are the chunk.
    out: Vec<u8>,
    used: usize,
    directory: Vec<SectionEntry>,
    /// Of the chunk that is being made, what is in `out`.
    done: Done,
    planes: Planes,
    table: Vec<u8>,
    apart: Apart,
}

/// How far a chunk has come.
#[derive(Clone, Copy, Default)]
struct Done {
    sections: usize,
    /// Of the section that follows these: its planes, and where it begins.
    planes: u32,
    start: usize,
    /// Tables, planes and pieces that were split, in all, and how many there will be.
    steps: u32,
    planned: u32,
}

impl ChunkEncoder {
    /// An encoder for the chunks of one recording.
    pub fn new(recording: [u8; 16]) -> Result<ChunkEncoder, Error> {
        Ok(ChunkEncoder {
            recording,
            zstd: CCtx::try_create().ok_or_else(|| compressor("out of memory"))?,
            out: Vec::new(),
            used: 0,
            directory: Vec::new(),
            done: Done::default(),
            planes: Planes::default(),
            table: Vec::new(),
            apart: Apart::default(),
        })
    }

    /// The data chunk that the content of a raw slot becomes, with these open
    /// spans and their depths. The names in the content are not in it: they go
    /// into a names chunk, which is to be written before this one.
    pub fn data(&mut self, content: &RawContent, open: &[(OpenSpan, u32)]) -> Result<&[u8], Error> {
        self.begin_data(content, open)?;
        while !self.plan_next(content)? {}
        while self.store_next(content)? {}
        Ok(self.chunk())
    }

    /// Begins with a chunk: its tables, and nothing that takes long.
    pub(crate) fn begin_data(
        &mut self,
        content: &RawContent,
        open: &[(OpenSpan, u32)],
    ) -> Result<(), Error> {
        self.begin();
        self.apart.begin(content, open)
    }

    /// One of the first steps: takes some of the content apart, and plans the chunk when that were
    /// all. Returns whether it is planned.
    pub(crate) fn plan_next(&mut self, content: &RawContent) -> Result<bool, Error> {
        if !self.apart.go_on(content)? {
            return Ok(false);
        }
        let apart = std::mem::take(&mut self.apart);
        let planned = self.plan(&apart.parts(content));
        self.apart = apart;
        planned.map(|()| true)
    }

    /// How much of the planning is done, from 0 to 1.
    pub(crate) fn plan_progress(&self, content: &RawContent) -> f32 {
        self.apart.progress(content)
    }

    /// One of the steps that follow: stores one table or one plane of a column, or splits some
    /// words into planes. Returns false when the chunk is complete.
    pub(crate) fn store_next(&mut self, content: &RawContent) -> Result<bool, Error> {
        let apart = std::mem::take(&mut self.apart);
        let stored = self.store_next_of(content.sequence, &apart.parts(content));
        self.apart = apart;
        stored
    }

    /// How much of the chunk is stored, up to 1.
    pub(crate) fn progress(&self) -> f32 {
        self.done.steps as f32 / self.done.planned.max(1) as f32
    }

    /// The chunk that was made last.
    pub(crate) fn chunk(&self) -> &[u8] {
        &self.out[..self.used]
    }

    fn plan(&mut self, parts: &Parts<'_>) -> Result<(), Error> {
        for (kind, table, items) in parts.tables {
            self.plan_table(kind, items, table);
        }
        let (planes, base) = parts.residuals.profile();
        self.plan_column(section::START, parts.residuals.values().len(), planes, base);
        for (units, profile, columns) in parts.units() {
            for column in columns {
                let (planes, base) = profile.column(*column);
                self.plan_column(column.section, units.len(), planes, base);
            }
        }
        let (kind, table, items) = parts.long_texts;
        self.plan_table(kind, items, table);
        let stored: u32 = self.directory.iter().map(|it| it.planes.count_ones().max(1)).sum();
        self.done.planned = stored + self.splits();
        self.reserve()
    }

    /// In how many steps the words of all planned planes are split: those that several columns
    /// share once.
    fn splits(&self) -> u32 {
        let split = self.directory.iter().filter(|entry| entry.planes != 0);
        let words = split.map(|entry| (word_of(entry.kind), entry.items));
        let (mut splits, mut before) = (0, None);
        for (word, items) in words {
            if before.replace(word) != Some(word) {
                splits += Planes::steps(items as usize) as u32;
            }
        }
        splits
    }

    fn store_next_of(&mut self, sequence: u64, parts: &Parts<'_>) -> Result<bool, Error> {
        if self.done.sections < self.directory.len() {
            self.store(self.done.sections, parts)?;
            self.done.steps += 1;
            return Ok(true);
        }
        let (first_tick, last_tick) = parts.residuals.ticks();
        self.finish(ChunkHeader {
            sequence,
            events: parts.records.len() as u32,
            slots: parts.slots.len() as u32,
            first_tick,
            last_tick,
            origin: parts.records.first().map_or(0, |record| record.start),
            ..self.header(ChunkKind::DATA)
        })?;
        Ok(false)
    }

    /// Stores a table, or one plane of a column, or does some of the splitting before.
    fn store(&mut self, at_section: usize, parts: &Parts<'_>) -> Result<(), Error> {
        let kind = self.directory[at_section].kind;
        let mut tables = parts.tables.iter().chain([&parts.long_texts]);
        if let Some((_, table, _)) = tables.find(|table| table.0 == kind) {
            return self.store_table(at_section, table);
        }
        let word = word_of(kind);
        for (units, _, columns) in parts.units() {
            if let Some(column) = columns.iter().find(|column| column.section == kind) {
                let (at, byte) = (column.first_byte / 8, column.first_byte % 8);
                let units: &[[u64; 4]] = bytemuck::cast_slice(units);
                let times = kind == section::VALUE && columns::are_mostly_timed(parts.records);
                return self.store_plane(at_section, byte, times, |it| it.hold(word, units, at));
            }
        }
        let residuals: &[[u64; 1]] = bytemuck::cast_slice(parts.residuals.values());
        self.store_plane(at_section, 0, true, |planes| planes.hold(word, residuals, 0))
    }

    /// A names chunk of entries made by [`push_name`](crate::push_name) and
    /// [`push_call_site`](crate::push_call_site).
    pub fn names(&mut self, sequence: u64, entries: &[u8]) -> Result<&[u8], Error> {
        let items = names::count(entries).ok_or(Error::BrokenTable { what: "names" })?;
        self.one_table(ChunkKind::NAMES, section::NAMES, sequence, items, entries)?;
        Ok(self.chunk())
    }

    /// A metadata chunk of these keys and values.
    pub fn metadata(&mut self, sequence: u64, pairs: &[(&str, &str)]) -> Result<&[u8], Error> {
        let mut table = std::mem::take(&mut self.table);
        table.clear();
        for (key, value) in pairs {
            within("bytes in a value", value.len(), MAX_SECTION_BYTES)?;
            metadata::push_pair(&mut table, key, value);
        }
        let items = pairs.len() as u32;
        let done = self.one_table(ChunkKind::METADATA, section::METADATA, sequence, items, &table);
        self.table = table;
        done?;
        Ok(self.chunk())
    }

    /// An open-spans chunk: what was open at `tick`, with depths.
    pub fn open_spans(
        &mut self,
        sequence: u64,
        tick: u64,
        open: &[(OpenSpan, u32)],
    ) -> Result<&[u8], Error> {
        let mut table = Vec::with_capacity(open.len() * (size_of::<OpenSpan>() + 8));
        for (span, depth) in open {
            table.extend_from_slice(bytemuck::bytes_of(span));
            table.extend_from_slice(&depth.to_le_bytes());
            table.extend_from_slice(&[0; 4]);
        }
        self.begin();
        self.plan_table(section::OPEN_SPANS, open.len() as u32, &table);
        self.reserve()?;
        if !self.directory.is_empty() {
            self.store_table(0, &table)?;
        }
        let header = self.header(ChunkKind::OPEN_SPANS);
        self.finish(ChunkHeader { sequence, first_tick: tick, last_tick: tick, ..header })?;
        Ok(self.chunk())
    }

    fn one_table(
        &mut self,
        kind: ChunkKind,
        section: u16,
        sequence: u64,
        items: u32,
        table: &[u8],
    ) -> Result<(), Error> {
        self.begin();
        self.plan_table(section, items, table);
        self.reserve()?;
        if !self.directory.is_empty() {
            self.store_table(0, table)?;
        }
        self.finish(ChunkHeader { sequence, ..self.header(kind) })
    }

    /// A header of nothing yet.
    fn header(&self, kind: ChunkKind) -> ChunkHeader {
        ChunkHeader {
            recording: self.recording,
            sequence: 0,
            kind,
            flags: 0,
            sections: 0,
            length: 0,
            events: 0,
            slots: 0,
            first_tick: 0,
            last_tick: 0,
            directory_crc: 0,
            origin: 0,
        }
    }

    fn begin(&mut self) {
        // A chunk that was larger than they usually are gives its memory back.
        if self.out.len() > KEPT {
            self.out.truncate(KEPT);
            self.out.shrink_to_fit();
        }
        self.directory.clear();
        self.planes.forget();
        (self.used, self.done) = (0, Done::default());
    }

    fn plan_table(&mut self, kind: u16, items: u32, table: &[u8]) {
        if !table.is_empty() {
            let raw = u32::try_from(table.len()).unwrap_or(u32::MAX);
            self.directory.push(SectionEntry { kind, items, raw, ..SectionEntry::default() });
        }
    }

    /// A column of zeros is absent.
    fn plan_column(&mut self, kind: u16, items: usize, planes: u8, base: u64) {
        if planes != 0 || base != 0 {
            self.directory.push(SectionEntry {
                kind,
                encoding: encoding::PLANES,
                planes,
                items: items as u32,
                raw: items as u32 * 8,
                base,
                ..SectionEntry::default()
            });
        }
    }

    /// Makes room for the largest that the planned sections can become, and
    /// steps over header and directory, which are written last.
    fn reserve(&mut self) -> Result<(), Error> {
        let mut most =
            CHUNK_HEADER_LENGTH + self.directory.len() * SECTION_ENTRY_LENGTH + CHUNK_ALIGN;
        self.used = most - CHUNK_ALIGN;
        for entry in &self.directory {
            within("items in a section", entry.items as usize, MAX_ITEMS)?;
            within("bytes in a section", entry.raw as usize, MAX_SECTION_BYTES)?;
            most += match entry.encoding {
                encoding::PLANES => {
                    let planes = entry.planes.count_ones() as usize;
                    planes * (4 + compress_bound(entry.items as usize))
                }
                _ => compress_bound(entry.raw as usize),
            };
        }
        if self.out.len() < most {
            // New memory is zero already, where what a vector grows by has to be written. At once
            // as much as is kept: what is never used of it takes no pages.
            self.out = vec![0; most.max(KEPT)];
        }
        Ok(())
    }

    fn store_table(&mut self, at: usize, table: &[u8]) -> Result<(), Error> {
        let start = self.used;
        let mut stored = table.len();
        if table.len() > PLAIN_TABLE {
            self.tune(TABLES)?;
            stored = self.compress(table)?;
        }
        let entry = &mut self.directory[at];
        if stored >= table.len() {
            stored = table.len();
            self.out[start..start + stored].copy_from_slice(table);
        } else {
            entry.encoding = encoding::ZSTD;
        }
        self.used += stored;
        entry.stored = stored as u32;
        entry.crc = crc32c::crc32c(&self.out[start..self.used]);
        self.done.sections += 1;
        Ok(())
    }

    /// The next plane of a column, which begins at this byte of the words that `hold` has split.
    /// Their lengths come first, then all of them. Nothing but splitting is done as long as that
    /// is not complete. `times`: nearly all of the column is measured times.
    fn store_plane(
        &mut self,
        at: usize,
        first_byte: usize,
        times: bool,
        hold: impl FnOnce(&mut Planes) -> bool,
    ) -> Result<(), Error> {
        let planes = self.directory[at].planes;
        if planes != 0 && !hold(&mut self.planes) {
            return Ok(());
        }
        if self.done.planes == 0 {
            self.done.start = self.used;
            self.used += 4 * planes.count_ones() as usize;
            self.tune(if times { TIMES } else { PLANES })?;
        }
        let mut varying = (0..8).filter(|byte| planes & (1 << byte) != 0);
        if let Some(byte) = varying.nth(self.done.planes as usize) {
            let split = std::mem::take(&mut self.planes);
            let stored = self.pack(split.plane(first_byte + byte), times);
            self.planes = split;
            let length_at = self.done.start + 4 * self.done.planes as usize;
            self.out[length_at..length_at + 4].copy_from_slice(&(stored? as u32).to_le_bytes());
            self.done.planes += 1;
        }
        if self.done.planes == planes.count_ones() {
            let entry = &mut self.directory[at];
            entry.stored = (self.used - self.done.start) as u32;
            entry.crc = crc32c::crc32c(&self.out[self.done.start..self.used]);
            (self.done.sections, self.done.planes) = (at + 1, 0);
        }
        Ok(())
    }

    /// Stores a plane, compressed where that saves anything. Returns its length.
    fn pack(&mut self, plane: &[u8], times: bool) -> Result<usize, Error> {
        let stored = match runs::frame(plane, &mut self.out[self.used..]) {
            Some(stored) => stored,
            None => self.pack_varied(plane, times)?,
        };
        self.used += stored;
        Ok(stored)
    }

    /// Stores a plane of more than a few runs, without taking the place.
    fn pack_varied(&mut self, plane: &[u8], times: bool) -> Result<usize, Error> {
        let texture = Texture::of(plane);
        // The low bytes of measured times that are noise repeat nothing either, which those of
        // numbers that count up do.
        if !(times && texture == Texture::Noise) {
            self.set(CParameter::LiteralCompressionMode(match texture {
                Texture::Noise => ParamSwitch::Disable,
                Texture::Scattered | Texture::Smooth => ParamSwitch::Enable,
            }))?;
            if times {
                let search = texture == Texture::Smooth || repeats(plane);
                self.set(CParameter::TargetLength(if search { TIMES_STEP } else { NO_SEARCH }))?;
            }
            let stored = self.compress(plane)?;
            if stored < plane.len() {
                return Ok(stored);
            }
        }
        self.out[self.used..self.used + plane.len()].copy_from_slice(plane);
        Ok(plane.len())
    }

    /// Compresses to where the next byte goes, without taking the place.
    fn compress(&mut self, source: &[u8]) -> Result<usize, Error> {
        let packed = self.zstd.compress2(&mut self.out[self.used..], source);
        packed.map_err(|code| compressor(get_error_name(code)))
    }

    fn tune(&mut self, parameters: [CParameter; 5]) -> Result<(), Error> {
        parameters.into_iter().try_for_each(|parameter| self.set(parameter))
    }

    fn set(&mut self, parameter: CParameter) -> Result<(), Error> {
        let set = self.zstd.set_parameter(parameter);
        set.map_err(|code| compressor(get_error_name(code))).map(|_| ())
    }

    fn finish(&mut self, mut header: ChunkHeader) -> Result<(), Error> {
        let length = round_up(self.used as u64, CHUNK_ALIGN as u64);
        within("bytes in a chunk", length as usize, MAX_CHUNK_BYTES as usize)?;
        self.out[self.used..length as usize].fill(0);
        self.used = length as usize;
        let end = CHUNK_HEADER_LENGTH + self.directory.len() * SECTION_ENTRY_LENGTH;
        let directory = &mut self.out[CHUNK_HEADER_LENGTH..end];
        for (bytes, entry) in directory.chunks_exact_mut(SECTION_ENTRY_LENGTH).zip(&self.directory)
        {
            bytes.copy_from_slice(&entry.to_bytes());
        }
        header.sections = self.directory.len() as u16;
        header.length = length as u32;
        header.directory_crc = crc32c::crc32c(directory);
        self.out[..CHUNK_HEADER_LENGTH].copy_from_slice(&header.to_bytes());
        Ok(())
    }
}

/// The words that a column's planes are split from.
fn word_of(kind: u16) -> Words {
    let of = |columns: &[columns::Column]| {
        columns.iter().find(|column| column.section == kind).map(|column| column.first_byte / 8)
    };
    let records = of(&RECORD_COLUMNS).map(Words::Records);
    records.or_else(|| of(&SLOT_COLUMNS).map(Words::Slots)).unwrap_or(Words::Residuals)
}

fn compressor(cause: &str) -> Error {
    Error::Compressor(std::io::Error::other(cause))
}
