//! The reports that are queries, and `sql` itself. They need Polars, which is
//! what the feature `sql` stands for: without it everything else is still there.

pub mod caches;
pub mod calls;
pub mod counters;
pub mod errors;
pub mod events;
pub mod memory;
pub mod pool;
pub mod sql;
pub mod training;
pub mod vocabulary;

use self::vocabulary::Points;
use super::{Context, about, spans::percentile_key};
use crate::{
    Result,
    cli::Common,
    output::{Document, Part},
};

/// The commands of this room.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// What was allocated and not released, what devices and pools used, host memory
    Memory(vocabulary::Args),
    /// Counters and gauges by name
    Counters(vocabulary::Args),
    /// What went wrong: first, last, how often, and what the last one said
    Errors(vocabulary::Args),
    /// Calls by function: waiting, encoding, running, decoding
    Calls(vocabulary::Args),
    /// Worker pools: waits, busy time, depth of the queue
    Pool(vocabulary::Args),
    /// Steps, loss, learning rate, tokens a second
    Training(vocabulary::Args),
    /// Hits and misses by cache
    Caches(vocabulary::Args),
    /// A query over the tables of the trace (Polars SQL)
    Sql(sql::Args),
}

impl Command {
    pub(crate) fn run(self) -> Result<(Common, Document)> {
        match self {
            Command::Memory(args) => memory::run(args),
            Command::Counters(args) => counters::run(args),
            Command::Errors(args) => errors::run(args),
            Command::Calls(args) => calls::run(args),
            Command::Pool(args) => pool::run(args),
            Command::Training(args) => training::run(args),
            Command::Caches(args) => caches::run(args),
            Command::Sql(args) => sql::run(args),
        }
    }
}

/// Memory, counters, events and errors for the overview.
///
/// More readings than memory can hold are no reason to say nothing about the rest.
pub(super) fn sections(context: &Context) -> Result<[Vec<Part>; 4]> {
    let points = match Points::load(context) {
        Ok(points) => points,
        Err(error) => {
            eprintln!("analyze: memory, counters, events and errors are left out: {error}");
            return Ok(Default::default());
        }
    };
    Ok([
        memory::section(context, &points)?,
        counters::section(context, &points)?,
        events::section(context, &points)?,
        errors::section(context, &points)?,
    ])
}
