//! One row group: every column encoded and packed, in memory.

use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding, ZstdLevel},
    column::writer::{
        ColumnCloseResult, ColumnWriterImpl, get_column_writer, get_typed_column_writer,
    },
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type},
    errors::{ParquetError, Result},
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties},
        writer::{SerializedPageWriter, TrackedWrite},
    },
    schema::types::ColumnPath,
};

use super::{Plan, dictionary};
use crate::export::columns::{Optional, Rows};

/// Rows that a reader of single pages has to take at once.
pub(super) const ROWS_IN_A_PAGE: usize = 1 << 16;
/// Of zstd.
pub(super) const LEVEL: i32 = 1;

/// A column of a row group as it will be in the file.
pub(super) struct Encoded {
    pub(super) bytes: Bytes,
    pub(super) close: ColumnCloseResult,
}

/// How columns are written that are no dictionaries of ours.
pub(super) fn properties(about: String) -> WriterProperties {
    let column = |name: &str| ColumnPath::from(name);
    let level = ZstdLevel::try_new(LEVEL).unwrap_or_default();
    WriterProperties::builder()
        .set_created_by(concat!("ringscope-analyzer ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new("ringscope".to_owned(), about)]))
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding(column("value"), Encoding::PLAIN)
        .set_column_encoding(column("fields"), Encoding::PLAIN)
        .set_column_dictionary_enabled(column("fields"), true)
        .set_data_page_row_count_limit(ROWS_IN_A_PAGE)
        .set_write_batch_size(1 << 13)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_column_statistics_enabled(column("fields"), EnabledStatistics::None)
        .build()
}

/// Encodes a group.
pub(super) fn encode(plan: &Plan<'_>, rows: Rows) -> Result<Vec<Encoded>> {
    let Plan { dictionaries: known, columns, .. } = plan;
    let fields = Optional {
        present: rows.fields.present,
        values: rows
            .fields
            .values
            .into_iter()
            .map(|text| ByteArray::from(text.into_bytes()))
            .collect(),
    };
    let all = || Optional::<i64>::default().present;
    debug_assert_eq!(columns.len(), 15);
    Ok(vec![
        dictionary::column(&columns[0], &rows.name, known.names)?,
        dictionary::column(&columns[1], &rows.kind, &known.kinds)?,
        dictionary::column(&columns[2], &rows.track, &rows.tracks)?,
        dictionary::column(&columns[3], &rows.track_kind, &known.track_kinds)?,
        dictionary::column(&columns[4], &rows.trace, &known.traces)?,
        dictionary::column(&columns[5], &rows.trace, &known.recordings)?,
        numbers::<Int64Type>(plan, 6, &rows.start_ns, &all())?,
        numbers::<Int64Type>(plan, 7, &rows.start_unix_ns, &all())?,
        optional::<Int64Type>(plan, 8, &rows.dur_ns)?,
        numbers::<Int32Type>(plan, 9, &rows.depth, &all())?,
        dictionary::column(&columns[10], &rows.status, &known.statuses)?,
        optional::<DoubleType>(plan, 11, &rows.value)?,
        optional::<Int64Type>(plan, 12, &rows.value_int)?,
        optional::<Int64Type>(plan, 13, &rows.link)?,
        optional::<ByteArrayType>(plan, 14, &fields)?,
    ])
}

fn optional<T: DataType>(plan: &Plan<'_>, at: usize, of: &Optional<T::T>) -> Result<Encoded> {
    numbers::<T>(plan, at, &of.values, &of.present)
}

/// A column that the library encodes; nothing is missing of one without levels.
fn numbers<T: DataType>(
    plan: &Plan<'_>,
    at: usize,
    values: &[T::T],
    present: &[i16],
) -> Result<Encoded> {
    let mut sink = TrackedWrite::new(Vec::new());
    let pages = Box::new(SerializedPageWriter::new(&mut sink));
    let writer = get_column_writer(plan.columns[at].clone(), plan.properties.clone(), pages);
    let mut writer: ColumnWriterImpl<'_, T> = get_typed_column_writer(writer);
    writer.write_batch(values, (!present.is_empty()).then_some(present), None)?;
    let close = writer.close()?;
    let bytes = sink.into_inner().map_err(|error| ParquetError::General(error.to_string()))?;
    Ok(Encoded { bytes: bytes.into(), close })
}
