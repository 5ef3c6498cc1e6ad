//! Reading all chunks of all traces, in parallel.
//!
//! Chunks are cut into *pieces*: runs of neighbours in one trace. Workers take
//! pieces in turn and show each chunk of a piece to their visitor, last chunk
//! first, because whoever follows nesting wants parents before children, and a
//! parent is recorded after its children. Whoever needs every ancestor of every
//! span, and so all chunks of a trace in one order, reads them
//! `in_order`.

use std::{
    convert::Infallible,
    ops::{ControlFlow, Range},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use ringscope_format::{Batch, ChunkInfo, Columns};

use crate::{
    Error, Result,
    load::{Loaded, Traces},
    progress::Progress,
};

/// Chunks in a piece: enough that what happens once a piece does not matter.
pub(crate) const CHUNKS_IN_A_PIECE: usize = 32;

/// A run of chunks of one trace.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Which trace.
    pub trace: usize,
    /// Which of its chunks.
    pub chunks: Range<usize>,
}

/// What looks at the records. Each worker has one.
pub trait Visitor: Send {
    /// Another piece begins; the one before it is over.
    fn begin(&mut self, _piece: &Piece) {}

    /// Whether to decode this chunk at all.
    fn wants(&self, _trace: usize, _chunk: &ChunkInfo) -> bool {
        true
    }

    /// The records of one chunk, in the order in which they were recorded.
    fn chunk(&mut self, trace: usize, batch: &Batch);

    /// The piece is over.
    fn end(&mut self, _piece: &Piece) {}
}

/// The pieces of all traces, in order.
pub fn pieces(traces: &Traces) -> Vec<Piece> {
    let of_one = |(trace, loaded): (usize, &Loaded)| {
        let chunks = loaded.trace.chunks().len();
        let size = traces.chunks_in_a_piece.max(1);
        (0..chunks)
            .step_by(size)
            .map(move |from| Piece { trace, chunks: from..(from + size).min(chunks) })
    };
    traces.list.iter().enumerate().flat_map(of_one).collect()
}

/// Shows every record to one of the visitors, and returns them, one a worker. What
/// cannot be read is left out and noted with the traces.
pub fn scan<V: Visitor>(
    traces: &Traces,
    columns: Columns,
    what: &str,
    visitor: impl Fn() -> V + Sync,
) -> Result<Vec<V>> {
    let pieces = pieces(traces);
    let progress = Progress::new(what, traces.events());
    let visitors = by_workers(&pieces, |next| {
        let mut visitor = visitor();
        let mut batch = Batch::default();
        while let Some(piece) = next() {
            let loaded = &traces.list[piece.trace];
            visitor.begin(piece);
            for chunk in loaded.trace.chunks()[piece.chunks.clone()].iter().rev() {
                progress.advance(u64::from(chunk.events));
                if chunk.events == 0 || !visitor.wants(piece.trace, chunk) {
                    continue;
                }
                match loaded.trace.decode_into(chunk, columns, &mut batch) {
                    Ok(()) => {
                        traces.note_cut_texts(piece.trace, chunk, &batch);
                        visitor.chunk(piece.trace, &batch);
                    }
                    Err(error) => traces.note_unreadable(piece.trace, chunk, &error),
                }
            }
            visitor.end(piece);
        }
        visitor
    });
    progress.finish();
    visitors.map_err(|_| Error::new("a worker thread panicked"))
}

/// Takes in chunks of one trace that have events, each worker from where it `begins` until it has
/// seen enough. What cannot be read is left out, and to be noted by whoever needs it.
pub(crate) fn glance<T: Send>(
    loaded: &Loaded,
    columns: Columns,
    begins: impl Fn() -> T + Sync,
    take: impl Fn(&mut T, &Batch) -> ControlFlow<()> + Sync,
) -> Vec<T> {
    let chunks: Vec<&ChunkInfo> =
        loaded.trace.chunks().iter().filter(|chunk| chunk.events > 0).collect();
    let found = by_workers(&chunks, |next| {
        let (mut found, mut batch) = (begins(), Batch::default());
        while let Some(chunk) = next() {
            let is_readable = loaded.trace.decode_into(chunk, columns, &mut batch).is_ok();
            if is_readable && take(&mut found, &batch).is_break() {
                break;
            }
        }
        found
    });
    found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Has the list worked through by as many workers as there are cores, each of which asks for the
/// next one.
fn by_workers<'a, T: Sync, V: Send>(
    list: &'a [T],
    work: impl Fn(&dyn Fn() -> Option<&'a T>) -> V + Sync,
) -> thread::Result<Vec<V>> {
    let workers =
        thread::available_parallelism().map_or(1, usize::from).clamp(1, list.len().max(1));
    let at = AtomicUsize::new(0);
    // Relaxed: the list is only read, only the counting matters.
    let next = || list.get(at.fetch_add(1, Ordering::Relaxed));
    thread::scope(|scope| {
        let threads: Vec<_> = (1..workers).map(|_| scope.spawn(|| work(&next))).collect();
        let mut done = vec![work(&next)];
        for thread in threads {
            done.push(thread.join()?);
        }
        Ok(done)
    })
}

/// Decoded chunks that may wait for the reader of [`in_order`].
const AHEAD: usize = 2;

/// In which order chunks are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they were recorded.
    Recorded,
    /// The last one first.
    LastFirst,
}

/// Shows every chunk of each trace in turn, last chunk first, with the index of
/// the trace and of the chunk.
pub(crate) fn backwards(
    traces: &Traces,
    columns: Columns,
    what: &str,
    mut look: impl FnMut(usize, usize, &Batch),
) {
    let look = |trace, at, batch: &Batch| {
        look(trace, at, batch);
        Ok::<(), Infallible>(())
    };
    let Ok(()) = in_order(traces, columns, what, Order::LastFirst, |_, _| true, look);
}

/// Shows the chunks of each trace in turn that are wanted, with the index of the
/// trace and of the chunk, until `look` fails. One thread decodes while the caller's
/// looks. What cannot be read is left out and noted with the traces.
pub(crate) fn in_order<E>(
    traces: &Traces,
    columns: Columns,
    what: &str,
    order: Order,
    wants: impl Fn(usize, &ChunkInfo) -> bool + Send,
    mut look: impl FnMut(usize, usize, &Batch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let progress = Progress::new(what, traces.events());
    let (to_look, decoded) = mpsc::sync_channel::<(usize, usize, bool, Batch)>(AHEAD);
    let (to_fill, used) = mpsc::channel();
    // The reader holds one, and the decoder another.
    (0..AHEAD + 2).for_each(|_| drop(to_fill.send(Batch::default())));
    let looked = thread::scope(|scope| {
        scope.spawn(move || {
            for (trace, loaded) in traces.list.iter().enumerate() {
                let chunks = loaded.trace.chunks();
                for nth in 0..chunks.len() {
                    let at = if order == Order::Recorded { nth } else { chunks.len() - 1 - nth };
                    let chunk = &chunks[at];
                    if chunk.events == 0 || !wants(trace, chunk) {
                        continue;
                    }
                    let Ok(mut batch) = used.recv() else { return };
                    let decoded = loaded.trace.decode_into(chunk, columns, &mut batch);
                    let is_readable = decoded
                        .inspect_err(|error| traces.note_unreadable(trace, chunk, error))
                        .is_ok();
                    traces.note_cut_texts(trace, chunk, &batch);
                    if to_look.send((trace, at, is_readable, batch)).is_err() {
                        return;
                    }
                }
            }
        });
        for (trace, at, is_readable, batch) in decoded {
            progress.advance(u64::from(traces.list[trace].trace.chunks()[at].events));
            if is_readable {
                look(trace, at, &batch)?;
            }
            // The decoder may be done and gone.
            drop(to_fill.send(batch));
        }
        Ok(())
    });
    progress.finish();
    looked
}
