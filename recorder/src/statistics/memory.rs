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
    /// Where an allocation with an id was counted, and how large it is.
    open: HashMap<String, (Vec<String>, i64)>,
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
                        self.set(&["device", &label("device"), key], now);
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
        let path = ["allocated".to_owned(), device(event), label(event, "kind")];
        if let Some(id) = event.field("id")
            && self.open.len() < MOST_OPEN
        {
            self.open.insert(format!("{id}"), (path.to_vec(), bytes));
        }
        self.add(&path.each_ref().map(String::as_str), Some(bytes));
    }

    fn release(&mut self, event: &Event) {
        let known = event.field("id").and_then(|id| self.open.remove(&format!("{id}")));
        if let Some((path, bytes)) = known {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            return self.add(&path, Some(-bytes));
        }
        let path = ["allocated", &device(event), &label(event, "kind")];
        self.add(&path, number(event, "bytes").map(|bytes| -bytes));
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
