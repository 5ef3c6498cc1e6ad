//! After `fork`: the parent's file is the parent's alone.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use ringscope::{CallSite, DeviceQueue, Error, Recorder, event, span, vocabulary::CorrelationId};

use crate::{
    child::{Scene, child},
    posix,
};

fn around_a_fork(scene: &Scene, in_child: impl FnOnce(&mut Option<Recorder>)) {
    let mut recorder = Some(scene.builder().start().unwrap());
    (0..100).for_each(|_| drop(span!("before")));
    let across = span!("across the fork");
    let status = posix::in_fork(|| in_child(&mut recorder));
    scene.say("status", status);
    drop(across);
    (0..100).for_each(|_| drop(span!("after")));
    let summary = recorder.take().unwrap().finish().unwrap();
    assert_eq!((summary.stored, summary.lost), (201, 0));
}

fn record_in_vain() {
    for _ in 0..1_000 {
        assert!(!span!("in the child").is_recording());
        event!("in the child");
    }
    thread::spawn(|| drop(span!("in the child"))).join().unwrap();
}

#[track_caller]
fn is_the_parents_alone(end: crate::child::End) {
    let end = end.succeeded();
    assert_eq!(end.number("status"), 0, "the forked child ended well: {}", end.stderr);
    let told = end.trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!((told.named("before").len(), told.named("after").len()), (100, 100));
    told.only("across the fork");
    assert_eq!(told.events.len(), 201);
}

#[test]
fn a_forked_child_records_nothing_and_leaves_at_once() {
    let end = child(|scene| {
        around_a_fork(scene, |_| {
            record_in_vain();
            posix::exit_at_once(0);
        });
    });
    is_the_parents_alone(end.run());
}

#[test]
fn a_forked_child_waits_for_no_lock_of_a_thread_that_it_does_not_have() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        // Holds the locks about as often as not.
        std::thread::spawn(|| {
            for i in 0_u64.. {
                DeviceQueue::named("GPU 0");
                let _site = CallSite::named(&format!("name {}", i % 1_000));
            }
        });
        for _ in 0..100 {
            let status = posix::in_fork(|| {
                posix::end_after(10);
                DeviceQueue::named("GPU 1");
                drop(ringscope::tracing::Subscriber::new());
            });
            assert_eq!(status, 0);
        }
        drop(recorder);
    });
    end.run().succeeded();
}

#[test]
fn a_forked_child_may_exit_in_good_order() {
    let end = child(|scene| {
        around_a_fork(scene, |_| {
            record_in_vain();
            std::process::exit(0);
        });
    });
    is_the_parents_alone(end.run());
}

#[test]
fn a_forked_child_that_uses_the_recorder_is_told_that_it_cannot() {
    let end = child(|scene| {
        around_a_fork(scene, |recorder| {
            let recorder = recorder.take().unwrap();
            assert!(!recorder.flush());
            recorder.set_rules("off".parse().unwrap());
            assert!(matches!(recorder.dump(), Err(Error::NotAFlightRecorder)));
            assert!(matches!(recorder.finish(), Err(Error::GaveUp { .. })));
        });
    });
    is_the_parents_alone(end.run());
}

#[test]
fn a_forked_child_of_a_flight_recorder_is_not_kept_waiting_for_a_dump() {
    let end = child(|scene| {
        let window = Duration::from_secs(5);
        let recorder = scene.builder().keep_last(window, 4 << 20).start().unwrap();
        drop(span!("before"));
        let begun = Instant::now();
        let status = posix::in_fork(|| drop(recorder.dump().unwrap_err()));
        assert_eq!(status, 0);
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn a_forked_child_may_panic_without_waiting_for_us() {
    let end = child(|scene| {
        around_a_fork(scene, |_| {
            drop(std::panic::catch_unwind(|| panic!("in the child")));
        });
    });
    is_the_parents_alone(end.run());
}

#[test]
fn a_forked_child_still_dies_of_its_own_faults() {
    let end = child(|scene| around_a_fork(scene, |_| posix::segfault()));
    let end = end.run().succeeded();
    assert_eq!(end.number("status") as i32 & 0x7F, libc::SIGSEGV);
    end.trace().is_finished_and_adds_up();
}

#[test]
fn starting_another_program_does_not_disturb_the_recording() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let status = std::process::Command::new("true").status().unwrap();
        assert!(status.success());
        drop(span!("step"));
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn a_forked_child_that_outlives_its_parent_does_not_keep_the_parents_file() {
    let end = child(|scene| {
        let _recorder = scene.builder().start().unwrap();
        posix::leave_a_fork_behind(20);
        posix::raise(libc::SIGKILL);
    });
    let end = end.run().died_of(libc::SIGKILL);
    let file = fs::File::open(end.path("run.trace")).unwrap();
    // The parent may be dead before the fork has had its first turn, but that lives much longer.
    let begun = Instant::now();
    while let Err(error) = file.try_lock() {
        assert!(begun.elapsed() < Duration::from_secs(10), "somebody keeps it: {error}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn ids() -> Vec<String> {
    (0..100).map(|_| CorrelationId::random().to_string()).collect()
}

#[test]
fn a_forked_child_and_its_child_draw_ids_of_their_own() {
    let end = child(|scene| {
        let recorder = (scene.argument() == "recording").then(|| scene.builder().start().unwrap());
        // Of those that are drawn at once, most are left when it forks.
        let mut all = vec![CorrelationId::random().to_string()];
        let write = |name: &str| fs::write(scene.path(name), ids().join("\n")).unwrap();
        let status = posix::in_fork(|| {
            write("child");
            assert_eq!(posix::in_fork(|| write("grandchild")), 0);
            // Not what the grandchild had, either.
            write("child again");
        });
        assert_eq!(status, 0);
        all.extend(ids());
        for name in ["child", "grandchild", "child again"] {
            let text = fs::read_to_string(scene.path(name)).unwrap();
            all.extend(text.lines().map(str::to_owned));
        }
        let drawn = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!((drawn, all.len()), (401, 401));
        drop(recorder);
    });
    end.another().argument("recording").run().succeeded();
    end.run().succeeded();
}
