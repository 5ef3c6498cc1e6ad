//! `report`: everything worth knowing, on one screen.

use super::Context;
use crate::{Result, cli::Common, output::Document};

/// Options of `report`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let context = Context::open(args.common)?;
    let table = super::spans::spans(&context, false, context.common.limit(15))?.0;
    let document = context.document("ringscope.report/1", vec![crate::output::Part::Table(table)]);
    Ok((context.common, document))
}
