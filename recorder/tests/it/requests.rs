//! Requests: one record for each time that a thread works for one, around everything
//! that it does in it.

use std::{cell::RefCell, mem, panic, sync::mpsc, thread, time::Duration};

use ringscope::{
    Builder, Kind, LostCause, Rules, SkipCause, counter, error, event, span,
    vocabulary::{CacheHit, Correlated, CorrelationId},
};
use ringscope_format::LinkRole;

use crate::{
    child::child,
    posix,
    told::{Event, Told},
};

const SCOPE: &str = "request.scope";

fn id(id: u128) -> CorrelationId {
    CorrelationId::from_u128(id)
}

/// The request of a scope.
#[track_caller]
fn request(scope: &Event) -> u128 {
    assert_eq!((scope.kind, scope.slots, scope.fields.len()), (Kind::SCOPE, 1, 0), "{scope:?}");
    assert_eq!(scope.links[0].role, LinkRole::Request);
    scope.links[0].id
}

/// The requests whose scopes an event lies in, the innermost first.
fn around(told: &Told, event: &Event) -> Vec<u128> {
    let mut scopes = told.named(SCOPE);
    scopes.retain(|it| it.track == event.track && it.start <= event.start && event.end <= it.end);
    scopes.sort_by_key(|it| std::cmp::Reverse(it.start));
    scopes.into_iter().map(request).collect()
}

#[test]
fn whatever_is_recorded_in_a_request_lies_in_a_scope_of_its_thread() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        ringscope::tracing::Subscriber::new().install().unwrap();
        let work = |request: u128| {
            drop(span!("before"));
            let _working = id(request).enter();
            let _span = span!("span");
            event!("event");
            error!("error");
            counter!("counter", 1);
            tracing::info_span!("of tracing").in_scope(|| CacheHit::new().record());
        };
        let _outside = span!("outside");
        work(7);
        thread::scope(|scope| {
            scope.spawn(|| work(7));
            scope.spawn(|| work(8));
        });
        drop(span!("after"));
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let mut requests: Vec<u128> = told.named(SCOPE).iter().map(|it| request(it)).collect();
    requests.sort_unstable();
    assert_eq!(requests, [7, 7, 8]);
    for name in ["span", "event", "error", "counter", "of tracing", "cache.hit"] {
        let mut found: Vec<Vec<u128>> =
            told.named(name).iter().map(|event| around(&told, event)).collect();
        found.sort_unstable();
        assert_eq!(found, [[7], [7], [8]], "{name}");
    }
    for name in ["before", "outside", "after"] {
        assert!(told.named(name).iter().all(|event| around(&told, event).is_empty()), "{name}");
    }
    let plain = told.named("span");
    assert!(plain.iter().all(|span| span.slots == 0), "it costs a span nothing");
}

#[test]
fn a_scope_changes_nobodys_depth_and_is_among_the_spans_that_it_began_in() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let _outer = span!("outer");
        let first = id(1).enter();
        let inner = span!("inner");
        let second = id(2).enter();
        drop(span!("innermost"));
        drop((second, inner, first));
        recorder.flush();
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let depths: Vec<(&str, u8)> = told.events.iter().map(|it| (it.name, it.depth)).collect();
    let expected = [("innermost", 2), (SCOPE, 2), ("inner", 1), (SCOPE, 1)];
    assert_eq!(depths, expected);
    assert_eq!(around(&told, told.only("innermost")), [2, 1], "the innermost first");
    let open = told.open();
    assert_eq!(open.values().next().unwrap(), &(1, vec!["outer".to_owned()]), "and no scope");
}

#[test]
fn working_for_nobody_within_a_request_is_told_and_outside_of_one_is_not() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        drop(id(0).enter());
        let _working = id(1).enter();
        {
            let _pause = id(0).enter();
            assert_eq!(CorrelationId::current(), None);
            CacheHit::new().record();
        }
        assert_eq!(CorrelationId::current(), Some(id(1)));
        drop(_working);
        assert_eq!(recorder.finish().unwrap().stored, 3);
    });
    let told = end.run().succeeded().trace();
    let scopes = told.named(SCOPE);
    assert_eq!(scopes.iter().map(|it| request(it)).collect::<Vec<_>>(), [0, 1]);
    assert!(told.only("cache.hit").links.is_empty());
}

#[test]
fn a_panic_leaves_the_request_and_its_scope_is_recorded() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let panicked = panic::catch_unwind(|| {
            let _working = id(5).enter();
            let _span = span!("failing");
            panic!("as planned");
        });
        assert!(panicked.is_err());
        assert_eq!(CorrelationId::current(), None);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    assert_eq!(around(&told, told.only("failing")), [5]);
}

#[test]
fn without_a_recorder_nothing_is_recorded_and_nothing_is_left_over() {
    let end = child(|scene| {
        drop(id(1).enter());
        let across = id(2).enter();
        let recorder = scene.builder().start().unwrap();
        drop(across);
        drop(id(3).enter());
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost, summary.skipped), (1, 0, 0));
        drop(id(4).enter());
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!(request(told.only(SCOPE)), 3);
}

#[test]
fn a_request_that_is_left_after_its_recording_is_recorded_by_nobody_or_by_the_next() {
    let end = child(|scene| {
        let first = scene.builder().path(scene.path("first.trace")).start().unwrap();
        let (over, goes_on) = (id(1).enter(), id(2).enter());
        drop(span!("work"));
        assert_eq!(first.finish().unwrap().stored, 1);
        drop(over);
        let second = scene.builder().start().unwrap();
        drop(goes_on);
        let summary = second.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (1, 0));
    });
    let end = end.run().succeeded();
    assert_eq!(request(end.trace().only(SCOPE)), 2);
    let first = Told::read(&end.path("first.trace"));
    assert!(first.open().is_empty(), "a scope is in no stack");
}

#[test]
fn guards_that_are_forgotten_or_dropped_out_of_order_harm_nobody() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        mem::forget(id(1).enter());
        let (second, third) = (id(2).enter(), id(3).enter());
        drop(second);
        event!("between");
        drop(third);
        assert_eq!(recorder.finish().unwrap().stored, 3);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!(told.named(SCOPE).iter().map(|it| request(it)).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(around(&told, told.only("between")), [3]);
}

thread_local! {
    /// Dropped when its thread exits: after the ring was given back, if it came first.
    static KEPT: RefCell<Option<Correlated>> = const { RefCell::new(None) };
}

#[test]
fn a_request_that_is_left_at_thread_exit_is_recorded_or_counted_as_lost() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        for threads in 0..20_u32 {
            let work = move || {
                // Destructors run in the reverse order of first use.
                if threads % 2 == 0 {
                    KEPT.with(|_| ());
                }
                drop(span!("work"));
                KEPT.set(Some(id(9).enter()));
            };
            thread::spawn(work).join().unwrap();
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost_to(LostCause::ThreadExit)), (30, 10));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!(told.vitals().lost_slots[LostCause::ThreadExit as usize], 10, "a slot each");
    assert_eq!(told.named(SCOPE).len(), 10);
}

#[test]
fn rules_thin_out_what_is_in_a_request_and_switch_scopes_off_but_sample_none() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let work = |rules: &str| {
            recorder.set_rules(rules.parse::<Rules>().unwrap());
            for _ in 0..100 {
                let _working = id(1).enter();
                drop(span!("step"));
            }
        };
        ["*=1/10", "*=60m", "off", "request.scope=off"].iter().for_each(|rules| work(rules));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (10 + 100 + 100 + 100, 0));
        assert_eq!(summary.skipped_as(SkipCause::Sampled), 90);
        assert_eq!(summary.skipped_as(SkipCause::TooShort), 100);
        assert_eq!(summary.skipped_as(SkipCause::SwitchedOff), 300);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!((told.named(SCOPE).len(), told.named("step").len()), (200, 110));
}

#[test]
fn a_sample_of_everything_from_the_environment_takes_every_scope() {
    let end = child(|scene| {
        let recorder = Builder::from_env().path(scene.trace()).readings(None);
        let recorder = recorder.start().unwrap();
        for _ in 0..1_000 {
            let _working = id(1).enter();
            drop(span!("step"));
        }
        recorder.finish().unwrap();
    });
    let told = end.environment("RINGSCOPE_SAMPLE", "1/100").run().succeeded().trace();
    assert_eq!((told.named(SCOPE).len(), told.named("step").len()), (1_000, 10));
}

#[test]
fn a_full_ring_loses_a_scope_with_its_slot_and_counts_both() {
    let end = child(|scene| {
        let hour = Duration::from_secs(3_600);
        let recorder = scene.builder().ring_records(8).ticks(hour, hour).start().unwrap();
        (0..10).for_each(|_| drop(id(1).enter()));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost_to(LostCause::RingFull)), (4, 6));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!(told.vitals().lost_slots[LostCause::RingFull as usize], 6);
}

#[test]
fn of_a_request_that_a_kill_ends_only_what_carries_it_tells() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            drop(id(1).enter());
            let _working = id(2).enter();
            let _span = span!("working");
            CacheHit::new().record();
            event!("plain");
            tell.send(()).unwrap();
            thread::sleep(Duration::from_secs(3_600));
        });
        told.recv().unwrap();
        assert!(recorder.flush());
        posix::raise(libc::SIGKILL);
    });
    let told = end.run().died_of(libc::SIGKILL).trace();
    assert_eq!(request(told.only(SCOPE)), 1);
    assert_eq!(told.only("cache.hit").links[0].id, 2);
    assert!(told.only("plain").links.is_empty());
    assert!(told.open().values().any(|(_, names)| names == &["working"]));
}
