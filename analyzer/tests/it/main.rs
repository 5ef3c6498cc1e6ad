//! What `analyze` promises, driven through the real binary.

mod accounts;
mod accounts_of_parts;
mod analyze;
mod bad_input;
mod damage;
mod device_timing;
mod device_traces;
mod device_work;
mod diff;
mod diff_attribution;
mod diff_bad_input;
mod diff_circumstances;
mod diff_of_runs;
mod diff_outputs;
mod diff_sensitivity;
mod diff_traces;
mod edit_cut;
mod edit_merge;
mod edit_merge_files;
mod edit_recover;
mod edit_scrub;
mod export;
#[cfg(feature = "parquet")]
mod export_columnar;
mod export_made;
mod export_spans;
mod export_sums;
mod export_timelines;
mod fields;
mod figures;
mod foreign_made;
mod formats;
mod gpu_trace;
mod hist;
mod import_bad_input;
mod import_chrome;
#[cfg(feature = "parquet")]
mod import_columnar;
mod import_foreign;
mod import_kineto;
mod import_losses;
#[cfg(feature = "nsight")]
mod import_nsight;
mod import_property;
mod import_rocprof;
mod import_tables;
mod import_testdata;
mod inference_trace;
mod kernel;
mod kernels;
mod long_texts;
mod made;
mod making;
mod nested_traces;
mod overview;
#[cfg(feature = "sql")]
mod printed_queries;
#[cfg(target_os = "linux")]
mod progress;
mod protobuf;
mod recorded;
mod report_part;
mod repro;
mod requests;
mod requests_property;
mod round_trip;
mod sections;
mod self_time;
mod slow;
#[cfg(feature = "sql")]
mod sql;
mod tasks;
mod threads;
mod tree;
mod vocabulary;
mod vocabulary_figures;
