//! Room for samples: a few large sample buffers or query sets, cut into blocks.
//!
//! Devices allow few of them (Metal about 32 live sample buffers), and making one
//! takes long, so blocks of a few are handed out and come back when whoever holds
//! them lets go. When all are taken the answer is no, and it is counted: the work is
//! then timed by a coarser source.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

/// The pool of one device. It hands out numbers; the buffers are the backend's, and made
/// when a block of them is first handed out.
#[derive(Debug)]
pub struct SlotPool {
    block: u32,
    blocks_per_buffer: u32,
    most_buffers: u32,
    state: Mutex<State>,
    exhausted: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Blocks that were handed out and came back: buffer, and place in it.
    free: Vec<(u32, u32)>,
    /// Blocks never handed out yet begin here.
    next: (u32, u32),
}

/// A block of slots, which goes back to its pool when dropped.
#[derive(Debug)]
pub struct Slots {
    pool: Arc<SlotPool>,
    buffer: u32,
    place: u32,
}

impl SlotPool {
    /// A pool of at most `most_buffers` buffers of `buffer_slots` slots, handed out in blocks
    /// of `block`.
    ///
    /// # Panics
    ///
    /// If no block fits into a buffer, or none is allowed.
    pub fn new(buffer_slots: u32, block: u32, most_buffers: u32) -> Arc<Self> {
        assert!(block > 0 && block <= buffer_slots && most_buffers > 0, "no room for a block");
        Arc::new(Self {
            block,
            blocks_per_buffer: buffer_slots / block,
            most_buffers,
            state: Mutex::default(),
            exhausted: AtomicU64::new(0),
        })
    }

    /// A block, or none if all are taken.
    pub fn take(self: &Arc<Self>) -> Option<Slots> {
        let mut state = self.lock();
        let taken = state.free.pop().or_else(|| self.next(&mut state.next));
        drop(state);
        if taken.is_none() {
            self.exhausted.fetch_add(1, Ordering::Relaxed);
        }
        taken.map(|(buffer, place)| Slots { pool: Arc::clone(self), buffer, place })
    }

    fn next(&self, next: &mut (u32, u32)) -> Option<(u32, u32)> {
        let given = *next;
        if given.0 == self.most_buffers {
            return None;
        }
        *next = match given.1 + 1 {
            end if end == self.blocks_per_buffer => (given.0 + 1, 0),
            place => (given.0, place),
        };
        Some(given)
    }

    /// How often a block was asked for and none was left.
    pub fn exhausted(&self) -> u64 {
        self.exhausted.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    /// Which buffer, from 0.
    pub fn buffer(&self) -> usize {
        self.buffer as usize
    }

    /// The first slot, in its buffer.
    pub fn first(&self) -> u32 {
        self.place * self.pool.block
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.pool.block
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.pool.lock().free.push((self.buffer, self.place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_cut_into_blocks_that_do_not_overlap() {
        let pool = SlotPool::new(100, 32, 2);
        let blocks: Vec<Slots> = std::iter::from_fn(|| pool.take()).collect();
        let places: Vec<(usize, u32)> = blocks.iter().map(|it| (it.buffer(), it.first())).collect();
        assert_eq!(places, [(0, 0), (0, 32), (0, 64), (1, 0), (1, 32), (1, 64)]);
        assert!(blocks.iter().all(|block| block.count() == 32));
    }

    #[test]
    fn an_exhausted_pool_says_no_and_counts_it() {
        let pool = SlotPool::new(4, 2, 1);
        let held = (pool.take(), pool.take());
        assert!(held.0.is_some() && held.1.is_some());
        assert!(pool.take().is_none() && pool.take().is_none());
        assert_eq!(pool.exhausted(), 2);
        drop(held);
        assert!(pool.take().is_some());
        assert_eq!(pool.exhausted(), 2);
    }

    #[test]
    fn a_block_comes_back_from_whichever_thread_lets_go() {
        let pool = SlotPool::new(4_096, 32, 1);
        for _ in 0..1_000 {
            let block = pool.take().expect("it came back");
            assert_eq!(block.buffer(), 0);
            std::thread::scope(|scope| {
                scope.spawn(move || drop(block));
            });
        }
        let all: Vec<Slots> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(all.len(), 128);
    }
}
