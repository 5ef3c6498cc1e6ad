//! Events as JSON: an object a line, or an array of objects, with the keys of [`super::rows`].

use super::{
    collector::Collector,
    json::{Fault, Read, Reader, Scalar},
    rows::{Rows, are_columns},
};

/// Keys of the first object that are looked at.
const MOST_KEYS: usize = 1_000;

/// Whether a text begins with an event.
pub(super) fn is_rows(text: &[u8]) -> bool {
    first_keys(text).is_some_and(|keys| are_columns(keys.iter().map(String::as_str)))
}

/// The keys of the first object, if it is whole.
pub(super) fn first_keys(text: &[u8]) -> Option<Vec<String>> {
    let mut reader = Reader::new(text);
    reader.take(b'[');
    let mut keys = Vec::new();
    let read = reader.object(|key, reader| {
        if keys.len() < MOST_KEYS {
            keys.push(key.into_owned());
        }
        reader.skip()
    });
    read.is_ok().then_some(keys)
}

/// Reads all rows: the wall time of the clock's zero, if told.
pub(super) fn read(text: &[u8], found: &mut Collector, prefix: &str) -> Option<i64> {
    let mut reader = Reader::of_file(text);
    if reader.take(b'[') {
        let mut rows = Rows::numbered(found, prefix);
        let cut = match array(&mut reader, &mut rows) {
            Ok(()) => None,
            Err(Fault::CutOff) => Some("the file is cut within a row".to_owned()),
            Err(Fault::Unexpected(at)) => Some(format!("byte {at:#x}: this is not JSON")),
        };
        cut.into_iter().for_each(|why| rows.cut_off(why));
        return rows.finish();
    }
    let mut rows = Rows::new(found, prefix);
    lines(text, &mut rows);
    rows.finish()
}

fn array(reader: &mut Reader<'_>, rows: &mut Rows<'_>) -> Read<()> {
    let mut number = 0;
    while !reader.take(b']') {
        number += 1;
        if reader.peek() == Some(b'{') {
            row(reader, number, rows)?;
        } else {
            reader.skip()?;
            rows.skip(number, NO_OBJECT);
        }
        reader.take(b',');
    }
    Ok(())
}

fn lines(text: &[u8], rows: &mut Rows<'_>) {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut left = text.len();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        left = left.saturating_sub(line.len() + 1);
        let mut reader = Reader::new(line);
        if reader.peek().is_none() {
            continue;
        }
        let number = number as u64 + 1;
        match row(&mut reader, number, rows) {
            Ok(()) => {}
            Err(Fault::CutOff) if left == 0 => {
                rows.cut_off(format!("line {number}: the file is cut within a row"));
            }
            Err(Fault::CutOff) => rows.skip(number, "cut off"),
            Err(_) => rows.skip(number, NO_OBJECT),
        }
    }
}

const NO_OBJECT: &str = "no JSON object";

/// Takes the object that comes next.
fn row(reader: &mut Reader<'_>, number: u64, rows: &mut Rows<'_>) -> Read<()> {
    let mut cells: Vec<(std::borrow::Cow<'_, str>, Scalar<'_>)> = Vec::new();
    reader.object(|key, reader| {
        cells.push((key, reader.scalar()?));
        Ok(())
    })?;
    let cells: Vec<(&str, Scalar<'_>)> =
        cells.iter().map(|(key, value)| (key.as_ref(), value.clone())).collect();
    rows.row(number, &cells);
    Ok(())
}
