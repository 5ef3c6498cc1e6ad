//! Durations of each group in order, added up in cells of neighbours: what it takes
//! to see how alike neighbours are, without holding them.
//!
//! Pieces are read in parallel. Each keeps a few cells of each group, which grow
//! when there are too many of them; put behind each other, they are the whole
//! series, last record first. Beside them, every so many durations are kept as they
//! are, all of them if there are few: enough to see roughly where the others lie.

use ringscope_format::{Batch, ChunkInfo};

use super::{
    Question, Scale,
    taking::{Taken, Taker},
    thinned::Thinned,
};
use crate::{
    Result,
    scan::{Piece, Visitor, pieces, scan},
};

/// At most so many bounds.
pub(crate) const MOST_BOUNDS: usize = 8;

/// Neighbouring durations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cell {
    pub(crate) count: u64,
    /// Their sum in nanoseconds.
    pub(crate) sum_ns: f64,
    /// How many are at or below each bound.
    pub(crate) below: [u32; MOST_BOUNDS],
}

/// The series of all groups.
pub(crate) struct Cells {
    /// By group, last record first.
    pub(crate) series: Vec<Vec<Cell>>,
    /// By group, durations in nanoseconds, rising, each with how many it stands for.
    pub(crate) samples: Vec<Vec<(f64, f64)>>,
    /// Which kinds of records there are, whether they count or not.
    pub(crate) kinds: [bool; 256],
}

/// Cells of a group over all pieces, about.
const CELLS: usize = 512;
/// Durations of a group that are kept over all pieces, at most twice as many.
pub(crate) const SAMPLES: usize = 1_024;

impl Question<'_> {
    /// The series of each group, of which the first `used` bounds count.
    pub(crate) fn cells(&self, bounds_ns: &[[f64; MOST_BOUNDS]], used: usize) -> Result<Cells> {
        // Half of the bounds is what is usual, and takes half the time.
        if used <= MOST_BOUNDS / 2 {
            self.cells_with::<{ MOST_BOUNDS / 2 }>(bounds_ns)
        } else {
            self.cells_with::<MOST_BOUNDS>(bounds_ns)
        }
    }

    fn cells_with<const N: usize>(&self, bounds_ns: &[[f64; MOST_BOUNDS]]) -> Result<Cells> {
        let scale = Scale::of(self.traces);
        let taker = Taker::new(self, &scale);
        // A bound is a duration, or lies between two: rounding must not take it below.
        let units = |ns: &f64| (ns / scale.unit_ns * (1.0 + 1e-12) + 1e-6).floor() as u64;
        let bounds: Vec<[u64; N]> =
            bounds_ns.iter().map(|of| std::array::from_fn(|at| units(&of[at]))).collect();
        let most = (CELLS / pieces(self.traces).len().max(1)).clamp(4, CELLS / 2);
        let looked = scan(self.traces, self.columns_again(), "neighbours", || Series {
            taker: &taker,
            taken: Taken::default(),
            bounds: &bounds,
            most,
            most_kept: (SAMPLES / pieces(self.traces).len().max(1)).max(16),
            states: vec![State::default(); self.groups],
            touched: Vec::new(),
            done: Vec::new(),
            kinds: [false; 256],
        })?;
        let mut kinds = [false; 256];
        for worker in &looked {
            kinds.iter_mut().zip(worker.kinds).for_each(|(it, seen)| *it |= seen);
        }
        let mut done: Vec<Done<N>> = looked.into_iter().flat_map(|worker| worker.done).collect();
        done.sort_by_key(|it| (it.trace, std::cmp::Reverse(it.first_chunk)));
        let mut series = vec![Vec::new(); self.groups];
        let mut samples = vec![Vec::new(); self.groups];
        for Done { group, cells, durations, .. } in done {
            let stride = f64::from(durations.stride);
            let sample = |value: u64| (value as f64 * scale.unit_ns, stride);
            samples[group as usize].extend(durations.kept.into_iter().map(sample));
            series[group as usize].extend(cells.into_iter().map(|cell| Cell {
                count: u64::from(cell.count),
                sum_ns: cell.sum * scale.unit_ns,
                below: std::array::from_fn(|at| cell.below.get(at).copied().unwrap_or(0)),
            }));
        }
        for of_group in &mut samples {
            of_group.sort_unstable_by(|a: &(f64, f64), b| a.0.total_cmp(&b.0));
        }
        Ok(Cells { series, samples, kinds })
    }
}

#[derive(Clone, Copy, Debug)]
struct Counted<const N: usize> {
    count: u32,
    below: [u32; N],
    sum: f64,
}

impl<const N: usize> Default for Counted<N> {
    fn default() -> Self {
        Self { count: 0, below: [0; N], sum: 0.0 }
    }
}

impl<const N: usize> Counted<N> {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.below.iter_mut().zip(other.below).for_each(|(it, other)| *it += other);
    }
}

/// One group in one piece.
#[derive(Clone, Debug)]
struct State<const N: usize> {
    open: Counted<N>,
    /// Records that a cell takes.
    size: u32,
    full: Vec<Counted<N>>,
    durations: Thinned<u64>,
}

impl<const N: usize> Default for State<N> {
    fn default() -> Self {
        Self { open: Counted::default(), size: 1, full: Vec::new(), durations: Thinned::default() }
    }
}

/// The cells of a group from one piece.
struct Done<const N: usize> {
    trace: usize,
    first_chunk: usize,
    group: u32,
    cells: Vec<Counted<N>>,
    durations: Thinned<u64>,
}

struct Series<'a, const N: usize> {
    taker: &'a Taker<'a>,
    taken: Taken,
    bounds: &'a [[u64; N]],
    most: usize,
    most_kept: usize,
    states: Vec<State<N>>,
    /// Groups that this piece has.
    touched: Vec<u32>,
    done: Vec<Done<N>>,
    kinds: [bool; 256],
}

impl<const N: usize> Visitor for Series<'_, N> {
    fn wants(&self, trace: usize, chunk: &ChunkInfo) -> bool {
        let sieve = self.taker.question.sieve(trace);
        sieve.is_none_or(|sieve| sieve.can_start_in(chunk.first_tick, chunk.last_tick))
    }

    fn chunk(&mut self, trace: usize, batch: &Batch) {
        batch.kind.iter().for_each(|&kind| self.kinds[usize::from(kind)] = true);
        let Self { taker, taken, bounds, most, most_kept, states, touched, .. } = self;
        taker.all(trace, batch, taken);
        for (&group, &value) in taken.group.iter().zip(&taken.value).rev() {
            let state = &mut states[group as usize];
            if state.open.count == 0 && state.full.is_empty() {
                touched.push(group);
            }
            let bounds = &bounds[group as usize];
            state.open.count += 1;
            state.open.sum += value as f64;
            for (below, bound) in state.open.below.iter_mut().zip(bounds) {
                *below += u32::from(value <= *bound);
            }
            state.durations.see(value, *most_kept);
            if state.open.count == state.size {
                state.close(*most);
            }
        }
    }

    fn end(&mut self, piece: &Piece) {
        for group in self.touched.drain(..) {
            let State { open, full: mut cells, durations, .. } =
                std::mem::take(&mut self.states[group as usize]);
            if open.count > 0 {
                cells.push(open);
            }
            let (trace, first_chunk) = (piece.trace, piece.chunks.start);
            self.done.push(Done { trace, first_chunk, group, cells, durations });
        }
    }
}

impl<const N: usize> State<N> {
    /// The open cell is full. Twice as many cells as wanted become half as many.
    #[cold]
    fn close(&mut self, most: usize) {
        self.full.push(std::mem::take(&mut self.open));
        if self.full.len() < 2 * most || self.size > u32::MAX / 4 {
            return;
        }
        let merged = self.full.chunks(2).map(|pair| {
            let mut sum = pair[0];
            pair[1..].iter().for_each(|it| sum.merge(it));
            sum
        });
        self.full = merged.collect();
        self.size *= 2;
    }
}
