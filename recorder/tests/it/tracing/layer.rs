//! The layer, beside others and under filters.

use ringscope::{Kind, tracing::MetricsLayer};
use ringscope_format::LinkRole;
use tracing::{Instrument, debug_span, info_span, trace_span};
use tracing_subscriber::{EnvFilter, layer::Layer, prelude::*};

use super::{Once, poll};
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
    struct Count(std::sync::Arc<std::sync::atomic::AtomicU32>);
    impl<S: tracing::Subscriber> Layer<S> for Count {
        fn on_enter(&self, _: &tracing::span::Id, _: tracing_subscriber::layer::Context<'_, S>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let count = std::sync::Arc::default();
        let own = MetricsLayer::new().with_filter(EnvFilter::new("info"));
        let other = Count(std::sync::Arc::clone(&count));
        tracing_subscriber::registry().with(own).with(other).init();
        info_span!("taken").in_scope(|| debug_span!("left out").in_scope(|| ()));
        assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 2);
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
