//! Which records of a chunk are in, of which group they are, and how long they
//! took: worked out once a chunk, so that the loops that follow are short.

use ringscope_format::{Batch, Kind};

use super::{Key, NO_GROUP, Question, scale::Scale};
use crate::filter::Sieve;

/// The records of one chunk that are in. Its memory is used again.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Their groups.
    pub(super) group: Vec<u32>,
    /// Their durations; 0 where the counter ran backwards.
    pub(super) value: Vec<u64>,
    /// In how many it did.
    pub(super) backwards: u64,
}

impl Taken {
    /// Group and duration of each.
    #[inline(always)]
    pub(super) fn each(&self) -> impl Iterator<Item = (u32, u64)> {
        self.group.iter().copied().zip(self.value.iter().copied())
    }
}

/// Takes out of a chunk what a question is about.
pub(super) struct Taker<'a> {
    pub(super) question: &'a Question<'a>,
    pub(super) scale: &'a Scale,
    /// [`Question::kinds`] of every kind.
    kinds: [bool; 256],
}

impl<'a> Taker<'a> {
    pub(super) fn new(question: &'a Question<'a>, scale: &'a Scale) -> Self {
        let kinds = std::array::from_fn(|kind| (question.kinds)(Kind(kind as u8)));
        Self { question, scale, kinds }
    }

    /// Puts everything of the chunk that is in into `taken`.
    pub(super) fn all(&self, trace: usize, batch: &Batch, taken: &mut Taken) {
        let sieve = self.question.sieve(trace);
        let groups = self.question.group_of[trace].as_slice();
        taken.group.clear();
        taken.value.clear();
        let all_kinds = batch.kind.iter().all(|&kind| self.kinds[usize::from(kind)]);
        if all_kinds && sieve.is_none() && !groups.contains(&NO_GROUP) {
            // The usual case, in which nothing has to be sifted out.
            taken.group.extend(self.ids(batch).iter().map(|&id| look_up(groups, id)));
            taken.value.extend_from_slice(&batch.value);
        } else {
            let of = |at| self.take(trace, sieve, batch, at).map(|group| (group, batch.value[at]));
            for (group, value) in (0..batch.events).filter_map(of) {
                taken.group.push(group);
                taken.value.push(value);
            }
        }
        taken.backwards = taken.value.iter().map(|value| value >> 63).sum();
        if taken.backwards > 0 {
            taken.value.iter_mut().for_each(|value| *value = duration(*value));
        }
        if !self.scale.keeps(trace) {
            taken.value.iter_mut().for_each(|value| *value = self.scale.scale(trace, *value));
        }
    }

    /// The group of a record, if that is in.
    #[inline(always)]
    pub(super) fn take(
        &self,
        trace: usize,
        sieve: Option<&Sieve>,
        batch: &Batch,
        at: usize,
    ) -> Option<u32> {
        if !self.kinds[usize::from(batch.kind[at])] {
            return None;
        }
        let group = look_up(&self.question.group_of[trace], self.ids(batch)[at]);
        let passes = |sieve: &Sieve| sieve.takes_record(batch, at);
        (group != NO_GROUP && sieve.is_none_or(passes)).then_some(group)
    }

    #[inline(always)]
    fn ids<'b>(&self, batch: &'b Batch) -> &'b [u32] {
        match self.question.key {
            Key::Name => &batch.name,
            Key::Track => &batch.track,
        }
    }
}

/// The duration that a value stands for: none if the counter ran backwards.
#[inline(always)]
fn duration(value: u64) -> u64 {
    (value as i64).max(0) as u64
}

/// The group of an id; what is past the end is the last entry.
#[inline(always)]
fn look_up(groups: &[u32], id: u32) -> u32 {
    match groups.get(id as usize) {
        Some(&group) => group,
        None => groups.last().copied().unwrap_or(NO_GROUP),
    }
}
