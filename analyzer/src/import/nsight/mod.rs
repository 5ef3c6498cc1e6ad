//! Nsight Systems, as `nsys export --type sqlite` writes it: kernels, graphs, copies and fills
//! on their streams, calls of CUDA, of libraries and of the operating system on their threads, NVTX
//! ranges, and what was allocated on devices. Names are numbers of a table of texts; a call and
//! what it launched have the same correlation within their process.
//!
//! Versions differ in which tables and columns they have; what is not there is empty. Other tables
//! with times in them (scheduling, samples) are counted.

mod work;

use std::collections::{BTreeSet, HashMap};

use ringscope_format::{Kind, TrackKind};

use super::{
    collector::{Collector, Event, Field, FieldValue},
    sqlite::{Cell, Database, Place, Table},
};

/// Kinds of rows of NVTX: moments, ranges that nest, ranges that need not.
const NVTX_MARK: i64 = 34;
const NVTX_PUSH_POP: i64 = 59;
const NVTX_START_END: i64 = 60;
/// A row that names a domain.
const NVTX_DOMAIN: i64 = 75;
/// An allocation, in the table of memory; 1 is a release.
const ALLOCATION: i64 = 0;

/// Reads an export into `found`; tracks get `prefix` before their names. Tells the wall time of
/// the clock's zero, if the export does.
pub(super) fn read(
    place: Place<'_>,
    found: &mut Collector,
    prefix: &str,
) -> Result<Option<i64>, String> {
    let database = Database::open(place)?;
    let has = |start: &str| database.tables.iter().any(|table| table.name.starts_with(start));
    if has("rocpd_") {
        return Err("a rocpd database of rocprofv3, which is not read; give what `rocpd convert \
                    --output-format csv` makes of it"
            .to_owned());
    }
    let is_nsight = ["CUPTI_ACTIVITY_", "NVTX_EVENTS", "OSRT_API", "TARGET_INFO_"].map(has);
    if database.table("StringIds").is_none() || !is_nsight.contains(&true) {
        return Err(
            "an SQLite database, but none of Nsight Systems; give what `nsys export --type \
                    sqlite` writes"
                .to_owned(),
        );
    }
    let mut nsight = Nsight {
        database: &database,
        found,
        texts: HashMap::new(),
        domains: HashMap::new(),
        threads: HashMap::new(),
        queues: HashMap::new(),
        events: 0,
    };
    nsight.texts()?;
    for table in &database.tables {
        let is_call = ["start", "end", "globalTid"].iter().all(|column| table.has(column))
            && (table.has("nameId") || table.has("textId"));
        match table.name.as_str() {
            "CUPTI_ACTIVITY_KIND_KERNEL" => nsight.kernels(table)?,
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" => nsight.graphs(table)?,
            "CUPTI_ACTIVITY_KIND_MEMCPY" => nsight.transfers(table, Kind::COPY)?,
            "CUPTI_ACTIVITY_KIND_MEMSET" => nsight.transfers(table, Kind::FILL)?,
            "CUPTI_ACTIVITY_KIND_RUNTIME" | "CUPTI_ACTIVITY_KIND_DRIVER" => {
                nsight.calls(table, Kind::LAUNCH)?;
            }
            "CUDA_GPU_MEMORY_USAGE_EVENTS" => nsight.memory(table)?,
            "NVTX_EVENTS" => nsight.ranges(table)?,
            // MPI, cuBLAS, cuDNN, the operating system.
            other if is_call && !other.starts_with("PROFILER_") => {
                nsight.calls(table, Kind::SPAN)?;
            }
            other if table.has("start") => {
                let rows = database.count(table)?;
                nsight.found.note_many(&format!("rows of {other:.60}"), rows);
            }
            _ => {}
        }
    }
    if nsight.events == 0 {
        return Err("an export of Nsight Systems without kernels, calls or ranges; record with \
                    `nsys profile --trace=cuda,nvtx,osrt`"
            .to_owned());
    }
    nsight.name_tracks(prefix)?;
    nsight.devices()?;
    let mut epoch_ns = None;
    if let Some(table) = database.table("TARGET_INFO_SESSION_START_TIME") {
        database.rows(table, ["utcEpochNs"], |[epoch]| epoch_ns = epoch.int())?;
    }
    Ok(epoch_ns)
}

struct Nsight<'a> {
    database: &'a Database,
    found: &'a mut Collector,
    /// Numbers of our texts by those of the file.
    texts: HashMap<i64, u32>,
    /// Names of NVTX domains, by process and number.
    domains: HashMap<(u64, i64), u32>,
    threads: HashMap<i64, u32>,
    /// By process, device and stream.
    queues: HashMap<(u64, i64, i64), u32>,
    events: u64,
}

/// Ids of threads and processes hold both numbers, 24 bits each.
fn process_of(global: Option<i64>) -> u64 {
    global.unwrap_or(0) as u64 >> 24 & 0xFF_FFFF
}

impl Nsight<'_> {
    fn texts(&mut self) -> Result<(), String> {
        let Some(table) = self.database.table("StringIds") else { return Ok(()) };
        let Self { database, found, texts, .. } = self;
        database.rows(table, ["id", "value"], |[id, value]| {
            if let (Some(id), Some(text)) = (id.int(), value.text()) {
                texts.insert(id, found.strings.number(&text));
            }
        })
    }

    /// Calls on threads.
    fn calls(&mut self, table: &Table, kind: Kind) -> Result<(), String> {
        let columns = ["start", "end", "globalTid", "nameId", "textId", "correlationId"];
        self.database.rows(table, columns, |cells| {
            let [start, end, thread, name, text, correlation] = cells.map(|cell| cell.int());
            let track = self.thread(thread.unwrap_or(0));
            let name = name.or(text).and_then(|id| self.texts.get(&id).copied());
            // Other tables number what they have on their own.
            let link = if kind == Kind::LAUNCH { self.link(thread, correlation) } else { 0 };
            self.push(kind, name, track, (start, end), link, &[]);
        })
    }

    /// What the program itself marked.
    fn ranges(&mut self, table: &Table) -> Result<(), String> {
        let columns = ["start", "end", "eventType", "textId", "globalTid", "domainId", "text"];
        self.database.rows(table, columns, |cells| {
            if let Some((key, name)) = self.domain(&cells) {
                self.domains.insert(key, name);
            }
        })?;
        self.database.rows(table, columns, |cells| {
            let [start, end, kind, _, thread, domain, _] = cells.map(|cell| cell.int());
            if !matches!(kind, None | Some(NVTX_MARK | NVTX_PUSH_POP | NVTX_START_END)) {
                // Names of domains, categories and threads are rows of this table too.
                return;
            }
            let name = self.nvtx_text(&cells);
            let Some(name) = name.filter(|_| start.is_some()) else {
                return self.found.lose("NVTX rows without a text");
            };
            let track = self.thread(thread.unwrap_or(0));
            let kind = match (end, kind) {
                (None, None | Some(NVTX_MARK)) => Kind::EVENT,
                (None, _) => {
                    self.found.note("NVTX ranges without an end (taken as events)");
                    Kind::EVENT
                }
                (_, Some(NVTX_START_END)) => Kind::ASYNC_SPAN,
                _ => Kind::SPAN,
            };
            let domain = self.domains.get(&(process_of(thread), domain.unwrap_or(0))).copied();
            let key = self.found.strings.number("domain");
            let field = domain.map(|name| Field::new(key, FieldValue::Text(name)));
            self.push(kind, Some(name), track, (start, end), 0, field.as_slice());
        })
    }

    fn nvtx_text(&mut self, cells: &[Cell<'_>; 7]) -> Option<u32> {
        match cells[6].text() {
            Some(own) => Some(self.found.strings.number(&own)),
            None => self.texts.get(&cells[3].int()?).copied(),
        }
    }

    /// The key and name of a domain, if that is what the row is.
    fn domain(&mut self, cells: &[Cell<'_>; 7]) -> Option<((u64, i64), u32)> {
        (cells[2].int() == Some(NVTX_DOMAIN)).then_some(())?;
        Some(((process_of(cells[4].int()), cells[5].int()?), self.nvtx_text(cells)?))
    }

    /// What was allocated and released.
    fn memory(&mut self, table: &Table) -> Result<(), String> {
        let columns = [
            "start",
            "globalTid",
            "globalPid",
            "deviceId",
            "address",
            "bytes",
            "memoryOperationType",
        ];
        self.database.rows(table, columns, |cells| {
            let [start, thread, process, device, address, bytes, operation] =
                cells.map(|cell| cell.int());
            let thread = thread.or(process);
            let device = self.number("device", device.unwrap_or(0));
            let mut fields = vec![device, self.number("bytes", bytes.unwrap_or(0))];
            if let Some(address) = address {
                fields.push(self.number("id", address));
            }
            let is_allocation = operation == Some(ALLOCATION);
            let name = if is_allocation { "memory.allocate" } else { "memory.release" };
            let name = self.found.strings.number(name);
            let track = self.thread(thread.unwrap_or(0));
            self.push(Kind::EVENT, Some(name), track, (start, None), 0, &fields);
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
            return self.found.lose("rows without a usable time");
        };
        let end = end.filter(in_range).unwrap_or(start);
        if end < start {
            self.found.note("negative durations (taken as 0)");
        }
        let name = name.unwrap_or_else(|| {
            self.found.note("rows without a name (called `(unnamed)`)");
            self.found.strings.number("(unnamed)")
        });
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
        self.found.link(process_of(process) << 40 ^ correlation as u64)
    }

    fn thread(&mut self, global: i64) -> u32 {
        let Self { found, threads, .. } = self;
        *threads
            .entry(global)
            .or_insert_with(|| found.track(TrackKind::Thread, global as u64 & 0xFF_FFFF, ""))
    }

    /// Threads by their names, queues by their devices; with the process before them if
    /// there are several.
    fn name_tracks(&mut self, prefix: &str) -> Result<(), String> {
        let mut names: HashMap<i64, u32> = HashMap::new();
        if let Some(table) = self.database.table("ThreadNames") {
            self.database.rows(table, ["nameId", "globalTid"], |[name, thread]| {
                if let (Some(name), Some(thread)) = (name.int(), thread.int())
                    && let Some(&text) = self.texts.get(&name)
                {
                    names.insert(thread, text);
                }
            })?;
        }
        let mut processes: BTreeSet<u64> = self.queues.keys().map(|key| key.0).collect();
        processes.extend(self.threads.keys().map(|&global| process_of(Some(global))));
        // Rows without a process are nobody's.
        processes.remove(&0);
        let several = processes.len() > 1;
        let of = |process: u64| match several {
            true => format!("{prefix}process {process}: "),
            false => prefix.to_owned(),
        };
        let Self { found, threads, queues, .. } = self;
        for (&(process, device, stream), &track) in queues.iter() {
            let name = format!("{}GPU {device} stream {stream}", of(process));
            found.tracks[track as usize].name = name;
        }
        for (&global, &track) in threads.iter() {
            let own = match names.get(&global) {
                Some(&text) => found.strings.get(text).to_owned(),
                None => format!("thread {}", global as u64 & 0xFF_FFFF),
            };
            found.tracks[track as usize].name = of(process_of(Some(global))) + &own;
        }
        Ok(())
    }

    fn devices(&mut self) -> Result<(), String> {
        let Some(table) = self.database.table("TARGET_INFO_GPU") else { return Ok(()) };
        let Self { database, found, .. } = self;
        let columns = ["name", "cuDevice", "id", "totalMemory"];
        database.rows(table, columns, |[name, device, id, memory]| {
            let Some(id) = device.int().or(id.int()) else { return };
            let memory = memory.int().map(|bytes| bytes.to_string());
            for (what, value) in [("name", name.text()), ("memory_bytes", memory)] {
                if let Some(value) = value {
                    found.metadata.insert(format!("device.{id}.{what}"), value);
                }
            }
        })
    }
}
