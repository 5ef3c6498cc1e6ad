//! Tasks that wait while the process dies: they are on no thread's stack.

use std::{future::Future, pin::Pin, time::Duration};

use ringscope::tracing::Subscriber;
use tracing::{Instrument, Span, info_span};

use super::{Once, poll, recording};
use crate::{
    child::{Scene, child},
    posix,
};

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A future that is pending once, in a span.
fn task(span: Span) -> Task {
    Box::pin(async { Once::default().await }.instrument(span))
}

fn request() -> Task {
    task(info_span!("request"))
}

/// Polls a task until it is ready.
fn complete(mut task: Task) {
    while poll(task.as_mut()).is_pending() {}
}

/// Kills the process once the drain has looked at everything.
fn killed_now(recorder: ringscope::Recorder) -> ! {
    recorder.flush();
    std::mem::forget(recorder);
    posix::raise(libc::SIGKILL);
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn a_killed_process_leaves_the_tasks_that_wait() {
    let end = child(|scene| {
        let recorder = recording(scene);
        complete(request()); // what it learns from: requests wait, and end
        let mut waiting: Vec<Task> = (0..100).map(|_| request()).collect();
        waiting.iter_mut().for_each(|task| assert!(poll(task.as_mut()).is_pending()));
        complete(request()); // and is over
        let _inside = info_span!("accept").entered();
        killed_now(recorder);
    });
    let told = end.run().died_of(libc::SIGKILL).trace();
    let stacks = told.trace.in_flight().unwrap();
    let waiting = stacks.iter().find(|stack| stack.track == 0).expect("tasks are listed");
    let names = waiting.spans.iter().map(|span| told.trace.names().get(span.name).unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["request"; 100]);
    // They are what their slices are of, and were created before they were entered.
    for span in &waiting.spans {
        let slices = told.named("request");
        let slice = slices.iter().find(|slice| u64::from(slice.link) == span.id).unwrap();
        assert!(span.start < slice.start && span.track == slice.track);
    }
    let thread = stacks.iter().find(|stack| stack.track != 0).expect("so is the thread's stack");
    assert_eq!(told.trace.names().get(thread.spans[0].name), Some("accept"));
}

/// Those that have waited longest are the ones that one wants to see.
#[test]
fn tasks_that_were_polled_before_anybody_knew_them_for_tasks_are_listed_later() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let connection = || info_span!("connection");
        let lasting = |_| Box::pin(std::future::pending().instrument(connection())) as Task;
        let mut waiting: Vec<Task> = (0..10).map(lasting).collect();
        let mut poll_all = |times: usize| {
            for _ in 0..times {
                waiting.iter_mut().for_each(|task| assert!(poll(task.as_mut()).is_pending()));
            }
        };
        poll_all(3);
        complete(task(connection()));
        poll_all(2);
        killed_now(recorder);
    });
    let told = end.run().died_of(libc::SIGKILL).trace();
    assert_eq!(told.open()[""], (10, vec!["connection".to_owned(); 10]));
}

#[test]
fn a_task_that_is_closed_waits_no_more() {
    let end = child(|scene| {
        let recorder = recording(scene);
        for _ in 0..2_000 {
            complete(request());
        }
        killed_now(recorder);
    });
    let told = end.run().died_of(libc::SIGKILL).trace();
    assert!(told.trace.in_flight().unwrap().is_empty());
    // Two polls each, the drop of what was polled, and the life.
    assert_eq!(told.vitals().stored, 2_000 * 4);
}

/// A model's spans are there for as long as the model is; nobody waits for them.
#[test]
fn spans_that_are_used_again_are_no_waiting_tasks() {
    let end = child(|scene: &Scene| {
        let recorder = scene.builder().start().unwrap();
        Subscriber::new().install().unwrap();
        let (block, norm) = (info_span!("block"), info_span!("norm"));
        for _ in 0..10 {
            let _token = info_span!("token").entered();
            block.in_scope(|| norm.in_scope(|| ()));
            norm.in_scope(|| ());
        }
        let outermost = info_span!("outermost");
        for _ in 0..100 {
            outermost.in_scope(|| norm.in_scope(|| ()));
        }
        killed_now(recorder);
    });
    let told = end.run().died_of(libc::SIGKILL).trace();
    assert!(told.trace.in_flight().unwrap().is_empty());
}
