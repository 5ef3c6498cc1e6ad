//! What becomes of an event whose site needed a closer look: it is recorded, or a rule
//! skips it and that is counted.

#![allow(unsafe_code)] // the calling thread's lane is a raw pointer

use ringscope_format::SkipCause;

use crate::hot::ring_pool::{self, UNATTACHED};

/// What a site that needs a closer look should do.
pub(crate) enum Verdict {
    Record {
        name: u32,
    },
    /// Record, if it turns out to be long enough.
    RecordIfLong {
        name: u32,
    },
    Sampled,
    SwitchedOff,
    Nothing,
}

/// What is to be recorded.
pub(crate) struct Admitted {
    pub(crate) name: u32,
    /// Only if it turns out to be long enough; what has no duration is.
    pub(crate) if_long: bool,
}

/// Why something is not.
pub(crate) enum Refused {
    /// By a rule; it has been counted.
    Skipped,
    /// There is no recording.
    Unrecorded,
}

impl Verdict {
    /// Counts what is skipped.
    #[inline(always)]
    pub(crate) fn counted(self) -> Result<Admitted, Refused> {
        match self {
            Verdict::Record { name } => Ok(Admitted { name, if_long: false }),
            Verdict::RecordIfLong { name } => Ok(Admitted { name, if_long: true }),
            Verdict::Sampled => Err(skip(SkipCause::Sampled)),
            Verdict::SwitchedOff => Err(skip(SkipCause::SwitchedOff)),
            Verdict::Nothing => Err(Refused::Unrecorded),
        }
    }
}

/// Counts something that is skipped.
#[cold]
pub(crate) fn skip(cause: SkipCause) -> Refused {
    // A thread that has recorded nothing yet needs no ring to skip something.
    // SAFETY: null, or a lane, and lanes live for ever.
    match unsafe { ring_pool::current().as_ref() } {
        Some(lane) => lane.skip(cause),
        None => UNATTACHED.skip(cause),
    }
    Refused::Skipped
}
