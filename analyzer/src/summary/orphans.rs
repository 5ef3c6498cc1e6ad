//! Self time when the pieces of a trace are read in parallel.
//!
//! A piece notes which of its spans found no parent in it, in order, neighbours
//! of one depth added up; whose children those are is settled when all pieces
//! have been read, last piece first. Where adding up went too far, because
//! neighbours of one depth turn out to have different parents, which takes lost
//! spans, that track of the piece is read once more.

use std::collections::HashMap;

use ringscope_format::{Batch, Columns};

use super::nesting::{Ancestors, DEEPEST, Open, PerTrack, nests};
use crate::{load::Traces, scan::Piece};

/// A track with more runs of orphans in a piece is read once more.
const MOST_RUNS: usize = 1_024;

/// Neighbours of one depth without a parent in their piece.
#[derive(Clone, Copy, Debug)]
struct Run {
    depth: u8,
    spans: u64,
    first_start: u64,
    last_end: u64,
    total: u128,
}

/// One track within one piece.
#[derive(Clone, Debug, Default)]
struct TrackState {
    ancestors: Ancestors<u32>,
    runs: Vec<Run>,
    too_many_runs: bool,
}

/// Follows the nesting of one piece.
#[derive(Debug, Default)]
pub(super) struct Nesting(PerTrack<TrackState>);

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
    pub(super) fn parent(&mut self, track: u32, span: Open<u32>) -> Option<u32> {
        let state = self.0.of(track);
        let parent = state.ancestors.parent_of(&span).map(|ancestor| ancestor.tag);
        if parent.is_none() {
            state.note(&span);
        }
        state.ancestors.push(span);
        parent
    }

    /// Ends the piece.
    pub(super) fn end(&mut self, piece: &Piece) -> Ends {
        Ends { piece: piece.clone(), tracks: self.0.take() }
    }
}

impl TrackState {
    fn note(&mut self, span: &Open<u32>) {
        let total = u128::from(span.duration());
        let is_full = self.runs.len() == MOST_RUNS;
        match self.runs.last_mut() {
            Some(run) if run.depth == span.depth => {
                run.spans += 1;
                run.first_start = run.first_start.min(span.start);
                run.last_end = run.last_end.max(span.end);
                run.total += total;
            }
            _ if is_full => self.too_many_runs = true,
            _ => self.runs.push(Run {
                depth: span.depth,
                spans: 1,
                first_start: span.start,
                last_end: span.end,
                total,
            }),
        }
    }

    /// Groups of parents among `above` with the time of their children, and how
    /// many of `above` are still open after this piece. `None` if only the spans
    /// themselves can tell.
    fn settle(&self, above: &[Open<u32>]) -> Option<(Vec<(u32, u128)>, usize)> {
        let mut open = above.len();
        let mut found = Vec::new();
        if self.too_many_runs && open > 0 {
            return None;
        }
        for run in &self.runs {
            while let Some(nearest) = above[..open].last() {
                let is_shallower = nearest.depth < run.depth || run.depth == DEEPEST;
                if is_shallower {
                    if nearest.start <= run.first_start && run.last_end <= nearest.end {
                        found.push((nearest.tag, run.total));
                        break;
                    }
                    let all_are_outside = run.spans == 1 || run.last_end < nearest.start;
                    if !all_are_outside {
                        return None;
                    }
                }
                open -= 1;
            }
        }
        Some((found, open))
    }
}

/// Finds the parents of all orphans. Calls `child` with a trace, a group, and the
/// time in ticks that children of the group took which are in earlier pieces.
pub(super) fn settle(
    traces: &Traces,
    mut ends: Vec<Ends>,
    columns: Columns,
    group_of: impl Fn(usize, &Batch, usize) -> u32,
    mut child: impl FnMut(usize, u32, u128),
) {
    ends.sort_by_key(|ends| (ends.piece.trace, ends.piece.chunks.start));
    let mut open: HashMap<u32, Ancestors<u32>> = HashMap::new();
    let mut trace = usize::MAX;
    for Ends { piece, tracks } in ends.into_iter().rev() {
        if piece.trace != trace {
            trace = piece.trace;
            open.clear();
        }
        let mut unclear: HashMap<u32, (Ancestors<u32>, Ancestors<u32>)> = HashMap::new();
        for (track, state) in &tracks {
            let above = open.entry(*track).or_default();
            match state.settle(&above.0) {
                Some((found, still_open)) => {
                    found.into_iter().for_each(|(group, ticks)| child(trace, group, ticks));
                    above.0.truncate(still_open);
                }
                None => {
                    unclear.insert(*track, (std::mem::take(above), Ancestors::default()));
                }
            }
        }
        if !unclear.is_empty() {
            read_again(traces, &piece, columns, &mut unclear, &group_of, &mut child);
            open.extend(unclear.into_iter().map(|(track, (above, _))| (track, above)));
        }
        for (track, mut state) in tracks {
            open.entry(track).or_default().0.append(&mut state.ancestors.0);
        }
    }
}

/// Goes through some tracks of a piece with the ancestors from later pieces, of
/// which those stay that are still open after this one.
fn read_again(
    traces: &Traces,
    piece: &Piece,
    columns: Columns,
    tracks: &mut HashMap<u32, (Ancestors<u32>, Ancestors<u32>)>,
    group_of: &impl Fn(usize, &Batch, usize) -> u32,
    child: &mut impl FnMut(usize, u32, u128),
) {
    let loaded = &traces.list[piece.trace];
    let mut batch = Batch::default();
    for chunk in loaded.trace.chunks()[piece.chunks.clone()].iter().rev() {
        // A chunk that cannot be decoded was reported in the first reading.
        if chunk.events == 0 || loaded.trace.decode_into(chunk, columns, &mut batch).is_err() {
            continue;
        }
        for at in (0..batch.events).rev().filter(|&at| nests(batch.kind[at])) {
            let Some((above, own)) = tracks.get_mut(&batch.track[at]) else { continue };
            let span = Open::of(&batch, at, group_of(piece.trace, &batch, at));
            if own.parent_of(&span).is_none()
                && let Some(parent) = above.parent_of(&span)
            {
                child(piece.trace, parent.tag, u128::from(span.duration()));
            }
            own.push(span);
        }
    }
}
