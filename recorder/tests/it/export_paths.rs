//! The spans around an event, as exporters see them, are those of the file, wherever the
//! drain's ticks fall: of this crate, of `tracing`, and of both in each other.

use std::{sync::mpsc::Receiver, thread, time::Duration};

use ringscope::{
    CallSite, Recorder,
    handlers::{ChannelExporter, Event, ExportFilter, Field},
    span,
    tracing::Subscriber,
};
use tracing::{Span, info, info_span};

use crate::child::{Scene, child};

const DEPTHS: usize = 6;
const DESCENTS: usize = 2_000;

/// A recording whose drain never sleeps, and all of its events.
fn recording(scene: &Scene) -> (Recorder, Receiver<Event>) {
    let recorder = scene.builder().ticks(Duration::ZERO, Duration::ZERO).start().unwrap();
    let (exporter, events) = ChannelExporter::new(1 << 20);
    recorder.attach(exporter, ExportFilter::all());
    (recorder, events)
}

/// Runs `within` inside of a span named after its depth.
type Enter<'a> = &'a dyn Fn(usize, &dyn Fn());

fn descend(enter: Enter<'_>, depth: usize, turn: u32) {
    if depth == DEPTHS {
        return;
    }
    enter(depth, &|| {
        for _ in 0..turn % 3 {
            descend(enter, depth + 1, turn + 1);
        }
        ringscope::event!("leaf", around = depth + 1);
        info!(around = depth + 1);
    });
}

fn work(enter: Enter<'_>) {
    (0..DESCENTS as u32).for_each(|turn| descend(enter, 0, turn));
}

/// A stretch of the work: so many descents one after the other.
const STRETCH: u32 = 20;

/// Everything was seen, and with the path that its depth tells.
fn judge(recorder: Recorder, events: &Receiver<Event>) {
    let summary = recorder.finish().unwrap();
    let (mut seen, mut wrong, mut descents) = (0, 0, 0);
    let mut stretches = Vec::new();
    for event in events {
        seen += 1;
        let expected = (0..event.path.len()).map(|n| format!("depth {n}"));
        assert!(event.path.iter().copied().eq(expected), "{:?}", event.path);
        let around = match event.name.strip_prefix("depth ") {
            _ if event.kind.is_life() => 0,
            Some(depth) => depth.parse().unwrap(),
            None => event.field("around").and_then(Field::number).unwrap() as usize,
        };
        wrong += u64::from(event.path.len() != around);
        descents += u32::from(event.name == "depth 0" && !event.kind.is_life());
        if descents == STRETCH {
            stretches.push(std::mem::take(&mut wrong));
            descents = 0;
        }
    }
    let all_stretches = DESCENTS / STRETCH as usize;
    // Behind the last there are lives at most.
    assert_eq!((seen, stretches.len(), wrong), (summary.stored, all_stretches, 0));
    // A span that began between the drain's looks at the stack and at the ring is not known yet.
    // How many events that costs is a matter of how long the drain is kept from its second look, and
    // so of a busy machine; but however long it is, they are of one stretch or two.
    let with_wrong = stretches.iter().filter(|wrong| **wrong > 0).count();
    assert!(with_wrong <= 4, "wrong paths in each stretch: {stretches:?}");
}

fn span_of_tracing(depth: usize) -> Span {
    match depth {
        0 => info_span!("depth 0"),
        1 => info_span!("depth 1"),
        2 => info_span!("depth 2"),
        3 => info_span!("depth 3"),
        4 => info_span!("depth 4"),
        _ => info_span!("depth 5"),
    }
}

#[test]
fn paths_are_those_of_the_file_whatever_the_ticks_cut() {
    child(|scene| {
        let (recorder, events) = recording(scene);
        let names: Vec<_> = (0..DEPTHS).map(|n| CallSite::named(&format!("depth {n}"))).collect();
        work(&|depth, within| {
            let _span = span!(site: names[depth]);
            within();
        });
        judge(recorder, &events);
    })
    .run()
    .succeeded();
}

#[test]
fn and_so_are_those_of_tracing() {
    child(|scene| {
        let (recorder, events) = recording(scene);
        Subscriber::new().install().unwrap();
        work(&|depth, within| span_of_tracing(depth).in_scope(within));
        judge(recorder, &events);
    })
    .run()
    .succeeded();
}

#[test]
fn and_those_of_spans_that_are_kept_and_entered_again_among_others() {
    child(|scene| {
        let (recorder, events) = recording(scene);
        Subscriber::new().install().unwrap();
        let kept: Vec<Span> = (0..DEPTHS).map(span_of_tracing).collect();
        let names: Vec<_> = (0..DEPTHS).map(|n| CallSite::named(&format!("depth {n}"))).collect();
        work(&|depth, within| match depth % 2 {
            0 => kept[depth].in_scope(within),
            _ => {
                let _span = span!(site: names[depth]);
                within();
            }
        });
        drop(kept);
        judge(recorder, &events);
    })
    .run()
    .succeeded();
}

#[test]
fn an_event_whose_parent_ends_many_events_later_has_its_path() {
    child(|scene| {
        let slow = Duration::from_millis(150);
        let recorder = scene.builder().ticks(slow, slow).start().unwrap();
        let (exporter, events) = ChannelExporter::new(1 << 20);
        recorder.attach(exporter, ExportFilter::all());
        thread::sleep(slow / 2);
        {
            let _outer = span!("outer");
            (0..11_000).for_each(|_| drop(span!("inner")));
        }
        thread::sleep(2 * slow);
        recorder.finish().unwrap();
        let inner: Vec<Event> = events.iter().filter(|event| event.name == "inner").collect();
        assert_eq!(inner.len(), 11_000);
        assert!(inner.iter().all(|event| event.path == ["outer"]));
    })
    .run()
    .succeeded();
}
