//! Step 5 of a tick: which spans are open, copied to where a kill cannot reach.

use std::sync::atomic::Ordering;

use ringscope_format::{LISTED_FRAMES, OpenSpan};

use super::{ASYNC_ENTRIES, Drain, Seen};
use crate::hot::{
    async_span::{EVER_USED, OPEN},
    ownership::DrainView,
    ring_pool::MAX_LANES,
};

impl Drain {
    /// Writes stacks that differ from what the file says.
    pub(super) fn write_stacks(&mut self, now: u64) {
        for seen in self.seen.iter_mut().filter(|seen| seen.has_moved) {
            let is_gone = seen.view == DrainView::Absent;
            if is_gone {
                (seen.stack.depth, seen.stack.listed) = (0, 0);
            }
            seen.in_file = (!is_gone).then_some(seen.stack);
            seen.edition += 1;
            let (entry, track, depth) = (seen.lane.index as usize, seen.track, seen.stack.depth);
            self.file.write_in_flight(entry, seen.edition, now, track, depth, stack(seen));
        }
        self.write_async_spans(now);
    }

    /// Part of step 1: what is listed here uses only names that step 2 writes.
    #[inline]
    pub(super) fn look_at_async_spans(&mut self) {
        if EVER_USED.load(Ordering::Relaxed) {
            self.copy_async_spans();
        }
    }

    #[inline(never)]
    fn copy_async_spans(&mut self) {
        // Each place of the table has its entry: a span is in the same one for as long as it is
        // open, and a kill between two writes leaves none in two entries or in neither.
        for (entry, open) in self.async_open.iter_mut().enumerate() {
            let places = entry * LISTED_FRAMES..(entry + 1) * LISTED_FRAMES;
            open.clear();
            open.extend(places.filter_map(|place| OPEN.copy(place)).map(|span| OpenSpan {
                start: span.start,
                id: span.id,
                name: span.name,
                track: span.track,
            }));
        }
    }

    #[inline]
    fn write_async_spans(&mut self, now: u64) {
        if EVER_USED.load(Ordering::Relaxed) {
            self.write_changed_async_spans(now);
        }
    }

    #[inline(never)]
    fn write_changed_async_spans(&mut self, now: u64) {
        for entry in 0..ASYNC_ENTRIES {
            let (open, in_file) = (&self.async_open[entry], &mut self.async_in_file[entry]);
            if open == in_file {
                continue;
            }
            let edition = &mut self.async_editions[entry];
            *edition += 1;
            let depth = open.len() as u32;
            let spans = open.iter().copied();
            self.file.write_in_flight(MAX_LANES + entry, *edition, now, 0, depth, spans);
            in_file.clone_from(open);
        }
    }

    /// Every span that was open in the last pass, with its depth.
    pub(super) fn open_spans(&self) -> Vec<(OpenSpan, u32)> {
        let recording = self.seen.iter().filter(|seen| seen.view == DrainView::Recording);
        let stacks = recording.flat_map(|seen| stack(seen).zip(0..));
        stacks.chain(self.async_in_file.iter().flatten().map(|&span| (span, u32::MAX))).collect()
    }
}

fn stack(seen: &Seen) -> impl ExactSizeIterator<Item = OpenSpan> {
    let track = seen.track;
    let frames = seen.frames[..seen.stack.listed as usize].iter();
    frames.map(move |&(start, name)| OpenSpan { start, id: 0, name, track })
}
