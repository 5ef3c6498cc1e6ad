//! The hand-over from raw slot to sealed chunk, stopped after every step
//! (SPEC 7.1): no event is lost, none is there twice.

use crate::build::*;
use ringscope_format::*;

/// A file whose first chunk is sealed, and whose second is in a full slot.
fn before() -> (TraceFile, Vec<Event>) {
    let mut file = TraceFile::live(2, 400);
    let (first, second) = (spans(1, 50, 1_000), spans(2, 60, 9_000));
    file.append_names(1, &[(1, "child")]);
    file.append_data(&first);
    let mut names = Vec::new();
    push_name(&mut names, 2, "parent");
    let loss =
        Loss { track: 1, class: Loss::LOST, cause: 1, events: 5, total: 5, ..Loss::default() };
    let mut writer = SlotWriter::begin(file.slot(1), 2);
    writer.push_bytes(BatchKind::Names, 5, 1, &names);
    writer.push_bytes(BatchKind::Losses, 5, 1, bytemuck::bytes_of(&loss));
    writer.push_events(0, 5, 60, &second.events, &[]);
    writer.publish();
    let mut expected = events_of(&first.events);
    expected.extend(events_of(&second.events));
    (file, expected)
}

fn check(file: &TraceFile, expected: &[Event], place: &str, step: &str) {
    let trace = file.open();
    assert_eq!(trace.damage(), [], "{step}");
    assert_eq!(events(&trace), expected, "{step}");
    assert_eq!(trace.names().get(1), Some("child"), "{step}");
    assert_eq!(trace.names().get(2), Some("parent"), "{step}");
    assert_eq!(trace.names().len(), 2, "{step}");
    assert_eq!(trace.losses().len(), 1, "{step}");
    let is_raw = matches!(trace.chunks()[1].place, Place::Raw { slot: 1 });
    assert_eq!(is_raw, place == "raw", "{step}");
}

#[test]
fn death_after_any_step_neither_loses_nor_doubles_an_event() {
    let (mut file, expected) = before();
    check(&file, &expected, "raw", "batches published");

    let mut content = RawContent::default();
    assert!(content.read_into(file.slot(1)));
    // The writer went away with the test's borrow; marking is a store to the header.
    file.slot(1)[16..20].copy_from_slice(&2_u32.to_le_bytes());
    check(&file, &expected, "raw", "slot marked full");

    let names = file.encoder.names(2, &content.names).unwrap().to_vec();
    let at = file.append(&vec![0; names.len()]) as usize;
    check(&file, &expected, "raw", "place for the names chunk made");
    for written in (81..names.len()).step_by(7).chain([names.len()]) {
        file.bytes[at + 80..at + written].copy_from_slice(&names[80..written]);
        check(&file, &expected, "raw", "names chunk without its header");
    }
    file.bytes[at..at + 80].copy_from_slice(&names[..80]);
    check(&file, &expected, "raw", "names chunk appended");

    let chunk = file.encoder.data(&content, &[]).unwrap().to_vec();
    let at = file.bytes.len();
    for length in [1, 64, 79, 80, 81, 200, chunk.len() - 1] {
        let mut cut = vec![0; length];
        let payload = length.max(80) - 80;
        cut[length - payload..].copy_from_slice(&chunk[80..80 + payload]);
        file.bytes.extend(cut);
        check(&file, &expected, "raw", "part of the payload written");
        file.bytes.truncate(at);
    }
    file.bytes.resize(at + 80, 0);
    file.bytes.extend_from_slice(&chunk[80..]);
    check(&file, &expected, "raw", "payload of the data chunk written");
    file.bytes[at..at + 80].copy_from_slice(&chunk[..80]);
    check(&file, &expected, "sealed", "header of the data chunk written");
    mark_free(file.slot(1));
    check(&file, &expected, "sealed", "slot marked free");
    SlotWriter::begin(file.slot(1), 3).publish();
    check(&file, &expected, "sealed", "slot taken into use again");
}

#[test]
fn header_cut_at_the_end_of_a_page_is_an_unfinished_append() {
    let (mut file, expected) = before();
    let mut content = RawContent::default();
    assert!(content.read_into(file.slot(1)));
    // Chunks of names, of 128 and 192 bytes, up to where a header lies across two pages.
    let (mut sequence, mut long) = (2, Vec::new());
    push_name(&mut long, 2, "parent");
    push_call_site(&mut long, 2, 1, 1, 1);
    push_call_site(&mut long, 2, 2, 1, 1);
    while file.bytes.len() % 4096 != 4032 {
        let odd = file.bytes.len() % 128 == 4032 % 128;
        let chunk = file.encoder.names(sequence, if odd { &[] } else { &long }).unwrap().to_vec();
        assert_eq!(chunk.len(), if odd { 128 } else { 192 });
        file.append(&chunk);
        sequence += 1;
    }
    let at = file.bytes.len();
    let chunk = file.encoder.data(&content, &[]).unwrap().to_vec();
    file.append(&chunk);
    file.bytes[at + 64..at + 80].fill(0);
    check(&file, &expected, "raw", "first page of the header written");
    file.bytes[at + 10] ^= 1;
    check(&file, &expected, "raw", "whatever it says");
    file.bytes[at + 79] = 1;
    let trace = file.open();
    assert_eq!(trace.damage().len(), 1, "but only if nothing of the second page was written");
    assert_eq!(events(&trace), expected);
}

#[test]
fn batch_left_over_from_the_last_use_of_a_slot_does_not_come_back() {
    let mut file = TraceFile::live(1, 400);
    let old = spans(1, 50, 1_000);
    let mut writer = SlotWriter::begin(file.slot(0), 1);
    writer.push_events(0, 5, 25, &old.events[..25], &[]);
    writer.push_events(0, 5, 25, &old.events[25..], &[]);
    writer.publish();
    file.append_data(&old);
    mark_free(file.slot(0));
    let new = spans(2, 25, 5_000);
    let mut writer = SlotWriter::begin(file.slot(0), 2);
    writer.push_events(0, 5, 25, &new.events, &[]);
    writer.publish();
    // A header that claims one batch more finds the old one behind the new.
    file.slot(0)[20..24].copy_from_slice(&52_u32.to_le_bytes());
    let trace = file.open();
    let mut expected = events_of(&old.events);
    expected.extend(events_of(&new.events));
    assert_eq!(events(&trace), expected);
    assert_eq!(trace.damage().len(), 1);
    assert_eq!(
        trace.damage()[0].to_string(),
        "raw slot 0 (chunk 2) at byte 0x3000: a batch that is not whole events; \
         26 units of 32 are lost, what comes before them is intact"
    );
}

#[test]
fn raw_slot_with_another_sequence_in_its_header_does_not_double_its_events() {
    let (mut file, _) = before();
    let content = spans(2, 60, 9_000);
    file.append_data(&content);
    file.slot(1)[8] = 77;
    let trace = file.open();
    assert_eq!(events(&trace).len(), 50 + 60);
    assert!(!trace.damage().is_empty());
}

#[test]
fn freed_slot_saves_the_events_of_a_chunk_that_was_damaged_later() {
    let (mut file, expected) = before();
    let mut content = RawContent::default();
    assert!(content.read_into(file.slot(1)));
    let at = file.append_data(&content) as usize;
    mark_free(file.slot(1));
    check(&file, &expected, "sealed", "as it should be");
    let third = spans(3, 10, 90_000);
    file.append_data(&third);
    for byte in [at + 3, at + 30, at + 85] {
        file.bytes[byte] ^= 4;
        let trace = file.open();
        let mut all = expected.clone();
        all.extend(events_of(&third.events));
        assert_eq!(events(&trace), all);
        assert_eq!(trace.damage().len(), 1);
        file.bytes[byte] ^= 4;
    }
}

#[test]
fn a_slot_that_cannot_be_sealed_is_an_error_and_the_next_one_is_not() {
    let mut file = TraceFile::live(3, 100);
    let mut writer = SlotWriter::begin(file.slot(0), 1);
    assert!(writer.push_bytes(BatchKind::ClockPairs, 2, 1, b"no row of that table"));
    writer.publish();
    let mut writer = SlotWriter::begin(file.slot(1), 2);
    assert!(writer.push_events(1, 2, 10, &spans(2, 10, 100).events, &[]));
    writer.publish();

    let mut sealing = SlotSealing::new(RECORDING).unwrap();
    assert!(!sealing.begin(file.slot(2)), "never used");
    assert!(!sealing.is_busy() && sealing.complete().is_none());
    assert!(sealing.begin(file.slot(0)));
    let error = loop {
        assert!(sealing.is_busy());
        if let Err(error) = sealing.step(file.slot(0)) {
            break error.to_string();
        }
    };
    assert!(error.contains("clock pairs"), "{error}");
    assert!(!sealing.is_busy() && sealing.complete().is_none());

    assert!(sealing.begin(file.slot(1)));
    while sealing.progress() < 1.0 {
        sealing.step(file.slot(1)).unwrap();
    }
    let (chunk, content) = sealing.complete().unwrap();
    assert_eq!(content.events.len(), 10);
    let mut sealed = TraceFile::finished();
    sealed.append(chunk);
    sealed.finish(10);
    assert_eq!(events(&sealed.open()).len(), 10);
    sealing.end();
    assert!(!sealing.is_busy() && sealing.complete().is_none());
}

/// A slot of three rings that were drained in turn, and what each of them had.
fn slot_of_three_rings() -> (TraceFile, [Vec<Record>; 3]) {
    let mut file = TraceFile::live(1, 400);
    let mut rings: [Vec<Record>; 3] = Default::default();
    let mut writer = SlotWriter::begin(file.slot(0), 1);
    for (turn, records) in spans(1, 120, 1_000).events.chunks(10).enumerate() {
        let ring = turn % 3;
        assert!(writer.push_events(ring as u32, 5, 10, records, &[]));
        rings[ring].extend(records);
    }
    writer.publish();
    (file, rings)
}

fn sealed(slot: &[u8]) -> (Vec<u8>, RawContent) {
    let mut sealing = SlotSealing::new(RECORDING).unwrap();
    assert!(sealing.begin(slot));
    while sealing.progress() < 1.0 {
        sealing.step(slot).unwrap();
    }
    let (chunk, content) = sealing.complete().unwrap();
    (chunk.to_vec(), content.clone())
}

#[test]
fn a_batch_of_what_is_no_event_costs_what_follows_it_and_not_the_slot() {
    let mut file = TraceFile::live(1, 100);
    let mut writer = SlotWriter::begin(file.slot(0), 1);
    let records = spans(1, 30, 100).events;
    let stray = Record { kind: Kind::TEXT, ..Record::default() };
    assert!(writer.push_events(1, 5, 10, &records[..10], &[]));
    assert!(writer.push_events(1, 5, 10, &[&records[10..20], &[stray]].concat(), &[]));
    assert!(writer.push_events(1, 5, 10, &records[20..], &[]));
    writer.publish();
    let mut read = RawContent::default();
    assert!(read.read_into(file.slot(0)));
    let (_, content) = sealed(file.slot(0));
    assert_eq!(content, read);
    assert_eq!((content.events.len(), content.units_unreadable), (10, 23));
}

#[test]
fn an_event_that_goes_on_in_the_next_batch_is_none_as_any_reader_finds_it() {
    let mut file = TraceFile::live(1, 100);
    let mut writer = SlotWriter::begin(file.slot(0), 1);
    let records = spans(1, 10, 100).events;
    let with_two = Record { shape: Record::shape_of(2, ValueType::None), ..records[0] };
    let slot = Record { kind: Kind::TEXT, ..Record::default() };
    assert!(writer.push_events(1, 5, 10, &records, &[]));
    assert!(writer.push_events(1, 5, 1, &[with_two, slot], &[]));
    assert!(writer.push_events(1, 5, 10, &[&[slot], &records[..]].concat(), &[]));
    writer.publish();
    let mut read = RawContent::default();
    assert!(read.read_into(file.slot(0)));
    let (_, content) = sealed(file.slot(0));
    assert_eq!(content, read);
    assert_eq!(content.events.len(), 10);
}

#[test]
fn a_large_slot_becomes_the_same_chunk_step_by_step_and_at_once() {
    let mut file = TraceFile::live(1, 20_000);
    let plain = spans(1, 10_000, 1_000).events;
    // Every third with slots, so that some go on behind the end of a piece.
    let mut wide = Vec::new();
    for (number, record) in plain.iter().take(5_000).enumerate() {
        let slots = if number % 3 == 0 { 2 } else { 0 };
        let shape = Record::shape_of(slots, ValueType::None);
        wide.push(Record { shape, ..*record });
        wide.extend(vec![
            Record { kind: Kind::TEXT, start: number as u64, ..Record::default() };
            slots
        ]);
    }
    for units in [plain, wide] {
        let mut writer = SlotWriter::begin(file.slot(0), 1);
        let events = count_events(&units);
        assert!(writer.push_events(1, 5, events, &units, &[]));
        writer.publish();
        let mut sealing = SlotSealing::new(RECORDING).unwrap();
        assert!(sealing.begin(file.slot(0)));
        let mut before = -1.0;
        while sealing.progress() < 1.0 {
            assert!(sealing.progress() > before, "{before}");
            before = sealing.progress();
            sealing.step(file.slot(0)).unwrap();
        }
        let (chunk, content) = sealing.complete().unwrap();
        let mut encoder = ChunkEncoder::new(RECORDING).unwrap();
        assert!(encoder.data(content, &[]).unwrap() == chunk);
        let mut whole = TraceFile::finished();
        whole.append(chunk);
        whole.finish(events.into());
        assert_eq!(events_of(&units), self::events(&whole.open()));
    }
}

#[test]
fn what_a_ring_had_lies_together_in_the_chunk_as_it_was_recorded() {
    let (mut file, rings) = slot_of_three_rings();
    let drained = events(&file.open());
    let (chunk, _) = sealed(file.slot(0));
    file.append(&chunk);
    let together = events(&file.open());
    assert_eq!(together, events_of(&rings.concat()));
    assert_ne!(together, drained);
    assert_eq!(together.len(), drained.len());
}

#[test]
fn of_a_damaged_slot_that_is_kept_which_a_reader_of_the_slot_would_keep() {
    let (mut file, _) = slot_of_three_rings();
    // Twelve batches of ten records and a header, behind the slot's own.
    for batch in 0..12 {
        let byte = SLOT_HEAD + batch * 11 * 32 + 77;
        file.slot(0)[byte] ^= 1;
        let mut as_read = RawContent::default();
        assert!(as_read.read_into(file.slot(0)));
        let (_, content) = sealed(file.slot(0));
        assert_eq!(content, as_read, "batch {batch}");
        assert_eq!(content.events.len(), batch * 10);
        file.slot(0)[byte] ^= 1;
    }
}
