//! For machines: one object, every row an object, units in the keys.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Cell, Document, Part, Table};

pub(super) fn print(document: &Document, out: &mut impl Write) -> io::Result<()> {
    let mut object = Map::new();
    object.insert("schema".into(), document.schema.into());
    object.insert("trace".into(), document.trace.clone());
    object.insert("loss".into(), document.loss.clone());
    object.insert("exact".into(), document.exact.into());
    let first = document.tables().next();
    object.insert("rows".into(), first.map_or_else(|| json!([]), rows));
    let others = first.and_then(|table| table.footer.as_ref().map(|row| (table, row)));
    if let Some((table, row)) = others {
        object.insert("others".into(), row_object(table, row));
    }
    if document.parts.len() > 1 || first.is_none() {
        let mut sections = Map::new();
        for part in &document.parts {
            match part {
                Part::Table(table) => {
                    if let Some(row) = &table.footer {
                        let key = format!("{}_others", table.key);
                        sections.insert(key, row_object(table, row));
                    }
                    sections.insert(table.key.clone(), rows(table));
                }
                Part::Text { key, value, .. } => {
                    sections.insert(key.clone(), value.clone());
                }
            }
        }
        object.insert("sections".into(), Value::Object(sections));
    }
    let notes: Vec<&str> = document
        .tables()
        .flat_map(|table| table.note.lines().map(str::trim).filter(|line| !line.is_empty()))
        .collect();
    if !notes.is_empty() {
        object.insert("notes".into(), notes.into());
    }
    serde_json::to_writer_pretty(&mut *out, &Value::Object(object))?;
    writeln!(out)
}

fn rows(table: &Table) -> Value {
    table.rows.iter().map(|row| row_object(table, row)).collect()
}

fn row_object(table: &Table, row: &[Cell]) -> Value {
    let pairs = table.columns.iter().zip(row);
    Value::Object(pairs.map(|(column, cell)| (column.key.clone(), value(cell))).collect())
}

/// What JSON cannot say is null.
fn value(cell: &Cell) -> Value {
    match cell {
        Cell::None => Value::Null,
        Cell::Text(text) => text.as_str().into(),
        Cell::Count(n) => (*n).into(),
        Cell::Json(value) => value.clone(),
        Cell::Ns(value) | Cell::Bytes(value) | Cell::Percent(value) | Cell::Number(value) => {
            number(*value)
        }
    }
}

/// A number, a whole one written whole.
pub(crate) fn number(value: f64) -> Value {
    if value == value.trunc() && value.abs() < 9e15 { (value as i64).into() } else { value.into() }
}
