//! Traces of other profilers, told by their content and made into traces of our own:
//! `import` writes one, and every report takes such a file as it is.
//!
//! Each format has a file. They fill a `collector`, `placing` puts what it holds in
//! order, and `writing` writes it. Times are taken to the nanosecond and never pass through
//! a floating-point number; whatever could not be taken as it stands is counted and said
//! on standard error.
//!
//! A file is held in memory while it is read, but for databases; and all of its events are held
//! until they are written.

mod chrome;
mod collector;
mod columnar;
mod csv;
mod decimal;
mod exported;
mod json;
mod jsonl;
#[cfg(feature = "nsight")]
mod nsight;
mod placing;
mod rocprof;
mod rows;
#[cfg(feature = "nsight")]
mod sqlite;
mod strings;
mod unpack;
mod writing;

use std::{
    collections::BTreeSet,
    io::{Cursor, Read},
    path::{Path, PathBuf},
};

use ringscope_format::{Source, looks_like_a_trace};

use self::collector::Collector;
use crate::{
    Error, Result,
    budget::Budget,
    edit::Target,
    load::{self, Bytes},
    output::{self, count, shown},
};

/// Options of `import`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Files of other profilers; `-` is standard input. Several become one trace
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// Converts files into one trace.
pub(crate) fn run(args: &Args) -> Result<()> {
    args.target.refuse_what_is_there(&args.files)?;
    let target = &args.target.output;
    let mut found = Collector::default();
    for (path, prefix) in args.files.iter().zip(prefixes(&args.files)) {
        let bytes = load::read(path).map_err(|error| Error::of(path, error))?;
        if looks_like_a_trace(&head(&bytes, 8)) {
            return Err(Error::of(path, "is a trace already; reports take it as it is"));
        }
        let content = Content::of(path, bytes)?;
        collect(path, content, &mut found, &prefix)?;
    }
    output::replace(target, |out| {
        let written = writing::write(&mut found, out);
        written.map(drop).map_err(|error| Error::of(target, error))
    })?;
    say_losses(target, &found);
    Ok(())
}

/// What goes before the names of each file's tracks: nothing if all are of one run, otherwise
/// the name of its run, with the directory if that alone tells two apart. The files of one run of
/// rocprofv3 lie in one directory; any other file is a run of its own.
fn prefixes(files: &[PathBuf]) -> Vec<String> {
    let run_of = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        match rocprof::run_of(&stem) {
            Some("") => path.with_file_name("run"),
            Some(run) => path.with_file_name(run),
            None => path.clone(),
        }
    };
    let runs: Vec<PathBuf> = files.iter().map(run_of).collect();
    let distinct: BTreeSet<&PathBuf> = runs.iter().collect();
    let short = |run: &Path| run.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let label = |run: &PathBuf| {
        let is_alone = distinct.iter().filter(|it| short(it) == short(run)).count() == 1;
        let label = if is_alone { short(run) } else { run.display().to_string() };
        if distinct.len() > 1 { label + ": " } else { String::new() }
    };
    runs.iter().map(label).collect()
}

/// A trace made of a file of another format, in memory; anything else as it is.
pub(crate) fn converted(path: &Path, bytes: Bytes) -> Result<Bytes> {
    let head = head(&bytes, 4_096);
    let is_packed = unpack::is_packed(&head);
    let is_text = !head.is_empty() && !head.contains(&0);
    let is_binary = is_sqlite(&head) || columnar::is_columnar(&head);
    if looks_like_a_trace(&head) || !(is_text || is_packed || is_binary) {
        return Ok(bytes);
    }
    let content = match Content::of(path, bytes)? {
        Content::Memory(text) if Format::of(&text.bytes).is_none() && !is_packed => {
            return Ok(Bytes::Memory(text.bytes));
        }
        content => content,
    };
    let mut found = Collector::default();
    collect(path, content, &mut found, "")?;
    let out = writing::write(&mut found, Cursor::new(Vec::new()));
    let out = out.map_err(|error| Error::of(path, error))?;
    say_losses(path, &found);
    Ok(Bytes::Memory(out.into_inner()))
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Chrome,
    Columnar,
    Csv,
    JsonLines,
    Nsight,
    RocprofCsv,
    RocprofJson,
}

impl Format {
    fn of(text: &[u8]) -> Option<Self> {
        if is_sqlite(text) {
            Some(Format::Nsight)
        } else if columnar::is_columnar(text) {
            Some(Format::Columnar)
        } else if rocprof::is_rocprof(text) {
            Some(Format::RocprofJson)
        } else if chrome::is_chrome(text) {
            Some(Format::Chrome)
        } else if jsonl::is_jsonl(text) {
            Some(Format::JsonLines)
        } else if csv::has_header(text, |header| rocprof::is_header(header.iter().copied())) {
            Some(Format::RocprofCsv)
        } else if csv::is_csv(text) {
            Some(Format::Csv)
        } else {
            None
        }
    }
}

/// Reads one file into `found` and says what it was.
fn collect(path: &Path, content: Content, found: &mut Collector, prefix: &str) -> Result<()> {
    let (format, events, epoch_ns) = match content {
        Content::Database => database(path, None, found, prefix)?,
        Content::Memory(text) if is_sqlite(&text.bytes) => {
            found.remarks.extend(text.cut);
            database(path, Some(text.bytes), found, prefix)?
        }
        Content::Memory(text) => {
            found.remarks.extend(text.cut);
            in_memory(path, text.bytes, found, prefix)?
        }
    };
    found.end_file(epoch_ns);
    found.metadata.insert("converted_from".to_owned(), format.to_owned());
    let path = shown(&path.display().to_string()).into_owned();
    eprintln!("analyze: {path}: {} events converted from {format}", count(events));
    for remark in found.remarks.drain(..) {
        eprintln!("analyze: {path}: {remark}");
    }
    Ok(())
}

/// What a file was, how many events it had, and when its clock's zero was.
type Taken = (&'static str, u64, Option<i64>);

fn in_memory(path: &Path, bytes: Vec<u8>, found: &mut Collector, prefix: &str) -> Result<Taken> {
    let text = &bytes[..];
    Ok(match Format::of(text) {
        None | Some(Format::Nsight) => {
            return Err(Error::of(
                path,
                "neither Chrome trace events, nor an SQLite export, nor of rocprofv3, nor CSV, JSON \
                 lines, Parquet or Arrow with `name` and `start_ns`; give a trace of one of these",
            ));
        }
        Some(Format::Chrome) => {
            let read = chrome::read(text, found, prefix).map_err(|why| Error::of(path, why))?;
            (read.format, read.events, read.epoch_ns)
        }
        Some(Format::RocprofCsv) => {
            found.enter_run(prefix);
            ("rocprofv3", rocprof::read_csv(text, found, prefix), None)
        }
        Some(Format::RocprofJson) => {
            let events = rocprof::read_json(text, found, prefix);
            ("rocprofv3", events.map_err(|why| Error::of(path, why))?, None)
        }
        Some(Format::Columnar) => {
            let read = columnar::read(bytes, found, prefix).map_err(|why| Error::of(path, why))?;
            (read.format, read.events, read.epoch_ns)
        }
        Some(Format::Csv) => {
            let (events, epoch_ns) = csv::read(text, found, prefix);
            ("CSV", events, epoch_ns)
        }
        Some(Format::JsonLines) => {
            let (events, epoch_ns) = jsonl::read(text, found, prefix);
            ("JSON lines", events, epoch_ns)
        }
    })
}

/// Reads a database from where it is, or from memory.
#[cfg(feature = "nsight")]
fn database(
    path: &Path,
    bytes: Option<Vec<u8>>,
    found: &mut Collector,
    prefix: &str,
) -> Result<Taken> {
    let place = match bytes {
        Some(bytes) => sqlite::Place::Memory(bytes),
        None => {
            found.remarks.extend(sqlite::unread_changes(path));
            sqlite::Place::File(path)
        }
    };
    let read = nsight::read(place, found, prefix).map_err(|why| Error::of(path, why))?;
    Ok(("Nsight Systems", read.events, read.epoch_ns))
}

#[cfg(not(feature = "nsight"))]
fn database(path: &Path, _: Option<Vec<u8>>, _: &mut Collector, _: &str) -> Result<Taken> {
    Err(Error::of(
        path,
        "an SQLite database, which this build of analyze does not read; build it with \
         `--features nsight`, which needs a C compiler",
    ))
}

fn is_sqlite(head: &[u8]) -> bool {
    head.starts_with(b"SQLite format 3\0")
}

/// One line of what was not understood.
fn say_losses(path: &Path, found: &Collector) {
    if found.notes.is_empty() {
        return;
    }
    let all = found.notes.iter().map(|(what, n)| format!("{} {}", count(*n), shown(what)));
    let all = all.collect::<Vec<_>>().join("; ");
    eprintln!("analyze: {}: not taken as it stands: {all}", shown(&path.display().to_string()));
}

/// The first bytes; fewer if there are no more or they cannot be read.
fn head(bytes: &Bytes, length: u64) -> Vec<u8> {
    let length = bytes.len().unwrap_or(0).min(length);
    let mut head = vec![0; length as usize];
    if bytes.read_exact_at(&mut head, 0).is_err() {
        head.clear();
    }
    head
}

/// What a file holds.
enum Content {
    /// All of it, unpacked.
    Memory(unpack::Unpacked),
    /// A database that is read where it is.
    Database,
}

impl Content {
    fn of(path: &Path, bytes: Bytes) -> Result<Self> {
        if matches!(bytes, Bytes::File(_)) && is_sqlite(&head(&bytes, 16)) {
            return Ok(Content::Database);
        }
        whole(path, bytes).map(Content::Memory)
    }
}

/// All of a file, unpacked.
fn whole(path: &Path, bytes: Bytes) -> Result<unpack::Unpacked> {
    // The text, its events and the trace made of them.
    let most = Budget::new(None).limit() / 3;
    let length = bytes.len().map_err(|error| Error::of(path, error))?;
    if length > most {
        return Err(Error::of(path, "is larger than memory takes; cut it into several"));
    }
    let content = match bytes {
        Bytes::Memory(content) => content,
        Bytes::File(mut file) => {
            let mut content = Vec::with_capacity(length as usize);
            file.read_to_end(&mut content).map_err(|error| Error::of(path, error))?;
            content
        }
    };
    unpack::unpack(content, most).map_err(|why| Error::of(path, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_by_as_much_as_it_takes() {
        let of = |files: &[&str]| prefixes(&files.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["a.json"]), [""]);
        assert_eq!(of(&["a.json", "b.json"]), ["a: ", "b: "]);
        assert_eq!(of(&["0/t.json", "1/t.json", "u.csv"]), ["0/t.json: ", "1/t.json: ", "u: "]);
        assert_eq!(of(&["7_kernel_trace.csv", "7_hip_api_trace.csv"]), ["", ""]);
        assert_eq!(of(&["kernel_trace.csv", "hip_api_trace.csv"]), ["", ""]);
        assert_eq!(of(&["a/7_kernel_trace.csv", "b/7_kernel_trace.csv"]), ["a/7: ", "b/7: "]);
    }
}
