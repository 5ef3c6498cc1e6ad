//! Reading the scopes and the ids of all requests. Both lie in slots, so chunks without any are
//! not decoded.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::{AtomicU64, Ordering},
};

use ringscope_format::{Batch, ChunkInfo, Kind, request_of};

use super::{
    Requests, place,
    scopes::{self, NOBODY, Scope, TrackScopes},
};
use crate::{
    Result,
    budget::Budget,
    load::Traces,
    output::count,
    scan::{Piece, Visitor, scan},
};

/// Bytes of an id in the sets of the workers and in the list.
const BYTES_OF_ID: u64 = 64;
/// Bytes of a scope, from when it is found to when it has its place.
const BYTES_OF_SCOPE: u64 = size_of::<Found>() as u64 + scopes::BYTES;

/// What is left out where the memory for it would be too much.
pub(super) const REMEDY: &str = "take a part of the trace first with analyze cut --from --to";

/// How much memory all workers have taken so far.
pub(super) struct Taken {
    bytes: AtomicU64,
    budget: Budget,
}

impl Taken {
    pub(super) fn new(budget: Budget) -> Self {
        Self { bytes: AtomicU64::new(0), budget }
    }

    /// Whether there is room for so much more. Counts it either way.
    pub(super) fn add(&self, bytes: u64) -> bool {
        // Relaxed: only the sum matters, and the workers are joined before it is read.
        self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.budget.limit()
    }

    pub(super) fn check(&self, what: impl FnOnce() -> String) -> Result<()> {
        self.budget.require(self.bytes.load(Ordering::Relaxed), what, REMEDY)
    }
}

/// A scope on its way.
struct Found {
    id: u128,
    track: u32,
    scope: Scope,
}

struct Finding<'a> {
    taken: &'a Taken,
    ids: HashSet<u128>,
    /// Of the piece, the last of the file first.
    piece: Vec<Found>,
    done: Vec<(Piece, Vec<Found>)>,
    scopes: u64,
}

impl Visitor for Finding<'_> {
    fn wants(&self, _: usize, chunk: &ChunkInfo) -> bool {
        chunk.slots > 0
    }

    fn chunk(&mut self, _: usize, batch: &Batch) {
        let slots: Vec<_> = batch.slot_ranges().collect();
        for at in (0..batch.events).rev().filter(|&at| !slots[at].is_empty()) {
            let slots = batch.slots.get(slots[at].clone()).unwrap_or_default();
            let Some(id) = request_of(slots) else { continue };
            if id != 0 && !self.ids.contains(&id) && self.taken.add(BYTES_OF_ID) {
                self.ids.insert(id);
            }
            if Kind(batch.kind[at]) == Kind::SCOPE {
                self.scopes += 1;
                if self.taken.add(BYTES_OF_SCOPE) {
                    let scope = Scope { place: place(batch, at), request: NOBODY };
                    self.piece.push(Found { id, track: batch.track[at], scope });
                }
            }
        }
    }

    fn end(&mut self, piece: &Piece) {
        if !self.piece.is_empty() {
            self.done.push((piece.clone(), std::mem::take(&mut self.piece)));
        }
    }
}

pub(super) fn find(traces: &Traces, budget: Budget) -> Result<Requests> {
    let taken = Taken::new(budget);
    let workers = scan(traces, Requests::columns(), "looking for requests", || Finding {
        taken: &taken,
        ids: HashSet::new(),
        piece: Vec::new(),
        done: Vec::new(),
        scopes: 0,
    })?;
    let scopes: u64 = workers.iter().map(|worker| worker.scopes).sum();
    taken.check(|| format!("requests: {} scopes of them", count(scopes)))?;
    let mut ids = HashSet::new();
    let mut done = Vec::new();
    for worker in workers {
        ids.extend(worker.ids);
        done.extend(worker.done);
    }
    let mut ids: Vec<u128> = ids.into_iter().collect();
    ids.sort_unstable();
    let mut requests = Requests { ids, scopes: Vec::new() };
    done.sort_by_key(|(piece, _)| (piece.trace, piece.chunks.start));
    let mut by_track: Vec<HashMap<u32, Vec<Scope>>> = vec![HashMap::new(); traces.list.len()];
    for (piece, found) in done {
        for Found { id, track, scope } in found.into_iter().rev() {
            let request = requests.number(id).unwrap_or(NOBODY);
            by_track[piece.trace].entry(track).or_default().push(Scope { request, ..scope });
        }
    }
    let in_order = |tracks: HashMap<u32, Vec<Scope>>| {
        tracks.into_iter().map(|(track, scopes)| (track, TrackScopes::new(scopes))).collect()
    };
    requests.scopes = by_track.into_iter().map(in_order).collect();
    Ok(requests)
}
