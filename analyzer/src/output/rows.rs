//! `--columns`, `--sort` and `--limit`: the same for every table.

use super::{Cell, Column, Table};
use crate::{Error, Result};

/// One key of an order of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// The column's key.
    pub column: String,
    /// Largest first.
    pub descending: bool,
}

/// Which rows and columns of a table to show, as the user asked for them.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Keys of columns; `+key` adds to what is shown anyway. Empty for the usual ones.
    pub columns: Vec<String>,
    /// Empty for the table's own order.
    pub sort: Vec<SortKey>,
    /// How many rows; `None` for all.
    pub limit: Option<usize>,
}

impl Selection {
    /// Parses `a,-b`: `a` upwards, then `b` downwards.
    pub fn parse_sort(text: &str) -> Vec<SortKey> {
        let key = |part: &str| match part.strip_prefix('-') {
            Some(column) => SortKey { column: column.to_owned(), descending: true },
            None => SortKey { column: part.to_owned(), descending: false },
        };
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(key).collect()
    }

    /// Chooses columns. `everything` is for machines, who get hidden ones too.
    pub fn choose_columns(&self, table: &mut Table, everything: bool) -> Result<()> {
        if self.columns.is_empty() {
            if everything {
                table.columns.iter_mut().for_each(|column| column.shown = true);
            }
            return drop_hidden(table);
        }
        let plain: Vec<&str> =
            self.columns.iter().map(String::as_str).filter(|key| !key.starts_with('+')).collect();
        for key in &self.columns {
            let key = key.trim_start_matches('+');
            if table.column(key).is_none() {
                return Err(no_such_column(table, key));
            }
        }
        if plain.is_empty() {
            for column in &mut table.columns {
                let added = |key: &String| key.trim_start_matches('+') == column.key;
                column.shown |= everything || self.columns.iter().any(added);
            }
            return drop_hidden(table);
        }
        let order: Vec<usize> = self
            .columns
            .iter()
            .filter_map(|key| table.column(key.trim_start_matches('+')))
            .collect();
        keep(table, &order);
        Ok(())
    }

    /// Puts rows in order.
    pub fn sort_rows(&self, table: &mut Table) -> Result<()> {
        let mut keys = Vec::with_capacity(self.sort.len());
        for SortKey { column, descending } in &self.sort {
            let at = table.column(column).ok_or_else(|| no_such_column(table, column))?;
            keys.push((at, *descending));
        }
        table.rows.sort_by(|a, b| {
            let by_key = |&(at, descending): &(usize, bool)| {
                let order = compare(&a[at], &b[at]);
                if descending { order.reverse() } else { order }
            };
            keys.iter().map(by_key).find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
        });
        Ok(())
    }
}

fn no_such_column(table: &Table, key: &str) -> Error {
    let known: Vec<&str> = table.columns.iter().map(|column| column.key.as_str()).collect();
    Error::new(format!("no column {key:?}; there are {}", known.join(", ")))
}

/// Numbers by size, texts by letters, nothing first.
fn compare(a: &Cell, b: &Cell) -> std::cmp::Ordering {
    match (a, b) {
        (Cell::Text(a), Cell::Text(b)) => a.cmp(b),
        (Cell::Json(a), Cell::Json(b)) => a.to_string().cmp(&b.to_string()),
        (Cell::Text(_), _) => std::cmp::Ordering::Greater,
        (_, Cell::Text(_)) => std::cmp::Ordering::Less,
        (a, b) => value(a).total_cmp(&value(b)),
    }
}

fn value(cell: &Cell) -> f64 {
    match cell {
        Cell::None | Cell::Text(_) | Cell::Json(_) => f64::NEG_INFINITY,
        Cell::Count(n) => *n as f64,
        Cell::Ns(value) | Cell::Bytes(value) | Cell::Percent(value) | Cell::Number(value) => *value,
    }
}

fn drop_hidden(table: &mut Table) -> Result<()> {
    let shown: Vec<usize> =
        table.columns.iter().enumerate().filter(|(_, it)| it.shown).map(|(at, _)| at).collect();
    keep(table, &shown);
    Ok(())
}

/// Keeps these columns in this order.
fn keep(table: &mut Table, order: &[usize]) {
    let pick = |row: &Vec<Cell>| order.iter().map(|&at| row[at].clone()).collect();
    table.rows = table.rows.iter().map(pick).collect();
    table.footer = table.footer.as_ref().map(pick);
    let columns: Vec<Column> = order.iter().map(|&at| table.columns[at].clone()).collect();
    table.columns = columns;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = vec![
            Column::new("name", "name"),
            Column::new("count", "count"),
            Column::hidden("std_ns", "std"),
        ];
        let row = |name: &str, count, std| vec![name.into(), Cell::Count(count), Cell::Ns(std)];
        let rows = vec![row("a", 1, 3.0), row("b", 2, 2.0), row("c", 2, 1.0)];
        Table { rows, ..Table::new("t", "", columns) }
    }

    fn keys(table: &Table) -> Vec<&str> {
        table.columns.iter().map(|column| column.key.as_str()).collect()
    }

    fn chosen(columns: &[&str], everything: bool) -> Result<Table> {
        let columns = columns.iter().map(|&key| key.to_owned()).collect();
        let mut table = table();
        Selection { columns, ..Selection::default() }.choose_columns(&mut table, everything)?;
        Ok(table)
    }

    #[test]
    fn hidden_columns_are_for_those_who_ask_and_for_machines() {
        assert_eq!(keys(&chosen(&[], false).unwrap()), ["name", "count"]);
        assert_eq!(keys(&chosen(&[], true).unwrap()), ["name", "count", "std_ns"]);
        assert_eq!(keys(&chosen(&["+std_ns"], false).unwrap()), ["name", "count", "std_ns"]);
        assert_eq!(keys(&chosen(&["std_ns", "name"], true).unwrap()), ["std_ns", "name"]);
        let wrong = chosen(&["nmae"], false).unwrap_err().to_string();
        assert_eq!(wrong, "no column \"nmae\"; there are name, count, std_ns");
    }

    #[test]
    fn rows_sort_by_several_keys() {
        let mut table = table();
        let sort = Selection::parse_sort("-count,std_ns");
        Selection { sort, ..Selection::default() }.sort_rows(&mut table).unwrap();
        let names: Vec<&Cell> = table.rows.iter().map(|row| &row[0]).collect();
        assert_eq!(names, [&Cell::from("c"), &Cell::from("b"), &Cell::from("a")]);
    }
}
