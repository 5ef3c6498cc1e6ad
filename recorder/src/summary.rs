//! How a recording went.

use std::{fmt, path::PathBuf};

use ringscope_format::{LostCause, SkipCause, Vitals};

/// Something that went wrong while recording without stopping it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The file could not be written for a while, or to the end.
    CannotWrite(String),
    /// The file was removed or replaced while it was being written.
    FileRemoved,
    /// The file was truncated by another process; what came after is lost.
    FileTruncated,
    /// A dump could not be written, or was one more than there may be.
    DumpFailed(String),
    /// The next file of a rotation could not be created; the old one went on.
    CannotRotate(String),
    /// A line of the control file was not understood, or cannot be carried out.
    ControlFile(String),
    /// An exporter was dropped, or was too slow for some events.
    Exporter(String),
    /// So many units of a raw slot were changed by another process before they were sealed:
    /// their events count as stored and are not in the file.
    SlotDamaged(u32),
    /// Rules were changed more often than the file of a flight recorder keeps: it has the first
    /// thousand changes and the last one, and each dump those of its time.
    RulesLeftOut,
    /// A finished file could not be made compact; it is complete all the same.
    NotCompacted(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::CannotWrite(why) => write!(f, "the trace could not be written: {why}"),
            Problem::FileRemoved => f.write_str("the trace was removed while it was being written"),
            Problem::FileTruncated => f.write_str("the trace was truncated by another process"),
            Problem::DumpFailed(why) => write!(f, "a dump could not be written: {why}"),
            Problem::CannotRotate(why) => write!(f, "the next file could not be created: {why}"),
            Problem::Exporter(why) => write!(f, "exporter {why}"),
            Problem::ControlFile(why) => write!(f, "control file: {why}"),
            Problem::SlotDamaged(units) => {
                write!(
                    f,
                    "{units} records or slots were damaged in the file before they were sealed"
                )
            }
            Problem::RulesLeftOut => f.write_str(
                "rules were changed more often than the file of a flight recorder keeps: of what was \
                 between the first 1,000 changes and the last one it has nothing",
            ),
            Problem::NotCompacted(why) => write!(f, "the trace could not be made compact: {why}"),
        }
    }
}

/// How a recording went. `produced = stored + lost + skipped`, to the event.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Where the trace is; the last of them if it was rotated.
    pub path: PathBuf,
    /// Events that were handed to the file.
    pub stored: u64,
    /// Events that were lost, for whatever cause.
    pub lost: u64,
    /// Events that were left out because a rule said so.
    pub skipped: u64,
    /// The recorder's own readings in the file, not counted above.
    pub own: u64,
    /// Events that a flight recorder has overwritten, the recorder's own readings among them.
    pub overwritten: u64,
    /// Texts of errors that are longer than an event holds, and are stored beside them.
    pub long_texts: u64,
    /// Texts of errors that stayed cut: too many came at once, or one error had too much of it.
    pub texts_cut: u64,
    /// Bytes of compressed chunks written, all files.
    pub bytes: u64,
    /// Dumps that were written.
    pub dumps: Vec<PathBuf>,
    /// What went wrong on the way, each kind once.
    pub problems: Vec<Problem>,
    pub(crate) vitals: Vitals,
}

impl Summary {
    /// Events that the program produced.
    pub fn produced(&self) -> u64 {
        self.stored + self.lost + self.skipped
    }

    /// Events lost for one cause.
    pub fn lost_to(&self, cause: LostCause) -> u64 {
        self.vitals.lost[cause as usize]
    }

    /// Events skipped for one cause.
    pub fn skipped_as(&self, cause: SkipCause) -> u64 {
        self.vitals.skipped[cause as usize]
    }

    #[cfg_attr(feature = "off", allow(dead_code))]
    pub(crate) fn set_counts(&mut self, vitals: &Vitals) {
        self.vitals = *vitals;
        self.stored = vitals.stored;
        self.own = vitals.own;
        self.overwritten = vitals.overwritten;
        self.bytes = vitals.bytes;
        self.long_texts = vitals.long_texts;
        self.texts_cut = vitals.texts_cut;
        self.lost = vitals.total_lost();
        self.skipped = vitals.total_skipped();
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} events stored, {} lost, {} skipped, {} bytes",
            self.path.display(),
            self.stored,
            self.lost,
            self.skipped,
            self.bytes
        )?;
        if self.texts_cut > 0 {
            write!(
                f,
                "\n  {} long texts of errors were cut: too many at once, or too much of one error",
                self.texts_cut
            )?;
        }
        for problem in &self.problems {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}
