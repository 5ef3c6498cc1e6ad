//! Tables of an SQLite database, row by row. The only place that knows SQLite's own library.
//!
//! A file is opened where it is, for reading alone and as one that nobody changes: nothing
//! is locked and nothing is written beside it. What came packed or through a pipe is held in
//! memory. Pages are SQLite's to cache, so what a walk over a table takes does not grow with it.
//!
//! A journal or write-ahead log beside the file is not read, and that is said. Views and
//! virtual tables are left alone: what they do when they are read is up to whoever made them.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig, limits::Limit, types::ValueRef};

/// No text of a profiler is longer; a damaged length is.
const LONGEST_CELL: i32 = 64 << 20;
/// Where a database says how it is written: 1 by a journal, 2 by a write-ahead log.
const WRITTEN_BY: std::ops::Range<usize> = 18..20;

/// Where a database is.
pub(super) enum Place<'a> {
    File(&'a Path),
    Memory(Vec<u8>),
}

/// A cell of a row.
#[derive(Clone, Copy)]
pub(super) struct Cell<'a>(ValueRef<'a>);

impl Cell<'_> {
    pub(super) fn int(&self) -> Option<i64> {
        self.0.as_i64().ok()
    }

    pub(super) fn text(&self) -> Option<String> {
        match self.0 {
            ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}

/// A table and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    columns: Vec<String>,
}

impl Table {
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|it| it == column)
    }
}

/// An open database.
pub(super) struct Database {
    connection: Connection,
    pub(super) tables: Vec<Table>,
}

impl Database {
    pub(super) fn open(place: Place<'_>) -> Result<Self, String> {
        let connection = match place {
            Place::File(path) => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
                    | OpenFlags::SQLITE_OPEN_URI
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                Connection::open_with_flags(address(path), flags)
            }
            Place::Memory(bytes) => in_memory(bytes),
        };
        let connection = connection.map_err(|error| damaged("the database", &error))?;
        let prepared = connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)
            .and_then(|_| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false))
            .and_then(|_| connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_CELL));
        prepared.map_err(|error| damaged("the database", &error))?;
        let tables = tables(&connection).map_err(|error| damaged("the list of tables", &error))?;
        Ok(Self { connection, tables })
    }

    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Hands every row to `each`, in the order in which rows are numbered: a cell for each of
    /// `columns`, empty where the table has no such column.
    pub(super) fn rows<const N: usize>(
        &self,
        table: &Table,
        columns: [&str; N],
        mut each: impl FnMut([Cell<'_>; N]),
    ) -> Result<(), String> {
        let column = |name: &&str| if table.has(name) { quoted(name) } else { "NULL".to_owned() };
        let columns: Vec<String> = columns.iter().map(column).collect();
        // An index over the same columns would be shorter to read, and in another order.
        let sql = format!("SELECT {} FROM {} NOT INDEXED", columns.join(", "), quoted(&table.name));
        let mut taken = 0_u64;
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let mut cells = [Cell(ValueRef::Null); N];
                for (at, cell) in cells.iter_mut().enumerate() {
                    cell.0 = row.get_ref(at)?;
                }
                each(cells);
                taken += 1;
            }
            Ok(())
        };
        let read = read();
        read.map_err(|error| damaged(&format!("{}, row {}", table.name, taken + 1), &error))
    }

    /// How many rows a table has.
    pub(super) fn count(&self, table: &Table) -> Result<u64, String> {
        let sql = format!("SELECT count(*) FROM {}", quoted(&table.name));
        let count = self.connection.query_row(&sql, [], |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(|error| damaged(&table.name, &error))
    }
}

fn damaged(what: &str, error: &rusqlite::Error) -> String {
    let why = match error {
        rusqlite::Error::SqliteFailure(_, Some(why)) => why.clone(),
        other => other.to_string(),
    };
    format!("{what}: {why}; export it again")
}

/// Tables that are stored as such.
fn tables(connection: &Connection) -> rusqlite::Result<Vec<Table>> {
    // Without a snapshot of the schema in between, one damaged table would hide the others.
    let mut names = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 ORDER BY rowid",
    )?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?;
    let names = names.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut tables = Vec::new();
    for name in names {
        let mut columns = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns = columns.query_map([&name], |row| row.get::<_, String>(0))?;
        let columns = columns.collect::<rusqlite::Result<Vec<_>>>()?;
        tables.push(Table { name, columns });
    }
    Ok(tables)
}

/// A database that is a copy of these bytes.
fn in_memory(mut bytes: Vec<u8>) -> rusqlite::Result<Connection> {
    // There is no log beside a copy in memory, and without one the two are written alike.
    if let Some(written_by) = bytes.get_mut(WRITTEN_BY)
        && written_by == [2, 2]
    {
        written_by.fill(1);
    }
    let mut connection = Connection::open_in_memory()?;
    connection.deserialize_read_exact("main", bytes.as_slice(), bytes.len(), true)?;
    Ok(connection)
}

/// The URI of a file that nobody changes.
fn address(path: &Path) -> PathBuf {
    let mut uri = b"file:".to_vec();
    if path.is_absolute() {
        uri.extend_from_slice(b"//");
    }
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            uri.push(byte);
        } else {
            uri.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    uri.extend_from_slice(b"?immutable=1");
    OsString::from_vec(uri).into()
}

/// What lies beside a database and holds changes that are not in it yet.
pub(super) fn unread_changes(path: &Path) -> Option<String> {
    ["-wal", "-journal"].into_iter().find_map(|end| {
        let mut beside = path.as_os_str().to_owned();
        beside.push(OsStr::new(end));
        let length = std::fs::metadata(&beside).ok()?.len();
        (length > 0).then(|| {
            format!(
                "{} lies beside it and was not read; rows that only that file has are missing",
                Path::new(&beside).display()
            )
        })
    })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_addresses_that_mean_the_same_file() {
        let uri = |path: &str| address(Path::new(path)).display().to_string();
        assert_eq!(uri("a b?c#d%.sqlite"), "file:a%20b%3Fc%23d%25.sqlite?immutable=1");
        assert_eq!(uri("/tmp/run.sqlite"), "file:///tmp/run.sqlite?immutable=1");
    }
}
