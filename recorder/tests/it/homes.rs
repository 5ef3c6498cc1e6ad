//! Where a span began that ends on another thread, when the one it began on is gone.

use std::{
    fs::{self, File},
    path::Path,
    thread,
    time::Duration,
};

use ringscope::{Kind, Recorder, async_span, span, tracing::Subscriber};
use ringscope_format::{OwnedValue, Place, Trace};
use tracing::info_span;

use crate::{
    child::{End, child},
    load::Load,
    told::Told,
};

/// Runs on a thread of this name, which is gone when this returns.
fn on<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        thread::Builder::new().name(name.into()).spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

/// So many events, with time for the sealer in between.
fn fill(recorder: &Recorder, load: &mut Load, events: u64) {
    let all = load.produced() + events;
    while load.produced() < all {
        load.record(500);
        assert!(recorder.flush());
        thread::sleep(Duration::from_millis(3));
    }
}

/// Reads the file once for each of its chunks, with all the others gone: what is left still says
/// whose every track is.
#[track_caller]
fn chunks_explain_themselves(path: &Path) {
    let bytes = fs::read(path).unwrap();
    let trace = Trace::open(File::open(path).unwrap()).unwrap();
    let offsets: Vec<u64> = trace.chunks().iter().map(|chunk| offset(chunk.place)).collect();
    let alone = path.with_extension("alone");
    for &kept in &offsets {
        let mut bytes = bytes.clone();
        for &gone in offsets.iter().filter(|&&offset| offset != kept) {
            bytes[gone as usize..][..8].fill(0);
        }
        fs::write(&alone, bytes).unwrap();
        let told = Told::read_damaged(&alone);
        assert_eq!(told.trace.chunks().len(), 1);
    }
    assert!(offsets.len() > 1);
}

fn offset(place: Place) -> u64 {
    match place {
        Place::Sealed { offset, .. } => offset,
        Place::Raw { .. } => panic!("a finished file has no raw slots"),
    }
}

/// The files of a rotation but for the first. Which of them has what came last is not known: the
/// drain may come to the last one with nothing left to write.
fn later_files(end: &End) -> Vec<Told> {
    let count = end.files(".trace").len();
    assert!(count >= 2, "{count} files");
    (1..count).map(|number| Told::read(&end.path(&format!("run.{number}.trace")))).collect()
}

#[test]
fn a_later_file_of_a_rotation_says_on_which_thread_a_span_began() {
    let end = child(|scene| {
        let recorder = scene.builder().rotate_at(1 << 20).start().unwrap();
        Subscriber::new().install().unwrap();
        let (handed_on, task) = on("begins", || {
            let task = info_span!("task");
            task.in_scope(|| {});
            (async_span!("handed on"), task)
        });
        let still_open = on("begins too", || async_span!("still open"));
        fill(&recorder, &mut Load::new(1), 40_000);
        on("ends", || {
            task.in_scope(|| {});
            drop(task);
            handed_on.end();
        });
        recorder.finish().unwrap();
        drop(still_open);
    });
    let end = end.run().succeeded();
    let files = later_files(&end);
    let began_on = |name, is_it: fn(Kind) -> bool| -> Vec<_> {
        let of = |told: &Told| {
            let events = told.named(name).into_iter().filter(|event| is_it(event.kind));
            events.map(|event| told.thread_of(event).to_owned()).collect::<Vec<_>>()
        };
        files.iter().flat_map(of).collect()
    };
    assert_eq!(began_on("handed on", |_| true), ["begins"]);
    assert_eq!(began_on("task", |kind| kind != Kind::SLICE), ["begins"]);
    let last = files.last().unwrap();
    let open = last.trace.in_flight().unwrap();
    let open: Vec<u32> =
        open.iter().flat_map(|stack| &stack.spans).map(|span| span.track).collect();
    assert_eq!(open.len(), 1);
    assert_eq!(last.tracks[&open[0]], "begins too");
}

#[test]
fn a_flight_recorder_that_has_overwritten_it_still_says_on_which_thread_a_span_began() {
    let end = child(|scene| {
        let cap = 4 << 20;
        let builder = scene.builder().keep_last(Duration::from_secs(3_600), cap);
        let recorder = builder.start().unwrap();
        let handed_on = on("begins", || async_span!("handed on"));
        let waits = on("begins too", || async_span!("waits"));
        fill(&recorder, &mut Load::new(1), 40_000);
        recorder.dump().unwrap();
        handed_on.end();
        let summary = recorder.finish().unwrap();
        assert!(summary.overwritten > 10_000, "{}", summary.overwritten);
        drop(waits);
    });
    let end = end.run().succeeded();
    let told = end.trace();
    assert_eq!(told.thread_of(told.only("handed on")), "begins");
    chunks_explain_themselves(&end.path("run.trace"));
    let dump = Told::read(&end.path("run.dump-1-asked.trace"));
    let open = dump.trace.in_flight().unwrap();
    let open = open.iter().flat_map(|stack| &stack.spans).map(|span| &dump.tracks[&span.track]);
    let mut open: Vec<&String> = open.collect();
    open.sort();
    assert_eq!(open, ["begins", "begins too"]);
}

#[test]
fn as_many_spans_from_as_many_threads_as_a_chunk_can_hold_are_all_explained() {
    let end = child(|scene| {
        let recorder = scene.builder().ring_records(16_384).start().unwrap();
        let begun: Vec<_> = (0..3_000)
            .map(|n| {
                // Rings of threads that are gone are free again behind that.
                assert!(n % 100 != 0 || recorder.flush());
                on(&format!("thread {n} {}", "x".repeat(200)), || async_span!("handed on", n = n))
            })
            .collect();
        assert!(recorder.flush());
        begun.into_iter().for_each(|span| span.end());
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (3_000, 0));
    });
    let end = end.run().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up();
    for event in told.named("handed on") {
        let Some(OwnedValue::I64(n)) = event.field("n") else { panic!("{event:?}") };
        assert!(told.thread_of(event).starts_with(&format!("thread {n} x")));
    }
    chunks_explain_themselves(&end.path("run.trace"));
}

#[test]
fn spans_from_threads_of_the_longest_names_are_explained_slot_by_slot() {
    let end = child(|scene| {
        const SPANS: usize = 700; // one slot has room for half of their names
        let recorder = scene.builder().ring_records(4_096).start().unwrap();
        let long = "x".repeat(1_024);
        let begun: Vec<_> =
            (0..SPANS).map(|n| on(&format!("{n} {long}"), || async_span!("handed on"))).collect();
        begun.into_iter().for_each(|span| span.end());
        assert!(recorder.flush());
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (SPANS as u64, 0));
    });
    let end = end.run().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up();
    let events = told.named("handed on");
    assert!(events.iter().all(|event| told.thread_of(event).contains(" xxx")));
    let chunks = told.trace.chunks().len();
    assert!(chunks < 20, "{chunks} chunks");
    chunks_explain_themselves(&end.path("run.trace"));
}

#[test]
fn what_a_recording_has_of_spans_that_began_in_an_earlier_one() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        Subscriber::new().install().unwrap();
        let (handed_on, task) = on("begins", || {
            let task = info_span!("task");
            task.in_scope(|| {});
            task.in_scope(|| {});
            (async_span!("handed on"), task)
        });
        recorder.finish().unwrap();
        let recorder = Recorder::builder().path(scene.path("second.trace")).readings(None);
        let recorder = recorder.start().unwrap();
        drop(span!("first of its own"));
        task.in_scope(|| {});
        drop(task);
        handed_on.end();
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = Told::read(&end.path("second.trace"));
    told.is_finished_and_adds_up();
    // All that there is of it is what it did in this recording.
    assert_eq!(told.only("task").kind, Kind::SLICE);
    let handed_on = told.only("handed on");
    assert_eq!(told.thread_of(handed_on), "begins");
    assert!(handed_on.start < told.only("first of its own").start);
}
