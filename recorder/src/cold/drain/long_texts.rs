//! Part of step 3: long texts go into the raw slot of their event, before it. Whoever finds
//! the event there, or in the chunk that the slot becomes, finds its texts.

use ringscope_format::BatchKind;

use super::{Drain, Seen, WIDEST};
use crate::long_texts;

impl Drain {
    /// Makes sure that the open slot describes the lane's track, has room for an event, and
    /// has the long texts of the lane's next one. Returns how many units of the ring may be
    /// taken: not those of a later event that has long texts. `None` if there was no room.
    #[inline]
    pub(super) fn prepare_events(&mut self, index: usize, now: u64) -> Option<usize> {
        if !long_texts::are_on_their_way() {
            return self.describe_track(index, now, WIDEST).then_some(usize::MAX);
        }
        self.prepare_long_texts(index, now)
    }

    #[cold]
    fn prepare_long_texts(&mut self, index: usize, now: u64) -> Option<usize> {
        let Seen { lane, available, .. } = self.seen[index];
        let chunk = lane.consumer().read_chunk(available).ok()?;
        let (first, second) = chunk.as_slices();
        let with_texts = long_texts::first_event_with_texts(first.iter().chain(second));
        let (length, numbers) = match with_texts {
            Some((0, length, numbers)) => (length, numbers),
            later => {
                let most = later.map_or(usize::MAX, |(at, ..)| at);
                return self.describe_track(index, now, WIDEST).then_some(most);
            }
        };
        if !self.describe_track(index, now, long_texts::units(&numbers) + WIDEST) {
            return None;
        }
        for text in long_texts::take(&numbers) {
            if self.write_bytes(BatchKind::LongTexts, now, 1, text.entry()) {
                self.vitals.long_texts += 1;
            }
            #[cfg(feature = "exporters")]
            if self.shared.handlers.are_watching() {
                self.feed.take_text(text.entry());
            }
        }
        // This event alone: the next one may have texts of its own.
        Some(length)
    }
}
