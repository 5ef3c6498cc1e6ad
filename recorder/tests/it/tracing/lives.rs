//! Spans that live longer than a slice: tasks, and spans that are used again.

use std::{pin::pin, thread, time::Duration};

use ringscope::Kind;
use ringscope_format::{LinkRole, OwnedValue};
use tracing::{Instrument, info_span, trace_span};

use super::{Once, of_both, poll, recording};
use crate::{
    child::child,
    told::{Event, Told},
};

fn lives<'a>(told: &'a Told, name: &str) -> Vec<&'a Event> {
    let mut named = told.named(name);
    named.retain(|event| matches!(event.kind, Kind::TASK | Kind::REUSED));
    named
}

fn busy_ns(told: &Told, life: &Event) -> f64 {
    match life.field("busy") {
        Some(OwnedValue::Ticks(ticks)) => told.trace.clock().ns(*ticks),
        other => panic!("busy is {other:?}"),
    }
}

#[test]
fn a_future_that_is_polled_on_several_threads_is_one_task_with_busy_and_idle_time() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let work = async {
            for _ in 0..3 {
                thread::sleep(Duration::from_millis(2));
                Once::default().await;
            }
        };
        let accepted = info_span!("accept");
        let span = accepted.in_scope(|| info_span!("request", id = 7));
        let mut task = Box::pin(work.instrument(span));
        for number in 0..4 {
            let turn = move || {
                let ready = poll(task.as_mut()).is_ready();
                assert_eq!(ready, number == 3);
                task
            };
            let name = format!("worker {}", number % 2);
            task = thread::Builder::new().name(name).spawn(turn).unwrap().join().unwrap();
            thread::sleep(Duration::from_millis(3));
        }
        drop(task);
        drop(accepted);
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        let slices = told.named("request").into_iter().filter(|event| event.kind == Kind::SLICE);
        let slices: Vec<_> = slices.collect();
        // Four polls, and the drop of what was polled, which happens inside of its span.
        assert_eq!(slices.len(), 5);
        let [task] = lives(&told, "request")[..] else { panic!("one life") };
        assert_eq!(task.kind, Kind::TASK);
        assert_eq!((task.number("slices"), task.number("moves")), (5, 5));
        assert_eq!(task.field("id"), Some(&OwnedValue::I64(7)));
        assert!(slices.iter().all(|slice| slice.link == task.link));
        let in_slices: u64 = slices.iter().map(|slice| slice.end - slice.start).sum();
        assert_eq!(task.field("busy"), Some(&OwnedValue::Ticks(in_slices)));
        let life_ns = told.trace.clock().ns(task.end - task.start);
        assert!(busy_ns(&told, task) >= 6e6 && life_ns - busy_ns(&told, task) >= 9e6);
        // It says who it is, where it began and ended, and in whose name.
        let main = told.track_of("tracing::lives::a_future_that_is_polled_on_several_threads_is_one_task_with_busy_and_idle_time");
        assert_eq!(task.track, main);
        let own = task.links.iter().find(|link| link.role == LinkRole::Own).unwrap();
        assert_eq!((own.id as u32, own.track), (task.link, main));
        let parent = task.links.iter().find(|link| link.role == LinkRole::Parent).unwrap();
        let accept = told.named("accept")[0];
        assert_eq!(parent.id as u32, accept.link);
    }
}

#[test]
fn nested_futures_are_tasks_each() {
    async fn query() {
        Once::default().await;
    }
    let end = child(|scene| {
        let recorder = recording(scene);
        let request = async {
            query().instrument(trace_span!("query")).await;
            query().instrument(trace_span!("query")).await;
        };
        let mut request = pin!(request.instrument(info_span!("request")));
        while poll(request.as_mut()).is_pending() {}
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        let queries = lives(&told, "query");
        assert_eq!(queries.len(), 2);
        let request = told.named("request")[0].link;
        for query in queries {
            assert_eq!(
                (query.kind, query.number("slices"), query.number("moves")),
                (Kind::TASK, 3, 0)
            );
            let parent = query.links.iter().find(|link| link.role == LinkRole::Parent).unwrap();
            assert_eq!(parent.id as u32, request);
        }
        // What is not closed yet has no life to tell.
        assert_eq!(lives(&told, "request").len(), 0);
    }
}

#[test]
fn the_spans_of_a_model_are_reused_and_not_tasks() {
    struct Layer {
        block: tracing::Span,
        attention: tracing::Span,
    }
    let end = child(|scene| {
        let recorder = recording(scene);
        let new = || Layer { block: trace_span!("block"), attention: trace_span!("attention") };
        let layers: Vec<Layer> = (0..4).map(|_| new()).collect();
        for _ in 0..10 {
            let _token = info_span!("token").entered();
            for layer in &layers {
                let _block = layer.block.enter();
                let _attention = layer.attention.enter();
            }
        }
        drop(layers);
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        for name in ["block", "attention"] {
            let lives = lives(&told, name);
            assert_eq!(lives.len(), 4);
            assert!(
                lives.iter().all(|life| life.kind == Kind::REUSED && life.number("slices") == 10)
            );
            assert_eq!(told.named(name).len(), 44);
        }
        // Created, entered, left, closed: the slice says it all.
        assert_eq!(told.named("token").len(), 10);
    }
}

#[test]
fn a_span_that_two_threads_are_inside_of_at_once_is_reused() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let shared = info_span!("shared");
        let barrier = std::sync::Barrier::new(2);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    shared.in_scope(|| {
                        barrier.wait();
                    })
                });
            }
        });
        drop(shared);
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        let mut kinds: Vec<Kind> = told.named("shared").iter().map(|event| event.kind).collect();
        kinds.sort_by_key(|kind| kind.0);
        assert_eq!(kinds, [Kind::SLICE, Kind::SLICE, Kind::REUSED]);
    }
}

#[test]
fn a_span_that_waits_for_another_or_is_never_entered_tells_its_life() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let queued = info_span!("queued");
        info_span!("something else").in_scope(|| thread::sleep(Duration::from_millis(3)));
        queued.in_scope(|| ());
        drop(queued);
        drop(info_span!("never", size = 3));
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        let [queued] = lives(&told, "queued")[..] else { panic!("one life") };
        assert!(told.trace.clock().ns(queued.end - queued.start) >= 3e6);
        let is_slice = |event: &&Event| event.kind == Kind::SLICE;
        let slice = told.named("queued").into_iter().find(is_slice).unwrap();
        assert!(slice.start >= told.only("something else").end, "it waited before its slice");
        let inside = OwnedValue::Ticks(slice.end - slice.start);
        assert_eq!(queued.field("busy"), Some(&inside));
        let never = told.only("never");
        assert_eq!((never.kind, never.number("slices")), (Kind::TASK, 0));
        assert_eq!(never.field("size"), Some(&OwnedValue::I64(3)));
    }
}

#[test]
fn after_many_plain_spans_a_life_begins_with_its_first_enter_and_says_so() {
    /// All spans of one call site.
    fn step() -> tracing::Span {
        info_span!("step")
    }
    const PAUSE: Duration = Duration::from_millis(5);
    let end = child(|scene| {
        let recorder = recording(scene);
        (0..100).for_each(|_| step().in_scope(|| ()));
        for _ in 0..2 {
            let span = step();
            thread::sleep(PAUSE);
            span.in_scope(|| ());
            span.in_scope(|| ());
        }
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let [first, second] = lives(&told, "step")[..] else { panic!("two lives") };
    let slices: Vec<_> = told.named("step");
    let first_enter = slices.iter().find(|slice| slice.link == first.link).unwrap();
    assert_eq!((first.kind, first.number("slices")), (Kind::TASK, 2));
    assert_eq!(first.field("from_first_enter"), Some(&OwnedValue::Bool(true)));
    assert_eq!(first.start, first_enter.start);
    // From then on the creation is looked up again.
    assert_eq!(second.field("from_first_enter"), None);
    assert!(told.trace.clock().ns(second.end - second.start) >= PAUSE.as_nanos() as f64);
    assert_eq!(slices.len(), 100 + 2 * 3);
}

#[test]
fn spans_between_two_recordings_are_not_taken_for_lives() {
    fn step() -> tracing::Span {
        info_span!("step")
    }
    let end = child(|scene| {
        let recorder = recording(scene);
        (0..100).for_each(|_| step().in_scope(|| ()));
        // Created while there is a recording, and entered when there is none.
        let between = step();
        recorder.finish().unwrap();
        between.in_scope(|| ());
        between.in_scope(|| ());
        drop(between);
        let twice = step();
        twice.in_scope(|| ());
        twice.in_scope(|| ());
        drop(twice);
        thread::spawn(|| step().in_scope(|| ())).join().unwrap();
        let recorder = scene.builder().path(scene.path("next.trace")).start().unwrap();
        let span = step();
        span.in_scope(|| ());
        span.in_scope(|| ());
        drop(span);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = Told::read(&end.path("next.trace"));
    told.is_finished_and_adds_up();
    // Not looked up when it was created: the fast way is still theirs.
    let [life] = lives(&told, "step")[..] else { panic!("one life") };
    assert_eq!(life.field("from_first_enter"), Some(&OwnedValue::Bool(true)));
}

#[test]
fn a_plain_span_of_an_earlier_recording_that_was_not_entered_in_it_has_a_life_in_the_next() {
    fn step() -> tracing::Span {
        info_span!("step")
    }
    let end = child(|scene| {
        let recorder = recording(scene);
        (0..100).for_each(|_| step().in_scope(|| ()));
        let (kept, never, entered) = (step(), step(), step());
        entered.in_scope(|| ());
        recorder.finish().unwrap();
        let recorder = scene.builder().path(scene.path("next.trace")).start().unwrap();
        for span in [&kept, &entered, &kept, &entered] {
            span.in_scope(|| ());
        }
        drop(entered);
        drop(kept);
        drop(never);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = Told::read(&end.path("next.trace"));
    told.is_finished_and_adds_up();
    // Of the one that was entered it is known that it is older.
    let [kept, never] = lives(&told, "step")[..] else { panic!("two lives") };
    let slices: Vec<_> =
        told.named("step").into_iter().filter(|it| it.kind == Kind::SLICE).collect();
    assert_eq!(slices.len(), 4);
    assert_eq!(
        (kept.start, kept.link, kept.number("slices")),
        (slices[0].start, slices[0].link, 2)
    );
    assert_eq!((never.number("slices"), never.end - never.start), (0, 0));
    for life in [kept, never] {
        assert_eq!(life.field("from_first_enter"), Some(&OwnedValue::Bool(true)));
    }
}

#[test]
fn of_many_plain_spans_one_that_is_never_entered_or_closed_elsewhere_is_told() {
    fn step() -> tracing::Span {
        info_span!("step")
    }
    let end = child(|scene| {
        let recorder = recording(scene);
        (0..100).for_each(|_| step().in_scope(|| ()));
        let (never, moved) = (step(), step());
        moved.in_scope(|| ());
        drop(never);
        thread::spawn(move || drop(moved)).join().unwrap();
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let [never, moved] = lives(&told, "step")[..] else { panic!("two lives") };
    for life in [never, moved] {
        assert_eq!(life.field("from_first_enter"), Some(&OwnedValue::Bool(true)));
    }
    assert_eq!((never.number("slices"), never.end - never.start), (0, 0));
    assert_eq!(never.field("busy"), Some(&OwnedValue::Ticks(0)));
    assert_eq!(moved.number("slices"), 1);
    assert!(busy_ns(&told, moved) > 0.0);
}
