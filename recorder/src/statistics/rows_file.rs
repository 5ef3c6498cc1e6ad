//! Rows of latency and of memory, written at an interval: one file of each, named
//! after the time it was begun.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use super::{Figures, LatencyRow, MemoryRow};
use crate::handlers::{Event, ExportError, MetricExporter};

/// Keeps figures, and writes their rows as JSON lines at an interval and at the end.
#[derive(Debug)]
pub(crate) struct RowsFile {
    figures: Figures,
    latency: BufWriter<File>,
    memory: BufWriter<File>,
    every: Duration,
    next: Instant,
    /// Whether anything came since rows were written.
    changed: bool,
}

impl RowsFile {
    /// For `run.jsonl`: `run.latency-20261116T170405Z.jsonl` and the same with `memory`.
    ///
    /// A row of latencies is of the interval that ends with it, which is a second at least.
    pub(crate) fn create(beside: &Path, every: Duration) -> io::Result<Self> {
        let every = every.max(Duration::from_secs(1));
        let stamp = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let stamp = stamp.replace(['-', ':'], "");
        let open = |what: &str| {
            let path = named(beside, what, &stamp);
            let file = File::create(&path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: cannot create: {error}", path.display()))
            });
            file.map(BufWriter::new)
        };
        Ok(Self {
            // Intervals are what is between two times of writing, however long that is.
            figures: Figures::new(Duration::from_secs(u32::MAX.into())),
            latency: open("latency")?,
            memory: open("memory")?,
            every,
            next: Instant::now() + every,
            changed: false,
        })
    }

    fn write_rows(&mut self, now: Instant) -> io::Result<()> {
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        for row in self.figures.latencies.by_path(now) {
            write_latency(&mut self.latency, &at, &row)?;
        }
        self.figures.latencies.clear();
        for row in self.figures.memory.rows() {
            write_memory(&mut self.memory, &at, &row)?;
        }
        self.latency.flush()?;
        self.memory.flush()
    }
}

fn named(beside: &Path, what: &str, stamp: &str) -> PathBuf {
    let mut name = beside.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{what}-{stamp}.jsonl"));
    beside.with_file_name(name)
}

fn write_latency(out: &mut impl Write, at: &str, row: &LatencyRow) -> io::Result<()> {
    write!(out, "{{\"at\":\"{at}\",\"path\":")?;
    serde_json::to_writer(&mut *out, &row.path)?;
    let ns = Duration::as_nanos;
    writeln!(
        out,
        ",\"depth\":{},\"of\":\"{}\",\"count\":{},\"total_count\":{},\"sum_ns\":{},\"mean_ns\":{},\
         \"p50_ns\":{},\"p95_ns\":{},\"p99_ns\":{},\"min_ns\":{},\"max_ns\":{}}}",
        row.path.len() - 1,
        row.of.name(),
        row.count,
        row.total_count,
        ns(&row.sum),
        ns(&row.mean),
        ns(&row.p50),
        ns(&row.p95),
        ns(&row.p99),
        ns(&row.min),
        ns(&row.max),
    )
}

fn write_memory(out: &mut impl Write, at: &str, row: &MemoryRow) -> io::Result<()> {
    write!(out, "{{\"at\":\"{at}\",\"path\":")?;
    serde_json::to_writer(&mut *out, &row.path)?;
    let (depth, bytes, peak) = (row.path.len() - 1, row.bytes, row.peak);
    writeln!(out, ",\"depth\":{depth},\"bytes\":{bytes},\"peak_bytes\":{peak}}}")
}

impl MetricExporter for RowsFile {
    fn export(&mut self, event: &Event) -> Result<(), ExportError> {
        self.figures.take(event, Instant::now());
        self.changed = true;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + self.every;
            self.changed = false;
            self.write_rows(now)?;
        }
        Ok(())
    }

    fn name(&self) -> String {
        "rows".to_owned()
    }

    fn end(&mut self) -> Result<(), ExportError> {
        if self.changed {
            self.write_rows(Instant::now())?;
        }
        Ok(())
    }
}
