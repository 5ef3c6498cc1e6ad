//! Taking the content of a raw slot apart: what a data chunk is made of (SPEC 8.3).

use crate::chunk::section;
use crate::clock_fit::ClockPair;
use crate::columns::{self, Column, Profile, RECORD_COLUMNS, SLOT_COLUMNS, misplaced_unit};
use crate::error::Error;
use crate::in_flight::OpenSpan;
use crate::limits::{MAX_ITEMS, within};
use crate::losses::Loss;
use crate::raw_content::RawContent;
use crate::record::Record;
use crate::{long_texts, tracks};

/// Content taken apart, as far as that is not the content itself. Taking other
/// content apart uses its memory again.
#[derive(Default)]
pub(crate) struct Apart {
    /// Whether all units are records, and none has slots. Then they are not copied.
    plain: bool,
    records: Vec<Record>,
    record_profile: Profile,
    slots: Vec<Record>,
    slot_profile: Profile,
    residuals: Vec<u64>,
    ticks: (u64, u64),
    open_spans: Vec<u8>,
    tracks: u32,
    clocks: u32,
    losses: u32,
    open: u32,
    long_texts: u32,
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
    pub(crate) residuals: &'a [u64],
    /// Earliest start and latest end.
    pub(crate) ticks: (u64, u64),
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
    pub(crate) fn take(
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
        let mut records: &[Record] = &content.events;
        self.record_profile = Profile::of(records);
        self.plain = self.record_profile.plain;
        self.slots.clear();
        if !self.plain {
            self.split(&content.events)?;
            records = &self.records;
            self.record_profile = Profile::of(records);
        }
        self.slot_profile = Profile::of(&self.slots);
        within("events in a chunk", records.len(), MAX_ITEMS)?;
        within("slots in a chunk", self.slots.len(), MAX_ITEMS)?;
        let ticks = columns::predict_starts(records, &mut self.residuals);
        self.ticks = if records.is_empty() { (0, 0) } else { ticks };
        Ok(())
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
            ticks: self.ticks,
        }
    }

    /// Parts records and slots.
    fn split(&mut self, units: &[Record]) -> Result<(), Error> {
        if let Some(unit) = misplaced_unit(units) {
            return Err(Error::Misplaced { unit });
        }
        self.records.clear();
        for unit in units {
            let part = if unit.kind.is_slot() { &mut self.slots } else { &mut self.records };
            part.push(*unit);
        }
        Ok(())
    }
}

fn rows(what: &'static str, table: &[u8], row: usize) -> Result<u32, Error> {
    if !table.len().is_multiple_of(row) {
        return Err(Error::BrokenTable { what });
    }
    Ok((table.len() / row) as u32)
}
