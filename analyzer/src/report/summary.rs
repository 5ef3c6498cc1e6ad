//! `summary`: everything with a duration, by name, for machines.

use super::{Context, spans};
use crate::{
    Result,
    cli::Common,
    device::is_device_work,
    output::{Cell, Column, Document, Format},
};

/// Options of `summary`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    by: spans::By,
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
    let document = context.document("ringscope.summary/1", vec![crate::output::Part::Table(table)]);
    Ok((context.common, document))
}
