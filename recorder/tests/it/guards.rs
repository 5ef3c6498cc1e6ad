//! Guards that are forgotten, dropped in the wrong order, or kept too long.

use std::{mem, thread, time::Duration};

use ringscope::{async_span, event, span};

use crate::child::{child, wait_until};

#[test]
fn a_forgotten_guard_is_closed_by_its_parent() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        for _ in 0..3 {
            let _outer = span!("outer");
            mem::forget(span!("forgotten"));
            drop(span!("inner"));
        }
        drop(span!("afterwards"));
        assert_eq!(recorder.finish().unwrap().stored, 7);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let depths = |name| told.named(name).iter().map(|event| event.depth).collect::<Vec<_>>();
    assert_eq!(depths("outer"), [0, 0, 0]);
    assert_eq!(depths("inner"), [2, 2, 2], "what was forgotten is still open");
    assert_eq!(depths("afterwards"), [0]);
    assert!(told.open().is_empty());
}

#[test]
fn guards_dropped_out_of_order_are_all_recorded() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (first, second, third) = (span!("first"), span!("second", x = 1_u8), span!("third"));
        drop(first);
        drop(third);
        drop(second);
        drop(span!("afterwards"));
        assert_eq!(recorder.finish().unwrap().stored, 4);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let depth = |name| told.only(name).depth;
    assert_eq!(
        (depth("first"), depth("second"), depth("third"), depth("afterwards")),
        (0, 1, 2, 0)
    );
}

#[test]
fn recursion_ten_thousand_deep_is_recorded_to_the_last_span() {
    fn descend(left: u64) {
        if left > 0 {
            let _span = span!("level", left = left);
            descend(left - 1);
        }
    }
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let deep = thread::Builder::new().stack_size(64 << 20).spawn(|| descend(10_000));
        deep.unwrap().join().unwrap();
        drop(span!("afterwards"));
        assert_eq!(recorder.finish().unwrap().stored, 10_001);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let levels = told.named("level");
    assert_eq!(levels.len(), 10_000);
    for level in levels {
        assert_eq!(u64::from(level.depth), (10_000 - level.number("left")).min(255));
    }
    assert_eq!(told.only("afterwards").depth, 0);
}

#[test]
fn seventy_thousand_open_spans_are_more_than_are_counted_and_all_recorded() {
    const OPEN: usize = 70_000;
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let mut open: Vec<_> = (0..OPEN).map(|_| span!("level")).collect();
        while open.pop().is_some() {}
        drop(span!("afterwards"));
        assert_eq!(recorder.finish().unwrap().stored, OPEN as u64 + 1);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let levels = told.named("level");
    assert_eq!(levels.len(), OPEN);
    let shallow = levels.iter().filter(|level| level.depth < 255).count();
    assert_eq!(shallow, 255);
    assert_eq!(told.only("afterwards").depth, 0);
}

#[test]
fn spans_that_are_open_at_finish_are_listed_as_open() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let _outer = span!("outer", x = 1_u8);
        let _inner = span!("inner");
        let _request = async_span!("request");
        drop(span!("ended"));
        let (tell, told) = std::sync::mpsc::channel();
        let sleeper = move || {
            let _span = span!("sleeping");
            tell.send(()).unwrap();
            thread::sleep(Duration::from_secs(3_600));
        };
        thread::Builder::new().name("sleeper".into()).spawn(sleeper).unwrap();
        told.recv().unwrap();
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let open = told.open();
    let list = |names: &[&str]| (names.len() as u32, names.iter().map(|n| n.to_string()).collect());
    assert_eq!(open[""], list(&["request"]));
    assert_eq!(open["sleeper"], list(&["sleeping"]));
    let this = "guards::spans_that_are_open_at_finish_are_listed_as_open";
    assert_eq!(open[this], list(&["outer", "inner"]));
    assert_eq!(open.len(), 3);
}

#[test]
fn a_guard_kept_across_finish_is_listed_as_open_and_recorded_by_nobody() {
    let end = child(|scene| {
        let first = scene.builder().path(scene.path("first.trace")).start().unwrap();
        let kept = span!("kept");
        let request = async_span!("request");
        assert_eq!(first.finish().unwrap().stored, 0);
        drop(kept);
        drop(request);
        let second = scene.builder().start().unwrap();
        event!("second");
        assert_eq!(second.finish().unwrap().stored, 1);
    });
    let end = end.run().succeeded();
    let first = crate::told::Told::read(&end.path("first.trace"));
    let open = first.open();
    assert_eq!(open.len(), 2, "{open:?}");
    assert!(open.values().any(|(depth, names)| (*depth, names[0].as_str()) == (1, "kept")));
    let told = end.trace();
    told.is_finished_and_adds_up();
    assert_eq!(told.only("second").depth, 0);
    assert!(told.open().is_empty());
}

#[test]
fn a_span_that_begins_in_one_recording_and_ends_in_the_next_is_one_event_there() {
    let end = child(|scene| {
        let first = scene.builder().path(scene.path("first.trace")).start().unwrap();
        let kept = span!("kept");
        first.finish().unwrap();
        let second = scene.builder().start().unwrap();
        drop(span!("inside"));
        drop(kept);
        let summary = second.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (2, 0));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!((told.only("kept").depth, told.only("inside").depth), (0, 1));
}

#[test]
fn more_asynchronous_spans_than_are_listed_are_all_recorded() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let open: Vec<_> = (0..2_000_u64).map(|i| async_span!("request", i = i)).collect();
        let mut ids: Vec<u64> = open.iter().map(|span| span.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 2_000, "ids tell them apart");
        assert!(recorder.flush());
        drop(open);
        assert!(recorder.flush());
        wait_until("none is listed", || crate::told::Told::read(&scene.trace()).open().is_empty());
        assert_eq!(recorder.finish().unwrap().stored, 2_000);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert!(told.named("request").iter().map(|request| request.number("i")).eq(0..2_000));
}
