//! Traces for tests.

use std::{fs::File, io::BufWriter, path::Path};

use ringscope_format::{FileHeader, Kind, Record, TraceWriter, TrackKind};

/// One recording at a time in a process: tests that record take this first.
pub(crate) static RECORDING: std::sync::Mutex<()> = std::sync::Mutex::new(());

pub(crate) type Writer = TraceWriter<BufWriter<File>>;

/// A header whose ticks are nanoseconds.
pub(crate) fn header() -> FileHeader {
    let header = FileHeader::converted(*b"analyzer's tests", 1_700_000_000_000_000_000);
    FileHeader { pid: 42, ..header }
}

/// A trace file with what `fill` writes.
pub(crate) fn trace(path: &Path, fill: impl FnOnce(&mut Writer)) {
    let file = BufWriter::new(File::create(path).expect("a file in a temporary directory"));
    let mut writer = TraceWriter::new(file, header()).expect("a header");
    fill(&mut writer);
    writer.finish().expect("a trace");
}

/// Two tokens on one thread, each with a `decode` inside, and a failed `load`.
pub(crate) fn tokens(path: &Path) {
    trace(path, |writer| {
        let main = writer.track(TrackKind::Thread, 7, "main");
        let (token, decode, load) =
            (writer.name("token"), writer.name("decode"), writer.name("load"));
        let mut span = |name, depth, start, duration, status| {
            let record =
                Record { depth, status, ..Record::timed(Kind::SPAN, name, main, start, duration) };
            writer.event(record, &[], &[]).expect("an event");
        };
        use ringscope_format::Status;
        span(load, 0, 0, 5_000_000, Status::ERROR);
        for start in [10_000_000, 20_000_000] {
            span(decode, 1, start + 100_000, 1_000_000, Status::UNKNOWN);
            span(token, 0, start, 1_500_000, Status::UNKNOWN);
        }
    });
}

pub(crate) const THREAD: TrackKind = TrackKind::Thread;

/// A span at depth 0.
pub(crate) fn span(name: u32, track: u32, start: u64, duration: u64) -> Record {
    Record::timed(Kind::SPAN, name, track, start, duration)
}
