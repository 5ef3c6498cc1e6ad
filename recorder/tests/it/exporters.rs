//! Exporters see everything with its path and fields, and can harm nothing but themselves.

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::Receiver,
    },
    thread,
    time::{Duration, Instant},
};

use ringscope::{
    DeviceQueue, Kind, Problem, Recorder, Summary, async_span, counter, error, event,
    handlers::{
        ChannelExporter, ConsoleExporter, Event, ExportError, ExportFilter, ExportReport, Field,
        JsonlExporter, MetricExporter,
    },
    span,
    vocabulary::{CacheHit, CorrelationId, KernelCompleted},
};

use crate::child::{child, wait_until};

fn watch(recorder: &Recorder, filter: ExportFilter) -> Receiver<Event> {
    let (exporter, events) = ChannelExporter::new(1 << 20);
    recorder.attach(exporter, filter);
    events
}

pub(crate) fn notes(summary: &Summary) -> Vec<String> {
    let is_note = |problem: &&Problem| matches!(problem, Problem::Exporter(_));
    summary.problems.iter().filter(is_note).map(ToString::to_string).collect()
}

#[test]
fn an_event_comes_with_its_path_and_fields_also_while_its_spans_are_open() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let events = watch(&recorder, ExportFilter::all());
        let request = CorrelationId::random();
        {
            let _generate = span!("generate", tokens = 3);
            for token in 0..3_u64 {
                let _forward = span!("forward", token = token);
                let _working = request.enter();
                CacheHit::new().cache(ringscope::name!("kv")).key("layer 0").record();
                error!("decode failed", reason = "no such token");
                assert!(recorder.flush());
            }
        }
        let queue = DeviceQueue::named("GPU 0 queue 0");
        KernelCompleted::new().queue(queue).duration(Duration::from_millis(1)).record();
        counter!("tokens", 128_u64);
        thread::spawn(|| async_span!("request").end()).join().unwrap();
        recorder.finish().unwrap();
        let events: Vec<Event> = events.iter().collect();
        let names: Vec<String> = events
            .iter()
            .map(|it| it.path.iter().chain([&it.name]).copied().collect::<Vec<_>>().join(" > "))
            .collect();
        let token = [
            "generate > forward > cache.hit",
            "generate > forward > decode failed",
            "generate > forward > request.scope",
            "generate > forward",
        ];
        let mut expected: Vec<&str> = [token, token, token].concat();
        expected.extend(["generate", "kernel", "tokens", "request"]);
        assert_eq!(names, expected);
        let requests = [0, 1, 2, 3].map(|at| events[at].request);
        // The plain one is told of before anybody knows for whom it was.
        assert_eq!(requests, [Some(request), None, Some(request), None]);
        assert_eq!(events[0].field("cache"), Some(&Field::Name("kv")));
        assert_eq!(events[1].field("reason"), Some(&Field::Text("no such token".into())));
        assert!(events[1].is_error() && !events[3].is_error());
        assert_eq!(
            (events[7].field("token"), &events[13].track[..]),
            (Some(&Field::U64(1)), "GPU 0 queue 0")
        );
        let took = events[13].duration.unwrap().as_secs_f64();
        assert!((took / 1e-3 - 1.0).abs() < 0.01, "{took}");
        assert_eq!(events[14].value, Some(Field::U64(128)));
        let ago = events[0].at.elapsed().unwrap();
        assert!(ago < Duration::from_secs(60), "{ago:?}");
    })
    .run()
    .succeeded();
}

#[test]
fn exporters_come_and_go_by_their_ids_each_with_its_filter() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (all, all_events) = ChannelExporter::new(1_000);
        let (slow, slow_events) = ChannelExporter::new(1_000);
        let all = recorder.attach(all, ExportFilter::all());
        let slow = recorder
            .attach(slow, ExportFilter::all().names("lo*").at_least(Duration::from_millis(5)));
        let errors = watch(&recorder, ExportFilter::all().only_errors());
        assert_ne!(all, slow);
        drop(span!("load"));
        let report = recorder.detach(all).unwrap();
        assert_eq!((report.exported, report.lost, report.dropped), (1, 0, None));
        assert!(recorder.detach(all).is_none());
        {
            let mut load = span!("load");
            thread::sleep(Duration::from_millis(6));
            load.fail();
        }
        let report = recorder.detach(slow).unwrap();
        assert_eq!((report.exported, report.filtered), (1, 1));
        assert!(notes(&recorder.finish().unwrap()).is_empty());
        let count = |events: Receiver<Event>| events.iter().count();
        assert_eq!((count(all_events), count(slow_events), count(errors)), (1, 1, 1));
    })
    .run()
    .succeeded();
}

#[test]
fn a_filter_of_kinds_takes_those_and_counts_the_rest() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let kinds = ExportFilter::all().kind(Kind::ERROR).kind(Kind::COUNTER);
        let (exporter, events) = ChannelExporter::new(10);
        let id = recorder.attach(exporter, kinds);
        {
            let _span = span!("span");
            event!("event");
            error!("error");
        }
        counter!("counter", 1_u64);
        let report = recorder.detach(id).unwrap();
        assert_eq!((report.exported, report.filtered, report.lost), (2, 2, 0));
        let names: Vec<&str> = events.iter().map(|event| event.name).collect();
        assert_eq!(names, ["error", "counter"]);
        recorder.finish().unwrap();
    })
    .run()
    .succeeded();
}

struct Panics(u32);

impl MetricExporter for Panics {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        self.0 -= 1;
        assert!(self.0 > 0, "enough of this");
        Ok(())
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("not even dropped in peace");
    }
}

#[test]
fn one_that_panics_is_dropped_with_a_note_and_harms_nobody() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let id = recorder.attach(Panics(10), ExportFilter::all());
        let events = watch(&recorder, ExportFilter::all());
        for _ in 0..100 {
            drop(span!("token"));
            recorder.flush();
        }
        // Finishing waits two seconds, and on a busy machine a panic takes long to print.
        let is_dropped = |it: ExportReport| it.dropped.is_some();
        wait_until("it to be dropped", || recorder.export_report(id).is_none_or(is_dropped));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (100, 0));
        assert_eq!(events.iter().count(), 100);
        let notes = notes(&summary);
        assert_eq!(notes[0], "exporter Panics: panicked: enough of this; it was dropped");
        assert!(notes[1].starts_with("exporter Panics: events lost: "), "{notes:?}");
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!((told.named("token").len(), told.named("panic").len()), (100, 0));
}

/// Blocks at its first event until it is let go.
struct Blocks(Arc<Mutex<()>>);

impl MetricExporter for Blocks {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        drop(self.0.lock());
        Ok(())
    }
}

#[test]
fn one_that_blocks_is_dropped_with_a_note_and_delays_nobody() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let gate = Arc::new(Mutex::new(()));
        let closed = gate.lock().unwrap();
        let id = recorder.attach(Blocks(Arc::clone(&gate)), ExportFilter::all());
        let (other, received) = ChannelExporter::new(1 << 20);
        let other = recorder.attach(other, ExportFilter::all().names("last"));
        let begun = Instant::now();
        let (mut recorded, mut flushed_beside_it) = (0_u64, 0);
        while recorder.export_report(id).is_some() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is still attached");
            for _ in 0..1_000 {
                drop(span!("token"));
            }
            recorded += 1_000;
            assert!(recorder.flush());
            flushed_beside_it += u32::from(recorder.export_report(id).is_some());
            // So that the other one can keep up, on a machine that is busy too.
            thread::sleep(Duration::from_millis(5));
        }
        // Its queue takes 131 of them: a flush that waited for it would come back when it is gone.
        assert!(flushed_beside_it > 100, "{flushed_beside_it}");
        drop(span!("last"));
        let report = recorder.detach(other).unwrap();
        assert_eq!((report.exported, report.lost), (1, 0));
        assert_eq!(received.iter().count(), 1);
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (recorded + 1, 0));
        let notes = notes(&summary);
        assert_eq!(notes[0], "exporter Blocks: blocked for more than 2s; it was dropped");
        // All that came until it was dropped, which was in the midst of the last thousand.
        let lost: u64 =
            notes[1].strip_prefix("exporter Blocks: events lost: ").unwrap().parse().unwrap();
        assert!((recorded - 999..=recorded).contains(&lost), "{lost} of {recorded}");
        drop(closed);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn one_that_never_comes_to_its_end_does_not_keep_the_recording_from_ending() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let gate = Arc::new(Mutex::new(()));
        let _closed = gate.lock().unwrap();
        recorder.attach(Blocks(Arc::clone(&gate)), ExportFilter::all());
        drop(span!("token"));
        let begun = Instant::now();
        let summary = recorder.finish().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        let expected = "exporter Blocks: did not come to its end within 2s; it was dropped";
        assert_eq!(notes(&summary), [expected, "exporter Blocks: events lost: 1"]);
    })
    .run()
    .succeeded();
}

#[test]
fn however_many_never_come_to_their_end_the_recording_waits_once() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let gate = Arc::new(Mutex::new(()));
        let _closed = gate.lock().unwrap();
        for _ in 0..5 {
            recorder.attach(Blocks(Arc::clone(&gate)), ExportFilter::all());
        }
        drop(span!("token"));
        let begun = Instant::now();
        let summary = recorder.finish().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        let notes = notes(&summary);
        let expected = "exporter Blocks: did not come to its end within 2s; it was dropped";
        assert_eq!(notes.iter().filter(|note| *note == expected).count(), 5, "{notes:?}");
    })
    .run()
    .succeeded();
}

/// Takes its time.
struct Slow;

impl MetricExporter for Slow {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        thread::sleep(Duration::from_micros(20));
        Ok(())
    }
}

#[test]
fn a_slow_one_loses_its_own_events_counted_and_no_one_elses() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let slow = recorder.attach(Slow, ExportFilter::all());
        let (quick, quick_events) = ChannelExporter::new(1 << 20);
        let quick = recorder.attach(quick, ExportFilter::all().names("every thousandth"));
        for n in 0..400_000 {
            drop(span!("token"));
            if n % 1_000 == 0 {
                event!("every thousandth");
                recorder.flush();
            }
        }
        let report = recorder.export_report(slow).unwrap();
        assert!(report.lost > 0, "{report:?}");
        let report = recorder.detach(quick).unwrap();
        assert_eq!(report.exported + report.filtered + report.lost, 400_400);
        assert_eq!(report.exported, quick_events.iter().count() as u64);
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (400_400, 0));
        // What it does not come to at the end is lost too, and then it was dropped.
        let notes = notes(&summary);
        let counted = ["Slow: too slow for ", "Slow: events lost: "];
        assert!(notes.iter().any(|note| counted.iter().any(|it| note.contains(it))), "{notes:?}");
    })
    .run()
    .succeeded();
}

/// Records what it does, as an instrumented program would.
struct Recording(Arc<AtomicU64>, Arc<AtomicBool>);

impl MetricExporter for Recording {
    fn export(&mut self, event: &Event) -> Result<(), ExportError> {
        let _span = span!("exporting");
        event!("exported");
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.fetch_or(event.name != "token", Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn what_an_exporter_records_does_not_come_back_to_it() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (count, strange) = (Arc::default(), Arc::default());
        let id = recorder
            .attach(Recording(Arc::clone(&count), Arc::clone(&strange)), ExportFilter::all());
        (0..100).for_each(|_| drop(span!("token")));
        recorder.detach(id);
        let summary = recorder.finish().unwrap();
        assert_eq!((count.load(Ordering::Relaxed), strange.load(Ordering::Relaxed)), (100, false));
        assert_eq!((summary.stored, summary.own), (100, 200));
    })
    .run()
    .succeeded();
}

#[test]
fn a_channel_whose_receiver_is_gone_ends_its_exporter_and_a_full_one_counts() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (gone, receiver) = ChannelExporter::new(10);
        recorder.attach(gone, ExportFilter::all());
        drop(receiver);
        let (full, kept) = ChannelExporter::new(10);
        let missed = full.missed();
        let full = recorder.attach(full, ExportFilter::all());
        (0..100).for_each(|_| drop(span!("token")));
        let report = recorder.detach(full).unwrap();
        assert_eq!((report.exported, report.lost, report.dropped), (10, 90, None));
        assert_eq!((kept.iter().count(), missed.load(Ordering::Relaxed)), (10, 90));
        let notes = notes(&recorder.finish().unwrap());
        let has = |note: &str| notes.iter().any(|it| it == note);
        assert!(has("exporter ChannelExporter: its receiver is gone; it was dropped"), "{notes:?}");
        assert!(has("exporter ChannelExporter: too slow for 90 events"), "{notes:?}");
    })
    .run()
    .succeeded();
}

/// Lines written by an exporter that may be shared with a test.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_console_has_one_line_an_event_and_says_what_is_slow() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let lines = Lines::default();
        let console = ConsoleExporter::to(lines.clone()).slow(Duration::from_millis(5));
        recorder.attach(console, ExportFilter::all());
        {
            let _outer = span!("outer");
            error!("failed", reason = "two\nlines \u{1b}[31m");
            thread::sleep(Duration::from_millis(6));
        }
        counter!("tokens", 5_u64);
        recorder.finish().unwrap();
        let bytes = lines.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        // Times and the thread's name are in front.
        assert!(
            lines[0].ends_with("error outer > failed reason=two\u{FFFD}lines \u{FFFD}[31m"),
            "{text}"
        );
        assert!(lines[1].contains("slow: outer ") && lines[1].ends_with(", over 5ms"), "{text}");
        assert!(lines[2].ends_with(" tokens +5"), "{text}");
        assert_eq!(lines[2].as_bytes()[2], b':');
    })
    .run()
    .succeeded();
}

#[test]
fn console_and_json_lines_are_written_while_the_program_runs() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (lines, path) = (Lines::default(), scene.path("run.jsonl"));
        recorder.attach(ConsoleExporter::to(lines.clone()), ExportFilter::all());
        recorder.attach(JsonlExporter::create(&path).unwrap(), ExportFilter::all());
        event!("one");
        let is_whole = |bytes: &[u8]| bytes.ends_with(b"\n");
        wait_until("a line on the console", || is_whole(&lines.0.lock().unwrap()));
        wait_until("a line of JSON", || is_whole(&fs::read(&path).unwrap()));
        recorder.finish().unwrap();
    })
    .run()
    .succeeded();
}

/// Counts how often it is flushed.
struct Flushes(Arc<AtomicU64>);

impl MetricExporter for Flushes {
    fn export(&mut self, _: &Event) -> Result<(), ExportError> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn an_exporter_is_flushed_every_second_also_while_events_never_pause() {
    child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let flushes = Arc::new(AtomicU64::new(0));
        recorder.attach(Flushes(Arc::clone(&flushes)), ExportFilter::all());
        wait_until("three flushes", || {
            event!("again");
            flushes.load(Ordering::Relaxed) >= 3
        });
        recorder.finish().unwrap();
    })
    .run()
    .succeeded();
}
