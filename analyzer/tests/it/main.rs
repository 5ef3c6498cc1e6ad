//! What `analyze` promises, driven through the real binary.

mod analyze;
mod bad_input;
mod device_traces;
mod device_work;
mod figures;
mod formats;
mod kernels;
mod made;
mod making;
mod overview;
mod sql;
mod vocabulary;
