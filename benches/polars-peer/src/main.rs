//! What `ringscope-benches analyze` compares with: the rows of a trace in a zstd
//! Parquet file, grouped by Polars' lazy engine.
//!
//! - `polars-peer write TRACE PARQUET` copies start, duration, name and track. Names
//!   and tracks stay numbers: grouping by text would take Polars longer.
//! - `polars-peer group PARQUET ENGINE percentiles|plain` groups by name and prints
//!   one JSON array with a row for each.
//!
//! File and query are as Polars makes them unasked: zstd, row groups of 262,144
//! rows; every optimisation on. `ENGINE` is `memory` or `streaming`.

use std::fs::File;
use std::io::BufWriter;

use anyhow::{Context, Result, bail};
use polars::prelude::*;
use ringscope_format::{Batch, Columns, Trace};

/// Polars' documentation recommends it, and its Python wheels have it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// As many rows as Polars puts into a row group.
const ROW_GROUP: usize = 512 * 512;

const PERCENTILES: [(&str, f64); 3] = [("p50_ns", 0.5), ("p95_ns", 0.95), ("p99_ns", 0.99)];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", trace, parquet] => write(trace, parquet),
        ["group", parquet, engine, what] => group(parquet, engine, what),
        _ => bail!("usage: write TRACE PARQUET, group PARQUET memory|streaming percentiles|plain"),
    }
}

/// Rows on their way into a row group.
#[derive(Default)]
struct Rows {
    start: Vec<u64>,
    duration: Vec<u64>,
    name: Vec<u32>,
    track: Vec<u32>,
}

impl Rows {
    fn frame(&self) -> PolarsResult<DataFrame> {
        df!(
            "start" => &self.start,
            "duration" => &self.duration,
            "name" => &self.name,
            "track" => &self.track,
        )
    }

    fn clear(&mut self) {
        self.start.clear();
        self.duration.clear();
        self.name.clear();
        self.track.clear();
    }
}

fn write(trace: &str, parquet: &str) -> Result<()> {
    let trace = Trace::open(File::open(trace).with_context(|| trace.to_owned())?)?;
    let file = BufWriter::new(File::create(parquet).with_context(|| parquet.to_owned())?);
    let mut rows = Rows::default();
    let writer = ParquetWriter::new(file);
    let mut writer = writer.batched(rows.frame()?.schema())?;
    let mut batch = Batch::default();
    let columns = Columns::START | Columns::VALUE | Columns::NAME | Columns::TRACK;
    for chunk in trace.chunks() {
        trace.decode_into(chunk, columns, &mut batch)?;
        let mut from = 0;
        while from < batch.events {
            let to = batch.events.min(from + ROW_GROUP - rows.start.len());
            rows.start.extend(&batch.start[from..to]);
            rows.duration.extend(&batch.value[from..to]);
            rows.name.extend(&batch.name[from..to]);
            rows.track.extend(&batch.track[from..to]);
            from = to;
            if rows.start.len() == ROW_GROUP {
                writer.write_batch(&rows.frame()?)?;
                rows.clear();
            }
        }
    }
    if !rows.start.is_empty() {
        writer.write_batch(&rows.frame()?)?;
    }
    writer.finish()?;
    Ok(())
}

fn group(parquet: &str, engine: &str, what: &str) -> Result<()> {
    let engine = match engine {
        "memory" => Engine::InMemory,
        "streaming" => Engine::Streaming,
        _ => bail!("{engine}: no such engine; use memory or streaming"),
    };
    let duration = || col("duration");
    let mut wanted = vec![
        len().alias("count"),
        duration().sum().alias("total_ns"),
        duration().mean().alias("mean_ns"),
        duration().max().alias("max_ns"),
    ];
    if what == "percentiles" {
        wanted.extend(PERCENTILES.map(|(key, share)| {
            duration().quantile(lit(share), QuantileMethod::Linear).alias(key)
        }));
    }
    let grouped = LazyFrame::scan_parquet(PlRefPath::new(parquet), ScanArgsParquet::default())?
        .group_by([col("name")])
        .agg(wanted)
        .collect_with_engine(engine)?
        .unwrap_single();
    let mut rows = Vec::new();
    for at in 0..grouped.height() {
        let mut row = serde_json::Map::new();
        for column in grouped.columns() {
            let number = column.get(at)?.try_extract::<f64>()?;
            row.insert(column.name().to_string(), number.into());
        }
        rows.push(row);
    }
    println!("{}", serde_json::to_string(&rows)?);
    Ok(())
}
