//! What a command has to say, before anyone has decided how to print it.
//!
//! A [`Document`] is tables with typed cells. One file per format turns it into
//! text; none of them knows what the tables are about.

mod csv;
mod json;
mod markdown;
mod readable;
mod replace;
mod rows;
mod sparkline;
mod table;
mod unit;

use std::io::{self, Write};

pub(crate) use self::{csv::quoted as csv_quoted, json::number as json_number};
pub use self::{
    readable::{TimeUnit, bytes, count, date, duration, number_of, shorten_middle, shown},
    replace::replace,
    rows::{Selection, SortKey},
    sparkline::{Course, Floor, sparkline},
    table::terminal_width,
    unit::Unit,
};
use crate::Result;

/// Characters of a cell in a table for people, at most; machines get all of it.
const MOST_TEXT: usize = 1_000;

/// In which form to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// One object, with a schema version; units are in the keys
    Json,
    /// Comma-separated, with a header line
    Csv,
    /// For a pull request
    Markdown,
}

/// One value in a table. Units are part of it: a printer for people chooses a
/// readable one, a printer for machines writes the bare number.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing to say.
    None,
    /// Words.
    Text(String),
    /// How many.
    Count(u64),
    /// Nanoseconds.
    Ns(f64),
    /// Bytes; may be negative.
    Bytes(f64),
    /// Percent.
    Percent(f64),
    /// Any other number.
    Number(f64),
    /// A list or an object, for machines.
    Json(serde_json::Value),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Cell::Count(count)
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// For machines, and for `--columns` and `--sort`; has the unit in it.
    pub key: String,
    /// For people.
    pub title: String,
    /// Shown to people without being asked for.
    pub shown: bool,
}

impl Column {
    /// A column that is shown.
    pub fn new(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self { key: key.into(), title: title.into(), shown: true }
    }

    /// A column that people have to ask for.
    pub fn hidden(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self { shown: false, ..Self::new(key, title) }
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// For machines, and for `--section`.
    pub key: String,
    /// For people; empty for none.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, each as long as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// Stands below the rows, set apart: a sum, or what was left out.
    pub footer: Option<Vec<Cell>>,
    /// One line below the table for people, such as what was left out.
    pub note: String,
}

impl Table {
    /// A table without rows.
    pub fn new(key: &str, title: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { key: key.to_owned(), title: title.into(), columns, ..Self::default() }
    }

    /// Keeps the first so many rows, and says how many more there are. A footer
    /// has said it already.
    pub fn cut(&mut self, limit: Option<usize>) {
        let Some(limit) = limit.filter(|&limit| limit < self.rows.len()) else { return };
        if self.footer.is_none() {
            if !self.note.is_empty() {
                self.note.push('\n');
            }
            let more = count((self.rows.len() - limit) as u64);
            self.note.push_str(&format!("  … {more} more rows: --limit 0"));
        }
        self.rows.truncate(limit);
    }

    /// Where a column is.
    pub fn column(&self, key: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.key == key)
    }
}

/// A part of a document.
#[derive(Clone, Debug)]
pub enum Part {
    /// A table.
    Table(Table),
    /// Lines for people, and a value for machines.
    Text {
        /// For machines, and for `--section`.
        key: String,
        /// For people; empty for none.
        title: String,
        /// For people.
        lines: Vec<String>,
        /// For machines.
        value: serde_json::Value,
    },
}

/// Everything that a command prints.
#[derive(Clone, Debug)]
pub struct Document {
    /// Name and version of the JSON form, such as `ringscope.spans/1`.
    pub schema: &'static str,
    /// What the traces are, for machines.
    pub trace: serde_json::Value,
    /// What is missing from them, for machines.
    pub loss: serde_json::Value,
    /// Whether every figure was made from every event that is stored and passes the
    /// filters; not so if a part of the file could not be read. Nothing is sampled.
    pub exact: bool,
    /// In order. The rows of the first table are the document's rows.
    pub parts: Vec<Part>,
}

/// How to print.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// In which form.
    pub format: Format,
    /// Units of durations, for people.
    pub time_unit: TimeUnit,
    /// Whether to use colours.
    pub color: bool,
    /// Columns of the terminal; names are shortened to fit. `None` if not a terminal.
    pub width: Option<usize>,
}

impl Document {
    /// Writes it in the form asked for.
    pub fn print(&self, style: &Style, out: &mut impl Write) -> Result<()> {
        match style.format {
            Format::Table => table::print(self, style, out)?,
            Format::Json => json::print(self, out)?,
            Format::Csv => csv::print(self, out)?,
            Format::Markdown => markdown::print(self, style, out)?,
        }
        out.flush()?;
        Ok(())
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.parts.iter().filter_map(|part| match part {
            Part::Table(table) => Some(table),
            Part::Text { .. } => None,
        })
    }
}

/// A line that opens a part.
fn heading(out: &mut impl Write, title: &str, color: bool) -> io::Result<()> {
    if color { writeln!(out, "\x1b[1m{title}\x1b[0m") } else { writeln!(out, "{title}") }
}
