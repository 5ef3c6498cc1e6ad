//! Every enter and exit is a slice of its span.

use std::thread;

use ringscope::{Kind, tracing::Subscriber};
use tracing::{info_span, instrument, trace_span};

use super::{of_both, recording};
use crate::{child::child, no_allocation::does_not_allocate};

#[instrument(level = "trace")]
fn attention(head: u32) {
    let _span = trace_span!("softmax").entered();
}

#[test]
fn spans_read_back_as_a_tree() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let forward = info_span!("forward", layers = 2_u64, name = "llama");
        let _forward = forward.enter();
        attention(3);
        trace_span!("mlp").in_scope(|| tracing::debug!(bytes = 4_096, "cache {}", "miss"));
        drop(_forward);
        drop(forward);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let event = told.events.iter().find(|event| event.kind == Kind::EVENT).unwrap();
    assert!(event.name.starts_with("it::tracing::slices:"), "{}", event.name);
    let tree = told.tree().replace(event.name, "EVENT");
    let level = tree.split("level=").nth(1).unwrap().split(' ').nth(1).unwrap();
    let level: u32 = level.parse().unwrap();
    assert_eq!(told.trace.names().get(level), Some("DEBUG"));
    assert_eq!(
        tree.replace(&format!("name {level}"), "DEBUG"),
        "\
tracing::slices::spans_read_back_as_a_tree
  slice forward layers=2u name=\"llama\"
    slice attention head=3u
      slice softmax
    slice mlp
      event EVENT level=DEBUG bytes=4096i message=\"cache miss\"
"
    );
}

#[test]
fn a_span_that_is_kept_and_entered_again_has_a_slice_each_time() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let (block, attention) = (trace_span!("block"), trace_span!("attention"));
        for _ in 0..1_000 {
            let _block = block.enter();
            let _attention = attention.enter();
        }
        let stored = recorder.finish().unwrap().stored;
        assert_eq!(stored, 2_000);
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        let (blocks, attentions) = (told.named("block"), told.named("attention"));
        assert_eq!((blocks.len(), attentions.len()), (1_000, 1_000));
        for (block, attention) in blocks.iter().zip(&attentions) {
            assert_eq!((block.kind, block.depth), (Kind::SLICE, 0));
            assert_eq!((attention.kind, attention.depth), (Kind::SLICE, 1));
            assert!(block.start <= attention.start && attention.end <= block.end);
        }
        // The same number in all slices of a span, and another in another's.
        let number = blocks[0].link;
        assert!(number != 0 && blocks.iter().all(|slice| slice.link == number));
        assert!(attentions.iter().all(|slice| slice.link != number && slice.link != 0));
    }
}

#[test]
fn entering_and_creating_do_not_allocate() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let block = trace_span!("block");
        does_not_allocate("entering again", |_| {
            let _inside = block.enter();
        });
        does_not_allocate("a new span", |_| {
            let _outer = trace_span!("outer").entered();
            let _inner = trace_span!("inner").entered();
        });
        does_not_allocate("a new span with fields, once there is room for them", |i| {
            let _span = trace_span!("numbers", i, text = "some text").entered();
        });
        does_not_allocate("events", |i| {
            tracing::info!(i, text = "some text", "message {i}");
            tracing::error!(i, "failed");
        });
        recorder.finish().unwrap();
        does_not_allocate("no recorder any more", |_| {
            let _inside = block.enter();
            let _new = trace_span!("outer").entered();
        });
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn spans_left_and_closed_out_of_order_are_all_recorded() {
    let end = child(|scene| {
        let recorder = recording(scene);
        for _ in 0..3 {
            let (a, b, c) = (info_span!("a"), info_span!("b"), info_span!("c"));
            let (in_a, in_b, in_c) = (a.enter(), b.enter(), c.enter());
            drop(in_a);
            drop(in_c);
            drop(in_b);
            drop((b, a, c));
        }
        // Nothing of that is left: the next one is outermost.
        info_span!("after").in_scope(|| ());
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        for name in ["a", "b", "c"] {
            let slices = told.named(name).into_iter().filter(|event| event.kind == Kind::SLICE);
            assert_eq!(slices.count(), 3);
        }
        assert_eq!(told.only("after").depth, 0);
    }
}

#[test]
fn ten_thousand_spans_inside_of_each_other_are_recorded() {
    fn deeper(levels: u32) {
        if levels > 0 {
            let _span = trace_span!("level").entered();
            deeper(levels - 1);
        }
    }
    let end = child(|scene| {
        let recorder = recording(scene);
        let enough = thread::Builder::new().stack_size(256 << 20);
        enough.spawn(|| deeper(10_000)).unwrap().join().unwrap();
        // The same span within itself is entered as often.
        let again = trace_span!("again");
        let inside: Vec<_> = (0..10_000).map(|_| again.enter()).collect();
        drop(inside);
        trace_span!("after").in_scope(|| ());
        recorder.finish().unwrap();
    });
    for end in of_both(end) {
        let told = end.trace();
        told.is_finished_and_adds_up();
        assert_eq!((told.named("level").len(), told.named("again").len()), (10_000, 10_000));
        assert_eq!(
            told.named("level").iter().filter(|slice| slice.depth == 255).count(),
            10_000 - 255
        );
        assert_eq!(told.only("after").depth, 0);
    }
}

#[test]
fn a_subscriber_that_is_already_set_is_an_error_that_says_what_to_do() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let error = Subscriber::new().install().unwrap_err();
        scene.say("error", error);
        info_span!("still recorded by the first").in_scope(|| ());
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    let end = end.run().succeeded();
    assert_eq!(
        end.said("error"),
        "this process has a `tracing` subscriber already; add `MetricsLayer` to that one, or install \
         ringscope's first"
    );
}

#[test]
fn a_subscriber_records_whenever_a_recorder_runs() {
    let end = child(|scene| {
        Subscriber::new().install().unwrap();
        let kept = info_span!("kept");
        kept.in_scope(|| info_span!("before").in_scope(|| ()));
        let recorder = scene.builder().start().unwrap();
        kept.in_scope(|| info_span!("during").in_scope(|| ()));
        let entered = info_span!("not left in time").entered();
        recorder.finish().unwrap();
        drop(entered);
        kept.in_scope(|| info_span!("after").in_scope(|| ()));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let names: Vec<_> = told.events.iter().map(|event| event.name).collect();
    assert_eq!(names, ["during", "kept"]);
    assert_eq!(told.open().values().next().unwrap().1, ["not left in time"]);
}

#[test]
fn rules_apply_to_spans_of_tracing() {
    let end = child(|scene| {
        let rules = "tokenize=off, block=1/10, slow=1ms".parse().unwrap();
        let recorder = scene.builder().rules(rules).start().unwrap();
        Subscriber::new().install().unwrap();
        let slow = info_span!("slow");
        for i in 0..100 {
            info_span!("tokenize", i).in_scope(|| ());
            info_span!("block").in_scope(|| ());
            slow.in_scope(|| ());
        }
        slow.in_scope(|| std::thread::sleep(std::time::Duration::from_millis(2)));
        drop(slow);
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.produced(), 302);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!((told.named("tokenize").len(), told.named("block").len()), (0, 10));
    // The slice that is long enough, and the life; and before them those that a busy machine has
    // kept inside for as long.
    let slow = told.named("slow");
    assert!(slow.iter().all(|event| told.trace.clock().ns(event.end - event.start) > 0.99e6));
    let kinds: Vec<Kind> = slow.iter().map(|event| event.kind).collect();
    assert_eq!(kinds[kinds.len() - 2..], [Kind::SLICE, Kind::TASK]);
    assert!(kinds[..kinds.len() - 1].iter().all(|kind| *kind == Kind::SLICE));
}

#[test]
fn a_process_that_is_killed_leaves_the_spans_it_was_inside_of() {
    let end = child(|scene| {
        let recorder = recording(scene);
        let forward = info_span!("forward");
        let _forward = forward.enter();
        let _inner = trace_span!("attention").entered();
        trace_span!("softmax").in_scope(|| ());
        assert!(recorder.flush());
        std::process::abort();
    });
    let told = end.run().died_of(6).trace();
    assert_eq!(told.named("softmax").len(), 1);
    let (depth, names) = told.open().into_values().next().unwrap();
    assert_eq!((depth, names), (2, vec!["forward".to_owned(), "attention".to_owned()]));
}
