//! Reads whole tables of an SQLite file, and nothing else: no queries, no indices,
//! no journal. That is what an export of a profiler takes, and a library that can do the
//! rest is larger than this program.
//!
//! Every offset is checked, and no page is looked at twice in one walk: a damaged file
//! ends the walk with an error.

const MAGIC: &[u8] = b"SQLite format 3\0";
/// The file's own header, at the beginning of its first page.
const HEADER: usize = 100;
const LEAF: u8 = 0x0D;
const INTERIOR: u8 = 0x05;

/// A value in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    Null,
    Int(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob,
}

impl Cell<'_> {
    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Cell::Int(n) => Some(*n),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<String> {
        match self {
            Cell::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}

/// Where a table is, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<String>,
    root: u64,
    /// The column that is the row's own number and not stored.
    row_id: Option<usize>,
}

/// An open file.
pub(super) struct Database<'a> {
    bytes: &'a [u8],
    page_size: usize,
    /// Bytes of a page without what extensions reserve.
    usable: usize,
    pub(super) tables: Vec<Table>,
}

/// Why a walk ended.
const DAMAGED: &str = "a page of the database is damaged or missing; export it again";

pub(super) fn is_sqlite(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

impl<'a> Database<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, String> {
        let header = bytes.get(..HEADER).ok_or("the database is cut within its header")?;
        let page_size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size => usize::from(size),
        };
        let usable = page_size.saturating_sub(header[20].into());
        if page_size < 512 || usable < 480 {
            return Err("the database has no sound page size; export it again".to_owned());
        }
        if header[56..60] != [0, 0, 0, 1] {
            return Err("the database is not in UTF-8; export it again".to_owned());
        }
        let mut tables = Vec::new();
        let mut database = Self { bytes, page_size, usable, tables: Vec::new() };
        database.walk(1, &mut |_, cells| {
            if let [kind, name, _, root, sql] = &cells[..]
                && kind.text().as_deref() == Some("table")
                && let (Some(name), Some(root), Some(sql)) = (name.text(), root.int(), sql.text())
            {
                let (columns, row_id) = columns(&sql);
                tables.push(Table { name, columns, root: root.max(0) as u64, row_id });
            }
        })?;
        database.tables = tables;
        Ok(database)
    }

    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name)
    }

    /// Hands every row to `each`, a cell for every column.
    pub(super) fn rows(
        &self,
        table: &Table,
        mut each: impl FnMut(&[Cell<'_>]),
    ) -> Result<(), String> {
        self.walk(table.root, &mut |row_id, mut row| {
            // Rows that are older than a column have no cell for it.
            row.resize(table.columns.len(), Cell::Null);
            if let Some(at) = table.row_id {
                row[at] = Cell::Int(row_id);
            }
            each(&row);
        })
    }

    fn page(&self, number: u64) -> Option<&'a [u8]> {
        let begin = usize::try_from(number.checked_sub(1)?).ok()?.checked_mul(self.page_size)?;
        self.bytes.get(begin..begin.checked_add(self.page_size)?)
    }

    fn walk(&self, root: u64, each: &mut dyn FnMut(i64, Vec<Cell<'_>>)) -> Result<(), String> {
        let mut left = self.bytes.len() / self.page_size + 1;
        let mut waiting = vec![root];
        while let Some(number) = waiting.pop() {
            left = left.checked_sub(1).ok_or(DAMAGED)?;
            self.one_page(number, &mut waiting, each).ok_or(DAMAGED)?;
        }
        Ok(())
    }

    fn one_page(
        &self,
        number: u64,
        waiting: &mut Vec<u64>,
        each: &mut dyn FnMut(i64, Vec<Cell<'_>>),
    ) -> Option<()> {
        let page = self.page(number)?;
        let head = if number == 1 { HEADER } else { 0 };
        let kind = *page.get(head)?;
        let cells = usize::from(u16_at(page, head + 3)?);
        let pointers = head + if kind == INTERIOR { 12 } else { 8 };
        let cell = |at: usize| u16_at(page, pointers + 2 * at).map(usize::from);
        match kind {
            INTERIOR => {
                // Popped from the end: the first child comes last.
                waiting.push(u32_at(page, head + 8)?.into());
                for at in (0..cells).rev() {
                    waiting.push(u32_at(page, cell(at)?)?.into());
                }
            }
            LEAF => {
                for at in 0..cells {
                    self.leaf(page, cell(at)?, each)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn leaf(&self, page: &[u8], at: usize, each: &mut dyn FnMut(i64, Vec<Cell<'_>>)) -> Option<()> {
        let (length, at) = varint(page, at)?;
        let (row_id, at) = varint(page, at)?;
        let length = usize::try_from(length).ok().filter(|&it| it <= self.bytes.len())?;
        let (most, least) = (self.usable - 35, (self.usable - 12) * 32 / 255 - 23);
        if length <= most {
            each(row_id, record(page.get(at..at + length)?)?);
            return Some(());
        }
        let tail = least + (length - least) % (self.usable - 4);
        let local = if tail <= most { tail } else { least };
        // What is spread over pages is put together, and lives no longer than the call.
        let mut whole = page.get(at..at + local)?.to_vec();
        let mut next = u64::from(u32_at(page, at + local)?);
        while whole.len() < length {
            let page = self.page(next)?;
            let piece = (length - whole.len()).min(self.usable - 4);
            whole.extend_from_slice(page.get(4..4 + piece)?);
            next = u32_at(page, 0)?.into();
        }
        each(row_id, record(&whole)?);
        Some(())
    }
}

fn u16_at(page: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(page.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(page: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(page.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// A number of up to 9 bytes, and where it ends.
fn varint(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let mut value = 0_u64;
    for offset in 0..9 {
        let byte = *bytes.get(at.checked_add(offset)?)?;
        if offset == 8 {
            return Some(((value << 8 | u64::from(byte)) as i64, at + 9));
        }
        value = value << 7 | u64::from(byte & 0x7F);
        if byte & 0x80 == 0 {
            return Some((value as i64, at + offset + 1));
        }
    }
    None
}

/// The cells of a row.
fn record(bytes: &[u8]) -> Option<Vec<Cell<'_>>> {
    let (header, mut at) = varint(bytes, 0)?;
    let header = usize::try_from(header).ok().filter(|&it| it <= bytes.len())?;
    let mut content = header;
    let mut cells = Vec::new();
    while at < header {
        let (serial, next) = varint(bytes, at)?;
        at = next;
        let length = match serial {
            0 | 8 | 9 => 0,
            1..=4 => serial as usize,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((serial - 12) / 2).ok()?,
            _ => return None,
        };
        let value = bytes.get(content..content.checked_add(length)?)?;
        content += length;
        cells.push(match serial {
            0 => Cell::Null,
            8 => Cell::Int(0),
            9 => Cell::Int(1),
            1..=6 => {
                let sign = if value[0] & 0x80 != 0 { -1_i64 } else { 0 };
                Cell::Int(value.iter().fold(sign, |sum, &byte| sum << 8 | i64::from(byte)))
            }
            7 => Cell::Real(f64::from_be_bytes(value.try_into().ok()?)),
            _ if serial % 2 == 1 => Cell::Text(value),
            _ => Cell::Blob,
        });
    }
    Some(cells)
}

/// Names of columns in `CREATE TABLE`, and which of them is the row's number.
fn columns(sql: &str) -> (Vec<String>, Option<usize>) {
    let no_remarks: Vec<&str> =
        sql.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    let sql = no_remarks.join(" ");
    let (begin, end) = (sql.find('(').map_or(0, |at| at + 1), sql.rfind(')').unwrap_or(sql.len()));
    let (mut columns, mut row_id, mut depth) = (Vec::new(), None, 0_i32);
    let inner = sql.get(begin..end).unwrap_or_default();
    for definition in inner.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    }) {
        let mut words = definition.split_whitespace();
        let Some(name) = words.next() else { continue };
        let upper = definition.to_uppercase();
        let is_constraint = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "CONSTRAINT"]
            .iter()
            .any(|word| name.to_uppercase().starts_with(word));
        if is_constraint {
            continue;
        }
        let is_integer = words.next().is_some_and(|word| word.eq_ignore_ascii_case("integer"));
        if is_integer && upper.contains("PRIMARY KEY") {
            row_id = Some(columns.len());
        }
        columns.push(name.trim_matches(['"', '`', '[', ']']).to_owned());
    }
    (columns, row_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_told_from_constraints_and_remarks() {
        let sql = "CREATE TABLE T (\n  id INTEGER NOT NULL PRIMARY KEY, -- a, b (c\n  \"name\" TEXT,\n  \
                   price DECIMAL(10, 2), PRIMARY KEY (id, name)\n)";
        let names = ["id", "name", "price"].map(str::to_owned).to_vec();
        assert_eq!(columns(sql), (names, Some(0)));
    }

    #[test]
    fn numbers_have_their_length_and_their_sign() {
        assert_eq!(varint(&[0x7F], 0), Some((127, 1)));
        assert_eq!(varint(&[0x81, 0x00], 0), Some((128, 2)));
        assert_eq!(varint(&[0xFF; 9], 0), Some((-1, 9)));
        assert_eq!(varint(&[0x81], 0), None);
        let row = [6, 0, 1, 2, 9, 15, 0xFE, 0x01, 0x00, b'x'];
        let cells = [Cell::Null, Cell::Int(-2), Cell::Int(256), Cell::Int(1), Cell::Text(b"x")];
        assert_eq!(record(&row).as_deref(), Some(&cells[..]));
    }
}
