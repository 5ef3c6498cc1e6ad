//! Apache Parquet: the rows of [`super::columns`] in row groups of 262,144, in the
//! order in which they were recorded. Start times therefore rise from group to group,
//! and their statistics let a reader skip the groups of other times. A directory of
//! such files is one data set: `start_unix_ns` and `recording` tell traces apart and
//! put them on one line of time.
//!
//! Names and other texts that repeat are written from our numbers of them
//! (`dictionary`); the library would hash the text of every row. Numbers are
//! DELTA_BINARY_PACKED: starts and durations of spans take 2.5 and 2.4 bytes each so,
//! against 3.0 and 2.9 as Polars writes them, in a third of the time of packing plain
//! ones with zstd. BYTE_STREAM_SPLIT would take 2.1 of durations, but Spark before 4
//! does not read it of integers. All pages are packed with zstd at level 1: more gains
//! nothing on what is packed already.
//!
//! Groups are encoded on as many threads as there are processors and written in order;
//! one group a thread waits, so memory does not grow with the trace.

mod dictionary;
mod group;

use std::{
    collections::BTreeMap,
    io::Write,
    num::NonZero,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

use parquet::{
    errors::ParquetError,
    file::{
        properties::{WriterProperties, WriterPropertiesPtr},
        writer::SerializedFileWriter,
    },
    schema::types::ColumnDescPtr,
};
use serde_json::json;

use self::group::{Encoded, encode};
use super::{
    Exporter,
    columns::{Dictionaries, Grouping, Rows},
    events::Source,
};
use crate::{Error, Result};

pub(super) struct Parquet;

/// The columns and their order, which `group` follows.
const SCHEMA: &str = "message events {
    required binary name (STRING);
    required binary kind (STRING);
    required binary track (STRING);
    required binary track_kind (STRING);
    required binary trace (STRING);
    required binary recording (STRING);
    required int64 start_ns;
    required int64 start_unix_ns;
    optional int64 dur_ns;
    required int32 depth;
    required binary status (STRING);
    optional double value;
    optional int64 value_int;
    optional int64 link;
    optional binary fields (STRING);
}";

/// What encoding takes.
struct Plan<'a> {
    dictionaries: Dictionaries<'a>,
    columns: Vec<ColumnDescPtr>,
    properties: WriterPropertiesPtr,
}

impl Exporter for Parquet {
    fn export(&self, source: &Source<'_>, out: &mut dyn Write) -> Result<()> {
        let message = parquet::schema::parser::parse_message_type(SCHEMA).map_err(failed)?;
        let properties = Arc::new(properties(source));
        // Into memory, and from there to `out` after each group: it need not be `Send`.
        let writer =
            SerializedFileWriter::new(Vec::new(), Arc::new(message), Arc::clone(&properties));
        let mut writer = writer.map_err(failed)?;
        let plan = Plan {
            dictionaries: Dictionaries::of(source),
            columns: writer.schema_descr().columns().to_vec(),
            properties,
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            let (to_encode, waiting) = mpsc::sync_channel::<(usize, Rows)>(threads);
            let (to_write, encoded) = mpsc::channel();
            let waiting = Arc::new(Mutex::new(waiting));
            for _ in 0..threads {
                let (waiting, to_write, plan) = (Arc::clone(&waiting), to_write.clone(), &plan);
                scope.spawn(move || {
                    loop {
                        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok((number, rows)) = next else { return };
                        if to_write.send((number, encode(plan, rows))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(to_write);
            let mut order = InOrder { writer: &mut writer, out, next: 0, early: BTreeMap::new() };
            let mut groups = 0;
            let gone = || Error::new("a worker thread panicked");
            let collected = Grouping::new(source).each(|rows| {
                to_encode.send((groups, rows)).map_err(|_| gone())?;
                groups += 1;
                // No more under way than the threads hold and one each that waits.
                while groups - order.next > 2 * threads {
                    let (number, group) = encoded.recv().map_err(|_| gone())?;
                    order.take(number, group.map_err(failed)?)?;
                }
                Ok(())
            });
            drop(to_encode);
            collected?;
            while order.next < groups {
                let (number, group) = encoded.recv().map_err(|_| gone())?;
                order.take(number, group.map_err(failed)?)?;
            }
            Ok::<_, Error>(())
        })?;
        writer.finish().map_err(failed)?;
        out.write_all(writer.inner())?;
        Ok(())
    }
}

/// Puts groups in order that come as they are ready.
struct InOrder<'a, 'o> {
    writer: &'a mut SerializedFileWriter<Vec<u8>>,
    out: &'o mut dyn Write,
    next: usize,
    early: BTreeMap<usize, Vec<Encoded>>,
}

impl InOrder<'_, '_> {
    fn take(&mut self, number: usize, group: Vec<Encoded>) -> Result<()> {
        self.early.insert(number, group);
        while let Some(columns) = self.early.remove(&self.next) {
            let mut group = self.writer.next_row_group().map_err(failed)?;
            for Encoded { bytes, close } in columns {
                group.append_column(&bytes, close).map_err(failed)?;
            }
            group.close().map_err(failed)?;
            self.writer.flush()?;
            self.out.write_all(self.writer.inner())?;
            self.writer.inner_mut().clear();
            self.next += 1;
        }
        Ok(())
    }
}

fn properties(source: &Source<'_>) -> WriterProperties {
    let traces = source.traces().list.iter().enumerate().map(|(trace, loaded)| {
        let header = loaded.trace.header();
        json!({ "trace": loaded.label, "pid": header.pid, "first_unix_ns": source.unix_ns(trace, 0) })
    });
    let about = json!({ "traces": traces.collect::<Vec<_>>() });
    // Not what Arrow would call the columns: pyarrow would take texts for dictionaries, and
    // those of several files for as many types.
    group::properties(about.to_string())
}

fn failed(error: ParquetError) -> Error {
    Error::new(format!("output: {error}"))
}
