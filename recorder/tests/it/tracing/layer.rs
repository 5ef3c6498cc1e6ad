//! The layer, beside others and under filters.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use ringscope::{Kind, tracing::MetricsLayer};
use ringscope_format::LinkRole;
use tracing::{
    Event, Instrument, Metadata, Subscriber, debug_span, info_span,
    span::{Attributes, Id, Record},
    trace_span,
};
use tracing_subscriber::{EnvFilter, layer::Layer, prelude::*, reload};

use super::{Count, Once, poll};
use crate::child::child;

#[test]
fn the_layer_records_what_the_subscriber_records() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        tracing_subscriber::registry().with(MetricsLayer::new()).init();
        let kept = trace_span!("kept");
        for token in 0..10 {
            let _token = info_span!("token", token).entered();
            let _kept = kept.enter();
            tracing::error!("failed");
        }
        drop(kept);
        let request = info_span!("request");
        let part = info_span!(parent: &request, "part");
        part.follows_from(&request);
        part.in_scope(|| ());
        drop(part);
        let mut future = Box::pin(Once::default().instrument(request));
        while poll(future.as_mut()).is_pending() {}
        drop(future);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let count = |kind| told.events.iter().filter(|event| event.kind == kind).count();
    assert_eq!(count(Kind::SLICE), 10 + 10 + 1 + 3);
    assert_eq!((count(Kind::ERROR), count(Kind::REUSED), count(Kind::TASK)), (10, 1, 1));
    assert_eq!(told.named("kept")[0].depth, 1);
    let request = told.named("request")[0].link;
    let links: Vec<_> = told.only("part").links.iter().map(|link| (link.role, link.id)).collect();
    let request = u128::from(request);
    assert_eq!(links, [(LinkRole::Parent, request), (LinkRole::FollowsFrom, request)]);
}

#[test]
fn an_env_filter_for_all_layers_decides_by_span_and_field() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let filter = EnvFilter::new("info,[request{id=7}]=trace");
        tracing_subscriber::registry().with(MetricsLayer::new()).with(filter).init();
        for id in [6, 7] {
            let _request = info_span!("request", id).entered();
            let _inner = debug_span!("inner", id).entered();
        }
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!((told.named("request").len(), told.named("inner").len()), (2, 1));
}

#[test]
fn a_filter_for_this_layer_alone_leaves_others_their_spans() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let own = MetricsLayer::new().with_filter(EnvFilter::new("info"));
        let (other, count) = Count::new();
        tracing_subscriber::registry().with(own).with(other).init();
        info_span!("taken").in_scope(|| debug_span!("left out").in_scope(|| ()));
        assert_eq!(count.load(Relaxed), 2);
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn more_spans_than_the_table_of_ids_takes_are_recorded() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        tracing_subscriber::registry().with(MetricsLayer::new()).init();
        let kept: Vec<_> = (0..30_000).map(|_| trace_span!("kept")).collect();
        kept.iter().for_each(|span| span.in_scope(|| ()));
        kept.iter().for_each(|span| span.in_scope(|| ()));
        drop(kept);
        trace_span!("after").in_scope(|| ());
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (90_001, 0));
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn a_layer_that_replaces_another_records_from_then_on() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (layer, handle) = reload::Layer::new(None);
        tracing_subscriber::registry().with(layer).init();
        for _ in 0..3 {
            // With nothing, for the first time.
            info_span!("around").in_scope(|| info_span!("within").in_scope(|| ()));
            handle.reload(MetricsLayer::new()).unwrap();
        }
        handle.modify(|layer| *layer = None).unwrap();
        info_span!("after").in_scope(|| ());
        assert_eq!(recorder.finish().unwrap().stored, 4);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert!(told.named("within").iter().all(|within| within.depth == 1));
}

#[test]
fn the_spans_of_a_layer_that_is_replaced_are_left_and_closed() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (layer, handle) = reload::Layer::new(MetricsLayer::new());
        tracing_subscriber::registry().with(layer).init();
        let waiting: Vec<_> = (0..10_000).map(|_| info_span!("waiting")).collect();
        let (outer, inner, shared) =
            (info_span!("outer"), info_span!("inner"), info_span!("shared"));
        let (entered, replaced) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                shared.in_scope(|| {
                    entered.wait();
                    replaced.wait();
                });
                info_span!("after, elsewhere").in_scope(|| ());
            });
            entered.wait();
            let _guards = (outer.enter(), inner.enter(), outer.enter(), shared.enter());
            handle.reload(MetricsLayer::new()).unwrap();
            replaced.wait();
            info_span!("within").in_scope(|| ());
        });
        // Nobody knows them any more.
        waiting.iter().for_each(|span| span.in_scope(|| ()));
        drop((waiting, outer, inner, shared));
        info_span!("after").in_scope(|| ());
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let mut slices: Vec<_> = told.events.iter().filter(|it| it.kind == Kind::SLICE).collect();
    slices.sort_by_key(|slice| slice.end);
    let on_main = slices.iter().filter(|slice| slice.name != "after, elsewhere");
    let on_main: Vec<_> = on_main.map(|slice| (slice.name, slice.depth)).collect();
    let expected =
        [("shared", 3), ("outer", 2), ("inner", 1), ("outer", 0), ("within", 0), ("after", 0)];
    assert_eq!(on_main, expected);
    assert_eq!(told.named("after, elsewhere").len(), 1);
    let lives = |name: &str| {
        let named = told.named(name).into_iter();
        named.filter(|event| event.kind != Kind::SLICE).map(|life| life.number("slices")).collect()
    };
    assert_eq!(lives("waiting"), vec![0; 10_000]);
    assert_eq!((lives("outer"), lives("inner"), lives("shared")), (vec![2], vec![1], vec![1]));
}

#[test]
fn a_layer_is_replaced_about_as_fast_within_many_spans_as_within_none() {
    fn replaced_within(entered: usize) -> Duration {
        let (layer, handle) = reload::Layer::new(MetricsLayer::new());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let _known: Vec<_> = (0..40_000).map(|_| info_span!("known")).collect();
            let _entered: Vec<_> =
                (0..entered).map(|_| info_span!(parent: None, "entered").entered()).collect();
            let begun = Instant::now();
            handle.reload(MetricsLayer::new()).unwrap();
            begun.elapsed()
        })
    }
    let end = child(|_| {
        // The quickest of some, since others are at work beside this.
        let quickest = |entered| (0..3).map(|_| replaced_within(entered)).min().unwrap();
        let (none, many) = (quickest(0), quickest(10_000));
        assert!(many < 5 * none, "{many:?} within many, {none:?} within none");
    });
    end.run().succeeded();
}

#[test]
fn a_layer_for_a_part_of_the_program_leaves_the_rest_alone() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let registry = || tracing_subscriber::registry().with(MetricsLayer::new());
        info_span!("before").in_scope(|| ());
        let kept = tracing::subscriber::with_default(registry(), || {
            let kept = info_span!("kept");
            kept.in_scope(|| tracing::info!(name: "event", i = 1));
            // Its ids are the same, of other spans.
            tracing::subscriber::with_default(registry(), || {
                info_span!("another's").in_scope(|| kept.in_scope(|| ()));
            });
            kept
        });
        info_span!("after").in_scope(|| kept.in_scope(|| ()));
        drop(kept);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let mut names: Vec<_> = told.events.iter().map(|event| event.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["another's", "event", "kept", "kept", "kept", "kept"]);
    let life = told.named("kept").into_iter().find(|event| event.kind != Kind::SLICE).unwrap();
    assert_eq!(life.number("slices"), 3);
}

#[test]
fn two_layers_on_one_registry_record_everything_twice() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let registry = tracing_subscriber::registry();
        registry.with(MetricsLayer::new()).with(MetricsLayer::new()).init();
        let kept = info_span!("kept");
        for i in 0..10 {
            let _outer = info_span!("outer", i).entered();
            kept.in_scope(|| tracing::info!(name: "event", i));
        }
        drop(kept);
        info_span!("after").in_scope(|| ());
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let (slices, lives): (Vec<_>, Vec<_>) =
        told.events.iter().partition(|event| event.kind == Kind::SLICE);
    let slices = |name: &str| slices.iter().filter(|it| it.name == name).collect::<Vec<_>>();
    assert_eq!((slices("outer").len(), slices("kept").len()), (20, 20));
    assert_eq!(told.named("event").len(), 20);
    let lives: Vec<_> = lives.into_iter().filter(|life| life.name == "kept").collect();
    let [one, other] = lives[..] else { panic!("a life for each layer") };
    assert_eq!((one.number("slices"), other.number("slices")), (10, 10));
    assert_ne!(one.link, other.link);
    // Nothing is left of what they left in the order in which they had entered.
    let depths: Vec<_> = slices("after").iter().map(|after| after.depth).collect();
    assert_eq!(depths.iter().max(), Some(&1));
}

/// Knows a span by another id as soon as there is one more handle to it.
struct Renames(AtomicU64);

impl Subscriber for Renames {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.0.fetch_add(1, Relaxed) + 1)
    }
    fn clone_span(&self, _: &Id) -> Id {
        Id::from_u64(self.0.fetch_add(1, Relaxed) + 1)
    }
    fn try_close(&self, id: Id) -> bool {
        id.into_u64() == self.0.load(Relaxed)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_span_whose_id_changes_stays_the_same_span() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let subscriber = MetricsLayer::new().with_subscriber(Renames(AtomicU64::new(0)));
        tracing::subscriber::set_global_default(subscriber).unwrap();
        let first = info_span!("renamed");
        first.in_scope(|| ());
        let second = first.clone();
        drop(first);
        second.in_scope(|| ());
        drop(second);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let [first, second, life] = told.named("renamed")[..] else { panic!("two slices and a life") };
    assert_eq!((first.kind, second.kind, life.number("slices")), (Kind::SLICE, Kind::SLICE, 2));
    assert_eq!((first.link, second.link), (life.link, life.link));
}
