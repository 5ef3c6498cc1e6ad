//! The scopes of one track, and which of them holds a record (SPEC 10.1).
//!
//! Scopes are kept by their start. Of those that began before a record, the last one that
//! has not ended yet is asked for; each knows the nearest one before it that outlasts it, so
//! those that ended within it need not be looked at.

use std::cmp::Reverse;

/// When on its track something was, in ticks: start, end (of a point its start), and depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) depth: u8,
}

impl Place {
    /// Whether a record that is there is in the scope that is here.
    pub(crate) fn holds(&self, record: Place) -> bool {
        let begun =
            self.start < record.start || self.start == record.start && self.depth <= record.depth;
        begun && (record.start < self.end || record.end <= self.end)
    }

    /// Of scopes that hold a record, the one with the greatest is the innermost.
    pub(crate) fn innermost(&self) -> (u64, u8, Reverse<u64>) {
        (self.start, self.depth, Reverse(self.end))
    }
}

/// A time that a track worked for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    pub(super) place: Place,
    /// The number of the request; [`NOBODY`] if it is nobody's.
    pub(super) request: u32,
}

/// In place of the number of a request.
pub(super) const NOBODY: u32 = u32::MAX;

/// The scopes of one track.
#[derive(Clone, Debug, Default)]
pub(super) struct TrackScopes {
    /// By start; of those of one tick, the innermost last.
    all: Vec<Scope>,
    /// Of each, the place of the nearest before it that ends later, and one more; 0 for none.
    outlasted_by: Vec<u32>,
}

/// Bytes that a scope takes, at most, while all are put in order.
pub(super) const BYTES: u64 = 2 * (size_of::<Scope>() + size_of::<u32>()) as u64;

impl TrackScopes {
    /// From scopes in the order of the file, in which the inner one of two comes first.
    pub(super) fn new(mut all: Vec<Scope>) -> Self {
        all.reverse();
        all.sort_by_key(|scope| scope.place.innermost());
        let mut outlasted_by = vec![0_u32; all.len()];
        for at in 0..all.len() {
            let mut before = at as u32;
            while before > 0 && all[before as usize - 1].place.end <= all[at].place.end {
                before = outlasted_by[before as usize - 1];
            }
            outlasted_by[at] = before;
        }
        Self { all, outlasted_by }
    }

    /// The request that a record was done for.
    pub(super) fn request(&self, record: Place) -> Option<u32> {
        let mut next = self.all.partition_point(|scope| scope.place.start <= record.start);
        while let Some(at) = next.checked_sub(1) {
            let scope = &self.all[at];
            if scope.place.holds(record) {
                return Some(scope.request).filter(|&request| request != NOBODY);
            }
            // Of those that began in this very tick, depths decide, and not ends.
            let is_tied = scope.place.start == record.start;
            next = if is_tied { at } else { self.outlasted_by[at] as usize };
        }
        None
    }

    /// By start.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Scope> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope(start: u64, end: u64, depth: u8, request: u32) -> Scope {
        Scope { place: Place { start, end, depth }, request }
    }

    fn point(at: u64, depth: u8) -> Place {
        Place { start: at, end: at, depth }
    }

    #[test]
    fn of_scopes_within_each_other_the_innermost_counts() {
        let scopes = TrackScopes::new(vec![
            scope(20, 30, 0, 2),
            scope(40, 50, 0, NOBODY),
            scope(10, 60, 0, 1),
        ]);
        let found = [5, 15, 25, 35, 45, 55, 65].map(|at| scopes.request(point(at, 0)));
        assert_eq!(found, [None, Some(1), Some(2), Some(1), None, Some(1), None]);
    }

    #[test]
    fn what_begins_in_the_first_tick_is_in_unless_it_is_around_the_scope() {
        let scopes = TrackScopes::new(vec![scope(10, 20, 1, 1)]);
        let span = |depth| scopes.request(Place { start: 10, end: 30, depth });
        assert_eq!((span(0), span(1)), (None, Some(1)));
    }

    #[test]
    fn what_begins_in_the_last_tick_is_in_if_it_is_over_with_it() {
        let scopes = TrackScopes::new(vec![scope(10, 20, 0, 1)]);
        let span = |start, end| scopes.request(Place { start, end, depth: 0 });
        assert_eq!((span(20, 20), span(20, 21), span(19, 99)), (Some(1), None, Some(1)));
        let empty = TrackScopes::new(vec![scope(10, 10, 0, 1)]);
        assert_eq!(empty.request(point(10, 0)), Some(1));
    }

    #[test]
    fn scopes_that_were_left_in_the_wrong_order_end_where_they_ended() {
        let scopes = TrackScopes::new(vec![scope(10, 30, 0, 1), scope(20, 40, 0, 2)]);
        let found = [15, 25, 35].map(|at| scopes.request(point(at, 0)));
        assert_eq!(found, [Some(1), Some(2), Some(2)]);
    }

    /// As the format says it, one scope after the other.
    fn naive(scopes: &[Scope], place: Place) -> Option<u32> {
        let holding = scopes.iter().enumerate().filter(|(_, it)| {
            let scope = it.place;
            let begun = scope.start <= place.start
                && !(scope.start == place.start && place.depth < scope.depth);
            let goes_on =
                place.start < scope.end || place.start == scope.end && place.end == scope.end;
            begun && goes_on
        });
        let innermost = holding.max_by_key(|(at, it)| {
            let Place { start, end, depth } = it.place;
            (start, depth, Reverse(end), Reverse(*at))
        });
        innermost.map(|(_, scope)| scope.request).filter(|&request| request != NOBODY)
    }

    proptest! {
        #[test]
        fn the_innermost_scope_is_the_one_that_a_look_at_all_of_them_finds(
            scopes in prop::collection::vec((0_u64..60, 0_u64..30, 0_u8..4, 0_u32..5), 0..40),
            places in prop::collection::vec((0_u64..100, 0_u64..20, 0_u8..4), 1..40),
        ) {
            let scopes: Vec<Scope> = scopes
                .into_iter()
                .map(|(start, ticks, depth, request)| {
                    scope(start, start + ticks, depth, if request == 4 { NOBODY } else { request })
                })
                .collect();
            let indexed = TrackScopes::new(scopes.clone());
            for (start, ticks, depth) in places {
                let place = Place { start, end: start + ticks, depth };
                prop_assert_eq!(indexed.request(place), naive(&scopes, place), "{:?}", place);
            }
        }
    }
}
