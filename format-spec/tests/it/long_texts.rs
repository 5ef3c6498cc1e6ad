//! Texts that are longer than their event holds: which they are, how they come back from
//! raw slots and sealed chunks, and what damage to them costs.

use crate::build::*;
use ringscope_format::*;

/// A stack trace of about so many bytes.
fn stack_trace(bytes: usize) -> String {
    (0..)
        .map(|at| format!("{at:4}: demo::caf\u{E9}::frame_{at}\n"))
        .scan(0, |length, line| {
            *length += line.len();
            (*length <= bytes).then_some(line)
        })
        .collect()
}

/// An error with these texts, keyed from 1, whose wholes are numbered from `first_number`.
fn failure(content: &mut RawContent, first_number: u64, texts: &[&str]) {
    let fields: Vec<(u32, Value<'_>)> =
        texts.iter().zip(1..).map(|(text, key)| (key, Value::Text(text))).collect();
    let long = long_refs(&fields, &[]).numbered_from(first_number);
    let mut number = first_number;
    for (at, text) in texts.iter().enumerate() {
        if long.contains(at) {
            push_long_text(&mut content.long_texts, number, text, false);
            number += 1;
        }
    }
    let slots = slots_needed_with(&fields, &[], long);
    let error = Record::point(Kind::ERROR, 1, 1, 5_000 + first_number, (ValueType::None, 0));
    content.events.push(Record { shape: Record::shape_of(slots, ValueType::None), ..error });
    write_slots_with(&fields, &[], long, |slot| content.events.push(slot));
}

/// Spans, and an error with two texts that do not fit and one that does.
fn content(sequence: u64) -> RawContent {
    let mut content = spans(sequence, 40, 1_000);
    let (stack, arguments) = (stack_trace(40_000), format!("[{}]", "17,".repeat(7_000)));
    failure(&mut content, sequence * 100, &[&stack, "TypeError", &arguments]);
    content
}

/// What the fields of all errors say, in the order of the file.
fn texts_of(batch: &Batch) -> Vec<Vec<(String, bool)>> {
    let errors = batch.records().filter(|(record, _)| record.kind == Kind::ERROR);
    let told = errors.map(|(_, slots)| batch.details(slots).fields);
    told.map(|fields| {
        let text = |(_, value)| match value {
            OwnedValue::Text { text, cut } => (text, cut),
            other => panic!("{other:?}"),
        };
        fields.into_iter().map(text).collect()
    })
    .collect()
}

const WITH_TEXTS: Columns = Columns::LONG_TEXTS;

fn all() -> Columns {
    Columns::ALL | WITH_TEXTS
}

fn whole() -> Vec<(String, bool)> {
    let arguments = format!("[{}]", "17,".repeat(7_000));
    vec![(stack_trace(40_000), false), ("TypeError".to_owned(), false), (arguments, false)]
}

fn first_slot(field: (u32, Value<'_>)) -> Record {
    let mut slots = Vec::new();
    write_slots(&[field], &[], |slot| slots.push(slot));
    slots[0]
}

#[test]
fn texts_that_do_not_fit_are_followed_by_the_numbers_of_their_wholes() {
    let (long, longer) = ("x".repeat(690), "y".repeat(5_000));
    let fields = [
        (1, Value::Text(&long)),
        (2, Value::Text("short")),
        (3, Value::U64(3)),
        (4, Value::Text(&longer)),
    ];
    assert_eq!(long_refs(&fields[..3], &[]), LongRefs::NONE, "both texts fit");
    let long = long_refs(&fields, &[]).numbered_from(70);
    assert_eq!((long.count(), long.contains(0), long.contains(2)), (2, true, true));
    assert_eq!(texts_left_cut(&fields, &[], long), 0);
    assert_eq!(texts_left_cut(&fields, &[], long.without(2)), 1);
    assert_eq!(texts_left_cut(&fields, &[], LongRefs::NONE), 2);
    let mut slots = Vec::new();
    write_slots_with(&fields, &[], long, |slot| slots.push(slot));
    assert_eq!(slots.len(), MAX_SLOTS);
    assert_eq!(slots.len(), slots_needed_with(&fields, &[], long));
    let mut details = parse_slots(&slots);
    assert_eq!(details.long, [(1, 70), (3, 71)]);
    let cut = |value: &OwnedValue| matches!(value, OwnedValue::Text { cut: true, .. });
    assert!(cut(&details.fields[1].1) && cut(&details.fields[3].1));
    let mut entries = Vec::new();
    push_long_text(&mut entries, 71, &longer, false);
    let mut texts = LongTexts::default();
    texts.absorb(&entries);
    details.complete(&texts);
    assert!(cut(&details.fields[1].1), "its long text is not there");
    assert_eq!(details.fields[3], (4, OwnedValue::Text { text: longer, cut: false }));
}

#[test]
fn texts_of_any_lengths_take_no_more_slots_than_there_are() {
    let long = "z".repeat(3_000);
    let link = Link { id: 1, track: 0, role: LinkRole::Parent };
    for texts in 1..=MAX_SLOTS {
        for width in 0..40 {
            let mut fields = vec![(7, Value::Text(&long[..width * 24])); texts];
            fields[texts / 2].1 = Value::Text(&long[..(width * 71).min(3_000)]);
            fields.push((8, Value::U64(1)));
            for links in 0..=MAX_SLOTS - texts {
                let links = vec![link; links];
                let long = long_refs(&fields, &links);
                let mut slots = Vec::new();
                write_slots_with(&fields, &links, long, |slot| slots.push(slot));
                assert_eq!(slots.len(), slots_needed_with(&fields, &links, long));
                assert!(slots.len() <= MAX_SLOTS, "{texts} texts of {width} slots");
                let details = parse_slots(&slots);
                assert_eq!(details.long.len(), long.count());
            }
        }
    }
}

#[test]
fn number_behind_another_text_or_behind_none_is_ignored() {
    let text = first_slot((1, Value::Text("a")));
    let other = long_text_slot(2, 9);
    assert_eq!(parse_slots(&[other]).long, []);
    assert_eq!(parse_slots(&[text, other]).long, []);
    let fields = first_slot((1, Value::U64(1)));
    assert_eq!(parse_slots(&[text, fields, long_text_slot(1, 9)]).long, []);
}

#[test]
fn long_texts_come_back_whole_from_raw_slots_and_from_sealed_chunks() {
    let content = content(1);
    let mut sealed = TraceFile::finished();
    sealed.append_data(&content);
    sealed.finish(41);
    let mut raw = TraceFile::live(1, 4_000);
    let mut writer = SlotWriter::begin(raw.slot(0), 1);
    assert!(writer.push_bytes(BatchKind::LongTexts, 1, 2, &content.long_texts));
    assert!(writer.push_events(0, 1, 41, &content.events, &[]));
    writer.publish();
    let mut read = RawContent::default();
    assert!(read.read_into(raw.slot(0)));
    assert_eq!((read.batches_unknown, &read.long_texts), (0, &content.long_texts));
    for file in [&sealed, &raw] {
        let trace = file.open();
        assert_eq!(trace.damage(), []);
        assert_eq!(trace.chunks()[0].long_text_bytes as usize, content.long_texts.len());
        let batch = trace.decode(&trace.chunks()[0], all()).unwrap();
        assert!(batch.long_texts_error.is_none());
        assert_eq!(texts_of(&batch), [whole()]);
    }
    // The text compresses, as stack traces do.
    assert!(sealed.bytes.len() - 4_096 < 12_000, "{}", sealed.bytes.len());
}

#[test]
fn text_that_several_slots_refer_to_is_that_of_the_first_alone() {
    let (mut content, long) = (spans(1, 0, 1_000), "x".repeat(5_000));
    failure(&mut content, 7, &[&long]);
    failure(&mut content, 8, &[&long]);
    // Another event and the same number.
    let again = content.events[..content.events.len() / 2].to_vec();
    content.events.splice(again.len()..again.len(), again);
    let mut sealed = TraceFile::finished();
    sealed.append_data(&content);
    let mut raw = TraceFile::live(1, 4_000);
    let mut writer = SlotWriter::begin(raw.slot(0), 1);
    assert!(writer.push_bytes(BatchKind::LongTexts, 1, 2, &content.long_texts));
    assert!(writer.push_events(0, 1, 3, &content.events, &[]));
    writer.publish();
    for file in [&sealed, &raw] {
        let trace = file.open();
        let batch = trace.decode(&trace.chunks()[0], all()).unwrap();
        let told: Vec<(usize, bool)> =
            texts_of(&batch).iter().map(|told| (told[0].0.len(), told[0].1)).collect();
        assert!(matches!(told[..], [(5_000, false), (..5_000, true), (5_000, false)]), "{told:?}");
        // Slots of a reader that does not resolve them are as they were written.
        let batch = trace.decode(&trace.chunks()[0], Columns::ALL).unwrap();
        let slots = content.events.iter().filter(|unit| unit.kind.is_slot());
        assert!(batch.slots.iter().eq(slots));
    }
}

#[test]
fn reader_that_does_not_ask_for_long_texts_gets_their_beginnings_and_reads_none() {
    let mut file = TraceFile::finished();
    let mut chunk = file.encoder.data(&content(1), &[]).unwrap().to_vec();
    let (_, place) = section(&chunk, 36);
    chunk[place].fill(0xEE);
    file.append(&chunk);
    let trace = file.open();
    assert_eq!(trace.damage(), [], "nobody has looked at them");
    let mut batch = trace.decode(&trace.chunks()[0], Columns::ALL).unwrap();
    assert!(batch.long_texts.is_empty() && batch.long_texts_error.is_none());
    let [told] = texts_of(&batch).try_into().unwrap();
    assert_eq!(told.iter().map(|(_, cut)| *cut).collect::<Vec<_>>(), [true, false, true]);
    assert!(told[0].0.len() > 600 && stack_trace(40_000).starts_with(&told[0].0));
    // Decoding into a batch that had some leaves none of them.
    let mut other = TraceFile::finished();
    other.append_data(&content(2));
    let good = other.open();
    good.decode_into(&good.chunks()[0], all(), &mut batch).unwrap();
    assert_eq!(batch.long_texts.len(), 2);
    good.decode_into(&good.chunks()[0], Columns::ALL, &mut batch).unwrap();
    assert!(batch.long_texts.is_empty());
}

#[test]
fn damage_to_long_texts_costs_them_alone_and_is_told() {
    let mut file = TraceFile::finished();
    let mut chunk = file.encoder.data(&content(1), &[]).unwrap().to_vec();
    let (_, place) = section(&chunk, 36);
    chunk[place.start + 9] ^= 1;
    file.append(&chunk);
    file.append_data(&content(2));
    file.finish(82);
    let trace = file.open();
    let batch = trace.decode(&trace.chunks()[0], all()).unwrap();
    assert_eq!((batch.events, batch.long_texts.len()), (41, 0));
    let error = batch.long_texts_error.as_ref().unwrap().to_string();
    assert!(error.contains("long texts") && error.contains("checksum mismatch"), "{error}");
    assert!(texts_of(&batch)[0][0].1, "its beginning is there, and cut");
    let batch = trace.decode(&trace.chunks()[1], all()).unwrap();
    assert_eq!(texts_of(&batch), [whole()]);
}

#[test]
fn section_of_long_texts_that_claims_too_much_is_refused_without_taking_memory() {
    let claims: [(usize, &[u8]); 4] =
        [(12, &u32::MAX.to_le_bytes()), (12, &(32_u32 << 20).to_le_bytes()), (2, &[2]), (2, &[9])];
    for (at, bytes) in claims {
        let mut file = TraceFile::finished();
        let mut chunk = file.encoder.data(&content(1), &[]).unwrap().to_vec();
        let (index, _) = section(&chunk, 36);
        patch_directory(&mut chunk, |directory| {
            directory[32 * index + at..][..bytes.len()].copy_from_slice(bytes);
        });
        file.append(&chunk);
        let trace = file.open();
        let batch = trace.decode(&trace.chunks()[0], all()).unwrap();
        assert_eq!((batch.events, batch.long_texts.len()), (41, 0), "byte {at}");
        assert!(batch.long_texts_error.is_some(), "byte {at}");
    }
}

#[test]
fn file_cut_off_anywhere_in_its_long_texts_never_shows_a_wrong_one() {
    let mut file = TraceFile::finished();
    file.append_data(&content(1));
    let start = file.append_data(&content(2)) as usize;
    let (_, place) = section(&file.bytes[start..], 36);
    for length in (start + place.start - 100..file.bytes.len()).step_by(13) {
        let trace = Trace::open(&file.bytes[..length]).unwrap();
        for chunk in trace.chunks() {
            let batch = trace.decode(chunk, all()).unwrap();
            for (told, whole) in texts_of(&batch).iter().flat_map(|told| told.iter().zip(whole())) {
                assert!(*told == whole || (told.1 && whole.0.starts_with(&told.0)));
            }
        }
    }
}

#[test]
fn raw_slot_with_a_damaged_long_text_loses_the_event_with_it() {
    // A text comes before its event, so no event refers to one that is not there.
    let content = content(1);
    let mut file = TraceFile::live(1, 4_000);
    let mut writer = SlotWriter::begin(file.slot(0), 1);
    writer.push_events(0, 1, 40, &content.events[..40], &[]);
    writer.push_bytes(BatchKind::LongTexts, 1, 2, &content.long_texts);
    writer.push_events(0, 1, 1, &content.events[40..], &[]);
    writer.publish();
    file.slot(0)[64 + 42 * 32 + 500] ^= 1;
    let trace = file.open();
    assert_eq!(trace.damage().len(), 1);
    assert_eq!(events(&trace).len(), 40);
}

#[test]
fn writer_keeps_long_texts_in_the_chunk_of_their_event() {
    let header = FileHeader::converted([7; 16], 0);
    let mut writer = TraceWriter::new(std::io::Cursor::new(Vec::new()), header).unwrap();
    let (name, track) = (writer.name("failed"), writer.track(TrackKind::Thread, 1, "main"));
    let long = |at: u64| format!("{at}: {}", stack_trace(60_000));
    for at in 0..100 {
        let error = Record::point(Kind::ERROR, name, track, at, (ValueType::None, 0));
        writer.event(error, &[(name, Value::Text(&long(at)))], &[]).unwrap();
        if at % 10 == 0 {
            let number = writer.long_text("as another file has it", true);
            let slots = [first_slot((name, Value::Text("as ano"))), long_text_slot(name, number)];
            writer.event_with_slots(error, &slots).unwrap();
        }
    }
    let trace = Trace::open(writer.finish().unwrap().into_inner()).unwrap();
    assert_eq!((trace.damage(), trace.vitals().unwrap().long_texts), (&[][..], 110));
    assert!(trace.chunks().len() > 4, "{}", trace.chunks().len());
    let (mut found, mut copied) = (0, 0);
    for chunk in trace.chunks() {
        let batch = trace.decode(chunk, all()).unwrap();
        for told in texts_of(&batch) {
            if told[0] == ("as another file has it".to_owned(), true) {
                copied += 1;
            } else {
                assert_eq!(told[0], (long(found), false));
                found += 1;
            }
        }
    }
    assert_eq!((found, copied), (100, 10));
}

#[test]
fn broken_table_of_long_texts_is_not_written() {
    let mut file = TraceFile::finished();
    let mut content = content(1);
    content.long_texts.pop();
    let error = file.encoder.data(&content, &[]).unwrap_err().to_string();
    assert!(error.contains("long texts"), "{error}");
}
