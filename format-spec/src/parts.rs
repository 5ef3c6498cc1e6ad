//! Taking the content of a raw slot apart: what a data chunk is made of (SPEC 8.3).

use crate::chunk::section;
use crate::clock_fit::ClockPair;
use crate::columns::{Column, Profile, RECORD_COLUMNS, SLOT_COLUMNS};
use crate::error::Error;
use crate::in_flight::OpenSpan;
use crate::limits::{MAX_ITEMS, within};
use crate::losses::Loss;
use crate::raw_content::RawContent;
use crate::record::Record;
use crate::starts::Residuals;
use crate::{long_texts, tracks};

/// Units that are looked at in one step: 5 to 10 us.
const UNITS_A_STEP: usize = 4_096;

/// Content taken apart, as far as that is not the content itself. Taking other
/// content apart uses its memory again.
#[derive(Default)]
pub(crate) struct Apart {
    stage: Stage,
    /// Whether all units are records, and none has slots. Then they are not copied.
    plain: bool,
    records: Vec<Record>,
    record_profile: Profile,
    slots: Vec<Record>,
    slot_profile: Profile,
    residuals: Residuals,
    open_spans: Vec<u8>,
    tracks: u32,
    clocks: u32,
    losses: u32,
    open: u32,
    long_texts: u32,
}

/// What is done with the units, as far as this one.
#[derive(Clone, Copy, Default, PartialEq)]
enum Stage {
    /// They are looked at: are they all records without slots?
    Looking(usize),
    /// They are not: records and slots are parted, and the record before has slots to come.
    Parting { done: usize, to_come: usize },
    /// Starts of the records are predicted.
    Predicting(usize),
    #[default]
    Done,
}

/// What a data chunk is made of.
pub(crate) struct Parts<'a> {
    /// Kind, bytes and number of entries. They come first in the chunk, so that a
    /// reader has them in one read with the directory.
    pub(crate) tables: [(u16, &'a [u8], u32); 4],
    /// The same of the table that few readers want. It comes last.
    pub(crate) long_texts: (u16, &'a [u8], u32),
    pub(crate) records: &'a [Record],
    pub(crate) record_profile: &'a Profile,
    pub(crate) slots: &'a [Record],
    pub(crate) slot_profile: &'a Profile,
    pub(crate) residuals: &'a Residuals,
}

impl<'a> Parts<'a> {
    /// Records and slots, each with their columns.
    pub(crate) fn units(&self) -> [(&'a [Record], &'a Profile, &'static [Column]); 2] {
        [
            (self.records, self.record_profile, &RECORD_COLUMNS),
            (self.slots, self.slot_profile, &SLOT_COLUMNS),
        ]
    }
}

impl Apart {
    /// Begins with the tables. The units are for [`go_on`](Self::go_on).
    pub(crate) fn begin(
        &mut self,
        content: &RawContent,
        open: &[(OpenSpan, u32)],
    ) -> Result<(), Error> {
        self.tracks =
            tracks::count(&content.tracks).ok_or(Error::BrokenTable { what: "tracks" })?;
        self.clocks = rows("clock pairs", &content.clocks, size_of::<ClockPair>())?;
        self.losses = rows("losses", &content.losses, size_of::<Loss>())?;
        self.long_texts = long_texts::count(&content.long_texts)
            .ok_or(Error::BrokenTable { what: "long texts" })?;
        self.open = open.len() as u32;
        self.open_spans.clear();
        for (span, depth) in open {
            self.open_spans.extend_from_slice(bytemuck::bytes_of(span));
            self.open_spans.extend_from_slice(&depth.to_le_bytes());
            self.open_spans.extend_from_slice(&[0; 4]);
        }
        self.records.clear();
        self.slots.clear();
        self.plain = true;
        (self.record_profile, self.slot_profile) = (Profile::default(), Profile::default());
        self.stage = Stage::Looking(0);
        Ok(())
    }

    /// Takes some more of the units apart. Returns whether that were all.
    pub(crate) fn go_on(&mut self, content: &RawContent) -> Result<bool, Error> {
        let events = &content.events;
        self.stage = match self.stage {
            Stage::Looking(done) if done < events.len() => {
                let (some, end) = piece(events, done);
                self.record_profile.extend(some);
                self.plain = self.record_profile.plain;
                if self.plain {
                    Stage::Looking(end)
                } else {
                    self.record_profile = Profile::default();
                    Stage::Parting { done: 0, to_come: 0 }
                }
            }
            Stage::Looking(_) => self.begin_predicting(content)?,
            Stage::Parting { done, to_come } if done < events.len() => {
                let (some, end) = piece(events, done);
                let to_come = self.part(some, to_come, done)?;
                Stage::Parting { done: end, to_come }
            }
            Stage::Parting { done, to_come: 1.. } => return Err(Error::Misplaced { unit: done }),
            Stage::Parting { .. } => self.begin_predicting(content)?,
            Stage::Predicting(done) => {
                let records = if self.plain { events } else { &self.records };
                let (some, end) = piece(records, done);
                self.residuals.extend(some);
                if end < records.len() { Stage::Predicting(end) } else { Stage::Done }
            }
            Stage::Done => Stage::Done,
        };
        Ok(self.stage == Stage::Done)
    }

    /// How much of it is done, from 0 to 1.
    pub(crate) fn progress(&self, content: &RawContent) -> f32 {
        let part = |done: usize| done as f32 / content.events.len().max(1) as f32;
        match self.stage {
            Stage::Looking(done) => 0.1 + 0.2 * part(done),
            Stage::Parting { done, .. } => 0.4 + 0.2 * part(done),
            Stage::Predicting(done) => 0.7 + 0.3 * part(done),
            Stage::Done => 1.0,
        }
    }

    fn begin_predicting(&mut self, content: &RawContent) -> Result<Stage, Error> {
        let records = if self.plain { &content.events } else { &self.records };
        within("events in a chunk", records.len(), MAX_ITEMS)?;
        within("slots in a chunk", self.slots.len(), MAX_ITEMS)?;
        self.residuals.begin(records.len(), records.first().map_or(0, |record| record.start));
        Ok(Stage::Predicting(0))
    }

    /// Parts records and slots of these units, which begin with so many slots of the record
    /// before. Returns how many those that follow begin with.
    fn part(&mut self, units: &[Record], mut to_come: usize, at: usize) -> Result<usize, Error> {
        let (records, slots) = (self.records.len(), self.slots.len());
        for (unit, at) in units.iter().zip(at..) {
            if to_come > 0 && unit.kind.is_slot() {
                to_come -= 1;
                self.slots.push(*unit);
            } else if to_come == 0 && unit.kind.is_base() {
                to_come = unit.slots();
                self.records.push(*unit);
            } else {
                return Err(Error::Misplaced { unit: at });
            }
        }
        self.record_profile.extend(&self.records[records..]);
        self.slot_profile.extend(&self.slots[slots..]);
        Ok(to_come)
    }

    /// The parts of the content that was taken apart.
    pub(crate) fn parts<'a>(&'a self, content: &'a RawContent) -> Parts<'a> {
        Parts {
            tables: [
                (section::TRACKS, &content.tracks, self.tracks),
                (section::CLOCK_PAIRS, &content.clocks, self.clocks),
                (section::LOSSES, &content.losses, self.losses),
                (section::OPEN_SPANS, &self.open_spans, self.open),
            ],
            long_texts: (section::LONG_TEXTS, &content.long_texts, self.long_texts),
            records: if self.plain { &content.events } else { &self.records },
            record_profile: &self.record_profile,
            slots: &self.slots,
            slot_profile: &self.slot_profile,
            residuals: &self.residuals,
        }
    }
}

/// The next units after so many, and where they end.
fn piece(units: &[Record], done: usize) -> (&[Record], usize) {
    let end = units.len().min(done + UNITS_A_STEP);
    (&units[done..end], end)
}

fn rows(what: &'static str, table: &[u8], row: usize) -> Result<u32, Error> {
    if !table.len().is_multiple_of(row) {
        return Err(Error::BrokenTable { what });
    }
    Ok((table.len() / row) as u32)
}
