//! The JSON of `rocprofv3`: an object with the tables of each process under
//! `rocprofiler-sdk-tool`. Records name kinds, operations, kernels and agents by numbers; the tables
//! that say what these are come before or behind them.
//!
//! Of a file that is cut, the records before the cut are taken.

use std::{borrow::Cow, collections::HashMap};

use super::{
    super::{
        collector::{Collector, FieldValue},
        json::{Fault, Read, Reader, Scalar},
    },
    Entry, Rocprof,
};

const TOOL: &str = "rocprofiler-sdk-tool";
/// Nested objects of a record that are looked into.
const DEEPEST: u32 = 3;

/// Whether a text begins like such a file.
pub(in super::super) fn is_rocprof(text: &[u8]) -> bool {
    let mut is_known = false;
    let _ = Reader::new(text).object(|key, _| {
        is_known = key == TOOL;
        Err(Fault::CutOff)
    });
    is_known
}

/// Reads all processes into `found`.
pub(in super::super) fn read(
    text: &[u8],
    found: &mut Collector,
    prefix: &str,
) -> Result<(), String> {
    let mut processes = Vec::new();
    let mut reader = Reader::of_file(text);
    let read = reader.object(|key, reader| {
        if key != TOOL {
            return reader.skip();
        }
        // Early versions have one process, and no array around it.
        if reader.peek() == Some(b'{') {
            return process(reader, &mut processes);
        }
        reader.expect(b'[')?;
        while !reader.take(b']') {
            process(reader, &mut processes)?;
            reader.take(b',');
        }
        Ok(())
    });
    let several = processes.len() > 1;
    let mut records = 0;
    for process in &processes {
        records += process.take(found, prefix, several);
    }
    match read {
        Ok(()) if records == 0 => {
            Err("has no records; profile with `rocprofv3 --sys-trace`".to_owned())
        }
        Ok(()) => Ok(()),
        Err(Fault::CutOff) if records == 0 => {
            Err("ends before the first record; write the trace again".to_owned())
        }
        Err(Fault::Unexpected(at)) if records == 0 => Err(format!(
            "byte {at:#x}: this is not JSON, and no record comes before it; write the trace again"
        )),
        Err(fault) => {
            let why = match fault {
                Fault::CutOff => format!("the file is cut, at byte {:#x}", text.len()),
                Fault::Unexpected(at) => format!("byte {at:#x}: this is not JSON"),
            };
            found.cut_off(why);
            Ok(())
        }
    }
}

/// The tables of a process, as text.
#[derive(Default)]
struct Process<'a> {
    metadata: Option<Reader<'a>>,
    agents: Option<Reader<'a>>,
    strings: Option<Reader<'a>>,
    kernels: Option<Reader<'a>>,
    records: Option<Reader<'a>>,
}

/// Notes where the tables of the next process are.
fn process<'a>(reader: &mut Reader<'a>, processes: &mut Vec<Process<'a>>) -> Read<()> {
    let mut process = Process::default();
    let read = reader.object(|key, reader| {
        let here = Some(reader.clone());
        match &*key {
            "metadata" => process.metadata = here,
            "agents" => process.agents = here,
            "strings" => process.strings = here,
            "kernel_symbols" => process.kernels = here,
            "buffer_records" => process.records = here,
            _ => {}
        }
        reader.skip()
    });
    processes.push(process);
    read
}

/// Hands the elements of an array to `each`, which has to take them.
fn array<'a>(
    reader: &mut Reader<'a>,
    mut each: impl FnMut(&mut Reader<'a>) -> Read<()>,
) -> Read<()> {
    reader.expect(b'[')?;
    while !reader.take(b']') {
        each(reader)?;
        reader.take(b',');
    }
    Ok(())
}

/// Hands every value of an object and of those within it to `each`, with its key and the key of
/// the object that it is in.
fn flat<'a>(
    reader: &mut Reader<'a>,
    outer: &str,
    depth: u32,
    each: &mut dyn FnMut(&str, &str, Scalar<'a>),
) -> Read<()> {
    reader.object(|key, reader| {
        if reader.peek() == Some(b'{') && depth < DEEPEST {
            return flat(reader, &key, depth + 1, each);
        }
        each(outer, &key, reader.scalar()?);
        Ok(())
    })
}

/// What the numbers of a process mean.
#[derive(Default)]
struct Names<'a> {
    pid: u64,
    /// By the number of the kind: what it is called, and its operations.
    kinds: Vec<(Cow<'a, str>, Vec<Cow<'a, str>>)>,
    /// Texts of ranges, by correlation.
    markers: HashMap<u64, Cow<'a, str>>,
    kernels: HashMap<u64, Cow<'a, str>>,
    /// By handle.
    agents: HashMap<u64, String>,
}

fn number(value: &Scalar<'_>) -> Option<u64> {
    value.text().and_then(|text| text.parse().ok())
}

fn text(value: Scalar<'_>) -> Cow<'_, str> {
    match value {
        Scalar::String(text) => text,
        Scalar::Number(text) => Cow::Borrowed(text),
        _ => Cow::Borrowed(""),
    }
}

impl<'a> Process<'a> {
    fn take(&self, found: &mut Collector, prefix: &str, several: bool) -> u64 {
        let names = self.names(found);
        let prefix = match several {
            true => format!("{prefix}process {}: ", names.pid),
            false => prefix.to_owned(),
        };
        let mut rocprof = Rocprof { found, prefix: &prefix, process: names.pid };
        let mut records = 0;
        let Some(mut reader) = self.records.clone() else { return 0 };
        // What is wrong with the text was found when its end was looked for.
        let _ = reader.object(|table, reader| {
            if table.starts_with("pc_sample") {
                return array(reader, |reader| {
                    rocprof.found.note("samples");
                    reader.skip()
                });
            }
            if reader.peek() != Some(b'[') {
                return reader.skip();
            }
            array(reader, |reader| {
                let mut entry = Entry::default();
                if reader.peek() != Some(b'{') {
                    return reader.skip();
                }
                fill(&mut entry, reader, &names, rocprof.found)?;
                records += 1;
                if let Err(why) = rocprof.take(&mut entry) {
                    rocprof.found.lose(&format!("records left out: {why}"));
                }
                Ok(())
            })
        });
        records
    }

    /// Reads the tables that give names, as far as they are there.
    fn names(&self, found: &mut Collector) -> Names<'a> {
        let mut names = Names::default();
        if let Some(mut reader) = self.metadata.clone() {
            let _ = reader.object(|key, reader| {
                let value = reader.scalar()?;
                match &*key {
                    "pid" => names.pid = number(&value).unwrap_or(0),
                    "command" => {
                        if let Scalar::Nested(text) = value {
                            let text = String::from_utf8_lossy(text).into_owned();
                            found.metadata.insert("command".to_owned(), text);
                        }
                    }
                    _ => {}
                }
                Ok(())
            });
        }
        if let Some(mut reader) = self.strings.clone() {
            let _ = reader.object(|key, reader| match &*key {
                "buffer_records" => array(reader, |reader| names.kind(reader)),
                "marker_api" => array(reader, |reader| {
                    let (mut key, mut value) = (0, Cow::default());
                    flat(reader, "", DEEPEST, &mut |_, name, it| match name {
                        "key" => key = number(&it).unwrap_or(0),
                        "value" => value = text(it),
                        _ => {}
                    })?;
                    names.markers.insert(key, value);
                    Ok(())
                }),
                _ => reader.skip(),
            });
        }
        if let Some(mut reader) = self.kernels.clone() {
            let mut next = 0;
            let _ = array(&mut reader, |reader| names.kernel(reader, &mut next));
        }
        if let Some(mut reader) = self.agents.clone() {
            let _ = array(&mut reader, |reader| names.agent(reader, found));
        }
        names
    }
}

impl<'a> Names<'a> {
    fn kind(&mut self, reader: &mut Reader<'a>) -> Read<()> {
        let (mut kind, mut operations) = (Cow::default(), Vec::new());
        reader.object(|key, reader| match &*key {
            "kind" => {
                kind = text(reader.scalar()?);
                Ok(())
            }
            "operations" => array(reader, |reader| {
                operations.push(text(reader.scalar()?));
                Ok(())
            }),
            _ => reader.skip(),
        })?;
        self.kinds.push((kind, operations));
        Ok(())
    }

    /// The longest name that a kernel has; its number is its place if it has none.
    fn kernel(&mut self, reader: &mut Reader<'a>, next: &mut u64) -> Read<()> {
        let mut id = *next;
        let mut best: (usize, Cow<'a, str>) = (0, Cow::default());
        flat(reader, "", DEEPEST, &mut |_, key, value| {
            let rank = match key {
                "kernel_id" => {
                    id = number(&value).unwrap_or(id);
                    return;
                }
                "formatted_kernel_name" => 4,
                "demangled_kernel_name" => 3,
                "kernel_name" => 2,
                "truncated_kernel_name" => 1,
                _ => return,
            };
            let value = text(value);
            if rank > best.0 && !value.is_empty() {
                best = (rank, value);
            }
        })?;
        *next = id + 1;
        self.kernels.insert(id, best.1);
        Ok(())
    }

    fn agent(&mut self, reader: &mut Reader<'a>, found: &mut Collector) -> Read<()> {
        let (mut handle, mut node, mut logical, mut kind) = (None, None, None, None);
        let (mut name, mut product) = (Cow::default(), Cow::default());
        flat(reader, "", 1, &mut |outer, key, value| match (outer, key) {
            ("id", "handle") => handle = number(&value),
            ("", "node_id") => node = number(&value),
            ("", "logical_node_id") => logical = number(&value),
            ("", "type") => kind = number(&value),
            ("", "name") => name = text(value),
            ("", "product_name") => product = text(value),
            _ => {}
        })?;
        let Some(handle) = handle else { return Ok(()) };
        let device = logical.or(node).unwrap_or(handle).to_string();
        // 1 is a processor.
        if kind == Some(2) {
            let name = if product.is_empty() { name } else { product };
            found.metadata.insert(format!("device.{device}.name"), name.into_owned());
        }
        self.agents.insert(handle, device);
        Ok(())
    }
}

/// Reads a record.
fn fill<'a>(
    entry: &mut Entry<'a>,
    reader: &mut Reader<'a>,
    names: &Names<'a>,
    found: &mut Collector,
) -> Read<()> {
    let (mut kind, mut operation, mut kernel) = (None, None, None);
    let agent = |value: &Scalar<'_>| {
        let handle = number(value)?;
        Some(names.agents.get(&handle).cloned().unwrap_or_else(|| handle.to_string()).into())
    };
    flat(reader, "", 0, &mut |outer, key, value| {
        let axis = ["x", "y", "z"].iter().position(|it| *it == key);
        match (outer, key) {
            (_, "kind") => kind = number(&value),
            ("", "operation") => operation = number(&value),
            ("", "start_timestamp") => entry.start = value.text().and_then(|it| found.time(it, 0)),
            ("", "end_timestamp") => entry.end = value.text().and_then(|it| found.time(it, 0)),
            ("", "thread_id") => entry.thread = Some(text(value)),
            ("", "bytes" | "allocation_size") => entry.bytes = number(&value),
            ("", "address") | ("address", "handle" | "value") => entry.address = number(&value),
            ("correlation_id", "internal") => entry.correlation = number(&value).unwrap_or(0),
            ("agent_id", "handle") => entry.agent = agent(&value),
            ("src_agent_id", "handle") => entry.source = agent(&value),
            ("dst_agent_id", "handle") => entry.destination = agent(&value),
            ("queue_id", "handle") => entry.queue = Some(text(value)),
            ("stream_id", "handle") => entry.stream = Some(text(value)),
            (_, "kernel_id") => kernel = number(&value),
            ("grid_size", _) => {
                if let Some(axis) = axis {
                    entry.grid[axis] = number(&value);
                }
            }
            ("workgroup_size", _) => {
                if let Some(axis) = axis {
                    entry.group[axis] = number(&value);
                }
            }
            (_, "group_segment_size") => {
                if let Some(bytes) = number(&value) {
                    entry.more.push(found.number_field("shared_memory", FieldValue::U64(bytes)));
                }
            }
            (_, "private_segment_size") => {
                if let Some(bytes) = number(&value) {
                    entry.more.push(found.number_field("scratch", FieldValue::U64(bytes)));
                }
            }
            _ => {}
        }
    })?;
    let known = kind.and_then(|kind| names.kinds.get(usize::try_from(kind).ok()?));
    let operation = operation.and_then(|it| known?.1.get(usize::try_from(it).ok()?));
    entry.domain = known.map_or(Cow::Borrowed("unknown"), |known| known.0.clone());
    entry.name = operation.cloned().unwrap_or_default();
    if let Some(kernel) = kernel {
        entry.domain = Cow::Borrowed("KERNEL_DISPATCH");
        let own = names.kernels.get(&kernel).filter(|name| !name.is_empty()).cloned();
        entry.name = own.unwrap_or_else(|| format!("kernel {kernel}").into());
    } else if entry.domain.starts_with("MARKER_") {
        entry.marked_by = std::mem::take(&mut entry.name);
        let said = names.markers.get(&entry.correlation).cloned();
        entry.name = said.unwrap_or_else(|| entry.marked_by.clone());
    }
    Ok(())
}
