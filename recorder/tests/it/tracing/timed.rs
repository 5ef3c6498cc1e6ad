//! What statistics and slow warnings take for a call: not how long a span was kept.

use std::{
    io::{self, Write},
    pin::pin,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use ringscope::{
    CallSite, DeviceQueue,
    handlers::{ConsoleExporter, ExportFilter},
    statistics::LatencyOf,
    vocabulary::{KernelCompleted, KernelDispatched},
};
use tracing::{Instrument, info_span};

use super::{Once, poll, recording};
use crate::child::{child, wait_until};

const LONG: Duration = Duration::from_millis(200);

/// A span that is kept and entered ten times within others, as those of candle's models,
/// and a future that waits; both last for longer than any of their slices.
fn kept_and_waiting() {
    let kept = info_span!("attention");
    for _ in 0..10 {
        info_span!("block").in_scope(|| kept.in_scope(|| ()));
    }
    {
        let mut request = pin!(Once::default().instrument(info_span!("request")));
        assert!(poll(request.as_mut()).is_pending());
        thread::sleep(LONG);
        assert!(poll(request.as_mut()).is_ready());
    }
    drop(kept);
}

#[test]
fn statistics_count_calls_and_tasks_and_launches_and_kernels_apart() {
    child(|scene| {
        let recorder = recording(scene);
        let statistics = recorder.statistics(Duration::from_secs(600));
        kept_and_waiting();
        let kernel = CallSite::named("sdpa");
        let launch = KernelDispatched::new().kernel(kernel).record();
        let done = KernelCompleted::new().kernel(kernel).queue(DeviceQueue::named("GPU 0"));
        done.link(launch).duration(Duration::from_micros(5)).record();
        recorder.flush();
        let find = |name: &str, of: LatencyOf| {
            statistics.by_name().into_iter().find(|row| row.path == [name] && row.of == of)
        };
        wait_until("the kernel", || find("sdpa", LatencyOf::Work).is_some());
        let count = |name: &str, of: LatencyOf| find(name, of).map_or(0, |row| row.count);
        assert_eq!((count("sdpa", LatencyOf::Launches), count("sdpa", LatencyOf::Work)), (1, 1));
        assert_eq!(count("block", LatencyOf::Calls), 10);
        // Not in a row of its own either: nobody asks how long a model was kept.
        let attention = find("attention", LatencyOf::Calls).unwrap();
        assert_eq!((attention.count, count("attention", LatencyOf::Tasks)), (10, 0));
        assert!(attention.max < LONG, "{attention:?}");
        // Two polls, and the drop of what was polled.
        let polls = find("request", LatencyOf::Calls).unwrap();
        let whole = find("request", LatencyOf::Tasks).unwrap();
        assert_eq!((polls.count, whole.count), (3, 1));
        assert!(polls.max < LONG && whole.max >= LONG, "{polls:?} {whole:?}");
        let paths = statistics.by_path();
        let rows = paths.iter().map(|row| (row.path.join(" > "), row.of, row.count));
        let expected = [
            ("GPU 0 > sdpa", LatencyOf::Work, 1),
            ("block", LatencyOf::Calls, 10),
            ("block > attention", LatencyOf::Calls, 10),
            ("request", LatencyOf::Calls, 3),
            ("request", LatencyOf::Tasks, 1),
            ("sdpa", LatencyOf::Launches, 1),
        ];
        assert!(rows.eq(expected.map(|(path, of, n)| (path.to_owned(), of, n))), "{paths:#?}");
        recorder.finish().unwrap();
    })
    .run()
    .succeeded();
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_task_is_warned_of_when_it_is_slow_and_a_span_that_was_kept_is_not() {
    child(|scene| {
        let recorder = recording(scene);
        let lines = Lines::default();
        let console = ConsoleExporter::to(lines.clone()).slow(LONG).only_slow();
        recorder.attach(console, ExportFilter::all());
        kept_and_waiting();
        recorder.finish().unwrap();
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains(" slow: request ") && text.contains(" slices=3"), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    })
    .run()
    .succeeded();
}
