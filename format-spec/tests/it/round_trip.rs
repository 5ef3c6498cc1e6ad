//! Whatever is written comes back: from raw slots, and from sealed chunks.

use crate::build::*;
use proptest::collection::vec;
use proptest::prelude::*;
use ringscope_format::*;

/// Numbers near which things go wrong.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0..300_u64,
        2 => any::<u64>(),
        1 => prop_oneof![Just(u64::MAX), Just(1 << 63), Just((1 << 63) - 1), Just(u64::MAX - 1)],
        2 => (1_u64 << 40)..(1 << 40) + 5000,
    ]
}

fn small() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..8_u32, 1 => any::<u32>()]
}

fn slot() -> impl Strategy<Value = Record> {
    (number(), number(), small(), small(), small(), 0x80..=0xEF_u8, any::<[u8; 3]>()).prop_map(
        |(start, value, name, track, link, kind, rest)| Record {
            start,
            value,
            name,
            track,
            link,
            kind: Kind(kind),
            status: Status(rest[0]),
            depth: rest[1],
            shape: rest[2],
        },
    )
}

fn event() -> impl Strategy<Value = Vec<Record>> {
    let kind = prop_oneof![6 => 1..8_u8, 2 => 0x40..0x44_u8, 1 => 1..0x80_u8];
    let slots = prop_oneof![6 => vec(slot(), 0), 2 => vec(slot(), 0..4), 1 => vec(slot(), 31)];
    let depth = prop_oneof![4 => 0..4_u8, 1 => any::<u8>()];
    (number(), number(), small(), small(), small(), kind, (any::<u8>(), depth, 0..8_u8), slots)
        .prop_map(|(start, value, name, track, link, kind, (status, depth, types), slots)| {
            let record = Record {
                start,
                value,
                name,
                track,
                link,
                kind: Kind(kind),
                status: Status(status),
                depth,
                shape: types << 5 | slots.len() as u8,
            };
            [record].into_iter().chain(slots).collect()
        })
}

/// One batch for a raw slot.
#[derive(Clone, Debug)]
enum Batch {
    Events(Vec<Vec<Record>>, prop::sample::Index),
    Names(Vec<(u32, String)>),
    CallSites(Vec<(u32, u32, u32)>),
    Tracks(Vec<(u32, u8, u64, String)>),
    Clocks(Vec<ClockPair>),
    Losses(Vec<Loss>),
    LongTexts(Vec<(u64, String)>),
}

fn batch() -> impl Strategy<Value = Batch> {
    let clock = (number(), number(), any::<[i64; 3]>(), small()).prop_map(
        |(tick_before, tick_after, [mono_ns, wall_ns, boot_ns], track)| ClockPair {
            tick_before,
            tick_after,
            mono_ns,
            wall_ns,
            boot_ns,
            track,
            unused: 0,
        },
    );
    let loss = (small(), 1..3_u8, 0..8_u8, any::<[u64; 5]>()).prop_map(
        |(track, class, cause, [events, slots, not_before, not_after, total])| Loss {
            track,
            class,
            cause,
            unused: 0,
            events,
            slots,
            not_before,
            not_after,
            total,
        },
    );
    prop_oneof![
        6 => (vec(event(), 1..40), any::<prop::sample::Index>())
            .prop_map(|(events, split)| Batch::Events(events, split)),
        1 => vec((1..50_u32, ".{0,40}"), 1..8).prop_map(Batch::Names),
        1 => vec((1..50_u32, any::<u32>(), small()), 1..4).prop_map(Batch::CallSites),
        1 => vec((1..50_u32, 1..9_u8, any::<u64>(), ".{0,20}"), 1..5).prop_map(Batch::Tracks),
        1 => vec(clock, 1..6).prop_map(Batch::Clocks),
        1 => vec(loss, 1..6).prop_map(Batch::Losses),
        1 => vec((any::<u64>(), ".{0,300}"), 1..6).prop_map(Batch::LongTexts),
    ]
}

/// Packs a table batch.
fn table(batch: &Batch) -> (BatchKind, usize, Vec<u8>) {
    let mut bytes = Vec::new();
    match batch {
        Batch::Events(..) => unreachable!("events are no table"),
        Batch::Names(names) => {
            names.iter().for_each(|(id, text)| push_name(&mut bytes, *id, text));
            (BatchKind::Names, names.len(), bytes)
        }
        Batch::CallSites(sites) => {
            sites
                .iter()
                .for_each(|(id, line, file)| push_call_site(&mut bytes, *id, *line, *file, 7));
            (BatchKind::Names, sites.len(), bytes)
        }
        Batch::Tracks(tracks) => {
            for (id, kind, os_id, name) in tracks {
                push_track(&mut bytes, *id, TrackKind::Unknown(*kind), *os_id, name);
            }
            (BatchKind::Tracks, tracks.len(), bytes)
        }
        Batch::Clocks(pairs) => {
            (BatchKind::ClockPairs, pairs.len(), bytemuck::cast_slice(pairs).to_vec())
        }
        Batch::Losses(losses) => {
            (BatchKind::Losses, losses.len(), bytemuck::cast_slice(losses).to_vec())
        }
        Batch::LongTexts(texts) => {
            texts.iter().for_each(|(at, text)| push_long_text(&mut bytes, *at, text, at % 2 == 1));
            (BatchKind::LongTexts, texts.len(), bytes)
        }
    }
}

/// Writes the batches of one slot; returns what should come back.
fn fill(bytes: &mut [u8], sequence: u64, batches: &[Batch]) -> RawContent {
    let mut expected = RawContent { sequence, ..RawContent::default() };
    let mut writer = SlotWriter::begin(bytes, sequence);
    for batch in batches {
        if let Batch::Events(events, split) = batch {
            let units: Vec<Record> = events.concat();
            let (first, second) = units.split_at(split.index(units.len()));
            assert!(writer.push_events(3, 77, events.len() as u32, first, second));
            assert_eq!(count_events(&units) as usize, events.len());
            expected.events.extend(units);
            continue;
        }
        let (kind, items, table) = table(batch);
        assert!(writer.push_bytes(kind, 77, items as u32, &table));
        match kind {
            BatchKind::Names => expected.names.extend(table),
            BatchKind::Tracks => expected.tracks.extend(table),
            BatchKind::ClockPairs => expected.clocks.extend(table),
            BatchKind::LongTexts => expected.long_texts.extend(table),
            _ => expected.losses.extend(table),
        }
    }
    writer.publish();
    expected
}

/// The chunk that a slot becomes step by step, which must get on with each.
fn sealed_in_steps(slot: &[u8]) -> Vec<u8> {
    let mut sealing = SlotSealing::new(RECORDING).unwrap();
    assert!(sealing.begin(slot));
    let mut before = -1.0;
    while sealing.progress() < 1.0 {
        assert!(sealing.complete().is_none() && sealing.progress() > before);
        before = sealing.progress();
        sealing.step(slot).unwrap();
    }
    sealing.complete().unwrap().0.to_vec()
}

/// The long texts of a chunk.
fn long_texts(trace: &Trace<&[u8]>, chunk: &ChunkInfo) -> LongTexts {
    let batch = trace.decode(chunk, Columns::LONG_TEXTS).unwrap();
    assert!(batch.long_texts_error.is_none());
    batch.long_texts
}

/// Everything that a reader says about a trace.
fn told(trace: &Trace<&[u8]>) -> impl PartialEq + std::fmt::Debug + use<> {
    assert_eq!(trace.damage(), []);
    (
        events(trace),
        trace.names().clone(),
        trace.tracks().to_vec(),
        trace.losses().to_vec(),
        trace.clock_pairs().to_vec(),
        trace
            .chunks()
            .iter()
            .filter(|chunk| chunk.events > 0)
            .map(|chunk| long_texts(trace, chunk))
            .collect::<Vec<_>>(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn raw_and_sealed_say_the_same_and_what_was_written(
        slots in vec(vec(batch(), 0..5), 1..4),
    ) {
        let mut raw = TraceFile::live(slots.len() as u32, 8000);
        let mut sealed = TraceFile::finished();
        let mut written = Vec::new();
        let mut expected_events = Vec::new();
        for (at, batches) in slots.iter().enumerate() {
            let expected = fill(raw.slot(at as u32), at as u64 + 1, batches);
            let mut content = RawContent::default();
            prop_assert!(content.read_into(raw.slot(at as u32)));
            prop_assert_eq!(content.generation, 1);
            content.generation = 0;
            prop_assert_eq!(&content, &expected);
            if !content.names.is_empty() {
                let chunk = sealed.encoder.names(at as u64 + 1, &content.names).unwrap().to_vec();
                sealed.append(&chunk);
            }
            let offset = sealed.append_data(&content) as usize;
            let in_steps = sealed_in_steps(raw.slot(at as u32));
            prop_assert_eq!(&in_steps, &sealed.bytes[offset..]);
            expected_events.extend(events_of(&content.events));
            written.push(content);
        }
        sealed.finish(expected_events.len() as u64);
        let (from_raw, from_sealed) = (raw.open(), sealed.open());
        prop_assert_eq!(told(&from_raw), told(&from_sealed));
        prop_assert_eq!(events(&from_sealed), expected_events);
        let losses = |since: u64| -> Vec<Loss> {
            let rows = |it: &RawContent| {
                it.losses.chunks_exact(48).map(bytemuck::pod_read_unaligned).collect::<Vec<_>>()
            };
            written.iter().filter(|it| it.sequence >= since).flat_map(rows).collect()
        };
        prop_assert_eq!(from_sealed.losses(), losses(0));
        for since in 0..=slots.len() as u64 + 1 {
            prop_assert_eq!(from_raw.losses_since(since), losses(since));
            prop_assert_eq!(from_sealed.losses_since(since), losses(since));
        }
        for (info, raw_info) in from_sealed.chunks().iter().filter(|it| it.events > 0).zip(from_raw.chunks()) {
            prop_assert_eq!(
                (info.sequence, info.events, info.slots, info.first_tick, info.last_tick),
                (raw_info.sequence, raw_info.events, raw_info.slots, raw_info.first_tick, raw_info.last_tick)
            );
        }
    }

    #[test]
    fn columns_that_were_asked_for_are_the_same_alone_and_all_together(
        batches in vec(batch(), 1..5),
        bits in 0..1024_u16,
    ) {
        let all = [
            Columns::START, Columns::VALUE, Columns::NAME, Columns::TRACK, Columns::LINK,
            Columns::KIND, Columns::STATUS, Columns::DEPTH, Columns::SHAPE, Columns::SLOTS,
        ];
        let asked = all.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0)
            .fold(Columns::NONE, |set, (_, column)| set | *column);
        let mut raw = TraceFile::live(1, 8000);
        let content = fill(raw.slot(0), 1, &batches);
        let mut sealed = TraceFile::finished();
        sealed.append_data(&content);
        for file in [&raw, &sealed] {
            let trace = file.open();
            for chunk in trace.chunks() {
                let whole = trace.decode(chunk, Columns::ALL).unwrap();
                // A batch that was used before shows nothing of that.
                let mut part = trace.decode(chunk, Columns::ALL).unwrap();
                trace.decode_into(chunk, asked, &mut part).unwrap();
                prop_assert_eq!(part.events, whole.events);
                let has = |column| asked.contains(column);
                prop_assert_eq!(&part.start, if has(Columns::START) { &whole.start } else { const { &Vec::new() } });
                prop_assert_eq!(&part.value, if has(Columns::VALUE) { &whole.value } else { const { &Vec::new() } });
                prop_assert_eq!(&part.name, if has(Columns::NAME) { &whole.name } else { const { &Vec::new() } });
                prop_assert_eq!(&part.track, if has(Columns::TRACK) { &whole.track } else { const { &Vec::new() } });
                prop_assert_eq!(&part.link, if has(Columns::LINK) { &whole.link } else { const { &Vec::new() } });
                prop_assert_eq!(&part.kind, if has(Columns::KIND) { &whole.kind } else { const { &Vec::new() } });
                prop_assert_eq!(&part.status, if has(Columns::STATUS) { &whole.status } else { const { &Vec::new() } });
                prop_assert_eq!(&part.depth, if has(Columns::DEPTH) { &whole.depth } else { const { &Vec::new() } });
                prop_assert_eq!(&part.shape, if has(Columns::SHAPE) { &whole.shape } else { const { &Vec::new() } });
                prop_assert_eq!(&part.slots, if has(Columns::SLOTS) { &whole.slots } else { const { &Vec::new() } });
            }
        }
    }

    #[test]
    fn fields_and_links_come_back_whole_unless_they_were_cut(
        numbers in vec((any::<u32>(), 0..6_u8, number()), 0..12),
        texts in vec((any::<u32>(), ".{0,60}"), 0..6),
        links in vec((any::<u128>(), any::<u32>(), any::<u8>()), 0..4),
    ) {
        let mut fields: Vec<(u32, Value<'_>)> = numbers.iter().map(|(key, kind, bits)| (*key, match kind {
            0 => Value::U64(*bits),
            1 => Value::I64(*bits as i64),
            2 => Value::F64(*bits as f64 / 3.0),
            3 => Value::Bool(bits % 2 == 1),
            4 => Value::Name(*bits as u32),
            _ => Value::Ticks(*bits),
        })).collect();
        fields.extend(texts.iter().map(|(key, text)| (*key, Value::Text(text))));
        let links: Vec<Link> = links.into_iter()
            .map(|(id, track, role)| Link { id, track, role: LinkRole(role) })
            .collect();
        let mut slots = Vec::new();
        write_slots(&fields, &links, |slot| slots.push(slot));
        prop_assert_eq!(slots.len(), slots_needed(&fields, &links));
        prop_assert!(slots.iter().all(|slot| slot.kind.is_slot()));
        let details = parse_slots(&slots);
        prop_assert_eq!(&details.links, &links);
        prop_assert_eq!(details.fields.len(), fields.len());
        for ((key, value), (read_key, read)) in fields.iter().zip(&details.fields) {
            prop_assert_eq!(key, read_key);
            match (value, read) {
                (Value::Text(text), OwnedValue::Text { text: read, cut }) => {
                    prop_assert!(text.starts_with(read.as_str()));
                    prop_assert_eq!(*cut, read.len() < text.len());
                }
                (value, read) => {
                    let (value_type, bits) = value.to_bits();
                    prop_assert_eq!(OwnedValue::from_bits(value_type, bits), Some(read.clone()));
                }
            }
        }
    }
}

#[test]
fn seventy_thousand_names_and_a_chunk_of_a_million_events_come_back() {
    let mut file = TraceFile::finished();
    let mut entries = Vec::new();
    for id in 1..=70_000 {
        push_name(&mut entries, id, &format!("module::function_{id}"));
    }
    let chunk = file.encoder.names(1, &entries).unwrap().to_vec();
    file.append(&chunk);
    let content = spans(1, MAX_ITEMS, 1_000_000);
    file.append_data(&content);
    file.finish(MAX_ITEMS as u64);
    let trace = file.open();
    assert_eq!(trace.damage(), []);
    assert_eq!(trace.names().len(), 70_000);
    assert_eq!(trace.names().get(70_000), Some("module::function_70000"));
    let batch = trace.decode(&trace.chunks()[0], Columns::ALL).unwrap();
    assert!(batch.records().map(|(record, _)| record).eq(content.events));
}

#[test]
fn metadata_and_open_spans_come_back() {
    let mut file = TraceFile::finished();
    let chunk = file.encoder.metadata(1, &[("host.name", "old"), ("empty", "")]).unwrap().to_vec();
    file.append(&chunk);
    let chunk = file.encoder.metadata(2, &[("host.name", "new")]).unwrap().to_vec();
    file.append(&chunk);
    let open = OpenSpan { start: 10, id: 0, name: 4, track: 1 };
    let inner = OpenSpan { start: 20, id: 0, name: 5, track: 1 };
    let asynchronous = OpenSpan { start: 5, id: 99, name: 6, track: 2 };
    let content = spans(1, 10, 100);
    let spans = [(open, 0), (inner, 1), (asynchronous, u32::MAX)];
    let chunk = file.encoder.data(&content, &spans).unwrap().to_vec();
    file.append(&chunk);
    file.finish(10);
    let trace = file.open();
    assert_eq!(trace.damage(), []);
    assert_eq!(trace.metadata()["host.name"], "new");
    assert_eq!(trace.metadata()["empty"], "");
    let in_flight = trace.in_flight().unwrap();
    assert_eq!(in_flight.len(), 2);
    assert_eq!((in_flight[0].track, in_flight[0].depth), (0, 1));
    assert_eq!(in_flight[0].spans, [asynchronous]);
    assert_eq!((in_flight[1].track, in_flight[1].depth), (1, 2));
    assert_eq!(in_flight[1].spans, [open, inner]);
}

#[test]
fn span_that_has_a_record_is_not_in_flight_any_more() {
    let mut file = TraceFile::live(1, 100);
    let ended = OpenSpan { start: 105, id: 0, name: 1, track: 1 };
    let open = OpenSpan { start: 50, id: 0, name: 9, track: 1 };
    let other = OpenSpan { start: 105, id: 0, name: 1, track: 2 };
    write_in_flight(file.in_flight(0), 1, 900, 1, 2, &[open, ended]);
    write_in_flight(file.in_flight(1), 1, 900, 2, 1, &[other]);
    let events = spans(1, 10, 100).events;
    assert_eq!((events[0].start, events[0].name, events[0].track), (105, 1, 1));
    let mut writer = SlotWriter::begin(file.slot(0), 1);
    writer.push_events(0, 900, 10, &events, &[]);
    writer.publish();
    for sealed in [false, true] {
        if sealed {
            let content = RawContent { events: events.clone(), ..spans(1, 0, 0) };
            file.append_data(&content);
        }
        let trace = file.open();
        assert_eq!(trace.open_spans().iter().map(|it| it.spans.len()).sum::<usize>(), 3);
        let in_flight = trace.in_flight().unwrap();
        assert_eq!((in_flight[0].depth, in_flight[0].spans.as_slice()), (1, &[open][..]));
        assert_eq!((in_flight[1].track, in_flight[1].spans.as_slice()), (2, &[other][..]));
    }
}

#[test]
fn a_scope_that_ended_does_not_end_a_span_that_began_with_it() {
    let mut file = TraceFile::live(1, 100);
    let open = OpenSpan { start: 105, id: 0, name: 1, track: 1 };
    write_in_flight(file.in_flight(0), 1, 900, 1, 1, &[open]);
    let mut writer = SlotWriter::begin(file.slot(0), 1);
    writer.push_events(0, 900, 1, &[Record::timed(Kind::SCOPE, 1, 1, 105, 20)], &[]);
    writer.publish();
    assert_eq!(file.open().in_flight().unwrap()[0].spans, [open]);
}

#[test]
fn ring_area_is_read_in_order_of_sequence() {
    let layout = Layout::live(1, 1, 10, 16 << 10);
    let mut file = TraceFile::new(FileHeader { mode: Mode::KeepLast, ..header(layout) });
    file.append_names(1, &[(1, "child"), (2, "parent")]);
    let ring = layout.ring_offset as usize;
    let mut at = ring + 4096;
    // The ring has come round: 7 and 8 lie before 5 and 6, with leftovers around.
    file.bytes[ring..ring + 8192].fill(0xA5);
    for sequence in [5, 6, 7, 8] {
        if sequence == 7 {
            at = ring + 64;
        }
        let content = spans(sequence, 20, sequence * 1000);
        let chunk = file.encoder.data(&content, &[]).unwrap().to_vec();
        file.bytes[at..at + chunk.len()].copy_from_slice(&chunk);
        at += chunk.len() + 192;
    }
    let vitals = Vitals {
        state: RecordingState::Finished,
        stored: 160,
        overwritten: 80,
        ..Vitals::default()
    };
    file.vitals(&vitals);
    let trace = file.open();
    assert_eq!(trace.damage(), []);
    assert_eq!(trace.events_missing(), Some(0));
    let sequences: Vec<u64> = trace.chunks().iter().map(|chunk| chunk.sequence).collect();
    assert_eq!(sequences, [5, 6, 7, 8]);
    let expected: Vec<_> = (5..9)
        .flat_map(|sequence| events_of(&spans(sequence, 20, sequence * 1000).events))
        .collect();
    assert_eq!(events(&trace), expected);
}
