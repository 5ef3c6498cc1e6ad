//! The decoded columns of one chunk.

use super::decode::Scratch;
use crate::error::Error;
use crate::long_texts::{LongTexts, NO_LONG_TEXT};
use crate::record::{Kind, Record, Status};
use crate::slots::{EventDetails, parse_slots};
use std::collections::HashSet;
use std::ops::{BitOr, Range};

/// A set of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Columns(u16);

impl Columns {
    /// No column.
    pub const NONE: Columns = Columns(0);
    /// [`Batch::start`].
    pub const START: Columns = Columns(1 << 0);
    /// [`Batch::value`].
    pub const VALUE: Columns = Columns(1 << 1);
    /// [`Batch::name`].
    pub const NAME: Columns = Columns(1 << 2);
    /// [`Batch::track`].
    pub const TRACK: Columns = Columns(1 << 3);
    /// [`Batch::link`].
    pub const LINK: Columns = Columns(1 << 4);
    /// [`Batch::kind`].
    pub const KIND: Columns = Columns(1 << 5);
    /// [`Batch::status`].
    pub const STATUS: Columns = Columns(1 << 6);
    /// [`Batch::depth`].
    pub const DEPTH: Columns = Columns(1 << 7);
    /// [`Batch::shape`].
    pub const SHAPE: Columns = Columns(1 << 8);
    /// [`Batch::slots`].
    pub const SLOTS: Columns = Columns(1 << 9);
    /// [`Batch::long_texts`]. Not one of [`ALL`](Self::ALL): few events have any, and few
    /// readers show them.
    pub const LONG_TEXTS: Columns = Columns(1 << 10);
    /// All of them but the long texts.
    pub const ALL: Columns = Columns((1 << 10) - 1);

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Columns) -> bool {
        self.0 & other.0 == other.0
    }

    /// These, and those that decoding them takes: starts are predicted from
    /// values, kinds and depths.
    pub(crate) const fn with_dependencies(self) -> Columns {
        if self.contains(Columns::START) {
            Columns(self.0 | Columns::VALUE.0 | Columns::KIND.0 | Columns::DEPTH.0)
        } else {
            self
        }
    }
}

impl BitOr for Columns {
    type Output = Columns;

    fn bitor(self, other: Columns) -> Columns {
        Columns(self.0 | other.0)
    }
}

/// The columns of one chunk, one item an event. Those that were not asked for
/// are empty. Decoding into the same batch again reuses its memory.
#[derive(Debug, Default)]
pub struct Batch {
    /// How many events there are.
    pub events: usize,
    /// When each started, in ticks.
    pub start: Vec<u64>,
    /// Durations of timed kinds, numbers of point kinds.
    pub value: Vec<u64>,
    /// Ids of names.
    pub name: Vec<u32>,
    /// Ids of tracks.
    pub track: Vec<u32>,
    /// Correlations.
    pub link: Vec<u32>,
    /// [`Kind`]s.
    pub kind: Vec<u8>,
    /// [`Status`]es.
    pub status: Vec<u8>,
    /// How many spans enclosed each.
    pub depth: Vec<u8>,
    /// Numbers of slots and types of values.
    pub shape: Vec<u8>,
    /// The slots of all events, one event after the other. With [`Columns::LONG_TEXTS`], slots
    /// that refer to a text to which one before them refers have the number 0.
    pub slots: Vec<Record>,
    /// The long texts of the events.
    pub long_texts: LongTexts,
    /// Why long texts could not be read, or not all of them. The events are here all the
    /// same; the beginnings of such texts are in their slots.
    pub long_texts_error: Option<Error>,
    pub(crate) scratch: Scratch,
}

impl Batch {
    pub(crate) fn clear(&mut self) {
        self.events = 0;
        self.start.clear();
        self.value.clear();
        self.name.clear();
        self.track.clear();
        self.link.clear();
        self.slots.clear();
        self.long_texts.clear();
        self.long_texts_error = None;
        for column in [&mut self.kind, &mut self.status, &mut self.depth, &mut self.shape] {
            column.clear();
        }
    }

    /// Empties the columns that are not among `columns`.
    pub(crate) fn keep(&mut self, columns: Columns) {
        if !columns.contains(Columns::VALUE) {
            self.value.clear();
        }
        if !columns.contains(Columns::KIND) {
            self.kind.clear();
        }
        if !columns.contains(Columns::DEPTH) {
            self.depth.clear();
        }
    }

    /// Takes columns out of units, as a raw slot holds them.
    pub(crate) fn fill_from_units(&mut self, units: &[Record], columns: Columns) {
        let records = || units.iter().filter(|unit| !unit.kind.is_slot());
        self.events = records().count();
        let wants = |column| columns.contains(column);
        if wants(Columns::START) {
            self.start.extend(records().map(|record| record.start));
        }
        if wants(Columns::VALUE) {
            self.value.extend(records().map(|record| record.value));
        }
        if wants(Columns::NAME) {
            self.name.extend(records().map(|record| record.name));
        }
        if wants(Columns::TRACK) {
            self.track.extend(records().map(|record| record.track));
        }
        if wants(Columns::LINK) {
            self.link.extend(records().map(|record| record.link));
        }
        if wants(Columns::KIND) {
            self.kind.extend(records().map(|record| record.kind.0));
        }
        if wants(Columns::STATUS) {
            self.status.extend(records().map(|record| record.status.0));
        }
        if wants(Columns::DEPTH) {
            self.depth.extend(records().map(|record| record.depth));
        }
        if wants(Columns::SHAPE) {
            self.shape.extend(records().map(|record| record.shape));
        }
        if wants(Columns::SLOTS) {
            self.slots.extend(units.iter().filter(|unit| unit.kind.is_slot()));
        }
        self.first_references(columns);
    }

    /// Only the first slot that refers to a long text goes on doing so (SPEC 8.3.6): texts
    /// that are read take no more room than those that are stored, whatever the slots say.
    pub(crate) fn first_references(&mut self, columns: Columns) {
        if !columns.contains(Columns::SLOTS | Columns::LONG_TEXTS) {
            return;
        }
        let mut referred = HashSet::new();
        for slot in self.slots.iter_mut().filter(|slot| slot.kind == Kind::LONG_TEXT) {
            if !referred.insert(slot.start) {
                slot.start = NO_LONG_TEXT;
            }
        }
    }

    /// Where in [`slots`](Self::slots) the slots of each event are. Takes
    /// [`Columns::SHAPE`].
    pub fn slot_ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let mut next = 0;
        self.shape.iter().map(move |shape| {
            let start = next;
            next += usize::from(shape & 0x1F);
            start..next
        })
    }

    /// What the slots of an event say, with [`Columns::LONG_TEXTS`] all of it.
    pub fn details(&self, slots: &[Record]) -> EventDetails {
        let mut details = parse_slots(slots);
        details.complete(&self.long_texts);
        details
    }

    /// The events as they were recorded: each record with its slots. Takes
    /// [`Columns::ALL`]; without it there are none.
    pub fn records(&self) -> impl Iterator<Item = (Record, &[Record])> {
        self.slot_ranges().enumerate().map_while(|(at, slots)| {
            let record = Record {
                start: *self.start.get(at)?,
                value: *self.value.get(at)?,
                name: *self.name.get(at)?,
                track: *self.track.get(at)?,
                link: *self.link.get(at)?,
                kind: Kind(*self.kind.get(at)?),
                status: Status(*self.status.get(at)?),
                depth: *self.depth.get(at)?,
                shape: *self.shape.get(at)?,
            };
            Some((record, self.slots.get(slots)?))
        })
    }
}
