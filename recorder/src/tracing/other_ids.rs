//! From the ids of another subscriber to ours, without a lock as long as few
//! spans exist at once.
//!
//! A table of buckets, each as many keys as fit a cache line. A key is looked for in
//! all of its bucket, so that taking one out leaves nothing to mend. What finds its bucket
//! full goes into a map behind a lock, which is asked only while there is something in it.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use crate::hot::call_site::unless_reentered;

const BUCKETS: usize = 1 << 10;
const PLACES: usize = 8;
/// A key that no span has: the place is being written.
const BUSY: u64 = u64::MAX;

#[repr(align(64))]
#[derive(Debug, Default)]
struct Line([AtomicU64; PLACES]);

/// 0 among the keys is a free place.
#[derive(Debug, Default)]
struct Bucket {
    theirs: Line,
    ours: Line,
}

#[derive(Debug)]
pub(super) struct OtherIds {
    buckets: Box<[Bucket]>,
    /// How many the map has.
    overflown: AtomicUsize,
    overflow: Mutex<HashMap<u64, u64>>,
}

impl OtherIds {
    pub(super) fn new() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Bucket::default()).collect(),
            overflown: AtomicUsize::new(0),
            overflow: Mutex::default(),
        }
    }

    /// Remembers a span; its id must not be known yet.
    #[inline]
    pub(super) fn put(&self, theirs: u64, ours: u64) {
        let bucket = self.bucket(theirs);
        for (key, value) in bucket.theirs.0.iter().zip(&bucket.ours.0) {
            if key.load(Relaxed) == 0 && key.compare_exchange(0, BUSY, Acquire, Relaxed).is_ok() {
                value.store(ours, Relaxed);
                // Release, with the load in `place_of`: who sees the key sees the value.
                key.store(theirs, Release);
                return;
            }
        }
        self.put_into_map(theirs, ours);
    }

    #[cold]
    fn put_into_map(&self, theirs: u64, ours: u64) {
        unless_reentered(|| {
            let mut map = self.map();
            map.insert(theirs, ours);
            self.overflown.store(map.len(), Release);
        });
    }

    #[inline(always)]
    pub(super) fn find(&self, theirs: u64) -> Option<u64> {
        match self.place_of(theirs) {
            Some((_, value)) => Some(value.load(Relaxed)),
            None => self.find_in_map(theirs),
        }
    }

    /// Forgets a span.
    #[inline]
    pub(super) fn take(&self, theirs: u64) -> Option<u64> {
        let Some((key, value)) = self.place_of(theirs) else {
            return self.take_from_map(theirs);
        };
        let ours = value.load(Relaxed);
        key.store(0, Release);
        Some(ours)
    }

    /// Our ids of all spans that are known.
    pub(super) fn all(&mut self) -> impl Iterator<Item = u64> {
        let buckets = self.buckets.iter_mut();
        let places = buckets.flat_map(|it| it.theirs.0.iter_mut().zip(&mut it.ours.0));
        let placed =
            places.filter_map(|(key, value)| (*key.get_mut() != 0).then_some(*value.get_mut()));
        let map = self.overflow.get_mut().unwrap_or_else(PoisonError::into_inner);
        placed.chain(map.values().copied())
    }

    #[inline(always)]
    fn bucket(&self, theirs: u64) -> &Bucket {
        let hash = theirs.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BUCKETS.trailing_zeros());
        &self.buckets[hash as usize % BUCKETS]
    }

    #[inline(always)]
    fn place_of(&self, theirs: u64) -> Option<(&AtomicU64, &AtomicU64)> {
        let bucket = self.bucket(theirs);
        let mut places = bucket.theirs.0.iter().zip(&bucket.ours.0);
        places.find(|(key, _)| key.load(Acquire) == theirs)
    }

    #[cold]
    fn find_in_map(&self, theirs: u64) -> Option<u64> {
        if self.overflown.load(Acquire) == 0 {
            return None;
        }
        unless_reentered(|| self.map().get(&theirs).copied())?
    }

    #[cold]
    fn take_from_map(&self, theirs: u64) -> Option<u64> {
        if self.overflown.load(Acquire) == 0 {
            return None;
        }
        unless_reentered(|| {
            let mut map = self.map();
            let ours = map.remove(&theirs);
            self.overflown.store(map.len(), Release);
            ours
        })?
    }

    fn map(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.overflow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_until_they_are_taken_however_many_there_are() {
        let mut ids = OtherIds::new();
        assert_eq!(ids.all().count(), 0);
        let all = 1..=3 * (BUCKETS * PLACES) as u64;
        all.clone().for_each(|id| ids.put(id, id * 10));
        assert!(ids.overflown.load(Relaxed) > 0);
        assert!(all.clone().all(|id| ids.find(id) == Some(id * 10)));
        assert_eq!(ids.find(all.end() + 1), None);
        let mut ours: Vec<u64> = ids.all().collect();
        ours.sort_unstable();
        assert!(ours.into_iter().eq(all.clone().map(|id| id * 10)));
        assert!(all.clone().rev().all(|id| ids.take(id) == Some(id * 10)));
        assert!(all.clone().all(|id| ids.find(id).is_none() && ids.take(id).is_none()));
        assert_eq!((ids.overflown.load(Relaxed), ids.all().count()), (0, 0));
    }

    #[test]
    fn threads_do_not_lose_each_others_ids() {
        let ids = OtherIds::new();
        std::thread::scope(|scope| {
            for thread in 1..=4_u64 {
                let ids = &ids;
                scope.spawn(move || {
                    for round in 0..20_000 {
                        let id = thread << 32 | round;
                        ids.put(id, round + 1);
                        assert_eq!(ids.find(id), Some(round + 1));
                        assert_eq!(ids.take(id), Some(round + 1));
                    }
                });
            }
        });
    }
}
