//! Events as CSV with a header, by RFC 4180: commas, or semicolons or tabs if the
//! header has those; quotes around what contains them.

use std::borrow::Cow;

use super::{
    collector::{Collector, number},
    json::Scalar,
    rows::{Rows, are_columns},
};

/// Where a header is looked for: one line of a gigabyte is none.
fn beginning(text: &[u8]) -> &[u8] {
    &text[..text.len().min(1 << 20)]
}

/// Whether a text begins with the header of a table of events.
pub(super) fn is_csv(text: &[u8]) -> bool {
    has_header(text, |header| are_columns(header.iter().copied()))
}

/// Whether the first line is such a header.
pub(super) fn has_header(text: &[u8], is_one: impl Fn(&[&str]) -> bool) -> bool {
    let header = Lines::new(beginning(text)).next();
    header.is_some_and(|cells| {
        is_one(&cells.iter().map(|cell| cell.text.as_ref()).collect::<Vec<&str>>())
    })
}

/// The cells of the first line, if it has several and the next one as many.
pub(super) fn header(text: &[u8]) -> Option<Vec<String>> {
    let mut lines = Lines::new(beginning(text));
    let header = lines.next().filter(|cells| cells.len() > 1)?;
    let next = lines.next();
    let is_table = next.is_none_or(|cells| cells.len() == header.len());
    is_table.then(|| header.into_iter().map(|cell| cell.text.into_owned()).collect())
}

/// Reads all rows: the wall time of the clock's zero, if told.
pub(super) fn read(text: &[u8], found: &mut Collector, prefix: &str) -> Option<i64> {
    let mut lines = Lines::new(text);
    let header = lines.next()?;
    let mut rows = Rows::new(found, prefix);
    let mut line = lines.line;
    while let Some(cells) = lines.next() {
        if cells.len() != header.len() {
            if cells.len() < header.len() && lines.is_at_end_without_newline() {
                rows.cut_off(format!("line {line}: the file is cut within a row"));
            } else {
                let more = cells.len() > header.len();
                rows.skip(line, if more { MORE_CELLS } else { FEWER_CELLS });
            }
        } else {
            let row: Vec<(&str, Scalar<'_>)> =
                header.iter().zip(&cells).map(|(key, it)| (&*key.text, it.scalar())).collect();
            rows.row(line, &row);
        }
        line = lines.line;
    }
    rows.finish()
}

pub(super) const MORE_CELLS: &str = "more cells than the header";
pub(super) const FEWER_CELLS: &str = "fewer cells than the header";

pub(super) struct Cell<'a> {
    pub(super) text: Cow<'a, str>,
    is_quoted: bool,
}

impl Cell<'_> {
    fn scalar(&self) -> Scalar<'_> {
        let text = self.text.as_ref();
        // `nan` and `inf` are numbers to Rust, and words to people.
        let is_number = text.starts_with(|c: char| c.is_ascii_digit() || "-.".contains(c));
        match text {
            "true" => Scalar::Bool(true),
            "false" => Scalar::Bool(false),
            _ if !self.is_quoted && is_number && number(text).is_some() => Scalar::Number(text),
            _ => Scalar::String(Cow::Borrowed(text)),
        }
    }
}

/// Rows of cells; empty lines are skipped.
pub(super) struct Lines<'a> {
    text: &'a [u8],
    at: usize,
    separator: u8,
    /// Of the next row.
    pub(super) line: u64,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
        let header = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let count = |wanted: u8| header.iter().filter(|&&byte| byte == wanted).count();
        let separator = [b',', b';', b'\t'].into_iter().rev().max_by_key(|&it| count(it));
        Self { text, at: 0, separator: separator.unwrap_or(b','), line: 1 }
    }

    /// Whether the last row was the last of the file, and its line is not ended: with fewer cells
    /// than others, it was cut.
    pub(super) fn is_at_end_without_newline(&self) -> bool {
        self.at >= self.text.len() && !self.text.ends_with(b"\n")
    }

    pub(super) fn next(&mut self) -> Option<Vec<Cell<'a>>> {
        while let Some(b'\n' | b'\r') = self.text.get(self.at) {
            self.line += u64::from(self.text[self.at] == b'\n');
            self.at += 1;
        }
        if self.at >= self.text.len() {
            return None;
        }
        let mut cells = Vec::new();
        loop {
            cells.push(self.cell());
            match self.text.get(self.at) {
                Some(&byte) if byte == self.separator => self.at += 1,
                Some(b'\n') => {
                    self.at += 1;
                    self.line += 1;
                    return Some(cells);
                }
                Some(_) => self.at += 1,
                None => return Some(cells),
            }
        }
    }

    /// Up to the separator or the end of the line.
    fn cell(&mut self) -> Cell<'a> {
        if self.text.get(self.at) == Some(&b'"') {
            return self.quoted();
        }
        let rest = &self.text[self.at..];
        let ends = |byte: &u8| *byte == self.separator || *byte == b'\n';
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        self.at += length;
        let text = String::from_utf8_lossy(&rest[..length]);
        let text = match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
            Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
        };
        Cell { text, is_quoted: false }
    }

    fn quoted(&mut self) -> Cell<'a> {
        let mut content = Vec::new();
        self.at += 1;
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            if byte != b'"' {
                self.line += u64::from(byte == b'\n');
                content.push(byte);
            } else if self.text.get(self.at) == Some(&b'"') {
                self.at += 1;
                content.push(b'"');
            } else {
                break;
            }
        }
        // Whatever stands between the quote and the separator is no part of the cell.
        while let Some(&byte) = self.text.get(self.at) {
            if byte == self.separator || byte == b'\n' {
                break;
            }
            self.at += 1;
        }
        Cell { text: String::from_utf8_lossy(&content).into_owned().into(), is_quoted: true }
    }
}
