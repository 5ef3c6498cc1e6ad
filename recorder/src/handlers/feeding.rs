//! From the drain to the exporters: what one thread recorded in one tick, copied.

use std::{collections::HashMap, sync::Arc, time::Instant};

use ringscope_format::Record;

use super::attached::Handlers;
use crate::hot::{
    homes,
    lane::{Lane, Owner},
    ownership::DrainView,
    ring_pool,
};

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
    /// Names of the tracks that events of it began on, where those are other threads'.
    pub(crate) homes: HashMap<u32, Arc<str>>,
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
    /// All that there were when one of them was last looked for.
    lanes: Vec<&'static Lane>,
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
        let homes = self.homes(&units, owner.track);
        let batch = Batch {
            homes,
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

    /// Whose the tracks are that events began on, as far as anybody knows.
    fn homes(&mut self, units: &[Record], own: u32) -> HashMap<u32, Arc<str>> {
        let mut homes = HashMap::new();
        if !homes::are_kept() {
            return homes;
        }
        for unit in units.iter().filter(|unit| homes::wanders(unit.kind) && unit.track != own) {
            homes.entry(unit.track).or_insert_with(|| self.name_of(unit.track));
        }
        homes
    }

    /// Empty if nobody knows.
    fn name_of(&mut self, track: u32) -> Arc<str> {
        if self.lanes.len() < ring_pool::lanes() {
            self.lanes.extend(ring_pool::lanes_from(self.lanes.len()));
        }
        // Of lanes that are the drain's to look at, which this is called by.
        let there = self.lanes.iter().filter(|it| it.ownership.drain_view() != DrainView::Absent);
        let owner = there.map(|lane| lane.owner()).find(|owner| owner.track == track);
        match owner {
            Some(owner) => owner.name.as_str().into(),
            None => homes::of(track).map_or_else(|| "".into(), |owner| owner.name.into()),
        }
    }
}
