//! From the drain to the exporters: what one thread recorded in one tick, copied.

use std::{sync::Arc, time::Instant};

use ringscope_format::Record;

use super::attached::Handlers;
use crate::hot::lane::Owner;

/// What one lane held in one tick, and the spans that were open then.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The lane's own track.
    pub(crate) track: u32,
    pub(crate) name: Arc<str>,
    /// Of the recorder itself: readings.
    pub(crate) is_reading: bool,
    /// Records and their slots, in the order of their ends.
    pub(crate) units: Vec<Record>,
    /// Entries of a table of long texts: those that the records refer to.
    pub(crate) long_texts: Vec<u8>,
    /// Start and name of the open spans, the outermost first.
    pub(crate) open: Vec<(u64, u32)>,
    pub(crate) events: u64,
}

impl Batch {
    /// How much memory it takes, in units of a record.
    pub(crate) fn weight(&self) -> u64 {
        (self.units.len() + self.long_texts.len() / size_of::<Record>()) as u64
    }
}

/// The drain's side: collects what it copies from a ring, if anybody watches.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    units: Vec<Record>,
    long_texts: Vec<u8>,
    events: u64,
}

/// The sealer's thread, whose readings may be wanted.
pub(crate) const READER: &str = "ringscope-seal";

impl Feed {
    /// Takes a part of what a ring holds.
    pub(crate) fn take(&mut self, first: &[Record], second: &[Record], events: usize) {
        self.units.extend_from_slice(first);
        self.units.extend_from_slice(second);
        self.events += events as u64;
    }

    /// Takes the entry of a long text of an event that comes next.
    pub(crate) fn take_text(&mut self, entry: &[u8]) {
        self.long_texts.extend_from_slice(entry);
    }

    /// Hands what was taken from one ring to everyone who watches.
    pub(crate) fn send(&mut self, handlers: &Handlers, owner: &Owner, open: &[(u64, u32)]) {
        if self.events == 0 {
            return;
        }
        let (units, events) = (std::mem::take(&mut self.units), std::mem::take(&mut self.events));
        let long_texts = std::mem::take(&mut self.long_texts);
        // What an exporter records would come back to it for ever.
        if owner.is_recorder && owner.name != READER {
            return;
        }
        let batch = Batch {
            track: owner.track,
            name: owner.name.as_str().into(),
            is_reading: owner.is_recorder,
            units,
            long_texts,
            open: open.to_vec(),
            events,
        };
        handlers.send(Arc::new(batch), Instant::now());
    }
}
