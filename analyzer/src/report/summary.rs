//! `summary`: everything with a duration, by name, for machines; and, written to a file,
//! a baseline for `diff`: the last runs, each for itself.

use super::{Context, spans};
use crate::{
    Error, Result,
    cli::Common,
    device::is_device_work,
    diff::{Asked, Stored, USUAL_FOLDS, USUAL_PERCENTILES, summarise},
    output::{Cell, Column, Document, Format, Part},
    summary::cells::MOST_BOUNDS,
};

/// Options of `summary`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    by: spans::By,
    /// Add the runs to those that the file of --output has already
    #[arg(long, requires = "output")]
    append: bool,
    /// How many runs the file keeps, the latest ones
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let mut common = args.common;
    common.format.get_or_insert(Format::Json);
    let context = Context::open(common)?;
    let by_trace = args.by.by == Some(spans::Apart::Trace);
    let labels = spans::Labels::by_name(&context, by_trace);
    let limit = context.common.limit(usize::MAX);
    let of = |kinds| labels.question(&context, kinds, None).answer();
    let mut table = spans::group_table("rows", "", &context, &labels, &of(spans::is_span)?);
    table.columns.push(Column::new("what", "what"));
    table.rows.iter_mut().for_each(|row| row.push(Cell::from("span")));
    let device = spans::group_table("rows", "", &context, &labels, &of(is_device_work)?);
    table.rows.extend(device.rows.into_iter().map(|mut row| {
        row.push(Cell::from("device"));
        row
    }));
    let table = context.arrange(table, limit)?;
    let mut parts = vec![Part::Table(table)];
    if context.common.output.is_some() && context.common.format() == Format::Json {
        parts.push(runs(&context, args.append, args.keep)?);
    } else if args.append {
        return Err(Error::new("--append: only JSON keeps runs; leave --format out"));
    }
    let document = context.document("ringscope.summary/1", parts);
    Ok((context.common, document))
}

/// The runs, for `diff`: behind those that the file has, if asked.
fn runs(context: &Context, append: bool, keep: u32) -> Result<Part> {
    let common = &context.common;
    // Rows have what was asked for, and runs what `diff` wants as well.
    let mut percentiles = common.percentiles.clone();
    percentiles.extend(USUAL_PERCENTILES.iter().filter(|it| !common.percentiles.contains(it)));
    percentiles.truncate(MOST_BOUNDS.max(common.percentiles.len()));
    let asked = Asked { filter: context.filter.clone(), percentiles, folds: USUAL_FOLDS.to_vec() };
    let mut stored = match &common.output {
        Some(path) if append && path.exists() => Stored::read(path)?,
        _ => Stored::new(Vec::new()),
    };
    // Standard input has been read by now, and cannot be read again.
    let files = common.traces.iter().filter(|path| path.as_os_str() != "-");
    let runs = files.map(|path| summarise(path, &asked)).collect::<Result<_>>()?;
    stored.append(runs, keep as usize);
    let value = serde_json::to_value(&stored).map_err(|error| Error::new(error.to_string()))?;
    Ok(Part::Text { key: "runs".to_owned(), title: String::new(), lines: Vec::new(), value })
}
