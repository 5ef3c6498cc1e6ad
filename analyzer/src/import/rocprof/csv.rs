//! The CSV files of `rocprofv3`: a table for each domain, columns by their names.

use std::{borrow::Cow, collections::HashSet};

use super::{
    super::{
        collector::{Collector, FieldValue},
        csv::{Cell, FEWER_CELLS, Lines, MORE_CELLS},
    },
    Entry, Rocprof,
};

/// Whether these are columns of one of the tables.
pub(in super::super) fn is_header<'a>(headers: impl Iterator<Item = &'a str>) -> bool {
    let headers: Vec<String> = headers.map(|it| it.trim().to_lowercase()).collect();
    let has = |name: &str| headers.iter().any(|it| it == name);
    has("start_timestamp")
        && has("end_timestamp")
        && (has("kind") || has("domain") || has("counter_name"))
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Domain,
    Name,
    Agent,
    Queue,
    Stream,
    Thread,
    Source,
    Destination,
    Correlation,
    Start,
    End,
    Bytes,
    Address,
    Grid(usize),
    Group(usize),
    Dispatch,
    /// Says nothing that others do not.
    LeftOut,
    /// A field, by its key.
    Other(String),
}

impl Column {
    fn of(header: &str) -> Self {
        let header = header.trim().to_lowercase();
        let side = |start: &str| {
            let axis = header.strip_prefix(start)?;
            ["x", "y", "z"].iter().position(|it| *it == axis)
        };
        if let Some(axis) = side("grid_size_") {
            return Column::Grid(axis);
        }
        if let Some(axis) = side("workgroup_size_") {
            return Column::Group(axis);
        }
        match header.as_str() {
            "kind" | "domain" => Column::Domain,
            "kernel_name" | "function" | "operation" | "direction" => Column::Name,
            "agent_id" => Column::Agent,
            "queue_id" => Column::Queue,
            "stream_id" => Column::Stream,
            "thread_id" => Column::Thread,
            "source_agent_id" => Column::Source,
            "destination_agent_id" => Column::Destination,
            "correlation_id" => Column::Correlation,
            "start_timestamp" => Column::Start,
            "end_timestamp" => Column::End,
            "allocation_size" | "bytes" | "size" => Column::Bytes,
            "address" => Column::Address,
            "dispatch_id" => Column::Dispatch,
            "process_id" | "kernel_id" | "grid_size" | "workgroup_size" | "counter_name"
            | "counter_value" => Column::LeftOut,
            "lds_block_size" | "group_segment_size" => Column::Other("shared_memory".to_owned()),
            "scratch_size" | "private_segment_size" => Column::Other("scratch".to_owned()),
            "vgpr_count" => Column::Other("registers".to_owned()),
            _ => Column::Other(header),
        }
    }
}

/// Reads all rows.
pub(in super::super) fn read(text: &[u8], found: &mut Collector, prefix: &str) {
    let mut lines = Lines::new(text);
    let Some(header) = lines.next() else { return };
    let columns: Vec<Column> = header.iter().map(|cell| Column::of(&cell.text)).collect();
    let has_counters = !columns.contains(&Column::Domain);
    let mut rocprof = Rocprof { found, prefix, process: 0 };
    let mut has_remarked = false;
    let mut dispatches: HashSet<String> = HashSet::new();
    let mut line = lines.line;
    while let Some(cells) = lines.next() {
        let mut entry = Entry::default();
        if has_counters {
            rocprof.found.note("hardware counters");
            entry.domain = "KERNEL_DISPATCH".into();
        }
        let taken = match fill(&mut entry, &columns, &cells, rocprof.found) {
            // A row for each counter of a kernel.
            Ok(Some(dispatch)) if has_counters && !dispatches.insert(dispatch.to_owned()) => Ok(()),
            Ok(_) => rocprof.take(&mut entry),
            Err(why) => Err(why),
        };
        if taken == Err(FEWER_CELLS) && lines.is_at_end_without_newline() {
            rocprof.found.cut_off(format!("line {line}: the file is cut within a row"));
        } else if let Err(why) = taken {
            rocprof.found.lose(&format!("rows left out: {why}"));
            if !has_remarked {
                has_remarked = true;
                rocprof.found.remarks.push(format!("line {line}: {why}"));
            }
        }
        line = lines.line;
    }
}

/// Puts a row's cells where they belong; which dispatch it is about.
fn fill<'a>(
    entry: &mut Entry<'a>,
    columns: &[Column],
    cells: &'a [Cell<'_>],
    found: &mut Collector,
) -> Result<Option<&'a str>, &'static str> {
    if cells.len() > columns.len() {
        return Err(MORE_CELLS);
    }
    if cells.len() < columns.len() {
        return Err(FEWER_CELLS);
    }
    let mut dispatch = None;
    for (column, cell) in columns.iter().zip(cells) {
        let text = &*cell.text;
        let own = || Some(Cow::Borrowed(text));
        let number = || text.parse::<u64>().ok();
        let mut time = || match found.time(text, 0) {
            Some(ns) => Ok(Some(ns)),
            None => Err("a time that is no number within 146 years"),
        };
        match column {
            Column::Domain => entry.domain = Cow::Borrowed(text),
            Column::Name => entry.name = Cow::Borrowed(text),
            Column::Agent => entry.agent = own(),
            Column::Queue => entry.queue = own(),
            Column::Stream => entry.stream = own(),
            Column::Thread => entry.thread = own(),
            Column::Source => entry.source = own(),
            Column::Destination => entry.destination = own(),
            Column::Correlation => entry.correlation = number().unwrap_or(0),
            Column::Start => entry.start = time()?,
            Column::End => entry.end = time()?,
            Column::Bytes => entry.bytes = number(),
            Column::Address => {
                let hex = text.strip_prefix("0x").and_then(|it| u64::from_str_radix(it, 16).ok());
                entry.address = hex.or_else(number);
            }
            Column::Grid(axis) => entry.grid[*axis] = number(),
            Column::Group(axis) => entry.group[*axis] = number(),
            Column::Dispatch => dispatch = Some(text),
            Column::LeftOut => {}
            Column::Other(_) if text.is_empty() => {}
            Column::Other(key) => entry.more.push(match number() {
                Some(value) => found.number_field(key, FieldValue::U64(value)),
                None => found.text_field(key, text),
            }),
        }
    }
    Ok(dispatch)
}
