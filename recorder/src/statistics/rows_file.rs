//! Rows of latency and of memory, written at an interval: one file of each, named
//! after the time it was begun.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use super::{Figures, LatencyRow, MemoryRow};
use crate::{
    file_names::numbered,
    handlers::{Event, ExportError, MetricExporter},
};

/// Keeps figures, and writes their rows as JSON lines at an interval and at the end.
#[derive(Debug)]
pub(crate) struct RowsFile {
    figures: Figures,
    latency: BufWriter<File>,
    memory: BufWriter<File>,
    every: Duration,
    /// `None` if that is further off than a clock can tell.
    next: Option<Instant>,
    /// Whether anything came since rows were written.
    changed: bool,
}

impl RowsFile {
    /// For `run.jsonl`: `run.latency-20261116T170405Z.jsonl` and the same with `memory`;
    /// `...Z.1.jsonl` where another recording has begun in the same second.
    ///
    /// A row of latencies is of the interval that ends with it, which is a second at least.
    pub(crate) fn create(beside: &Path, every: Duration) -> io::Result<Self> {
        let every = every.max(Duration::from_secs(1));
        let stamp = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let stamp = stamp.replace(['-', ':'], "");
        let (latency, memory) = create_both(beside, &stamp)?;
        Ok(Self {
            // Intervals are what is between two times of writing, however long that is.
            figures: Figures::new(Duration::from_secs(u32::MAX.into())),
            latency: BufWriter::new(latency),
            memory: BufWriter::new(memory),
            every,
            next: Instant::now().checked_add(every),
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

/// The files of latency and of memory, of the same number.
fn create_both(beside: &Path, stamp: &str) -> io::Result<(File, File)> {
    let cannot = |path: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("{}: cannot create: {error}", path.display()))
    };
    let is_there = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
    for number in 0_u32.. {
        let [latency, memory] = ["latency", "memory"].map(|of| named(beside, of, stamp, number));
        let first = match File::create_new(&latency) {
            Err(error) if is_there(&error) => continue,
            created => created.map_err(|error| cannot(&latency, error))?,
        };
        match File::create_new(&memory) {
            Ok(second) => return Ok((first, second)),
            Err(error) => {
                // It is empty, and would look like rows of a recording without any.
                let _ = fs::remove_file(&latency);
                if !is_there(&error) {
                    return Err(cannot(&memory, error));
                }
            }
        }
    }
    unreachable!("more files of one second than numbers")
}

fn named(beside: &Path, what: &str, stamp: &str, number: u32) -> PathBuf {
    let mut name = beside.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{what}-{stamp}.jsonl"));
    let first = beside.with_file_name(name);
    if number == 0 { first } else { numbered(&first, &number.to_string()) }
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
        if self.next.is_some_and(|next| now >= next) {
            self.next = now.checked_add(self.every);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_recording_in_the_same_second_leaves_the_rows_of_the_first_alone() {
        let dir = tempfile::tempdir().unwrap();
        let beside = dir.path().join("run.jsonl");
        let row = |text: &str| {
            let (mut latency, mut memory) = create_both(&beside, "20261116T170405Z").unwrap();
            latency.write_all(text.as_bytes()).unwrap();
            memory.write_all(text.as_bytes()).unwrap();
        };
        row("first");
        row("second");
        // One that lacks its other half is left alone as well.
        fs::remove_file(dir.path().join("run.latency-20261116T170405Z.jsonl")).unwrap();
        row("third");
        let mut found: Vec<(String, String)> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, fs::read_to_string(&path).unwrap())
            })
            .collect();
        found.sort();
        let expected = [
            ("run.latency-20261116T170405Z.1.jsonl", "second"),
            ("run.latency-20261116T170405Z.2.jsonl", "third"),
            ("run.memory-20261116T170405Z.1.jsonl", "second"),
            ("run.memory-20261116T170405Z.2.jsonl", "third"),
            ("run.memory-20261116T170405Z.jsonl", "first"),
        ];
        assert_eq!(found, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
    }
}
