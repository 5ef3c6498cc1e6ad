//! Which threads exporters see events on: the one that recorded it, and where it began if that
//! was another, by name and by number.

use std::{fs, sync::mpsc, thread};

use ringscope::{
    async_span,
    handlers::{ChannelExporter, Event, ExportFilter},
    span,
    tracing::Subscriber,
};
use tracing::info_span;

use crate::child::child;

/// Runs on a thread of this name, which is gone when this returns.
fn on<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        thread::Builder::new().name(name.into()).spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

/// Name, the thread that it ended on, and the one that it began on if that was another.
fn summed_up(event: &Event) -> (&str, &str, Option<&str>) {
    (event.name, &event.track, event.began_on.as_ref().map(|began| &*began.track))
}

#[test]
fn what_ended_on_another_thread_says_where_it_began_whether_or_not_that_is_still_there() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (exporter, events) = ChannelExporter::new(1 << 10);
        recorder.attach(exporter, ExportFilter::all());
        Subscriber::new().install().unwrap();
        let (gone, sent) = on("gone", || {
            let sent = info_span!("sent");
            sent.in_scope(|| ());
            (async_span!("of one that is gone"), sent)
        });
        let ((tell, told), (go, wait)) = (mpsc::channel(), mpsc::channel::<()>());
        let there = thread::Builder::new().name("there".into()).spawn(move || {
            tell.send(async_span!("of one that is there")).unwrap();
            let _ = wait.recv();
        });
        let of_there = told.recv().unwrap();
        on("ends", || {
            gone.end();
            of_there.end();
            drop(sent);
            async_span!("stays").end();
            drop(span!("plain"));
        });
        assert!(recorder.flush());
        drop(go);
        there.unwrap().join().unwrap();
        recorder.finish().unwrap();
        let events: Vec<Event> = events.iter().collect();
        let summed_up: Vec<_> = events.iter().map(summed_up).collect();
        let expected = [
            ("sent", "gone", None),
            ("of one that is gone", "ends", Some("gone")),
            ("of one that is there", "ends", Some("there")),
            ("sent", "ends", Some("gone")),
            ("stays", "ends", None),
            ("plain", "ends", None),
        ];
        assert_eq!(summed_up, expected);
        assert!(events[3].kind.is_life() && events[3].path.is_empty());
        let began = |at: usize| events[at].began_on.as_ref().unwrap().track_id;
        assert_eq!((began(1), began(3)), (events[0].track_id, events[0].track_id));
        assert!(events[1..].iter().all(|event| event.track_id == events[1].track_id));
    })
    .run()
    .succeeded();
}

#[test]
fn json_lines_tell_threads_of_one_name_apart_as_the_trace_does() {
    let end = child(|scene| {
        let recorder = scene.builder().jsonl(scene.path("run.jsonl")).start().unwrap();
        let first = on("worker", || (drop(span!("first")), async_span!("moves")).1);
        // Told of before its lane is another's: both threads have one of the same ring.
        assert!(recorder.flush());
        on("worker", || {
            drop(span!("second"));
            first.end();
        });
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = end.trace();
    let lines = fs::read_to_string(end.path("run.jsonl")).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<serde_json::Value> = lines.collect();
    let line = |name: &str| lines.iter().find(|line| line["name"] == name).unwrap();
    let (first, second) = (told.only("first").track, told.only("second").track);
    assert_ne!(first, second);
    for (name, track) in [("first", first), ("second", second), ("moves", second)] {
        assert_eq!(
            (&line(name)["track"], &line(name)["track_id"]),
            (&"worker".into(), &track.into())
        );
    }
    let moves = line("moves");
    assert_eq!((&moves["began_on"], &moves["began_on_id"]), (&"worker".into(), &first.into()));
    assert_eq!(told.only("moves").track, first);
    assert!(line("first").get("began_on").is_none());
}
