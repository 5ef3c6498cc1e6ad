//! `sql`: a query over the tables.

use std::io::Read;

use super::Context;
use crate::{
    Error, Result,
    cli::Common,
    output::{Cell, Column, Document, Table, count},
    query::Database,
    tables::TABLES,
};

/// Rows that people get unasked.
const USUAL_ROWS: usize = 50;

/// Options of `sql`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_long_help = HELP)]
#[command(mut_arg("traces", |arg| arg.required(false).required_unless_present("schema")))]
pub struct Args {
    /// The query; `-` reads it from standard input
    #[arg(value_name = "QUERY", required_unless_present = "schema")]
    query: Option<String>,
    /// Print the tables and their columns
    #[arg(long)]
    schema: bool,
    #[command(flatten)]
    common: Common,
}

const HELP: &str = "\
Examples:
  Which names take most of the time of each thread:
    analyze sql \"SELECT track, name, count(*) AS n, sum(dur_ns) AS total_ns FROM spans
                 GROUP BY track, name ORDER BY total_ns DESC\" run.trace
  The 99th percentile of each kernel's queue delay:
    analyze sql \"SELECT name, quantile_cont(queue_delay_ns, 0.99) AS p99_ns FROM kernels
                 GROUP BY name ORDER BY p99_ns DESC\" run.trace
  The loss of each training step, from the fields of its events:
    analyze sql \"SELECT r.start_ns, f.number AS loss FROM records r
                 JOIN fields f ON f.record = r.record
                 WHERE r.name = 'training.step' AND f.key = 'loss'\" run.trace

Units are read off the names of columns: ..._ns, bytes and ..._bytes, ..._percent.
Name only the columns you need: the others are then not loaded. Filters such as --from
and --name apply before the query; names and tracks are never filtered.

Functions (Polars SQL): count sum avg min max median quantile_cont quantile_disc stddev
variance first last corr; abs ceil floor round sqrt exp ln log10 pow mod sign; coalesce
nullif greatest least if; lower upper length left right substr replace strpos starts_with
ends_with concat regexp_like LIKE; lag lead row_number ... OVER (PARTITION BY ...);
CASE, CAST, JOIN, UNION, WITH, IN (SELECT ...). Not there: EXISTS, EXCEPT, INTERSECT, rank,
a subquery inside an expression; use a JOIN.";

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let mut common = args.common;
    if args.schema {
        // A schema needs no trace, and what looks like a query is then one.
        common.traces.clear();
        let context = Context::open(common)?;
        let document = context.table_document("ringscope.schema/1", schema(), usize::MAX)?;
        return Ok((context.common, document));
    }
    let query = match args.query.as_deref() {
        Some("-") => {
            if common.traces.iter().any(|path| path.as_os_str() == "-") {
                return Err(Error::new("sql: query and trace cannot both be standard input"));
            }
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| Error::new(format!("standard input: {error}")))?;
            text
        }
        Some(text) => text.to_owned(),
        None => return Err(Error::new("sql: no query; give one, or - to read it")),
    };
    let context = Context::open(common)?;
    Database::try_out(&query)?;
    let answer = Database::load(&context, &[&query])?.ask(&query)?;
    // Rows that will not be shown need not become cells, unless they are sorted first.
    let limit = context.common.limit(USUAL_ROWS).filter(|_| context.common.sort.is_none());
    let shown = limit.unwrap_or(usize::MAX).min(answer.rows());
    context.common.budget().check_answer(shown, answer.columns())?;
    let mut table = answer.head(shown).table("rows", "")?;
    table.note = match answer.rows() - shown {
        0 if shown == 0 => "no rows".to_owned(),
        0 => String::new(),
        left_out => format!("  … {} more rows: --limit 0", count(left_out as u64)),
    };
    let document = context.table_document("ringscope.sql/1", table, USUAL_ROWS)?;
    Ok((context.common, document))
}

fn schema() -> Table {
    let columns = [("table", "table"), ("column", "column"), ("type", "type"), ("about", "")];
    let columns = columns.map(|(key, title)| Column::new(key, title)).to_vec();
    let mut table = Table::new("schema", "", columns);
    for spec in &TABLES {
        for column in spec.columns {
            let cells = [spec.name, column.name, column.data.name(), column.about];
            table.rows.push(cells.map(Cell::from).to_vec());
        }
    }
    table
}
