//! What `analyze` promises, driven through the real binary.

mod analyze;
mod bad_input;
mod damage;
mod device_traces;
mod device_work;
mod figures;
mod formats;
mod hist;
mod inference_trace;
mod kernel;
mod kernels;
#[cfg(feature = "sql")]
mod made;
mod making;
mod nested_traces;
mod overview;
mod self_time;
mod slow;
#[cfg(feature = "sql")]
mod sql;
mod threads;
mod tree;
#[cfg(feature = "sql")]
mod vocabulary;
#[cfg(feature = "sql")]
mod vocabulary_figures;
