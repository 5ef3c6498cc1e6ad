//! What a report says of a file is of that file, whatever else its recording lost.

use std::{fs, path::Path, time::Duration};

use ringscope::{Recorder, event, span};
use ringscope_format::{
    FileHeader, Loss, LostCause, Mode, RecordingState, Trace, TraceWriter, TrackKind,
    VITALS_LENGTH, VITALS_OFFSET, Vitals, write_twin,
};
use serde_json::json;
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    making::{self, RECORDING, THREAD},
};

const FULL: usize = LostCause::RingFull as usize;
/// Spans in each file.
pub(crate) const SPANS: u64 = 100;

/// A file of a recording that lost so many events in its time, after others that stored and lost
/// what is given.
fn file(path: &Path, mode: Mode, number: u32, own: u64, before: (u64, u64), state: RecordingState) {
    let header = FileHeader { mode, file_number: number, ..making::header() };
    let mut writer = TraceWriter::new(fs::File::create(path).unwrap(), header).unwrap();
    let (main, name) = (writer.track(THREAD, 1, "main"), writer.name("step"));
    let begin = 1_000_000 * u64::from(number);
    for at in 0..SPANS {
        writer.event(making::span(name, main, begin + at * 1_000, 900), &[], &[]).unwrap();
    }
    if own > 0 {
        writer.loss(Loss {
            track: main,
            class: Loss::LOST,
            cause: LostCause::RingFull as u8,
            events: own,
            not_before: begin + 5_000,
            not_after: begin + 6_000,
            total: before.1 + own,
            ..Loss::default()
        });
    }
    writer.finish().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let (stored, lost) = (before.0 + SPANS, before.1 + own);
    let mut vitals = Vitals { state, stored, tick: begin + 200_000, ..Vitals::default() };
    vitals.lost[FULL] = lost;
    if mode == Mode::Dump || mode == Mode::KeepLast {
        vitals.overwritten = before.0;
    }
    let block = &mut bytes[VITALS_OFFSET..VITALS_OFFSET + VITALS_LENGTH];
    write_twin(block, 2, &vitals.to_bytes());
    fs::write(path, bytes).unwrap();
}

/// Three files of one recording, which lost 40, 0 and 5 events.
pub(crate) fn rotation(dir: &Path) {
    use RecordingState::{Continued, Finished};
    file(&dir.join("run.trace"), Mode::Full, 0, 40, (0, 0), Continued);
    file(&dir.join("run.1.trace"), Mode::Full, 1, 0, (SPANS, 40), Continued);
    file(&dir.join("run.2.trace"), Mode::Full, 2, 5, (2 * SPANS, 40), Finished);
}

#[test]
fn a_later_file_of_a_rotation_is_reported_by_what_it_lost_itself() {
    let dir = tempdir().unwrap();
    rotation(dir.path());
    let said = |command: &str, file: &str| analyze(dir.path(), &[command, file]);
    let report = said("report", "run.1.trace");
    assert_eq!(report.stderr, "");
    let header = "  nothing lost\n  before this file, 40 of 140 events were lost (40 ring full)\n";
    assert!(report.stdout.contains(header), "{}", report.stdout);
    assert!(!report.stdout.contains("are missing"), "{}", report.stdout);
    let report = said("report", "run.2.trace");
    assert_eq!(
        report.stderr,
        "analyze: run.2.trace: 5 of 105 events were lost (4.76 %): 5 ring full; figures are of what \
         was stored\n"
    );
    let header = "  LOST 5 of 105 events (4.76 %): 5 ring full\n  before this file, 40 of 240 events \
                  were lost (40 ring full)\n";
    assert!(report.stdout.contains(header), "{}", report.stdout);
    assert!(report.stdout.contains("4.76 % of the events are missing"), "{}", report.stdout);
    let info = said("info", "run.1.trace").stdout;
    let account = "  account    100 produced, 100 stored, none lost\n             before this file, 40 \
                   of 140 events were lost (40 ring full)\n";
    assert!(info.contains(account), "{info}");
    assert!(said("check", "run.1.trace").stdout.contains("lost       none\n"));
    assert_eq!(said("threads", "run.1.trace").stderr, "");
    let json = analyze(dir.path(), &["report", "run.2.trace", "--format", "json"]).json();
    let counts = |stored: u64, lost: u64| {
        json!({
            "produced": stored + lost, "stored": stored, "lost": lost,
            "lost_by_cause": { "ring full": lost }, "skipped": 0, "skipped_by_cause": {},
        })
    };
    let mut loss = counts(100, 5);
    for (key, value) in [
        ("overwritten", json!(0)),
        ("texts_cut", json!(0)),
        ("texts_cut_of", json!("recording")),
        ("unreadable", json!(null)),
        ("exact", json!(true)),
        ("of", json!("file")),
        ("before", counts(200, 40)),
    ] {
        loss[key] = value;
    }
    assert_eq!(json["loss"], loss);
    let gate = analyze(dir.path(), &["diff", "run.1.trace", "run.1.trace", "--format", "json"]);
    assert!(!gate.stdout.contains("too many events"), "{}", gate.stdout);
}

#[test]
fn a_copy_of_a_later_file_counts_what_that_file_lost() {
    let dir = tempdir().unwrap();
    rotation(dir.path());
    for (command, says) in [
        ("recover", "100 events recovered; none lost, beside 5 when it was recorded\n"),
        ("cut", "100 events kept, 0 left out\n"),
        ("scrub", "100 events kept, 0 left out\n"),
    ] {
        let run = analyze(dir.path(), &[command, "run.2.trace", "-o", "copy.trace"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(run.stderr, format!("analyze: copy.trace: {says}"));
        let report = analyze(dir.path(), &["report", "copy.trace", "--section", "header"]).stdout;
        let header = "  LOST 5 of 105 events (4.76 %): 5 ring full\n  before this file, 40 of 240 \
                      events were lost (40 ring full)\n";
        assert!(report.contains(header), "{command}: {report}");
    }
    let run = analyze(dir.path(), &["recover", "run.1.trace", "-o", "copy.trace"]);
    assert_eq!(run.stderr, "analyze: copy.trace: 100 events recovered; none lost\n");
    let run = analyze(dir.path(), &["report", "copy.trace", "--section", "header"]);
    assert_eq!(run.stderr, "");
    let header = "  nothing lost\n  before this file, 40 of 140 events were lost (40 ring full)\n";
    assert!(run.stdout.contains(header), "{}", run.stdout);
}

#[test]
fn a_damaged_file_may_have_lost_whatever_its_recording_lost() {
    let dir = tempdir().unwrap();
    rotation(dir.path());
    let path = dir.path().join("run.2.trace");
    let mut bytes = fs::read(&path).unwrap();
    let at = Trace::open(bytes.clone()).unwrap();
    let ringscope_format::Place::Sealed { offset, .. } = at.chunks()[0].place else { panic!() };
    bytes[offset as usize + 70] ^= 0xFF;
    fs::write(&path, bytes).unwrap();
    let report = analyze(dir.path(), &["report", "run.2.trace", "--section", "header"]).stdout;
    let said = "LOST 45 of 345 events of the whole recording (13.04 %): 45 ring full\n  what is counted \
                as lost or skipped is of the whole recording up to here: how much of it of this file \
                is not known\n";
    assert!(report.contains(said), "{report}");
}

#[test]
fn what_a_flight_recorder_lost_before_what_it_kept_is_told_apart() {
    let dir = tempdir().unwrap();
    for (mode, left_out) in [(Mode::Dump, "not in this dump"), (Mode::KeepLast, "overwritten")] {
        let path = dir.path().join("flight.trace");
        file(&path, mode, 0, 2, (900, 9_000), RecordingState::Finished);
        let run = analyze(dir.path(), &["report", "flight.trace", "--section", "header"]);
        let said = format!(
            "LOST 2 of 102 events (1.96 %): 2 ring full; 900 older ones {left_out}\n  before what \
             is kept, 9,000 of 9,900 events were lost (9,000 ring full)\n"
        );
        assert!(run.stdout.contains(&said), "{mode:?}: {}", run.stdout);
        let info = analyze(dir.path(), &["info", "flight.trace"]).stdout;
        assert!(info.contains(&format!(", 900 older ones {left_out}")), "{info}");
    }
}

#[test]
fn a_dump_of_a_calm_time_says_apart_what_was_lost_before() {
    let dir = tempdir().unwrap();
    let _one_at_a_time = RECORDING.lock();
    let builder = Recorder::builder().path(dir.path().join("run.trace")).ring_records(64);
    let builder = builder.keep_last(Duration::from_millis(300), 4 << 20);
    let recorder = builder.ticks(Duration::from_millis(50), Duration::from_millis(50)).start();
    let recorder = recorder.unwrap();
    let calm = || {
        for _ in 0..20 {
            let _span = span!("calm");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let storm = || (0..100_000_u64).for_each(|n| event!("storm", n = n));
    std::thread::spawn(move || {
        storm();
        std::thread::sleep(Duration::from_millis(700));
        calm();
    })
    .join()
    .unwrap();
    let dump = recorder.dump().unwrap();
    recorder.finish().unwrap();
    let missing = Trace::open(fs::read(&dump).unwrap()).unwrap().events_missing();
    assert_eq!(missing, Some(0), "what it does not go back to counts as overwritten");
    let dump = dump.file_name().unwrap().to_str().unwrap();
    let report = analyze(dir.path(), &["report", dump, "--section", "header"]);
    assert!(report.stdout.contains("\n  nothing lost"), "{}", report.stdout);
    assert!(report.stdout.contains("\n  before what is kept, "), "{}", report.stdout);
    assert_eq!(report.stderr, "");
}

#[test]
fn an_empty_list_of_rules_is_not_mentioned() {
    let dir = tempdir().unwrap();
    for (rules, said) in [("", ""), ("step=1/10", ", last by the rules step=1/10")] {
        making::trace(&dir.path().join("run.trace"), |writer| {
            writer.metadata(&[("rules", rules)]).unwrap();
            let mut skipped = Vitals::default();
            skipped.skipped[1] = 9;
            writer.missing(&skipped);
        });
        assert_eq!(
            analyze(dir.path(), &["info", "run.trace"]).stderr,
            format!(
                "analyze: run.trace: 9 of 9 events were skipped on request{said}; counts and totals \
                 are of what was recorded\n"
            )
        );
    }
}

#[test]
fn a_flight_recorder_that_has_gone_round_counts_what_it_still_has_while_it_records_and_after() {
    let dir = tempdir().unwrap();
    let _one_at_a_time = RECORDING.lock();
    let builder = Recorder::builder().path(dir.path().join("run.trace")).ring_records(4_096);
    let builder = builder.keep_last(Duration::from_secs(3_600), 4 << 20);
    let recorder = builder.start().unwrap();
    let record = || {
        let mut state = 1_u64;
        for n in 0..900_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n | 1);
            event!("noise", state = state);
            // The drain has no time at first, and none in the end.
            if n % 1_000 == 0 && (100_000..800_000).contains(&n) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    std::thread::spawn(record).join().unwrap();
    // All is sealed then, and nothing is written while it is copied.
    std::thread::sleep(Duration::from_millis(300));
    fs::copy(dir.path().join("run.trace"), dir.path().join("killed.trace")).unwrap();
    recorder.finish().unwrap();
    for file in ["run.trace", "killed.trace"] {
        let info = analyze(dir.path(), &["info", file]).stdout;
        assert!(info.contains("before what is kept, "), "{info}");
        let json = analyze(dir.path(), &["info", file, "--format", "json"]).json();
        let loss = &json["loss"];
        assert_eq!(loss["of"], "file", "{loss}");
        let count = |of: &serde_json::Value, key: &str| of[key].as_u64().unwrap();
        let trace = Trace::open(fs::read(dir.path().join(file)).unwrap()).unwrap();
        let vitals = trace.vitals().unwrap();
        let first = trace.chunks().iter().find(|chunk| chunk.events > 0).unwrap();
        let kept = trace.losses_since(first.sequence).iter();
        let is_program = |track: u32| {
            trace.tracks().iter().all(|it| it.id != track || it.kind != TrackKind::Recorder)
        };
        let kept = kept.filter(|loss| loss.class == Loss::LOST && is_program(loss.track));
        let own: u64 = kept.map(|loss| loss.events).sum();
        assert!(own > 0, "{loss}");
        assert_eq!(count(loss, "lost"), own, "{loss}");
        let before = &loss["before"];
        assert!(count(before, "lost") > 0, "{loss}");
        assert_eq!(count(loss, "lost") + count(before, "lost"), vitals.total_lost(), "{loss}");
        assert_eq!(count(loss, "stored") + count(before, "stored"), vitals.stored, "{loss}");
    }
}
