//! Tables of events as Parquet and Arrow.

use std::{fs, path::Path, sync::Arc};

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, types::Int8Type,
};
use parquet::{
    basic::{Compression, GzipLevel, ZstdLevel},
    data_type::{
        ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type, Int96, Int96Type,
    },
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use serde_json::Value;
use tempfile::tempdir;

use crate::{analyze::analyze, export_made::everything};

type Group<'a> = parquet::file::writer::SerializedRowGroupWriter<'a, fs::File>;

/// A Parquet file of one group.
fn parquet(path: &Path, schema: &str, fill: impl FnOnce(&mut Group<'_>)) {
    packed_parquet(path, schema, Compression::UNCOMPRESSED, fill);
}

/// The same, packed.
fn packed_parquet(path: &Path, schema: &str, how: Compression, fill: impl FnOnce(&mut Group<'_>)) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(how).build());
    let file = fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    fill(&mut group);
    group.close().unwrap();
    writer.close().unwrap();
}

fn column<T: parquet::data_type::DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, levels, None).unwrap();
    column.close().unwrap();
}

fn texts(all: &[&str]) -> Vec<ByteArray> {
    all.iter().map(|text| ByteArray::from(*text)).collect()
}

/// The rows that it is, as `export` tells them.
fn rows(dir: &Path, file: &str) -> (Vec<String>, String) {
    let run = analyze(dir, &["export", file, "--to", "jsonl"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        format!(
            "{} {} {} {} {}",
            row["name"].as_str().unwrap(),
            row["start_ns"],
            row["dur_ns"],
            row["track"].as_str().unwrap(),
            row["fields"]
        )
    };
    (run.stdout.lines().map(row).collect(), run.stderr)
}

#[test]
fn parquet_has_the_columns_of_csv_in_whatever_type() {
    let dir = tempdir().unwrap();
    let schema = "message m {
        required binary name (STRING);
        required int64 start_ns (INTEGER(64, false));
        optional int32 dur_us;
        required binary Track (STRING);
        optional double load;
        required float share;
        required int32 price (DECIMAL(9, 2));
        required int96 seen;
        required group nested { required int32 x; }
    }";
    parquet(&dir.path().join("t.parquet"), schema, |group| {
        column::<ByteArrayType>(group, &texts(&["outer", "inner", "mark"]), None);
        column::<Int64Type>(group, &[1 << 60, (1 << 60) + 1, (1 << 60) + 7], None);
        column::<Int32Type>(group, &[5, 2], Some(&[1, 1, 0]));
        column::<ByteArrayType>(group, &texts(&["a", "a", "b"]), None);
        column::<DoubleType>(group, &[0.1], Some(&[0, 1, 0]));
        column::<FloatType>(group, &[0.1, 0.25, 3.0], None);
        column::<Int32Type>(group, &[1_999, -5, 0], None);
        let mut day = Int96::new();
        day.set_data(1_000, 0, 2_440_589);
        column::<Int96Type>(group, &[day, day, day], None);
        column::<Int32Type>(group, &[1, 2, 3], None);
    });
    let (found, said) = rows(dir.path(), "t.parquet");
    let day = 86_400_000_001_000_u64;
    let mut expected = [
        format!("inner 1 2000 a {{\"load\":0.1,\"share\":0.25,\"price\":-0.05,\"seen\":{day}}}"),
        format!("outer 0 5000 a {{\"share\":0.1,\"price\":19.99,\"seen\":{day}}}"),
        format!("mark 7 null b {{\"share\":3,\"price\":0,\"seen\":{day}}}"),
    ];
    let mut found: Vec<String> = found.iter().map(|it| it.replace(".0,", ",")).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(
        said,
        "analyze: t.parquet: 3 events converted from Parquet\n\
         analyze: t.parquet: not taken as it stands: 1 columns left out: `nested.x` of type INT32; \
         1 rows without a duration (taken as instants)\n"
    );
}

#[test]
fn parquet_is_read_however_it_is_packed() {
    let dir = tempdir().unwrap();
    let schema = "message m { required binary name (STRING); required int64 start_ns; }";
    let names: Vec<String> = (0..1_000).map(|n| format!("n{}", n % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let starts: Vec<i64> = (0..1_000).collect();
    let read = |how: Compression| {
        packed_parquet(&dir.path().join("t.parquet"), schema, how, |group| {
            column::<ByteArrayType>(group, &texts(&names), None);
            column::<Int64Type>(group, &starts, None);
        });
        rows(dir.path(), "t.parquet")
    };
    let plain = read(Compression::UNCOMPRESSED);
    assert_eq!(plain.0.len(), 1_000);
    for how in [
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4_RAW,
        Compression::LZ4,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        assert_eq!(read(how), plain, "{how:?}");
    }
}

#[test]
fn timestamps_bring_their_unit_and_dictionaries_their_texts() {
    let dir = tempdir().unwrap();
    let schema = "message m {
        required binary name (STRING);
        required int64 start (TIMESTAMP(MICROS, true));
        required int64 end (TIMESTAMP(NANOS, true));
    }";
    parquet(&dir.path().join("t.parquet"), schema, |group| {
        column::<ByteArrayType>(group, &texts(&["a"]), None);
        column::<Int64Type>(group, &[1_700_000_000_000_001], None);
        column::<Int64Type>(group, &[1_700_000_000_000_001_003], None);
    });
    assert_eq!(rows(dir.path(), "t.parquet").0, ["a 0 3 main null"]);

    let names: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    let keys = [Some(1), Some(0), None].into_iter().collect();
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "name",
            Arc::new(DictionaryArray::<Int8Type>::try_new(keys, names).unwrap()) as ArrayRef,
            true,
        ),
        ("ts", Arc::new(TimestampMicrosecondArray::from(vec![5, 6, 7])) as ArrayRef, true),
        ("dur_ns", Arc::new(Int64Array::from(vec![Some(9), None, None])) as ArrayRef, true),
        ("batch", Arc::new(Int32Array::from(vec![1, 2, 3])) as ArrayRef, true),
    ])
    .unwrap();
    let file = fs::File::create(dir.path().join("t.arrow")).unwrap();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    assert!(batch.column(0).is_null(2));
    let (found, said) = rows(dir.path(), "t.arrow");
    assert_eq!(found, ["y 0 9 main {\"batch\":1}", "x 1000 null main {\"batch\":2}"]);
    assert_eq!(
        said,
        "analyze: t.arrow: 2 events converted from Arrow, 1 left out\n\
         analyze: t.arrow: row 3: no name\n\
         analyze: t.arrow: not taken as it stands: 1 rows left out: no name; 1 rows without a \
         duration (taken as instants)\n\
         analyze: t.arrow: 1 of 3 events were lost (33.33 %): 1 could not be converted; figures \
         are of what was stored\n"
    );
}

#[test]
fn what_is_missing_or_of_another_type_is_named() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let ask = || analyze(dir.path(), &["spans", "t.parquet"]).refusal();
    parquet(&path, "message m { required binary title (STRING); required int64 at; }", |group| {
        column::<ByteArrayType>(group, &texts(&["a"]), None);
        column::<Int64Type>(group, &[1], None);
    });
    assert_eq!(
        ask(),
        "analyze: t.parquet: has no column `name` and `start_ns`; its columns are: title, at\n"
    );
    parquet(&path, "message m { required binary name; required boolean start_ns; }", |group| {
        column::<ByteArrayType>(group, &texts(&["a"]), None);
        column::<parquet::data_type::BoolType>(group, &[true], None);
    });
    assert_eq!(
        ask(),
        "analyze: t.parquet: column `start_ns`: is of type BOOLEAN, not of numbers\n"
    );
    parquet(&path, "message m { required binary name; required double start_ns; }", |group| {
        column::<ByteArrayType>(group, &texts(&["a", "b"]), None);
        column::<DoubleType>(group, &[f64::NAN, 1.5e3], None);
    });
    let run = analyze(dir.path(), &["spans", "t.parquet"]);
    assert!(run.stderr.contains("row 1: a time that is no number"), "{}", run.stderr);
}

#[test]
fn what_only_begins_like_one_is_told_apart() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("t.parquet"), b"PAR1 and nothing more").unwrap();
    let said = analyze(dir.path(), &["spans", "t.parquet"]).refusal();
    assert!(said.starts_with("analyze: t.parquet: is damaged, or no Parquet"), "{said}");
    fs::write(dir.path().join("t"), b"PARE1234").unwrap();
    let said = analyze(dir.path(), &["spans", "t"]).refusal();
    assert_eq!(said, "analyze: t: is an encrypted Parquet file; decrypt it first\n");
    fs::write(dir.path().join("t"), b"ARROW1\0\0").unwrap();
    let said = analyze(dir.path(), &["spans", "t"]).refusal();
    assert!(said.starts_with("analyze: t: is cut off"), "{said}");
}

#[test]
fn damage_of_any_kind_ends_with_rows_or_a_message() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    for format in ["parquet", "arrow"] {
        analyze(dir.path(), &["export", "run.trace", "--to", format, "-o", "whole"]).clean();
        let whole = fs::read(dir.path().join("whole")).unwrap();
        let path = dir.path().join("t");
        let check = |what: String| {
            let run = analyze(dir.path(), &["spans", "t"]);
            assert!(run.code == 0 || run.code == 2, "{format}: {what}: {}", run.stderr);
            assert!(!run.stderr.contains("panicked"), "{format}: {what}: {}", run.stderr);
        };
        for length in (0..whole.len()).step_by(499) {
            fs::write(&path, &whole[..length]).unwrap();
            check(format!("cut at {length}"));
        }
        // The end is where lengths and places are.
        let places = (0..whole.len())
            .step_by(131)
            .chain((whole.len().saturating_sub(400)..whole.len()).step_by(5));
        for at in places {
            for flip in [0xFF, 0x01] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                fs::write(&path, &bytes).unwrap();
                check(format!("byte {at} ^ {flip:#x}"));
            }
        }
    }
}
