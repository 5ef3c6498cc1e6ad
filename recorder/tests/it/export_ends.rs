//! However an exporter ends, why is noted, and it never waits for itself.

use std::{
    fmt,
    fs::File,
    panic::panic_any,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        mpsc::{self, Sender},
    },
    thread,
    time::Duration,
};

use ringscope::{
    Recorder, event,
    handlers::{Event, ExportError, ExportFilter, ExportReport, ExporterId, MetricExporter},
    span,
};

use crate::child::{child, wait_until};

/// Neither says what it is nor lets itself be dropped.
#[derive(Debug)]
struct Wicked;

impl fmt::Display for Wicked {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl std::error::Error for Wicked {}

impl Drop for Wicked {
    fn drop(&mut self) {
        panic_any(Wicked)
    }
}

/// Does something at its first event.
struct Does(fn() -> Result<(), ExportError>);

impl MetricExporter for Does {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        (self.0)()
    }
}

/// What is noted of one that was fed one event.
fn notes_of(recorder: Recorder, exporter: impl MetricExporter) -> Vec<String> {
    let id = recorder.attach(exporter, ExportFilter::all());
    drop(span!("token"));
    recorder.flush();
    // Finishing waits two seconds, and on a busy machine a panic takes long to print.
    let is_done = |it: ExportReport| it.exported == 1 || it.dropped.is_some();
    wait_until("it to be done", || recorder.export_report(id).is_none_or(is_done));
    let summary = recorder.finish().unwrap();
    summary.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn an_error_that_panics_when_it_is_shown_or_dropped_is_noted() {
    child(|scene| {
        let does = Does(|| Err(Wicked.into()));
        let notes = notes_of(scene.builder().start().unwrap(), does);
        let why = "failed, and panicked when asked why: no words";
        let expected = format!("exporter Does: {why}; it was dropped");
        assert_eq!(notes, [expected.as_str(), "exporter Does: events lost: 1"]);
    })
    .run()
    .succeeded();
}

#[test]
fn a_panic_that_panics_when_it_is_dropped_is_noted() {
    child(|scene| {
        let notes = notes_of(scene.builder().start().unwrap(), Does(|| panic_any(Wicked)));
        let expected = "exporter Does: panicked: (not a text); it was dropped";
        assert_eq!(notes, [expected, "exporter Does: events lost: 1"]);
    })
    .run()
    .succeeded();
}

/// Takes everything, and does not let itself be named or dropped.
struct Stays;

impl MetricExporter for Stays {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        Ok(())
    }

    fn name(&self) -> String {
        panic_any(Wicked)
    }
}

impl Drop for Stays {
    fn drop(&mut self) {
        panic_any(Wicked)
    }
}

#[test]
fn one_whose_name_and_drop_panic_has_come_to_its_end_all_the_same() {
    child(|scene| {
        let notes = notes_of(scene.builder().start().unwrap(), Stays);
        assert_eq!(notes, [""; 0]);
    })
    .run()
    .succeeded();
}

/// Detaches itself at its first event.
struct Leaves {
    gate: Arc<Mutex<()>>,
    itself: Arc<OnceLock<(Weak<Recorder>, ExporterId)>>,
    left: Sender<Option<ExportReport>>,
    seen: Arc<Mutex<Vec<&'static str>>>,
}

impl MetricExporter for Leaves {
    fn export(&mut self, event: &Event) -> Result<(), ExportError> {
        let is_first = self.seen.lock().unwrap().is_empty();
        self.seen.lock().unwrap().push(event.name);
        if is_first {
            drop(self.gate.lock());
            let (recorder, id) = self.itself.get().unwrap();
            let recorder = recorder.upgrade().unwrap();
            let report = recorder.detach(*id);
            assert!(recorder.detach(*id).is_none(), "it is still attached");
            drop(recorder);
            self.left.send(report)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ExportError> {
        self.seen.lock().unwrap().push("end");
        Ok(())
    }
}

#[test]
fn one_that_detaches_itself_does_not_wait_and_comes_to_its_end() {
    child(|scene| {
        let recorder = Arc::new(scene.builder().start().unwrap());
        let (left, has_left) = mpsc::channel();
        let (gate, seen) = (Arc::new(Mutex::new(())), Arc::default());
        let (itself, closed) = (Arc::new(OnceLock::new()), gate.lock().unwrap());
        let leaves = Leaves {
            gate: Arc::clone(&gate),
            itself: Arc::clone(&itself),
            left,
            seen: Arc::clone(&seen),
        };
        let id = recorder.attach(leaves, ExportFilter::all());
        itself.set((Arc::downgrade(&recorder), id)).unwrap();
        event!("first");
        event!("second");
        assert!(recorder.flush());
        drop(closed);
        let report = has_left.recv().unwrap().unwrap();
        assert_eq!((report.exported, report.lost, report.dropped), (0, 0, None));
        event!("third");
        let summary = Arc::into_inner(recorder).unwrap().finish().unwrap();
        assert!(summary.problems.is_empty(), "{summary}");
        assert_eq!(*seen.lock().unwrap(), ["first", "second", "end"]);
    })
    .run()
    .succeeded();
}

/// Detaches itself, and then cannot go on.
struct LeavesInAHurry(Arc<OnceLock<(Weak<Recorder>, ExporterId)>>, Sender<()>);

impl MetricExporter for LeavesInAHurry {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        let (recorder, id) = self.0.wait();
        recorder.upgrade().unwrap().detach(*id).unwrap();
        self.1.send(())?;
        Err("slammed the door".into())
    }

    fn name(&self) -> String {
        "leaves".to_owned()
    }
}

#[test]
fn what_goes_wrong_after_one_has_detached_itself_is_noted() {
    child(|scene| {
        let recorder = Arc::new(scene.builder().start().unwrap());
        for _ in 0..2 {
            let (itself, (left, has_left)) = (Arc::new(OnceLock::new()), mpsc::channel());
            let leaves = LeavesInAHurry(Arc::clone(&itself), left);
            let id = recorder.attach(leaves, ExportFilter::all());
            itself.set((Arc::downgrade(&recorder), id)).unwrap();
            event!("first");
            has_left.recv().unwrap();
        }
        let summary = Arc::into_inner(recorder).unwrap().finish().unwrap();
        let notes: Vec<String> = summary.problems.iter().map(ToString::to_string).collect();
        let each = [
            "exporter leaves: slammed the door; it was dropped",
            "exporter leaves: events lost: 1",
        ];
        assert_eq!(notes, [each, each].concat());
    })
    .run()
    .succeeded();
}

/// Ends the recording at its first event.
struct Ends(Arc<Mutex<Option<Recorder>>>, Sender<usize>);

impl MetricExporter for Ends {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        let Some(recorder) = self.0.lock().unwrap().take() else { return Ok(()) };
        self.1.send(recorder.finish()?.problems.len())?;
        Ok(())
    }
}

#[test]
fn one_that_ends_the_recording_is_not_waited_for_by_itself() {
    child(|scene| {
        let recorder = Arc::new(Mutex::new(Some(scene.builder().start().unwrap())));
        let (ended, has_ended) = mpsc::channel();
        let ends = Ends(Arc::clone(&recorder), ended);
        recorder.lock().unwrap().as_ref().unwrap().attach(ends, ExportFilter::all());
        event!("first");
        assert_eq!(has_ended.recv().unwrap(), 0);
    })
    .run()
    .succeeded();
}

/// Detaches itself at its first event, when the recording has been about to end for so long; and
/// leaves a file behind at its end.
struct LeavesAtTheEnd {
    itself: Arc<OnceLock<(Arc<Recorder>, ExporterId)>>,
    at_work: Sender<()>,
    after: Duration,
    end: PathBuf,
}

impl MetricExporter for LeavesAtTheEnd {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        let (recorder, id) = self.itself.wait();
        self.at_work.send(())?;
        while span!("is it still recorded?").is_recording() {
            thread::sleep(Duration::from_micros(100));
        }
        thread::sleep(self.after);
        recorder.detach(*id);
        Ok(())
    }

    fn end(&mut self) -> Result<(), ExportError> {
        File::create_new(&self.end)?;
        Ok(())
    }
}

#[test]
fn one_that_detaches_itself_while_the_recording_ends_comes_to_its_end() {
    const EXPORTERS: u64 = 16;
    let end = child(|scene| {
        let slow = Duration::from_secs(1);
        let builder = scene.builder().ring_records(1 << 20).ticks(slow, slow);
        let recorder = Arc::new(builder.start().unwrap());
        let (at_work, are_at_work) = mpsc::channel();
        for number in 0..EXPORTERS {
            let itself = Arc::new(OnceLock::new());
            let leaves = LeavesAtTheEnd {
                itself: Arc::clone(&itself),
                at_work: at_work.clone(),
                after: Duration::from_micros(250 * number),
                end: scene.path(&format!("{number}.end")),
            };
            let id = recorder.attach(leaves, ExportFilter::all().names("first"));
            assert!(itself.set((Arc::clone(&recorder), id)).is_ok());
        }
        event!("first");
        recorder.flush();
        (0..EXPORTERS).for_each(|_| are_at_work.recv().unwrap());
        // So much that the drain's last pass takes a while: who asks it for another meanwhile
        // waits in vain. The recording ends with the process, as the exporters have it, too.
        (0..25_000).for_each(|_| event!("rest"));
        std::mem::forget(recorder);
    });
    for _ in 0..3 {
        let end = end.another().run().succeeded();
        assert_eq!(end.files(".end").len() as u64, EXPORTERS);
        end.trace().is_finished_and_adds_up();
    }
}
