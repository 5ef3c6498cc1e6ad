//! Events as JSON lines: an object a line, with the keys of [`super::rows`].

use super::{
    collector::Collector,
    json::{Fault, Reader, Scalar},
    rows::{Rows, are_columns},
};

/// Whether a text begins with an event.
pub(super) fn is_jsonl(text: &[u8]) -> bool {
    let mut keys = Vec::new();
    let read = Reader::new(text).object(|key, reader| {
        keys.push(key);
        reader.skip()
    });
    read.is_ok() && are_columns(keys.iter().map(|key| key.as_ref()))
}

/// Reads all rows: how many there were, and the wall time of the clock's zero, if told.
pub(super) fn read(text: &[u8], found: &mut Collector, prefix: &str) -> (u64, Option<i64>) {
    let mut rows = Rows::new(found, prefix);
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let mut reader = Reader::new(line);
        if reader.peek().is_none() {
            continue;
        }
        let mut cells: Vec<(std::borrow::Cow<'_, str>, Scalar<'_>)> = Vec::new();
        let read = reader.object(|key, reader| {
            cells.push((key, reader.scalar()?));
            Ok(())
        });
        let line = number as u64 + 1;
        match read {
            Ok(()) => {
                let cells: Vec<(&str, Scalar<'_>)> =
                    cells.iter().map(|(key, value)| (key.as_ref(), value.clone())).collect();
                rows.row(line, &cells);
            }
            Err(fault) => {
                rows.rows += 1;
                let why = if fault == Fault::CutOff { "cut off" } else { "no JSON object" };
                rows.skip(line, why);
            }
        }
    }
    rows.finish()
}
