//! Recording less: what a rule keeps out is counted apart from what is lost.

use std::{fs, thread, time::Duration};

use ringscope::{
    Action, CallSite, DeviceQueue, Kind, LostCause, Problem, Recorder, Rules, SkipCause,
    async_span, counter, span,
    vocabulary::{KernelCompleted, KernelDispatched},
};
use ringscope_format::TrackKind;

use crate::{
    child::{Scene, child, wait_until},
    posix,
    told::Told,
};

fn start(scene: &Scene, rules: &str) -> Recorder {
    scene.builder().rules(rules.parse().unwrap()).start().unwrap()
}

#[test]
fn one_in_ten_takes_one_of_every_ten_and_the_very_first() {
    let end = child(|scene| {
        let recorder = start(scene, "step=1/10");
        for i in 0..1_000_u64 {
            let _span = span!("step", i = i);
            let _other = span!("other");
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost, summary.skipped), (100 + 1_000, 0, 900));
        assert_eq!(summary.skipped_as(SkipCause::Sampled), 900);
        assert_eq!(summary.produced(), 2 * 1_000);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let taken: Vec<u64> = told.named("step").iter().map(|step| step.number("i")).collect();
    assert!(taken.iter().map(|i| i / 10).eq(0..100), "{taken:?}");
    assert_eq!(taken[0], 0);
    // A loop of ten would be seen in one of its turns alone.
    assert!(taken.iter().any(|i| i % 10 != 0), "{taken:?}");
    assert_eq!(told.trace.metadata()["rules"], "step=1/10");
}

/// What went wrong once is not to be the one that was left out.
#[test]
fn errors_are_not_sampled_and_may_be_switched_off() {
    let end = child(|scene| {
        let recorder = start(scene, "*=1/10, quiet=off");
        ringscope::tracing::Subscriber::new().install().unwrap();
        for i in 0..30_u64 {
            ringscope::error!("failed", i = i);
            ringscope::error!("quiet", i = i);
            ringscope::vocabulary::WorkerCrash::new().worker(i).record();
            tracing::error!(name: "told", i, "failed");
            tracing::info!(name: "said", i, "went on");
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost, summary.skipped), (3 * 30 + 3, 0, 30 + 27));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    for name in ["failed", "told"] {
        assert!(told.named(name).iter().map(|error| error.number("i")).eq(0..30), "{name}");
    }
    assert_eq!(told.named("worker.crash").len(), 30);
}

#[test]
fn sampling_on_several_threads_counts_every_event() {
    let end = child(|scene| {
        let recorder = start(scene, "step=1/7");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // On a track of its own from the first event on.
                    assert!(ringscope::register_thread());
                    (0..7_000).for_each(|_| counter!("step", 1_u64));
                });
            }
        });
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.produced(), summary.lost), (28_000, 0));
        assert!(summary.stored > 0);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let threads = told.trace.tracks().iter().filter(|track| track.kind == TrackKind::Thread);
    for track in threads {
        let mine = told.events.iter().filter(|event| event.track == track.id).count() as u64;
        assert_eq!(mine + told.skipped(track.id, SkipCause::Sampled), 7_000);
    }
}

#[test]
fn a_minimum_duration_leaves_out_what_was_shorter() {
    const LEAST: Duration = Duration::from_millis(50);
    let end = child(|scene| {
        let rules = Rules::new().with("*", Action::AtLeast(LEAST));
        let recorder = scene.builder().rules(rules).start().unwrap();
        for i in 0..100_u64 {
            let long = i % 25 == 24;
            let _span = span!("step", i = i, long = long);
            let _async = async_span!("async", i = i, long = long);
            let _plain = span!("plain");
            if long {
                thread::sleep(LEAST);
            }
        }
        counter!("a point has no duration", 1_u64);
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.produced(), summary.lost), (301, 0));
        assert_eq!(summary.skipped_as(SkipCause::TooShort), summary.skipped);
        assert!(summary.stored >= 13);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let clock = told.trace.clock();
    for name in ["step", "async", "plain"] {
        let stored = told.named(name);
        // A busy machine may stretch a short one; none that is stored was short.
        assert!(stored.len() >= 4, "{name}: {}", stored.len());
        for span in stored {
            // The recorder's frequency is good to a few hundred parts per million.
            assert!(clock.ns(span.end - span.start) >= LEAST.as_nanos() as f64 * 0.999);
        }
    }
    told.only("a point has no duration");
}

#[test]
fn rules_change_while_recording() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let steps =
            || (0..100).for_each(|_| drop((span!("io.read"), span!("io.write"), span!("mul"))));
        steps();
        recorder.set_rules("io.*=off, io.write=on".parse().unwrap());
        steps();
        recorder.set_rules("off".parse().unwrap());
        steps();
        recorder.set_rules(Rules::new());
        steps();
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.produced(), summary.lost), (1_200, 0));
        assert_eq!(summary.skipped_as(SkipCause::SwitchedOff), 100 + 300);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let count = |name| told.named(name).len();
    assert_eq!((count("io.read"), count("io.write"), count("mul")), (200, 300, 300));
}

#[test]
fn a_name_that_first_comes_up_under_a_rule_follows_it() {
    let end = child(|scene| {
        let recorder = start(scene, "late.*=off");
        thread::scope(|scope| {
            // A thread that records nothing needs no ring to skip something.
            scope.spawn(|| (0..10).for_each(|_| drop(span!("late.one"))));
        });
        drop(span!("early"));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.skipped), (1, 10));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!(told.skipped(0, SkipCause::SwitchedOff), 10);
}

#[test]
fn the_recorders_own_readings_are_not_the_programs_events() {
    let end = child(|scene| {
        let builder = scene.builder().readings(Some(Duration::from_millis(10)));
        let recorder = builder.rules("off".parse().unwrap()).start().unwrap();
        (0..10).for_each(|_| drop(span!("step")));
        thread::sleep(Duration::from_millis(60));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost, summary.skipped), (0, 0, 10));
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn a_control_file_changes_rules_from_outside() {
    let child = child(|scene| {
        let recorder = start(scene, "*=on");
        let control = scene.path("run.trace.control");
        drop(span!("before"));
        drop(span!("keep"));
        scene.say("ready", "");
        // The recorder removes the file once it has read it, before it carries it out.
        wait_until("commands are taken", || {
            recorder.path().exists() && scene.path("sent").exists()
        });
        wait_until("commands are read", || !control.exists());
        wait_until("commands are carried out", || !span!("probe").is_recording());
        drop(span!("before"));
        drop(span!("keep"));
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.lost_to(LostCause::RingFull), 0);
        scene.say("problems", format!("{:?}", summary.problems));
        assert!(matches!(summary.problems.as_slice(), [Problem::ControlFile(_)]));
        scene.say("problem", &summary.problems[0]);
    });
    let mut running = child.start();
    running.wait_until_said("ready");
    let commands = "# a comment\nbefore=off\n\nnonsense=maybe\nprobe=off\n";
    fs::write(running.path("commands"), commands).unwrap();
    // In one step, so that no half of it is read.
    fs::rename(running.path("commands"), running.path("run.trace.control")).unwrap();
    fs::write(running.path("sent"), "").unwrap();
    let end = running.wait().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!((told.named("before").len(), told.named("keep").len()), (1, 2));
    assert_eq!(
        end.said("problem"),
        "control file: rule `nonsense=maybe`: not understood; \
         write `NAME=on`, `NAME=off`, `NAME=1/100` or `NAME=10us`"
    );
    let rejected = fs::read_to_string(end.path("run.trace.control.rejected")).unwrap();
    assert!(rejected.starts_with("nonsense=maybe: "), "{rejected}");
}

#[test]
fn a_control_file_whose_last_line_has_no_end_is_carried_out_once_it_stays_as_it_is() {
    let child = child(|scene| {
        let recorder = start(scene, "*=on");
        wait_until("commands are carried out", || !span!("probe").is_recording());
        assert!(!scene.path("run.trace.control").exists());
        assert_eq!(recorder.finish().unwrap().problems, []);
    });
    fs::write(child.path("run.trace.control"), "probe=off").unwrap();
    let end = child.run().succeeded();
    assert!(!end.path("run.trace.control.rejected").exists());
}

#[test]
fn a_control_file_that_is_not_text_is_answered() {
    for (commands, answer) in [
        (&b"caf\xE9=off\nprobe=off\n"[..], "caf\u{FFFD}=off: not UTF-8\n"),
        // UTF-16, as some shells write it: no end of a line that we would know.
        (b"\xFF\xFEd\0\n\0", "\u{FFFD}\u{FFFD}d\0: not UTF-8\n\0: "),
    ] {
        let child = child(|scene| {
            let recorder = start(scene, "*=on");
            let answer = scene.path("run.trace.control.rejected");
            wait_until("commands are answered", || answer.exists());
            assert!(!scene.path("run.trace.control").exists());
            let problems = recorder.finish().unwrap().problems;
            assert_eq!(problems[0], Problem::ControlFile("not UTF-8".into()));
        });
        fs::write(child.path("run.trace.control"), commands).unwrap();
        let end = child.run().succeeded();
        let rejected = fs::read_to_string(end.path("run.trace.control.rejected")).unwrap();
        assert!(rejected.starts_with(answer), "{rejected:?}");
    }
}

#[test]
fn a_fifo_in_the_place_of_the_control_file_keeps_nobody_waiting() {
    let child = child(|scene| {
        let recorder = start(scene, "*=on");
        drop(span!("step"));
        // It looks for commands once a second.
        thread::sleep(Duration::from_millis(1_300));
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    posix::make_fifo(&child.path("run.trace.control"));
    child.run().succeeded();
}

/// Launches and kernels of a name, as many as there are of each link.
fn launches_and_kernels(told: &Told, name: &str) -> (Vec<u32>, Vec<u32>) {
    let links = |kind: Kind| {
        let of_it = told.named(name).into_iter().filter(|event| event.kind == kind);
        let mut links: Vec<u32> = of_it.map(|event| event.link).collect();
        links.sort_unstable();
        links
    };
    (links(Kind::LAUNCH), links(Kind::KERNEL))
}

#[test]
fn a_launch_and_its_kernel_are_kept_or_skipped_together() {
    let end = child(|scene| {
        let recorder = start(scene, "two=1/2,three=1/3,ten=1/10,none=off");
        let queue = DeviceQueue::named("GPU 0 queue 0");
        for name in ["two", "three", "ten", "none", "all"] {
            let kernel = CallSite::named(name);
            // Four in flight, which are seen to be done in the opposite order.
            for _ in 0..300 {
                let links: Vec<u32> =
                    (0..4).map(|_| KernelDispatched::new().kernel(kernel).record()).collect();
                for &link in links.iter().rev() {
                    KernelCompleted::new().kernel(kernel).queue(queue).link(link).record();
                }
            }
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.produced(), summary.lost), (5 * 2_400, 0));
        assert_eq!(summary.stored, 2 * (600 + 400 + 120 + 1_200));
        assert_eq!(summary.skipped_as(SkipCause::SwitchedOff), 2_400);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    for (name, expected) in
        [("two", 600), ("three", 400), ("ten", 120), ("none", 0), ("all", 1_200)]
    {
        let (launches, kernels) = launches_and_kernels(&told, name);
        assert_eq!(launches.len(), expected, "{name}");
        assert_eq!(launches, kernels, "{name}");
    }
}

#[test]
fn a_kernel_without_a_launch_of_its_name_is_asked_for_itself() {
    let end = child(|scene| {
        let recorder = start(scene, "inner=1/4,alone=1/4,attention=1/2");
        let [attention, softmax, inner, alone] =
            ["attention", "softmax", "inner", "alone"].map(CallSite::named);
        for _ in 0..400 {
            let link = KernelDispatched::new().kernel(softmax).record();
            KernelCompleted::new().kernel(inner).link(link).record();
            KernelCompleted::new().kernel(alone).record();
            let link = KernelDispatched::new().kernel(attention).record();
            KernelCompleted::new().kernel(softmax).link(link).record();
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.produced(), summary.lost), (400 * 5, 0));
        assert_eq!(summary.skipped_as(SkipCause::Sampled), 300 + 300 + 200 + 200);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let counts = |name| {
        let (launches, kernels) = launches_and_kernels(&told, name);
        (launches.len(), kernels.len())
    };
    assert_eq!((counts("inner"), counts("alone")), ((0, 100), (0, 100)));
    // Of a launch that was skipped nothing is recorded, whatever it is called.
    assert_eq!((counts("attention"), counts("softmax")), ((200, 0), (400, 200)));
}
