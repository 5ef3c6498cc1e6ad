//! One raw slot on its way to a sealed chunk, in short steps.
//!
//! Sealing a slot of 16,384 units takes 150 to 300 us at a stretch. A thread that
//! shares a core with somebody who must not wait that long does a step now and
//! then instead; each takes 10 to 30 us. What comes out is the same to the byte.

use crate::error::Error;
use crate::raw_content::RawContent;
use crate::raw_slot::SLOT_HEAD;
use crate::record::UNIT;
use crate::sealing::ChunkEncoder;

/// Units that are read in one step, or one batch if that has more.
const UNITS_A_STEP: usize = 2_048;

/// Where in the work reading ends, and where planning the chunk does. The rest is for
/// its sections. Reading 15,000 records took 24 us of 145, planning 25.
const READ: f32 = 0.2;
const PLANNED: f32 = 0.4;

/// A slot, its content and the chunk that it becomes. It keeps its memory from slot to slot.
pub struct SlotSealing {
    content: RawContent,
    encoder: ChunkEncoder,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Idle,
    /// So many bytes behind the slot's header are read.
    Reading {
        done: usize,
        all: usize,
    },
    /// The chunk is planned, and some of its sections are stored.
    Storing,
    Complete,
}

impl SlotSealing {
    /// For slots of one recording.
    pub fn new(recording: [u8; 16]) -> Result<SlotSealing, Error> {
        Ok(SlotSealing {
            content: RawContent::default(),
            encoder: ChunkEncoder::new(recording)?,
            stage: Stage::Idle,
        })
    }

    /// Begins with a slot. Returns false if it is free, was never used or is no slot.
    pub fn begin(&mut self, slot_bytes: &[u8]) -> bool {
        let units = self.content.begin(slot_bytes);
        self.stage =
            units.map_or(Stage::Idle, |units| Stage::Reading { done: 0, all: units.len() });
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
            Stage::Reading { done, all } if done < all => {
                let units = &slot_bytes[SLOT_HEAD..SLOT_HEAD + all];
                let mut left = &units[done..];
                while !left.is_empty() && units.len() - left.len() < done + UNITS_A_STEP * UNIT {
                    left = self.content.read_next(left);
                }
                Stage::Reading { done: all - left.len(), all }
            }
            Stage::Reading { .. } => {
                self.encoder.begin_data(&self.content, &[])?;
                Stage::Storing
            }
            Stage::Storing if self.encoder.store_next(&self.content)? => Stage::Storing,
            Stage::Storing => Stage::Complete,
            stage @ (Stage::Idle | Stage::Complete) => stage,
        })
    }

    /// How much of the work is done, from 0 to 1. It is 1 when there is a chunk, and when
    /// there is nothing to do.
    pub fn progress(&self) -> f32 {
        match self.stage {
            Stage::Reading { done, all } => READ * done as f32 / all.max(1) as f32,
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
