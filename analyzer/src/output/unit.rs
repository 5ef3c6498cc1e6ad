//! Units that names end with.

use super::Cell;

/// What numbers are, by the end of their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Percent.
    Percent,
    /// Anything else.
    Plain,
}

impl Unit {
    /// `_ns`, `bytes` or `_bytes`, `_percent`.
    pub fn of(name: &str) -> Self {
        match name.to_ascii_lowercase() {
            name if name.ends_with("_ns") => Unit::Ns,
            name if name == "bytes" || name.ends_with("_bytes") => Unit::Bytes,
            name if name.ends_with("_percent") => Unit::Percent,
            _ => Unit::Plain,
        }
    }

    /// A number of this unit.
    pub fn cell(self, number: f64) -> Cell {
        match self {
            Unit::Ns => Cell::Ns(number),
            Unit::Bytes => Cell::Bytes(number),
            Unit::Percent => Cell::Percent(number),
            Unit::Plain => Cell::Number(number),
        }
    }
}
