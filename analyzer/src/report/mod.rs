//! One file per subcommand. Each has its `Args` and a `run` that turns them into
//! a [`Document`]; printing is somebody else's business.

pub mod about;
mod branches;
pub mod check;
pub(crate) mod collapse;
mod fields;
mod hints;
pub mod hist;
mod in_flight;
pub mod info;
pub mod kernels;
mod modes;
pub mod overview;
mod own_cost;
mod part;
pub mod repro;
pub mod requests;
mod rotation;
pub mod slow;
pub mod spans;
#[cfg(feature = "sql")]
pub mod sql;
mod stragglers;
pub mod summary;
pub(crate) mod surroundings;
mod tasks;
pub mod threads;
mod timing;
pub mod tree;
pub mod vocabulary;

use crate::{
    Error, Result,
    cli::Common,
    filter::{Filter, Sieve},
    load::Traces,
    output::{Document, Part, Table},
};

/// What a report is made from: the traces, and what of them is asked about.
pub struct Context {
    /// The options.
    pub common: Common,
    /// The traces.
    pub traces: Traces,
    /// What is in.
    pub filter: Filter,
    /// The same in the terms of each trace.
    pub sieves: Vec<Sieve>,
}

impl Context {
    /// Opens the traces and says on standard error what is wrong with them.
    pub fn open(common: Common) -> Result<Self> {
        let traces = Traces::open_within(&common.traces, common.budget())?;
        Self::of(common, traces)
    }

    /// The same of those traces that can be opened; why the others cannot.
    pub(crate) fn open_usable(common: Common) -> Result<(Self, Vec<Error>)> {
        let (traces, errors) = Traces::open_usable(&common.traces, common.budget())?;
        Ok((Self::of(common, traces)?, errors))
    }

    fn of(mut common: Common, traces: Traces) -> Result<Self> {
        let asked = std::mem::take(&mut common.percentiles);
        for percentile in asked {
            if !common.percentiles.contains(&percentile) {
                common.percentiles.push(percentile);
            }
        }
        let filter = common.filter()?;
        let sieves = filter.sieves(&traces, common.budget())?;
        let context = Self { common, traces, filter, sieves };
        about::warn(&context);
        rotation::warn(&context.traces);
        Ok(context)
    }

    /// A document about these traces. Whatever there is to read of them has been
    /// read: what could not be is said here, whichever report it is.
    pub fn document(&self, schema: &'static str, parts: Vec<Part>) -> Document {
        about::warn_unreadable(&self.traces);
        Document {
            schema,
            trace: about::trace_json(&self.traces),
            loss: about::loss_json(&self.traces),
            exact: self.traces.is_whole() && !rotation::are_parts(&self.traces),
            parts,
        }
    }

    /// A document of one table, with rows and columns as asked for.
    pub fn table_document(
        &self,
        schema: &'static str,
        table: Table,
        usual: usize,
    ) -> Result<Document> {
        let table = self.arrange(table, self.common.limit(usual))?;
        Ok(self.document(schema, vec![Part::Table(table)]))
    }

    /// Sorts, cuts and chooses columns as asked for.
    pub fn arrange(&self, mut table: Table, limit: Option<usize>) -> Result<Table> {
        let selection = self.common.selection();
        selection.sort_rows(&mut table)?;
        table.cut(limit);
        selection.choose_columns(&mut table, self.common.for_machines())?;
        Ok(table)
    }
}
