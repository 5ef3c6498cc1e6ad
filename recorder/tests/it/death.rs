//! A process dies; the file tells what it did until then.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use ringscope::{Recorder, event, span};
use ringscope_format::{OwnedValue, RecordingState};

use crate::{
    child::{End, Scene, child, wait_until},
    posix,
    told::{Told, stored},
};

/// Records a thousand steps, is inside of two spans, and dies before the drain has seen much of it.
fn dying(scene: &Scene, die: impl FnOnce()) {
    let tick = Duration::from_millis(20);
    let recorder = scene.builder().ticks(tick, tick).start().unwrap();
    std::mem::forget(recorder);
    (0..1_000_u64).for_each(|i| drop(span!("step", i = i)));
    let _outer = span!("outer");
    let _inner = span!("inner", x = 1_u8);
    die();
}

/// Everything that `dying` did is in the file.
#[track_caller]
fn told_everything(end: &End, signal: i32) -> Told {
    let told = end.trace();
    told.adds_up().losses_add_up();
    assert_eq!(told.vitals().state, RecordingState::FatalSignal);
    assert_eq!(i32::from(told.vitals().signal), signal);
    assert_eq!(told.vitals().produced(), 1_000);
    assert!(told.named("step").iter().map(|step| step.number("i")).eq(0..1_000));
    assert_eq!(stacks(&told), [(2, vec!["outer".to_owned(), "inner".to_owned()])]);
    told
}

fn stacks(told: &Told) -> Vec<(u32, Vec<String>)> {
    told.open().into_values().collect()
}

#[test]
fn an_abort_leaves_everything() {
    let end = child(|scene| dying(scene, || std::process::abort())).run();
    told_everything(&end.died_of(libc::SIGABRT), libc::SIGABRT);
}

#[test]
fn a_segmentation_fault_leaves_everything() {
    let end = child(|scene| dying(scene, || posix::segfault())).run();
    told_everything(&end.died_of(libc::SIGSEGV), libc::SIGSEGV);
}

#[test]
fn fatal_signals_sent_from_outside_take_their_course() {
    for signal in [libc::SIGILL, libc::SIGFPE, libc::SIGABRT] {
        let end = child(|scene| {
            let signal = scene.argument().parse().unwrap();
            dying(scene, || {
                posix::raise(signal);
                thread::sleep(Duration::from_secs(60));
            });
        });
        told_everything(&end.argument(signal).run().died_of(signal), signal);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_that_comes_before_the_recorders_threads_are_up_finds_a_thread_that_can_wait_for_them() {
    let end = child(|scene| {
        // A drain that has just been made runs when others wait, and not before.
        posix::share_one_core();
        for _ in 0..30 {
            // Without the threads of the harness.
            let status = posix::in_fork(|| {
                std::mem::forget(scene.builder().start().unwrap());
                let dies = thread::spawn(|| {
                    (0..1_000_u64).for_each(|i| drop(span!("step", i = i)));
                    posix::raise(libc::SIGABRT);
                });
                dies.join().unwrap();
                thread::sleep(Duration::from_secs(60));
            });
            assert_eq!(status & 0x7F, libc::SIGABRT);
            let told = Told::read(&scene.trace());
            told.adds_up().losses_add_up();
            assert_eq!(told.vitals().state, RecordingState::FatalSignal);
            assert_eq!(told.named("step").len(), 1_000);
        }
    });
    end.run().succeeded();
}

#[test]
fn a_signal_that_all_threads_of_the_program_have_put_off_does_not_come_to_the_recorders() {
    let end = child(|scene| {
        // One thread alone: those of the harness would take the signal.
        let status = posix::in_fork(|| {
            let recorder = scene.builder().start().unwrap();
            posix::put_off(libc::SIGABRT);
            (0..1_000_u64).for_each(|i| drop(span!("step", i = i)));
            posix::raise(libc::SIGABRT);
            thread::sleep(Duration::from_millis(100));
            assert_eq!(recorder.finish().unwrap().stored, 1_000);
            // As without a recorder, it is still to come.
        });
        assert_eq!(status, 0);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn a_stack_overflow_leaves_everything_and_is_still_reported() {
    #[allow(unconditional_recursion)]
    fn overflow(bytes: [u8; 512]) -> u8 {
        std::hint::black_box(overflow(std::hint::black_box(bytes)))
            .wrapping_add(std::hint::black_box(bytes)[1])
    }
    let end = child(|scene| dying(scene, || assert_eq!(overflow([0; 512]), 0))).run();
    // As without us: std reports it, then aborts.
    let end = end.died_of(libc::SIGABRT);
    assert!(end.stderr.contains("has overflowed its stack"), "{}", end.stderr);
    let told = end.trace();
    told.adds_up().losses_add_up();
    assert_eq!(told.vitals().state, RecordingState::FatalSignal);
    assert_eq!(told.named("step").len(), 1_000);
    assert_eq!(stacks(&told), [(2, vec!["outer".to_owned(), "inner".to_owned()])]);
}

#[test]
fn without_the_handlers_a_fault_still_leaves_what_was_drained() {
    let end = child(|scene| {
        let recorder = scene.builder().on_fatal_signal(false).start().unwrap();
        (0..1_000_u64).for_each(|i| drop(span!("step", i = i)));
        assert!(recorder.flush());
        posix::segfault();
    });
    let told = end.run().died_of(libc::SIGSEGV).trace();
    assert_eq!(told.vitals().state, RecordingState::Recording);
    assert_eq!(told.events.len(), 1_000);
}

static CALLED_WITH: AtomicI32 = AtomicI32::new(0);

extern "C" fn exit_with_17(signal: i32) {
    CALLED_WITH.store(signal, Ordering::Relaxed);
    posix::exit_at_once(17);
}

extern "C" fn note(signal: i32) {
    CALLED_WITH.store(signal, Ordering::Relaxed);
}

#[test]
fn the_programs_own_handler_is_still_called() {
    let end = child(|scene| {
        posix::handle(libc::SIGSEGV, exit_with_17);
        dying(scene, || posix::segfault());
    });
    told_everything(&end.run().exited_with(17), libc::SIGSEGV);
}

#[test]
fn signals_that_are_not_fatal_are_left_alone() {
    let end = child(|scene| {
        posix::handle(libc::SIGUSR1, note);
        let recorder = scene.builder().start().unwrap();
        drop(span!("before"));
        posix::raise(libc::SIGUSR1);
        wait_until("the handler ran", || CALLED_WITH.load(Ordering::Relaxed) == libc::SIGUSR1);
        drop(span!("after"));
        assert_eq!(recorder.finish().unwrap().stored, 2);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn a_handler_that_replaced_ours_between_two_recordings_has_ours_before_it_again() {
    let end = child(|scene| {
        scene.builder().start().unwrap().finish().unwrap();
        posix::handle(libc::SIGSEGV, exit_with_17);
        dying(scene, || posix::segfault());
    });
    told_everything(&end.run().exited_with(17), libc::SIGSEGV);
}

#[test]
fn a_handler_that_calls_ours_is_called_once() {
    let end = child(|scene| {
        for _ in 0..3 {
            scene.builder().start().unwrap().finish().unwrap();
            posix::handle_before(libc::SIGSEGV, exit_with_17);
        }
        dying(scene, || posix::segfault());
    });
    told_everything(&end.run().exited_with(17), libc::SIGSEGV);
}

#[test]
fn handlers_are_as_before_once_the_recording_is_over() {
    let end = child(|scene| {
        posix::handle(libc::SIGABRT, exit_with_17);
        let recorder = scene.builder().start().unwrap();
        drop(span!("step"));
        recorder.finish().unwrap();
        std::process::abort();
    });
    end.run().exited_with(17).trace().is_finished_and_adds_up();
}

#[test]
fn a_panic_is_recorded_and_unwinding_finishes_the_recording() {
    let end = child(|scene| {
        let _recorder = scene.builder().start().unwrap();
        let _outer = span!("outer");
        drop(span!("step"));
        panic!("out of {}", "cheese");
    });
    // As any test that panics; the message is printed as ever.
    let end = end.run().exited_with(101);
    assert!(end.stderr.contains("out of cheese"), "{}", end.stderr);
    let told = end.trace();
    told.is_finished_and_adds_up();
    let panic = told.only("panic");
    let text = |text: &str| OwnedValue::Text { text: text.into(), cut: false };
    assert_eq!(panic.field("message"), Some(&text("out of cheese")));
    assert_eq!(panic.field("file"), Some(&text(file!())));
    assert_eq!(panic.depth, 1);
    told.only("step");
    told.only("outer");
}

#[test]
fn a_panic_on_another_thread_is_flushed_and_the_program_goes_on() {
    let end = child(|scene| {
        let hour = Duration::from_secs(3_600);
        let recorder = scene.builder().ticks(hour, hour).start().unwrap();
        let worker = thread::Builder::new().name("worker".into()).spawn(|| {
            let _job = span!("job");
            (0..100).for_each(|_| drop(span!("step")));
            panic!("worker is out");
        });
        worker.unwrap().join().unwrap_err();
        // Nothing but the panic made the drain look.
        let told = Told::read(&scene.trace());
        assert_eq!((told.named("step").len(), told.named("panic").len()), (100, 1));
        assert_eq!(told.thread_of(told.only("panic")), "worker");
        assert_eq!(recorder.finish().unwrap().stored, 102);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert!(told.only("job").end > told.only("panic").start);
}

#[test]
fn panics_are_left_alone_where_the_builder_says_so() {
    let end = child(|scene| {
        let recorder = scene.builder().on_panic(false).start().unwrap();
        thread::spawn(|| panic!("nobody listens")).join().unwrap_err();
        assert_eq!(recorder.finish().unwrap().stored, 0);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

static FLUSHED: AtomicU64 = AtomicU64::new(0);

/// Records on a thread until the process ends, and loses nothing.
fn record_for_ever(name: &str, recorder: &Arc<Recorder>) {
    let recorder = Arc::clone(recorder);
    let endless = move || {
        for i in 0_u64.. {
            drop(span!("loop", i = i));
            if i % 500 == 499 {
                recorder.flush();
                FLUSHED.fetch_add(500, Ordering::Relaxed);
            }
        }
    };
    thread::Builder::new().name(name.into()).spawn(endless).unwrap();
}

/// Each thread's events are the first of its loop, every one of them, once.
#[track_caller]
fn gap_free(told: &Told) {
    for track in told.trace.tracks() {
        let mine = told.named("loop").into_iter().filter(|event| event.track == track.id);
        for (expected, event) in mine.enumerate() {
            assert_eq!(event.number("i"), expected as u64, "on {}", track.name);
        }
    }
}

#[test]
fn exit_with_live_threads_finishes_the_recording() {
    let end = child(|scene| {
        let recorder = Arc::new(scene.builder().start().unwrap());
        record_for_ever("one", &recorder);
        record_for_ever("two", &recorder);
        (0..1_000).for_each(|_| drop(span!("step")));
        wait_until("they record", || FLUSHED.load(Ordering::Relaxed) > 20_000);
        std::process::exit(3);
    });
    let told = end.run().exited_with(3).trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!((told.named("step").len(), told.vitals().total_lost()), (1_000, 0));
    gap_free(&told);
}

fn record_steadily(scene: &Scene, threads: &[&str]) {
    let recorder = Arc::new(scene.builder().start().unwrap());
    for name in threads {
        record_for_ever(name, &recorder);
    }
    let _outer = span!("outer");
    assert!(recorder.flush());
    scene.say("recording", "");
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_kill_at_any_moment_leaves_a_file_that_opens() {
    // Spread over several ticks and seals; nothing depends on which ones.
    for delay in [0, 1, 3, 7, 12, 20, 33, 50] {
        let mut running = child(|scene| record_steadily(scene, &["one", "two", "three"])).start();
        running.wait_until_said("recording");
        thread::sleep(Duration::from_millis(delay));
        posix::kill(running.pid(), libc::SIGKILL);
        let told = running.wait().died_of(libc::SIGKILL).trace();
        assert_eq!(told.vitals().state, RecordingState::Recording);
        assert_eq!(told.vitals().total_lost(), 0);
        gap_free(&told);
        let this = "death::a_kill_at_any_moment_leaves_a_file_that_opens";
        assert_eq!(told.open()[this], (1, vec!["outer".to_owned()]));
    }
}

#[test]
fn a_polite_kill_is_not_ours_to_handle() {
    let mut running = child(|scene| record_steadily(scene, &["one", "two", "three"])).start();
    running.wait_until_said("recording");
    posix::kill(running.pid(), libc::SIGTERM);
    let told = running.wait().died_of(libc::SIGTERM).trace();
    assert_eq!(told.vitals().state, RecordingState::Recording);
    gap_free(&told);
}

#[test]
fn a_death_while_threads_record_is_exact() {
    let end = child(|scene| {
        let recorder = Arc::new(scene.builder().start().unwrap());
        record_for_ever("one", &recorder);
        record_for_ever("two", &recorder);
        wait_until("they record", || FLUSHED.load(Ordering::Relaxed) > 20_000);
        event!("last words");
        posix::segfault();
    });
    let told = end.run().died_of(libc::SIGSEGV).trace();
    told.adds_up().losses_add_up();
    assert_eq!(told.vitals().state, RecordingState::FatalSignal);
    told.only("last words");
    gap_free(&told);
}

#[test]
fn a_fault_that_the_program_survives_only_pauses_the_recording() {
    extern "C" fn live_on(_: i32) {}
    let end = child(|scene| {
        posix::handle(libc::SIGSEGV, live_on);
        let recorder = scene.builder().start().unwrap();
        drop(span!("before"));
        posix::raise(libc::SIGSEGV);
        let recorded = || {
            let span = span!("after");
            span.is_recording()
        };
        wait_until("recording goes on", recorded);
        recorder.finish().unwrap();
        let again = Recorder::builder().path(scene.path("again.trace")).start().unwrap();
        drop(span!("in the next recording"));
        assert_eq!(again.finish().unwrap().stored, 1);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    told.only("before");
    told.only("after");
}

#[test]
fn a_kill_in_a_tight_loop_shows_what_the_loop_is_in() {
    for delay in [0, 20, 50] {
        let mut running = child(|scene| {
            // Rings that are always full: what is open does not depend on what is stored.
            let _recorder = scene.builder().ring_records(64).start().unwrap();
            let step = || {
                let _inner = span!("inner");
                drop(span!("innermost"));
            };
            scene.say("recording", "");
            // From here on the stack never rests, also not when these two are opened.
            (0..10_000).for_each(|_| step());
            let _outer = span!("outer");
            let _second = span!("second");
            loop {
                step();
            }
        })
        .start();
        running.wait_until_said("recording");
        let this = "death::a_kill_in_a_tight_loop_shows_what_the_loop_is_in";
        let trace = running.path("run.trace");
        wait_until("it is in the loop", || {
            let open = Told::read_damaged(&trace).open();
            open.get(this).is_some_and(|(_, spans)| spans.len() > 1 && spans[1] == "second")
        });
        thread::sleep(Duration::from_millis(delay));
        posix::kill(running.pid(), libc::SIGKILL);
        let told = running.wait().died_of(libc::SIGKILL).trace();
        let (depth, spans) = &told.open()[this];
        assert!((2..=4).contains(depth), "{depth}");
        assert_eq!(spans[..2], ["outer", "second"]);
    }
}

/// Its drain comes when it is waked and not by itself. The calling thread is known to it, and it
/// sleeps again.
fn only_when_waked(scene: &Scene) -> Recorder {
    const NEVER: Duration = Duration::from_secs(3_600);
    let recorder = scene.builder().ticks(NEVER, NEVER).start().unwrap();
    assert!(ringscope::register_thread() && recorder.flush());
    thread::sleep(Duration::from_millis(200));
    recorder
}

/// A thread that is new to the drain wakes it.
fn wake_the_drain() {
    assert!(thread::spawn(ringscope::register_thread).join().unwrap());
}

#[test]
fn more_than_a_stretch_is_in_the_file_without_being_asked_for() {
    /// More units than the drain copies at once, and less than a quarter of the ring.
    const SPANS: u64 = 11_000;
    let mut running = child(|scene| {
        let _recorder = only_when_waked(scene);
        {
            let _outer = span!("outer");
            (1..SPANS).for_each(|_| drop(span!("inner")));
        }
        let _open = span!("open");
        wake_the_drain();
        scene.say("recorded", SPANS);
        thread::park();
    })
    .start();
    running.wait_until_said("recorded");
    let trace = running.path("run.trace");
    // In one tick: there is no other. Stacks are written before the vitals.
    wait_until("all stretches are in the file", || stored(&trace) == SPANS);
    posix::kill(running.pid(), libc::SIGKILL);
    let told = running.wait().died_of(libc::SIGKILL).trace();
    assert_eq!((told.named("inner").len(), told.named("outer").len()), (10_999, 1));
    let this = "death::more_than_a_stretch_is_in_the_file_without_being_asked_for";
    assert_eq!(told.open()[this], (1, vec!["open".to_owned()]));
}

#[cfg(debug_assertions)] // release builds have no such steps
#[test]
fn a_span_that_ended_behind_a_stretch_is_still_in_the_stack_when_its_record_is_not_in_the_file() {
    let told = child(|scene| {
        let recorder = only_when_waked(scene);
        {
            let _outer = span!("outer");
            assert!(recorder.flush());
            thread::sleep(Duration::from_millis(200));
            (1..11_000).for_each(|_| drop(span!("inner")));
        }
        wake_the_drain();
        thread::park();
    })
    .environment("RINGSCOPE_CRASH_AT", "stretch-copied:1")
    .run()
    .died_of(libc::SIGKILL)
    .trace();
    assert!((1_000..11_000).contains(&told.named("inner").len()));
    assert!(told.named("outer").is_empty());
    assert_eq!(told.open().into_values().collect::<Vec<_>>(), [(1, vec!["outer".to_owned()])]);
}
