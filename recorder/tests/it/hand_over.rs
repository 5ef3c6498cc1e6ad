//! From raw slot to sealed chunk: a death between any two steps neither loses
//! nor doubles an event.
//!
//! `RINGSCOPE_CRASH_AT=STEP:N` kills the process as it comes to a step for the
//! N-th time. What each thread had flushed by then it has said; the file must
//! have at least that, in order, without a gap and without a repetition.

#![cfg(debug_assertions)] // release builds have no such steps

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ringscope::{Builder, CallSite, span};
use ringscope_format::{ChunkInfo, Place};

use crate::{
    child::{End, Scene, child},
    load::{Load, unbroken},
    posix,
    told::{Event, Told},
};

const THREADS: [&str; 2] = ["one", "two"];
/// Recorded between two flushes: a quarter of a raw slot.
const STEPS: u64 = 500;

/// Ends by the crash that was asked for.
fn record_until_killed(scene: &Scene, builder: Builder) {
    let recorder = builder.start().unwrap();
    let record = |name: &str| {
        let _whole = span!("whole");
        let mut load = Load::new(name.len() as u64);
        for round in 0..400 {
            // New names in every round, so that names chunks come up too.
            drop(span!(site: CallSite::named(&format!("{name} {round}"))));
            load.record(STEPS);
            assert!(recorder.flush());
            scene.say(name, load.produced());
        }
    };
    thread::scope(|scope| {
        for name in THREADS {
            let record = || record(name);
            thread::Builder::new().name(name.into()).spawn_scoped(scope, record).unwrap();
        }
    });
}

/// All files of the recording, oldest first.
fn files(end: &End) -> Vec<Told> {
    let paths = end.files(".trace").into_iter().map(|name| end.path(&name));
    let mut files: Vec<Told> = paths.map(|path| Told::read(&path)).collect();
    files.sort_by_key(|told| told.trace.header().file_number);
    files
}

/// What a thread has in all of them.
fn of_thread<'a>(files: &'a [Told], name: &str) -> Vec<&'a Event> {
    let mine = |told: &'a Told| told.events.iter().filter(|event| told.thread_of(event) == name);
    files.iter().flat_map(mine).collect()
}

fn said(end: &End, name: &str) -> u64 {
    if std::fs::read_to_string(end.path("said")).unwrap_or_default().contains(&format!("{name}\t"))
    {
        end.number(name)
    } else {
        0
    }
}

#[track_caller]
fn is_complete(end: End, at: &str) {
    let end = end.died_of(libc::SIGKILL);
    let files = files(&end);
    for name in THREADS {
        let mine = of_thread(&files, name);
        let steps = unbroken(mine.iter().copied());
        let flushed = said(&end, name);
        assert_eq!(steps.start, 0, "{at}: {name}");
        assert!(steps.end >= flushed, "{at}: {name} has {steps:?}, had flushed {flushed}");
        let rounds = mine.iter().filter(|event| event.name.starts_with(name)).count() as u64;
        assert!(rounds >= flushed / STEPS, "{at}: {name}");
        let is_open =
            |told: &Told| told.open().get(name).is_some_and(|(_, spans)| spans[0] == "whole");
        assert!(flushed == 0 || files.iter().any(is_open), "{at}: {name} was inside of a span");
    }
}

/// Chunks of events in a file that is being written.
fn sealed(scene: &Scene) -> usize {
    let told = Told::read(&scene.trace());
    let is_sealed = |chunk: &&ChunkInfo| matches!(chunk.place, Place::Sealed { .. });
    told.trace.chunks().iter().filter(is_sealed).filter(|chunk| chunk.events > 0).count()
}

/// The sealer looks by itself only once a second, and is called only for eight of them.
#[test]
fn slots_are_in_the_log_soon_after_they_are_full_without_anybody_asking() {
    let end = child(|scene| {
        let recorder = scene.builder().readings(None).start().unwrap();
        let (begun, mut load) = (Instant::now(), Load::new(1));
        // Three slots and a bit, in pieces that leave every ring nearly empty.
        for _ in 0..12 {
            load.record(500);
            thread::sleep(Duration::from_millis(2));
        }
        while sealed(scene) == 0 {
            assert!(begun.elapsed() < Duration::from_millis(900), "nothing is sealed");
            thread::sleep(Duration::from_millis(5));
        }
        drop(recorder);
    });
    end.run().succeeded();
}

/// There the drain is in its way with every tick, and leaves what can be left.
#[test]
#[cfg(target_os = "linux")]
fn who_records_without_a_pause_on_the_only_core_has_its_slots_sealed_all_the_same() {
    let end = child(|scene| {
        posix::share_one_core();
        let (begun, recorder) = (Instant::now(), scene.builder().start().unwrap());
        let mut load = Load::new(1);
        // Some slots more than are left for later.
        while sealed(scene) < 5 {
            assert!(begun.elapsed() < Duration::from_secs(20), "next to nothing is sealed");
            for _ in 0..100 {
                load.record(100);
                let since = Instant::now();
                while since.elapsed() < Duration::from_micros(100) {
                    std::hint::spin_loop();
                }
            }
        }
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.problems, []);
        assert_eq!(summary.produced(), load.produced());
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn a_death_at_any_step_of_sealing_loses_and_doubles_nothing() {
    let points = [
        "slot-full:1",
        "slot-full:2",
        "slot-full:7",
        "sealing-begun:1",
        "sealing-begun:4",
        "slot-sealed:1",
        "slot-sealed:5",
        "names-written:1",
        "names-written:2",
        "names-written:5",
        "payload-written:1",
        "payload-written:2",
        "payload-written:3",
        "payload-written:6",
        "payload-written:11",
        "header-written:1",
        "header-written:2",
        "header-written:9",
        "slot-free:1",
        "slot-free:2",
        "slot-free:9",
    ];
    for at in points {
        let child = child(|scene| record_until_killed(scene, scene.builder()));
        is_complete(child.environment("RINGSCOPE_CRASH_AT", at).run(), at);
    }
}

#[test]
fn a_death_at_any_step_around_a_rotation_loses_and_doubles_nothing() {
    let points = [
        "slot-full:6",
        "slot-full:12",
        "names-written:7",
        "payload-written:12",
        "payload-written:13",
        "payload-written:14",
        "payload-written:26",
        "header-written:12",
        "slot-free:12",
        // The steps of the rotation itself; the first file is prepared and placed too.
        "file-prepared:2",
        "file-placed:2",
        "rotation-begun:1",
        "rotation-offered:1",
        "file-switched:1",
        "file-left:1",
        "left-file-closed:1",
        "compact-copied:1",
        "file-prepared:3",
        "rotation-offered:2",
        "file-left:2",
        "left-file-closed:2",
    ];
    let mut rotated = 0;
    for at in points {
        let child = child(|scene| {
            record_until_killed(scene, scene.builder().rotate_at(1 << 20));
        });
        let end = child.environment("RINGSCOPE_CRASH_AT", at).run();
        rotated += usize::from(end.files(".trace").len() > 1);
        is_complete(end, at);
    }
    assert!(rotated > 1, "{rotated} of them had begun a second file");
}

/// A pass that copies but a part of them writes no stacks, and is not to be the one that leaves.
#[test]
fn a_death_as_a_file_is_left_with_many_events_in_a_ring_leaves_spans_open_in_the_next() {
    let end = child(|scene| {
        let hour = Duration::from_secs(3_600);
        let recorder = scene.builder().rotate_at(1 << 20).ticks(hour, hour).start().unwrap();
        let _whole = span!("whole");
        let mut load = Load::new(1);
        assert!(recorder.flush());
        // Slots enough for a rotation are full, and none can be written.
        posix::limit_file_size(std::fs::metadata(scene.trace()).unwrap().len());
        for _ in 0..30 {
            load.record(STEPS);
            assert!(recorder.flush());
        }
        // More than a stretch and less than four, which the drain comes to as it is told of the
        // next file.
        load.record(1_500);
        scene.say("produced", load.produced());
        posix::limit_file_size(libc::RLIM_INFINITY);
        thread::sleep(Duration::from_secs(60));
    });
    let end = end.environment("RINGSCOPE_CRASH_AT", "file-left:1").run().died_of(libc::SIGKILL);
    let files = files(&end);
    assert_eq!(files.len(), 2);
    let open = files[1].open();
    assert_eq!(open.values().cloned().collect::<Vec<_>>(), [(1, vec!["whole".to_owned()])]);
    let steps = unbroken(files.iter().flat_map(|told| &told.events));
    assert_eq!(steps, 0..end.number("produced"));
}

#[test]
fn a_death_at_any_step_of_a_flight_recorder_leaves_the_last_events_unbroken() {
    let points = [
        "ring-invalidated:1",
        "ring-invalidated:27",
        "payload-written:56",
        "payload-written:57",
        "header-written:28",
        "slot-free:28",
        "slot-full:28",
    ];
    let mut wrapped = 0;
    for at in points {
        let child = child(|scene| {
            let hour = Duration::from_secs(3_600);
            record_until_killed(scene, scene.builder().keep_last(hour, 4 << 20));
        });
        let end = child.environment("RINGSCOPE_CRASH_AT", at).run().died_of(libc::SIGKILL);
        let files = files(&end);
        for name in THREADS {
            let steps = unbroken(of_thread(&files, name));
            wrapped += usize::from(steps.start > 0);
            let flushed = said(&end, name);
            assert!(steps.end >= flushed, "{at}: {name} has {steps:?}, had flushed {flushed}");
        }
    }
    assert!(wrapped > 4, "{wrapped} of them had overwritten something");
}

#[test]
fn a_drain_that_panics_over_a_slot_leaves_it_to_the_sealer() {
    let end = child(|scene| {
        let hour = Duration::from_secs(3_600);
        let recorder = scene.builder().ticks(hour, hour).start().unwrap();
        let mut load = Load::new(1);
        // As often as the drain looks for something to seal; the sealer has no reason to.
        while recorder.flush() {
            scene.say("flushed", load.produced());
            load.record(STEPS);
        }
        assert!(recorder.finish().is_err());
        assert!(sealed(scene) > 0);
    });
    let end = end.environment("RINGSCOPE_CRASH_AT", "sealing-begun:1:panic").run().succeeded();
    assert!(end.stderr.contains("'ringscope-drain'"), "{}", end.stderr);
    let steps = unbroken(&end.trace().events);
    let flushed = end.number("flushed");
    assert!(steps.start == 0 && steps.end >= flushed, "{steps:?}, flushed {flushed}");
}

#[test]
fn a_death_while_a_file_comes_to_its_place_leaves_the_old_one_or_the_new() {
    // A link, where nothing was there before; otherwise a rename.
    let points = [
        ("file-prepared:2", true, "old"),
        ("payload-written:2", true, "old"),
        ("file-placed:2", true, "new"),
        ("file-placed:1", false, "new"),
    ];
    for (at, with_old, left) in points {
        let child = child(|scene| {
            let path = scene.argument();
            let record = |name: &str| {
                let recorder = scene.builder().path(&path).metadata("which", name).start()?;
                recorder.finish()
            };
            if !path.starts_with('/') {
                let begin = |name| scene.builder().metadata("which", name).start();
                if path == "old" {
                    let _ = begin("old").unwrap().finish();
                }
                let _ = begin("new");
                unreachable!("killed by now");
            }
            // One that fails takes nothing away, one that does not tidies up.
            posix::limit_file_size(1 << 20);
            record("failed").unwrap_err();
            let told = Told::read(Path::new(&path));
            scene.say("left", &told.trace.metadata()["which"]);
            posix::limit_file_size(libc::RLIM_INFINITY);
            record("newest").unwrap();
        });
        let after = child.another();
        let killed = child
            .argument(if with_old { "old" } else { "" })
            .environment("RINGSCOPE_CRASH_AT", at)
            .run()
            .died_of(libc::SIGKILL);
        let path = killed.path("run.trace");
        let after = after.argument(path.display()).run().succeeded();
        assert_eq!(after.said("left"), left, "{at}");
        assert_eq!(killed.trace().trace.metadata()["which"], "newest");
        assert_eq!(killed.files(".starting"), [""; 0], "{at}");
    }
}

#[test]
fn a_death_while_a_finished_file_is_made_compact_leaves_it_whole() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let mut load = Load::new(1);
        load.record(20_000);
        assert!(recorder.flush());
        scene.say("produced", load.produced());
        let _ = recorder.finish();
    });
    let end =
        end.environment("RINGSCOPE_CRASH_AT", "compact-copied:1").run().died_of(libc::SIGKILL);
    let told = end.trace();
    told.is_finished_and_adds_up();
    assert_eq!(told.events.len() as u64, end.number("produced"));
}
