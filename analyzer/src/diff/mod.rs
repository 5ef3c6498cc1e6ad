//! `diff`: whether one side's runs are slower than the other's, and whose fault it is.
//!
//! ```text
//! traces -> reading -> RunSummary <-> stored (JSON)
//! RunSummary of both sides -> matching -> decision -> attribution, gate -> view -> table, JSON, ...
//! ```
//!
//! - `reading` sums a trace up, `estimate` says how sure a run alone makes a figure
//!   (`ladder`), and `stored` keeps summaries in a file.
//! - `folding` and `matching` say which names are the same.
//! - `decision` judges, from summaries alone; `comparing`, `common_shift`, `noise`,
//!   `moderation`, `clearance`, `multiple` and `sensitivity` are its steps.
//! - `counters` judges counters, gauges and memory (`memory`) in the same way.
//! - `attribution` and `placing` explain, `circumstances` and `provenance` warn,
//!   `perf_budget` and `gate` decide how the process ends.
//! - The rest has one file per form of output.
//!
//! What it cannot do: with one run a side it has only the other names to tell noise
//! from change, so it needs ten of them and finds large changes alone. And nothing
//! here can tell a slower machine from slower code if the sides were not measured in
//! turns; it says so.

mod arguments;
mod attribution;
mod circumstances;
mod clearance;
pub(crate) mod command;
mod common_shift;
mod comparing;
mod counters;
mod decision;
mod estimate;
mod folding;
mod gate;
mod github;
mod json;
mod junit;
mod ladder;
mod markdown;
mod matching;
mod memory;
mod moderation;
mod multiple;
mod noise;
pub mod numerics;
mod perf_budget;
mod placing;
mod provenance;
mod reading;
mod run_summary;
mod sensitivity;
mod sides;
mod stored;
mod tables;
mod view;

pub use self::{
    arguments::Args,
    attribution::{Attribution, Part, Share, attribute, split},
    decision::{CommonShift, Decision, Design, Judged, Rule, Test, Verdict, decide},
    estimate::Estimate,
    folding::{Fold, USUAL as USUAL_FOLDS, folded},
    matching::Matched,
    reading::{Asked, summarise},
    run_summary::{CounterSummary, Metric, NameSummary, RunSummary, USUAL_PERCENTILES, What},
    stored::Stored,
};
