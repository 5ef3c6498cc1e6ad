//! Texts of errors that are longer than an event holds: they come back whole, whatever
//! becomes of the process, and what stays cut is counted.
//!
//! Whoever reads a trace here finds that no event refers to a text that is not there: see
//! [`Told`].

use std::{fmt, fs, sync::Barrier, thread, time::Duration};

use ringscope::{
    Kind, error, event,
    handlers::{ChannelExporter, ConsoleExporter, ExportFilter, Field},
    span,
    vocabulary::{CallException, WorkerCrash},
};
use ringscope_format::{OwnedValue, RecordingState};

use crate::{
    child::{Scene, child},
    posix,
    told::{Event, Told},
};

/// A stack trace of this many bytes, with characters of two.
fn stack_trace(bytes: usize) -> String {
    let lines = (0..).map(|at| format!("{at:5}: <demo::caf\u{E9} as Run>::frame_{at}\n"));
    let mut text: String = lines.take(bytes / 30).collect();
    text.truncate((0..=bytes).rev().find(|&end| text.is_char_boundary(end)).unwrap());
    text.extend(std::iter::repeat_n('.', bytes - text.len()));
    text
}

fn text(event: &Event, key: &str) -> (String, bool) {
    match event.field(key) {
        Some(OwnedValue::Text { text, cut }) => (text.clone(), *cut),
        other => panic!("{key} of {} is {other:?}", event.name),
    }
}

#[track_caller]
fn is_whole(event: &Event, key: &str, expected: &str) {
    let (text, cut) = text(event, key);
    assert_eq!((text.len(), cut), (expected.len(), false), "{key} of {}", event.name);
    assert!(text == expected, "{key} of {}", event.name);
}

#[test]
fn a_stack_trace_of_40_kilobytes_comes_back_from_every_kind_of_error() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        ringscope::tracing::Subscriber::new().install().unwrap();
        let stack = stack_trace(40_000);
        let arguments = format!("[{}]", "17, ".repeat(5_000));
        error!("decode failed", token = 17, reason = "no such token", stack = &stack);
        CallException::new()
            .kind("TypeError")
            .payload(&stack[..2_000])
            .stack(&stack)
            .function("generate")
            .arguments(&arguments)
            .record();
        WorkerCrash::new().pool("decoders").reason(&stack).record();
        tracing::error!(name: "shown", code = 7, stack = %stack, "it said: {stack}");
        tracing::error!(name: "debugged", stack = ?stack.lines().collect::<Vec<_>>());
        tracing::error!(name: "given", stack = stack.as_str(), after = "short");
        drop(span!("step"));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.long_texts, summary.texts_cut), (7, 9, 0));
        assert!(!summary.to_string().contains("cut"), "{summary}");
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!((told.vitals().long_texts, told.vitals().texts_cut), (9, 0));
    let stack = stack_trace(40_000);
    let failed = told.only("decode failed");
    assert_eq!((failed.kind, failed.field("token")), (Kind::ERROR, Some(&OwnedValue::I64(17))));
    is_whole(failed, "stack", &stack);
    is_whole(failed, "reason", "no such token");
    let exception = told.only("call.exception");
    is_whole(exception, "kind", "TypeError");
    is_whole(exception, "payload", &stack[..2_000]);
    is_whole(exception, "stack", &stack);
    is_whole(exception, "function", "generate");
    is_whole(exception, "arguments", &format!("[{}]", "17, ".repeat(5_000)));
    is_whole(told.only("worker.crash"), "reason", &stack);
    is_whole(told.only("shown"), "stack", &stack);
    is_whole(told.only("shown"), "message", &format!("it said: {stack}"));
    is_whole(told.only("debugged"), "stack", &format!("{:?}", stack.lines().collect::<Vec<_>>()));
    is_whole(told.only("given"), "stack", &stack);
    is_whole(told.only("given"), "after", "short");
}

#[test]
fn only_errors_take_the_long_way_and_only_if_they_must() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        ringscope::tracing::Subscriber::new().install().unwrap();
        let long = "l".repeat(10_000);
        event!("event", text = &long);
        drop(span!("span", text = &long));
        tracing::warn!(name: "warning", text = %long);
        error!("fits", first = &long[..24 * 30], second = "s");
        error!("just not", first = &long[..24 * 30 + 1], second = "s");
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.long_texts, summary.texts_cut), (1, 0));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    for name in ["event", "span", "warning"] {
        let (kept, cut) = text(told.only(name), "text");
        assert!(cut && kept.len() < 768, "{name}");
    }
    is_whole(told.only("fits"), "first", &"l".repeat(720));
    is_whole(told.only("just not"), "first", &"l".repeat(721));
}

#[test]
fn a_text_past_the_limit_is_cut_at_a_character_and_says_so() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        ringscope::tracing::Subscriber::new().install().unwrap();
        let euros = "\u{20AC}".repeat(50_000);
        error!("macro", text = &euros);
        tracing::error!(name: "shown", text = %euros);
        tracing::error!(name: "just fits", text = %"y".repeat(65_536));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.long_texts, summary.texts_cut), (3, 0));
    });
    let told = end.run().succeeded().trace();
    for name in ["macro", "shown"] {
        let (kept, cut) = text(told.only(name), "text");
        assert!(cut && kept == "\u{20AC}".repeat(21_845), "{name}: {}", kept.len());
    }
    is_whole(told.only("just fits"), "text", &"y".repeat(65_536));
}

/// Writes a lot and panics then.
struct Panics(usize);

impl fmt::Debug for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..self.0 {
            f.write_str("as far as ")?;
        }
        panic!("this cannot be shown");
    }
}

#[test]
fn a_debug_that_panics_late_keeps_what_it_had_written() {
    let end = child(|scene| {
        let recorder = scene.builder().on_panic(false).start().unwrap();
        ringscope::tracing::Subscriber::new().install().unwrap();
        tracing::error!(name: "early", text = ?Panics(2));
        tracing::error!(name: "late", text = ?Panics(1_000));
        tracing::error!(name: "at the limit", text = ?Panics(6_553));
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let note = "(formatting it panicked)";
    is_whole(told.only("early"), "text", &format!("{}{note}", "as far as ".repeat(2)));
    is_whole(told.only("late"), "text", &format!("{}{note}", "as far as ".repeat(1_000)));
    let (kept, cut) = text(told.only("at the limit"), "text");
    assert!(!cut && kept.len() == 65_536 && kept.ends_with(note), "{}", kept.len());
}

#[test]
fn a_panic_is_recorded_with_all_that_it_said() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let said = stack_trace(30_000);
        thread::spawn(move || panic!("{said}")).join().unwrap_err();
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    is_whole(told.only("panic"), "message", &stack_trace(30_000));
}

#[test]
fn texts_that_come_too_fast_stay_cut_and_are_counted() {
    let end = child(|scene| {
        let slow = Duration::from_secs(2);
        let recorder = scene.builder().ticks(slow, slow).start().unwrap();
        let long = stack_trace(50_000);
        let start = Barrier::new(4);
        thread::scope(|scope| {
            for worker in 0..4_u64 {
                let (long, start) = (&long, &start);
                scope.spawn(move || {
                    // A new thread wakes the drain; from then on it sleeps.
                    assert!(ringscope::register_thread());
                    start.wait();
                    thread::sleep(Duration::from_millis(300));
                    for at in 0..100_u64 {
                        error!("failed", worker = worker, at = at, stack = long);
                    }
                });
            }
        });
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (400, 0));
        assert_eq!(summary.long_texts + summary.texts_cut, 400);
        let said = format!("{} long texts of errors were cut", summary.texts_cut);
        assert!(summary.to_string().contains(&said), "{summary}");
        scene.say("cut", summary.texts_cut);
    });
    let end = end.run().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up();
    let long = stack_trace(50_000);
    let (mut whole, mut cut) = (0, 0);
    for failed in told.named("failed") {
        match text(failed, "stack") {
            (text, false) => {
                assert!(text == long);
                whole += 1;
            }
            (text, true) => {
                assert!(long.starts_with(&text) && text.len() > 500);
                cut += 1;
            }
        }
    }
    // 4 MiB may be on their way, and nearly nobody took any.
    assert!((80..200).contains(&whole), "{whole} are whole");
    assert_eq!((told.vitals().long_texts, told.vitals().texts_cut), (whole, cut));
    assert_eq!(end.number("cut"), cut);
}

#[test]
fn a_ring_that_is_full_loses_the_error_and_keeps_no_text_of_it() {
    let end = child(|scene| {
        let slow = Duration::from_millis(300);
        let recorder = scene.builder().ring_records(64).ticks(slow, slow).start().unwrap();
        thread::sleep(Duration::from_millis(20));
        let long = stack_trace(5_000);
        // Far more than the bytes and the places of the queue, if the texts were kept.
        for at in 0..2_000_u64 {
            error!("failed", at = at, stack = &long);
        }
        assert!(recorder.flush());
        error!("after", stack = &long);
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.produced(), 2_001);
        assert_eq!((summary.long_texts, summary.texts_cut), (summary.stored, 0));
        assert!(summary.lost > 1_900);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    is_whole(told.only("after"), "stack", &stack_trace(5_000));
}

/// A text of some length or other.
fn text_of(at: u64) -> String {
    stack_trace(1_000 + at as usize * 997 % 18_000)
}

/// Errors with long texts among spans, for ever.
fn fail_steadily(scene: &Scene, spans_between: u32) {
    let recorder = scene.builder().start().unwrap();
    for at in 0_u64.. {
        for _ in 0..spans_between {
            drop(span!("step", at = at));
        }
        error!("failed", at = at, stack = &text_of(at));
        if at == 10 {
            assert!(recorder.flush());
            scene.say("recording", "");
        }
        thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn a_kill_at_any_moment_leaves_every_error_that_it_leaves_with_its_text() {
    for delay in [0, 2, 5, 11, 23, 60, 150] {
        let mut running = child(|scene| fail_steadily(scene, 50)).start();
        running.wait_until_said("recording");
        thread::sleep(Duration::from_millis(delay));
        posix::kill(running.pid(), libc::SIGKILL);
        let told = running.wait().died_of(libc::SIGKILL).trace();
        assert_eq!(told.vitals().state, RecordingState::Recording);
        let failed = told.named("failed");
        assert!(failed.len() > 10, "{}", failed.len());
        for failed in failed {
            is_whole(failed, "stack", &text_of(failed.number("at")));
        }
    }
}

#[cfg(debug_assertions)] // release builds have no such steps
#[test]
fn a_death_at_any_step_of_sealing_leaves_every_error_with_its_text() {
    let steps = [
        "slot-full:1",
        "slot-full:4",
        "payload-written:5",
        "payload-written:8",
        "header-written:1",
        "header-written:3",
        "slot-free:1",
        "slot-free:3",
        "file-switched:1",
        "file-left:2",
    ];
    for step in steps {
        let child = child(|scene| {
            let recorder = scene.builder().rotate_at(1 << 20).start().unwrap();
            for at in 0..200_000_u64 {
                error!("failed", at = at, stack = &text_of(at), noise = at * 7_919);
                if at % 20 == 0 {
                    assert!(recorder.flush());
                    scene.say("flushed", at + 1);
                }
            }
        });
        let end = child.environment("RINGSCOPE_CRASH_AT", step).run();
        let end = end.died_of(libc::SIGKILL);
        let mut found = Vec::new();
        for name in end.files(".trace") {
            for failed in Told::read(&end.path(&name)).named("failed") {
                is_whole(failed, "stack", &text_of(failed.number("at")));
                found.push(failed.number("at"));
            }
        }
        found.sort_unstable();
        assert!(found.len() as u64 >= end.number("flushed"), "{step}");
        assert!(found.iter().copied().eq(0..found.len() as u64), "{step}");
    }
}

#[test]
fn a_process_that_aborts_leaves_its_last_error_whole() {
    let end = child(|scene| {
        let tick = Duration::from_millis(20);
        std::mem::forget(scene.builder().ticks(tick, tick).start().unwrap());
        error!("the last", stack = &stack_trace(40_000));
        std::process::abort();
    });
    let told = end.run().died_of(libc::SIGABRT).trace();
    assert_eq!(told.vitals().state, RecordingState::FatalSignal);
    is_whole(told.only("the last"), "stack", &stack_trace(40_000));
}

#[test]
fn a_dump_of_the_flight_recorder_has_the_texts_of_its_errors() {
    let end = child(|scene| {
        let hour = Duration::from_secs(3_600);
        let recorder = scene.builder().keep_last(hour, 2 << 20).start().unwrap();
        // Random enough that it goes round in the ring many times.
        let mut state = 1_u64;
        for at in 0..400_u64 {
            let noise = |state: &mut u64| {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                format!("{:016x}", *state)
            };
            let long: String = (0..2_500).map(|_| noise(&mut state)).collect();
            error!("failed", at = at, stack = &long);
            if at % 10 == 0 {
                assert!(recorder.flush());
            }
        }
        let last = stack_trace(40_000);
        error!("the last", stack = &last);
        recorder.dump().unwrap();
        error!("after the dump", stack = &last);
        let summary = recorder.finish().unwrap();
        assert!(summary.overwritten > 100, "{summary:?}");
        assert_eq!((summary.long_texts, summary.texts_cut), (402, 0));
    });
    let end = end.run().succeeded();
    for (name, last) in [("run.dump-1-asked.trace", "the last"), ("run.trace", "after the dump")] {
        let told = Told::read(&end.path(name));
        is_whole(told.only(last), "stack", &stack_trace(40_000));
        let failed = told.named("failed");
        assert!((10..300).contains(&failed.len()), "{} in {name}", failed.len());
        for failed in failed {
            assert_eq!((text(failed, "stack").0.len(), text(failed, "stack").1), (40_000, false));
        }
    }
}

#[test]
fn every_file_of_a_rotation_has_the_texts_of_its_own_errors() {
    /// Three files and as much again, since sealing may be some slots behind.
    const ERRORS: u64 = 600;
    let end = child(|scene| {
        let recorder = scene.builder().rotate_at(1 << 20).start().unwrap();
        let mut state = 1_u64;
        for at in 0..ERRORS {
            let mut noise = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                format!("{state:016x}")
            };
            let long: String = (0..2_000).map(|_| noise()).collect();
            error!("failed", at = at, stack = &long);
            assert!(recorder.flush());
            thread::sleep(Duration::from_millis(1));
        }
        let summary = recorder.finish().unwrap();
        let counts = (summary.stored, summary.long_texts, summary.texts_cut);
        assert_eq!(counts, (ERRORS, ERRORS, 0));
    });
    let end = end.run().succeeded();
    let files = end.files(".trace");
    assert!(files.len() >= 3, "{files:?}");
    let mut found = Vec::new();
    for name in files {
        for failed in Told::read(&end.path(&name)).named("failed") {
            assert_eq!((text(failed, "stack").0.len(), text(failed, "stack").1), (32_000, false));
            found.push(failed.number("at"));
        }
    }
    found.sort_unstable();
    assert!(found.into_iter().eq(0..ERRORS));
}

#[test]
fn a_second_recording_begins_with_nothing_of_the_first() {
    let end = child(|scene| {
        let slow = Duration::from_secs(5);
        let first = scene.builder().path(scene.path("first.trace")).ticks(slow, slow);
        let first = first.start().unwrap();
        (0..500).for_each(|_| error!("first", stack = &stack_trace(50_000)));
        assert!(first.finish().unwrap().texts_cut > 0);
        let recorder = scene.builder().start().unwrap();
        error!("second", stack = &stack_trace(50_000));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.long_texts, summary.texts_cut), (1, 1, 0));
    });
    let told = end.run().succeeded().trace();
    is_whole(told.only("second"), "stack", &stack_trace(50_000));
}

#[test]
fn exporters_see_that_the_text_of_an_ordinary_event_is_cut() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (exporter, events) = ChannelExporter::new(10);
        recorder.attach(exporter, ExportFilter::all());
        let long = "x".repeat(1_000);
        event!("ordinary", text = &long, short = "whole");
        recorder.finish().unwrap();
        let event = events.recv().unwrap();
        let text = event.field("text").and_then(Field::text).unwrap();
        let kept = text.strip_suffix('…').unwrap();
        assert!(long.starts_with(kept) && (600..768).contains(&kept.len()), "{}", kept.len());
        assert_eq!(event.field("short").and_then(Field::text), Some("whole"));
    })
    .run()
    .succeeded();
}

#[test]
fn exporters_and_repro_scripts_get_the_whole_text() {
    let end = child(|scene| {
        let recorder = scene.builder().repro_scripts(true).start().unwrap();
        let (exporter, events) = ChannelExporter::new(1_000);
        recorder.attach(exporter, ExportFilter::all());
        let console = fs::File::create(scene.path("console")).unwrap();
        recorder.attach(ConsoleExporter::to(console), ExportFilter::all());
        let arguments = format!("[{}1]", "17, ".repeat(5_000));
        let stack = stack_trace(40_000);
        CallException::new()
            .kind("TypeError")
            .library("demo")
            .function("generate")
            .stack(&stack)
            .arguments(&arguments)
            .record();
        error!("other", stack = &stack[..10_000]);
        recorder.finish().unwrap();
        let events: Vec<_> = events.iter().collect();
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].field("arguments"), Some(&Field::Text(arguments)));
        assert_eq!(events[0].field("stack"), Some(&Field::Text(stack.clone())));
        assert_eq!(events[1].field("stack"), Some(&Field::Text(stack[..10_000].to_owned())));
    });
    let end = end.run().succeeded();
    let console = fs::read_to_string(end.path("console")).unwrap();
    assert_eq!(console.lines().count(), 2);
    assert!(console.lines().all(|line| line.ends_with('…') && line.len() < 2_500), "{console}");
    let script = fs::read_to_string(end.path("run.error-1.py")).unwrap();
    assert_eq!(script.matches("17,").count(), 5_000, "{}", script.len());
}
