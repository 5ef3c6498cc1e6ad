//! `--print-sql`: queries that give the figures of a report, for whoever wants them a little
//! different. Reports do not run them; a test compares what both say.

use serde_json::{Value, json};

use super::{Args, Command, percentile_key};
use crate::{
    cli::Common,
    output::{Document, Part},
};

impl Command {
    /// The document of its queries, if they are asked for.
    pub(super) fn queries(&self) -> Option<(Common, Document)> {
        let (file, Args { print_sql, common }) = match self {
            Command::Memory(args) => (include_str!("sql/memory.sql"), args),
            Command::Counters(args) => (include_str!("sql/counters.sql"), args),
            Command::Errors(args) => (include_str!("sql/errors.sql"), args),
            Command::Calls(args) => (include_str!("sql/calls.sql"), args),
            Command::Pool(args) => (include_str!("sql/pool.sql"), args),
            Command::Training(args) => (include_str!("sql/training.sql"), args),
            Command::Caches(args) => (include_str!("sql/caches.sql"), args),
        };
        print_sql.then(|| (common.clone(), document(file, common)))
    }
}

/// The queries, from a file in which each stands under a comment that says what it is about.
fn document(file: &str, common: &Common) -> Document {
    let part = |query: &str| {
        let (about, sql) = query.split_once('\n').unwrap_or(("", query));
        let sql = prepare(sql.trim_end(), common);
        let mut lines = vec![about.to_owned()];
        lines.extend(sql.lines().map(str::to_owned));
        let key = about.trim_matches(['/', '*', ' ']).to_owned();
        Part::Text { key, title: String::new(), lines, value: json!({ "sql": sql }) }
    };
    Document {
        schema: "ringscope.print_sql/1",
        trace: Value::Null,
        loss: Value::Null,
        exact: true,
        parts: file.split("\n\n").map(part).collect(),
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
