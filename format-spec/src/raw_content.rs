//! The reading half of a raw slot: what its published batches hold (SPEC 7).

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
    /// Units that were published and cannot be read, batch headers included.
    pub units_unreadable: u32,
    /// Batches of kinds that this version does not know.
    pub batches_unknown: u32,
}

/// What bytes that should be a raw slot turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    /// Free, or never used.
    Empty,
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
        let kind = match (&bytes[..4], u32_at(bytes, STATE)) {
            (magic, FREE) if magic == SLOT_MAGIC => SlotKind::Empty,
            (magic, _) if magic == SLOT_MAGIC => SlotKind::Used,
            ([0, 0, 0, 0], FREE) => SlotKind::Empty,
            _ => SlotKind::Foreign,
        };
        SlotHead {
            kind,
            generation: u32_at(bytes, GENERATION),
            sequence: u64_at(bytes, SEQUENCE),
            published: u32_at(bytes, PUBLISHED),
        }
    }
}

impl RawContent {
    /// Reads a slot, and keeps what it can. Returns false, with nothing in
    /// `self`, if the slot is free, was never used or is no slot.
    pub fn read_into(&mut self, slot_bytes: &[u8]) -> bool {
        self.clear();
        let Some(head) = slot_bytes.get(..SLOT_HEAD).map(SlotHead::parse) else { return false };
        if head.kind != SlotKind::Used {
            return false;
        }
        let units = &slot_bytes[SLOT_HEAD..];
        let published = (head.published as usize).min(units.len() / UNIT);
        self.read_units(&head, &units[..published * UNIT]);
        self.units_unreadable += head.published - published as u32;
        true
    }

    /// Reads the published units of a slot with this header.
    pub(crate) fn read_units(&mut self, head: &SlotHead, mut units: &[u8]) {
        self.clear();
        self.sequence = head.sequence;
        self.generation = head.generation;
        while !units.is_empty() {
            let Some(taken) = self.read_batch(units) else {
                self.units_unreadable = (units.len() / UNIT) as u32;
                return;
            };
            units = &units[taken..];
        }
    }

    fn clear(&mut self) {
        let RawContent { events, names, tracks, clocks, losses, .. } = self;
        events.clear();
        for table in [names, tracks, clocks, losses] {
            table.clear();
        }
        (self.sequence, self.generation) = (0, 0);
        (self.units_unreadable, self.batches_unknown) = (0, 0);
    }

    /// Takes in the batch at the start of `units`, and returns its length.
    fn read_batch(&mut self, units: &[u8]) -> Option<usize> {
        let head = units.get(..UNIT)?;
        let length = (1 + u32_at(head, 8) as usize).checked_mul(UNIT)?;
        let padded = units.get(UNIT..length)?;
        let payload = padded.get(..u32_at(head, 12) as usize)?;
        let crc = crc32c::crc32c_append(batch_crc_seed(self.sequence), &head[4..]);
        if crc32c::crc32c_append(crc, payload) != u32_at(head, 0) {
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
        let whole = misplaced_unit(&self.events[before..]).is_none();
        if !whole {
            self.events.truncate(before);
        }
        whole
    }
}

/// The first unit that is not where an event can have it.
pub(crate) fn misplaced_unit(units: &[Record]) -> Option<usize> {
    if all_without_slots(units) {
        return None;
    }
    let mut at = 0;
    while at < units.len() {
        if !units[at].kind.is_base() {
            return Some(at);
        }
        let end = at + 1 + units[at].slots();
        at += 1;
        while at < end {
            if !units.get(at).is_some_and(|slot| slot.kind.is_slot()) {
                return Some(at);
            }
            at += 1;
        }
    }
    None
}

/// Whether all units are records and none has slots: the common case, told
/// without a branch a unit.
pub(crate) fn all_without_slots(units: &[Record]) -> bool {
    let wrong = units.iter().fold(0_u8, |wrong, unit| {
        let not_a_record = u8::from(unit.kind.0.wrapping_sub(1) >= 0x7F);
        wrong | not_a_record | unit.shape & 0x1F
    });
    wrong == 0
}
