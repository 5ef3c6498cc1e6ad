//! Reading traces (SPEC 11).
//!
//! Opening reads the header, the areas that are rewritten in place, the headers
//! and directories of all chunks, and the tables; never a column. Every length is
//! checked against the format's limits and the length of the file before memory
//! is taken for it.

mod batch;
mod damage;
mod decode;
mod gaps;
mod inventory;
mod raw_area;
mod source;
mod tables;
mod trace;
mod walk;
mod window;

pub use batch::{Batch, Columns};
pub use damage::{Damage, Damaged, Why};
pub use source::Source;
pub use trace::{ChunkInfo, Place, Trace};
