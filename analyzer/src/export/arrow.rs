//! Arrow IPC files (also called Feather): the rows of [`super::columns`] in record
//! batches packed with zstd, which a reader can map or take one by one.
//!
//! Dictionaries come before the batches and hold for all of them, because readers
//! differ in whether they take others later. Tracks are therefore looked for ahead.

use std::{io::Write, sync::Arc};

use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    types::Int32Type,
};
use arrow_ipc::{
    CompressionType,
    writer::{FileWriter, IpcWriteOptions},
};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::{
    Exporter,
    columns::{Dictionaries, Grouping, Optional, Rows},
    events::Source,
};
use crate::{Error, Result};

pub(super) struct Arrow;

/// The columns, as Arrow names their types.
pub(super) fn schema() -> Schema {
    let text = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Schema::new(vec![
        Field::new("name", text(), false),
        Field::new("kind", text(), false),
        Field::new("track", text(), false),
        Field::new("track_kind", text(), false),
        Field::new("trace", text(), false),
        Field::new("recording", text(), false),
        Field::new("start_ns", DataType::Int64, false),
        Field::new("start_unix_ns", DataType::Int64, false),
        Field::new("dur_ns", DataType::Int64, true),
        Field::new("depth", DataType::Int32, false),
        Field::new("status", text(), false),
        Field::new("value", DataType::Float64, true),
        Field::new("value_int", DataType::Int64, true),
        Field::new("link", DataType::Int64, true),
        Field::new("fields", DataType::Utf8, true),
    ])
}

impl Exporter for Arrow {
    fn export(&self, source: &Source<'_>, mut out: &mut dyn Write) -> Result<()> {
        let schema = Arc::new(schema());
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD));
        let options = options.map_err(failed)?;
        let writer = FileWriter::try_new_with_options(&mut out, &schema, options);
        let mut writer = writer.map_err(failed)?;
        let mut grouping = Grouping::new(source);
        let texts = Texts::new(&Dictionaries::of(source), &grouping.all_tracks()?);
        grouping.each(|rows| {
            let batch = texts.batch(&schema, rows);
            batch.and_then(|batch| writer.write(&batch)).map_err(failed)
        })?;
        writer.finish().map_err(failed)
    }
}

/// Dictionaries that all batches share.
struct Texts {
    names: ArrayRef,
    kinds: ArrayRef,
    tracks: ArrayRef,
    track_kinds: ArrayRef,
    traces: ArrayRef,
    recordings: ArrayRef,
    statuses: ArrayRef,
}

impl Texts {
    fn new(known: &Dictionaries<'_>, tracks: &[String]) -> Self {
        let array =
            |texts: &[String]| -> ArrayRef { Arc::new(StringArray::from_iter_values(texts)) };
        Self {
            names: array(known.names),
            kinds: array(&known.kinds),
            tracks: array(tracks),
            track_kinds: array(&known.track_kinds),
            traces: array(&known.traces),
            recordings: array(&known.recordings),
            statuses: array(&known.statuses),
        }
    }

    fn batch(
        &self,
        schema: &Arc<Schema>,
        rows: Rows,
    ) -> std::result::Result<RecordBatch, ArrowError> {
        let text = |numbers: &[u32],
                    texts: &ArrayRef|
         -> std::result::Result<ArrayRef, ArrowError> {
            let keys = Int32Array::from_iter_values(numbers.iter().map(|&number| number as i32));
            let array = DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(texts))?;
            Ok(Arc::new(array))
        };
        let columns: Vec<ArrayRef> = vec![
            text(&rows.name, &self.names)?,
            text(&rows.kind, &self.kinds)?,
            text(&rows.track, &self.tracks)?,
            text(&rows.track_kind, &self.track_kinds)?,
            text(&rows.trace, &self.traces)?,
            text(&rows.trace, &self.recordings)?,
            Arc::new(Int64Array::from(rows.start_ns)),
            Arc::new(Int64Array::from(rows.start_unix_ns)),
            Arc::new(rows.dur_ns.into_iter().collect::<Int64Array>()),
            Arc::new(Int32Array::from(rows.depth)),
            text(&rows.status, &self.statuses)?,
            Arc::new(rows.value.into_iter().collect::<Float64Array>()),
            Arc::new(rows.value_int.into_iter().collect::<Int64Array>()),
            Arc::new(rows.link.into_iter().collect::<Int64Array>()),
            Arc::new(rows.fields.into_iter().collect::<StringArray>()),
        ];
        RecordBatch::try_new(Arc::clone(schema), columns)
    }
}

impl<T> Optional<T> {
    fn into_iter(self) -> impl Iterator<Item = Option<T>> {
        let mut values = self.values.into_iter();
        self.present.into_iter().map(move |is| if is == 0 { None } else { values.next() })
    }
}

fn failed(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => error.into(),
        other => Error::new(format!("output: {other}")),
    }
}
