//! The reports over a vocabulary: events are known by their names and fields
//! (`format-spec/VOCABULARY.md`), found in the data and not required.
//!
//! Each report is a fold over the events that it is about, and one reading of the trace
//! serves all of those that are sections of `report`. What grows with the number of events
//! is said in the file of each report, and taken from what `--max-memory` allows.
//!
//! - `view` is what they are made from and have in common: columns, times, what is held.
//! - `print_sql` prints queries that give the same figures, for `analyze sql` to start from.

mod caches;
mod calls;
mod counters;
mod errors;
mod events;
mod grouping;
mod memory;
mod pool;
#[cfg(feature = "sql")]
mod print_sql;
mod training;
mod view;

use ringscope_format::Kind;

use self::view::View;
use super::{Context, about, spans::percentile_key};
use crate::{
    Error, Result,
    cli::Common,
    events::{Event, Scope, each},
    output::{Document, Part, Selection, Table},
};

/// Options of these reports.
#[derive(clap::Args, Clone, Debug)]
#[cfg_attr(feature = "sql", command(mut_arg("traces", |arg| {
    arg.required(false).required_unless_present("print_sql")
})))]
pub struct Args {
    /// Print queries that give these figures, for `analyze sql`, instead of the figures
    #[cfg(feature = "sql")]
    #[arg(long)]
    print_sql: bool,
    #[command(flatten)]
    common: Common,
}

/// The commands of this room.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// What was allocated and not released, what devices and pools used, host memory
    Memory(Args),
    /// Counters and gauges by name
    Counters(Args),
    /// What went wrong: first, last, how often, and what the last one said
    Errors(Args),
    /// Calls by function: waiting, encoding, running, decoding
    Calls(Args),
    /// Worker pools: waits, busy time, depth of the queue
    Pool(Args),
    /// Steps, loss, learning rate, tokens a second
    Training(Args),
    /// Hits and misses by cache
    Caches(Args),
}

impl Command {
    pub(crate) fn run(self) -> Result<(Common, Document)> {
        #[cfg(feature = "sql")]
        if let Some(queries) = self.queries() {
            return Ok(queries);
        }
        let (report, args) = match self {
            Command::Memory(args) => (&memory::REPORT, args),
            Command::Counters(args) => (&counters::REPORT, args),
            Command::Errors(args) => (&errors::REPORT, args),
            Command::Calls(args) => (&calls::REPORT, args),
            Command::Pool(args) => (&pool::REPORT, args),
            Command::Training(args) => (&training::REPORT, args),
            Command::Caches(args) => (&caches::REPORT, args),
        };
        report.run(args.common)
    }
}

/// A report over a vocabulary, or the short form of one that is a section of `report`.
pub(super) struct Report {
    /// What it is about, in the plural.
    what: &'static str,
    /// Of its JSON form.
    schema: &'static str,
    /// The events that it is about.
    scope: Scope,
    fold: for<'a> fn(&'a View<'a>) -> Box<dyn Fold + 'a>,
    /// Said if there are none.
    nothing: &'static str,
}

/// The sections of `report`.
pub(super) const CALLS: &Report = &calls::REPORT;
pub(super) const POOL: &Report = &pool::REPORT;
pub(super) const TRAINING: &Report = &training::SECTION;
pub(super) const CACHES: &Report = &caches::REPORT;
pub(super) const MEMORY: &Report = &memory::SECTION;
pub(super) const COUNTERS: &Report = &counters::SECTION;
pub(super) const EVENTS: &Report = &events::SECTION;
pub(super) const ERRORS: &Report = &errors::REPORT;

/// Whether one of these sections shows what a field of this key holds, of events of this name.
pub(super) fn is_read(name: &str, kind: Kind, key: &str) -> bool {
    let is_of = |report: &Report| report.scope.names.contains(&name);
    is_of(CALLS) && calls::is_read(kind, key)
        || is_of(POOL) && pool::is_read(key)
        || is_of(TRAINING) && training::is_read(key)
        || is_of(CACHES) && caches::is_read(key)
        || memory::is_read(name)
}

/// What a report knows of the events that have been shown so far.
trait Fold {
    /// Takes the next event in; an error if there is no room for what is to be known of it.
    fn event(&mut self, event: &Event<'_>) -> Result<()>;

    /// The tables; none if there was nothing of the kind.
    fn parts(self: Box<Self>) -> Vec<Part>;
}

/// Rows that people get unasked.
const USUAL_ROWS: usize = 30;
/// Rows in a section of the overview.
pub(super) const SECTION_ROWS: usize = 8;

impl Report {
    fn run(&self, common: Common) -> Result<(Common, Document)> {
        let context = Context::open(common)?;
        let view = View::new(&context);
        let mut fold = (self.fold)(&view);
        each(&context.traces, &context.sieves, &[self.scope], |event, _| fold.event(event))?;
        let mut parts = fold.parts();
        if parts.is_empty() {
            parts.push(self.nothing());
        } else {
            parts = arrange(&context, parts, context.common.limit(USUAL_ROWS), true)?;
        }
        let document = context.document(self.schema, parts);
        Ok((context.common, document))
    }

    /// That there is nothing of the kind, and what would record it.
    pub(super) fn nothing(&self) -> Part {
        Part::Table(Table { note: self.nothing.to_owned(), ..Table::new("rows", "", Vec::new()) })
    }
}

/// The tables of several reports, from one reading of the traces. One that takes more memory
/// than it may is left out and said so: that is no reason to say nothing about the rest.
pub(super) fn sections(
    context: &Context,
    reports: &[&Report],
    limit: Option<usize>,
) -> Result<Vec<Vec<Part>>> {
    let view = View::new(context);
    let scopes: Vec<Scope> = reports.iter().map(|report| report.scope).collect();
    let mut folds: Vec<Result<Box<dyn Fold + '_>>> =
        reports.iter().map(|report| Ok((report.fold)(&view))).collect();
    each(&context.traces, &context.sieves, &scopes, |event, scopes| {
        for (_, fold) in folds.iter_mut().enumerate().filter(|(at, _)| scopes.has(*at)) {
            let full: Option<Error> = fold.as_mut().ok().and_then(|it| it.event(event).err());
            if let Some(error) = full {
                *fold = Err(error);
            }
        }
        Ok(())
    })?;
    let tables = |(fold, report): (Result<Box<dyn Fold + '_>>, &&Report)| match fold {
        Ok(fold) => arrange(context, fold.parts(), limit, false),
        Err(error) => {
            eprintln!("analyze: {} are left out: {error}", report.what);
            Ok(Vec::new())
        }
    };
    folds.into_iter().zip(reports).map(tables).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_a_report_looks_for_is_in_the_document() {
        let document = include_str!("../../../../format-spec/VOCABULARY.md");
        let reports =
            [CALLS, POOL, TRAINING, CACHES, MEMORY, ERRORS, &training::REPORT, &memory::REPORT];
        for name in reports.iter().flat_map(|report| report.scope.names) {
            assert!(document.contains(&format!("`{name}`")), "{name}");
        }
    }
}
