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

/// Memory for taking content apart.
#[derive(Default)]
pub(crate) struct Scratch {
    records: Vec<Record>,
    slots: Vec<Record>,
    residuals: Vec<u64>,
    open_spans: Vec<u8>,
}

/// What a data chunk is made of.
pub(crate) struct Parts<'a> {
    /// Kind, bytes and number of entries. They come first in the chunk, so that a
    /// reader has them in one read with the directory.
    pub(crate) tables: [(u16, &'a [u8], u32); 4],
    /// The same of the table that few readers want. It comes last.
    pub(crate) long_texts: (u16, &'a [u8], u32),
    pub(crate) records: &'a [Record],
    pub(crate) record_profile: Profile,
    pub(crate) slots: &'a [Record],
    pub(crate) slot_profile: Profile,
    pub(crate) residuals: &'a [u64],
    /// Earliest start and latest end.
    pub(crate) ticks: (u64, u64),
}

impl<'a> Parts<'a> {
    /// Records and slots, each with their columns.
    pub(crate) fn units(&self) -> [(&'a [Record], &Profile, &'static [Column]); 2] {
        [
            (self.records, &self.record_profile, &RECORD_COLUMNS),
            (self.slots, &self.slot_profile, &SLOT_COLUMNS),
        ]
    }
}

impl Scratch {
    pub(crate) fn take_apart<'a>(
        &'a mut self,
        content: &'a RawContent,
        open: &[(OpenSpan, u32)],
    ) -> Result<Parts<'a>, Error> {
        let tracks = tracks::count(&content.tracks).ok_or(Error::BrokenTable { what: "tracks" })?;
        let clocks = rows("clock pairs", &content.clocks, size_of::<ClockPair>())?;
        let losses = rows("losses", &content.losses, size_of::<Loss>())?;
        let long_texts = long_texts::count(&content.long_texts)
            .ok_or(Error::BrokenTable { what: "long texts" })?;
        self.open_spans.clear();
        for (span, depth) in open {
            self.open_spans.extend_from_slice(bytemuck::bytes_of(span));
            self.open_spans.extend_from_slice(&depth.to_le_bytes());
            self.open_spans.extend_from_slice(&[0; 4]);
        }
        let mut records: &[Record] = &content.events;
        let mut record_profile = Profile::of(records);
        self.slots.clear();
        if !record_profile.plain {
            self.split(&content.events)?;
            records = &self.records;
            record_profile = Profile::of(records);
        }
        within("events in a chunk", records.len(), MAX_ITEMS)?;
        within("slots in a chunk", self.slots.len(), MAX_ITEMS)?;
        let ticks = columns::predict_starts(records, &mut self.residuals);
        Ok(Parts {
            tables: [
                (section::TRACKS, &content.tracks, tracks),
                (section::CLOCK_PAIRS, &content.clocks, clocks),
                (section::LOSSES, &content.losses, losses),
                (section::OPEN_SPANS, &self.open_spans, open.len() as u32),
            ],
            long_texts: (section::LONG_TEXTS, &content.long_texts, long_texts),
            records,
            record_profile,
            slots: &self.slots,
            slot_profile: Profile::of(&self.slots),
            residuals: &self.residuals,
            ticks: if records.is_empty() { (0, 0) } else { ticks },
        })
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
