//! Which spans were around an event, told from its place among the others.
//!
//! A span's record comes when it ends, after those of everything within it. So
//! what encloses an event is among the records that follow it, or still open: read
//! backwards, a batch tells it all.

use ringscope_format::{Kind, Record};

use crate::hot::homes::wanders;

/// Spans around the events of one batch, by depth.
#[derive(Debug, Default)]
pub(super) struct Enclosing {
    /// Start and name of the span that was last met at each depth.
    spans: Vec<(u64, u32)>,
    /// For every event of the batch, in its order, where its path is in `names`.
    ranges: Vec<(u32, u32)>,
    names: Vec<u32>,
}

impl Enclosing {
    /// Looks at a batch: `places` are those of its base records in `units`.
    pub(super) fn read(
        &mut self,
        units: &[Record],
        places: &[usize],
        track: u32,
        open: &[(u64, u32)],
    ) {
        self.spans.clear();
        self.spans.extend_from_slice(open);
        self.names.clear();
        self.ranges.clear();
        self.ranges.resize(places.len(), (0, 0));
        for (event, &place) in places.iter().enumerate().rev() {
            let record = &units[place];
            // Work of devices, spans that wander between threads and whole lives have no stack.
            let kind = record.kind;
            if record.track != track || wanders(kind) {
                continue;
            }
            let depth = usize::from(record.depth);
            let first = self.names.len() as u32;
            // A span from before this one began encloses it; one that began later took the place
            // at its depth afterwards. What is further in is not told then: a path has no gaps.
            let around = self.spans.iter().take(depth).take_while(|span| span.0 <= record.start);
            self.names.extend(around.map(|span| span.1));
            self.ranges[event] = (first, self.names.len() as u32);
            // A span of `tracing` is on the stack while it is entered: slice by slice.
            if matches!(kind, Kind::SPAN | Kind::SLICE) {
                if self.spans.len() <= depth {
                    self.spans.resize(depth + 1, (u64::MAX, 0));
                }
                self.spans[depth] = (record.start, record.name);
            }
        }
    }

    /// Names of the spans around an event, the outermost first.
    pub(super) fn of(&self, event: usize) -> &[u32] {
        let (from, to) = self.ranges.get(event).copied().unwrap_or((0, 0));
        &self.names[from as usize..to as usize]
    }
}

#[cfg(test)]
mod tests {
    use ringscope_format::{Status, ValueType};

    use super::*;

    fn span(name: u32, depth: u8, start: u64, length: u64) -> Record {
        Record { depth, ..Record::timed(Kind::SPAN, name, 7, start, length) }
    }

    fn point(name: u32, depth: u8, start: u64) -> Record {
        let record = Record::point(Kind::EVENT, name, 7, start, (ValueType::None, 0));
        Record { depth, status: Status::UNKNOWN, ..record }
    }

    #[track_caller]
    fn paths(units: &[Record], open: &[(u64, u32)], expected: &[&[u32]]) {
        let places: Vec<usize> = (0..units.len()).collect();
        let mut enclosing = Enclosing::default();
        enclosing.read(units, &places, 7, open);
        let found: Vec<&[u32]> = places.iter().map(|&event| enclosing.of(event)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_follows_and_encloses_is_the_path_and_so_is_what_is_open() {
        // 1 is open; in it 2 (10 to 20) with a point in it, then 3 (30 to 40) with 4 in it.
        let units = [
            point(9, 2, 15),
            span(2, 1, 10, 10),
            span(4, 2, 32, 2),
            span(3, 1, 30, 10),
            point(8, 1, 50),
        ];
        paths(&units, &[(5, 1)], &[&[1, 2], &[1], &[1, 3], &[1], &[1]]);
    }

    #[test]
    fn a_span_that_began_later_at_the_same_depth_is_not_around() {
        // The point at 15 lay in a span that is missing; the one at that depth began at 30.
        paths(&[point(9, 1, 15), span(3, 0, 30, 10)], &[], &[&[], &[]]);
        paths(&[point(9, 1, 15)], &[(30, 3)], &[&[]]);
        // What took the place in the middle leaves the path without its end.
        paths(&[point(9, 3, 15)], &[(5, 1), (20, 2), (7, 3)], &[&[1]]);
    }

    #[test]
    fn a_slice_is_around_what_it_holds_as_a_span_is_and_a_life_is_not() {
        let of = |kind, record| Record { kind, ..record };
        // A span in a slice in a span, and then the life of the span whose slice that was.
        let units = [
            span(3, 2, 12, 2),
            of(Kind::SLICE, span(2, 1, 10, 10)),
            span(1, 0, 5, 30),
            point(9, 1, 40),
            of(Kind::REUSED, span(2, 0, 1, 60)),
        ];
        paths(&units, &[], &[&[1, 2], &[1], &[], &[], &[]]);
    }

    #[test]
    fn work_of_devices_has_no_path() {
        let kernel = Record::timed(Kind::KERNEL, 5, 99, 10, 5);
        paths(&[kernel, span(3, 0, 0, 100)], &[], &[&[], &[]]);
    }
}
