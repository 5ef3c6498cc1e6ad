//! From a data frame to a table with typed cells.

use polars::prelude::{AnyValue, DataFrame};

use crate::{
    Result,
    output::{Cell, Column, Table, Unit},
};

/// Every row and column.
pub(super) fn table(frame: &DataFrame, key: &str, title: &str) -> Result<Table> {
    let names = || frame.columns().iter().map(|column| column.name().as_str());
    let columns = names().map(|name| Column::new(name, name)).collect();
    let mut table = Table::new(key, title, columns);
    let units: Vec<Unit> = names().map(Unit::of).collect();
    for row in 0..frame.height() {
        let mut cells = Vec::with_capacity(units.len());
        for (column, unit) in frame.columns().iter().zip(&units) {
            cells.push(cell(&column.get(row)?, *unit));
        }
        table.rows.push(cells);
    }
    Ok(table)
}

fn cell(value: &AnyValue<'_>, unit: Unit) -> Cell {
    let whole = |n: i128| match (unit, u64::try_from(n)) {
        (Unit::Plain, Ok(n)) => Cell::Count(n),
        _ => unit.cell(n as f64),
    };
    match value {
        AnyValue::Null => Cell::None,
        AnyValue::String(text) => Cell::from(*text),
        AnyValue::StringOwned(text) => Cell::from(text.as_str()),
        AnyValue::Boolean(is) => Cell::from(if *is { "true" } else { "false" }),
        AnyValue::UInt8(n) => whole(i128::from(*n)),
        AnyValue::UInt16(n) => whole(i128::from(*n)),
        AnyValue::UInt32(n) => whole(i128::from(*n)),
        AnyValue::UInt64(n) => whole(i128::from(*n)),
        AnyValue::Int8(n) => whole(i128::from(*n)),
        AnyValue::Int16(n) => whole(i128::from(*n)),
        AnyValue::Int32(n) => whole(i128::from(*n)),
        AnyValue::Int64(n) => whole(i128::from(*n)),
        AnyValue::Float32(n) => unit.cell(f64::from(*n)),
        AnyValue::Float64(n) => unit.cell(*n),
        other => Cell::from(other.to_string()),
    }
}
