//! One raw slot on its way to a sealed chunk, in short steps.
//!
//! Sealing a slot of 16,384 units takes 150 to 300 us at a stretch. A thread that
//! shares a core with somebody who must not wait that long does a step now and
//! then instead; each takes 5 to 10 us, or 25 where bytes of a plane get a code of their
//! own. What comes out is the same to the byte.
//!
//! Batches are read in [another order](crate::batch_order) than they were written in.

use crate::batch_order::BatchOrder;
use crate::chunk_encoder::ChunkEncoder;
use crate::error::Error;
use crate::raw_content::RawContent;
use crate::raw_slot::{SLOT_HEAD, batch_crc_seed};
use crate::record::UNIT;

/// Units that are read in one step, or one batch if that has more.
const UNITS_A_STEP: usize = 2_048;

/// Where in the work reading ends, and where planning the chunk does. The rest is for
/// its sections. Reading 15,000 records took 24 us of 145, planning 25.
const READ: f32 = 0.2;
const PLANNED: f32 = 0.4;

/// A slot, its content and the chunk that it becomes. It keeps its memory from slot to slot.
pub struct SlotSealing {
    order: BatchOrder,
    content: RawContent,
    encoder: ChunkEncoder,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Idle,
    /// So many batches are read, and so many of the bytes behind the slot's header.
    Reading {
        batches: usize,
        done: usize,
        all: usize,
    },
    /// What was read is taken apart.
    Planning,
    /// The chunk is planned, and some of its sections are stored.
    Storing,
    Complete,
}

impl SlotSealing {
    /// For slots of one recording.
    pub fn new(recording: [u8; 16]) -> Result<SlotSealing, Error> {
        Ok(SlotSealing {
            order: BatchOrder::default(),
            content: RawContent::default(),
            encoder: ChunkEncoder::new(recording)?,
            stage: Stage::Idle,
        })
    }

    /// Begins with a slot. Returns false if it is free, was never used or is no slot.
    pub fn begin(&mut self, slot_bytes: &[u8]) -> bool {
        let units = self.content.begin(slot_bytes);
        self.stage = units.map_or(Stage::Idle, |units| {
            self.order.of(units);
            Stage::Reading { batches: 0, done: 0, all: units.len() }
        });
        units.is_some()
    }

    /// Does the next step, for the slot that was begun with: its bytes must not have changed.
    ///
    /// # Errors
    ///
    /// If its tables are broken, or hold more than a chunk may. Then there is nothing to go on
    /// with; [`begin`](Self::begin) may be tried again.
    pub fn step(&mut self, slot_bytes: &[u8]) -> Result<(), Error> {
        let next = self.next_stage(slot_bytes);
        self.stage = *next.as_ref().unwrap_or(&Stage::Idle);
        next.map(|_| ())
    }

    fn next_stage(&mut self, slot_bytes: &[u8]) -> Result<Stage, Error> {
        Ok(match self.stage {
            Stage::Reading { batches, done, all } if done < all => {
                self.read_some(slot_bytes, batches, done, all)
            }
            Stage::Reading { .. } => {
                self.encoder.begin_data(&self.content, &[])?;
                Stage::Planning
            }
            Stage::Planning => self.plan_some(slot_bytes)?,
            Stage::Storing if self.encoder.store_next(&self.content)? => Stage::Storing,
            Stage::Storing => Stage::Complete,
            stage @ (Stage::Idle | Stage::Complete) => stage,
        })
    }

    fn plan_some(&mut self, slot_bytes: &[u8]) -> Result<Stage, Error> {
        match self.encoder.plan_next(&self.content) {
            // Some batch has a good checksum and what is no event. The others are to be kept: as
            // any reader finds them, who asks that of each.
            Err(Error::Misplaced { .. }) => {
                self.content.read_into(slot_bytes);
                self.encoder.begin_data(&self.content, &[])?;
                Ok(Stage::Planning)
            }
            Ok(true) => Ok(Stage::Storing),
            Ok(false) => Ok(Stage::Planning),
            Err(error) => Err(error),
        }
    }

    fn read_some(&mut self, bytes: &[u8], mut batches: usize, done: usize, all: usize) -> Stage {
        let units = &bytes[SLOT_HEAD..SLOT_HEAD + all];
        let crc_seed = batch_crc_seed(self.content.sequence);
        let mut read = 0;
        while read < UNITS_A_STEP * UNIT && done + read < all {
            let at = self.order.get(batches).unwrap_or(all);
            let Some(length) = self.content.take_batch(crc_seed, &units[at..]) else {
                // Where batches end nobody knows behind this one. Now it is as any reader finds it.
                self.content.read_into(bytes);
                return Stage::Reading { batches, done: all, all };
            };
            (batches, read) = (batches + 1, read + length);
        }
        Stage::Reading { batches, done: done + read, all }
    }

    /// How much of the work is done, from 0 to 1. It is 1 when there is a chunk, and when
    /// there is nothing to do.
    pub fn progress(&self) -> f32 {
        match self.stage {
            Stage::Reading { done, all, .. } => READ * done as f32 / all.max(1) as f32,
            Stage::Planning => READ + (PLANNED - READ) * self.encoder.plan_progress(&self.content),
            // Less than 1 until the header is there.
            Stage::Storing => PLANNED + (0.99 - PLANNED) * self.encoder.progress(),
            Stage::Idle | Stage::Complete => 1.0,
        }
    }

    /// The chunk, once it is complete, and the content that it is made of. Names of the content
    /// are not in it: they go into a names chunk, which is to be written before this one.
    pub fn complete(&self) -> Option<(&[u8], &RawContent)> {
        (self.stage == Stage::Complete).then(|| (self.encoder.chunk(), &self.content))
    }

    /// Whether a slot was begun with, and not ended yet.
    pub fn is_busy(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Done with the slot.
    pub fn end(&mut self) {
        self.stage = Stage::Idle;
    }
}
