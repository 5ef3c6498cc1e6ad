//! What is not asked for is not recorded, and costs nothing.

use std::{
    env, fs,
    sync::{Barrier, atomic::Ordering::Relaxed},
    thread,
};

use ringscope::{
    Builder, Level, Recorder, init_from_env,
    tracing::{Filter, MetricsLayer, Subscriber},
};
use tracing::{Dispatch, debug_span, info_span, trace_span, warn_span};
use tracing_subscriber::prelude::*;

use super::{Count, KINDS, LAYER, install};
use crate::{child::child, told::Told};

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
fn of_several_subscribers_each_takes_what_its_own_filter_lets_through() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let say = |told: &[&str]| {
            for name in told {
                tracing::debug!(name: "a detail", name);
                debug_span!("detailed").in_scope(|| ());
                info_span!("coarse").in_scope(|| ());
            }
        };
        Subscriber::new().with_filter("info").install().unwrap();
        let detailed = Dispatch::new(Subscriber::new().with_filter("debug"));
        let nothing = Dispatch::new(Subscriber::new().with_filter("off"));
        say(&["1"]);
        tracing::dispatcher::with_default(&detailed, || say(&["2", "3"]));
        tracing::dispatcher::with_default(&nothing, || say(&["4", "5", "6", "7"]));
        say(&["8"]);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let count = |name: &str| told.named(name).len();
    assert_eq!((count("coarse"), count("detailed"), count("a detail")), (4, 2, 2));
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

/// An error, and a span and an event of each level below, within each other.
fn say_something_of_every_level() {
    tracing::error!(name: "an error", retries = 3);
    let _warn = warn_span!("warn").entered();
    tracing::warn!(name: "a warning", retries = 3);
    let _info = info_span!("info").entered();
    let _debug = debug_span!("debug", i = 1).entered();
    tracing::debug!(name: "a detail", retries = 3);
    let _trace = trace_span!("trace").entered();
}

/// What of that is recorded at a level.
fn recorded_at(level: &str) -> Vec<&'static str> {
    let all = [
        ("error", "an error"),
        ("warn", "a warning"),
        ("warn", "warn"),
        ("info", "info"),
        ("debug", "a detail"),
        ("debug", "debug"),
        ("trace", "trace"),
    ];
    let most = ["error", "warn", "info", "debug", "trace"];
    let rank = |level: &str| most.iter().position(|it| *it == level).unwrap();
    let mut names: Vec<_> =
        all.into_iter().filter(|it| rank(it.0) <= rank(level)).map(|it| it.1).collect();
    names.sort_unstable();
    names
}

fn names(told: &Told) -> Vec<&str> {
    told.is_finished_and_adds_up();
    let mut names: Vec<_> = told.events.iter().map(|event| event.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_level_from_outside_needs_no_line_of_code_whatever_is_started_first() {
    let end = child(|scene| {
        env::set_current_dir(scene.path("")).unwrap();
        let argument = scene.argument();
        let (kind, order) = argument.split_once(' ').unwrap();
        let before = (order == "before").then(|| install(kind));
        let recorder = init_from_env().unwrap();
        before.is_none().then(|| install(kind));
        say_something_of_every_level();
        recorder.finish().unwrap();
    });
    for kind in KINDS {
        for order in ["before", "after"] {
            let run = || {
                let end = end.another().argument(format!("{kind} {order}"));
                end.environment("RINGSCOPE_TRACE", "run.trace")
            };
            let with_file = |level: &str| {
                let end = run();
                fs::write(end.path("ringscope.toml"), format!("level = '{level}'\n")).unwrap();
                end
            };
            for (end, level) in [
                (run().environment("RINGSCOPE_LEVEL", "error"), "error"),
                (run().environment("METALLIC_LOG_LEVEL", "warn"), "warn"),
                (with_file("info"), "info"),
                (with_file("error").environment("RINGSCOPE_LEVEL", "debug"), "debug"),
                (run(), "trace"),
            ] {
                let end = end.run().succeeded();
                assert_eq!(names(&end.trace()), recorded_at(level), "{kind} {order} {level}");
                assert_eq!(end.stderr, "");
            }
        }
    }
}

/// Starts and installs in the order of the argument, `subscriber before` and so on.
fn in_either_order(argument: &str, builder: Builder) -> Recorder {
    let (kind, order) = argument.split_once(' ').unwrap();
    let before = (order == "before").then(|| install(kind));
    let recorder = builder.start().unwrap();
    before.is_none().then(|| install(kind));
    recorder
}

fn in_all_orders() -> impl Iterator<Item = String> {
    let orders = |kind| ["before", "after"].map(|order| format!("{kind} {order}"));
    KINDS.into_iter().flat_map(orders)
}

#[test]
fn the_level_of_the_recording_goes_before_that_of_the_environment_whatever_is_started_first() {
    let end = child(|scene| {
        let builder = scene.builder().level(Level::Info);
        let recorder = in_either_order(&scene.argument(), builder);
        assert_eq!(recorder.level(), Level::Info);
        say_something_of_every_level();
        recorder.finish().unwrap();
    });
    for order in in_all_orders() {
        for level in ["error", "trace"] {
            let end = end.another().argument(&order).environment("RINGSCOPE_LEVEL", level);
            assert_eq!(names(&end.run().succeeded().trace()), recorded_at("info"), "{order}");
        }
    }
}

#[test]
fn where_code_says_nothing_the_environment_does_and_then_the_file_whatever_is_started_first() {
    let end = child(|scene| {
        env::set_current_dir(scene.path("")).unwrap();
        let recorder = in_either_order(&scene.argument(), scene.builder());
        scene.say("level", format!("{:?}", recorder.level()));
        say_something_of_every_level();
        recorder.finish().unwrap();
    });
    for order in in_all_orders() {
        let run = |level: &str| {
            let end = end.another().argument(&order);
            fs::write(end.path("ringscope.toml"), format!("level = '{level}'\n")).unwrap();
            end
        };
        let by_environment = run("error").environment("RINGSCOPE_LEVEL", "debug");
        for (end, level, is) in [(by_environment, "debug", "Debug"), (run("warn"), "warn", "Warn")]
        {
            let end = end.run().succeeded();
            assert_eq!(names(&end.trace()), recorded_at(level), "{order} {level}");
            assert_eq!((end.said("level").as_str(), end.stderr.as_str()), (is, ""));
        }
    }
}

#[test]
fn a_level_holds_as_long_as_its_recording_and_between_them_that_of_the_environment() {
    const LEVELS: [(&str, Level); 4] = [
        ("error", Level::Error),
        ("trace", Level::Trace),
        ("warn", Level::Warn),
        ("debug", Level::Debug),
    ];
    let end = child(|scene| {
        let kind = scene.argument();
        install(&kind);
        let nothing_runs = || {
            say_something_of_every_level();
            // To the layer everything comes: others may want it.
            let takes_debug = kind == LAYER || tracing::enabled!(tracing::Level::DEBUG);
            assert!(tracing::enabled!(tracing::Level::INFO));
            assert_eq!(takes_debug, kind == LAYER);
        };
        nothing_runs();
        for (name, level) in LEVELS {
            let builder = scene.builder().path(scene.path(&format!("{name}.trace")));
            let recorder = builder.level(level).start().unwrap();
            say_something_of_every_level();
            recorder.finish().unwrap();
            nothing_runs();
        }
        let recorder = scene.builder().start().unwrap();
        say_something_of_every_level();
        recorder.finish().unwrap();
    });
    for kind in KINDS {
        let end = end.another().argument(kind).environment("RINGSCOPE_LEVEL", "info");
        let end = end.run().succeeded();
        for (name, _) in LEVELS {
            let told = Told::read(&end.path(&format!("{name}.trace")));
            assert_eq!(names(&told), recorded_at(name), "{kind} {name}");
        }
        assert_eq!(names(&end.trace()), recorded_at("info"), "{kind}");
    }
}

#[test]
fn a_level_reaches_a_subscriber_of_another_thread_alone() {
    let end = child(|scene| {
        let (installed, started) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                tracing::subscriber::with_default(Subscriber::new(), || {
                    say_something_of_every_level();
                    installed.wait();
                    started.wait();
                    say_something_of_every_level();
                });
            });
            installed.wait();
            let recorder = scene.builder().level(Level::Info).start().unwrap();
            started.wait();
            other.join().unwrap();
            recorder.finish().unwrap();
        });
    });
    assert_eq!(names(&end.run().succeeded().trace()), recorded_at("info"));
}

#[test]
fn a_level_that_is_not_understood_is_said_once_whoever_asks_for_it() {
    let end = child(|scene| {
        env::set_current_dir(scene.path("")).unwrap();
        let argument = scene.argument();
        let recorder = match argument.strip_prefix("from_env ") {
            Some(order) => in_either_order(order, Builder::from_env().path("run.trace")),
            None => in_either_order(&argument, scene.builder()),
        };
        say_something_of_every_level();
        recorder.finish().unwrap();
        drop(Subscriber::new().with_filter(Filter::from_env()));
        drop(scene.builder().start().unwrap());
    });
    let why = "not a level; write off, error, warn, info, debug or trace; it is left as it was";
    for order in in_all_orders().flat_map(|order| [format!("from_env {order}"), order]) {
        let end = end.another().argument(&order);
        fs::write(end.path("ringscope.toml"), "level = 'infor'\n").unwrap();
        let end = end.environment("RINGSCOPE_LEVEL", "inof").run().succeeded();
        let mut said: Vec<_> = end.stderr.lines().collect();
        said.sort_unstable();
        let expected = [
            format!("ringscope: RINGSCOPE_LEVEL = `inof`: {why}"),
            format!("ringscope: ringscope.toml: line 1: level = `infor`: {why}"),
        ];
        assert_eq!(said, expected, "{order}");
    }
}

#[test]
fn a_filter_of_which_nothing_is_understood_leaves_it_to_the_level_of_the_recording() {
    let end = child(|scene| {
        let filter = scene.argument();
        Subscriber::new().with_filter(filter.trim()).install().unwrap();
        let recorder = scene.builder().level(Level::Info).start().unwrap();
        say_something_of_every_level();
        recorder.finish().unwrap();
    });
    for filter in ["inof", "", "app=lots"] {
        let end = end.another().argument(format!(" {filter}")).run().succeeded();
        assert_eq!(names(&end.trace()), recorded_at("info"), "{filter}");
        let decides = "the level of the recording decides, as without it";
        let last = format!("ringscope: filter left out all of `{filter}`: {decides}");
        assert_eq!(end.stderr.lines().last(), Some(last.as_str()));
        assert_eq!(end.stderr.lines().count(), 1 + usize::from(!filter.is_empty()));
    }
}

#[test]
fn a_filter_goes_before_the_level_of_the_recording() {
    let end = child(|scene| {
        let recorder = scene.builder().level(Level::Error).start().unwrap();
        Subscriber::new().with_filter("debug").install().unwrap();
        say_something_of_every_level();
        recorder.finish().unwrap();
    });
    assert_eq!(names(&end.run().succeeded().trace()), recorded_at("debug"));
}

#[test]
fn what_the_layer_leaves_out_other_layers_have_and_it_knows_nothing_of() {
    let end = child(|scene| {
        let recorder = scene.builder().level(Level::Info).start().unwrap();
        let (other, count) = Count::new();
        tracing_subscriber::registry().with(MetricsLayer::new()).with(other).init();
        let left_out = debug_span!("left out", later = tracing::field::Empty);
        {
            let _inside = left_out.enter();
            left_out.record("later", 3);
            let taken = info_span!("taken");
            taken.follows_from(&left_out);
            left_out.follows_from(&taken);
            taken.in_scope(|| tracing::debug!("not taken either"));
        }
        info_span!(parent: &left_out, "child").in_scope(|| ());
        tracing::info!(name: "event", parent: &left_out, i = 1);
        drop(left_out);
        assert_eq!(count.load(Relaxed), 3);
        assert!(tracing::enabled!(tracing::Level::TRACE));
        assert_eq!(recorder.finish().unwrap().stored, 3);
    });
    let told = end.run().succeeded().trace();
    assert_eq!(names(&told), ["child", "event", "taken"]);
    assert!(told.events.iter().all(|event| event.links.is_empty()));
    assert_eq!((told.only("taken").depth, told.only("child").depth), (0, 0));
}
