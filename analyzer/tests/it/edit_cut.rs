//! `cut` keeps what passes, and its figures are those of the original.

use std::path::Path;

use proptest::prelude::*;
use ringscope_format::{
    Columns, Kind, Link, LinkRole, Loss, OpenSpan, Record, Status, Trace, TrackKind, Value,
    ValueType, parse_slots,
};
use serde_json::{Value as Json, json};
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    making::{self, THREAD, span, tokens},
    nested_traces::{make, steps},
};

/// The rows without what depends on which children are in the file.
fn rows(document: &Json, and_self_time: bool) -> Json {
    let mut rows = document["rows"].clone();
    for row in rows.as_array_mut().unwrap() {
        let row = row.as_object_mut().unwrap();
        if !and_self_time {
            row.retain(|key, _| !key.starts_with("self"));
        }
    }
    rows
}

/// Whether two documents are equal up to the last digits of their numbers: sums of
/// squares depend on how records are shared out to chunks.
pub(crate) fn alike(a: &Json, b: &Json) -> bool {
    alike_within(1e-9, a, b)
}

/// The same, with numbers that may differ by so much.
pub(crate) fn alike_within(least: f64, a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= least.max(1e-9 * a.abs().max(b.abs()))
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike_within(least, a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            let same =
                |(key, a): (&String, &Json)| b.get(key).is_some_and(|b| alike_within(least, a, b));
            a.len() == b.len() && a.iter().all(same)
        }
        _ => a == b,
    }
}

fn names(dir: &Path, trace: &str) -> String {
    let run = analyze(dir, &["spans", trace, "--format", "csv", "--columns", "name,count"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout
}

#[test]
fn a_name_is_cut_out_and_what_was_left_out_is_said() {
    let dir = tempdir().unwrap();
    tokens(&dir.path().join("run.trace"));
    let run = analyze(dir.path(), &["cut", "run.trace", "-o", "part.trace", "--name", "decode"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert_eq!(run.stderr, "analyze: part.trace: 2 events kept, 3 left out\n");
    assert_eq!(names(dir.path(), "part.trace"), "name,count\ndecode,2\n");
    let check = analyze(dir.path(), &["check", "part.trace"]).clean();
    assert!(check.ends_with("verdict    whole\n"), "{check}");
    assert!(!dir.path().join("part.trace.partial").exists());
}

#[test]
fn the_worst_come_with_all_that_overlaps_them() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (main, other) = (writer.track(THREAD, 1, "main"), writer.track(THREAD, 2, "other"));
        let mut put = |name: &str, track, depth, start, duration| {
            let name = writer.name(name);
            let record = Record { depth, ..span(name, track, start, duration) };
            writer.event(record, &[], &[]).unwrap();
        };
        put("short", main, 1, 50, 10);
        put("inside", main, 2, 210, 20);
        put("long", main, 1, 200, 100);
        put("parent", main, 0, 0, 400);
        put("before", other, 0, 100, 80);
        put("beside", other, 0, 250, 100);
        put("after", other, 0, 900, 50);
    });
    let cut = |more: &[&str]| {
        let mut all =
            vec!["cut", "run.trace", "-o", "part.trace", "--worst", "1", "--name", "long"];
        all.extend(more);
        let run = analyze(dir.path(), &all);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let mut found: Vec<String> = names(dir.path(), "part.trace")
            .lines()
            .skip(1)
            .map(|line| line.split(',').next().unwrap().to_owned())
            .collect();
        found.sort_unstable();
        found.join(" ")
    };
    assert_eq!(cut(&[]), "beside inside long parent");
    assert_eq!(cut(&["--around", "20ns"]), "before beside inside long parent");
    assert_eq!(cut(&["--around", "600ns"]), "after before beside inside long parent short");
}

#[test]
fn slots_clock_losses_metadata_and_open_spans_come_along() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        writer.metadata(&[("host.name", "here"), ("note", "a note")]).unwrap();
        let unused = writer.name("unused");
        let (main, queue) =
            (writer.track(THREAD, 1, "main"), writer.track(TrackKind::GpuQueue, 2, "gpu 0"));
        let (step, model, tiny) = (writer.name("step"), writer.name("model"), writer.name("tiny"));
        writer.call_site(step, 17, unused, tiny);
        let link = Link { id: 77, track: queue, role: LinkRole::Own };
        let long = "a text that takes more than one slot, and then some";
        let fields = [
            (model, Value::Name(tiny)),
            (step, Value::U64(5)),
            (tiny, Value::Ticks(9)),
            (model, Value::Text(long)),
        ];
        let record = Record { status: Status::ERROR, link: 3, ..span(step, main, 1_000, 50) };
        writer.event(record, &fields, &[link]).unwrap();
        let value = (ValueType::F64, 2.5_f64.to_bits());
        writer.event(Record::point(Kind::GAUGE, tiny, main, 1_100, value), &[], &[]).unwrap();
        let loss = Loss { track: main, class: Loss::LOST, cause: 1, events: 4, ..Loss::default() };
        writer.loss(Loss { not_before: 1_000, not_after: 1_010, total: 4, ..loss });
        writer.loss(Loss { not_before: 9_000, not_after: 9_010, total: 8, ..loss });
        let mut totals = ringscope_format::Vitals { tick: 2_000, ..Default::default() };
        totals.lost[1] = 8;
        writer.missing(&totals);
        writer.open_span(OpenSpan { start: 1_050, id: 0, name: step, track: main }, 0);
        writer.open_span(OpenSpan { start: 1_060, id: 9, name: tiny, track: queue }, u32::MAX);
    });
    let cut = ["cut", "run.trace", "-o", "part.trace", "--to", "80ns"];
    let run = analyze(dir.path(), &cut);
    let said = "analyze: part.trace: 1 event kept, 1 left out; 2 open spans kept\n";
    assert_eq!((run.code, run.stderr.as_str()), (0, said));

    let open = |name: &str| Trace::open(std::fs::read(dir.path().join(name)).unwrap()).unwrap();
    let (old, new) = (open("run.trace"), open("part.trace"));
    assert!(new.damage().is_empty());
    assert_ne!(new.header().recording, old.header().recording);
    assert_eq!(new.header().created_wall_ns, old.header().created_wall_ns);
    assert_eq!(new.tracks(), old.tracks());
    let metadata = json!(new.metadata());
    assert_eq!(metadata, json!({ "edit": "cut", "host.name": "here", "note": "a note" }));
    assert_eq!(new.losses().len(), 1, "the other was later");
    assert_eq!((new.vitals().unwrap().total_lost(), new.vitals().unwrap().tick), (4, 2_000));

    let named = |trace: &Trace<Vec<u8>>| {
        let batch = trace.decode(&trace.chunks()[0], Columns::ALL).unwrap();
        let (record, slots) = batch.records().next().unwrap();
        let text = |id: u32| trace.names().get(id).unwrap().to_owned();
        let details = parse_slots(slots);
        let fields: Vec<String> = details
            .fields
            .iter()
            .map(|(key, value)| match value {
                ringscope_format::OwnedValue::Name(id) => format!("{}={}", text(*key), text(*id)),
                value => format!("{}={value:?}", text(*key)),
            })
            .collect();
        let site = trace.names().call_sites(record.name)[0];
        let site = (site.line, text(site.file), text(site.module));
        let record = (record.start, record.value, record.link, record.status, text(record.name));
        let open: Vec<(u64, u64, String)> = trace
            .in_flight()
            .unwrap()
            .iter()
            .flat_map(|stack| &stack.spans)
            .map(|span| (span.start, span.id, text(span.name)))
            .collect();
        (record, fields, details.links, site, open)
    };
    assert_eq!(named(&new), named(&old));
    assert!(new.names().iter().all(|(_, text)| text != "nothing"));
}

#[test]
fn records_at_the_limits_of_the_format_are_copied_as_they_are() {
    let dir = tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (main, name) = (writer.track(THREAD, 1, "main"), writer.name("step"));
        for (start, duration) in [
            (0, 0),
            (5, u64::MAX),
            (u64::MAX, 1),
            (u64::MAX, i64::MAX as u64),
            (7, i64::MIN as u64),
            (1 << 63, 1 << 62),
        ] {
            for (name, track) in [(name, main), (0, 0), (99, 77)] {
                writer.event(span(name, track, start, duration), &[], &[]).unwrap();
            }
        }
        let value = (ValueType::Name, u64::from(u32::MAX));
        writer.event(Record::point(Kind(0x7F), name, main, 9, value), &[], &[]).unwrap();
        writer.event(Record { status: Status(0xFF), ..span(name, main, 1, 1) }, &[], &[]).unwrap();
    });
    let records = |name: &str| {
        let trace = Trace::open(std::fs::read(dir.path().join(name)).unwrap()).unwrap();
        let batch = trace.decode(&trace.chunks()[0], Columns::ALL).unwrap();
        let of = |it: Record| (it.start, it.value, it.kind, it.status, it.depth, it.shape);
        let mut all: Vec<_> = batch.records().map(|(record, _)| of(record)).collect();
        // The one value that is an id of a name.
        all.iter_mut().filter(|it| it.2 == Kind(0x7F)).for_each(|it| it.1 = 0);
        all
    };
    for command in ["cut", "scrub", "recover"] {
        let run = analyze(dir.path(), &[command, "run.trace", "-o", "copy.trace"]);
        assert_eq!(run.code, 0, "{command}: {}", run.stderr);
        assert_eq!(records("copy.trace"), records("run.trace"), "{command}");
    }
    let merge = ["merge", "run.trace", "run.trace", "-o", "copy.trace", "--align", "step"];
    let run = analyze(dir.path(), &merge);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(analyze(dir.path(), &["check", "copy.trace"]).code, 0);
}

#[test]
fn an_unfinished_recording_gives_a_finished_part_that_says_so() {
    let dir = tempdir().unwrap();
    let killed = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/killed.trace");
    let run = analyze(dir.path(), &["cut", killed, "-o", "part.trace", "--name", "token"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report = analyze(dir.path(), &["report", "part.trace"]);
    assert!(report.stdout.contains("token, open for 500.00 ns"), "{}", report.stdout);
    let json = analyze(dir.path(), &["info", "part.trace", "--format", "json"]).json();
    let state = json["trace"]["metadata"]["source.state"].as_str().unwrap();
    assert!(state.starts_with("not finished"), "{state}");
    assert_eq!(json["trace"]["state"], "finished");
}

#[test]
fn what_is_no_trace_is_not_overwritten_and_neither_is_the_source() {
    let dir = tempdir().unwrap();
    tokens(&dir.path().join("run.trace"));
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let refusal = |output: &str| analyze(dir.path(), &["cut", "run.trace", "-o", output]).refusal();
    assert_eq!(
        refusal("notes.txt"),
        "analyze: notes.txt: is there and is not a trace; remove it, or give another name\n"
    );
    assert_eq!(std::fs::read(dir.path().join("notes.txt")).unwrap(), b"mine");
    assert_eq!(
        refusal("./run.trace"),
        "analyze: ./run.trace: is the source itself; give the name of a new trace\n"
    );
    assert_eq!(refusal("."), "analyze: .: is not a regular file; give the name of a new trace\n");
    assert!(refusal("missing/part.trace").contains("No such file"));
    for again in 0..2 {
        let run = analyze(dir.path(), &["cut", "run.trace", "-o", "part.trace"]);
        assert_eq!(run.code, 0, "{again}: {}", run.stderr);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn figures_of_a_part_are_those_of_the_original_with_the_same_filters(
        steps in steps(120),
        from in prop::option::of(0_u64..2_000),
        length in prop::option::of(1_u64..2_000),
        last in prop::option::of(0_u64..2_000),
        least in prop::option::of(0_u64..200),
        name in prop::sample::select(vec!["*", "n[01]", "!n2"]),
        track in prop::sample::select(vec!["*", "t1", "!t0"]),
    ) {
        let to = length.map(|length| from.unwrap_or(0) + length);
        let made = make(&steps, true);
        let dir = tempdir().unwrap();
        let source = made.file.path().to_str().unwrap();
        let mut filters = vec!["--name".to_owned(), name.into(), "--track".into(), track.into()];
        for (key, time) in [("--from", from), ("--to", to), ("--last", last), ("--min-duration", least)] {
            filters.extend(time.into_iter().flat_map(|time| [key.to_owned(), format!("{time}ns")]));
        }
        let on = |command: &str, trace: &str, more: &[String]| {
            let mut all = vec![command.to_owned(), trace.to_owned()];
            all.extend_from_slice(more);
            analyze(dir.path(), &all)
        };
        let out = ["-o".to_owned(), "part.trace".to_owned()];
        let run = on("cut", source, &[&filters[..], &out[..]].concat());
        prop_assert_eq!(run.code, 0, "{}", run.stderr);
        let part = on("summary", "part.trace", &[]).json();
        let whole = on("summary", source, &filters).json();
        let (part, whole) = (rows(&part, false), rows(&whole, false));
        prop_assert!(alike(&part, &whole), "{part}\n{whole}");
        prop_assert_eq!(on("check", "part.trace", &[]).code, 0);

        // Of whole tracks, self time and nesting are the same as well.
        let filters = ["--track".to_owned(), track.to_owned()];
        on("cut", source, &[&filters[..], &out[..]].concat());
        let part = rows(&on("summary", "part.trace", &[]).json(), true);
        let whole = rows(&on("summary", source, &filters).json(), true);
        prop_assert!(alike(&part, &whole), "{part}\n{whole}");
    }
}
