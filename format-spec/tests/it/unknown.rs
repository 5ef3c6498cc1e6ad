//! What a later version may add is skipped; what it may not, or what must not be
//! missed, is refused.

use crate::build::*;
use ringscope_format::*;

#[test]
fn chunk_of_an_unknown_kind_is_skipped_and_counted() {
    let mut file = TraceFile::finished();
    file.append_data(&spans(1, 10, 100));
    let mut strange = file.encoder.data(&spans(9, 10, 100), &[]).unwrap().to_vec();
    patch_header(&mut strange, |header| header[32] = 200);
    file.append(&strange);
    file.append_data(&spans(2, 10, 900));
    file.finish(20);
    let trace = file.open();
    assert_eq!(trace.damage(), []);
    assert_eq!((trace.unknown_chunks(), events(&trace).len()), (1, 20));
}

#[test]
fn chunk_with_a_reserved_flag_is_refused_and_its_events_are_counted() {
    let mut file = TraceFile::finished();
    file.append_data(&spans(1, 10, 100));
    let mut newer = file.encoder.data(&spans(2, 33, 900), &[]).unwrap().to_vec();
    patch_header(&mut newer, |header| header[33] = 1);
    file.append(&newer);
    file.append_data(&spans(3, 10, 5_000));
    file.finish(53);
    let trace = file.open();
    assert_eq!(events(&trace).len(), 20);
    assert_eq!(trace.events_missing(), Some(33));
    let problems: Vec<String> = trace.damage().iter().map(Damage::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].starts_with("chunk 2 at byte "), "{problems:?}");
    assert!(
        problems[0].ends_with(
            ": a reserved bit is set, which only a newer version of ringscope can read; \
             33 events are lost"
        ),
        "{problems:?}"
    );
}

#[test]
fn section_of_an_unknown_kind_is_skipped() {
    let mut file = TraceFile::finished();
    let content = spans(1, 100, 100);
    let mut chunk = file.encoder.data(&content, &[(OpenSpan::default(), 0)]).unwrap().to_vec();
    let (index, _) = section(&chunk, 35);
    patch_directory(&mut chunk, |directory| directory[32 * index] = 200);
    file.append(&chunk);
    file.finish(100);
    let trace = file.open();
    assert_eq!(trace.damage(), []);
    assert_eq!(trace.open_spans(), []);
    assert_eq!(events(&trace), events_of(&content.events));
}

#[test]
fn section_of_an_unknown_encoding_costs_its_column_and_no_other() {
    let mut file = TraceFile::finished();
    let mut chunk = file.encoder.data(&spans(1, 100, 100), &[]).unwrap().to_vec();
    let (index, _) = section(&chunk, 3);
    patch_directory(&mut chunk, |directory| directory[32 * index + 2] = 9);
    file.append(&chunk);
    let trace = file.open();
    assert!(trace.decode(&trace.chunks()[0], Columns::NAME).is_err());
    let batch = trace.decode(&trace.chunks()[0], Columns::START | Columns::VALUE).unwrap();
    assert_eq!(batch.start.len(), 100);
}

#[test]
fn batch_of_an_unknown_kind_is_skipped() {
    let mut file = TraceFile::live(1, 100);
    let content = spans(1, 10, 100);
    let mut writer = SlotWriter::begin(file.slot(0), 1);
    writer.push_bytes(BatchKind::Names, 1, 1, b"from the future");
    writer.push_events(0, 1, 10, &content.events, &[]);
    writer.publish();
    let slot = file.slot(0);
    slot[64 + 28] = 0xFB;
    let crc = crc32c::crc32c(&1_u64.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &slot[68..96 + 15]);
    slot[64..68].copy_from_slice(&crc.to_le_bytes());
    let mut raw = RawContent::default();
    assert!(raw.read_into(file.slot(0)));
    assert_eq!((raw.batches_unknown, raw.units_unreadable), (1, 0));
    let trace = file.open();
    assert_eq!(trace.damage(), []);
    assert_eq!(events(&trace), events_of(&content.events));
}

#[test]
fn events_of_unknown_kinds_within_a_class_come_back() {
    let mut file = TraceFile::finished();
    let mut content = spans(1, 20, 100);
    content.events[3].kind = Kind(0x3F);
    content.events[4].kind = Kind(0x7F);
    file.append_data(&content);
    let trace = file.open();
    assert_eq!(events(&trace), events_of(&content.events));
}

#[test]
fn newer_major_version_is_refused_with_a_message_that_says_what_to_do() {
    let mut file = TraceFile::finished();
    file.bytes[8] = 2;
    let error = Trace::open(file.bytes.as_slice()).err().unwrap();
    assert!(matches!(error, Error::NewerVersion { major: 2, minor: 2 }));
    assert!(error.to_string().contains("a newer one"), "{error}");
}

#[test]
fn file_that_is_no_trace_is_refused() {
    for bytes in [&b""[..], b"\x89", b"#!/bin/sh\n", &[0; 5000]] {
        let error = Trace::open(bytes).err().unwrap();
        assert!(matches!(error, Error::NotATrace), "{error}");
    }
}

#[test]
fn vitals_of_a_later_version_are_longer_and_read_all_the_same() {
    let mut file = TraceFile::finished();
    let vitals = Vitals { stored: 7, state: RecordingState::Unknown(77), ..Vitals::default() };
    let mut payload = vitals.to_bytes().to_vec();
    payload.extend([1; 100]);
    let block = &mut file.bytes[VITALS_OFFSET..VITALS_OFFSET + VITALS_LENGTH];
    assert!(write_twin(block, 1, &payload));
    let trace = file.open();
    assert_eq!((trace.vitals(), trace.damage()), (Some(&vitals), &[][..]));
}
