//! What an exporter took, what its filter left out and what it lost is all that it was fed,
//! however it ends.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use ringscope::{
    Recorder, event,
    handlers::{Event, ExportError, ExportFilter, MetricExporter},
    span,
};

use crate::child::{child, wait_until};

/// Waits at its first event until it may go on, and does something at its tenth.
struct Waits {
    gate: Arc<Mutex<()>>,
    calls: Arc<AtomicU64>,
    at_tenth: fn(&Mutex<()>) -> Result<(), ExportError>,
}

impl MetricExporter for Waits {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        match self.calls.fetch_add(1, Ordering::Relaxed) {
            0 => drop(self.gate.lock()),
            9 => (self.at_tenth)(&self.gate)?,
            _ => {}
        }
        Ok(())
    }
}

/// Has it fed a hundred events before it goes on.
fn feed(recorder: &Recorder) {
    for _ in 0..50 {
        drop(span!("token"));
        event!("other");
    }
    assert!(recorder.flush());
}

fn notes(recorder: Recorder) -> Vec<String> {
    recorder.finish().unwrap().problems.iter().map(ToString::to_string).collect()
}

#[test]
fn one_that_panics_or_fails_has_lost_what_it_was_at_and_what_waited() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        for at_tenth in [|_: &_| panic!("enough"), |_: &_| Err("enough".into())] {
            let waits = Waits { gate: Arc::clone(&gate), calls: Arc::default(), at_tenth };
            recorder.attach(waits, ExportFilter::all());
        }
        feed(&recorder);
        drop(closed);
        let mut notes = notes(recorder);
        notes.sort();
        let expected = [
            "exporter Waits: enough; it was dropped",
            "exporter Waits: events lost: 91",
            "exporter Waits: events lost: 91",
            "exporter Waits: panicked: enough; it was dropped",
        ];
        assert_eq!(notes, expected);
    })
    .run()
    .succeeded();
}

#[test]
fn one_that_ends_late_has_lost_the_rest_and_is_given_no_further_event() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let gate = Arc::new(Mutex::new(()));
        let second = |gate: &Mutex<()>| {
            drop(gate.lock());
            Ok(())
        };
        let calls: [Arc<AtomicU64>; 2] = Default::default();
        let [detached, finished] = calls.clone().map(|calls| {
            let waits = Waits { gate: Arc::clone(&gate), calls, at_tenth: second };
            recorder.attach(waits, ExportFilter::all().names("token"))
        });
        assert_ne!(detached, finished);
        feed(&recorder);
        wait_until("both to take what there is", || {
            calls.iter().all(|calls| calls.load(Ordering::Relaxed) == 50)
        });
        let closed = gate.lock().unwrap();
        calls.iter().for_each(|calls| calls.store(8, Ordering::Relaxed));
        feed(&recorder);
        let report = recorder.detach(detached).unwrap();
        assert!(report.dropped.is_some(), "{report:?}");
        // The ninth of the second fifty was taken, the tenth is what it was at.
        assert_eq!(report.exported, 51, "{report:?}");
        assert_eq!(report.exported + report.filtered + report.lost, 200, "{report:?}");
        let notes = notes(recorder);
        let dropped = "exporter Waits: did not come to its end within 2s; it was dropped";
        assert_eq!((&notes[0], &notes[2]), (&dropped.to_owned(), &dropped.to_owned()));
        assert_eq!(notes[1], format!("exporter Waits: events lost: {}", report.lost));
        assert_eq!(notes[1], notes[3]);
        drop(closed);
        thread::sleep(Duration::from_millis(300));
        let calls = calls.map(|calls| calls.load(Ordering::Relaxed));
        assert_eq!(calls, [10, 10], "they went on with what waited");
    })
    .run()
    .succeeded();
}
