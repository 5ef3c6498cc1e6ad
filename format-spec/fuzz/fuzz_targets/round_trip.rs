//! Any events and tables from the writer to the reader, raw and sealed.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ringscope_format::*;

#[derive(Arbitrary, Debug)]
struct Event {
    start: u64,
    value: u64,
    name: u32,
    track: u32,
    link: u32,
    kind: u8,
    status: u8,
    depth: u8,
    value_type: u8,
    fields: Vec<(u32, Field)>,
    links: Vec<(u128, u32, u8)>,
}

#[derive(Arbitrary, Debug)]
enum Field {
    U64(u64),
    F64(f64),
    Bool(bool),
    Text(String),
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Some, where the ring's memory was cut, and which ring.
    Events(Vec<Event>, u8, u8),
    Name(u32, String),
    CallSite(u32, u32),
    Track(u32, u8, String),
    Clock([u64; 2], [i64; 3]),
    Loss(u32, u8, u64),
    LongText(u64, String, bool),
    /// The next slot.
    Seal(Vec<(u64, u64, u32, u32, u32)>),
}

/// Records, each with its slots.
type Events = Vec<(Record, Vec<Record>)>;

const RECORDING: [u8; 16] = [7; 16];
const UNITS: u32 = 4096;
const SLOTS: u32 = 8;

fuzz_target!(|steps: Vec<Step>| {
    let header = |layout| FileHeader {
        recording: RECORDING,
        file_number: 0,
        mode: Mode::Full,
        pid: 1,
        created_wall_ns: 0,
        created_tick: 0,
        counter: Counter::MonotonicNs,
        nominal_hz: 1_000_000_000,
        layout,
    };
    let live = Layout::live(1, SLOTS, UNITS, 0);
    let mut raw = vec![0; live.log_offset as usize];
    raw[..256].copy_from_slice(&header(live).to_bytes());
    let mut sealed = vec![0; 4096];
    sealed[..256].copy_from_slice(&header(Layout::finished()).to_bytes());
    let mut encoder = ChunkEncoder::new(RECORDING).unwrap();
    let mut expected: Events = Vec::new();
    let mut losses = Vec::new();

    let mut steps = steps.into_iter().peekable();
    for slot in 0..SLOTS {
        if steps.peek().is_none() {
            break;
        }
        let start = live.raw_offset as usize + (slot * live.raw_stride) as usize;
        let bytes = &mut raw[start..start + live.raw_stride as usize];
        let mut writer = SlotWriter::begin(bytes, u64::from(slot) + 1);
        let (mut open, mut rings) = (Vec::new(), Vec::<(u32, Vec<Record>)>::new());
        for step in steps.by_ref() {
            match step {
                Step::Seal(spans) => {
                    open = spans;
                    break;
                }
                Step::Events(events, split, ring) => {
                    // Tables have none, which is 0.
                    let ring = 1 + u32::from(ring) % 4;
                    let units = push_events(&mut writer, events, split.into(), ring, &mut expected);
                    match rings.iter_mut().find(|known| known.0 == ring) {
                        Some((_, known)) => known.extend(units),
                        None if units.is_empty() => {}
                        None => rings.push((ring, units)),
                    }
                }
                other => push_table(&mut writer, other, &mut losses),
            }
        }
        writer.publish();
        let mut content = RawContent::default();
        assert!(content.read_into(bytes));
        assert_eq!((content.units_unreadable, content.batches_unknown), (0, 0));
        if !content.names.is_empty() {
            let chunk = encoder.names(u64::from(slot) + 1, &content.names).unwrap();
            sealed.extend_from_slice(chunk);
        }
        let open: Vec<(OpenSpan, u32)> = open
            .into_iter()
            .map(|(start, id, name, track, depth)| (OpenSpan { start, id, name, track }, depth))
            .collect();
        sealed.extend_from_slice(encoder.data(&content, &open).unwrap());
        check_sealing(bytes, &content, rings);
    }

    let (raw, sealed) = (Trace::open(&raw[..]).unwrap(), Trace::open(&sealed[..]).unwrap());
    let mut texts = [Vec::new(), Vec::new()];
    for (at, trace) in [&raw, &sealed].into_iter().enumerate() {
        assert_eq!(trace.damage(), []);
        let mut events = Vec::new();
        for chunk in trace.chunks().iter().filter(|chunk| chunk.events > 0) {
            // Apart: together, a slot that refers to a text for the second time is changed.
            let batch = trace.decode(chunk, Columns::LONG_TEXTS).unwrap();
            assert!(batch.long_texts_error.is_none());
            texts[at].push(batch.long_texts.clone());
            let batch = trace.decode(chunk, Columns::ALL).unwrap();
            events.extend(batch.records().map(|(record, slots)| (record, slots.to_vec())));
        }
        assert_eq!(events, expected);
        assert_eq!(trace.losses(), losses);
        trace.in_flight().unwrap();
    }
    assert_eq!(texts[0], texts[1]);
    assert_eq!(raw.names(), sealed.names());
    assert_eq!(raw.tracks(), sealed.tracks());
    assert_eq!(raw.clock_pairs(), sealed.clock_pairs());
});

/// A slot that is sealed step by step has everything, and what a ring had together.
fn check_sealing(slot: &[u8], read: &RawContent, rings: Vec<(u32, Vec<Record>)>) {
    let mut sealing = SlotSealing::new(RECORDING).unwrap();
    assert!(sealing.begin(slot));
    while sealing.progress() < 1.0 {
        sealing.step(slot).unwrap();
    }
    let (_, content) = sealing.complete().unwrap();
    let together: Vec<Record> = rings.into_iter().flat_map(|(_, units)| units).collect();
    assert_eq!(content, &RawContent { events: together, ..read.clone() });
}

/// Writes as many of the events as there is room for, and returns those.
fn push_events(
    writer: &mut SlotWriter<'_>,
    events: Vec<Event>,
    split: usize,
    ring: u32,
    expected: &mut Events,
) -> Vec<Record> {
    let mut units = Vec::new();
    for event in &events {
        let fields: Vec<(u32, Value<'_>)> = event
            .fields
            .iter()
            .map(|(key, field)| {
                let value = match field {
                    Field::U64(n) => Value::U64(*n),
                    Field::F64(n) => Value::F64(*n),
                    Field::Bool(b) => Value::Bool(*b),
                    Field::Text(text) => Value::Text(text),
                };
                (*key, value)
            })
            .collect();
        let links: Vec<Link> = event
            .links
            .iter()
            .map(|(id, track, role)| Link { id: *id, track: *track, role: LinkRole(*role) })
            .collect();
        let long = long_refs(&fields, &links).numbered_from(event.value);
        let slots = slots_needed_with(&fields, &links, long);
        units.push(Record {
            start: event.start,
            value: event.value,
            name: event.name,
            track: event.track,
            link: event.link,
            kind: Kind(event.kind % 0x7F + 1),
            status: Status(event.status),
            depth: event.depth,
            shape: slots as u8 | event.value_type << 5,
        });
        write_slots_with(&fields, &links, long, |slot| units.push(slot));
        assert!(slots <= MAX_SLOTS);
        let wide = too_wide(&fields, &links);
        let details = parse_slots(&units[units.len() - slots..]);
        assert!(wide || details.fields.len() == fields.len());
        assert_eq!(details.long.len(), long.count());
    }
    let taken = whole_events(&units, &[], writer.room());
    let units = &units[..taken];
    let (first, second) = units.split_at(split.min(taken));
    assert_eq!(whole_events(first, second, taken), taken);
    assert!(writer.push_events(ring, 2, count_events(units), first, second));
    for unit in units {
        match expected.last_mut() {
            Some((_, slots)) if unit.kind.is_slot() => slots.push(*unit),
            _ => expected.push((*unit, Vec::new())),
        }
    }
    units.to_vec()
}

fn push_table(writer: &mut SlotWriter<'_>, step: Step, losses: &mut Vec<Loss>) {
    let mut bytes = Vec::new();
    let kind = match step {
        Step::Name(id, text) => {
            push_name(&mut bytes, id, &text);
            BatchKind::Names
        }
        Step::CallSite(id, line) => {
            push_call_site(&mut bytes, id, line, 1, 2);
            BatchKind::Names
        }
        Step::Track(id, kind, name) => {
            push_track(&mut bytes, id, TrackKind::Unknown(kind | 8), 3, &name);
            BatchKind::Tracks
        }
        Step::Clock([tick_before, tick_after], [mono_ns, wall_ns, boot_ns]) => {
            let pair = ClockPair {
                tick_before,
                tick_after,
                mono_ns,
                wall_ns,
                boot_ns,
                track: 0,
                unused: 0,
            };
            bytes.extend_from_slice(bytemuck::bytes_of(&pair));
            BatchKind::ClockPairs
        }
        Step::Loss(track, cause, events) => {
            let loss = Loss { track, class: Loss::LOST, cause, events, ..Loss::default() };
            if bytes.len() / UNIT + 2 <= writer.room() {
                losses.push(loss);
            }
            bytes.extend_from_slice(bytemuck::bytes_of(&loss));
            BatchKind::Losses
        }
        Step::LongText(number, text, cut) => {
            push_long_text(&mut bytes, number, &text, cut);
            BatchKind::LongTexts
        }
        Step::Events(..) | Step::Seal(..) => return,
    };
    writer.push_bytes(kind, 4, 1, &bytes);
}
