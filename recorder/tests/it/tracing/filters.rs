//! What is not asked for is not recorded, and costs nothing.

use ringscope::tracing::{Filter, Subscriber};
use tracing::{debug_span, info_span, trace_span};

use crate::child::child;

#[test]
fn levels_and_targets_decide() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let subscriber = Subscriber::new().with_filter("info,it::tracing=debug,noise=off");
        subscriber.install().unwrap();
        info_span!("here").in_scope(|| ());
        debug_span!("here too").in_scope(|| ());
        trace_span!("too detailed").in_scope(|| ());
        info_span!(target: "elsewhere", "there").in_scope(|| ());
        debug_span!(target: "elsewhere", "too detailed").in_scope(|| ());
        tracing::error!(target: "noise::of::others", "not wanted");
        assert!(!tracing::enabled!(tracing::Level::TRACE));
        assert!(tracing::enabled!(target: "elsewhere", tracing::Level::INFO));
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let names: Vec<_> = told.events.iter().map(|event| event.name).collect();
    assert_eq!(names, ["here", "here too", "there"]);
}

#[test]
fn what_is_not_understood_of_a_filter_is_said_and_left_out() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let subscriber = Subscriber::new().with_filter("info,app[request{id=7}]=trace,app=lots");
        subscriber.install().unwrap();
        info_span!("recorded").in_scope(|| debug_span!("not").in_scope(|| ()));
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    let end = end.run().succeeded();
    let said: Vec<_> = end.stderr.lines().filter(|line| line.starts_with("ringscope:")).collect();
    assert_eq!(
        said,
        [
            "ringscope: filter left out `app[request{id=7}]=trace`: parts about spans and fields are \
             not understood; use MetricsLayer with an EnvFilter",
            "ringscope: filter left out `app=lots`: not a level or `target=level`; levels are off, \
             error, warn, info, debug and trace"
        ]
    );
}

#[test]
fn the_environment_sets_the_level() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        Subscriber::new().with_filter(Filter::from_env()).install().unwrap();
        info_span!("recorded").in_scope(|| debug_span!("not").in_scope(|| ()));
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    let end = end.environment("RINGSCOPE_LEVEL", "info").run().succeeded();
    assert_eq!(end.trace().events[0].name, "recorded");
}
