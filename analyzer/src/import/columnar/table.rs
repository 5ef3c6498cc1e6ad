//! Which columns of a table are taken, and its rows, one by one, as text that the other
//! tables have. Nothing is rounded: a floating-point number is told with as many digits as tell it
//! from its neighbours.

use std::borrow::Cow;

use crate::{
    budget::Budget,
    import::{
        collector::Collector,
        json::Scalar,
        rows::{Column, Rows, missing},
    },
    output::count,
};

/// What an event takes in memory until it is written, with a field or two.
const BYTES_A_ROW: u64 = 128;
/// Rows after which memory is looked at again.
const CHECK_EVERY: u64 = 1 << 20;

/// Refuses more rows than memory takes: a few bytes can stand for billions.
pub(super) fn refuse_too_many(rows: u64, budget: Budget) -> Result<(), String> {
    let most = (budget.limit() / 3 / BYTES_A_ROW).min(u64::from(u32::MAX) / 32);
    if rows > most {
        return Err(format!(
            "has {} rows, and memory takes {}; cut it into several",
            count(rows),
            count(most)
        ));
    }
    Ok(())
}

/// What cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    Text,
    Number,
    /// Times in units that the type tells.
    Time,
    Flag,
    /// Nothing that is taken.
    Other,
}

/// A column of a file.
pub(super) struct Described {
    pub(super) name: String,
    pub(super) holds: Holds,
    /// What its type is called.
    pub(super) kind: String,
}

impl Described {
    /// A column whose type tells the unit is one of nanoseconds, whatever its name says.
    pub(super) fn header(&self) -> String {
        if self.holds != Holds::Time {
            return self.name.clone();
        }
        let lower = self.name.trim().to_lowercase();
        let bare = ["_ns", "_us", "_ms", "_s"].iter().find_map(|unit| lower.strip_suffix(unit));
        match bare.unwrap_or(&lower) {
            "start" | "ts" | "timestamp" => "start_ns".to_owned(),
            "end" => "end_ns".to_owned(),
            "dur" | "duration" => "dur_ns".to_owned(),
            _ => self.name.clone(),
        }
    }
}

/// Indices of the columns that are taken, in order. The others are counted.
pub(super) fn taken(columns: &[Described], found: &mut Collector) -> Result<Vec<usize>, String> {
    let headers: Vec<String> = columns.iter().map(Described::header).collect();
    if let Some(missing) = missing(headers.iter().map(String::as_str)) {
        let all: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let there = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        return Err(format!("has no column {missing}; its columns are: {there}"));
    }
    let roles = headers.iter().map(|header| Column::of(header));
    let mut taken = Vec::new();
    for (at, (Described { name, holds, kind }, role)) in columns.iter().zip(roles).enumerate() {
        let is_time = matches!(role, Column::Start(_) | Column::End(_) | Column::Duration(_));
        if *holds != Holds::Other && !(is_time && *holds == Holds::Flag) {
            taken.push(at);
        } else if is_time || role == Column::Name {
            let wanted = if is_time { "numbers" } else { "texts" };
            return Err(format!("column `{name}`: is of type {kind}, not of {wanted}"));
        } else {
            found.note(&format!("columns left out: `{name}` of type {kind}"));
        }
    }
    Ok(taken)
}

/// Takes rows.
pub(super) struct Table<'a> {
    rows: Rows<'a>,
    headers: Vec<String>,
}

impl<'a> Table<'a> {
    /// A table of these columns.
    pub(super) fn new(headers: Vec<String>, found: &'a mut Collector, prefix: &'a str) -> Self {
        Self { rows: Rows::numbered(found, prefix), headers }
    }

    /// Takes a row: as many cells as there are columns.
    pub(super) fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), String> {
        let number = self.rows.rows + 1;
        if number.is_multiple_of(CHECK_EVERY) {
            refuse_too_many(number, self.rows.budget())?;
        }
        let cells: Vec<(&str, Scalar<'_>)> =
            self.headers.iter().zip(cells).map(|(it, cell)| (&**it, cell.scalar())).collect();
        self.rows.row(number, &cells);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.rows == 0
    }

    /// Says that a part is missing from here on.
    pub(super) fn cut(&mut self, why: &str) {
        let row = self.rows.rows + 1;
        self.rows.cut_off(format!("from row {row} on: {why}"));
    }

    /// Ends it: the wall time of the clock's zero, if told.
    pub(super) fn finish(self) -> Option<i64> {
        self.rows.finish()
    }
}

/// A cell.
pub(super) enum Cell<'a> {
    Text(Cow<'a, str>),
    Number(String),
    Flag(bool),
    Null,
}

impl Cell<'_> {
    fn scalar(&self) -> Scalar<'_> {
        match self {
            Cell::Text(text) => Scalar::String(Cow::Borrowed(text)),
            Cell::Number(text) => Scalar::Number(text),
            Cell::Flag(is) => Scalar::Bool(*is),
            Cell::Null => Scalar::Null,
        }
    }

    /// Bytes are text, as far as they are.
    pub(super) fn bytes(bytes: &[u8]) -> Cell<'_> {
        Cell::Text(String::from_utf8_lossy(bytes))
    }

    /// `value` with its point so many digits from the right.
    pub(super) fn decimal(value: i128, scale: i32) -> Self {
        Cell::Number(if scale == 0 { value.to_string() } else { format!("{value}e{}", -scale) })
    }
}
