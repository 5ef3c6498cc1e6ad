//! Structures that are only visible in whole files, byte by byte.

use crate::build::*;
use ringscope_format::*;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn raw_slot_and_batch_have_every_field_where_the_format_says() {
    let mut bytes = vec![0_u8; SLOT_HEAD + 20 * UNIT];
    bytes[4..8].copy_from_slice(&6_u32.to_le_bytes());
    let records = [
        Record::timed(Kind::SPAN, 1, 2, 3, 4),
        Record::timed(Kind::SPAN, 5, 6, 7, 8),
        Record::timed(Kind::SPAN, 9, 10, 11, 12),
    ];
    let mut writer = SlotWriter::begin(&mut bytes, 0x0102_0304_0506_0708);
    assert_eq!(writer.room(), 19);
    assert!(writer.push_events(0x11, 0x22, 3, &records[..1], &records[1..]));
    assert!(writer.push_bytes(BatchKind::Losses, 0x33, 0x44, b"payload"));
    assert_eq!(writer.room(), 20 - 4 - 2 - 1);
    writer.publish();

    assert_eq!(&bytes[0..4], b"RSLT");
    assert_eq!(u32_at(&bytes, 4), 7);
    assert_eq!(u64_at(&bytes, 8), 0x0102_0304_0506_0708);
    assert_eq!((u32_at(&bytes, 16), u32_at(&bytes, 20)), (1, 6));
    assert_eq!(bytes[24..64], [0; 40]);

    let sequence = 0x0102_0304_0506_0708_u64.to_le_bytes();
    let events = &bytes[64..64 + 128];
    assert_eq!((u32_at(events, 4), u32_at(events, 8), u32_at(events, 12)), (0x11, 3, 96));
    assert_eq!((u64_at(events, 16), u32_at(events, 24)), (0x22, 3));
    assert_eq!(events[28..32], [0xF0, 0, 0, 0]);
    assert_eq!(&events[32..], bytemuck::cast_slice::<Record, u8>(&records));
    let crc = crc32c::crc32c_append(crc32c::crc32c(&sequence), &events[4..]);
    assert_eq!(u32_at(events, 0), crc);

    let losses = &bytes[192..192 + 64];
    assert_eq!((u32_at(losses, 4), u32_at(losses, 8), u32_at(losses, 12)), (0, 1, 7));
    assert_eq!((u64_at(losses, 16), u32_at(losses, 24), losses[28]), (0x33, 0x44, 0xF4));
    assert_eq!(&losses[32..39], b"payload");
    assert_eq!(losses[39..64], [0; 25]);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&sequence), &losses[4..39]);
    assert_eq!(u32_at(losses, 0), crc, "padding is not in the checksum");
}

#[test]
fn batch_kinds_have_the_numbers_that_the_format_says() {
    let kinds = [
        BatchKind::Events,
        BatchKind::Names,
        BatchKind::Tracks,
        BatchKind::ClockPairs,
        BatchKind::Losses,
    ];
    assert_eq!(kinds.map(|kind| kind as u8), [0xF0, 0xF1, 0xF2, 0xF3, 0xF4]);
}

#[test]
fn column_that_is_all_zero_is_absent_and_one_that_is_constant_costs_its_entry() {
    let mut encoder = ChunkEncoder::new(RECORDING).unwrap();
    let events = vec![Record::timed(Kind::SPAN, 0x0102, 0, 500, 7); 1000];
    let content = RawContent { sequence: 1, events, ..RawContent::default() };
    let chunk = encoder.data(&content, &[]).unwrap();
    // Value, name and kind are there; track, link, status, depth and shape are zero.
    // The start is there because each of these spans begins 7 ticks before the end
    // of the one before it, and the first does not.
    let kinds: Vec<u16> = chunk[80..80 + 32 * 4]
        .chunks(32)
        .map(|entry| u16::from_le_bytes([entry[0], entry[1]]))
        .collect();
    assert_eq!(
        (u16::from_le_bytes([chunk[34], chunk[35]]), kinds.as_slice()),
        (4, &[1, 2, 3, 6][..])
    );
    let name = &chunk[80 + 64..80 + 96];
    assert_eq!(name[0..4], [3, 0, 2, 0]);
    assert_eq!((u32_at(name, 4), u32_at(name, 8), u32_at(name, 12)), (1000, 0, 8000));
    assert_eq!((u64_at(name, 16), u32_at(name, 24), u32_at(name, 28)), (0x0102, 0, 0));
}

#[test]
fn planes_have_their_lengths_first_and_noise_is_stored_as_it_is() {
    let mut encoder = ChunkEncoder::new(RECORDING).unwrap();
    let mut noise = 1_u64;
    let events: Vec<Record> = (0..256)
        .map(|at: u64| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Record::timed(Kind::SPAN, (at as u32 & 1) << 16 | 3, 1, at, noise >> 56)
        })
        .collect();
    let content = RawContent { sequence: 1, events: events.clone(), ..RawContent::default() };
    let chunk = encoder.data(&content, &[]).unwrap();

    let (index, value) = section(chunk, 2);
    let entry = &chunk[80 + 32 * index..][..32];
    assert_eq!((entry[2], entry[3], u64_at(entry, 16)), (2, 0b0000_0001, 0));
    assert_eq!(u32_at(&chunk[value.clone()], 0), 256);
    let plane: Vec<u8> = events.iter().map(|record| record.value as u8).collect();
    assert_eq!(&chunk[value.start + 4..value.end], plane);
    assert_eq!(u32_at(entry, 24), crc32c::crc32c(&chunk[value]));

    let (index, name) = section(chunk, 3);
    let entry = &chunk[80 + 32 * index..][..32];
    assert_eq!((entry[3], u64_at(entry, 16)), (0b0000_0100, 3));
    let length = u32_at(&chunk[name.clone()], 0) as usize;
    assert_eq!(length, name.len() - 4);
    let plane = zstd::bulk::decompress(&chunk[name.start + 4..name.end], 256).unwrap();
    assert!(plane.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at & 1));
}

#[test]
fn low_bytes_of_values_are_stored_as_they_are_if_they_are_durations_and_packed_if_they_count_up() {
    // No multiple of what the low byte goes round in, nor is an eighth of it.
    const COUNT: usize = 15_000;
    let mut encoder = ChunkEncoder::new(RECORDING).unwrap();
    let mut value_bytes = |kind: fn(usize) -> Kind, value: fn(u64) -> u64| {
        let record = |at: usize| Record::timed(kind(at), 1, 1, at as u64, value(at as u64));
        let events = (0..COUNT).map(record).collect();
        let content = RawContent { sequence: 1, events, ..RawContent::default() };
        section(encoder.data(&content, &[]).unwrap(), 2).1.len()
    };
    let counts_up = |at| at;
    let noise = |at: u64| (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
    assert_eq!(value_bytes(|_| Kind::SPAN, noise), 2 * (4 + COUNT));
    // A gauge's low byte goes round, and one span among the readings changes nothing.
    assert!(value_bytes(|_| Kind::GAUGE, counts_up) < COUNT / 20);
    let almost_all = |at| if at == 7 { Kind::SPAN } else { Kind::GAUGE };
    assert!(value_bytes(almost_all, counts_up) < COUNT / 20);
}

#[test]
fn chunks_are_padded_with_zeros_and_tables_come_first() {
    let mut encoder = ChunkEncoder::new(RECORDING).unwrap();
    let mut content = spans(1, 10, 100);
    push_track(&mut content.tracks, 1, TrackKind::Thread, 9, "main");
    let open = OpenSpan { start: 0x11, id: 0x22, name: 0x33, track: 0x44 };
    let chunk = encoder.data(&content, &[(open, 5)]).unwrap();
    assert_eq!(chunk.len() % CHUNK_ALIGN, 0);
    assert_eq!(u32_at(chunk, 36) as usize, chunk.len());
    let (tracks, _) = section(chunk, 32);
    let (spans, place) = section(chunk, 35);
    assert_eq!((tracks, spans), (0, 1));
    let row = &chunk[place];
    assert_eq!((u64_at(row, 0), u64_at(row, 8)), (0x11, 0x22));
    assert_eq!((u32_at(row, 16), u32_at(row, 20)), (0x33, 0x44));
    assert_eq!((u32_at(row, 24), u32_at(row, 28)), (5, 0));
    let (_, last) = section(chunk, 8);
    assert!(chunk[last.end..].iter().all(|byte| *byte == 0));
    assert!(chunk.len() - last.end < CHUNK_ALIGN);
}

#[test]
fn encoder_refuses_what_the_format_cannot_hold() {
    let mut encoder = ChunkEncoder::new(RECORDING).unwrap();
    let slot = Record { kind: Kind::TEXT, ..Record::default() };
    let stray = RawContent { events: vec![slot], ..RawContent::default() };
    assert!(matches!(encoder.data(&stray, &[]), Err(Error::Misplaced { unit: 0 })));
    let many = RawContent { events: spans(1, MAX_ITEMS + 1, 1).events, ..RawContent::default() };
    let error = encoder.data(&many, &[]).unwrap_err();
    assert_eq!(error.to_string(), "1048577 events in a chunk, the format takes 1048576");
    let cut = RawContent { losses: vec![0; 47], ..RawContent::default() };
    let error = encoder.data(&cut, &[]).unwrap_err();
    assert_eq!(error.to_string(), "the table of losses ends in the middle of an entry");
    assert!(matches!(encoder.names(1, b"1234567"), Err(Error::BrokenTable { .. })));
    // And goes on working.
    assert!(encoder.data(&spans(1, 10, 1), &[]).is_ok());
    assert!(encoder.data(&RawContent::default(), &[]).is_ok());
    assert!(encoder.names(1, &[]).is_ok());
}
