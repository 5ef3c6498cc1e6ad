//! Dumps of a flight recorder: who asks for one, and what is in it.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use ringscope::{Builder, Error, Problem, event, span};
use ringscope_format::{CHUNK_ALIGN, ChunkKind, Mode};

use crate::{
    child::{Scene, child, wait_until},
    load::{Load, unbroken},
    posix,
    told::Told,
};

const WINDOW: Duration = Duration::from_secs(60);

pub(crate) fn flight(scene: &Scene) -> Builder {
    scene.builder().keep_last(WINDOW, 4 << 20)
}

/// Opens a dump and checks what every dump says.
#[track_caller]
pub(crate) fn read_dump(path: &Path, reason: &str) -> Told {
    let told = Told::read(path);
    assert_eq!(told.trace.header().mode, Mode::Dump);
    assert_eq!(told.trace.metadata()["dump.reason"], reason);
    told
}

/// Seconds that a dump says it covers, in nanoseconds.
fn covers(told: &Told) -> f64 {
    told.trace.metadata()["dump.covers_ns"].parse().unwrap()
}

/// The numbers of a file's chunks of this kind, in order (SPEC 8.1).
fn numbers(path: &Path, kind: ChunkKind) -> Vec<u64> {
    let bytes = fs::read(path).unwrap();
    let (places, _) = bytes.as_chunks::<CHUNK_ALIGN>();
    let heads = places.iter().filter(|head| head[..8] == *b"\x89RSCK\r\n\x1a");
    let of_kind = heads.filter(|head| head[32] == kind.0);
    of_kind.map(|head| u64::from_le_bytes(head[24..32].try_into().unwrap())).collect()
}

fn dumps(scene: &Scene) -> usize {
    let entries = fs::read_dir(scene.path("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(".dump-") && name.ends_with(".trace")).count()
}

#[test]
fn the_program_asks_for_a_dump_and_finds_all_of_it_there() {
    let end = child(|scene| {
        let recorder = flight(scene).metadata("model", "llama").start().unwrap();
        let mut load = Load::new(1);
        load.record(5_000);
        thread::sleep(Duration::from_millis(30));
        let _outer = span!("outer");
        load.record(5_000);
        assert_eq!(recorder.dump().unwrap(), scene.path("run.dump-1-asked.trace"));
        load.record(5_000);
        assert_eq!(recorder.dump().unwrap(), scene.path("run.dump-2-asked.trace"));
        drop(_outer);
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.dumps.len()), (15_001, 2));
        assert_eq!(summary.problems, []);
    });
    let end = end.run().succeeded();
    for (number, steps) in [(1, 10_000), (2, 15_000)] {
        let path = end.path(&format!("run.dump-{number}-asked.trace"));
        let told = read_dump(&path, "asked for by the program");
        assert_eq!(unbroken(&told.events), 0..steps);
        assert_eq!(told.trace.metadata()["model"], "llama");
        assert_eq!(told.trace.metadata()["keep_last.window_ns"], "60000000000");
        let open: Vec<_> = told.open().into_values().collect();
        assert_eq!(open, [(1, vec!["outer".to_owned()])]);
        let clock = told.trace.clock();
        let first = told.events.iter().map(|event| event.start).min().unwrap();
        let last = told.events.iter().map(|event| event.end).max().unwrap();
        assert!(clock.error_ns().is_some(), "{} pairs", clock.pairs());
        let span = clock.ns(last - first);
        assert!((covers(&told) / span - 1.0).abs() < 0.01, "{} of {span}", covers(&told));
        assert!(span >= 30e6);
    }
    assert_eq!(end.files(".writing"), [""; 0]);
    assert_eq!(unbroken(&end.trace().events), 0..15_000);
}

#[test]
fn a_dump_says_what_was_sampled() {
    let end = child(|scene| {
        let recorder = flight(scene).rules("step=1/10".parse().unwrap()).start().unwrap();
        recorder.dump().unwrap();
        recorder.set_rules("step=off".parse().unwrap());
        recorder.dump().unwrap();
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    for (dump, rules) in
        [("run.dump-1-asked.trace", "step=1/10"), ("run.dump-2-asked.trace", "step=off")]
    {
        let told = read_dump(&end.path(dump), "asked for by the program");
        assert_eq!(told.trace.metadata()["rules"], rules);
    }
}

#[test]
fn chunks_of_a_dump_that_are_no_events_have_numbers_that_its_trace_has_not() {
    let end = child(|scene| {
        let recorder = flight(scene).start().unwrap();
        let _open = span!("open to the end");
        for rules in ["step=1/10", "step=1/20", "step=1/30"] {
            recorder.set_rules(rules.parse().unwrap());
            recorder.dump().unwrap();
        }
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let files = end.files(".trace");
    assert_eq!(files.len(), 4);
    for kind in [ChunkKind::METADATA, ChunkKind::NAMES, ChunkKind::OPEN_SPANS] {
        let of_files = files.iter().map(|file| numbers(&end.path(file), kind));
        let mut all: Vec<u64> =
            of_files.inspect(|some| assert!(!some.is_empty())).flatten().collect();
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b), "{kind:?}: {all:?}");
    }
}

#[test]
fn rules_that_change_more_often_than_the_file_keeps_are_a_problem_and_it_ends_with_the_last() {
    const MOST: usize = 1_000;
    let child = child(|scene| {
        // Some of them are written, all others refused: each has the sealer look at the rules.
        let recorder = flight(scene).max_dumps(5).start().unwrap();
        for change in 1..=scene.argument().parse().unwrap() {
            recorder.set_rules(format!("step=1/{}", change + 1).parse().unwrap());
            // The first may be answered by a look that had begun before the change.
            let _ = (recorder.dump(), recorder.dump());
        }
        let problems = recorder.finish().unwrap().problems;
        assert!(matches!(problems[0], Problem::DumpFailed(_)), "{problems:?}");
        problems[1..].iter().for_each(|problem| scene.say("problem", problem));
    });
    let as_many = child.another().argument(MOST).run().succeeded();
    assert!(!as_many.has_said("problem"));
    assert_eq!(as_many.trace().trace.metadata()["rules"], "step=1/1001");
    // And what it begins with.
    assert_eq!(numbers(&as_many.path("run.trace"), ChunkKind::METADATA).len(), MOST + 1);

    let more = child.argument(MOST + 9).run().succeeded();
    assert_eq!(
        more.said("problem"),
        "rules were changed more often than the file of a flight recorder keeps: of what was \
         between the first 1,000 changes and the last one it has nothing"
    );
    assert_eq!(more.trace().trace.metadata()["rules"], "step=1/1010");
    assert_eq!(numbers(&more.path("run.trace"), ChunkKind::METADATA).len(), MOST + 2);
}

#[test]
fn a_dump_covers_what_ended_in_it_however_long_ago_that_began() {
    let end = child(|scene| {
        let recorder = scene.builder().keep_last(Duration::from_secs(1), 4 << 20).start().unwrap();
        let epoch = span!("epoch");
        thread::sleep(Duration::from_secs(2));
        drop(epoch);
        event!("one");
        recorder.dump().unwrap();
    });
    let end = end.run().succeeded();
    let told = read_dump(&end.path("run.dump-1-asked.trace"), "asked for by the program");
    assert_eq!(told.named("epoch").len(), 1);
    assert!(covers(&told) < 1e9, "{}", covers(&told));
}

#[test]
fn what_is_older_than_the_window_is_left_out() {
    let end = child(|scene| {
        let window = Duration::from_millis(500);
        let recorder = scene.builder().keep_last(window, 4 << 20).start().unwrap();
        event!("old");
        thread::sleep(3 * window);
        event!("new");
        recorder.dump().unwrap();
        assert_eq!(recorder.finish().unwrap().stored, 2);
    });
    let end = end.run().succeeded();
    let told = read_dump(&end.path("run.dump-1-asked.trace"), "asked for by the program");
    assert_eq!((told.named("old").len(), told.named("new").len()), (0, 1));
    assert!(covers(&told) < 1e9);
    assert_eq!(end.trace().named("old").len(), 1, "it is still in the recorder's own file");
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: i32) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_signal_asks_for_a_dump() {
    let child = child(|scene| {
        posix::handle(libc::SIGUSR2, count);
        let recorder = flight(scene).dump_on_signal(libc::SIGUSR2).start().unwrap();
        event!("here");
        scene.say("ready", "");
        wait_until("there is a dump", || dumps(scene) == 1);
        assert_eq!(HANDLED.load(Ordering::Relaxed), 1, "the program's handler is called too");
        recorder.finish().unwrap();
    });
    let mut running = child.start();
    running.wait_until_said("ready");
    posix::kill(running.pid(), libc::SIGUSR2);
    let end = running.wait().succeeded();
    read_dump(&end.path("run.dump-1-signal.trace"), "asked for by signal").only("here");
}

#[test]
fn a_signal_that_asks_for_a_dump_does_not_end_the_program() {
    let end = child(|scene| {
        let recorder = flight(scene).dump_on_signal(libc::SIGUSR1).start().unwrap();
        event!("here");
        posix::raise(libc::SIGUSR1);
        wait_until("there is a dump", || dumps(scene) == 1);
        assert_eq!(recorder.finish().unwrap().dumps.len(), 1);
    });
    end.run().succeeded();
}

#[test]
fn a_control_file_asks_for_a_dump() {
    let end = child(|scene| {
        let recorder = flight(scene).start().unwrap();
        event!("here");
        fs::write(scene.path("commands"), "dump\n").unwrap();
        fs::rename(scene.path("commands"), scene.path("run.trace.control")).unwrap();
        wait_until("there is a dump", || dumps(scene) == 1);
        assert!(!scene.path("run.trace.control").exists());
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let path = end.path("run.dump-1-control.trace");
    read_dump(&path, "asked for by control file").only("here");
}

#[test]
fn a_panic_writes_a_dump_with_itself_in_it() {
    let end = child(|scene| {
        let recorder = flight(scene).start().unwrap();
        let worker = || {
            let _job = span!("job");
            event!("before");
            panic!("worker is out");
        };
        thread::Builder::new().name("worker".into()).spawn(worker).unwrap().join().unwrap_err();
        assert_eq!(recorder.finish().unwrap().dumps.len(), 1);
    });
    let end = end.run().succeeded();
    let told = read_dump(&end.path("run.dump-1-panic.trace"), "panic");
    told.only("before");
    told.only("panic");
    assert_eq!(told.open()["worker"], (1, vec!["job".to_owned()]));
}

#[test]
fn a_slow_span_writes_one_dump_with_what_followed_and_then_holds_off() {
    const SLOW: Duration = Duration::from_millis(40);
    let end = child(|scene| {
        let builder = flight(scene).dump_when_slower("req*", SLOW);
        let builder = builder.after_trigger(Duration::from_millis(400)).hold_off(WINDOW);
        let recorder = builder.start().unwrap();
        let request = |time| {
            let _span = span!("request");
            thread::sleep(time);
        };
        (0..100).for_each(|_| request(Duration::ZERO));
        {
            let _other = span!("other, which may be slow");
            thread::sleep(2 * SLOW);
        }
        thread::sleep(Duration::from_millis(600));
        assert_eq!(dumps(scene), 0, "nothing slow yet");
        request(SLOW);
        assert_eq!(dumps(scene), 0, "it waits to see what follows");
        event!("what followed");
        wait_until("there is a dump", || dumps(scene) == 1);
        request(SLOW);
        event!("later");
        thread::sleep(Duration::from_millis(1_000));
        assert_eq!(recorder.finish().unwrap().dumps.len(), 1, "held off");
    });
    let end = end.run().succeeded();
    let told = Told::read(&end.path("run.dump-1-slow-span.trace"));
    let reason = &told.trace.metadata()["dump.reason"];
    // A sleep on a busy machine may be much longer than it should.
    let took = reason.strip_prefix("slow span: request took ").unwrap().strip_suffix(" ms");
    assert!(took.unwrap().parse::<f64>().unwrap() >= 40.0, "{reason}");
    assert_eq!((told.named("request").len(), told.named("what followed").len()), (101, 1));
    assert_eq!(told.named("later").len(), 0);
    assert!(covers(&told) > 0.0);
}

#[test]
fn a_slow_span_right_before_the_end_still_gets_its_dump() {
    let end = child(|scene| {
        let builder = flight(scene).dump_when_slower("request", Duration::from_millis(5));
        let recorder = builder.after_trigger(WINDOW).start().unwrap();
        {
            let _span = span!("request");
            thread::sleep(Duration::from_millis(10));
        }
        event!("last");
        let _open = span!("open");
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.dumps.len()), (2, 1));
    });
    let end = end.run().succeeded();
    let told = Told::read(&end.path("run.dump-1-slow-span.trace"));
    told.only("request");
    told.only("last");
    assert_eq!(told.open().len(), 1);
    end.trace().is_finished_and_adds_up();
}

#[test]
fn no_more_dumps_are_written_than_allowed() {
    let end = child(|scene| {
        let recorder = flight(scene).max_dumps(2).start().unwrap();
        event!("here");
        recorder.dump().unwrap();
        recorder.dump().unwrap();
        let refused = recorder.dump();
        assert!(matches!(refused, Err(Error::Io { .. })));
        scene.say("refusal", refused.unwrap_err());
        assert_eq!(recorder.finish().unwrap().dumps.len(), 2);
    });
    let end = end.run().succeeded();
    assert_eq!(
        end.said("refusal"),
        format!(
            "{}: cannot dump: this recording has written as many dumps as it may; raise `max_dumps`",
            end.path("run.trace").display()
        )
    );
    assert_eq!(end.files(".trace").len(), 3);
}

#[test]
fn whatever_asks_for_one_dump_too_many_is_in_the_summary() {
    let child = child(|scene| {
        posix::handle(libc::SIGUSR2, count);
        let builder = flight(scene).max_dumps(1).dump_on_signal(libc::SIGUSR2);
        let builder = builder.dump_when_slower("request", Duration::from_millis(5));
        let recorder = builder.start().unwrap();
        recorder.dump().unwrap();
        match scene.argument().as_str() {
            "signal" => {
                posix::raise(libc::SIGUSR2);
                // Another thread may be the one that gets it.
                wait_until("the signal is handled", || HANDLED.load(Ordering::Relaxed) == 1);
            }
            "slow span" => {
                let _span = span!("request");
                thread::sleep(Duration::from_millis(10));
            }
            "control file" => {
                let control = scene.path("run.trace.control");
                fs::write(&control, "dump\n").unwrap();
                wait_until("the command is taken", || !control.exists());
            }
            _ => assert!(recorder.dump().is_err()),
        }
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.dumps.len(), 1);
        let [problem] = summary.problems.as_slice() else { panic!("{:?}", summary.problems) };
        scene.say("problem", problem);
    });
    for who in ["signal", "slow span", "control file", "program"] {
        let end = child.another().argument(who).run().succeeded();
        assert_eq!(
            end.said("problem"),
            "a dump could not be written: this recording has written as many dumps as it may; \
             raise `max_dumps`",
            "{who}"
        );
    }
}

#[test]
fn a_dump_has_every_event_that_it_counts() {
    let end = child(|scene| {
        let builder = scene.builder().keep_last(Duration::from_millis(300), 4 << 20);
        let recorder = builder.start().unwrap();
        let mut load = Load::new(1);
        for _ in 0..3 {
            // More than there is room for, and more than the window goes back.
            while load.produced() % 40_000 < 38_500 {
                load.record(500);
                thread::sleep(Duration::from_millis(5));
            }
            load.record(1_500);
            recorder.dump().unwrap();
        }
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let dumps = end.files("-asked.trace");
    assert_eq!(dumps.len(), 3);
    for dump in dumps {
        let told = Told::read(&end.path(&dump));
        told.is_finished_and_adds_up();
        assert!(told.vitals().overwritten > 10_000 && told.events.len() > 1_000, "{dump}");
    }
}

#[test]
fn triggers_cost_little_with_many_names() {
    let end = child(|scene| {
        let builder = flight(scene).dump_when_slower("request", Duration::from_secs(1));
        let recorder = builder.start().unwrap();
        let begun = std::time::Instant::now();
        for i in 0..30_000 {
            drop(span!(site: ringscope::CallSite::named(&format!("name {i}"))));
            if i % 100 == 0 {
                assert!(recorder.flush());
            }
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (30_000, 0));
        scene.say("seconds", begun.elapsed().as_secs());
    });
    let end = end.run().succeeded();
    assert!(end.number("seconds") < 15, "looking names up must not take longer with every name");
}
