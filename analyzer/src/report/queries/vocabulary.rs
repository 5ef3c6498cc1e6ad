//! What the reports over a vocabulary have in common: events are known by their
//! names and fields (`format-spec/VOCABULARY.md`), found in the data and not
//! required, and asked for with SQL that people can print and start from.
//!
//! Such a report loads the events it is about and no others. What it holds grows
//! with their number, up to `--max-memory`.

use serde_json::{Value, json};

use super::{Context, percentile_key};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Part, Selection, Table},
    query::{Answer, Database},
    tables::Scope,
};

/// Options of these reports.
#[derive(clap::Args, Clone, Debug)]
#[command(mut_arg("traces", |arg| arg.required(false).required_unless_present("print_sql")))]
pub struct Args {
    /// Print the queries behind this report, for `analyze sql`, instead of answering them
    #[arg(long)]
    print_sql: bool,
    #[command(flatten)]
    common: Common,
}

/// A report over a vocabulary.
pub(super) struct Report {
    /// Of its JSON form.
    pub(super) schema: &'static str,
    /// What each query is about, and the query.
    pub(super) queries: &'static [(&'static str, &'static str)],
    /// The events that the queries are about.
    pub(super) scope: Scope,
    /// Makes the tables; none if the trace has nothing of the kind.
    pub(super) parts: fn(&Asking<'_>) -> Result<Vec<Part>>,
    /// Said if there are none.
    pub(super) nothing: &'static str,
}

/// Rows that people get unasked.
const USUAL_ROWS: usize = 30;
/// Rows in a section of the overview.
const SECTION_ROWS: usize = 8;

impl Report {
    pub(super) fn run(&self, args: Args) -> Result<(Common, Document)> {
        if args.print_sql {
            let document = self.print_sql(&args.common);
            return Ok((args.common, document));
        }
        let context = Context::open(args.common)?;
        let sql: Vec<String> =
            self.queries.iter().map(|(_, sql)| prepare(sql, &context.common)).collect();
        let sql: Vec<&str> = sql.iter().map(String::as_str).collect();
        let database = Database::load(&context, &sql, &self.scope)?;
        let mut parts = (self.parts)(&Asking { context: &context, database: &database })?;
        if parts.is_empty() {
            let note = self.nothing.to_owned();
            parts.push(Part::Table(Table { note, ..Table::new("rows", "", Vec::new()) }));
            return Ok((context.common.clone(), context.document(self.schema, parts)));
        }
        let limit = context.common.limit(USUAL_ROWS);
        let parts = arrange(&context, parts, limit, true)?;
        let document = context.document(self.schema, parts);
        Ok((context.common, document))
    }

    fn print_sql(&self, common: &Common) -> Document {
        let part = |&(about, sql): &(&str, &str)| {
            let sql = prepare(sql, common);
            let mut lines = vec![format!("/* {about} */")];
            lines.extend(sql.lines().map(str::to_owned));
            Part::Text {
                key: about.to_owned(),
                title: String::new(),
                lines,
                value: json!({ "sql": sql }),
            }
        };
        let parts = self.queries.iter().map(part).collect();
        Document {
            schema: "ringscope.print_sql/1",
            trace: Value::Null,
            loss: Value::Null,
            exact: true,
            parts,
        }
    }
}

/// `--sort` and `--columns` are about the first table, the limit about all.
fn arrange(
    context: &Context,
    parts: Vec<Part>,
    limit: Option<usize>,
    as_asked: bool,
) -> Result<Vec<Part>> {
    let mut first = as_asked;
    let one = |part| {
        let Part::Table(mut table) = part else { return Ok(part) };
        if std::mem::take(&mut first) {
            return Ok(Part::Table(context.arrange(table, limit)?));
        }
        table.cut(limit);
        Selection::default().choose_columns(&mut table, context.common.for_machines())?;
        Ok(Part::Table(table))
    };
    parts.into_iter().map(one).collect()
}

/// Every point of the traces and every failure, loaded once for all sections of
/// the overview: chunks without any are not decoded.
pub struct Points(Database);

impl Points {
    /// Loads them; an error if they do not fit into memory.
    pub fn load(context: &Context) -> Result<Self> {
        let reports = [&super::memory::REPORT, &super::counters::REPORT, &super::errors::REPORT];
        let queries = reports.iter().flat_map(|report| report.queries).map(|(_, sql)| *sql);
        let queries = queries.chain([super::events::EVENTS]);
        let sql: Vec<String> = queries.map(|sql| prepare(sql, &context.common)).collect();
        let sql: Vec<&str> = sql.iter().map(String::as_str).collect();
        let scope = Scope { kinds: |kind| kind.is_point(), failed: true, ..Scope::NONE };
        Database::load(context, &sql, &scope).map(Self)
    }

    /// Some tables of a report, with as many rows as a section has.
    pub(super) fn section(
        &self,
        context: &Context,
        parts: fn(&Asking<'_>) -> Result<Vec<Part>>,
    ) -> Result<Vec<Part>> {
        let parts = parts(&Asking { context, database: &self.0 })?;
        arrange(context, parts, context.common.limit(SECTION_ROWS), false)
    }
}

/// What a report is made from.
pub(super) struct Asking<'a> {
    pub(super) context: &'a Context,
    database: &'a Database,
}

impl Asking<'_> {
    pub(super) fn ask(&self, sql: &str) -> Result<Answer> {
        self.database.ask(&prepare(sql, &self.context.common))
    }

    /// Traces are processes: figures of several are told apart.
    pub(super) fn trace_column(&self) -> Column {
        Column { shown: self.context.traces.list.len() > 1, ..Column::new("trace", "trace") }
    }

    /// Columns of percentiles.
    pub(super) fn percentile_columns(&self) -> impl Iterator<Item = Column> {
        let percentiles = &self.context.common.percentiles;
        percentiles.iter().map(|it| Column::new(percentile_key(*it), format!("p{it}")))
    }

    /// Cells for them, by row.
    pub(super) fn percentile_cells(&self, answer: &Answer) -> Result<Vec<Vec<Cell>>> {
        let mut rows = vec![Vec::new(); answer.rows()];
        for percentile in &self.context.common.percentiles {
            let column = answer.numbers(&percentile_key(*percentile))?;
            for (row, number) in rows.iter_mut().zip(column) {
                row.push(optional(number, Cell::Ns));
            }
        }
        Ok(rows)
    }

    /// The time that is asked about, since the first event of a trace.
    pub(super) fn time_range(&self, trace: Option<&str>) -> (f64, f64) {
        let traces = &self.context.traces.list;
        let loaded = traces.iter().find(|loaded| Some(loaded.label.as_str()) == trace);
        let length = loaded.map_or(1.0, |loaded| loaded.length_ns().max(1.0));
        let filter = &self.context.filter;
        let at = |ns: f64| if ns < 0.0 { (length + ns).max(0.0) } else { ns.min(length) };
        let from = filter.from_ns.map_or(0.0, at);
        let from = from.max(filter.last_ns.map_or(0.0, |last| (length - last).max(0.0)));
        (from, filter.to_ns.map_or(length, at).max(from + 1.0))
    }

    /// Characters of a sparkline, few enough that a table need not cut it to fit;
    /// machines get none.
    pub(super) fn sparkline_width(&self) -> Option<usize> {
        let common = &self.context.common;
        let narrow = common.style().width.is_some_and(|width| width < 140);
        (!common.for_machines()).then_some(if narrow { 12 } else { 24 })
    }
}

/// Puts the percentiles that are asked for into a query: `{percentiles of x}`
/// becomes `QUANTILE_CONT(x, 0.5) AS "p50_ns", ...`.
fn prepare(sql: &str, common: &Common) -> String {
    const BEGIN: &str = "{percentiles of ";
    let Some((before, rest)) = sql.split_once(BEGIN) else { return sql.to_owned() };
    let Some((of, after)) = rest.split_once('}') else { return sql.to_owned() };
    let one =
        |it: &f64| format!("QUANTILE_CONT({of}, {}) AS \"{}\"", it / 100.0, percentile_key(*it));
    let all: Vec<String> = common.percentiles.iter().map(one).collect();
    // A list must not be empty for the comma behind it.
    let all = if all.is_empty() { "NULL AS nothing".to_owned() } else { all.join(", ") };
    format!("{before}{all}{after}")
}

/// Does not show a column in which there is nothing.
pub(super) fn hide_empty_columns(table: &mut Table) {
    for (at, column) in table.columns.iter_mut().enumerate() {
        column.shown &= table.rows.iter().any(|row| row[at] != Cell::None);
    }
}

/// A number if there is one.
pub(super) fn optional(number: Option<f64>, cell: fn(f64) -> Cell) -> Cell {
    number.map_or(Cell::None, cell)
}

/// How many, from a sum that Polars may have made a float.
pub(super) fn counted(number: Option<f64>) -> Cell {
    Cell::Count(number.unwrap_or(0.0).max(0.0) as u64)
}

/// A text if there is one.
pub(super) fn text(text: Option<&str>) -> Cell {
    text.filter(|text| !text.is_empty()).map_or(Cell::None, Cell::from)
}

#[cfg(test)]
mod tests {
    use crate::report::queries::{caches, calls, counters, errors, memory, pool, training};

    #[test]
    fn every_name_that_a_report_looks_for_is_in_the_document() {
        let document = include_str!("../../../../format-spec/VOCABULARY.md");
        let reports = [
            &caches::REPORT,
            &calls::REPORT,
            &counters::REPORT,
            &errors::REPORT,
            &memory::REPORT,
            &pool::REPORT,
            &training::REPORT,
        ];
        for name in reports.iter().flat_map(|report| report.scope.names) {
            assert!(document.contains(&format!("`{name}`")), "{name}");
        }
    }
}
