//! What a trace says, in a form that can be compared.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
};

use ringscope::{Kind, LostCause, SkipCause};
use ringscope_format::{
    Columns, Link, OwnedValue, RecordingState, Status, Trace, TrackKind, VITALS_LENGTH,
    VITALS_OFFSET, Vitals, parse_slots, read_twin,
};

/// An event as the file tells it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    pub(crate) depth: u8,
    pub(crate) track: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) link: u32,
    /// Of a point.
    pub(crate) value: Option<OwnedValue>,
    pub(crate) fields: Vec<(&'static str, OwnedValue)>,
    pub(crate) links: Vec<Link>,
    /// How many slots it has.
    pub(crate) slots: usize,
}

impl Event {
    /// A field that is an unsigned number.
    #[track_caller]
    pub(crate) fn number(&self, key: &str) -> u64 {
        match self.field(key) {
            Some(OwnedValue::U64(number)) => *number,
            other => panic!("{key} of {} is {other:?}", self.name),
        }
    }

    pub(crate) fn field(&self, key: &str) -> Option<&OwnedValue> {
        self.fields.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }
}

/// How many events are in a file that is being written, by its vitals.
pub(crate) fn stored(path: &Path) -> u64 {
    let mut block = [0; VITALS_LENGTH];
    File::open(path).unwrap().read_exact_at(&mut block, VITALS_OFFSET as u64).unwrap();
    stored_by(&block)
}

/// The same, by a copy of the vitals' block.
pub(crate) fn stored_by(block: &[u8; VITALS_LENGTH]) -> u64 {
    let vitals = read_twin(block).and_then(|(_, payload)| Vitals::parse(payload));
    vitals.map_or(0, |vitals| vitals.stored)
}

/// A trace, read to the end.
pub(crate) struct Told {
    pub(crate) trace: Trace<File>,
    /// The program's events, in the order of the file.
    pub(crate) events: Vec<Event>,
    /// The recorder's own.
    pub(crate) own: Vec<Event>,
    /// Events of chunks that are there and cannot be decoded.
    pub(crate) unreadable: u64,
    /// Names of the tracks.
    pub(crate) tracks: HashMap<u32, String>,
}

impl Told {
    /// Reads all of a file; nothing of it may be damaged.
    #[track_caller]
    pub(crate) fn read(path: &Path) -> Told {
        let told = Told::read_damaged(path);
        let damage: Vec<String> = told.trace.damage().iter().map(ToString::to_string).collect();
        assert!(damage.is_empty(), "{}: {damage:#?}", path.display());
        assert!(matches!(told.trace.events_missing(), None | Some(0)), "{}", path.display());
        assert_eq!(told.unreadable, 0, "{}", path.display());
        told
    }

    /// Reads what can be read.
    #[track_caller]
    pub(crate) fn read_damaged(path: &Path) -> Told {
        let file = File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let trace = Trace::open(file).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let tracks: HashMap<u32, String> =
            trace.tracks().iter().map(|track| (track.id, track.name.clone())).collect();
        let recorders: Vec<u32> = trace
            .tracks()
            .iter()
            .filter(|track| track.kind == TrackKind::Recorder)
            .map(|track| track.id)
            .collect();
        // Kept for good, once each: millions of events have few names.
        let mut known: HashMap<u32, &'static str> = HashMap::new();
        let mut name = |id: u32| {
            *known.entry(id).or_insert_with(|| match trace.names().get(id) {
                Some(text) => Box::leak(text.into()),
                None => panic!("{}: name {id} has no text", path.display()),
            })
        };
        let (mut events, mut own, mut unreadable) = (Vec::new(), Vec::new(), 0);
        for chunk in trace.chunks() {
            let Ok(batch) = trace.decode(chunk, Columns::ALL | Columns::LONG_TEXTS) else {
                unreadable += u64::from(chunk.events);
                continue;
            };
            let mut records = 0;
            for (record, slots) in batch.records() {
                records += 1;
                for (_, number) in parse_slots(slots).long {
                    assert!(batch.long_texts.get(number).is_some(), "text {number} is not there");
                }
                let details = batch.details(slots);
                assert!(tracks.contains_key(&record.track), "track {} is unknown", record.track);
                let event = Event {
                    name: name(record.name),
                    kind: record.kind,
                    status: record.status,
                    depth: record.depth,
                    track: record.track,
                    start: record.start,
                    end: record.end(),
                    link: record.link,
                    value: OwnedValue::from_bits(record.value_type(), record.value),
                    fields: details.fields.into_iter().map(|(key, v)| (name(key), v)).collect(),
                    links: details.links,
                    slots: slots.len(),
                };
                let list = if recorders.contains(&record.track) { &mut own } else { &mut events };
                list.push(event);
            }
            assert_eq!(records, chunk.events as usize, "of chunk {}", chunk.sequence);
        }
        Told { trace, events, own, unreadable, tracks }
    }

    #[track_caller]
    pub(crate) fn vitals(&self) -> &Vitals {
        self.trace.vitals().expect("the vitals are intact")
    }

    pub(crate) fn named(&self, name: &str) -> Vec<&Event> {
        self.events.iter().filter(|event| event.name == name).collect()
    }

    #[track_caller]
    pub(crate) fn only(&self, name: &str) -> &Event {
        let named = self.named(name);
        assert_eq!(named.len(), 1, "events named {name}");
        named[0]
    }

    pub(crate) fn thread_of(&self, event: &Event) -> &str {
        &self.tracks[&event.track]
    }

    /// The track of the one thread with this name.
    #[track_caller]
    pub(crate) fn track_of(&self, thread: &str) -> u32 {
        let mut tracks = self.tracks.iter().filter(|(_, name)| *name == thread);
        let (Some((&track, _)), None) = (tracks.next(), tracks.next()) else {
            panic!("{thread} is not one of {:?}", self.tracks)
        };
        track
    }

    /// Whoever opened this file finds that it ended in good order, that it has
    /// every event that it claims, and that its table of losses adds up.
    #[track_caller]
    pub(crate) fn is_finished_and_adds_up(&self) -> &Self {
        assert_eq!(self.vitals().state, RecordingState::Finished);
        self.adds_up()
    }

    /// Everything but how it ended.
    #[track_caller]
    pub(crate) fn adds_up(&self) -> &Self {
        let vitals = self.vitals();
        let found = self.events.len() + self.own.len();
        let stored = vitals.stored + vitals.own - vitals.overwritten;
        assert_eq!(found as u64, stored, "events found, and what the vitals say: {vitals:?}");
        let slots: usize = self.events.iter().map(|event| event.slots).sum();
        if vitals.overwritten == 0 {
            assert_eq!(slots as u64, vitals.stored_slots, "slots");
        }
        self
    }

    /// The table of losses says the same as the vitals.
    #[track_caller]
    pub(crate) fn losses_add_up(&self) -> &Self {
        let vitals = self.vitals();
        let mut table = ([0; 8], [0; 8], [0; 8]);
        let mut totals: HashMap<(u32, u8, u8), u64> = HashMap::new();
        for loss in self.trace.losses() {
            assert!(loss.not_before <= loss.not_after, "{loss:?}");
            assert!(loss.not_after <= vitals.tick, "{loss:?}");
            assert!(loss.events <= loss.total, "{loss:?}");
            let total = totals.entry((loss.track, loss.class, loss.cause)).or_default();
            *total += loss.events;
            // Threads that never had a ring are counted from the process's start on.
            assert!(loss.track == 0 || loss.total == *total, "{loss:?} after {total}");
            if loss.skip_cause().is_some() {
                table.2[loss.cause as usize] += loss.events;
            } else {
                table.0[loss.cause as usize] += loss.events;
                table.1[loss.cause as usize] += loss.slots;
            }
        }
        assert_eq!(table, (vitals.lost, vitals.lost_slots, vitals.skipped));
        self
    }

    /// Events of a track that were lost for a cause.
    pub(crate) fn lost(&self, track: u32, cause: LostCause) -> u64 {
        let losses = self.trace.losses().iter();
        let same = losses.filter(|loss| loss.track == track && loss.lost_cause() == Some(cause));
        same.map(|loss| loss.events).sum()
    }

    /// Events of a track that were skipped for a cause.
    pub(crate) fn skipped(&self, track: u32, cause: SkipCause) -> u64 {
        let losses = self.trace.losses().iter();
        let same = losses.filter(|loss| loss.track == track && loss.skip_cause() == Some(cause));
        same.map(|loss| loss.events).sum()
    }

    /// The spans that are open at the end: names by thread, outermost first,
    /// with the true depth. Asynchronous ones are under "".
    #[track_caller]
    pub(crate) fn open(&self) -> BTreeMap<String, (u32, Vec<String>)> {
        let stacks = self.trace.in_flight().expect("the chunks are intact");
        let named = stacks.iter().map(|stack| {
            let name = |id| self.trace.names().get(id).expect("names of open spans are known");
            let names = stack.spans.iter().map(|span| name(span.name).to_owned()).collect();
            let thread = self.tracks.get(&stack.track).cloned().unwrap_or_default();
            (thread, (stack.depth, names))
        });
        named.collect()
    }

    /// The program's events as indented text: threads in order of appearance by
    /// name, events in order of their start.
    pub(crate) fn tree(&self) -> String {
        let mut by_thread: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
        for event in &self.events {
            by_thread.entry(self.thread_of(event)).or_default().push(event);
        }
        let mut text = String::new();
        for (thread, mut events) in by_thread {
            let _ = writeln!(text, "{thread}");
            // A parent may start on the same tick as its child.
            events.sort_by_key(|event| (event.start, event.depth));
            for event in events {
                let _ = writeln!(text, "{}{}", "  ".repeat(event.depth as usize + 1), line(event));
            }
        }
        text
    }
}

fn line(event: &Event) -> String {
    let mut line = match event.kind {
        Kind::SPAN => String::new(),
        other => format!("{other:?} "),
    };
    line.push_str(event.name);
    if let Some(value) = &event.value {
        let _ = write!(line, " {}", show(value));
    }
    for (key, value) in &event.fields {
        let _ = write!(line, " {key}={}", show(value));
    }
    if event.status != Status::UNKNOWN {
        let _ = write!(line, " [{:?}]", event.status);
    }
    line
}

fn show(value: &OwnedValue) -> String {
    match value {
        OwnedValue::U64(n) => format!("{n}u"),
        OwnedValue::I64(n) => format!("{n}i"),
        OwnedValue::F64(n) => format!("{n:?}"),
        OwnedValue::Bool(b) => b.to_string(),
        OwnedValue::Name(id) => format!("name {id}"),
        OwnedValue::Ticks(n) => format!("{n} ticks"),
        OwnedValue::Text { text, cut } => format!("{text:?}{}", if *cut { "..." } else { "" }),
    }
}
