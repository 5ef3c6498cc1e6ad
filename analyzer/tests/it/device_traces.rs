//! Traces with work of devices, made for tests.

use std::{collections::BTreeMap, fs::File, path::PathBuf};

use ringscope_format::{Kind, Record, TraceWriter, TrackKind, Value};
use tempfile::TempDir;

/// A trace that is being made. Its clock ticks once a nanosecond.
pub(crate) struct Made {
    writer: TraceWriter<File>,
    path: PathBuf,
    threads: BTreeMap<&'static str, u32>,
    queues: BTreeMap<&'static str, u32>,
}

impl Made {
    pub(crate) fn new(folder: &TempDir, file: &str) -> Self {
        let path = folder.path().join(file);
        let writer =
            TraceWriter::new(File::create(&path).unwrap(), crate::making::header()).unwrap();
        Self { writer, path, threads: BTreeMap::new(), queues: BTreeMap::new() }
    }

    pub(crate) fn host(&mut self, kind: Kind, name: &str, times: (u64, u64), link: u32) {
        let track = *self
            .threads
            .entry("main")
            .or_insert_with(|| self.writer.track(TrackKind::Thread, 1, "main"));
        let name = self.writer.name(name);
        let record = Record { link, ..Record::timed(kind, name, track, times.0, times.1) };
        self.writer.event(record, &[], &[]).unwrap();
    }

    pub(crate) fn launch(&mut self, start: u64, link: u32) {
        self.host(Kind::LAUNCH, "launch", (start, 3), link);
    }

    pub(crate) fn work(
        &mut self,
        kind: Kind,
        name: &str,
        queue: &'static str,
        times: (u64, u64),
        link: u32,
        fields: &[(&str, Value<'_>)],
    ) {
        let track = *self
            .queues
            .entry(queue)
            .or_insert_with(|| self.writer.track(TrackKind::GpuQueue, 1, queue));
        let name = self.writer.name(name);
        let fields: Vec<(u32, Value<'_>)> =
            fields.iter().map(|(key, value)| (self.writer.name(key), *value)).collect();
        let record = Record { link, ..Record::timed(kind, name, track, times.0, times.1) };
        self.writer.event(record, &fields, &[]).unwrap();
    }

    pub(crate) fn kernel(&mut self, name: &str, queue: &'static str, times: (u64, u64), link: u32) {
        self.work(Kind::KERNEL, name, queue, times, link, &[]);
    }

    pub(crate) fn finish(self) -> PathBuf {
        self.writer.finish().unwrap();
        self.path
    }
}
