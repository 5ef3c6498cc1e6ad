//! The reading half of a raw slot: what its published batches hold (SPEC 7).

use crate::checksum;
use crate::columns::{are_plain, misplaced_unit};
use crate::little_endian::{u32_at, u64_at};
use crate::raw_slot::{
    BatchKind, FREE, GENERATION, PUBLISHED, SEQUENCE, SLOT_HEAD, SLOT_MAGIC, STATE, batch_crc_seed,
};
use crate::record::{Record, UNIT};

/// The content of one raw slot. Reading into the same value again reuses its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawContent {
    /// Sequence of the data chunk that these events will become.
    pub sequence: u64,
    /// How often the slot was taken into use.
    pub generation: u32,
    /// Records, each followed by its slots.
    pub events: Vec<Record>,
    /// Entries of a names chunk.
    pub names: Vec<u8>,
    /// Entries of a tracks section.
    pub tracks: Vec<u8>,
    /// Entries of a clock pairs section.
    pub clocks: Vec<u8>,
    /// Entries of a losses section.
    pub losses: Vec<u8>,
    /// Entries of a long texts section.
    pub long_texts: Vec<u8>,
    /// Units that were published and cannot be read, batch headers included.
    pub units_unreadable: u32,
    /// Batches of kinds that this version does not know.
    pub batches_unknown: u32,
}

/// What bytes that should be a raw slot turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    /// Never used, or being taken into use.
    Empty,
    /// Free: what it holds is in a sealed chunk.
    Freed,
    /// In use.
    Used,
    /// Not a slot: it has neither zeros nor a magic where its magic should be.
    Foreign,
}

/// The header of a slot as far as a reader needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotHead {
    pub(crate) kind: SlotKind,
    pub(crate) generation: u32,
    pub(crate) sequence: u64,
    pub(crate) published: u32,
}

impl SlotHead {
    pub(crate) const LENGTH: usize = 24;

    pub(crate) fn parse(bytes: &[u8]) -> SlotHead {
        let published = u32_at(bytes, PUBLISHED);
        let kind = match (&bytes[..4], u32_at(bytes, STATE)) {
            ([0, 0, 0, 0], FREE) => SlotKind::Empty,
            (magic, _) if magic != SLOT_MAGIC => SlotKind::Foreign,
            (_, FREE) if published == 0 => SlotKind::Empty,
            (_, FREE) => SlotKind::Freed,
            _ => SlotKind::Used,
        };
        SlotHead {
            kind,
            generation: u32_at(bytes, GENERATION),
            sequence: u64_at(bytes, SEQUENCE),
            published,
        }
    }
}

impl RawContent {
    /// Reads a slot, and keeps what it can. Returns false, with nothing in
    /// `self`, if the slot is free, was never used or is no slot.
    pub fn read_into(&mut self, slot_bytes: &[u8]) -> bool {
        let Some(mut units) = self.begin(slot_bytes) else { return false };
        while !units.is_empty() {
            units = self.read_next(units);
        }
        true
    }

    /// Makes ready for a slot. Returns its published units, unless the slot is free, was never
    /// used or is no slot.
    pub(crate) fn begin<'a>(&mut self, slot_bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.clear();
        let head = slot_bytes.get(..SLOT_HEAD).map(SlotHead::parse)?;
        if head.kind != SlotKind::Used {
            return None;
        }
        let units = &slot_bytes[SLOT_HEAD..];
        let published = (head.published as usize).min(units.len() / UNIT);
        self.begin_units(&head, published);
        self.units_unreadable = head.published - published as u32;
        Some(&units[..published * UNIT])
    }

    /// Reads the published units of a slot with this header.
    pub(crate) fn read_units(&mut self, head: &SlotHead, mut units: &[u8]) {
        self.clear();
        self.begin_units(head, units.len() / UNIT);
        while !units.is_empty() {
            units = self.read_next(units);
        }
    }

    fn begin_units(&mut self, head: &SlotHead, units: usize) {
        self.sequence = head.sequence;
        self.generation = head.generation;
        // Nearly all of it is events; growing step by step would copy them twice.
        self.events.reserve(units);
    }

    /// Takes in the batch at the start of `units`, and returns those behind it: none if it
    /// cannot be read, for then nobody knows where the next one begins.
    fn read_next<'a>(&mut self, units: &'a [u8]) -> &'a [u8] {
        match self.read_batch(batch_crc_seed(self.sequence), units) {
            Some(taken) => &units[taken..],
            None => {
                self.units_unreadable += (units.len() / UNIT) as u32;
                &[]
            }
        }
    }

    fn clear(&mut self) {
        self.events.clear();
        self.clear_tables();
        (self.sequence, self.generation) = (0, 0);
        (self.units_unreadable, self.batches_unknown) = (0, 0);
    }

    /// Empties all tables.
    pub(crate) fn clear_tables(&mut self) {
        let RawContent { names, tracks, clocks, losses, long_texts, .. } = self;
        for table in [names, tracks, clocks, losses, long_texts] {
            table.clear();
        }
    }

    /// Takes in the batch at the start of `units`, and returns its length. None, with nothing
    /// taken in, if it cannot be read.
    fn read_batch(&mut self, crc_seed: u32, units: &[u8]) -> Option<usize> {
        let before = self.events.len();
        let length = self.take_batch(crc_seed, units)?;
        let events = &self.events[before..];
        let whole = are_plain(events) || misplaced_unit(events).is_none();
        if !whole {
            self.events.truncate(before);
        }
        whole.then_some(length)
    }

    /// The same, without asking whether its units are whole events. For who finds that out of all
    /// batches together, and has [`read_into`](Self::read_into) left if they are not.
    pub(crate) fn take_batch(&mut self, crc_seed: u32, units: &[u8]) -> Option<usize> {
        let head = units.get(..UNIT)?;
        let length = (1 + u32_at(head, 8) as usize).checked_mul(UNIT)?;
        let padded = units.get(UNIT..length)?;
        let payload = padded.get(..u32_at(head, 12) as usize)?;
        if checksum::append(crc_seed, &units[4..UNIT + payload.len()]) != u32_at(head, 0) {
            return None;
        }
        let kind = head[28];
        let table = match kind {
            k if k == BatchKind::Events as u8 => {
                return self.take_events(payload).then_some(length);
            }
            k if k == BatchKind::Names as u8 => &mut self.names,
            k if k == BatchKind::Tracks as u8 => &mut self.tracks,
            k if k == BatchKind::ClockPairs as u8 => &mut self.clocks,
            k if k == BatchKind::Losses as u8 => &mut self.losses,
            k if k == BatchKind::LongTexts as u8 => &mut self.long_texts,
            _ => {
                self.batches_unknown += 1;
                return Some(length);
            }
        };
        table.extend_from_slice(payload);
        Some(length)
    }

    fn take_events(&mut self, payload: &[u8]) -> bool {
        let before = self.events.len();
        match bytemuck::try_cast_slice::<u8, Record>(payload) {
            Ok(units) => self.events.extend_from_slice(units),
            Err(_) if payload.len().is_multiple_of(UNIT) => {
                self.events
                    .extend(payload.chunks_exact(UNIT).map(bytemuck::pod_read_unaligned::<Record>));
            }
            Err(_) => return false,
        }
        // If all batches begin with an event, they are whole together only if each of them is.
        let begins = self.events.get(before).is_none_or(|unit| unit.kind.is_base());
        if !begins {
            self.events.truncate(before);
        }
        begins
    }
}
