//! `record`: the price of recording a span, in the order of the report.
//!
//! Every measurement runs in a child process (see [`task`]); this side plans,
//! repeats and takes medians. Rounds of the hot path go through all subjects
//! before any is repeated, so a slow minute of the machine is shared.

mod figures;
mod footprint;
pub(crate) mod hot_path;
mod long_run;
mod own_rows;
mod peer_rows;
#[cfg(feature = "peers")]
mod peers;
mod plan;
mod plugin;
mod ringscope;
mod stalls;
pub(crate) mod subject;
mod subjects;
mod sustained;
mod table;
mod task;

pub(crate) use plan::run;
pub(crate) use table::table;
pub(crate) use task::{Task, answer};
