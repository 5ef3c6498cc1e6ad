//! Polars, and the rows of a trace as Parquet.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use ringscope_format::{Batch, Columns, Trace};
use serde::Deserialize;
use serde_json::Value;

use super::programs;
use super::timing::{Cost, Run};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/polars/peer.py");

/// Polars, with its file ready.
pub(crate) struct Polars {
    python: PathBuf,
    pub(crate) parquet: PathBuf,
    /// Whichever is quicker here, with percentiles and without.
    pub(crate) engines: [&'static str; 2],
}

/// What the script prints.
#[derive(Deserialize)]
pub(crate) struct Answer {
    /// Of the query alone.
    pub(crate) seconds: f64,
    pub(crate) rows: Value,
}

impl Polars {
    /// Installs it, and writes the rows of a trace as Parquet.
    pub(crate) fn prepare(trace: &Path, scratch: &Path) -> Result<Self> {
        let python = programs::python()?;
        eprintln!("analyze: writing the same rows as Parquet");
        let parquet = scratch.join("large.parquet");
        let columns = scratch.join("columns");
        write_columns(trace, &columns)?;
        let mut write = Command::new(&python);
        programs::run(write.arg(SCRIPT).arg("write").args([&columns, &parquet]))?;
        std::fs::remove_dir_all(&columns)?;
        let mut polars = Polars { python, parquet, engines: ["streaming"; 2] };
        for (at, percentiles) in [true, false].into_iter().enumerate() {
            let streaming = polars.measure("streaming", percentiles, scratch)?;
            let in_memory = polars.measure("in-memory", percentiles, scratch)?;
            if in_memory.wall_s < streaming.wall_s {
                polars.engines[at] = "in-memory";
            }
        }
        Ok(polars)
    }

    /// Groups by name. The time is that of the query: Python's start would be unfair.
    pub(crate) fn group_by(&self, percentiles: bool, scratch: &Path) -> Result<Cost> {
        let engine = self.engines[usize::from(!percentiles)];
        self.measure(engine, percentiles, scratch)
    }

    fn measure(&self, engine: &str, percentiles: bool, scratch: &Path) -> Result<Cost> {
        let what = if percentiles { "percentiles" } else { "plain" };
        let parquet = self.parquet.as_os_str();
        let words = [SCRIPT.as_ref(), "group".as_ref(), parquet, engine.as_ref(), what.as_ref()];
        let mut cost = Run::new(&self.python, words).measure(scratch)?;
        cost.wall_s = answer(&cost.output)?.seconds;
        Ok(cost)
    }
}

/// Reads what the script printed.
pub(crate) fn answer(output: &str) -> Result<Answer> {
    serde_json::from_str(output).context("output of peer.py")
}

/// The columns of a trace, each a file of little-endian numbers.
fn write_columns(trace: &Path, directory: &Path) -> Result<()> {
    std::fs::create_dir(directory)?;
    let column = |name: &str| File::create(directory.join(name)).map(BufWriter::new);
    let (mut start, mut duration) = (column("start")?, column("duration")?);
    let (mut name, mut track) = (column("name")?, column("track")?);
    let trace = Trace::open(File::open(trace)?)?;
    let mut batch = Batch::default();
    let wanted = Columns::START | Columns::VALUE | Columns::NAME | Columns::TRACK;
    for chunk in trace.chunks() {
        trace.decode_into(chunk, wanted, &mut batch)?;
        for at in 0..batch.events {
            start.write_all(&batch.start[at].to_le_bytes())?;
            duration.write_all(&batch.value[at].to_le_bytes())?;
            name.write_all(&batch.name[at].to_le_bytes())?;
            track.write_all(&batch.track[at].to_le_bytes())?;
        }
    }
    for mut file in [start, duration, name, track] {
        file.flush()?;
    }
    Ok(())
}
