//! Somebody else does something to the file while it is being written.

use std::{fs, thread, time::Duration};

use ringscope::{Error, Problem, Recorder, event, span};

use crate::{
    child::{Scene, child},
    load::Load,
    told::Told,
};

fn truncate(scene: &Scene, bytes: u64) {
    fs::OpenOptions::new().write(true).open(scene.trace()).unwrap().set_len(bytes).unwrap();
}

fn record(recorder: &Recorder, load: &mut Load, events: u64) {
    for _ in 0..events / 500 {
        load.record(500);
        assert!(recorder.flush());
    }
}

#[test]
fn a_removed_file_is_noticed_and_the_program_goes_on() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let mut load = Load::new(1);
        record(&recorder, &mut load, 4_000);
        fs::remove_file(scene.trace()).unwrap();
        record(&recorder, &mut load, 8_000);
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (12_000, 0));
        assert_eq!(summary.problems, [Problem::FileRemoved]);
        assert!(
            summary.to_string().ends_with("\n  the trace was removed while it was being written")
        );
    });
    assert_eq!(end.run().succeeded().files(".trace"), [""; 0]);
}

#[test]
fn a_file_that_was_replaced_is_not_ours_to_overwrite() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        event!("here");
        assert!(recorder.flush());
        fs::remove_file(scene.trace()).unwrap();
        fs::write(scene.trace(), "my thesis").unwrap();
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.problems, [Problem::FileRemoved]);
    });
    let end = end.run().succeeded();
    assert_eq!(fs::read_to_string(end.path("run.trace")).unwrap(), "my thesis");
}

#[test]
fn a_file_truncated_under_the_map_gives_the_recording_up_and_not_the_program() {
    // To nothing, to the header, into the in-flight area, into the raw slots.
    for bytes in [0, 4_096, 500_000, 5_000_000] {
        let end = child(|scene| {
            let recorder = scene.builder().start().unwrap();
            let mut load = Load::new(1);
            load.record(2_000);
            assert!(recorder.flush());
            truncate(scene, scene.argument().parse().unwrap());
            // Enough to come round to every slot.
            for _ in 0..100 {
                load.record(500);
                thread::sleep(Duration::from_millis(1));
            }
            let _open = span!("open");
            let given_up = recorder.finish();
            assert!(matches!(given_up, Err(Error::GaveUp { .. })), "{given_up:?}");
            scene.say("error", given_up.unwrap_err());
            // The program can start over.
            fs::remove_file(scene.trace()).unwrap();
            let recorder = scene.builder().start().unwrap();
            event!("again");
            assert_eq!(recorder.finish().unwrap().stored, 1);
        });
        let end = end.argument(bytes).run().succeeded();
        assert_eq!(
            end.said("error"),
            format!(
                "{}: the recording ended early: its file was truncated by another process, this is a \
                 fork of the process that records, or a thread of the recorder has panicked, which \
                 is on standard error; what was written before is readable, and a new recorder needs \
                 a path that nobody else writes to",
                end.path("run.trace").display()
            )
        );
        end.trace().is_finished_and_adds_up();
    }
}

#[test]
fn a_file_truncated_right_before_the_end_is_noticed() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        event!("here");
        assert!(recorder.flush());
        truncate(scene, 0);
        assert!(matches!(recorder.finish(), Err(Error::GaveUp { .. })));
    });
    end.run().succeeded();
}

#[test]
fn a_file_that_lost_some_of_its_chunks_says_which() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let mut load = Load::new(1);
        record(&recorder, &mut load, 10_000);
        let told = Told::read(&scene.trace());
        let log = told.trace.header().layout.log_offset;
        // What is cut in the midst of a write is made as long again by the rest of it.
        let length = || fs::metadata(scene.trace()).unwrap().len();
        let mut before = 0;
        while before != length() {
            before = length();
            thread::sleep(Duration::from_millis(200));
        }
        assert!(before > log + 400_000);
        truncate(scene, log + 300_000);
        record(&recorder, &mut load, 10_000);
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.problems, [Problem::FileTruncated]);
        scene.say("stored", summary.stored);
    });
    let end = end.run().succeeded();
    let told = Told::read_damaged(&end.path("run.trace"));
    assert_eq!(end.number("stored"), 20_000);
    let missing = 20_000 - told.events.len() as u64;
    assert!(missing > 0);
    // One chunk may have lost its end only; the others are not there at all.
    assert_eq!(told.trace.events_missing(), Some(missing - told.unreadable));
    assert!(!told.trace.damage().is_empty());
    assert!(told.events.is_sorted_by(|a, b| a.number("i") < b.number("i")));
    assert_eq!(told.events[0].number("i"), 0);
    assert_eq!(told.events.last().unwrap().number("i"), 19_999);
}

#[test]
#[cfg(debug_assertions)] // release builds have no such steps
fn a_sealer_that_panics_ends_the_recording_and_holds_nobody_up() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let mut load = Load::new(1);
        // More than all raw slots and the ring hold: the drain has nowhere to go.
        load.record(1_000_000);
        let error = recorder.finish().unwrap_err();
        assert!(matches!(error, Error::GaveUp { .. }), "{error}");
    });
    let end = end.environment("RINGSCOPE_CRASH_AT", "header-written:1:panic").run().succeeded();
    // What was drained before is in the raw slots.
    assert!(Told::read(&end.path("run.trace")).events.len() > 10_000);
}

#[test]
#[cfg(debug_assertions)] // release builds have no such steps
fn a_drain_that_panics_ends_the_recording_and_holds_nobody_up() {
    let end = child(|scene| {
        let recorder = scene.builder().rotate_at(1 << 20).start().unwrap();
        let mut load = Load::new(1);
        let begun = std::time::Instant::now();
        while recorder.flush() {
            load.record(1_000);
        }
        assert!(!recorder.flush());
        let error = recorder.finish().unwrap_err();
        assert!(matches!(error, Error::GaveUp { .. }), "{error}");
        // Less than a single wait for somebody who does not come.
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        scene.say("recorded", load.produced());
    });
    let end = end.environment("RINGSCOPE_CRASH_AT", "file-switched:1:panic").run().succeeded();
    assert!(end.stderr.contains("RINGSCOPE_CRASH_AT"), "{}", end.stderr);
    let told = Told::read(&end.path("run.trace"));
    assert!(!told.events.is_empty() && told.events.len() as u64 <= end.number("recorded"));
}

#[test]
#[cfg(debug_assertions)] // release builds have no such steps
fn a_flight_recorder_whose_sealer_panics_answers_at_once_that_there_is_no_dump() {
    let end = child(|scene| {
        let builder = scene.builder().keep_last(Duration::from_secs(60), 8 << 20);
        let recorder = builder.start().unwrap();
        let mut load = Load::new(1);
        load.record(400_000);
        let begun = std::time::Instant::now();
        let error = recorder.dump().unwrap_err();
        assert!(matches!(error, Error::GaveUp { .. }), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert!(recorder.finish().is_err());
    });
    end.environment("RINGSCOPE_CRASH_AT", "header-written:1:panic").run().succeeded();
}
