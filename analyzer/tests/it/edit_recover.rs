//! `recover` makes a whole trace of what is left of one.

use std::path::Path;

use proptest::prelude::*;
use ringscope_format::{Kind, Place, Record, Trace, TrackKind, Value, ValueType};
use tempfile::tempdir;

use crate::{
    analyze::{Run, analyze},
    making::{self, THREAD, span},
};

const EVENTS: u64 = 40_000;
const KILLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/killed.trace");

/// Several chunks, with a field now and then.
fn steps(path: &Path) {
    making::trace(path, |writer| {
        writer.metadata(&[("host.name", "here")]).unwrap();
        let (main, name) = (writer.track(THREAD, 1, "main"), writer.name("step"));
        let key = writer.name("text");
        for at in 0..EVENTS {
            let duration = 100 + at * at % 9_973;
            let text = format!("{at}");
            let fields = [(key, Value::Text(&text))];
            let fields = if at % 10 == 0 { &fields[..] } else { &[] };
            writer.event(span(name, main, at * 20_000, duration), fields, &[]).unwrap();
        }
    });
}

fn recover(dir: &Path) -> Run {
    analyze(dir, &["recover", "run.trace", "-o", "whole.trace"])
}

fn events(dir: &Path, trace: &str) -> u64 {
    let json = analyze(dir, &["spans", trace, "--format", "json"]).json();
    json["rows"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum()
}

#[test]
fn a_whole_trace_is_recovered_whole() {
    let dir = tempdir().unwrap();
    steps(&dir.path().join("run.trace"));
    let run = recover(dir.path());
    let said = "analyze: whole.trace: 40,000 events recovered; none lost\n";
    assert_eq!((run.code, run.stderr.as_str()), (0, said));
    let summary = |trace: &str| analyze(dir.path(), &["summary", trace]).json()["rows"].clone();
    assert_eq!(summary("run.trace"), summary("whole.trace"));
}

#[test]
fn a_damaged_chunk_is_said_and_counted_as_lost() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    steps(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let trace = Trace::open(bytes.clone()).unwrap();
    let second = &trace.chunks()[1];
    let Place::Sealed { offset, .. } = second.place else { panic!("sealed") };
    bytes[offset as usize + 90] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let lost = u64::from(second.events);
    let run = recover(dir.path());
    let problem = format!(
        "analyze: run.trace: chunk {} at byte {offset:#x}: checksum mismatch; {lost} events are lost",
        second.sequence
    );
    let (first, last) = run.stderr.split_once('\n').unwrap();
    assert_eq!(first, problem);
    let counted =
        format!("{} events recovered; {} lost\n", thousands(EVENTS - lost), thousands(lost));
    assert_eq!(last, format!("analyze: whole.trace: {counted}"));
    assert_eq!(events(dir.path(), "whole.trace"), EVENTS - lost);
    let check = analyze(dir.path(), &["check", "whole.trace"]);
    assert_eq!(check.code, 0, "{}", check.stdout);
    let said = format!("{}: {} in a damaged part of the file\n", thousands(lost), thousands(lost));
    assert!(check.stdout.contains(&said), "{}", check.stdout);
    let json = analyze(dir.path(), &["info", "whole.trace", "--format", "json"]).json();
    let metadata = &json["trace"]["metadata"];
    assert_eq!(metadata["host.name"], "here");
    assert!(problem.ends_with(metadata["recover.lost"].as_str().unwrap()), "{metadata}");
}

fn thousands(n: u64) -> String {
    if n < 1_000 { n.to_string() } else { format!("{},{:03}", n / 1_000, n % 1_000) }
}

#[test]
fn events_whose_fields_are_damaged_are_kept_without_them() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    steps(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let chunk = Trace::open(bytes.clone()).unwrap().chunks()[0].clone();
    let Place::Sealed { offset, length } = chunk.place else { panic!("sealed") };
    // The slots are the last sections of a chunk; before their end is some padding.
    let end = (offset + u64::from(length)) as usize;
    let last = (0..end).rev().find(|&at| bytes[at] != 0).unwrap();
    bytes[last] ^= 0xFF;
    std::fs::write(&path, &bytes).unwrap();
    let run = recover(dir.path());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let said = format!(
        "analyze: whole.trace: 40,000 events recovered, {} of them in part; none lost\n",
        thousands(chunk.events.into())
    );
    assert!(run.stderr.ends_with(&said), "{}", run.stderr);
    assert!(run.stderr.starts_with("analyze: run.trace: slot"), "{}", run.stderr);
    assert_eq!(events(dir.path(), "whole.trace"), EVENTS);
    assert_eq!(analyze(dir.path(), &["check", "whole.trace"]).code, 0);
}

#[test]
fn a_killed_recording_is_finished_with_its_open_spans() {
    let dir = tempdir().unwrap();
    std::fs::copy(KILLED, dir.path().join("run.trace")).unwrap();
    let run = recover(dir.path());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary = |trace: &str| analyze(dir.path(), &["summary", trace]).json()["rows"].clone();
    assert_eq!(summary("run.trace"), summary("whole.trace"));
    let report = |trace: &str| {
        let report = analyze(dir.path(), &["report", trace]).stdout;
        let (_, open) = report.split_once("Open at the end\n").unwrap();
        let mut lines: Vec<String> =
            open.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect();
        // Which stack comes first means nothing.
        lines.sort_unstable();
        lines
    };
    assert_eq!(report("run.trace"), report("whole.trace"));
    let check = analyze(dir.path(), &["check", "whole.trace"]).stdout;
    assert!(check.contains("state      finished; of its source: not finished: killed"), "{check}");
    assert!(check.ends_with("whole\n"), "{check}");
}

#[test]
fn a_trace_without_its_header_is_recovered_by_its_chunks() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    steps(&path);
    let summary = |trace: &str| analyze(dir.path(), &["summary", trace]).json()["rows"].clone();
    let before = summary("run.trace");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[50] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let run = recover(dir.path());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let said = "analyze: run.trace: file header at byte 0x0: checksum mismatch; ";
    assert!(run.stderr.starts_with(said), "{}", run.stderr);
    assert!(run.stderr.contains("run.trace: a tick is taken for a nanosecond\n"), "{}", run.stderr);
    assert!(run.stderr.ends_with("40,000 events recovered; how many are lost is unknown\n"));
    assert_eq!(summary("whole.trace"), before);
}

#[test]
fn where_nothing_is_left_nothing_is_written() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    steps(&path);
    let bytes = std::fs::read(&path).unwrap();
    for left in [&bytes[..5_000], &bytes[..100], b"not a trace"] {
        std::fs::write(&path, left).unwrap();
        let said = recover(dir.path()).refusal();
        assert!(said.ends_with("nothing could be recovered\n"), "{said}");
        assert!(!dir.path().join("whole.trace").exists());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_damaged_the_recovered_trace_is_whole(
        killed in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 0..6),
    ) {
        let dir = tempdir().unwrap();
        let path = dir.path().join("run.trace");
        if killed {
            std::fs::copy(KILLED, &path).unwrap();
        } else {
            steps(&path);
        }
        let mut bytes = std::fs::read(&path).unwrap();
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        for (at, bits) in flips {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
        }
        std::fs::write(&path, bytes).unwrap();
        let run = recover(dir.path());
        prop_assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        if run.code == 0 {
            let check = analyze(dir.path(), &["check", "whole.trace"]);
            prop_assert_eq!(check.code, 0, "{}{}", run.stderr, check.stdout);
            // One without its header only `recover` reads.
            let opens = analyze(dir.path(), &["spans", "run.trace"]).code == 0;
            let least = if opens { events(dir.path(), "run.trace") } else { 0 };
            prop_assert!(events(dir.path(), "whole.trace") >= least);
        } else {
            prop_assert_eq!(run.code, 2);
            prop_assert!(!dir.path().join("whole.trace").exists());
        }
        // The others copy what is readable and are as hard to upset.
        for command in ["cut", "scrub", "merge"] {
            let run = analyze(dir.path(), &[command, "run.trace", "-o", "copy.trace"]);
            prop_assert!(!run.stderr.contains("panicked"), "{command}: {}", run.stderr);
            if run.code == 0 {
                let check = analyze(dir.path(), &["check", "copy.trace"]);
                prop_assert_eq!(check.code, 0, "{}: {}", command, check.stdout);
            }
        }
    }
}

/// A reading of the recorder after every tenth of so many spans.
fn with_readings(path: &Path, spans: u64) {
    making::trace(path, |writer| {
        let (main, own) =
            (writer.track(THREAD, 1, "main"), writer.track(TrackKind::Recorder, 2, "recorder"));
        let (step, resident) = (writer.name("step"), writer.name("process.resident_bytes"));
        for at in 0..spans {
            writer.event(span(step, main, at * 1_000, 100), &[], &[]).unwrap();
            if at % 10 == 9 {
                let value = (ValueType::U64, 4_096);
                let reading = Record::point(Kind::GAUGE, resident, own, at * 1_000 + 500, value);
                writer.event(reading, &[], &[]).unwrap();
            }
        }
    });
}

#[test]
fn readings_of_the_recorder_are_counted_apart_from_events() {
    let dir = tempdir().unwrap();
    with_readings(&dir.path().join("run.trace"), 40);
    let said = |arguments: &[&str]| {
        let run = analyze(dir.path(), &[arguments, &["-o", "new.trace"]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stderr.lines().last().unwrap().strip_prefix("analyze: new.trace: ").unwrap().to_owned()
    };
    let all = "40 events and 4 readings of the recorder";
    assert_eq!(said(&["recover", "run.trace"]), format!("{all} recovered; none lost"));
    assert_eq!(said(&["scrub", "run.trace"]), format!("{all} kept, 0 left out"));
    assert_eq!(said(&["merge", "run.trace"]), format!("{all} of 1 trace kept, 0 left out"));
    assert_eq!(
        said(&["cut", "run.trace", "--until", "20us"]),
        "20 events and 2 readings of the recorder kept, \
         20 events and 2 readings of the recorder left out"
    );
    assert_eq!(
        said(&["cut", "run.trace", "--name", "step"]),
        "40 events kept, 0 events and 4 readings of the recorder left out"
    );
    let report = analyze(dir.path(), &["report", "--section", "header", "run.trace"]);
    assert!(report.stdout.contains(&format!("  {all} over ")), "{}", report.stdout);
}

#[test]
fn readings_that_a_damaged_chunk_cost_are_no_lost_events() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    with_readings(&path, EVENTS);
    let mut bytes = std::fs::read(&path).unwrap();
    let trace = Trace::open(bytes.clone()).unwrap();
    let second = &trace.chunks()[1];
    let own = trace.tracks().iter().find(|it| it.kind == TrackKind::Recorder).unwrap().id;
    let batch = trace.decode(second, ringscope_format::Columns::TRACK).unwrap();
    let readings = batch.track.iter().filter(|&&track| track == own).count() as u64;
    let events = u64::from(second.events) - readings;
    assert!(readings > 0 && events > 0);
    let Place::Sealed { offset, .. } = second.place else { panic!("sealed") };
    bytes[offset as usize + 90] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let run = recover(dir.path());
    let said = format!(
        "{} events and {} readings of the recorder recovered; \
         {} events and {} readings of the recorder lost\n",
        thousands(EVENTS - events),
        thousands(EVENTS / 10 - readings),
        thousands(events),
        thousands(readings),
    );
    assert!(run.stderr.ends_with(&said), "{}", run.stderr);
    let whole = Trace::open(std::fs::read(dir.path().join("whole.trace")).unwrap()).unwrap();
    assert_eq!(whole.vitals().unwrap().total_lost(), events);
}
