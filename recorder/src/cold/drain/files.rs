//! From one file of a rotation to the next.

use std::sync::{Arc, atomic::Ordering};

use ringscope_format::{RecordingState, Vitals};

use super::{ASYNC_ENTRIES, Drain};
use crate::cold::{shared::lock, trace_file::TraceFile};

impl Drain {
    /// Goes on in the next file of a rotation, if there is one. Returns the file before it, and
    /// with which edition of which vitals it ends.
    #[inline]
    pub(super) fn switch_files(&mut self) -> Option<(Arc<TraceFile>, u64, Vitals)> {
        if !self.shared.has_next_file.load(Ordering::Acquire) {
            return None;
        }
        self.go_on_in_next_file()
    }

    #[cold]
    fn go_on_in_next_file(&mut self) -> Option<(Arc<TraceFile>, u64, Vitals)> {
        // Again, and at once: only then is there no later file that is never come to.
        if !self.shared.has_next_file.swap(false, Ordering::AcqRel) {
            return None;
        }
        let next = lock(&self.shared.next_file).take()?;
        self.hand_over();
        let last = self.without_untold(self.vitals);
        let last = Vitals { state: RecordingState::Continued, ..last };
        self.edition += 1;
        let left = (std::mem::replace(&mut self.file, next.file), self.edition, last);
        crate::crash_point("file-switched");
        self.names_written = next.names_in_file;
        self.queues_described = (0, 0);
        self.next_pair = 0;
        self.seals_this_file = false;
        for seen in &mut self.seen {
            (seen.in_file, seen.edition, seen.described_in) = (None, 0, 0);
        }
        self.async_in_file.iter_mut().for_each(Vec::clear);
        self.async_editions = [0; ASYNC_ENTRIES];
        Some(left)
    }

    /// Once the next file has the stacks: nothing is open in this one any more, and the
    /// sealer may end it. A death in between leaves them in both, never in neither.
    #[cold]
    pub(super) fn leave_file(&self, file: &TraceFile, edition: u64, vitals: Vitals) {
        file.clear_in_flight();
        *lock(&self.shared.left_file) = Some((edition, vitals));
        crate::crash_point("file-left");
        self.shared.hurry_sealer();
    }
}
