//! `scrub` leaves no text behind and changes no figure.

use std::{collections::BTreeSet, path::Path};

use ringscope_format::{
    Columns, Kind, Link, LinkRole, OpenSpan, OwnedValue, Record, Trace, TrackKind, Value,
    ValueType, parse_slots,
};
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    edit_cut::alike,
    making::{self, THREAD, span},
};

/// What must not be found in what is given away.
const SECRETS: [&str; 12] = [
    "secret_step",
    "secret_kernel",
    "secret_open",
    "secret_model",
    "secret thread",
    "secret queue",
    "secret prompt",
    "secret source.rs",
    "secret::module",
    "secret host",
    "secret note",
    "secret_note_key",
];

fn secretive(path: &Path) {
    making::trace(path, |writer| {
        let note = [("host.name", "secret host"), ("secret_note_key", "secret note")];
        writer.metadata(&note).unwrap();
        writer.metadata(&[("edit", "secret note")]).unwrap();
        let main = writer.track(THREAD, 1, "secret thread 1");
        let queue = writer.track(TrackKind::GpuQueue, 2, "secret queue on GPU 3 stream 7");
        let name = |writer: &mut making::Writer, text: &str| writer.name(text);
        let step = name(writer, "secret_step");
        let (file, module) = (name(writer, "secret source.rs"), name(writer, "secret::module"));
        writer.call_site(step, 17, file, module);
        let (model, tiny) = (name(writer, "model"), name(writer, "secret_model"));
        let (kernel, open) = (name(writer, "secret_kernel"), name(writer, "secret_open"));
        let (allocate, bytes) = (name(writer, "memory.allocate"), name(writer, "bytes"));
        let groups = name(writer, "groups");
        for at in 0..5_u64 {
            let text = format!("secret prompt {} that goes on for more than one slot", at % 2);
            let fields = [
                (model, Value::Name(tiny)),
                (bytes, Value::U64(4_711 + at)),
                (model, Value::Text(&text)),
                (groups, Value::Text("8x8x1")),
                (model, Value::Text("secret_model")),
            ];
            let link = Link { id: 5, track: main, role: LinkRole::Request };
            let record = span(step, main, 1_000 * at, 100 + at);
            writer.event(record, &fields, &[link]).unwrap();
            let work = Record::timed(Kind::KERNEL, kernel, queue, 1_000 * at + 20, 50);
            writer.event(work, &[], &[]).unwrap();
            let value = (ValueType::U64, 64);
            let point = Record::point(Kind::EVENT, allocate, main, 1_000 * at + 30, value);
            writer.event(point, &[], &[]).unwrap();
            let word = (ValueType::Name, u64::from(tiny));
            let point = Record::point(Kind::GAUGE, tiny, main, 1_000 * at + 40, word);
            writer.event(point, &[], &[]).unwrap();
        }
        writer.open_span(OpenSpan { start: 4_500, id: 0, name: open, track: main }, 0);
    });
}

/// Every text of a trace, wherever it is.
fn texts(path: &Path) -> BTreeSet<String> {
    let bytes = std::fs::read(path).unwrap();
    let trace = Trace::open(bytes).unwrap();
    assert!(trace.damage().is_empty());
    let mut all: BTreeSet<String> = trace.names().iter().map(|(_, name)| name.into()).collect();
    all.extend(trace.tracks().iter().map(|track| track.name.clone()));
    all.extend(trace.metadata().iter().flat_map(|(key, value)| [key.clone(), value.clone()]));
    for chunk in trace.chunks() {
        let batch = trace.decode(chunk, Columns::ALL).unwrap();
        for (_, slots) in batch.records() {
            all.extend(parse_slots(slots).fields.into_iter().filter_map(
                |(_, value)| match value {
                    OwnedValue::Text { text, .. } => Some(text),
                    _ => None,
                },
            ));
        }
    }
    all
}

fn scrub(dir: &Path, more: &[&str]) -> BTreeSet<String> {
    let mut all = vec!["scrub", "run.trace", "-o", "clean.trace"];
    all.extend(more);
    let run = analyze(dir, &all);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    texts(&dir.join("clean.trace"))
}

#[test]
fn no_text_of_the_original_is_left_anywhere() {
    let dir = tempdir().unwrap();
    secretive(&dir.path().join("run.trace"));
    let before = texts(&dir.path().join("run.trace"));
    for secret in SECRETS {
        assert!(before.iter().any(|text| text.contains(secret)), "{secret} is not in the test");
    }
    for more in [&[][..], &["--key", "open sesame"]] {
        let after = scrub(dir.path(), more);
        assert!(!after.iter().any(|text| text.contains("secret")), "{after:?}");
        let known = ["model", "bytes", "groups", "memory.allocate", "8x8x1", "host.name", "edit"];
        for word in known {
            assert!(after.contains(word), "{word} is missing in {after:?}");
        }
        let bytes = std::fs::read(dir.path().join("clean.trace")).unwrap();
        for secret in SECRETS.map(str::as_bytes).into_iter().chain([&b"secret"[..], b"sesame"]) {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret));
        }
    }
    let run = analyze(dir.path(), &["scrub", "run.trace", "-o", "clean.trace"]);
    assert_eq!(run.stderr, "analyze: clean.trace: 20 events kept, 0 left out\n");
}

#[test]
fn figures_stay_and_the_same_text_has_the_same_stand_in() {
    let dir = tempdir().unwrap();
    secretive(&dir.path().join("run.trace"));
    scrub(dir.path(), &[]);
    let rows = |command: &str, trace: &str| {
        let json = analyze(dir.path(), &[command, trace, "--format", "json"]).json();
        let mut rows = json["rows"].clone();
        for row in rows.as_array_mut().into_iter().flatten() {
            let row = row.as_object_mut().unwrap();
            row.retain(|key, _| !["name", "track", "top_name"].contains(&key.as_str()));
        }
        rows
    };
    for command in ["summary", "threads"] {
        let (before, after) = (rows(command, "run.trace"), rows(command, "clean.trace"));
        assert!(alike(&before, &after), "{command}: {before}\n{after}");
    }
    let devices = analyze(dir.path(), &["kernels", "clean.trace", "--format", "json"]).stdout;
    assert!(devices.contains("\"3\""), "the device's number is gone: {devices}");

    let trace = Trace::open(std::fs::read(dir.path().join("clean.trace")).unwrap()).unwrap();
    let batch = trace.decode(&trace.chunks()[0], Columns::ALL).unwrap();
    let name = |id: u32| trace.names().get(id).unwrap();
    let mut prompts = Vec::new();
    for (record, slots) in batch.records().filter(|(record, _)| record.kind == Kind::SPAN) {
        assert_eq!(name(record.name), "name-1");
        let fields = parse_slots(slots).fields;
        let texts: Vec<&str> = fields
            .iter()
            .filter_map(|(_, value)| match value {
                OwnedValue::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let OwnedValue::Name(model) = fields[0].1 else { panic!("{fields:?}") };
        assert_eq!(texts[2], name(model), "as a text and as a name");
        assert_eq!(fields[1].1, OwnedValue::U64(4_711 + prompts.len() as u64));
        prompts.push(texts[0].to_owned());
    }
    assert!(prompts[0] == prompts[2] && prompts[1] == prompts[3] && prompts[0] != prompts[1]);
}

#[test]
fn traces_scrubbed_with_one_key_can_be_compared_and_with_another_not() {
    let dir = tempdir().unwrap();
    secretive(&dir.path().join("run.trace"));
    let (one, other) = (scrub(dir.path(), &["--key", "a"]), scrub(dir.path(), &["--key", "b"]));
    let shared: Vec<&String> = one.intersection(&other).collect();
    assert!(!shared.iter().any(|text| text.starts_with("name-")), "{shared:?}");
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (track, name) = (writer.track(THREAD, 1, "t"), writer.name("secret_step"));
        writer.event(span(name, track, 0, 10), &[], &[]).unwrap();
    });
    let name = |texts: &BTreeSet<String>| {
        texts.iter().filter(|text| text.starts_with("name-")).cloned().collect::<BTreeSet<_>>()
    };
    let small = name(&scrub(dir.path(), &["--key", "a"]));
    assert_eq!(small.len(), 2, "{small:?}");
    assert_eq!(small.intersection(&name(&one)).count(), 1, "the step, and not the track");
}

#[test]
fn names_that_match_are_kept_and_texts_are_not() {
    let dir = tempdir().unwrap();
    secretive(&dir.path().join("run.trace"));
    let after = scrub(dir.path(), &["--keep", "secret_[sk]*", "--keep", "*thread*"]);
    let left: Vec<&String> = after.iter().filter(|text| text.contains("secret")).collect();
    assert_eq!(left, ["secret thread 1", "secret_kernel", "secret_step"]);
}
