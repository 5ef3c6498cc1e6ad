//! Files that lie about lengths: an error or partial data, and little memory.

use crate::allocation::most_held;
use crate::build::*;
use ringscope_format::*;

/// What a reader may hold for a small file, whatever the file claims: one chunk
/// of the largest number of events, and buffers for reading.
const MODERATE: usize = 100 << 20;

fn put32(bytes: &mut [u8], at: usize, n: u32) {
    bytes[at..at + 4].copy_from_slice(&n.to_le_bytes());
}

/// A chunk of 100 spans, a track and a name of it.
fn chunk() -> Vec<u8> {
    let mut encoder = ChunkEncoder::new(RECORDING).unwrap();
    let mut content = spans(1, 100, 5_000);
    push_track(&mut content.tracks, 1, TrackKind::Thread, 1, "main");
    encoder.data(&content, &[]).unwrap().to_vec()
}

/// Opens and decodes a file with this chunk and an intact one behind it.
fn read(chunk: &[u8]) -> (Vec<String>, usize) {
    let mut file = TraceFile::finished();
    file.append(chunk);
    file.append_data(&spans(2, 100, 50_000));
    let (problems, held) = most_held(|| {
        let trace = file.open();
        let mut problems: Vec<String> = trace.damage().iter().map(Damage::to_string).collect();
        for chunk in trace.chunks() {
            match trace.decode(chunk, Columns::ALL) {
                Ok(batch) => assert_eq!(batch.records().count(), chunk.events as usize),
                Err(error) => problems.push(error.to_string()),
            }
        }
        let last = trace.chunks().last().unwrap();
        assert_eq!((last.sequence, last.events), (2, 100), "the chunk behind it is found");
        problems
    });
    assert!(held < MODERATE, "{held} bytes for {problems:?}");
    (problems, held)
}

#[test]
fn chunk_that_claims_another_length_is_reported_and_the_next_one_found() {
    for length in [0, 1, 64, 79, 80, 128, 63, 1 << 26, (1 << 26) + 64, u32::MAX, u32::MAX - 63] {
        let mut chunk = chunk();
        patch_header(&mut chunk, |header| put32(header, 36, length));
        let (problems, _) = read(&chunk);
        assert_eq!(problems.len(), 1, "{length}: {problems:?}");
        assert!(problems[0].starts_with("chunk 1 at byte 0x1000: "), "{problems:?}");
        assert!(problems[0].ends_with("; 100 events are lost"), "{problems:?}");
    }
}

#[test]
fn chunk_that_claims_more_sections_or_events_than_the_format_takes_is_refused() {
    for (at, claim) in [(40, u32::MAX), (44, u32::MAX), (40, MAX_ITEMS as u32 + 1)] {
        let mut chunk = chunk();
        patch_header(&mut chunk, |header| put32(header, at, claim));
        let (problems, held) = read(&chunk);
        assert!(problems[0].contains("lengths that the format does not allow"), "{problems:?}");
        assert!(held < 4 << 20);
    }
    for sections in [65_u16, 1000, u16::MAX] {
        let mut chunk = chunk();
        patch_header(&mut chunk, |header| header[34..36].copy_from_slice(&sections.to_le_bytes()));
        let (problems, _) = read(&chunk);
        assert!(problems[0].contains("lengths that the format does not allow"), "{problems:?}");
    }
}

#[test]
fn chunk_that_claims_other_numbers_of_events_or_slots_is_refused_when_decoded() {
    for (at, claim) in
        [(40, 99), (40, 101), (40, MAX_ITEMS as u32), (44, 1), (44, MAX_ITEMS as u32)]
    {
        let mut chunk = chunk();
        patch_header(&mut chunk, |header| put32(header, at, claim));
        let (problems, _) = read(&chunk);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}

#[test]
fn sections_that_claim_terabytes_are_refused() {
    // Items, stored bytes and raw bytes of the value column.
    for (at, claim) in [(4, u32::MAX), (8, u32::MAX), (12, u32::MAX), (8, 1 << 20), (4, 0), (12, 0)]
    {
        let mut chunk = chunk();
        let (index, _) = section(&chunk, 2);
        patch_directory(&mut chunk, |directory| put32(directory, 32 * index + at, claim));
        let (problems, held) = read(&chunk);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(held < 8 << 20, "{held}");
    }
    // The same of the tracks, which are read when the file is opened.
    for (at, claim) in [(8, u32::MAX), (12, u32::MAX), (12, 1 << 20), (12, 0)] {
        let mut chunk = chunk();
        patch_directory(&mut chunk, |directory| put32(directory, at, claim));
        let (problems, held) = read(&chunk);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(held < 8 << 20, "{held}");
    }
}

#[test]
fn plane_lengths_that_reach_past_the_section_are_refused() {
    for claim in [0, 1, 99, 101, 1 << 31, u32::MAX] {
        let mut chunk = chunk();
        let (index, place) = section(&chunk, 2);
        put32(&mut chunk, place.start, claim);
        let crc = crc32c::crc32c(&chunk[place]);
        patch_directory(&mut chunk, |directory| put32(directory, 32 * index + 24, crc));
        let (problems, _) = read(&chunk);
        assert_eq!(problems.len(), 1, "{claim}: {problems:?}");
        assert!(problems[0].starts_with("value column of chunk 1"), "{problems:?}");
    }
}

#[test]
fn planes_beyond_the_width_of_a_column_are_refused() {
    let mut encoder = ChunkEncoder::new(RECORDING).unwrap();
    let constant = RawContent {
        sequence: 1,
        events: vec![Record::timed(Kind::SPAN, 5, 6, 7, 8); 100],
        ..RawContent::default()
    };
    let chunk = encoder.data(&constant, &[]).unwrap().to_vec();
    for (kind, at) in [(6, 17), (3, 20), (4, 23)] {
        let mut chunk = chunk.clone();
        let (index, _) = section(&chunk, kind);
        patch_directory(&mut chunk, |directory| directory[32 * index + at] = 1);
        let (problems, _) = read(&chunk);
        assert!(problems[0].contains("lengths that the format does not allow"), "{problems:?}");
    }
}

/// A chunk with one table section of these stored bytes that claims to unpack to `raw`.
fn table_chunk(kind: u8, section: u16, sequence: u64, stored: &[u8], raw: u32) -> Vec<u8> {
    let mut chunk = vec![0; 80 + 32];
    chunk.extend_from_slice(stored);
    chunk.resize(chunk.len().next_multiple_of(64), 0);
    let length = chunk.len() as u32;
    chunk[..8].copy_from_slice(b"\x89RSCK\r\n\x1a");
    chunk[8..24].copy_from_slice(&RECORDING);
    chunk[24..32].copy_from_slice(&sequence.to_le_bytes());
    (chunk[32], chunk[34]) = (kind, 1);
    put32(&mut chunk, 36, length);
    chunk[80..82].copy_from_slice(&section.to_le_bytes());
    chunk[82] = 1;
    put32(&mut chunk, 84, 1);
    put32(&mut chunk, 88, stored.len() as u32);
    put32(&mut chunk, 92, raw);
    put32(&mut chunk, 104, crc32c::crc32c(stored));
    patch_directory(&mut chunk, |_| {});
    chunk
}

#[test]
fn frames_that_unpack_to_more_than_they_say_are_refused() {
    let bomb = zstd::bulk::compress(&vec![0; 30 << 20], 1).unwrap();
    assert!(bomb.len() < 10_000);
    for raw in [0, 1, 1000, 30 << 20 | 1, (30 << 20) - 1] {
        let (problems, held) = read(&table_chunk(1, 32, 1, &bomb, raw));
        assert!(problems[0].starts_with("tracks of chunk 1"), "{problems:?}");
        assert!(held < 64 << 20, "{held}");
    }
    // In a plane: it should unpack to 100 bytes.
    let mut chunk = chunk();
    let (index, place) = section(&chunk, 2);
    let rest = chunk.split_off(place.end);
    chunk.truncate(place.start);
    chunk.extend_from_slice(&(bomb.len() as u32).to_le_bytes());
    chunk.extend_from_slice(&bomb);
    let stored = chunk.len() - place.start;
    let crc = crc32c::crc32c(&chunk[place.start..]);
    chunk.extend_from_slice(&rest);
    chunk.resize(chunk.len().next_multiple_of(64), 0);
    let length = chunk.len() as u32;
    patch_directory(&mut chunk, |directory| {
        put32(directory, 32 * index + 8, stored as u32);
        put32(directory, 32 * index + 24, crc);
    });
    patch_header(&mut chunk, |header| put32(header, 36, length));
    let (problems, held) = read(&chunk);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("does not unpack to its size"), "{problems:?}");
    assert!(held < 8 << 20, "{held}");
}

#[test]
fn many_small_chunks_of_names_that_unpack_to_much_are_read_only_so_far() {
    let mut names = Vec::new();
    let text = "x".repeat(MAX_NAME_BYTES);
    let mut file = TraceFile::finished();
    let per_chunk = (30 << 20) / (MAX_NAME_BYTES + 8);
    for sequence in 1..=12_u64 {
        names.clear();
        for at in 0..per_chunk {
            push_name(&mut names, (sequence * 1_000_000) as u32 + at as u32, &text);
        }
        let packed = zstd::bulk::compress(&names, 1).unwrap();
        file.append(&table_chunk(2, 48, sequence, &packed, names.len() as u32));
    }
    drop(names);
    let size = file.bytes.len();
    let (trace, held) = most_held(|| file.open());
    assert!(held < 700 << 20, "{held} bytes for a file of {size}");
    assert!((4..8).contains(&trace.damage().len()), "{:?}", trace.damage());
    assert_eq!(
        trace.damage()[0].to_string().split(": ").nth(1),
        Some("larger than the format allows, taken together; events are not affected")
    );
}

#[test]
fn header_with_areas_at_the_end_of_the_number_line_is_refused_or_read_as_damage() {
    for at in [80, 96, 112, 120, 128] {
        for claim in [1_u64 << 63, u64::MAX, u64::MAX - 4095, 1 << 62] {
            let mut file = TraceFile::live(2, 10);
            file.bytes[at..at + 8].copy_from_slice(&claim.to_le_bytes());
            let crc = crc32c::crc32c(&file.bytes[..252]);
            put32(&mut file.bytes, 252, crc);
            let (_, held) = most_held(|| {
                // The areas at 80 and 112 are empty here, wherever they are said to be.
                if let Ok(trace) = Trace::open(file.bytes.as_slice()) {
                    assert!(!trace.damage().is_empty() || at == 112 || at == 80, "{at} {claim:#x}");
                }
            });
            assert!(held < 4 << 20, "{held}");
        }
    }
}

#[test]
fn raw_slot_that_claims_more_units_than_it_has_is_read_as_far_as_it_goes() {
    for claim in [12, 100, u32::MAX] {
        let mut file = TraceFile::live(1, 100);
        let content = spans(1, 10, 100);
        let mut writer = SlotWriter::begin(file.slot(0), 1);
        writer.push_events(0, 1, 10, &content.events, &[]);
        writer.publish();
        put32(file.slot(0), 20, claim);
        let (trace, held) = most_held(|| file.open());
        assert_eq!(events(&trace), events_of(&content.events));
        let [Damage { what: Damaged::RawSlot { units, .. }, .. }] = trace.damage() else {
            panic!("{:?}", trace.damage())
        };
        assert_eq!(*units, claim - 11);
        assert!(held < 4 << 20, "{held}");
    }
}

#[test]
fn batches_that_claim_other_lengths_are_refused() {
    for at in [8, 12] {
        for claim in [0, 9, 11, 1 << 27, u32::MAX] {
            let mut file = TraceFile::live(1, 100);
            let content = spans(1, 10, 100);
            let mut writer = SlotWriter::begin(file.slot(0), 1);
            writer.push_events(0, 1, 10, &content.events, &[]);
            writer.publish();
            put32(file.slot(0), 64 + at, claim);
            // With the right checksum for what it claims, where that can be.
            let slot = file.slot(0);
            let bytes = u32::from_le_bytes(slot[76..80].try_into().unwrap()) as usize;
            if let Some(payload) = slot.get(96..96 + bytes.min(1 << 20)) {
                let crc = crc32c::crc32c(&1_u64.to_le_bytes());
                let crc = crc32c::crc32c_append(crc, &slot[68..96]);
                let crc = crc32c::crc32c_append(crc, payload);
                put32(slot, 64, crc);
            }
            let trace = file.open();
            assert!(!trace.damage().is_empty() || events(&trace).is_empty(), "{at} {claim}");
        }
    }
}
