//! Trace files in memory, made step by step as a recorder makes them.

use ringscope_format::*;

pub(crate) const RECORDING: [u8; 16] = *b"ringscope-tests!";

pub(crate) fn header(layout: Layout) -> FileHeader {
    FileHeader {
        recording: RECORDING,
        file_number: 0,
        mode: Mode::Full,
        pid: 42,
        created_wall_ns: 1_700_000_000_000_000_000,
        created_tick: 1_000,
        counter: Counter::X86Tsc,
        nominal_hz: 2_000_000_000,
        layout,
    }
}

/// A trace file in memory.
pub(crate) struct TraceFile {
    pub(crate) header: FileHeader,
    pub(crate) bytes: Vec<u8>,
    pub(crate) encoder: ChunkEncoder,
    edition: u64,
}

impl TraceFile {
    /// A file that only has chunks.
    pub(crate) fn finished() -> TraceFile {
        TraceFile::new(header(Layout::finished()))
    }

    /// A file that is being recorded.
    pub(crate) fn live(raw_slots: u32, units: u32) -> TraceFile {
        TraceFile::new(header(Layout::live(2, raw_slots, units, 0)))
    }

    pub(crate) fn new(header: FileHeader) -> TraceFile {
        let mut bytes = vec![0; header.layout.log_offset as usize];
        bytes[..256].copy_from_slice(&header.to_bytes());
        let encoder = ChunkEncoder::new(header.recording).unwrap();
        TraceFile { header, bytes, encoder, edition: 0 }
    }

    pub(crate) fn vitals(&mut self, vitals: &Vitals) {
        self.edition += 1;
        let block = &mut self.bytes[VITALS_OFFSET..VITALS_OFFSET + VITALS_LENGTH];
        assert!(write_twin(block, self.edition, &vitals.to_bytes()));
    }

    /// Vitals of a finished recording of so many events.
    pub(crate) fn finish(&mut self, events: u64) {
        let state = RecordingState::Finished;
        self.vitals(&Vitals { state, stored: events, ..Vitals::default() });
    }

    pub(crate) fn append(&mut self, chunk: &[u8]) -> u64 {
        let offset = self.bytes.len() as u64;
        self.bytes.extend_from_slice(chunk);
        offset
    }

    pub(crate) fn append_data(&mut self, content: &RawContent) -> u64 {
        let chunk = self.encoder.data(content, &[]).unwrap().to_vec();
        self.append(&chunk)
    }

    pub(crate) fn append_names(&mut self, sequence: u64, names: &[(u32, &str)]) -> u64 {
        let mut entries = Vec::new();
        for (id, text) in names {
            push_name(&mut entries, *id, text);
        }
        let chunk = self.encoder.names(sequence, &entries).unwrap().to_vec();
        self.append(&chunk)
    }

    pub(crate) fn slot(&mut self, slot: u32) -> &mut [u8] {
        let layout = &self.header.layout;
        let start = layout.raw_offset as usize + (slot * layout.raw_stride) as usize;
        &mut self.bytes[start..start + layout.raw_stride as usize]
    }

    pub(crate) fn in_flight(&mut self, entry: u32) -> &mut [u8] {
        let layout = &self.header.layout;
        let start = layout.in_flight_offset as usize + (entry * layout.in_flight_stride) as usize;
        &mut self.bytes[start..start + layout.in_flight_stride as usize]
    }

    pub(crate) fn open(&self) -> Trace<&[u8]> {
        Trace::open(self.bytes.as_slice()).unwrap()
    }
}

/// A chunk's worth of spans: children of 10 ticks in parents of 30, from this tick on.
pub(crate) fn spans(sequence: u64, count: usize, tick: u64) -> RawContent {
    let mut events = Vec::new();
    for at in 0..count as u64 {
        let (parent, start) = (at % 2, tick + at / 2 * 40);
        events.push(Record {
            depth: 1 - parent as u8,
            ..Record::timed(
                Kind::SPAN,
                1 + parent as u32,
                1,
                start + 5 * (1 - parent),
                10 + 20 * parent,
            )
        });
    }
    RawContent { sequence, events, ..RawContent::default() }
}

/// A record and its slots.
pub(crate) type Event = (Record, Vec<Record>);

/// All events of a trace, each with its slots; damaged chunks are left out.
pub(crate) fn events<S: Source>(trace: &Trace<S>) -> Vec<Event> {
    let mut events = Vec::new();
    for chunk in trace.chunks() {
        if let Ok(batch) = trace.decode(chunk, Columns::ALL) {
            assert_eq!(batch.events, chunk.events as usize);
            events.extend(batch.records().map(|(record, slots)| (record, slots.to_vec())));
        }
    }
    events
}

/// The events of these units.
pub(crate) fn events_of(units: &[Record]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for unit in units {
        match events.last_mut() {
            Some((_, slots)) if unit.kind.is_slot() => slots.push(*unit),
            _ => events.push((*unit, Vec::new())),
        }
    }
    events
}

/// Changes the header of a chunk and puts its checksum right.
pub(crate) fn patch_header(chunk: &mut [u8], change: impl FnOnce(&mut [u8])) {
    change(&mut chunk[..76]);
    let crc = crc32c::crc32c(&chunk[..76]);
    chunk[76..80].copy_from_slice(&crc.to_le_bytes());
}

/// Changes the section directory of a chunk and puts the checksums right.
pub(crate) fn patch_directory(chunk: &mut [u8], change: impl FnOnce(&mut [u8])) {
    let sections = u16::from_le_bytes([chunk[34], chunk[35]]) as usize;
    let directory = &mut chunk[80..80 + 32 * sections];
    change(directory);
    let crc = crc32c::crc32c(directory);
    patch_header(chunk, |header| header[64..68].copy_from_slice(&crc.to_le_bytes()));
}

/// A directory entry of a chunk: its index, and where its stored bytes are.
pub(crate) fn section(chunk: &[u8], kind: u16) -> (usize, std::ops::Range<usize>) {
    let sections = u16::from_le_bytes([chunk[34], chunk[35]]) as usize;
    let mut at = 80 + 32 * sections;
    for index in 0..sections {
        let entry = &chunk[80 + 32 * index..][..32];
        let stored = u32::from_le_bytes(entry[8..12].try_into().unwrap()) as usize;
        if u16::from_le_bytes([entry[0], entry[1]]) == kind {
            return (index, at..at + stored);
        }
        at += stored;
    }
    panic!("no section {kind}");
}
