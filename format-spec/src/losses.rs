//! Losses: what did not make it into the file, where, when and why (SPEC 8.3.3).

use bytemuck::{Pod, Zeroable};

/// Events of one track that did not make it into the file for one cause.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Loss {
    /// The track; 0: a thread that never had one.
    pub track: u32,
    /// [`Loss::LOST`] or [`Loss::SKIPPED`].
    pub class: u8,
    /// A [`LostCause`] or a [`SkipCause`], by class.
    pub cause: u8,
    /// Written as zero.
    pub unused: u16,
    /// How many events.
    pub events: u64,
    /// Slots of these events.
    pub slots: u64,
    /// Not before this tick.
    pub not_before: u64,
    /// Not after this tick.
    pub not_after: u64,
    /// Events lost or skipped so far on this track for this cause, these included.
    pub total: u64,
}

impl Loss {
    /// Class of events that were lost.
    pub const LOST: u8 = 1;
    /// Class of events that were skipped on request.
    pub const SKIPPED: u8 = 2;

    /// Why they were lost, if they were and this version knows the cause.
    pub fn lost_cause(&self) -> Option<LostCause> {
        if self.class == Loss::LOST { LostCause::from_byte(self.cause) } else { None }
    }

    /// Why they were skipped, if they were and this version knows the cause.
    pub fn skip_cause(&self) -> Option<SkipCause> {
        if self.class == Loss::SKIPPED { SkipCause::from_byte(self.cause) } else { None }
    }
}

/// Why events were lost.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostCause {
    /// The ring was full: the writer was too slow for the burst.
    RingFull = 1,
    /// The ring budget was used up.
    NoRing = 2,
    /// The ring was full because the file could not be written.
    File = 3,
    /// Recorded by a thread that had already given its ring back.
    ThreadExit = 4,
    /// More slots than a ring or the format takes.
    TooWide = 5,
    /// Stored in a part of a file that was damaged when the file was rewritten.
    Damaged = 6,
    /// In a file of another format, and not to be taken over from it.
    NotConverted = 7,
}

impl LostCause {
    /// The cause with this number.
    pub fn from_byte(byte: u8) -> Option<LostCause> {
        Some(match byte {
            1 => LostCause::RingFull,
            2 => LostCause::NoRing,
            3 => LostCause::File,
            4 => LostCause::ThreadExit,
            5 => LostCause::TooWide,
            6 => LostCause::Damaged,
            7 => LostCause::NotConverted,
            _ => return None,
        })
    }

    /// The cause in words that fit after a count of events.
    pub fn describe(self) -> &'static str {
        match self {
            LostCause::RingFull => "ring full",
            LostCause::NoRing => "no ring left in the budget",
            LostCause::File => "file could not be written",
            LostCause::ThreadExit => "recorded while the thread was exiting",
            LostCause::TooWide => "more fields than an event can have",
            LostCause::Damaged => "in a damaged part of the file",
            LostCause::NotConverted => "could not be converted",
        }
    }
}

/// Why events were skipped.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SkipCause {
    /// One in N was asked for.
    Sampled = 1,
    /// Shorter than the minimum duration.
    TooShort = 2,
    /// Switched off by name.
    SwitchedOff = 3,
}

impl SkipCause {
    /// The cause with this number.
    pub fn from_byte(byte: u8) -> Option<SkipCause> {
        Some(match byte {
            1 => SkipCause::Sampled,
            2 => SkipCause::TooShort,
            3 => SkipCause::SwitchedOff,
            _ => return None,
        })
    }

    /// The cause in words that fit after a count of events.
    pub fn describe(self) -> &'static str {
        match self {
            SkipCause::Sampled => "sampled",
            SkipCause::TooShort => "shorter than the minimum duration",
            SkipCause::SwitchedOff => "switched off by name",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_lies_in_memory_as_the_format_says() {
        let loss = Loss {
            track: 0x0102_0304,
            class: Loss::LOST,
            cause: LostCause::File as u8,
            unused: 0,
            events: 0x11,
            slots: 0x22,
            not_before: 0x33,
            not_after: 0x44,
            total: 0x55,
        };
        let bytes = bytemuck::bytes_of(&loss);
        assert_eq!(bytes.len(), 48);
        assert_eq!(bytes[..8], [4, 3, 2, 1, 1, 3, 0, 0]);
        for (at, n) in [(8, 0x11), (16, 0x22), (24, 0x33), (32, 0x44), (40, 0x55)] {
            assert_eq!(bytes[at..at + 8], [n, 0, 0, 0, 0, 0, 0, 0]);
        }
    }

    #[test]
    fn cause_is_told_only_for_its_own_class() {
        let lost = Loss { class: Loss::LOST, cause: 2, ..Loss::default() };
        assert_eq!((lost.lost_cause(), lost.skip_cause()), (Some(LostCause::NoRing), None));
        let skipped = Loss { class: Loss::SKIPPED, cause: 2, ..Loss::default() };
        assert_eq!((skipped.lost_cause(), skipped.skip_cause()), (None, Some(SkipCause::TooShort)));
        assert_eq!(Loss { class: Loss::LOST, cause: 77, ..lost }.lost_cause(), None);
    }
}
