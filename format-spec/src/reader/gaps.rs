//! Which data chunks are missing, and how many events were in them (SPEC 11).

use super::damage::{Damage, Damaged, Why};
use super::walk::Hole;
use crate::file_header::{FileHeader, Mode};
use crate::vitals::{RecordingState, Vitals};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// What is known about the data chunks of a file.
pub(crate) struct Present<'a> {
    pub(crate) header: &'a FileHeader,
    /// Whether the version is one in which a dump counts as overwritten what it leaves out.
    pub(crate) tells_of_parts: bool,
    pub(crate) vitals: Option<&'a Vitals>,
    /// Sequence and place of every data chunk that is there, sealed, raw or
    /// damaged with an intact header; ascending.
    pub(crate) chunks: &'a [(u64, u64)],
    pub(crate) events_found: u64,
    pub(crate) file_end: u64,
}

impl Present<'_> {
    /// The runs of sequence numbers that are missing between those that are
    /// there, by their first: the last, and the place of the chunk after it.
    fn gaps(&self) -> BTreeMap<u64, (u64, u64)> {
        // Sequences begin with 1, and only these files have the first.
        let first = self.header.mode == Mode::Full && self.header.file_number == 0;
        let mut gaps = BTreeMap::new();
        let mut before = first.then_some(0);
        for (sequence, place) in self.chunks {
            if let Some(before) = before.filter(|before| before + 1 < *sequence) {
                gaps.insert(before + 1, (sequence - 1, *place));
            }
            before = Some(*sequence);
        }
        gaps
    }

    /// Fills in which chunks each hole swallowed, adds the gaps that no hole
    /// explains, and the number of events where the vitals tell.
    pub(crate) fn account(&self, damage: &mut Vec<Damage>, holes: &[Hole]) {
        let mut gaps = self.gaps();
        for hole in holes {
            let first = hole.after.map_or(0, |after| after.saturating_add(1));
            let inside = gaps
                .range(first..)
                .take_while(|(_, (last, _))| hole.before.is_none_or(|before| *last < before));
            let swallowed: Vec<RangeInclusive<u64>> =
                inside.map(|(first, (last, _))| *first..=*last).collect();
            for gap in &swallowed {
                gaps.remove(gap.start());
            }
            if let Some(Damage { what: Damaged::Chunks { sequences, .. }, .. }) =
                damage.get_mut(hole.damage)
            {
                *sequences = swallowed;
            }
        }
        // A dump holds what was asked for; only what a hole swallowed is missing.
        if self.header.mode == Mode::Dump {
            gaps.clear();
        }
        for (first, (last, place)) in gaps {
            let what = Damaged::Chunks { sequences: vec![first..=last], events: None };
            damage.push(Damage { bytes: place..place, what, why: Why::Gap });
        }
        self.count_events(damage);
    }

    fn count_events(&self, damage: &mut Vec<Damage>) {
        let Some(missing) = self.events_missing() else { return };
        let known: u64 = damage.iter().filter_map(Damage::events).sum();
        let missing = missing.saturating_sub(known);
        let mut unknown: Vec<&mut Option<u64>> = damage
            .iter_mut()
            .filter_map(|it| match &mut it.what {
                Damaged::Chunks { events, .. } => Some(events),
                _ => None,
            })
            .collect();
        match unknown.as_mut_slice() {
            [] if missing > 0 => damage.push(Damage {
                bytes: self.file_end..self.file_end,
                what: Damaged::Chunks { sequences: Vec::new(), events: Some(missing) },
                why: Why::CutOff,
            }),
            [] => {}
            [one] => **one = Some(missing),
            several if missing == 0 => several.iter_mut().for_each(|it| **it = Some(0)),
            _ => {}
        }
    }

    /// Events that should be in the file and are not. Vitals count the whole
    /// recording, so they tell only for one that is all in this file, or for a dump,
    /// where what is elsewhere counts as overwritten.
    pub(crate) fn events_missing(&self) -> Option<u64> {
        let vitals = self.vitals.filter(|vitals| vitals.state == RecordingState::Finished)?;
        let alone = match self.header.mode {
            Mode::Full | Mode::KeepLast => self.header.file_number == 0,
            Mode::Dump => self.tells_of_parts,
            Mode::Converted => false,
        };
        let stored = vitals.stored.checked_add(vitals.own)?;
        let expected = stored.checked_sub(vitals.overwritten)?;
        if alone { expected.checked_sub(self.events_found) } else { None }
    }
}
