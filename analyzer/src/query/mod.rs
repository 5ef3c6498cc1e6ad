//! Asking Polars: SQL over the tables of [`tables`](crate::tables).
//!
//! A [`Database`] holds the tables that its queries mention and nothing else. Its
//! size grows with the number of events, up to its budget.

mod cells;
mod needs;

use std::panic::{self, AssertUnwindSafe};

use polars::{
    error::PolarsError,
    prelude::{DataFrame, IntoLazy},
    sql::SQLContext,
};

use crate::{
    Error, Result,
    output::{Table, shorten_middle},
    report::Context,
    tables::{TABLES, TableSpec, gather::Gathering},
};

/// Tables, and a way to ask about them.
pub struct Database {
    frames: Vec<(&'static TableSpec, DataFrame)>,
}

impl Database {
    /// Tries a query on empty tables, so that a mistake in it is found before a
    /// large trace has been read.
    pub fn try_out(query: &str) -> Result<()> {
        Self { frames: Vec::new() }.ask(query).map(drop)
    }

    /// Loads what `queries` need.
    pub fn load(context: &Context, queries: &[&str]) -> Result<Self> {
        let wanted = needs::wanted(queries)?;
        let gathering = Gathering {
            traces: &context.traces,
            sieves: &context.sieves,
            wanted: &wanted,
            budget: context.common.budget(),
        };
        let frames = gathering.run()?;
        let frames = wanted.into_iter().map(|wanted| wanted.table).zip(frames).collect();
        Ok(Self { frames })
    }

    /// Answers one query.
    pub fn ask(&self, query: &str) -> Result<Answer> {
        let run = || -> std::result::Result<DataFrame, PolarsError> {
            let mut sql = SQLContext::new();
            for table in &TABLES {
                let loaded = self.frames.iter().find(|(spec, _)| spec.table == table.table);
                let frame = match loaded {
                    Some((_, frame)) => frame.clone(),
                    None => DataFrame::empty_with_schema(&table.schema()),
                };
                sql.register(table.name, frame.lazy());
            }
            sql.execute(query)?.collect()
        };
        // Polars panics where a query wants what it was built without.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let result = panic::catch_unwind(AssertUnwindSafe(run));
        panic::set_hook(hook);
        match result {
            Ok(frame) => Ok(Answer { frame: frame.map_err(sql_error)? }),
            Err(cause) => {
                let text = cause.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
                let text = text.unwrap_or("it panicked");
                Err(Error::new(format!("sql: Polars cannot do this: {text}; put it differently")))
            }
        }
    }
}

/// What came of a query.
pub struct Answer {
    frame: DataFrame,
}

impl Answer {
    /// How many rows.
    pub fn rows(&self) -> usize {
        self.frame.height()
    }

    /// All of it as a table. The unit of a column is what its name ends with:
    /// `_ns`, `bytes`, `_percent`.
    pub fn table(&self, key: &str, title: &str) -> Result<Table> {
        cells::table(&self.frame, key, title)
    }

    /// How many columns.
    pub fn columns(&self) -> usize {
        self.frame.width()
    }

    /// Only the first rows.
    pub fn head(&self, rows: usize) -> Answer {
        Answer { frame: self.frame.head(Some(rows)) }
    }
}

/// Characters of an explanation.
const LONGEST_CAUSE: usize = 300;

/// What is wrong with a query, in one line, without Polars' plan of it.
fn sql_error(error: PolarsError) -> Error {
    let text = error.to_string();
    let text = text.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let text = text.strip_prefix("sql parser error: ").unwrap_or(&text);
    if text.starts_with("expression Exists") {
        return Error::new("sql: EXISTS is not supported; use IN (SELECT ...) or a JOIN");
    }
    // Of what it does not support, Polars prints the whole syntax tree.
    let text = shorten_middle(text, LONGEST_CAUSE);
    let tables = || TABLES.map(|table| table.name).join(", ");
    if text.contains("relation") && text.contains("not found") {
        return Error::new(format!("sql: {text}; there are {}", tables()));
    }
    Error::new(format!("sql: {text}; the tables and columns: analyze sql --schema"))
}
