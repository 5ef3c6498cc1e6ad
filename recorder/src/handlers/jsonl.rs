//! Events as JSON lines in files that rotate.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io::{self, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use ringscope_format::{Kind, Status, looks_like_a_trace};

use super::{Event, ExportError, Field, MetricExporter};
use crate::file_names::numbered;

/// Writes one JSON object a line: `at` (UTC), `kind`, `name`, `track` and `track_id` (the thread's
/// or queue's name and number), and where there are any `began_on` and `began_on_id` (of the thread
/// that it began on, if it ended on another), `path`, `dur_ns`, `value`, `status`, `request`,
/// `fields`. Of a field that was given
/// more than once it has the last value.
///
/// Buffered; what is in the buffer is written when nothing has come for a moment, at
/// least once a second. A file that has grown to [`rotate_at`](Self::rotate_at) is
/// followed by `name.1.jsonl`, `name.2.jsonl` and so on; numbers of files that hold anything else
/// are left out.
#[derive(Debug)]
pub struct JsonlExporter {
    path: PathBuf,
    out: BufWriter<File>,
    written: u64,
    rotate_at: u64,
    keep: u32,
    /// Number of the file that is being written.
    number: u32,
    /// Those of the files before it that are still there, the oldest first.
    before: VecDeque<u32>,
}

/// How each of our lines begins, and no other file that we know of: then a time of so many bytes, and
/// what comes behind it. Rows of latency and memory have a shorter time and no kind.
const BEGINNING: &[u8] = b"{\"at\":\"";
const TIME: usize = 30;
const BEHIND: &[u8] = b"\",\"kind\":";

impl JsonlExporter {
    /// Creates the file, or replaces one that is there, if that is empty or begins with `{"at":"`, as
    /// earlier JSON lines do: no other is emptied, and a trace least of all. It may be a pipe or a
    /// device, such as `/dev/stdout`. Files that follow are beside it, wherever the program
    /// goes meanwhile, and replace no others either.
    ///
    /// # Errors
    ///
    /// If it cannot be created, or holds anything else.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let out = BufWriter::with_capacity(1 << 16, open(&path)?);
        let path = std::path::absolute(&path).unwrap_or(path);
        let (rotate_at, keep, before) = (256 << 20, u32::MAX, VecDeque::new());
        Ok(Self { path, out, written: 0, rotate_at, keep, number: 0, before })
    }

    /// How large a file may grow before the next one is begun. Default: 256 MiB.
    #[must_use]
    pub fn rotate_at(mut self, bytes: u64) -> Self {
        self.rotate_at = bytes.max(1);
        self
    }

    /// How many files are kept, the one being written among them. Default: all.
    #[must_use]
    pub fn keep(mut self, files: u32) -> Self {
        self.keep = files.max(1);
        self
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let mut number = self.number;
        let file = loop {
            number += 1;
            match open(&file_of(&self.path, number)) {
                // Somebody else's; the next may be free.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => break opened?,
            }
        };
        self.out = BufWriter::with_capacity(1 << 16, file);
        self.before.push_back(self.number);
        (self.number, self.written) = (number, 0);
        while self.before.len() >= self.keep as usize {
            let Some(oldest) = self.before.pop_front() else { break };
            // Somebody may have taken it away already.
            let _ = fs::remove_file(file_of(&self.path, oldest));
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let shown = path.display();
    let cannot = |what: &str, error: io::Error| {
        io::Error::new(error.kind(), format!("{shown}: cannot {what}: {error}"))
    };
    let held = what_is_there(path).map_err(|error| cannot("look at what is there", error))?;
    if let Some(held) = held {
        let why = format!("{shown}: {held}; give JSON lines a file of their own");
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    File::create(path).map_err(|error| cannot("create", error))
}

/// What a file holds that must not be lost. By what is in it: the trace may be there under another
/// name, and a path that was mistyped may be of anything.
fn what_is_there(path: &Path) -> io::Result<Option<&'static str>> {
    // A pipe would be waited for; what is not there is created or said to be impossible.
    if !fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() > 0) {
        return Ok(None);
    }
    let mut first = Vec::new();
    let most = BEGINNING.len() + TIME + BEHIND.len();
    File::open(path)?.take(most as u64).read_to_end(&mut first)?;
    if looks_like_a_trace(&first) {
        return Ok(Some("is a trace"));
    }
    // Of a line that a full disk has cut off there may be less.
    let (beginning, rest) = first.split_at(first.len().min(BEGINNING.len()));
    let behind = rest.get(TIME..).unwrap_or_default();
    let is_ours = BEGINNING.starts_with(beginning) && BEHIND.starts_with(behind);
    Ok((!is_ours).then_some("holds something else, which is kept"))
}

/// `run.jsonl`, `run.1.jsonl`, ...
fn file_of(path: &Path, number: u32) -> PathBuf {
    match number {
        0 => path.to_owned(),
        number => numbered(path, &number.to_string()),
    }
}

/// Writes and counts.
struct Counted<'a, W: Write> {
    out: &'a mut W,
    bytes: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn write_line(out: &mut impl Write, event: &Event) -> io::Result<()> {
    let at = humantime::format_rfc3339_nanos(event.at);
    write!(out, "{{\"at\":\"{at}\",\"kind\":")?;
    match event.kind.name() {
        Some(kind) => text(out, kind)?,
        None => text(out, &format!("{:?}", Kind(event.kind.0)))?,
    }
    write!(out, ",\"name\":")?;
    text(out, event.name)?;
    write!(out, ",\"track\":")?;
    text(out, &event.track)?;
    write!(out, ",\"track_id\":{}", event.track_id)?;
    if let Some(began) = &event.began_on {
        write!(out, ",\"began_on\":")?;
        text(out, &began.track)?;
        write!(out, ",\"began_on_id\":{}", began.track_id)?;
    }
    if !event.path.is_empty() {
        write!(out, ",\"path\":")?;
        serde_json::to_writer(&mut *out, &event.path)?;
    }
    if let Some(duration) = event.duration {
        write!(out, ",\"dur_ns\":{}", duration.as_nanos())?;
    }
    if let Some(number) = &event.value {
        write!(out, ",\"value\":")?;
        value(out, number)?;
    }
    if event.status != Status::UNKNOWN {
        write!(out, ",\"status\":\"{:?}\"", event.status)?;
    }
    if let Some(request) = event.request {
        write!(out, ",\"request\":\"{request}\"")?;
    }
    let mut before = ",\"fields\":{";
    for (at, (key, field)) in event.fields.iter().enumerate() {
        // Readers disagree about a key that is there twice. There are few: looking costs less than
        // a set of them would.
        if event.fields[at + 1..].iter().any(|(later, _)| later == key) {
            continue;
        }
        write!(out, "{before}")?;
        before = ",";
        text(out, key)?;
        write!(out, ":")?;
        value(out, field)?;
    }
    writeln!(out, "{}", if event.fields.is_empty() { "}" } else { "}}" })
}

fn text(out: &mut impl Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(out, text)?)
}

/// Durations are nanoseconds; numbers that JSON has no form for are texts.
fn value(out: &mut impl Write, field: &Field) -> io::Result<()> {
    match field {
        Field::U64(n) => write!(out, "{n}"),
        Field::I64(n) => write!(out, "{n}"),
        Field::F64(n) if n.is_finite() => Ok(serde_json::to_writer(out, n)?),
        Field::F64(n) => write!(out, "\"{n}\""),
        Field::Bool(is) => write!(out, "{is}"),
        Field::Time(time) => write!(out, "{}", time.as_nanos()),
        Field::Name(name) => text(out, name),
        Field::Text(it) => text(out, it),
    }
}

impl MetricExporter for JsonlExporter {
    fn export(&mut self, event: &Event) -> Result<(), ExportError> {
        if self.written >= self.rotate_at {
            self.rotate()?;
        }
        let mut out = Counted { out: &mut self.out, bytes: 0 };
        let result = write_line(&mut out, event);
        self.written += out.bytes;
        Ok(result?)
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::{handlers::Began, vocabulary::CorrelationId};

    fn event() -> Event {
        Event {
            name: "decode \"x\"\n",
            kind: Kind::SPAN,
            status: Status::ERROR,
            track: "main".into(),
            track_id: 4,
            began_on: Some(Began { track: "worker \"1\"".into(), track_id: 7 }),
            at: SystemTime::UNIX_EPOCH + Duration::from_nanos(1_500_000_000_000_000_001),
            duration: Some(Duration::from_nanos(1_500)),
            value: None,
            path: vec!["generate", "forward"],
            fields: vec![
                ("loss", Field::F64(f64::NAN)),
                ("text", Field::Text("a\u{1}b".into())),
                ("wait", Field::Time(Duration::from_micros(2))),
            ],
            request: Some(CorrelationId::from_u128(0xAB)),
        }
    }

    #[test]
    fn a_line_is_json_whatever_the_texts_are() {
        let mut line = Vec::new();
        write_line(&mut line, &event()).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert_eq!(line.lines().count(), 1);
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        let expected = serde_json::json!({
            "at": "2017-07-14T02:40:00.000000001Z", "kind": "span", "name": "decode \"x\"\n",
            "track": "main", "track_id": 4, "began_on": "worker \"1\"", "began_on_id": 7,
            "path": ["generate", "forward"], "dur_ns": 1_500, "status": "error",
            "request": "000000000000000000000000000000ab",
            "fields": { "loss": "NaN", "text": "a\u{1}b", "wait": 2_000 },
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_key_that_is_given_twice_is_there_once_with_the_last_value() {
        let field = |key, value| (key, Field::U64(value));
        for (fields, expected) in [
            (vec![field("k", 1), field("k", 2)], "{\"k\":2}}"),
            (vec![field("k", 1), field("l", 2), field("k", 3)], "{\"l\":2,\"k\":3}}"),
            (vec![field("l", 1), field("k", 2), field("k", 3)], "{\"l\":1,\"k\":3}}"),
        ] {
            let mut line = Vec::new();
            write_line(&mut line, &Event { fields, ..event() }).unwrap();
            let line = String::from_utf8(line).unwrap();
            assert_eq!(line.trim_end().split_once("\"fields\":").unwrap().1, expected);
        }
    }

    #[test]
    fn files_rotate_and_old_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.jsonl");
        let mut exporter = JsonlExporter::create(&path).unwrap().rotate_at(1).keep(2);
        for _ in 0..4 {
            exporter.export(&event()).unwrap();
        }
        exporter.flush().unwrap();
        let mut names: Vec<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["run.2.jsonl", "run.3.jsonl"]);
    }

    #[test]
    fn a_file_that_holds_something_else_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ringscope.toml");
        let package = "{\n  \"name\": \"app\"\n}\n";
        let row = "{\"at\":\"2026-11-16T17:04:05.123Z\",\"path\":\"step\"}\n";
        let others = ["{\"name\":\"app\"}\n", "{}\n", "{\"at\":7}\n", "{\"a\"", row];
        let no_objects = ["trace = 'run.trace'\n", " ", "[1]", "\u{feff}{}\n", "\0"];
        for held in [package].into_iter().chain(others).chain(no_objects) {
            fs::write(&path, held).unwrap();
            let error = JsonlExporter::create(&path).unwrap_err();
            let said = "holds something else, which is kept; give JSON lines a file of their own";
            assert_eq!(error.to_string(), format!("{}: {said}", path.display()));
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&path).unwrap(), held);
        }
    }

    #[test]
    fn an_empty_file_and_earlier_json_lines_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.jsonl");
        let mut line = Vec::new();
        write_line(&mut line, &event()).unwrap();
        let line = String::from_utf8(line).unwrap();
        for held in ["", "{", "{\"at", &line[..20], &line[..43], &line, &(line.clone() + "{}\n")] {
            fs::write(&path, held).unwrap();
            drop(JsonlExporter::create(&path).unwrap());
            assert_eq!(fs::read_to_string(&path).unwrap(), "", "{held}");
        }
    }

    #[test]
    fn a_file_that_holds_something_else_is_neither_rotated_to_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("run.1.jsonl"), "notes").unwrap();
        fs::write(at("run.3.jsonl"), "{\"name\": \"app\"}\n").unwrap();
        let mut exporter = JsonlExporter::create(at("run.jsonl")).unwrap().rotate_at(1).keep(2);
        let (mut written, mut there) = (Vec::new(), Vec::<Vec<u32>>::new());
        for _ in 0..4 {
            exporter.export(&event()).unwrap();
            exporter.flush().unwrap();
            written.push(exporter.number);
            let numbers = 0..10;
            there.push(numbers.filter(|&n| file_of(&at("run.jsonl"), n).exists()).collect());
        }
        assert_eq!(written, [0, 2, 4, 5]);
        let expected: [Vec<u32>; 4] =
            [vec![0, 1, 3], vec![0, 1, 2, 3], vec![1, 2, 3, 4], vec![1, 3, 4, 5]];
        assert_eq!(there, expected);
        assert_eq!(fs::read_to_string(at("run.1.jsonl")).unwrap(), "notes");
        assert_eq!(fs::read_to_string(at("run.3.jsonl")).unwrap(), "{\"name\": \"app\"}\n");
        assert!(fs::read(at("run.5.jsonl")).unwrap().ends_with(b"}\n"));
    }

    #[test]
    fn a_path_that_cannot_be_written_says_which() {
        let error = JsonlExporter::create("no/such/directory/run.jsonl").unwrap_err();
        assert!(error.to_string().starts_with("no/such/directory/run.jsonl: cannot create: "));
    }
}
