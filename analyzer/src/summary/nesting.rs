//! Who is whose parent on a track, and with that self time.
//!
//! Spans of a track are recorded when they end. Read backwards, a parent comes
//! before its children, so a stack of ancestors is all it takes: those that do
//! not contain the next span, or are not shallower than it, are over. A span
//! whose parent was lost counts as a child of the next ancestor.
//!
//! Pieces of a trace are read in parallel. A piece notes which of its spans found
//! no parent in it, added up by depth; whose children those are is settled when
//! all pieces have been read, last piece first. Where adding up went too far,
//! because spans of one depth turn out to have different parents, the piece is
//! read once more.

use std::collections::HashMap;

use ringscope_format::{Batch, Columns, Kind};

use crate::{load::Traces, scan::Piece};

/// Depths are cut to a byte; at this one only containment tells.
const DEEPEST: u8 = u8::MAX;

/// Columns that nesting is worked out from, besides what tells a span's group.
pub(super) fn columns() -> Columns {
    Columns::START | Columns::VALUE | Columns::TRACK | Columns::DEPTH | Columns::KIND
}

/// Whether records of this kind nest on their track.
#[inline(always)]
pub(crate) fn nests(kind: u8) -> bool {
    matches!(Kind(kind), Kind::SPAN | Kind::SLICE | Kind::LAUNCH)
}

/// A span that may have children.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    start: u64,
    end: u64,
    group: u32,
    depth: u8,
}

impl Open {
    /// The `at`-th record, which nests.
    #[inline(always)]
    pub(super) fn of(batch: &Batch, at: usize, group: u32) -> Self {
        let start = batch.start[at];
        let duration = (batch.value[at] as i64).max(0) as u64;
        Self { start, end: start.wrapping_add(duration), group, depth: batch.depth[at] }
    }

    pub(super) fn duration(&self) -> u64 {
        self.end.wrapping_sub(self.start)
    }

    #[inline(always)]
    fn is_inside(&self, other: &Open) -> bool {
        other.start <= self.start
            && self.end <= other.end
            && (other.depth < self.depth || self.depth == DEEPEST)
    }
}

/// Spans of one depth without a parent in their piece.
#[derive(Clone, Copy, Debug)]
struct Orphans {
    depth: u8,
    first_start: u64,
    last_end: u64,
    total: u64,
}

/// One track within one piece.
#[derive(Clone, Debug)]
struct TrackState {
    ancestors: Vec<Open>,
    orphans: Vec<Orphans>,
    /// What decides which ancestors from later pieces are over.
    first_start: u64,
    least_depth: u8,
}

impl TrackState {
    fn new() -> Self {
        Self {
            ancestors: Vec::new(),
            orphans: Vec::new(),
            first_start: u64::MAX,
            least_depth: DEEPEST,
        }
    }
}

/// Follows the nesting of one piece.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    tracks: HashMap<u32, TrackState>,
    /// The track of the last span: the next one is mostly on the same.
    current: Option<(u32, TrackState)>,
}

/// What is left of a piece when it is over.
#[derive(Debug)]
pub(super) struct Ends {
    piece: Piece,
    tracks: HashMap<u32, TrackState>,
}

impl Nesting {
    /// Takes a span and returns the group of its parent, if that is in this piece.
    /// Spans come in reverse order of recording.
    #[inline(always)]
    pub(super) fn parent(&mut self, track: u32, span: Open) -> Option<u32> {
        if self.current.as_ref().is_none_or(|(current, _)| *current != track) {
            self.change_track(track);
        }
        let Some((_, state)) = &mut self.current else { return None };
        state.first_start = state.first_start.min(span.start);
        state.least_depth = state.least_depth.min(span.depth);
        while state.ancestors.last().is_some_and(|ancestor| !span.is_inside(ancestor)) {
            state.ancestors.pop();
        }
        let parent = state.ancestors.last().map(|ancestor| ancestor.group);
        if parent.is_none() {
            match state.orphans.iter_mut().find(|orphans| orphans.depth == span.depth) {
                Some(orphans) => {
                    orphans.first_start = orphans.first_start.min(span.start);
                    orphans.last_end = orphans.last_end.max(span.end);
                    orphans.total += span.duration();
                }
                None => state.orphans.push(Orphans {
                    depth: span.depth,
                    first_start: span.start,
                    last_end: span.end,
                    total: span.duration(),
                }),
            }
        }
        state.ancestors.push(span);
        parent
    }

    #[inline(never)]
    fn change_track(&mut self, track: u32) {
        if let Some((before, state)) = self.current.take() {
            self.tracks.insert(before, state);
        }
        let state = self.tracks.remove(&track).unwrap_or_else(TrackState::new);
        self.current = Some((track, state));
    }

    /// Ends the piece.
    pub(super) fn end(&mut self, piece: &Piece) -> Ends {
        if let Some((track, state)) = self.current.take() {
            self.tracks.insert(track, state);
        }
        Ends { piece: piece.clone(), tracks: std::mem::take(&mut self.tracks) }
    }
}

/// Finds the parents of all orphans. Calls `child` with a trace, a group, and the
/// time in ticks that children of the group took which are in earlier pieces.
pub(super) fn settle(
    traces: &Traces,
    mut ends: Vec<Ends>,
    columns: Columns,
    group_of: impl Fn(usize, &Batch, usize) -> u32,
    mut child: impl FnMut(usize, u32, u64),
) {
    ends.sort_by_key(|ends| (ends.piece.trace, ends.piece.chunks.start));
    let mut ancestors: HashMap<u32, Vec<Open>> = HashMap::new();
    let mut trace = usize::MAX;
    for Ends { piece, tracks } in ends.into_iter().rev() {
        if piece.trace != trace {
            trace = piece.trace;
            ancestors.clear();
        }
        let clear = tracks.iter().all(|(track, state)| {
            let above = ancestors.get(track).map_or(&[][..], Vec::as_slice);
            state.orphans.iter().all(|orphans| orphans.parent(above).is_ok())
        });
        if clear {
            for (track, state) in &tracks {
                let above = ancestors.get(track).map_or(&[][..], Vec::as_slice);
                for orphans in &state.orphans {
                    if let Ok(Some(group)) = orphans.parent(above) {
                        child(trace, group, orphans.total);
                    }
                }
            }
        } else {
            read_again(traces, &piece, columns, &ancestors, &group_of, &mut child);
        }
        for (track, mut state) in tracks {
            let above = ancestors.entry(track).or_default();
            let is_over = |ancestor: &Open| {
                state.first_start < ancestor.start
                    || (state.least_depth <= ancestor.depth && state.least_depth < DEEPEST)
            };
            while above.last().is_some_and(is_over) {
                above.pop();
            }
            above.append(&mut state.ancestors);
        }
    }
}

impl Orphans {
    /// The group of their common parent among `ancestors`; `Ok(None)` if none of
    /// them has one, an error if they differ.
    fn parent(&self, ancestors: &[Open]) -> Result<Option<u32>, ()> {
        if self.depth == DEEPEST && !ancestors.is_empty() {
            return Err(());
        }
        let Some(nearest) = ancestors.iter().rposition(|ancestor| ancestor.depth < self.depth)
        else {
            return Ok(None);
        };
        let nearest = &ancestors[nearest];
        if nearest.start <= self.first_start && self.last_end <= nearest.end {
            return Ok(Some(nearest.group));
        }
        Err(())
    }
}

/// Goes through a piece with the ancestors from later ones.
fn read_again(
    traces: &Traces,
    piece: &Piece,
    columns: Columns,
    ancestors: &HashMap<u32, Vec<Open>>,
    group_of: &impl Fn(usize, &Batch, usize) -> u32,
    child: &mut impl FnMut(usize, u32, u64),
) {
    let loaded = &traces.list[piece.trace];
    let mut stacks: HashMap<u32, (Vec<Open>, Vec<Open>)> = HashMap::new();
    let mut batch = Batch::default();
    for chunk in loaded.trace.chunks()[piece.chunks.clone()].iter().rev() {
        // A chunk that cannot be decoded was reported in the first reading.
        if chunk.events == 0 || loaded.trace.decode_into(chunk, columns, &mut batch).is_err() {
            continue;
        }
        for at in (0..batch.events).rev().filter(|&at| nests(batch.kind[at])) {
            let span = Open::of(&batch, at, group_of(piece.trace, &batch, at));
            let track = batch.track[at];
            let (above, own) = stacks.entry(track).or_insert_with(|| {
                (ancestors.get(&track).cloned().unwrap_or_default(), Vec::new())
            });
            while own.last().is_some_and(|ancestor| !span.is_inside(ancestor)) {
                own.pop();
            }
            if own.is_empty() {
                while above.last().is_some_and(|ancestor| !span.is_inside(ancestor)) {
                    above.pop();
                }
                if let Some(parent) = above.last() {
                    child(piece.trace, parent.group, span.duration());
                }
            }
            own.push(span);
        }
    }
}
