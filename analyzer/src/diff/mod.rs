//! `diff`: whether one side's runs are slower than the other's.

mod common_shift;
mod decision;
mod estimate;
mod matching;
mod moderation;
mod multiple;
mod numerics;
mod run_summary;
mod sensitivity;

pub use self::{
    decision::{CommonShift, Decision, Design, Judged, Rule, Test, Verdict, decide},
    estimate::Estimate,
    matching::Matched,
    run_summary::{CounterSummary, Metric, NameSummary, RunSummary, What},
};
mod folding;
mod reading;
mod stored;
pub use self::{
    folding::{Fold, USUAL as USUAL_FOLDS, folded},
    reading::{Asked, summarise},
    stored::Stored,
};
