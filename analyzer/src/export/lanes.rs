//! Lines on which spans nest or follow each other, and never cross.
//!
//! Viewers keep a stack for each line: of two spans that cross on one they show the
//! wrong ends or drop one. Spans of a thread do not cross, but kernels on a queue,
//! asynchronous spans and what a clock that jumped left behind may. Whatever does not
//! fit on the first line of its track goes to the next one on which it does.
//!
//! Spans come in reverse order of recording: parents before their children.

use ringscope_format::Kind;

use crate::summary::nesting;

/// A span that looks for its place, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) depth: u8,
    /// Whether it may be inside of another one.
    pub(super) nests: bool,
}

impl Span {
    /// Depths decide only where the two merely touch: not every converter knows them.
    fn is_inside(&self, other: &Span) -> bool {
        let is_contained = other.start <= self.start && self.end <= other.end;
        let touches = self.end <= other.start || other.end <= self.start;
        let is_deeper = other.depth < self.depth || self.depth == u8::MAX;
        self.nests && other.nests && is_contained && (!touches || is_deeper)
    }
}

/// Whether it may be shown around others and inside of them: what nests, and the scope of a
/// request, which is no span and yet best seen around what was done in it.
pub(super) fn nests(kind: Kind) -> bool {
    nesting::nests(kind.0) || kind == Kind::SCOPE
}

#[derive(Debug)]
struct Lane<T> {
    /// Those that may still have children, outermost first.
    open: Vec<(Span, T)>,
    /// Where the last one began that is complete. Nothing fits after that.
    until: u64,
}

impl<T> Lane<T> {
    /// Whether there is room; what begins after `span` is complete.
    fn fits(&mut self, span: &Span, mut begins: impl FnMut(T)) -> bool {
        while let Some((last, _)) = self.open.last() {
            if span.is_inside(last) {
                break;
            }
            if last.start < span.end {
                return false;
            }
            if let Some((last, tag)) = self.open.pop() {
                self.until = self.until.min(last.start);
                begins(tag);
            }
        }
        span.end <= self.until
    }
}

/// The lines of one track.
#[derive(Debug)]
pub(super) struct Lanes<T>(Vec<Lane<T>>);

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Lanes<T> {
    /// The line that a span goes to. `begins` is told on which line what begins, the
    /// latest first: of all that was placed there and is not told yet, what begins
    /// after the end of this one.
    pub(super) fn place(&mut self, span: Span, tag: T, mut begins: impl FnMut(usize, T)) -> usize {
        let mut at = 0;
        while at < self.0.len() && !self.0[at].fits(&span, |tag| begins(at, tag)) {
            at += 1;
        }
        if at == self.0.len() {
            self.0.push(Lane { open: Vec::new(), until: u64::MAX });
        }
        self.0[at].open.push((span, tag));
        at
    }

    /// Something at an instant, which takes no room on the first line.
    pub(super) fn pass(&mut self, at: u64, depth: u8, mut begins: impl FnMut(usize, T)) {
        let instant = Span { start: at, end: at, depth, nests: true };
        if let Some(first) = self.0.first_mut() {
            first.fits(&instant, |tag| begins(0, tag));
        }
    }

    /// What has not been told to begin yet, the latest first.
    pub(super) fn finish(self, mut begins: impl FnMut(usize, T)) {
        for (at, lane) in self.0.into_iter().enumerate() {
            lane.open.into_iter().rev().for_each(|(_, tag)| begins(at, tag));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(spans: &[(u64, u64, u8)]) -> (Vec<usize>, Vec<(usize, usize)>) {
        let mut lanes = Lanes::default();
        let mut begun = Vec::new();
        let mut at = Vec::new();
        for (number, &(start, end, depth)) in spans.iter().enumerate() {
            let span = Span { start, end, depth, nests: true };
            at.push(lanes.place(span, number, |lane, tag| begun.push((lane, tag))));
        }
        lanes.finish(|lane, tag| begun.push((lane, tag)));
        (at, begun)
    }

    #[test]
    fn nested_and_successive_spans_share_a_line() {
        // Last first: a parent, its two children that touch, and a span before it.
        let (lanes, begun) = placed(&[(10, 30, 0), (20, 30, 1), (10, 20, 1), (0, 10, 0)]);
        assert_eq!(lanes, [0, 0, 0, 0]);
        assert_eq!(begun, [(0, 1), (0, 2), (0, 0), (0, 3)]);
    }

    #[test]
    fn spans_without_length_stay_where_their_depth_says() {
        let (lanes, begun) = placed(&[(10, 20, 0), (10, 10, 1), (10, 10, 0)]);
        assert_eq!((lanes, begun), (vec![0, 0, 0], vec![(0, 1), (0, 0), (0, 2)]));
    }

    #[test]
    fn spans_that_cross_get_a_line_of_their_own() {
        let (lanes, begun) = placed(&[(10, 30, 0), (5, 20, 0), (0, 10, 0)]);
        assert_eq!(lanes, [0, 1, 0]);
        assert_eq!(begun, [(0, 0), (0, 2), (1, 1)]);
    }

    #[test]
    fn children_stay_with_their_parents_whatever_their_depths_say() {
        let (lanes, begun) = placed(&[(0, 30, 0), (10, 20, 0), (12, 14, 1)]);
        assert_eq!((lanes, begun), (vec![0, 0, 0], vec![(0, 2), (0, 1), (0, 0)]));
    }

    #[test]
    fn what_comes_too_late_is_not_put_over_what_is_complete() {
        let (lanes, _) = placed(&[(10, 20, 0), (0, 5, 0), (12, 15, 1)]);
        assert_eq!(lanes, [0, 0, 1]);
    }
}
