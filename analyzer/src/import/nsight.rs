//! Nsight Systems, as `nsys export --type sqlite` writes it: kernels, copies and fills
//! on their streams, calls of CUDA and of the operating system on their threads, and NVTX
//! ranges. Names are numbers of a table of texts; a call and what it launched have the same
//! correlation within their process.
//!
//! Other tables with times in them (scheduling, samples) are counted.

use std::collections::HashMap;

use ringscope_format::{Kind, TrackKind};

use super::{
    collector::{Collector, Event, Field, FieldValue},
    sqlite::{Cell, Database, Table},
};

/// What each kind of copy is called, and where it goes.
const COPIES: [(i64, &str, &str); 6] = [
    (1, "Memcpy HtoD", "h2d"),
    (2, "Memcpy DtoH", "d2h"),
    (8, "Memcpy DtoD", "d2d"),
    (9, "Memcpy HtoH", "h2h"),
    (10, "Memcpy PtoP", "d2d"),
    (11, "Memcpy UVM HtoD", "h2d"),
];
/// NVTX ranges that need not nest.
const NVTX_START_END: i64 = 60;

/// What was read.
pub(super) struct Read {
    pub(super) events: u64,
    pub(super) epoch_ns: Option<i64>,
}

/// Reads an export into `found`; tracks get `prefix` before their names.
pub(super) fn read(bytes: &[u8], found: &mut Collector, prefix: &str) -> Result<Read, String> {
    let database = Database::open(bytes)?;
    let of_nsight = |name: &str| name.starts_with("CUPTI_ACTIVITY_") || name == "NVTX_EVENTS";
    let known = database.tables.iter().any(|table| of_nsight(&table.name));
    if database.table("StringIds").is_none() || !known {
        return Err("an SQLite database, but none of Nsight Systems with CUDA or NVTX in it; \
                    give what `nsys export --type sqlite` writes"
            .to_owned());
    }
    let mut nsight = Nsight {
        database: &database,
        found,
        prefix,
        texts: HashMap::new(),
        threads: HashMap::new(),
        queues: HashMap::new(),
        events: 0,
    };
    nsight.texts()?;
    for table in &database.tables {
        let has = |column: &str| table.columns.iter().any(|it| it == column);
        match table.name.as_str() {
            "CUPTI_ACTIVITY_KIND_KERNEL" => nsight.work(table, Kind::KERNEL)?,
            "CUPTI_ACTIVITY_KIND_MEMCPY" => nsight.work(table, Kind::COPY)?,
            "CUPTI_ACTIVITY_KIND_MEMSET" => nsight.work(table, Kind::FILL)?,
            "CUPTI_ACTIVITY_KIND_RUNTIME" => nsight.calls(table, Kind::LAUNCH)?,
            "OSRT_API" => nsight.calls(table, Kind::SPAN)?,
            "NVTX_EVENTS" => nsight.ranges(table)?,
            other if has("start") => {
                let mut rows = 0;
                database.rows(table, |_| rows += 1)?;
                nsight.found.note_many(&format!("rows of {other:.60}"), rows);
            }
            _ => {}
        }
    }
    nsight.name_threads()?;
    nsight.devices()?;
    let events = nsight.events;
    let mut epoch_ns = None;
    if let Some(table) = database.table("TARGET_INFO_SESSION_START_TIME") {
        let at = column(table, "utcEpochNs");
        database.rows(table, |row| epoch_ns = cell(row, at).int())?;
    }
    Ok(Read { events, epoch_ns })
}

struct Nsight<'a> {
    database: &'a Database<'a>,
    found: &'a mut Collector,
    prefix: &'a str,
    /// Numbers of our texts by those of the file.
    texts: HashMap<i64, u32>,
    threads: HashMap<i64, u32>,
    queues: HashMap<(i64, i64), u32>,
    events: u64,
}

fn column(table: &Table, name: &str) -> Option<usize> {
    table.columns.iter().position(|it| it == name)
}

/// A cell of a column that may not be there.
fn cell<'r>(row: &[Cell<'r>], at: Option<usize>) -> Cell<'r> {
    at.and_then(|at| row.get(at)).copied().unwrap_or(Cell::Null)
}

/// Ids of threads and processes hold both numbers, 24 bits each.
fn process_of(global: i64) -> u64 {
    global as u64 >> 24 & 0xFF_FFFF
}

impl Nsight<'_> {
    fn texts(&mut self) -> Result<(), String> {
        let Some(table) = self.database.table("StringIds") else { return Ok(()) };
        let (id, value) = (column(table, "id"), column(table, "value"));
        let Self { database, found, texts, .. } = self;
        database.rows(table, |row| {
            if let (Some(id), Some(text)) = (cell(row, id).int(), cell(row, value).text()) {
                texts.insert(id, found.strings.number(&text));
            }
        })
    }

    /// Kernels, copies and fills.
    fn work(&mut self, table: &Table, kind: Kind) -> Result<(), String> {
        let at = |name: &str| column(table, name);
        let (start, end, process) = (at("start"), at("end"), at("globalPid"));
        let (device, stream, correlation) = (at("deviceId"), at("streamId"), at("correlationId"));
        let (name, short) = (at("demangledName"), at("shortName"));
        let (bytes, copy, registers) = (at("bytes"), at("copyKind"), at("registersPerThread"));
        let grid = ["gridX", "gridY", "gridZ"].map(at);
        let block = ["blockX", "blockY", "blockZ"].map(at);
        let shared = ["staticSharedMemory", "dynamicSharedMemory"].map(at);
        self.database.rows(table, |row| {
            let int = |at: Option<usize>| cell(row, at).int();
            let (device, stream) = (int(device).unwrap_or(0), int(stream).unwrap_or(0));
            let mut fields = vec![self.number("device", device), self.number("stream", stream)];
            if let Some(bytes) = int(bytes) {
                fields.push(self.number("bytes", bytes));
            }
            let name = match kind {
                Kind::KERNEL => {
                    for (key, sides) in [("grid", grid), ("block", block)] {
                        let sides = sides.map(|at| int(at).unwrap_or(1).to_string());
                        fields.push(self.found.text_field(key, &sides.join("x")));
                    }
                    if let Some(registers) = int(registers) {
                        fields.push(self.number("registers", registers));
                    }
                    let shared = shared.iter().filter_map(|&at| int(at)).sum();
                    fields.push(self.number("shared_memory", shared));
                    let id = int(name).or(int(short)).unwrap_or(-1);
                    self.texts.get(&id).copied()
                }
                Kind::COPY => {
                    let known = COPIES.iter().find(|it| Some(it.0) == int(copy));
                    if let Some((_, _, direction)) = known {
                        fields.push(self.found.text_field("direction", direction));
                    }
                    Some(self.found.strings.number(known.map_or("Memcpy", |it| it.1)))
                }
                _ => Some(self.found.strings.number("Memset")),
            };
            let track = self.queue(device, stream);
            let link = self.link(int(process), int(correlation));
            self.push(kind, name, track, (int(start), int(end)), link, &fields);
        })
    }

    /// Calls on threads.
    fn calls(&mut self, table: &Table, kind: Kind) -> Result<(), String> {
        let at = |name: &str| column(table, name);
        let (start, end, thread) = (at("start"), at("end"), at("globalTid"));
        let (name, correlation) = (at("nameId"), at("correlationId"));
        self.database.rows(table, |row| {
            let int = |at: Option<usize>| cell(row, at).int();
            let track = self.thread(int(thread).unwrap_or(0));
            let name = int(name).and_then(|id| self.texts.get(&id).copied());
            let link = self.link(int(thread), int(correlation));
            self.push(kind, name, track, (int(start), int(end)), link, &[]);
        })
    }

    /// What the program itself marked.
    fn ranges(&mut self, table: &Table) -> Result<(), String> {
        let at = |name: &str| column(table, name);
        let (start, end, thread) = (at("start"), at("end"), at("globalTid"));
        let (text, text_id, kind) = (at("text"), at("textId"), at("eventType"));
        self.database.rows(table, |row| {
            let int = |at: Option<usize>| cell(row, at).int();
            let own = cell(row, text).text().map(|text| self.found.strings.number(&text));
            let name = own.or_else(|| self.texts.get(&int(text_id)?).copied());
            // Names of domains and categories are rows of this table too.
            let Some(name) = name.filter(|_| int(start).is_some()) else {
                return self.found.note("NVTX rows without a text");
            };
            let track = self.thread(int(thread).unwrap_or(0));
            let kind = match (int(end), int(kind)) {
                (None, _) => Kind::EVENT,
                (_, Some(NVTX_START_END)) => Kind::ASYNC_SPAN,
                _ => Kind::SPAN,
            };
            self.push(kind, Some(name), track, (int(start), int(end)), 0, &[]);
        })
    }

    fn push(
        &mut self,
        kind: Kind,
        name: Option<u32>,
        track: u32,
        (start, end): (Option<i64>, Option<i64>),
        link: u32,
        fields: &[Field],
    ) {
        self.events += 1;
        let in_range = |ns: &i64| ns.unsigned_abs() < 1 << 62;
        let Some(start) = start.filter(in_range) else {
            return self.found.note("rows without a usable time");
        };
        let end = end.filter(in_range).unwrap_or(start);
        if end < start {
            self.found.note("negative durations (taken as 0)");
        }
        let name = name.unwrap_or_else(|| self.found.strings.number("(unnamed)"));
        let mut event = if kind.is_timed() {
            Event::timed(kind, name, track, start, end.saturating_sub(start).max(0) as u64)
        } else {
            Event::point(kind, name, track, start, Default::default())
        };
        event.link = link;
        self.found.push(event, fields);
    }

    fn number(&mut self, key: &str, value: i64) -> Field {
        let value = u64::try_from(value).map_or(FieldValue::I64(value), FieldValue::U64);
        self.found.number_field(key, value)
    }

    fn link(&mut self, process: Option<i64>, correlation: Option<i64>) -> u32 {
        let Some(correlation) = correlation.filter(|&it| it != 0) else { return 0 };
        let process = process.map_or(0, process_of);
        self.found.link(process << 40 ^ correlation as u64)
    }

    fn queue(&mut self, device: i64, stream: i64) -> u32 {
        let Self { found, queues, prefix, .. } = self;
        *queues.entry((device, stream)).or_insert_with(|| {
            let name = format!("{prefix}GPU {device} stream {stream}");
            found.track(TrackKind::GpuQueue, stream.max(0) as u64, &name)
        })
    }

    fn thread(&mut self, global: i64) -> u32 {
        let Self { found, threads, prefix, .. } = self;
        *threads.entry(global).or_insert_with(|| {
            let number = global as u64 & 0xFF_FFFF;
            found.track(TrackKind::Thread, number, &format!("{prefix}thread {number}"))
        })
    }

    fn name_threads(&mut self) -> Result<(), String> {
        let Some(table) = self.database.table("ThreadNames") else { return Ok(()) };
        let (name, thread) = (column(table, "nameId"), column(table, "globalTid"));
        let Self { database, found, texts, threads, prefix, .. } = self;
        database.rows(table, |row| {
            let track = cell(row, thread).int().and_then(|global| threads.get(&global));
            let text = cell(row, name).int().and_then(|id| texts.get(&id));
            if let (Some(&track), Some(&text)) = (track, text) {
                let name = format!("{prefix}{}", found.strings.get(text));
                found.tracks[track as usize].name = name;
            }
        })
    }

    fn devices(&mut self) -> Result<(), String> {
        let Some(table) = self.database.table("TARGET_INFO_GPU") else { return Ok(()) };
        let (name, id) = (column(table, "name"), column(table, "cuDevice"));
        let memory = column(table, "totalMemory");
        let Self { database, found, .. } = self;
        database.rows(table, |row| {
            let Some(id) = cell(row, id).int() else { return };
            let memory = cell(row, memory).int().map(|bytes| bytes.to_string());
            for (what, value) in [("name", cell(row, name).text()), ("memory_bytes", memory)] {
                if let Some(value) = value {
                    found.metadata.insert(format!("device.{id}.{what}"), value);
                }
            }
        })
    }
}
