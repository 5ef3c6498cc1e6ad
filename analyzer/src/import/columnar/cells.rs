//! Cells of Arrow's arrays.

use arrow_array::{
    Array,
    cast::AsArray,
    types::{
        Decimal32Type, Decimal64Type, Decimal128Type, Float16Type, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::{DataType, TimeUnit};

use super::table::{Cell, Holds};

/// What cells of this type are.
pub(super) fn holds(kind: &DataType) -> Holds {
    match kind {
        DataType::Dictionary(_, values) => holds(values),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => Holds::Text,
        DataType::Boolean => Holds::Flag,
        DataType::Timestamp(..) | DataType::Duration(_) => Holds::Time,
        DataType::Null
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..) => Holds::Number,
        kind if kind.is_integer() => Holds::Number,
        _ => Holds::Other,
    }
}

macro_rules! number {
    ($array:expr, $row:expr, $type:ty) => {
        Cell::Number($array.as_primitive::<$type>().value($row).to_string())
    };
}

/// The cell of an array; nothing of a type that is not taken.
pub(super) fn cell(array: &dyn Array, row: usize) -> Cell<'_> {
    if array.is_null(row) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).into()),
        DataType::LargeUtf8 => Cell::Text(array.as_string::<i64>().value(row).into()),
        DataType::Utf8View => Cell::Text(array.as_string_view().value(row).into()),
        DataType::Binary => Cell::bytes(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Cell::bytes(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Cell::bytes(array.as_binary_view().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            match key(dictionary.keys(), row).filter(|&key| key < dictionary.values().len()) {
                Some(key) => cell(&**dictionary.values(), key),
                None => Cell::Null,
            }
        }
        DataType::Boolean => Cell::Flag(array.as_boolean().value(row)),
        DataType::Int8 => number!(array, row, Int8Type),
        DataType::Int16 => number!(array, row, Int16Type),
        DataType::Int32 => number!(array, row, Int32Type),
        DataType::Int64 => number!(array, row, Int64Type),
        DataType::UInt8 => number!(array, row, UInt8Type),
        DataType::UInt16 => number!(array, row, UInt16Type),
        DataType::UInt32 => number!(array, row, UInt32Type),
        DataType::UInt64 => number!(array, row, UInt64Type),
        DataType::Float16 => number!(array, row, Float16Type),
        DataType::Float32 => number!(array, row, Float32Type),
        DataType::Float64 => number!(array, row, Float64Type),
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            let in_ns: i128 = match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            };
            match key64(array, row) {
                Some(value) => Cell::Number((i128::from(value) * in_ns).to_string()),
                None => Cell::Null,
            }
        }
        DataType::Decimal32(_, scale) => {
            Cell::decimal(array.as_primitive::<Decimal32Type>().value(row).into(), (*scale).into())
        }
        DataType::Decimal64(_, scale) => {
            Cell::decimal(array.as_primitive::<Decimal64Type>().value(row).into(), (*scale).into())
        }
        DataType::Decimal128(_, scale) => {
            Cell::decimal(array.as_primitive::<Decimal128Type>().value(row), (*scale).into())
        }
        _ => Cell::Null,
    }
}

/// Times of all units lie in memory as 64-bit integers.
fn key64(array: &dyn Array, row: usize) -> Option<i64> {
    let data = array.to_data();
    data.buffers().first()?.typed_data::<i64>().get(data.offset() + row).copied()
}

/// Which entry of a dictionary a row is.
fn key(keys: &dyn Array, row: usize) -> Option<usize> {
    macro_rules! key {
        ($type:ty) => {
            usize::try_from(keys.as_primitive::<$type>().value(row)).ok()
        };
    }
    match keys.data_type() {
        DataType::Int8 => key!(Int8Type),
        DataType::Int16 => key!(Int16Type),
        DataType::Int32 => key!(Int32Type),
        DataType::Int64 => key!(Int64Type),
        DataType::UInt8 => key!(UInt8Type),
        DataType::UInt16 => key!(UInt16Type),
        DataType::UInt32 => key!(UInt32Type),
        DataType::UInt64 => key!(UInt64Type),
        _ => None,
    }
}
