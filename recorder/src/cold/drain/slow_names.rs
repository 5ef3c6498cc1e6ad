//! Which spans are slow enough for the flight recorder to write a dump.

use ringscope_format::{Kind, Record};

use crate::{
    cold::shared::Shared,
    hot::names::{self, Entry},
    rules::matches,
};

/// From when on a span of each name is slow.
#[derive(Debug, Default)]
pub(super) struct SlowNames {
    /// In ticks, by id of the name.
    limits: Vec<u64>,
    /// Name entries that have been looked at.
    looked_at: u32,
}

impl SlowNames {
    /// The slowest span that is slower than its trigger allows.
    pub(super) fn slowest(
        &mut self,
        shared: &Shared,
        first: &[Record],
        second: &[Record],
    ) -> Option<(u32, u64)> {
        // Not spans that are used again and again: those are there all the time.
        let timed = |unit: &&Record| {
            matches!(unit.kind, Kind::SPAN | Kind::ASYNC_SPAN | Kind::SLICE | Kind::TASK)
        };
        let mut slowest = None;
        for unit in first.iter().chain(second).filter(timed) {
            if unit.name as usize >= self.limits.len() {
                self.look_at_new_names(shared);
            }
            let limit = self.limits.get(unit.name as usize).copied().unwrap_or(u64::MAX);
            let ticks = unit.duration().unwrap_or(0);
            if ticks > limit && slowest.is_none_or(|(_, most)| ticks > most) {
                slowest = Some((unit.name, ticks));
            }
        }
        slowest
    }

    fn look_at_new_names(&mut self, shared: &Shared) {
        let mut entries = Vec::new();
        names::copy_entries(self.looked_at, usize::MAX, &mut entries);
        self.looked_at += entries.len() as u32;
        for entry in entries {
            let Entry::Text { id, text } = entry else { continue };
            let triggers = shared.config.triggers.iter();
            let rules = triggers.filter(|trigger| matches(&trigger.pattern, text));
            let limit = rules.map(|trigger| shared.ticks(trigger.longer_than)).min();
            if self.limits.len() <= id as usize {
                self.limits.resize(id as usize + 1, u64::MAX);
            }
            self.limits[id as usize] = limit.unwrap_or(u64::MAX);
        }
    }
}
