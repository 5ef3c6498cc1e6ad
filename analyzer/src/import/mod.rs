//! Traces of other profilers, told by their content and made into traces of our own:
//! `import` writes one, and every report takes such a file as it is.
//!
//! Each format has a file. They fill a `collector`, `placing` puts what it holds in
//! order, and `writing` writes it. Times are taken to the nanosecond and never pass through
//! a floating-point number; whatever could not be taken as it stands is counted and said
//! on standard error.
//!
//! A file is held in memory while it is read, and all of its events until they are written.

mod chrome;
mod collector;
mod csv;
mod decimal;
mod json;
mod jsonl;
mod nsight;
mod placing;
mod rows;
mod sqlite;
mod strings;
mod unpack;
mod writing;

use std::{
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
    for path in &args.files {
        let bytes = load::read(path).map_err(|error| Error::of(path, error))?;
        if looks_like_a_trace(&head(&bytes, 8)) {
            return Err(Error::of(path, "is a trace already; reports take it as it is"));
        }
        let text = whole(path, bytes)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let prefix = if args.files.len() > 1 { format!("{name}: ") } else { String::new() };
        collect(path, text, &mut found, &prefix)?;
    }
    output::replace(target, |out| {
        let written = writing::write(&mut found, out);
        written.map(drop).map_err(|error| Error::of(target, error))
    })?;
    say_losses(target, &found);
    Ok(())
}

/// A trace made of a file of another format, in memory; anything else as it is.
pub(crate) fn converted(path: &Path, bytes: Bytes) -> Result<Bytes> {
    let head = head(&bytes, 4_096);
    let is_packed = unpack::is_packed(&head);
    let is_text = !head.is_empty() && !head.contains(&0);
    if looks_like_a_trace(&head) || !(is_text || is_packed || sqlite::is_sqlite(&head)) {
        return Ok(bytes);
    }
    let text = whole(path, bytes)?;
    if Format::of(&text.bytes).is_none() && !is_packed {
        return Ok(Bytes::Memory(text.bytes));
    }
    let mut found = Collector::default();
    collect(path, text, &mut found, "")?;
    let out = writing::write(&mut found, Cursor::new(Vec::new()));
    let out = out.map_err(|error| Error::of(path, error))?;
    say_losses(path, &found);
    Ok(Bytes::Memory(out.into_inner()))
}

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Chrome,
    Csv,
    JsonLines,
    Nsight,
}

impl Format {
    fn of(text: &[u8]) -> Option<Self> {
        if sqlite::is_sqlite(text) {
            Some(Format::Nsight)
        } else if chrome::is_chrome(text) {
            Some(Format::Chrome)
        } else if jsonl::is_jsonl(text) {
            Some(Format::JsonLines)
        } else if csv::is_csv(text) {
            Some(Format::Csv)
        } else {
            None
        }
    }
}

/// Reads one file into `found` and says what it was.
fn collect(path: &Path, text: unpack::Unpacked, found: &mut Collector, prefix: &str) -> Result<()> {
    found.remarks.extend(text.cut);
    let text = text.bytes;
    let (format, events, epoch_ns) = match Format::of(&text) {
        None => {
            return Err(Error::of(
                path,
                "neither Chrome trace events, nor an SQLite export, nor CSV or JSON lines with `name` \
                 and `start_ns`; give a trace of one of these",
            ));
        }
        Some(Format::Chrome) => {
            let read = chrome::read(&text, found, prefix).map_err(|why| Error::of(path, why))?;
            (read.format, read.events, read.epoch_ns)
        }
        Some(Format::Nsight) => {
            let read = nsight::read(&text, found, prefix).map_err(|why| Error::of(path, why))?;
            ("Nsight Systems", read.events, read.epoch_ns)
        }
        Some(Format::Csv) => ("CSV", csv::read(&text, found, prefix), None),
        Some(Format::JsonLines) => ("JSON lines", jsonl::read(&text, found, prefix), None),
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
