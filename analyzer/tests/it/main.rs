//! What `analyze` promises, driven through the real binary.

mod analyze;
mod bad_input;
mod damage;
mod device_traces;
mod device_work;
mod diff;
mod diff_attribution;
mod diff_bad_input;
mod diff_outputs;
mod diff_traces;
mod edit_cut;
mod edit_merge;
mod edit_recover;
mod edit_scrub;
mod export;
mod export_made;
mod export_spans;
mod export_sums;
mod export_timelines;
mod figures;
mod formats;
mod hist;
mod import_bad_input;
mod import_chrome;
mod import_kineto;
mod import_nsight;
mod import_property;
mod import_tables;
mod inference_trace;
mod kernel;
mod kernels;
#[cfg(feature = "sql")]
mod made;
mod making;
mod nested_traces;
mod overview;
mod protobuf;
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
