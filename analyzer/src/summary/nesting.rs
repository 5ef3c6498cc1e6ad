//! Who is whose parent on a track: the one place that knows.
//!
//! Spans of a track are recorded when they end. Read backwards, a parent comes
//! before its children, so a stack of ancestors is all it takes: those that do
//! not contain the next span, or are not shallower than it, are over. A span
//! whose parent was lost counts as a child of the next ancestor.
//!
//! Spans that touch at one tick are told apart by their depth. Depths are cut to
//! a byte: among spans of depth 255 and more only containment tells, and one
//! without a duration at the edge of its neighbour counts as inside of it.

use ringscope_format::{Batch, Columns, Kind};

pub(crate) use super::per_track::PerTrack;

/// Depths are cut to a byte; at this one only containment tells.
pub(super) const DEEPEST: u8 = u8::MAX;

/// Columns that nesting is worked out from, besides what tells a span's group.
pub(crate) fn columns() -> Columns {
    Columns::START | Columns::VALUE | Columns::TRACK | Columns::DEPTH | Columns::KIND
}

/// Whether records of this kind nest on their track.
#[inline(always)]
pub(crate) fn nests(kind: u8) -> bool {
    matches!(Kind(kind), Kind::SPAN | Kind::SLICE | Kind::LAUNCH)
}

/// A span that may have children, and what its reader wants to know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open<T> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) tag: T,
    pub(crate) depth: u8,
}

impl<T> Open<T> {
    /// The `at`-th record, which nests.
    #[inline(always)]
    pub(crate) fn of(batch: &Batch, at: usize, tag: T) -> Self {
        let start = batch.start[at];
        let duration = (batch.value[at] as i64).max(0) as u64;
        Self { start, end: start.saturating_add(duration), tag, depth: batch.depth[at] }
    }

    #[inline(always)]
    pub(crate) fn duration(&self) -> u64 {
        self.end - self.start
    }

    #[inline(always)]
    fn is_inside<U>(&self, other: &Open<U>) -> bool {
        other.start <= self.start
            && self.end <= other.end
            && (other.depth < self.depth || self.depth == DEEPEST)
    }
}

/// The spans of one track that are open where the reader is, outermost first.
#[derive(Clone, Debug)]
pub(crate) struct Ancestors<T>(pub(super) Vec<Open<T>>);

impl<T> Default for Ancestors<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Ancestors<T> {
    /// Drops those that are over when `span` comes, and returns its parent.
    #[inline(always)]
    pub(crate) fn parent_of<U>(&mut self, span: &Open<U>) -> Option<&mut Open<T>> {
        while self.0.last().is_some_and(|ancestor| !span.is_inside(ancestor)) {
            self.0.pop();
        }
        self.0.last_mut()
    }

    /// Takes a span whose parent has been asked for.
    #[inline(always)]
    pub(crate) fn push(&mut self, span: Open<T>) {
        self.0.push(span);
    }

    /// Outermost first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Open<T>> {
        self.0.iter()
    }
}
