//! `repro`: a script that repeats a failure, from what an error carries: library,
//! module, function and arguments. Without a number it lists the errors there are.
//!
//! Errors are numbered by time, from 1: those of kind error, and spans that failed.

use std::{
    io::{self, BufWriter, Write},
    path::PathBuf,
    slice,
};

use clap::ValueEnum;
use ringscope_format::{
    Batch, ChunkInfo, Columns, Kind, OwnedValue, Record, Status,
    repro::{Failure, Language},
};

use super::about;
use crate::{
    Error, Exit, Result, load,
    load::{Loaded, Traces},
    output::{
        Cell, Column, Document, Format, Part, Style, Table, TimeUnit, count, date, replace, shown,
    },
};

/// Options of `repro`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Which error, by its number; without it, the errors are listed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    error: Option<u64>,
    /// The language of the script
    #[arg(long, value_enum, default_value_t)]
    lang: Lang,
    /// In which form to list
    #[arg(long, value_enum, conflicts_with = "error")]
    format: Option<Format>,
    /// Where to write, if not to standard output: a script that can be run
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// Imports the library and calls the function
    #[default]
    Python,
    /// Runs the library as a program
    Shell,
}

/// Where an error is.
struct Place {
    start: u64,
    chunk: usize,
    /// Among the events of the chunk.
    at: usize,
}

/// What an error has to say.
struct Told {
    number: u64,
    at_ns: f64,
    wall_ns: i64,
    name: String,
    thread: String,
    fields: Vec<(String, String)>,
}

impl Told {
    fn field(&self, key: &str) -> Option<String> {
        self.fields.iter().find(|(known, _)| known == key).map(|(_, text)| text.clone())
    }

    fn failure(&self, trace: &str) -> Failure {
        let mut about = vec![match self.field("kind") {
            Some(kind) => format!("{}: {kind}", self.name),
            None => self.name.clone(),
        }];
        about.extend(self.field("payload"));
        about.push(format!(
            "error {} of {trace}, {} in, {}, on {}",
            self.number,
            about::in_words(self.at_ns),
            date(self.wall_ns),
            self.thread
        ));
        Failure {
            about,
            library: self.field("library"),
            module: self.field("module"),
            function: self.field("function"),
            arguments: self.field("arguments"),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let traces = Traces::open(slice::from_ref(&args.trace))?;
    about::warn_damage(&traces);
    let loaded = &traces.list[0];
    let places = find(&traces, loaded);
    about::warn_unreadable(&traces);
    let Some(number) = args.error else {
        let document = list(&traces, loaded, &places);
        return write(args, false, |mut out| document.print(&style(args), &mut out));
    };
    let Some(place) = usize::try_from(number - 1).ok().and_then(|at| places.get(at)) else {
        return Err(Error::of(
            &args.trace,
            format!("there is no error {number}; it has {}", count(places.len() as u64)),
        ));
    };
    let language = match args.lang {
        Lang::Python => Language::Python,
        Lang::Shell => Language::Shell,
    };
    let mut batch = Batch::default();
    let told = tell(loaded, place, number, &mut batch)
        .ok_or_else(|| Error::of(&args.trace, format!("error {number} cannot be read")))?;
    if let Some(error) = &batch.long_texts_error {
        let path = args.trace.display().to_string();
        eprintln!("analyze: {}: {error}; texts are cut", shown(&path));
    }
    let script = told.failure(&loaded.label).script(language).map_err(|why| {
        Error::of(&args.trace, format!("error {number}, `{}`: {why}", shown(&told.name)))
    })?;
    write(args, true, |out| Ok(out.write_all(script.as_bytes())?))
}

fn write(
    args: &Args,
    runs: bool,
    print: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<Exit> {
    match &args.output {
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            print(&mut out)?;
            out.flush()?;
        }
        Some(path) => {
            load::refuse_to_replace(path, slice::from_ref(&args.trace))?;
            replace(path, |out| {
                print(out)?;
                Ok(out.flush()?)
            })?;
            if runs {
                allow_to_run(path)?;
            }
        }
    }
    Ok(Exit::Ok)
}

#[cfg(unix)]
fn allow_to_run(path: &std::path::Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = std::fs::metadata(path).map_err(|e| Error::of(path, e))?.permissions();
    // Whoever may read it may run it.
    permissions.set_mode(permissions.mode() | (permissions.mode() & 0o444) >> 2);
    std::fs::set_permissions(path, permissions).map_err(|error| Error::of(path, error))
}

#[cfg(not(unix))]
fn allow_to_run(_: &std::path::Path) -> Result<()> {
    Ok(())
}

fn style(args: &Args) -> Style {
    let width = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let format = args.format.unwrap_or_default();
    Style { format, time_unit: TimeUnit::default(), color: false, width }
}

fn is_error(kind: u8, status: u8) -> bool {
    Kind(kind) == Kind::ERROR || Status(status & 0x0F) == Status::ERROR
}

/// All errors, by time.
fn find(traces: &Traces, loaded: &Loaded) -> Vec<Place> {
    let columns = Columns::KIND | Columns::STATUS | Columns::START;
    let mut batch = Batch::default();
    let mut places = Vec::new();
    for (number, chunk) in loaded.trace.chunks().iter().enumerate() {
        if let Err(error) = loaded.trace.decode_into(chunk, columns, &mut batch) {
            traces.note_unreadable(0, chunk, &error);
            continue;
        }
        let events = batch.kind.iter().zip(&batch.status).zip(&batch.start).enumerate();
        let errors = events.filter(|(_, ((kind, status), _))| is_error(**kind, **status));
        places.extend(errors.map(|(at, (_, start))| Place { start: *start, chunk: number, at }));
    }
    places.sort_by_key(|place| (place.start, place.chunk, place.at));
    places
}

fn tell(loaded: &Loaded, place: &Place, number: u64, batch: &mut Batch) -> Option<Told> {
    decode(loaded, place.chunk, batch)?;
    let (record, slots) = batch.records().nth(place.at)?;
    Some(told(loaded, batch, &record, slots, number))
}

fn decode(loaded: &Loaded, chunk: usize, batch: &mut Batch) -> Option<()> {
    let chunk: &ChunkInfo = loaded.trace.chunks().get(chunk)?;
    loaded.trace.decode_into(chunk, Columns::ALL | Columns::LONG_TEXTS, batch).ok()
}

fn told(loaded: &Loaded, batch: &Batch, record: &Record, slots: &[Record], number: u64) -> Told {
    let names = loaded.trace.names();
    let name = |id: u32| names.get(id).unwrap_or_default().to_owned();
    let field = |(key, value): (u32, OwnedValue)| {
        let text = match value {
            OwnedValue::Text { text, .. } => text,
            OwnedValue::Name(id) => name(id),
            OwnedValue::U64(n) => n.to_string(),
            OwnedValue::I64(n) => n.to_string(),
            OwnedValue::F64(n) => n.to_string(),
            OwnedValue::Bool(is) => is.to_string(),
            OwnedValue::Ticks(ticks) => about::in_words(loaded.trace.clock().ns(ticks)),
        };
        (name(key), text)
    };
    Told {
        number,
        at_ns: loaded.since_start_ns(record.start),
        wall_ns: loaded.trace.clock().wall_ns(record.start),
        name: name(record.name),
        thread: loaded.track_name(record.track),
        fields: batch.details(slots).fields.into_iter().map(field).collect(),
    }
}

/// Rows of the list, in its order. Errors of several threads alternate between chunks by
/// time, so they are read chunk by chunk, and each of these once.
fn rows(loaded: &Loaded, places: &[Place]) -> Vec<Vec<Cell>> {
    let mut rows: Vec<Option<Vec<Cell>>> = vec![None; places.len()];
    let mut by_chunk: Vec<usize> = (0..places.len()).collect();
    by_chunk.sort_by_key(|&index| (places[index].chunk, places[index].at));
    let mut batch = Batch::default();
    for errors in by_chunk.chunk_by(|&a, &b| places[a].chunk == places[b].chunk) {
        if decode(loaded, places[errors[0]].chunk, &mut batch).is_none() {
            continue;
        }
        let mut wanted = errors.iter().copied().peekable();
        for (at, (record, slots)) in batch.records().enumerate() {
            let Some(index) = wanted.next_if(|&index| places[index].at == at) else { continue };
            let number = index as u64 + 1;
            rows[index] = Some(row(&told(loaded, &batch, &record, slots, number)));
        }
    }
    rows.into_iter().flatten().collect()
}

fn row(told: &Told) -> Vec<Cell> {
    let failure = told.failure("");
    let can = [Language::Python, Language::Shell].map(|it| failure.script(it).is_ok());
    let text = |key: &str| told.field(key).map_or(Cell::None, Cell::from);
    vec![
        Cell::Count(told.number),
        Cell::Ns(told.at_ns),
        Cell::from(told.name.as_str()),
        text("kind"),
        text("function"),
        match can {
            [true, true] => Cell::from("python, shell"),
            [true, false] => Cell::from("python"),
            [false, true] => Cell::from("shell"),
            [false, false] => Cell::None,
        },
    ]
}

fn list(traces: &Traces, loaded: &Loaded, places: &[Place]) -> Document {
    let columns = vec![
        Column::new("error", "error"),
        Column::new("at_ns", "at"),
        Column::new("name", "name"),
        Column::new("kind", "kind"),
        Column::new("function", "function"),
        Column::new("script", "script"),
    ];
    let mut table = Table::new("errors", "Errors", columns);
    table.rows = rows(loaded, places);
    if table.rows.is_empty() {
        table.note = "no errors in this trace; it would hold what error! records, and spans that \
                      fail"
            .to_owned();
    }
    Document {
        schema: "ringscope.repro/1",
        trace: about::trace_json(traces),
        loss: about::loss_json(traces),
        exact: traces.is_whole(),
        parts: vec![Part::Table(table)],
    }
}
