//! A file that cannot grow: the host goes on, what is lost is counted.

use std::{
    fs,
    io::Write,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ringscope::{LostCause, Problem, Summary, event, span};
use ringscope_format::{Place, RecordingState};

use crate::{
    child::{End, Scene, child},
    load::Load,
    posix,
    told::Told,
};

/// More than any file in these tests can take.
const EVENTS: u64 = 60_000;
const MIB: u64 = 1 << 20;
/// Room for the work areas of a file and few chunks.
const LITTLE: u64 = 14 * MIB;

fn record_too_much() -> u64 {
    let mut load = Load::new(1);
    while load.produced() < EVENTS {
        load.record(300);
        // Slowly enough that the file, not the writer's speed, is the limit.
        thread::sleep(Duration::from_millis(2));
    }
    load.produced()
}

fn judge(scene: &Scene, summary: &Summary, produced: u64) {
    assert_eq!(summary.produced(), produced);
    assert!(summary.lost_to(LostCause::File) > 0, "{summary}");
    let [problem @ Problem::CannotWrite(_)] = summary.problems.as_slice() else {
        panic!("{:?}", summary.problems)
    };
    scene.say("problem", problem);
    scene.say("stored", summary.stored);
}

/// What could be stored is there, and the file knows what could not.
#[track_caller]
fn tells_the_truth(end: &End) -> Told {
    let told = end.trace();
    told.is_finished_and_adds_up();
    assert_eq!(told.vitals().produced(), EVENTS);
    assert_eq!(told.events.len() as u64, end.number("stored"));
    assert!(told.events.is_sorted_by(|a, b| a.number("i") < b.number("i")));
    told
}

#[test]
fn a_size_limit_that_only_the_last_chunk_does_not_fit_into_is_no_signal_either() {
    let end = child(|scene| {
        let record = |recorder: ringscope::Recorder| {
            let _open = span!("open at the end");
            event!("one");
            assert_eq!(recorder.finish().unwrap().stored, 1);
        };
        // The second one begins with the names that the first has given out, like all after it.
        let mut begun = 0;
        for _ in 0..2 {
            let recorder = scene.builder().readings(None).start().unwrap();
            begun = fs::metadata(scene.trace()).unwrap().len();
            record(recorder);
        }
        let mut left_open = 0;
        for room in (0..3 * 1_024).step_by(64) {
            posix::limit_file_size(begun + room);
            let recorder = scene.builder().readings(None).start().unwrap();
            record(recorder);
            let told = Told::read(&scene.trace());
            assert_eq!(told.named("one").len(), 1, "{room}");
            let open: Vec<_> = told.open().into_values().collect();
            assert_eq!(open, [(1, vec!["open at the end".to_owned()])], "{room}");
            left_open += usize::from(told.trace.header().layout.in_flight_entries > 0);
        }
        // Some did not fit, and the last ones did.
        assert!(left_open > 0 && left_open < 48, "{left_open}");
    });
    end.run().succeeded();
}

#[test]
fn a_file_at_its_size_limit_is_an_error_code_and_not_a_signal() {
    let end = child(|scene| {
        posix::limit_file_size(LITTLE);
        let recorder = scene.builder().start().unwrap();
        let produced = record_too_much();
        judge(scene, &recorder.finish().unwrap(), produced);
    });
    let end = end.run().succeeded();
    tells_the_truth(&end);
    assert_eq!(end.said("problem"), "the trace could not be written: File too large (os error 27)");
    assert!(fs::metadata(end.path("run.trace")).unwrap().len() <= LITTLE);
}

#[test]
fn spans_open_at_the_end_take_nothing_from_slots_that_could_not_be_sealed() {
    let end = child(|scene| {
        posix::limit_file_size(LITTLE);
        let recorder = scene.builder().start().unwrap();
        let open = ringscope::span!("open to the end");
        let produced = record_too_much();
        judge(scene, &recorder.finish().unwrap(), produced);
        std::mem::forget(open);
    });
    let end = end.run().succeeded();
    tells_the_truth(&end);
}

#[test]
fn a_size_limit_below_the_work_areas_is_refused_at_the_start() {
    let end = child(|scene| {
        posix::limit_file_size(MIB);
        let refused = scene.builder().start().expect_err("there is no room");
        scene.say("refusal", refused);
        assert!(!scene.trace().exists(), "nothing is left behind");
    });
    let end = end.run().succeeded();
    assert_eq!(
        end.said("refusal"),
        format!(
            "{}: cannot allocate: File too large (os error 27); \
             a recording needs 12 MiB to start, a flight recorder its size as well, \
             beside the trace that it replaces",
            end.path("run.trace").display()
        )
    );
}

#[test]
fn a_start_without_room_leaves_the_old_trace_in_its_place() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        event!("old");
        let work_areas = Told::read(&scene.trace()).trace.header().layout.log_offset;
        recorder.finish().unwrap();
        // Too little for the work areas, or for what the file begins with behind them.
        for limit in [MIB, work_areas] {
            posix::limit_file_size(limit);
            scene.builder().start().expect_err("there is no room");
            Told::read(&scene.trace()).is_finished_and_adds_up().only("old");
        }
    });
    let end = end.run().succeeded();
    end.trace().is_finished_and_adds_up().only("old");
    assert_eq!(end.files(".starting"), [""; 0]);
}

/// Says so and returns false where no file system can be mounted; fails where it must be.
fn mount(scene: &Scene, at: &Path, bytes: u64) -> bool {
    fs::create_dir(at).unwrap();
    match posix::mount_tmpfs(at, bytes) {
        Ok(()) => true,
        Err(error) => {
            scene.lacks(format!("tmpfs cannot be mounted here: {error}"));
            false
        }
    }
}

#[test]
fn a_full_disk_is_a_counted_loss() {
    let end = child(|scene| {
        let disk = scene.path("disk");
        if !mount(scene, &disk, LITTLE) {
            return;
        }
        let recorder = scene.builder().path(disk.join("run.trace")).start().unwrap();
        let produced = record_too_much();
        judge(scene, &recorder.finish().unwrap(), produced);
        fs::copy(disk.join("run.trace"), scene.trace()).unwrap();
    });
    let end = end.run().succeeded();
    if end.had("tmpfs", "a_full_disk_is_a_counted_loss") {
        tells_the_truth(&end);
        assert_eq!(
            end.said("problem"),
            "the trace could not be written: No space left on device (os error 28)"
        );
    }
}

#[test]
fn a_disk_too_small_to_start_on_is_refused() {
    let end = child(|scene| {
        let disk = scene.path("disk");
        if !mount(scene, &disk, 2 * MIB) {
            return;
        }
        let refused = scene.builder().path(disk.join("run.trace")).start();
        scene.say("refusal", refused.expect_err("there is no room"));
        assert!(!disk.join("run.trace").exists(), "nothing is left behind");
    });
    let end = end.run().succeeded();
    if end.had("tmpfs", "a_disk_too_small_to_start_on_is_refused") {
        assert_eq!(
            end.said("refusal"),
            format!(
                "{}: cannot allocate: No space left on device (os error 28); \
                 a recording needs 12 MiB to start, a flight recorder its size as well, \
                 beside the trace that it replaces",
                end.path("disk/run.trace").display()
            )
        );
    }
}

#[test]
fn a_disk_too_small_for_a_flight_recorder_is_refused() {
    let end = child(|scene| {
        let disk = scene.path("disk");
        if !mount(scene, &disk, 32 * MIB) {
            return;
        }
        let start = |bytes| {
            let builder = scene.builder().path(disk.join("run.trace"));
            builder.keep_last(Duration::from_secs(60), bytes).start()
        };
        let refused = start(1 << 40).expect_err("there is no room");
        scene.say("refusal", refused);
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 0, "nothing is left behind");

        // One that has begun has all of its size: a disk that fills up is not its concern.
        let recorder = start(8 * MIB).unwrap();
        let mut load = Load::new(1);
        load.record(500);
        assert!(recorder.flush());
        let mut ballast = fs::File::create(disk.join("ballast")).unwrap();
        while ballast.write_all(&[1; 4_096]).is_ok() {}
        while load.produced() < EVENTS {
            load.record(500);
            assert!(recorder.flush());
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.problems.as_slice()), (EVENTS, &[][..]));
        fs::copy(disk.join("run.trace"), scene.trace()).unwrap();
    });
    let end = end.run().succeeded();
    if end.had("tmpfs", "a_disk_too_small_for_a_flight_recorder_is_refused") {
        assert_eq!(
            end.said("refusal"),
            format!(
                "{}: cannot allocate: No space left on device (os error 28); \
                 a recording needs 12 MiB to start, a flight recorder its size as well, \
                 beside the trace that it replaces",
                end.path("disk/run.trace").display()
            )
        );
        end.trace().is_finished_and_adds_up();
    }
}

#[test]
fn a_disk_full_at_the_start_still_has_the_old_trace() {
    let end = child(|scene| {
        let disk = scene.path("disk");
        if !mount(scene, &disk, 32 * MIB) {
            return;
        }
        let start = || scene.builder().path(disk.join("run.trace")).start();
        let recorder = start().unwrap();
        event!("old");
        recorder.finish().unwrap();
        let mut ballast = fs::File::create(disk.join("ballast")).unwrap();
        while ballast.write_all(&[1; 4_096]).is_ok() {}
        start().expect_err("there is no room");
        assert_eq!(fs::read_dir(&disk).unwrap().count(), 2, "nothing is left behind");
        fs::copy(disk.join("run.trace"), scene.trace()).unwrap();
    });
    let end = end.run().succeeded();
    if end.had("tmpfs", "a_disk_full_at_the_start_still_has_the_old_trace") {
        end.trace().is_finished_and_adds_up().only("old");
    }
}

#[test]
fn nobody_waits_long_for_a_file_that_nothing_more_finds_room_in() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        posix::limit_file_size(LITTLE);
        let produced = record_too_much();
        let begun = Instant::now();
        assert!(!recorder.flush());
        for _ in 0..3 {
            std::panic::catch_unwind(|| panic!("on purpose")).unwrap_err();
        }
        let took = begun.elapsed();
        assert!(took < Duration::from_millis(4 * 200 + 1_500), "{took:?}");
        posix::limit_file_size(u64::MAX);
        assert!(recorder.flush(), "there is room again");
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.produced(), produced + 3);
        assert!(matches!(summary.problems[..], [Problem::CannotWrite(_)]), "{summary}");
    });
    end.run().succeeded().trace().is_finished_and_adds_up().losses_add_up();
}

#[test]
fn recording_goes_on_when_there_is_room_again() {
    let end = child(|scene| {
        let disk = scene.path("disk");
        if !mount(scene, &disk, 32 * MIB) {
            return;
        }
        let recorder = scene.builder().path(disk.join("run.trace")).start().unwrap();
        event!("before");
        let mut ballast = fs::File::create(disk.join("ballast")).unwrap();
        while ballast.write_all(&[1; 4_096]).is_ok() {}
        let produced = record_too_much();
        fs::remove_file(disk.join("ballast")).unwrap();
        drop(ballast);
        assert!(recorder.flush(), "there is room again");
        event!("after");
        let summary = recorder.finish().unwrap();
        judge(scene, &summary, produced + 2);
        fs::copy(disk.join("run.trace"), scene.trace()).unwrap();
    });
    let end = end.run().succeeded();
    if end.had("tmpfs", "recording_goes_on_when_there_is_room_again") {
        let told = end.trace();
        told.is_finished_and_adds_up().losses_add_up();
        told.only("before");
        told.only("after");
    }
}

#[test]
fn a_disk_that_fills_up_while_files_change_leaves_the_recording_with_its_last_file() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let work_areas = Told::read(&scene.trace()).trace.header().layout.log_offset;
        recorder.finish().unwrap();
        let mut left_unsealed = 0;
        // Beside the work areas of two files and what is in the first when the next is begun: with
        // too little the next is never begun, with too much the first gets all that waits for it.
        for room in (MIB / 8..5 * MIB / 8).step_by(64 << 10) {
            let disk = scene.path(&format!("disk-{room}"));
            if !mount(scene, &disk, 2 * work_areas + MIB + room) {
                return;
            }
            let builder = scene.builder().path(disk.join("run.trace")).rotate_at(MIB);
            let recorder = builder.start().unwrap();
            let open = span!("open to the end");
            let produced = record_too_much();
            let summary = recorder.finish().unwrap();
            drop(open);
            assert_eq!(summary.produced(), produced, "{room}");

            let paths = (0..).map(|number| match number {
                0 => disk.join("run.trace"),
                number => disk.join(format!("run.{number}.trace")),
            });
            let paths: Vec<_> = paths.take_while(|path| path.exists()).collect();
            let told: Vec<Told> = paths.iter().map(|path| Told::read(path)).collect();
            let (last, before) = told.split_last().unwrap();
            assert_eq!(Some(&summary.path), paths.last(), "{room}");
            assert_eq!(last.vitals().state, RecordingState::Finished, "{room}");
            assert_eq!(last.vitals().produced(), produced, "{room}");
            let open: Vec<_> = last.open().into_values().collect();
            assert_eq!(open, [(1, vec!["open to the end".to_owned()])], "{room}");
            for told in before {
                assert_eq!(told.vitals().state, RecordingState::Continued, "{room}");
                assert!(told.open().is_empty(), "{room}");
                let is_raw = |place| matches!(place, Place::Raw { .. });
                left_unsealed += usize::from(told.trace.chunks().iter().any(|it| is_raw(it.place)));
            }
            let steps: Vec<u64> =
                told.iter().flat_map(|told| &told.events).map(|event| event.number("i")).collect();
            assert_eq!(steps.len() as u64, summary.stored, "{room}");
            assert!(steps.is_sorted_by(|a, b| a < b), "{room}");
            paths.iter().for_each(|path| fs::remove_file(path).unwrap()); // memory, all of it
        }
        scene.say("left unsealed", left_unsealed);
    });
    let end = end.run().succeeded();
    let this = "a_disk_that_fills_up_while_files_change_leaves_the_recording_with_its_last_file";
    if end.had("tmpfs", this) {
        assert!(end.number("left unsealed") > 0, "no disk was full at the right moment");
    }
}
