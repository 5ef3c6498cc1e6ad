//! Rules are asked about slices and about lives, each apart, and what they skip is counted.

use std::{pin::pin, sync::mpsc, thread, time::Duration};

use ringscope::{Kind, Recorder, SkipCause, tracing::Subscriber};
use ringscope_format::OwnedValue;
use tracing::{Instrument, Span, info_span};

use super::{Once, poll};
use crate::{
    child::{Scene, child},
    told::Event,
};

fn recording_by(scene: &Scene, rules: &str) -> Recorder {
    let recorder = scene.builder().rules(rules.parse().unwrap()).start().unwrap();
    Subscriber::new().install().unwrap();
    recorder
}

fn of_kind<'a>(events: &[&'a Event], kind: Kind) -> Vec<&'a Event> {
    events.iter().copied().filter(|event| event.kind == kind).collect()
}

#[test]
fn of_jobs_that_another_thread_does_one_in_two_is_a_task_and_one_in_two_a_slice() {
    let end = child(|scene| {
        let recorder = recording_by(scene, "job=1/2");
        let (send, jobs) = mpsc::channel::<Span>();
        let worker = thread::spawn(move || jobs.iter().for_each(|job| job.in_scope(|| ())));
        (0..100_u64).for_each(|id| send.send(info_span!("job", id)).unwrap());
        drop(send);
        worker.join().unwrap();
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost, summary.skipped), (100, 0, 100));
        assert_eq!(summary.skipped_as(SkipCause::Sampled), 100);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let jobs = told.named("job");
    let (slices, tasks) = (of_kind(&jobs, Kind::SLICE), of_kind(&jobs, Kind::TASK));
    assert_eq!((slices.len(), tasks.len()), (50, 50));
    let ids = |events: &[&Event]| events.iter().map(|job| job.number("id")).collect::<Vec<_>>();
    for one_in_two in [ids(&tasks), ids(&slices)] {
        assert!(one_in_two.iter().map(|id| id / 2).eq(0..50), "{one_in_two:?}");
    }
}

#[test]
fn a_task_that_is_taken_says_how_long_it_was_busy_in_slices_that_were_not() {
    const TASKS: u64 = 40;
    let end = child(|scene| {
        let recorder = recording_by(scene, "request=1/10");
        for _ in 0..TASKS {
            let work = async {
                for _ in 0..2 {
                    thread::sleep(Duration::from_millis(1));
                    Once::default().await;
                }
            };
            let mut request = pin!(work.instrument(info_span!("request")));
            while poll(request.as_mut()).is_pending() {}
        }
        let summary = recorder.finish().unwrap();
        // Three polls and the drop, and the life.
        assert_eq!((summary.produced(), summary.lost), (TASKS * 5, 0));
        assert_eq!(summary.skipped_as(SkipCause::Sampled), summary.skipped);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let requests = told.named("request");
    assert_eq!(of_kind(&requests, Kind::SLICE).len() as u64, TASKS * 4 / 10);
    let tasks = of_kind(&requests, Kind::TASK);
    assert_eq!(tasks.len() as u64, TASKS / 10);
    for task in tasks {
        assert_eq!((task.number("slices"), task.number("moves")), (4, 0));
        let Some(&OwnedValue::Ticks(busy)) = task.field("busy") else { panic!("no busy time") };
        let busy_ns = told.trace.clock().ns(busy);
        assert!(busy_ns >= 2e6 && busy <= task.end - task.start, "{busy_ns} ns");
    }
}

#[test]
fn spans_that_are_used_again_are_sampled_by_the_call() {
    let end = child(|scene| {
        let recorder = recording_by(scene, "block=1/10");
        let blocks: Vec<Span> = (0..4).map(|_| info_span!("block")).collect();
        for _ in 0..25 {
            let _token = info_span!("token").entered();
            blocks.iter().for_each(|block| block.in_scope(|| ()));
        }
        drop(blocks);
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.produced(), summary.lost), (25 + 100 + 4, 0));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let blocks = told.named("block");
    assert_eq!(of_kind(&blocks, Kind::SLICE).len(), 10);
    let [life] = of_kind(&blocks, Kind::REUSED)[..] else { panic!("one in ten lives") };
    assert_eq!(life.number("slices"), 25);
}

#[test]
fn a_span_that_is_told_by_its_slice_has_no_life_when_that_is_left_out() {
    let end = child(|scene| {
        let recorder = recording_by(scene, "step=1/10, quiet=off");
        for i in 0..200 {
            info_span!("step", i).in_scope(|| ());
            info_span!("quiet", i).in_scope(|| ());
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost, summary.skipped), (20, 0, 180 + 200));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert!(told.named("step").iter().all(|step| step.kind == Kind::SLICE));
}

#[test]
fn lives_that_are_switched_off_are_counted_as_their_slices_are() {
    let end = child(|scene| {
        let recorder = recording_by(scene, "task=off");
        for _ in 0..10 {
            let task = info_span!("task");
            task.in_scope(|| ());
            task.in_scope(|| ());
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (0, 0));
        assert_eq!(summary.skipped_as(SkipCause::SwitchedOff), 10 * (2 + 1));
    });
    end.run().succeeded().trace().is_finished_and_adds_up().losses_add_up();
}

#[test]
fn after_many_plain_spans_a_life_of_untimed_slices_is_skipped_and_the_next_are_timed() {
    fn step() -> Span {
        info_span!("step")
    }
    let end = child(|scene| {
        let recorder = recording_by(scene, "step=1/10");
        (0..100).for_each(|_| step().in_scope(|| ()));
        for _ in 0..11 {
            let twice = step();
            twice.in_scope(|| ());
            twice.in_scope(|| ());
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.produced(), summary.lost), (100 + 11 * 3, 0));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let steps = told.named("step");
    let [life] = of_kind(&steps, Kind::TASK)[..] else { panic!("one in ten lives") };
    assert_eq!((life.number("slices"), life.field("from_first_enter")), (2, None));
}
