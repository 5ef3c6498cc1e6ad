//! Something for each track, found quickly: records of many tracks alternate.

use std::collections::HashMap;

/// Ids below this are looked up in a table. Recorders number tracks from 1 on;
/// only what was converted from elsewhere has larger ones.
const NEAR: u32 = 1 << 12;

/// Something for each track. The next record is often on the track of the last.
#[derive(Debug)]
pub(crate) struct PerTrack<S> {
    /// In the order in which they came up.
    states: Vec<(u32, S)>,
    /// Where in `states` the last one is.
    current: usize,
    /// Where in `states` a track is, by its id, and one more; 0 if nowhere yet.
    near: Vec<usize>,
    /// The same for large ids.
    far: HashMap<u32, usize>,
}

impl<S> Default for PerTrack<S> {
    fn default() -> Self {
        Self { states: Vec::new(), current: 0, near: Vec::new(), far: HashMap::new() }
    }
}

impl<S: Default> PerTrack<S> {
    /// That of a track.
    #[inline(always)]
    pub(crate) fn of(&mut self, track: u32) -> &mut S {
        if self.states.get(self.current).is_none_or(|(current, _)| *current != track) {
            self.current = self.find(track);
        }
        &mut self.states[self.current].1
    }

    fn find(&mut self, track: u32) -> usize {
        let place = if track < NEAR {
            if self.near.len() <= track as usize {
                self.near.resize(track as usize + 1, 0);
            }
            &mut self.near[track as usize]
        } else {
            self.far.entry(track).or_default()
        };
        if *place == 0 {
            self.states.push((track, S::default()));
            *place = self.states.len();
        }
        *place - 1
    }

    /// All of them, which leaves none.
    pub(crate) fn take(&mut self) -> HashMap<u32, S> {
        self.near.clear();
        self.far.clear();
        self.states.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_track_keeps_its_own_however_large_its_id() {
        let mut counts = PerTrack::<u32>::default();
        for round in 0..3 {
            for track in [1, 1, 0, NEAR - 1, NEAR, u32::MAX, 1] {
                *counts.of(track) += 1;
            }
            assert_eq!(*counts.of(1), 3, "round {round}");
            let all = counts.take();
            assert_eq!(all.len(), 5);
            assert_eq!((all[&1], all[&u32::MAX]), (3, 1));
            assert!(counts.take().is_empty());
        }
    }
}
