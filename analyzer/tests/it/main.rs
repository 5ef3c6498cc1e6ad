//! What `analyze` promises, driven through the real binary.

mod analyze;
mod bad_input;
mod figures;
mod formats;
mod making;
mod overview;
