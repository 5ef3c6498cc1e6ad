//! The tables that SQL sees: their names, columns and units, in one place.
//!
//! Rows of `records` and of everything made from it are in the order in which
//! they were recorded. `record` is the number of an event among all events of all
//! traces given, whether or not a filter lets it through: it is what `fields` and
//! `records` are joined by. Times are since the first event of the trace.
//!
//! `start_ns` is rounded to the nanosecond. `dur_ns` is not: it is ticks times
//! the clock's ratio, so that its sum is the sum of the ticks. `value` and
//! `number` are floating-point, exact up to 2^53; integers beyond that have their
//! digits in `text` as well.

mod fill;
pub(crate) mod gather;
mod listings;
mod rows;

use polars::prelude::{DataType, PlSmallStr, Schema};

/// What is in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Characters.
    Text,
    /// Whole numbers from 0 to 255.
    U8,
    /// Whole numbers.
    U32,
    /// Whole numbers.
    U64,
    /// Whole numbers with a sign.
    I64,
    /// Floating-point numbers.
    F64,
}

impl Type {
    /// Bytes of one row. Text is a view of 16 bytes; the characters of names are
    /// held once, those of dynamic text are not counted.
    pub fn width(self) -> u64 {
        match self {
            Type::Text => 16,
            Type::U8 => 1,
            Type::U32 => 4,
            Type::U64 | Type::I64 | Type::F64 => 8,
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Type::Text => "text",
            Type::U8 => "u8",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::I64 => "i64",
            Type::F64 => "f64",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Type::Text => DataType::String,
            Type::U8 => DataType::UInt8,
            Type::U32 => DataType::UInt32,
            Type::U64 => DataType::UInt64,
            Type::I64 => DataType::Int64,
            Type::F64 => DataType::Float64,
        }
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    /// Its name, with its unit.
    pub name: &'static str,
    /// What is in it.
    pub data: Type,
    /// What it means.
    pub about: &'static str,
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// Which one.
    pub table: TableName,
    /// What queries call it.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// Its columns.
    pub columns: &'static [ColumnSpec],
}

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableName {
    /// Every event.
    Records,
    /// Timed events that are not a device's work.
    Spans,
    /// A device's work.
    Kernels,
    /// Readings of counters and gauges.
    Counters,
    /// What events carry beside their record.
    Fields,
    /// The dictionary.
    Names,
    /// Threads and queues.
    Tracks,
}

const fn column(name: &'static str, data: Type, about: &'static str) -> ColumnSpec {
    ColumnSpec { name, data, about }
}

const TRACE: ColumnSpec = column("trace", Type::Text, "label of the trace");
const RECORD: ColumnSpec =
    column("record", Type::U64, "number of the event; joins records, spans, ... with fields");
const KIND: ColumnSpec = column("kind", Type::Text, "span, kernel, event, counter, error, ...");
const NAME: ColumnSpec = column("name", Type::Text, "name of the event");
const TRACK: ColumnSpec = column("track", Type::Text, "thread or queue; joins with tracks.name");
const START: ColumnSpec =
    column("start_ns", Type::I64, "start since the trace's first event, to the nanosecond");
const DUR: ColumnSpec = column("dur_ns", Type::F64, "duration; null for events at an instant");
const VALUE: ColumnSpec = column("value", Type::F64, "number of a counter, gauge, event or error");
const STATUS: ColumnSpec = column("status", Type::Text, "unknown, ok, error or cancelled");
const DEPTH: ColumnSpec = column("depth", Type::U8, "spans of its track around it; 255 or more");
const LINK: ColumnSpec = column("link", Type::U32, "correlates a launch with its work; 0 for none");
const REQUEST: ColumnSpec = column(
    "request",
    Type::Text,
    "id of the request it was done for: its own, else that of the scope it began in; null if none",
);

/// All tables.
pub const TABLES: [TableSpec; 7] = [
    TableSpec {
        table: TableName::Records,
        name: "records",
        about: "every event",
        columns: &[
            TRACE, RECORD, KIND, NAME, TRACK, START, DUR, VALUE, STATUS, DEPTH, LINK, REQUEST,
        ],
    },
    TableSpec {
        table: TableName::Spans,
        name: "spans",
        about: "events with a duration that are not a device's work",
        columns: &[TRACE, RECORD, KIND, NAME, TRACK, START, DUR, STATUS, DEPTH, LINK, REQUEST],
    },
    TableSpec {
        table: TableName::Kernels,
        name: "kernels",
        about: "a device's work: kernels, copies, fills",
        columns: &[
            TRACE,
            RECORD,
            KIND,
            NAME,
            column("queue", Type::Text, "queue of the device; joins with tracks.name"),
            START,
            DUR,
            STATUS,
            LINK,
            REQUEST,
            column("launch_ns", Type::I64, "start of the host's call that launched it, if known"),
            column("queue_delay_ns", Type::I64, "from the start of that call to the work's start"),
        ],
    },
    TableSpec {
        table: TableName::Counters,
        name: "counters",
        about: "readings of counters and gauges",
        columns: &[TRACE, RECORD, KIND, NAME, TRACK, START, VALUE, REQUEST],
    },
    TableSpec {
        table: TableName::Fields,
        name: "fields",
        about: "what events carry: a row for each field and each wide id",
        columns: &[
            TRACE,
            RECORD,
            column("key", Type::Text, "key of the field; link.own, link.parent, ... for wide ids"),
            column("type", Type::Text, "u64, i64, f64, bool, ns, name, text or id"),
            column("number", Type::F64, "the number; 0 or 1 of a bool; ticks as nanoseconds"),
            column("text", Type::Text, "the text, name or hexadecimal id; digits beyond 2^53"),
        ],
    },
    TableSpec {
        table: TableName::Names,
        name: "names",
        about: "the dictionary: names of events and keys of fields",
        columns: &[
            TRACE,
            column("id", Type::U32, "id in the file"),
            column("name", Type::Text, "the name"),
            column("call_sites", Type::Text, "where in the source it is used: file:line, ..."),
        ],
    },
    TableSpec {
        table: TableName::Tracks,
        name: "tracks",
        about: "threads and queues",
        columns: &[
            TRACE,
            column("id", Type::U32, "id in the file"),
            column("kind", Type::Text, "thread, queue, recorder or other"),
            column("name", Type::Text, "what it is called everywhere else"),
            column("os_id", Type::U64, "the system's id of the thread or queue"),
        ],
    },
];

impl TableSpec {
    /// The table of this name.
    pub fn named(name: &str) -> Option<&'static TableSpec> {
        TABLES.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }

    /// The schema of these columns.
    pub(crate) fn schema(&self) -> Schema {
        let one = |column: &ColumnSpec| (PlSmallStr::from(column.name), column.data.data_type());
        self.columns.iter().map(one).collect()
    }
}

/// A table and those of its columns that are asked for, in its own order.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The table.
    pub table: &'static TableSpec,
    /// Names of columns; at least one.
    pub columns: Vec<&'static str>,
}

impl Wanted {
    /// Everything in a table.
    pub fn all(table: &'static TableSpec) -> Self {
        Self { table, columns: table.columns.iter().map(|column| column.name).collect() }
    }

    /// Whether a column is asked for.
    pub fn has(&self, column: &str) -> bool {
        self.columns.contains(&column)
    }

    /// Bytes of a row.
    pub fn width(&self) -> u64 {
        let columns = self.table.columns.iter().filter(|column| self.has(column.name));
        columns.map(|column| column.data.width()).sum()
    }
}
