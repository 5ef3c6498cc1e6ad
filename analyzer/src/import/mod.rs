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
mod recognising;
mod rocprof;
mod rows;
#[cfg(feature = "nsight")]
mod sqlite;
mod strings;
mod unpack;
mod writing;

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Cursor},
    panic::resume_unwind,
    path::{Path, PathBuf},
    thread,
};

use ringscope_format::{Source, looks_like_a_trace};

use self::{
    collector::Collector,
    recognising::{Format, is_sqlite},
};
use crate::{
    Error, Result,
    budget::Budget,
    cli::parse_bytes,
    edit::Target,
    load::{self, Bytes},
    output::{self, count, number_of, shown},
};

/// Options of `import`.
///
/// Files are known by their content: Chrome trace events (also of PyTorch and XLA), SQLite of Nsight
/// Systems, JSON and CSV of rocprofv3, and tables as CSV, JSON, Parquet or Arrow with the columns
/// `name`, `start_ns`, and any of `dur_ns`, `track`, `kind`, `status`, `value`. They may be packed with
/// gzip or zstd. Reports take all of these as they are, too.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Files of other profilers; `-` is standard input. Several become one trace
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: Target,
    /// The most memory to take: 500M, 4G; a file that takes more is refused [default: 3/4 of what
    /// is available]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    max_memory: Option<u64>,
}

/// Converts files into one trace.
pub(crate) fn run(args: &Args) -> Result<()> {
    args.target.refuse_what_is_there(&args.files)?;
    let target = &args.target.output;
    let mut found = Collector::within(Budget::new(args.max_memory));
    for (path, prefix) in args.files.iter().zip(prefixes(&args.files)) {
        let bytes = load::read(path).map_err(|error| Error::of(path, error))?;
        if looks_like_a_trace(&head(&bytes, 8)) {
            return Err(Error::of(path, "is a trace already; reports take it as it is"));
        }
        let content = Content::of(path, bytes, found.budget)?;
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

/// A trace made of a file of another format, in memory; a trace as it is. Whether it was made.
pub(crate) fn converted(path: &Path, bytes: Bytes, budget: Budget) -> Result<(Bytes, bool)> {
    if looks_like_a_trace(&head(&bytes, 8)) {
        return Ok((bytes, false));
    }
    let mut found = Collector::within(budget);
    collect(path, Content::of(path, bytes, found.budget)?, &mut found, "")?;
    let out = writing::write(&mut found, Cursor::new(Vec::new()));
    let out = out.map_err(|error| Error::of(path, error))?;
    say_losses(path, &found);
    Ok((Bytes::Memory(out.into_inner()), true))
}

/// Reads one file into `found` and says what it was.
fn collect(path: &Path, content: Content, found: &mut Collector, prefix: &str) -> Result<()> {
    let before = (found.events.len() + found.open.len(), found.lost);
    let (format, epoch_ns) = match content {
        Content::Database => database(path, None, found, prefix)?,
        Content::Memory(text) if is_sqlite(&text.bytes) => {
            text.cut.into_iter().for_each(|why| found.cut_off(why));
            database(path, Some(text.bytes), found, prefix)?
        }
        Content::Memory(text) => {
            text.cut.into_iter().for_each(|why| found.cut_off(why));
            in_memory(path, text.bytes, found, prefix)?
        }
    };
    found.end_file(epoch_ns);
    found.metadata.insert("converted_from".to_owned(), format.to_owned());
    let path = shown(&path.display().to_string()).into_owned();
    let events = (found.events.len() + found.open.len() - before.0) as u64;
    let left_out = match found.lost - before.1 {
        0 => String::new(),
        lost => format!(", {} left out", count(lost)),
    };
    eprintln!("analyze: {path}: {} converted from {format}{left_out}", number_of(events, "event"));
    for remark in found.remarks.drain(..) {
        eprintln!("analyze: {path}: {remark}");
    }
    Ok(())
}

/// What a file was, and when its clock's zero was.
type Taken = (&'static str, Option<i64>);

fn in_memory(path: &Path, bytes: Vec<u8>, found: &mut Collector, prefix: &str) -> Result<Taken> {
    let text = &bytes[..];
    let format = Format::of(text).map_err(|why| Error::of(path, why))?;
    Ok(match format {
        Format::Chrome => {
            let read = chrome::read(text, found, prefix).map_err(|why| Error::of(path, why))?;
            (read.format, read.epoch_ns)
        }
        Format::RocprofCsv => {
            found.enter_run(prefix);
            rocprof::read_csv(text, found, prefix);
            ("rocprofv3", None)
        }
        Format::RocprofJson => {
            rocprof::read_json(text, found, prefix).map_err(|why| Error::of(path, why))?;
            ("rocprofv3", None)
        }
        Format::Columnar => {
            let read = columnar::read(bytes, found, prefix).map_err(|why| Error::of(path, why))?;
            (read.format, read.epoch_ns)
        }
        Format::Csv => ("CSV", csv::read(text, found, prefix)),
        Format::JsonRows => ("JSON rows", jsonl::read(text, found, prefix)),
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
    let epoch_ns = nsight::read(place, found, prefix).map_err(|why| Error::of(path, why))?;
    Ok(("Nsight Systems", epoch_ns))
}

#[cfg(not(feature = "nsight"))]
fn database(path: &Path, _: Option<Vec<u8>>, _: &mut Collector, _: &str) -> Result<Taken> {
    Err(Error::of(
        path,
        "an SQLite database, which this build of analyze does not read; build it with \
         `--features nsight`, which needs a C compiler",
    ))
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
    fn of(path: &Path, bytes: Bytes, budget: Budget) -> Result<Self> {
        let head = head(&bytes, 4_096);
        if matches!(bytes, Bytes::File(_)) && is_sqlite(&head) {
            return Ok(Content::Database);
        }
        // Something else that is no text is not worth reading whole.
        let is_known = is_sqlite(&head) || unpack::is_packed(&head) || columnar::is_columnar(&head);
        if !is_known && head.contains(&0) {
            Format::of(&head).map_err(|why| Error::of(path, why))?;
        }
        whole(path, bytes, budget).map(Content::Memory)
    }
}

/// All of a file, unpacked.
fn whole(path: &Path, bytes: Bytes, budget: Budget) -> Result<unpack::Unpacked> {
    // The text, its events and the trace made of them.
    let most = budget.limit() / 3;
    let length = bytes.len().map_err(|error| Error::of(path, error))?;
    if length > most {
        return Err(Error::of(
            path,
            "is larger than memory takes; cut it into several, or raise --max-memory",
        ));
    }
    let content = match bytes {
        Bytes::Memory(content) => content,
        Bytes::File(file) => read_whole(&file, length).map_err(|error| Error::of(path, error))?,
    };
    unpack::unpack(content, most).map_err(|why| Error::of(path, why))
}

/// A file of this length, half of it by another thread: it takes as long to get the memory as to
/// fill it. One that has become shorter meanwhile is an error.
fn read_whole(file: &File, length: u64) -> io::Result<Vec<u8>> {
    let mut content = vec![0; length as usize];
    let (first, second) = content.split_at_mut(length as usize / 2);
    let begin = first.len() as u64;
    thread::scope(|scope| {
        let half = scope.spawn(|| file.read_exact_at(second, begin));
        file.read_exact_at(first, 0)?;
        half.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    Ok(content)
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
