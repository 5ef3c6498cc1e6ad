//! Spans that cross threads, and threads that end.

use std::{cell::RefCell, sync::mpsc, thread};

use ringscope::{Kind, LostCause};
use tracing::{Span, info_span, span::EnteredSpan};

use super::{of_both, recording};
use crate::child::child;

#[test]
fn spans_may_be_dropped_on_another_thread() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let (send, receive) = mpsc::channel::<Span>();
        let other = thread::spawn(move || receive.into_iter().for_each(drop));
        for i in 0..10_000 {
            let span = info_span!("sent", i);
            span.in_scope(|| ());
            send.send(span).unwrap();
        }
        drop(send);
        other.join().unwrap();
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (20_000, 0));
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        let tasks = told.events.iter().filter(|event| event.kind == Kind::TASK);
        assert_eq!(tasks.count(), 10_000);
    }
}

#[test]
fn clones_keep_a_span_open() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let span = info_span!("shared");
        let clones: Vec<Span> = (0..100).map(|_| span.clone()).collect();
        thread::scope(|scope| {
            for clone in clones {
                scope.spawn(move || clone.in_scope(|| Span::current().in_scope(|| ())));
            }
        });
        span.in_scope(|| ());
        assert_eq!(Span::current().id(), None);
        drop(span);
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        assert_eq!(told.named("shared").len(), 202);
        assert_eq!(told.events.iter().filter(|event| event.kind != Kind::SLICE).count(), 1);
    }
}

struct AtExit(Option<Span>);

impl Drop for AtExit {
    fn drop(&mut self) {
        let span = self.0.take().unwrap_or_else(|| info_span!("made by a destructor", i = 1));
        span.in_scope(|| tracing::info!("the thread exits"));
    }
}

thread_local! {
    static FIRST: RefCell<Option<AtExit>> = const { RefCell::new(None) };
    static ENTERED: RefCell<Option<EnteredSpan>> = const { RefCell::new(None) };
    static LAST: RefCell<Option<AtExit>> = const { RefCell::new(None) };
}

/// Leaves spans to the destructors of the calling thread, and records one itself.
fn leave_to_destructors() {
    // The registry's own destructor comes to be with the first enter.
    info_span!("work").in_scope(|| ());
    FIRST.set(Some(AtExit(Some(info_span!("kept")))));
    LAST.set(Some(AtExit(None)));
    ENTERED.set(Some(info_span!("still entered").entered()));
}

const ROUNDS: u64 = 200;

#[test]
fn destructors_of_a_thread_may_use_spans() {
    let end = child(|scene| {
        let recorder = recording(scene);
        for _ in 0..ROUNDS {
            // They run in reverse: these before the recorder's own.
            thread::spawn(leave_to_destructors).join().unwrap();
            // Here there is nothing of the recorder's before the destructor.
            thread::spawn(|| LAST.set(Some(AtExit(None)))).join().unwrap();
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (9 * ROUNDS, 0));
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        let count = |name: &str, kind: Kind| {
            told.named(name).iter().filter(|event| event.kind == kind).count() as u64
        };
        assert_eq!(count("work", Kind::SLICE), ROUNDS);
        assert_eq!(count("still entered", Kind::SLICE), ROUNDS);
        assert_eq!(count("made by a destructor", Kind::SLICE), 2 * ROUNDS);
        assert_eq!((count("kept", Kind::SLICE), count("kept", Kind::TASK)), (ROUNDS, ROUNDS));
        let points = told.events.iter().filter(|event| event.kind == Kind::EVENT);
        assert_eq!(points.count() as u64, 3 * ROUNDS);
    }
}

/// Of the subscriber alone: the registry, on which layers are, panics there by itself.
#[test]
fn what_comes_after_the_recorders_own_destructors_is_lost_and_counted() {
    let end = child(|scene| {
        let recorder = recording(scene);
        for _ in 0..ROUNDS {
            let late = || {
                FIRST.set(None);
                LAST.set(None);
                ENTERED.set(None);
                leave_to_destructors();
            };
            thread::spawn(late).join().unwrap();
        }
        let summary = recorder.finish().unwrap();
        // Slices of three spans, lives of the two that were made in time, and two events.
        assert_eq!((summary.stored, summary.lost), (ROUNDS, 7 * ROUNDS));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!(told.named("work").len() as u64, ROUNDS);
    assert_eq!(told.vitals().lost[LostCause::ThreadExit as usize], 7 * ROUNDS);
}

#[test]
fn a_hundred_threads_make_a_hundred_thousand_spans() {
    let end = child(|scene| {
        let recorder = recording(scene);
        for _ in 0..10 {
            thread::scope(|scope| {
                for _ in 0..10 {
                    scope.spawn(|| {
                        let mut kept = Vec::new();
                        for i in 0..1_000 {
                            let span = info_span!("work", i);
                            span.in_scope(|| ());
                            kept.push(span);
                            if kept.len() == 300 {
                                kept.clear();
                            }
                        }
                    });
                }
            });
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (100_000, 0));
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        let mut numbers: Vec<u32> = told.named("work").iter().map(|slice| slice.link).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 100_000);
    }
}

#[test]
fn what_one_span_was_given_never_turns_up_in_another() {
    let end = child(|scene| {
        let recorder = recording(scene);
        for round in 0..2_000_u64 {
            let span = info_span!("given", round, extra = tracing::field::Empty);
            thread::scope(|scope| {
                scope.spawn(|| span.record("extra", round).in_scope(|| ()));
                (0..10).for_each(|_| span.in_scope(|| ()));
            });
            drop(span);
            info_span!("empty").in_scope(|| ());
        }
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        assert!(told.named("empty").iter().all(|span| span.fields.is_empty()));
        let lives = told.named("given").into_iter().filter(|event| event.kind != Kind::SLICE);
        let mut count = 0;
        for life in lives {
            assert_eq!(life.number("round"), life.number("extra"));
            count += 1;
        }
        assert_eq!(count, 2_000);
    }
}
