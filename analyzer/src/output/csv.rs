//! For spreadsheets: RFC 4180. Of a document with several tables only the first,
//! which is the one that was asked for: a file has one header. What is no table at
//! all becomes one of keys and values.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use super::{Cell, Document, Part};

pub(super) fn print(document: &Document, out: &mut impl Write) -> io::Result<()> {
    let Some(table) = document.tables().next() else { return print_values(document, out) };
    let header: Vec<Cow<'_, str>> =
        table.columns.iter().map(|column| quoted(&column.key)).collect();
    writeln!(out, "{}", header.join(","))?;
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(plain).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

fn print_values(document: &Document, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "part,key,value")?;
    for part in &document.parts {
        let Part::Text { key: part, value, .. } = part else { continue };
        for (key, value) in value.as_object().into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            writeln!(out, "{},{},{}", quoted(part), quoted(key), quoted(&text))?;
        }
    }
    Ok(())
}

fn plain(cell: &Cell) -> String {
    match cell {
        Cell::None => String::new(),
        Cell::Text(text) => quoted(text).into_owned(),
        Cell::Count(n) => n.to_string(),
        Cell::Json(value) => quoted(&value.to_string()).into_owned(),
        Cell::Ns(value) | Cell::Bytes(value) | Cell::Percent(value) | Cell::Number(value) => {
            value.to_string()
        }
    }
}

/// A text as a cell.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        Cow::Borrowed(text)
    }
}
