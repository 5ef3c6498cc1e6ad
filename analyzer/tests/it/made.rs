//! Traces made for a test, and the binary run on them.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use ringscope_format::{
    FileHeader, Kind, Link, LinkRole, Record, Status, TraceWriter, TrackKind, Value, ValueType,
};

/// A trace that is being made. A tick is a nanosecond.
pub(crate) struct Made {
    _dir: tempfile::TempDir,
    path: PathBuf,
    writer: TraceWriter<File>,
    pub(crate) main: u32,
    pub(crate) queue: u32,
}

/// A trace in a directory that goes away with it.
#[derive(Debug)]
pub(crate) struct Finished {
    _dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

pub(crate) const MS: u64 = 1_000_000;

impl Made {
    pub(crate) fn new() -> Self {
        Self::with_header(crate::making::header())
    }

    pub(crate) fn with_header(header: FileHeader) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made.trace");
        let mut writer = TraceWriter::new(File::create(&path).unwrap(), header).unwrap();
        let main = writer.track(TrackKind::Thread, 4_711, "main");
        let queue = writer.track(TrackKind::GpuQueue, 1, "gpu 0");
        Self { _dir: dir, path, writer, main, queue }
    }

    /// An event, with its fields.
    pub(crate) fn put(&mut self, mut record: Record, name: &str, fields: &[(&str, Value<'_>)]) {
        record.name = self.writer.name(name);
        let fields: Vec<(u32, Value<'_>)> =
            fields.iter().map(|&(key, value)| (self.writer.name(key), value)).collect();
        self.writer.event(record, &fields, &[]).unwrap();
    }

    /// Another thread.
    pub(crate) fn thread(&mut self, name: &str) -> u32 {
        self.writer.track(TrackKind::Thread, 0, name)
    }

    /// An event that says for which request it is; a scope, as a rule.
    pub(crate) fn put_for(&mut self, request: u128, mut record: Record, name: &str) {
        record.name = self.writer.name(name);
        let link = Link { id: request, track: 0, role: LinkRole::Request };
        self.writer.event(record, &[], &[link]).unwrap();
    }

    /// Something at an instant.
    pub(crate) fn event(&mut self, name: &str, at: u64, fields: &[(&str, Value<'_>)]) {
        let record = Record::point(Kind::EVENT, 0, self.main, at, (ValueType::None, 0));
        self.put(record, name, fields);
    }

    /// A number.
    pub(crate) fn reading(&mut self, kind: Kind, name: &str, at: u64, value: u64) {
        self.put(Record::point(kind, 0, self.main, at, (ValueType::U64, value)), name, &[]);
    }

    /// A span.
    pub(crate) fn span(
        &mut self,
        name: &str,
        at: u64,
        length: u64,
        status: Status,
        fields: &[(&str, Value<'_>)],
    ) {
        let mut record = Record::timed(Kind::SPAN, 0, self.main, at, length);
        record.status = status;
        self.put(record, name, fields);
    }

    pub(crate) fn finish(self) -> Finished {
        self.writer.finish().unwrap();
        Finished { _dir: self._dir, path: self.path }
    }
}

/// Runs `analyze` with these arguments.
pub(crate) fn analyze(arguments: &[&str], trace: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_analyze"));
    command.args(arguments);
    if !trace.as_os_str().is_empty() {
        command.arg(trace);
    }
    command.env("COLUMNS", "160").env_remove("NO_COLOR").stdin(Stdio::null()).output().unwrap()
}

impl Finished {
    /// What the recorder itself writes while `record` runs.
    pub(crate) fn recorded(record: impl FnOnce()) -> Self {
        let _one_at_a_time = crate::making::RECORDING.lock();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.trace");
        let recorder = ringscope::Recorder::builder().path(&path).start().unwrap();
        record();
        recorder.finish().unwrap();
        Self { _dir: dir, path }
    }

    /// What it prints; it has to end well.
    pub(crate) fn output(&self, arguments: &[&str]) -> String {
        let output = analyze(arguments, &self.path);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{errors}");
        assert_eq!(errors, "");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The rows of its JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--format", "json"]).collect();
        serde_json::from_str(&self.output(&arguments)).unwrap()
    }

    /// What it complains about; it has to end with 2.
    pub(crate) fn complaint(&self, arguments: &[&str]) -> String {
        let output = analyze(arguments, &self.path);
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    }
}
