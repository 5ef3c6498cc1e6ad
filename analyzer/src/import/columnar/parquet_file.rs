//! Parquet files: columns that are neither nested nor repeated, a few thousand rows at
//! a time. Texts stay where their pages are: one long text of a dictionary would
//! otherwise be copied for every row that has it.

use bytes::Bytes;
use parquet::{
    basic::{LogicalType, TimeUnit, Type},
    column::reader::{ColumnReader, ColumnReaderImpl},
    data_type::{ByteArray, DataType, FixedLenByteArray, Int96},
    errors::{ParquetError, Result as Read},
    file::{
        metadata::ColumnChunkMetaData,
        reader::{FileReader, RowGroupReader, SerializedFileReader},
    },
    schema::types::ColumnDescriptor,
};

use super::table::{Cell, Described, Holds, Table, refuse_too_many, taken};
use crate::import::collector::Collector;

/// Rows that are held at a time.
const ROWS: usize = 8_192;

/// Reads all rows: how many there were, and the wall time of the clock's zero.
pub(super) fn read(
    file: Vec<u8>,
    found: &mut Collector,
    prefix: &str,
) -> Result<Option<i64>, String> {
    let length = file.len() as u64;
    let file = SerializedFileReader::new(Bytes::from(file)).map_err(damaged)?;
    let schema = file.metadata().file_metadata().schema_descr();
    let rows = file.metadata().file_metadata().num_rows();
    let rows = u64::try_from(rows).map_err(|_| format!("is damaged: it has {rows} rows"))?;
    refuse_too_many(rows, found.budget)?;
    let all: Vec<(Described, As)> = schema.columns().iter().map(|it| described(it)).collect();
    let (described, kinds): (Vec<Described>, Vec<As>) = all.into_iter().unzip();
    let columns = taken(&described, found)?;
    let headers = columns.iter().map(|&at| described[at].header()).collect();
    let mut table = Table::new(headers, found, prefix);
    for group in 0..file.num_row_groups() {
        let read = file
            .get_row_group(group)
            .map_err(damaged)
            .and_then(|group| rows_of(&*group, &columns, &kinds, length, &mut table));
        match read {
            Ok(()) => {}
            Err(why) if table.is_empty() => return Err(why),
            Err(why) => {
                table.cut(&why);
                break;
            }
        }
    }
    Ok(table.finish())
}

/// How the values of a column are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
    Number,
    Unsigned,
    /// So many nanoseconds each.
    Time(i128),
    Decimal(i32),
    Float16,
    Text,
    Other,
}

fn described(column: &ColumnDescriptor) -> (Described, As) {
    let physical = column.physical_type();
    let meant = match column.logical_type_ref() {
        _ if column.max_rep_level() > 0 || column.path().parts().len() > 1 => As::Other,
        Some(LogicalType::Timestamp(timestamp)) => As::Time(match timestamp.unit {
            TimeUnit::MILLIS => 1_000_000,
            TimeUnit::MICROS => 1_000,
            TimeUnit::NANOS => 1,
        }),
        Some(LogicalType::Decimal(decimal)) => As::Decimal(decimal.scale),
        Some(LogicalType::Integer(integer)) if !integer.is_signed => As::Unsigned,
        Some(LogicalType::Float16) => As::Float16,
        Some(LogicalType::Date | LogicalType::Time(_) | LogicalType::Uuid) => As::Other,
        _ => match physical {
            Type::BYTE_ARRAY => As::Text,
            Type::FIXED_LEN_BYTE_ARRAY => As::Other,
            // Spark's timestamps of old.
            Type::INT96 => As::Time(1),
            _ => As::Number,
        },
    };
    let holds = match meant {
        As::Other => Holds::Other,
        As::Text => Holds::Text,
        As::Time(_) => Holds::Time,
        _ if physical == Type::BOOLEAN => Holds::Flag,
        _ => Holds::Number,
    };
    let kind = match column.logical_type_ref() {
        Some(logical) => format!("{physical} ({logical:?})"),
        None => physical.to_string(),
    };
    (Described { name: column.path().string(), holds, kind }, meant)
}

/// Takes all rows of a group.
fn rows_of(
    group: &dyn RowGroupReader,
    columns: &[usize],
    kinds: &[As],
    length: u64,
    table: &mut Table<'_>,
) -> Result<(), String> {
    let mut readers = Vec::new();
    for &at in columns {
        in_place(group.metadata().column(at), length)?;
        let most = group.metadata().column(at).column_descr().max_def_level();
        let reader = group.get_column_reader(at).map_err(damaged)?;
        readers.push(Chunk { reader, meant: kinds[at], most, levels: Vec::new(), next: 0 });
    }
    let mut left = group.metadata().num_rows().max(0) as usize;
    while left > 0 {
        let parts: Read<Vec<Values>> =
            readers.iter_mut().map(|it| it.read(left.min(ROWS))).collect();
        let parts = parts.map_err(damaged)?;
        let rows = readers.iter().zip(&parts).map(|(it, part)| it.rows(part)).min().unwrap_or(0);
        if rows != left.min(ROWS) {
            return Err("is damaged: a column has too few values".to_owned());
        }
        for row in 0..rows {
            let cells: Vec<Cell<'_>> = readers
                .iter_mut()
                .zip(&parts)
                .map(|(chunk, part)| match chunk.step(row) {
                    Some(at) => part.cell(at, chunk.meant),
                    None => Cell::Null,
                })
                .collect();
            table.row(&cells)?;
        }
        left -= rows;
    }
    Ok(())
}

/// Refuses a column that is not where the file is: the library takes that for granted.
fn in_place(column: &ColumnChunkMetaData, file: u64) -> Result<(), String> {
    let begin = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let end = u64::try_from(begin)
        .ok()
        .zip(u64::try_from(column.compressed_size()).ok())
        .and_then(|(begin, length)| begin.checked_add(length));
    match end {
        Some(end) if end <= file && column.data_page_offset() >= 0 => Ok(()),
        _ => Err(format!("is damaged: column `{}` lies outside of it", column.column_path())),
    }
}

/// A column of a group, while it is read.
struct Chunk {
    reader: ColumnReader,
    meant: As,
    /// The level of a value that is there; 0 if none can be missing.
    most: i16,
    levels: Vec<i16>,
    /// The next value of the part that is being taken.
    next: usize,
}

impl Chunk {
    fn read(&mut self, rows: usize) -> Read<Values> {
        self.next = 0;
        self.levels.clear();
        let levels = (self.most > 0).then_some(&mut self.levels);
        Ok(match &mut self.reader {
            ColumnReader::BoolColumnReader(it) => Values::Bool(values(it, rows, levels)?),
            ColumnReader::Int32ColumnReader(it) => Values::Int32(values(it, rows, levels)?),
            ColumnReader::Int64ColumnReader(it) => Values::Int64(values(it, rows, levels)?),
            ColumnReader::Int96ColumnReader(it) => Values::Int96(values(it, rows, levels)?),
            ColumnReader::FloatColumnReader(it) => Values::Float(values(it, rows, levels)?),
            ColumnReader::DoubleColumnReader(it) => Values::Double(values(it, rows, levels)?),
            ColumnReader::ByteArrayColumnReader(it) => Values::Bytes(values(it, rows, levels)?),
            ColumnReader::FixedLenByteArrayColumnReader(it) => {
                Values::Fixed(values(it, rows, levels)?)
            }
        })
    }

    /// How many rows were read.
    fn rows(&self, part: &Values) -> usize {
        let there = self.levels.iter().filter(|&&level| level == self.most).count();
        match self.most {
            0 => part.len(),
            _ if there == part.len() => self.levels.len(),
            _ => 0,
        }
    }

    /// Which value a row has, if any.
    fn step(&mut self, row: usize) -> Option<usize> {
        if self.most > 0 && self.levels[row] != self.most {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }
}

/// So many rows of a column: the values that are there, and the levels of all.
fn values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    mut levels: Option<&mut Vec<i16>>,
) -> Read<Vec<T::T>> {
    let mut values = Vec::new();
    let mut read = 0;
    while read < rows {
        let (records, _, _) =
            reader.read_records(rows - read, levels.as_deref_mut(), None, &mut values)?;
        if records == 0 {
            break;
        }
        read += records;
    }
    Ok(values)
}

enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Int96(Vec<Int96>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Values::Bool(all) => all.len(),
            Values::Int32(all) => all.len(),
            Values::Int64(all) => all.len(),
            Values::Int96(all) => all.len(),
            Values::Float(all) => all.len(),
            Values::Double(all) => all.len(),
            Values::Bytes(all) => all.len(),
            Values::Fixed(all) => all.len(),
        }
    }

    fn cell(&self, at: usize, meant: As) -> Cell<'_> {
        let whole = |value: i64, unsigned: u64| match meant {
            As::Unsigned => Cell::Number(unsigned.to_string()),
            As::Time(ns) => Cell::Number((i128::from(value) * ns).to_string()),
            As::Decimal(scale) => Cell::decimal(value.into(), scale),
            _ => Cell::Number(value.to_string()),
        };
        match self {
            Values::Bool(all) => Cell::Flag(all[at]),
            Values::Int32(all) => whole(all[at].into(), u64::from(all[at] as u32)),
            Values::Int64(all) => whole(all[at], all[at] as u64),
            Values::Int96(all) => Cell::Number(int96(all[at]).to_string()),
            Values::Float(all) => Cell::Number(all[at].to_string()),
            Values::Double(all) => Cell::Number(all[at].to_string()),
            Values::Bytes(all) => bytes(all[at].data(), meant),
            Values::Fixed(all) => bytes(all[at].data(), meant),
        }
    }
}

fn bytes(bytes: &[u8], meant: As) -> Cell<'_> {
    match meant {
        As::Decimal(scale) if (1..=16).contains(&bytes.len()) => {
            let negative = bytes[0] & 0x80 != 0;
            let begin = if negative { -1 } else { 0 };
            Cell::decimal(bytes.iter().fold(begin, |all, &it| all << 8 | i128::from(it)), scale)
        }
        As::Float16 => match bytes.try_into() {
            Ok(bytes) => Cell::Number(half::f16::from_le_bytes(bytes).to_string()),
            Err(_) => Cell::Null,
        },
        As::Text => Cell::bytes(bytes),
        _ => Cell::Null,
    }
}

/// Nanoseconds since 1970: those of the day, and the day by Julius Scaliger's count.
fn int96(value: Int96) -> i128 {
    const DAY_OF_1970: i128 = 2_440_588;
    const NS_A_DAY: i128 = 86_400_000_000_000;
    let data = value.data();
    let ns = i128::from(u64::from(data[1]) << 32 | u64::from(data[0]));
    (i128::from(data[2]) - DAY_OF_1970) * NS_A_DAY + ns
}

fn damaged(error: ParquetError) -> String {
    format!("is damaged, or no Parquet that is understood: {error}")
}
