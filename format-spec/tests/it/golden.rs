//! The example of SPEC 13: `testdata/annotated.trace`, and its listing byte by
//! byte. The writer must go on making these bytes, the reader go on reading
//! them, and the listing must be of them.
//!
//! `RINGSCOPE_REGENERATE=1 cargo test -p ringscope-format golden` writes both anew.

use crate::build::*;
use crate::golden_listing::listing;
use ringscope_format::*;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)
}

fn regenerate() -> bool {
    std::env::var_os("RINGSCOPE_REGENERATE").is_some()
}

const NAMES: [(u32, &str); 6] = [
    (1, "token"),
    (2, "decode"),
    (3, "loss"),
    (4, "src/main.rs"),
    (5, "demo"),
    (6, "request.scope"),
];

/// One of every structure of a finished file, small enough that nothing is worth
/// compressing: the bytes do not depend on the version of zstd.
pub(crate) fn annotated() -> TraceFile {
    let mut file = TraceFile::finished();
    let pairs = [("host.name", "example"), ("process.command", "loop --once")];
    let chunk = file.encoder.metadata(1, &pairs).unwrap().to_vec();
    file.append(&chunk);
    let mut names = Vec::new();
    for (id, text) in NAMES {
        push_name(&mut names, id, text);
    }
    push_call_site(&mut names, 1, 17, 4, 5);
    let chunk = file.encoder.names(1, &names).unwrap().to_vec();
    file.append(&chunk);
    let content = content();
    let open = OpenSpan { start: 900, id: 0, name: 5, track: 1 };
    let chunk = file.encoder.data(&content, &[(open, 0)]).unwrap().to_vec();
    file.append(&chunk);
    let mut vitals = Vitals {
        tick: 9_000,
        state: RecordingState::Finished,
        stored: count_events(&content.events).into(),
        stored_slots: 6,
        bytes: file.bytes.len() as u64 - HEADER_LENGTH,
        drain_ticks: 4,
        long_texts: 1,
        ..Vitals::default()
    };
    (vitals.lost[1], vitals.lost_slots[1], vitals.skipped[1]) = (2, 1, 3);
    file.vitals(&vitals);
    file
}

/// What the error of the example says: short, so that the example is, but as if only a
/// part of it had fitted into the slots.
const LONG: &str = "CUDA error 700: an illegal memory access was encountered";

/// Two tokens with a decode in each, one event with fields, text and an id, an error with a
/// long text, and the scope of the request that all of this but the event was done for.
fn content() -> RawContent {
    let mut content = RawContent { sequence: 1, ..RawContent::default() };
    push_track(&mut content.tracks, 1, TrackKind::Thread, 4711, "main");
    push_track(&mut content.tracks, 2, TrackKind::GpuQueue, 7, "queue");
    for (tick, ns) in [(1_000, 500), (9_000, 4_500)] {
        let pair = ClockPair {
            tick_before: tick - 10,
            tick_after: tick + 10,
            mono_ns: ns,
            wall_ns: 1_700_000_000_000_000_000 + ns,
            boot_ns: ns + 50,
            ..ClockPair::default()
        };
        content.clocks.extend_from_slice(bytemuck::bytes_of(&pair));
    }
    let lost = Loss {
        track: 1,
        class: Loss::LOST,
        cause: LostCause::RingFull as u8,
        unused: 0,
        events: 2,
        slots: 1,
        not_before: 5_000,
        not_after: 6_000,
        total: 2,
    };
    content.losses.extend_from_slice(bytemuck::bytes_of(&lost));
    for (token, took) in [(1_000, 310), (2_000, 290)] {
        let inner = Record::timed(Kind::SPAN, 2, 1, token + 20, took - 30);
        let outer = Record::timed(Kind::SPAN, 1, 1, token, took);
        content.events.push(Record { depth: 1, status: Status::OK, ..inner });
        content.events.push(Record { status: Status::OK, ..outer });
    }
    let fields = [(3, Value::F64(0.25)), (2, Value::Text("h\u{E9}llo"))];
    let links = [Link { id: 0xABCD, track: 0, role: LinkRole::Request }];
    let slots = slots_needed(&fields, &links);
    let event = Record::point(Kind::EVENT, 3, 2, 3_000, (ValueType::U64, 7));
    let shape = Record::shape_of(slots, ValueType::U64);
    content.events.push(Record { shape, link: 9, ..event });
    write_slots(&fields, &links, |slot| content.events.push(slot));
    let error = Record::point(Kind::ERROR, 2, 1, 3_500, (ValueType::None, 0));
    let shape = Record::shape_of(2, ValueType::None);
    content.events.push(Record { status: Status::ERROR, shape, ..error });
    write_slots(&[(3, Value::Text(&LONG[..24]))], &[], |slot| {
        content.events.push(Record { depth: 2, ..slot }); // the text was cut here
    });
    content.events.push(long_text_slot(3, 1));
    push_long_text(&mut content.long_texts, 1, LONG, false);
    let shape = Record::shape_of(1, ValueType::None);
    let scope = Record::timed(Kind::SCOPE, 6, 1, 990, 2_610);
    content.events.push(Record { shape, ..scope });
    write_slots(&[], &links, |slot| content.events.push(slot));
    content
}

/// A file whose process was killed: one chunk sealed, one slot full, one filling,
/// two stacks in flight.
pub(crate) fn killed() -> TraceFile {
    let mut file = TraceFile::live(2, 40);
    file.append_names(1, &[(1, "token"), (2, "decode")]);
    let mut first = content();
    first.names.clear();
    file.append_data(&first);
    let second = spans(2, 12, 20_000);
    let mut writer = SlotWriter::begin(file.slot(0), 2);
    writer.push_events(0, 21_000, 6, &second.events[..6], &[]);
    writer.push_events(1, 21_000, 6, &second.events[6..9], &second.events[9..]);
    writer.mark_full();
    let third = spans(3, 4, 30_000);
    let mut writer = SlotWriter::begin(file.slot(1), 3);
    let mut names = Vec::new();
    push_name(&mut names, 3, "late");
    writer.push_bytes(BatchKind::Names, 31_000, 1, &names);
    writer.push_events(0, 31_000, 4, &third.events, &[]);
    writer.publish();
    let span = |start, name| OpenSpan { start, id: 0, name, track: 1 };
    write_in_flight(file.in_flight(0), 1, 31_000, 1, 1, &[span(30_500, 1)]);
    write_in_flight(file.in_flight(0), 2, 31_500, 1, 2, &[span(30_500, 1), span(30_700, 2)]);
    let asynchronous = OpenSpan { start: 30_600, id: 99, name: 3, track: 1 };
    write_in_flight(file.in_flight(1), 1, 31_500, 0, 1, &[asynchronous]);
    file.vitals(&Vitals { tick: 31_000, stored: 19, ..Vitals::default() });
    file.vitals(&Vitals { tick: 31_500, stored: 23, ..Vitals::default() });
    file
}

fn stored(name: &str, made: &[u8]) -> Vec<u8> {
    if regenerate() {
        std::fs::write(path(name), made).unwrap();
    }
    std::fs::read(path(name)).unwrap()
}

#[test]
fn golden_files_are_what_the_writer_makes() {
    assert_eq!(stored("annotated.trace", &annotated().bytes), annotated().bytes);
    assert_eq!(stored("killed.trace", &killed().bytes), killed().bytes);
}

#[test]
fn golden_listing_is_of_the_golden_file_and_leaves_no_byte_out() {
    let made = listing(&annotated().bytes);
    let text = String::from_utf8(stored("annotated.txt", made.as_bytes())).unwrap();
    assert_eq!(text, made);
    // Without the code that made it: offsets, bytes and repetitions alone.
    let mut bytes = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("0x")) {
        let (offset, rest) = line.split_at(8);
        let offset = usize::from_str_radix(offset.trim().trim_start_matches("0x"), 16).unwrap();
        assert_eq!(offset, bytes.len(), "{line}");
        let columns: Vec<&str> = rest[..rest.len().min(50)].split_whitespace().collect();
        match columns.as_slice() {
            [byte, "x", count] => {
                let byte = u8::from_str_radix(byte, 16).unwrap();
                bytes.resize(bytes.len() + count.parse::<usize>().unwrap(), byte);
            }
            hex => bytes.extend(hex.iter().map(|byte| u8::from_str_radix(byte, 16).unwrap())),
        }
    }
    assert!(bytes == annotated().bytes);
}

#[test]
fn golden_finished_file_says_what_it_said() {
    let bytes = std::fs::read(path("annotated.trace")).unwrap();
    let trace = Trace::open(bytes.as_slice()).unwrap();
    assert_eq!(trace.damage(), []);
    assert_eq!(trace.events_missing(), Some(0));
    assert_eq!(trace.header(), &header(Layout::finished()));
    let vitals = trace.vitals().unwrap();
    assert_eq!((vitals.stored, vitals.total_lost(), vitals.total_skipped()), (7, 2, 3));
    assert_eq!((vitals.produced(), vitals.long_texts), (12, 1));
    assert_eq!(events(&trace), events_of(&content().events));
    let names: Vec<(u32, &str)> = trace.names().iter().collect();
    assert_eq!(names, NAMES);
    assert_eq!(trace.names().call_sites(1), [CallSiteEntry { line: 17, file: 4, module: 5 }]);
    assert_eq!(trace.metadata()["process.command"], "loop --once");
    assert_eq!(trace.tracks()[1].kind, TrackKind::GpuQueue);
    assert_eq!(trace.losses()[0].lost_cause(), Some(LostCause::RingFull));
    assert_eq!((trace.clock().ns_per_tick(), trace.clock().error_ns()), (0.5, Some(5.0)));
    assert_eq!(trace.in_flight().unwrap()[0].spans[0].name, 5);
    let details = parse_slots(&events(&trace)[4].1);
    let text = OwnedValue::Text { text: "h\u{E9}llo".to_owned(), cut: false };
    assert_eq!(details.fields, [(3, OwnedValue::F64(0.25)), (2, text)]);
    assert_eq!(details.links[0].id, 0xABCD);
    let columns = Columns::ALL | Columns::LONG_TEXTS;
    let batch = trace.decode(&trace.chunks()[0], columns).unwrap();
    let beginning = OwnedValue::Text { text: LONG[..24].to_owned(), cut: true };
    let whole = OwnedValue::Text { text: LONG.to_owned(), cut: false };
    let slots = batch.records().nth(5).unwrap().1;
    assert_eq!(parse_slots(slots).fields, [(3, beginning)]);
    assert_eq!(batch.details(slots).fields, [(3, whole)]);
    let (scope, slots) = batch.records().nth(6).unwrap();
    assert_eq!((scope.kind, scope.duration()), (Kind::SCOPE, Some(2_610)));
    let request = Link { id: 0xABCD, track: 0, role: LinkRole::Request };
    assert_eq!(parse_slots(slots).links, [request]);
}

#[test]
fn golden_file_of_the_second_version_goes_on_being_read() {
    let bytes = std::fs::read(path("annotated-1.1.trace")).unwrap();
    let trace = Trace::open(bytes.as_slice()).unwrap();
    assert_eq!((trace.damage(), trace.events_missing()), (&[][..], Some(0)));
    let vitals = trace.vitals().unwrap();
    assert_eq!((vitals.stored, vitals.long_texts), (6, 1));
    let without_the_scope = &content().events[..11];
    assert_eq!(events(&trace), events_of(without_the_scope));
}

#[test]
fn golden_file_of_the_first_version_goes_on_being_read() {
    let bytes = std::fs::read(path("annotated-1.0.trace")).unwrap();
    let trace = Trace::open(bytes.as_slice()).unwrap();
    assert_eq!((trace.damage(), trace.events_missing()), (&[][..], Some(0)));
    let vitals = trace.vitals().unwrap();
    assert_eq!((vitals.stored, vitals.drain_ticks), (5, 4));
    assert_eq!((vitals.long_texts, vitals.texts_cut), (0, 0));
    let without_the_error = &content().events[..8];
    assert_eq!(events(&trace), events_of(without_the_error));
}

#[test]
fn golden_killed_file_says_what_it_said() {
    let bytes = std::fs::read(path("killed.trace")).unwrap();
    let trace = Trace::open(bytes.as_slice()).unwrap();
    assert_eq!((trace.damage(), trace.events_missing()), (&[][..], None));
    let expected = [content().events, spans(2, 12, 20_000).events, spans(3, 4, 30_000).events];
    assert_eq!(events(&trace), events_of(&expected.concat()));
    assert_eq!(trace.names().get(3), Some("late"));
    let in_flight = trace.in_flight().unwrap();
    assert_eq!((in_flight[0].track, in_flight[0].depth, in_flight[0].tick), (1, 2, 31_500));
    assert_eq!((in_flight[1].track, in_flight[1].spans[0].id), (0, 99));
    assert_eq!(
        trace.vitals().map(|it| (it.state, it.stored)),
        Some((RecordingState::Recording, 23))
    );
}
