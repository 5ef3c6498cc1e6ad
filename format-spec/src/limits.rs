//! The limits of SPEC section 2. Readers refuse what is past them before they
//! allocate for it; writers return an error instead of writing it.

use crate::error::Error;

/// Sections in one chunk.
pub const MAX_SECTIONS: usize = 64;
/// Items in one section, and so events or slots in one chunk.
pub const MAX_ITEMS: usize = 1 << 20;
/// Unpacked bytes of one section.
pub const MAX_SECTION_BYTES: usize = 32 << 20;
/// Bytes of one chunk, and of one raw slot.
pub const MAX_CHUNK_BYTES: u64 = 64 << 20;
/// Raw slots in a file.
pub const MAX_RAW_SLOTS: u32 = 1024;
/// Bytes of the raw area.
pub const MAX_RAW_BYTES: u64 = 1 << 30;
/// Entries in the in-flight area.
pub const MAX_IN_FLIGHT_ENTRIES: u32 = 65_536;
/// Bytes of one in-flight entry.
pub const MAX_IN_FLIGHT_STRIDE: u32 = 65_536;
/// Slots that follow one record.
pub const MAX_SLOTS: usize = 31;
/// Bytes of a long text.
pub const MAX_LONG_TEXT_BYTES: usize = 65_536;
/// Bytes of a name.
pub const MAX_NAME_BYTES: usize = 1024;
/// Places in the source where one name is used.
pub const MAX_CALL_SITES: usize = 4096;
/// Bytes of all tables of one kind in a file, copies counted once, and
/// [`ENTRY_COST`] added for every name, track and metadata key.
pub const MAX_TABLE_BYTES: u64 = 256 << 20;
/// What an entry takes in memory beside its own bytes, roughly.
pub const ENTRY_COST: u64 = 128;

/// Whether a writer may write so many.
pub(crate) fn within(what: &'static str, count: usize, limit: usize) -> Result<(), Error> {
    if count > limit {
        return Err(Error::TooMuch { what, count: count as u64, limit: limit as u64 });
    }
    Ok(())
}
