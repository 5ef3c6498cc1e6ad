//! Memory as the vocabulary tells it, added up as it comes.

use std::collections::{BTreeMap, HashMap};

use crate::handlers::{Event, Field};

/// Allocations whose release is awaited; of further ones the release must say its size.
const MOST_OPEN: usize = 1 << 20;
/// Rows that are told apart.
const MOST_ROWS: usize = 4_096;
/// Of a weight's path, as many parts as have rows.
const WEIGHT_PARTS: usize = 4;

/// How much memory something has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryRow {
    /// What it is, from the general to the particular: `allocated`, `0`, `scratch`.
    pub path: Vec<String>,
    /// Bytes now; of a change, the sum of all.
    pub bytes: i64,
    /// The most there were.
    pub peak: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Memory {
    rows: BTreeMap<Vec<String>, (i64, i64)>,
    /// Allocations with an id that were not released, by that: one on each device, the last
    /// one last.
    open: HashMap<String, Vec<Open>>,
    open_count: usize,
}

/// An allocation whose release is awaited.
#[derive(Debug)]
struct Open {
    device: String,
    kind: String,
    bytes: i64,
}

impl Memory {
    pub(super) fn rows(&self) -> Vec<MemoryRow> {
        let row = |(path, &(bytes, peak)): (&Vec<String>, &(i64, i64))| MemoryRow {
            path: path.clone(),
            bytes,
            peak,
        };
        self.rows.iter().map(row).collect()
    }

    pub(super) fn take(&mut self, event: &Event) {
        let bytes = |key| number(event, key);
        let label = |key| label(event, key);
        match event.name {
            "memory.allocate" => self.allocate(event),
            "memory.release" => self.release(event),
            "memory.device" => {
                for key in ["allocated", "reserved", "free", "total"] {
                    if let Some(now) = bytes(key) {
                        self.set(&["device", &device(event), key], now);
                    }
                }
            }
            "memory.pool" => {
                for key in ["used", "capacity"] {
                    if let Some(now) = bytes(key) {
                        self.set(&["pool", &label("pool"), key], now);
                    }
                }
            }
            "kv_cache.grow" => self.add(&["kv cache", &label("cache")], bytes("bytes")),
            "memory.phase" => self.add(&["phase", &label("phase")], bytes("delta")),
            "memory.weights" => {
                let path = label("path");
                let parts = path.split(['.', '/']).filter(|part| !part.is_empty());
                let parts: Vec<&str> = ["weights"].into_iter().chain(parts).collect();
                self.add(&parts[..parts.len().min(1 + WEIGHT_PARTS)], bytes("bytes"));
            }
            "process.resident_bytes" => self.reading(event, &["process", "resident"]),
            "process.anonymous_bytes" => self.reading(event, &["process", "anonymous"]),
            _ => {}
        }
    }

    fn allocate(&mut self, event: &Event) {
        let Some(bytes) = number(event, "bytes") else { return };
        let (device, kind) = (device(event), label(event, "kind"));
        self.add(&["allocated", &device, &kind], Some(bytes));
        if let Some(id) = event.field("id") {
            self.open(id.to_string(), Open { device, kind, bytes });
        }
    }

    /// Awaits its release, if there is room.
    fn open(&mut self, id: String, new: Open) {
        if self.open_count == MOST_OPEN {
            return;
        }
        let of_id = self.open.entry(id).or_default();
        let before = of_id.len();
        of_id.retain(|old| old.device != new.device);
        of_id.push(new);
        self.open_count += of_id.len() - before;
    }

    fn release(&mut self, event: &Event) {
        if let Some(Open { device, kind, bytes }) = self.close(event) {
            return self.add(&["allocated", &device, &kind], Some(-bytes));
        }
        let path = ["allocated", &device(event), &label(event, "kind")];
        self.add(&path, number(event, "bytes").map(|bytes| -bytes));
    }

    /// The allocation that a release is of, as `analyze memory` pairs them: the one of its id on
    /// its device; or on any, if it names none and there is no such on the host.
    fn close(&mut self, event: &Event) -> Option<Open> {
        let id = event.field("id")?.to_string();
        let of_id = self.open.get_mut(&id)?;
        let device_here = device(event);
        let here = of_id.iter().position(|open| open.device == device_here);
        let anywhere = || event.field("device").is_none().then(|| of_id.len() - 1);
        let closed = of_id.remove(here.or_else(anywhere)?);
        if of_id.is_empty() {
            self.open.remove(&id);
        }
        self.open_count -= 1;
        Some(closed)
    }

    fn reading(&mut self, event: &Event, path: &[&str]) {
        if let Some(now) = event.value.as_ref().and_then(Field::number) {
            self.set(path, now as i64);
        }
    }

    /// To a row, and to all that it is a part of.
    fn add(&mut self, path: &[&str], bytes: Option<i64>) {
        let Some(bytes) = bytes else { return };
        for length in 1..=path.len() {
            let Some((now, peak)) = self.row(&path[..length]) else { return };
            *now = now.saturating_add(bytes);
            *peak = (*peak).max(*now);
        }
    }

    fn set(&mut self, path: &[&str], bytes: i64) {
        if let Some((now, peak)) = self.row(path) {
            *now = bytes;
            *peak = (*peak).max(bytes);
        }
    }

    fn row(&mut self, path: &[&str]) -> Option<&mut (i64, i64)> {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        if self.rows.len() >= MOST_ROWS && !self.rows.contains_key(&path) {
            return None;
        }
        Some(self.rows.entry(path).or_default())
    }
}

fn number(event: &Event, key: &str) -> Option<i64> {
    event.field(key).and_then(Field::number).map(|number| number as i64)
}

fn label(event: &Event, key: &str) -> String {
    event.field(key).map_or_else(|| "(unnamed)".to_owned(), ToString::to_string)
}

/// `cpu`, `host` or no such field is the host.
fn device(event: &Event) -> String {
    match event.field("device").map(ToString::to_string) {
        Some(device) if device != "cpu" => device,
        _ => "host".to_owned(),
    }
}
