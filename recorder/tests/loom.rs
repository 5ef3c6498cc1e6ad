//! Every interleaving of the recorder's own atomics, explored by loom.
//!
//! The source files are compiled a second time, against loom's atomics, so what
//! is checked is what runs.

#![allow(dead_code)]
#![allow(unsafe_code)] // the cells that loom watches

mod atomics {
    pub(crate) use loom::sync::atomic::{
        AtomicU8, AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    };
}
#[path = "../src/hot/in_flight.rs"]
mod in_flight;
#[path = "../src/hot/open_spans.rs"]
mod open_spans;
#[path = "../src/hot/ownership.rs"]
mod ownership;
#[path = "../src/rendezvous.rs"]
mod rendezvous;
#[path = "../src/cold/slot_states.rs"]
mod slot_states;

use loom::{cell::UnsafeCell, sync::Arc, thread};

use in_flight::{InFlight, Snapshot};
use open_spans::{OpenSpanCopy, OpenSpans};
use ownership::{DrainView, Ownership};
use rendezvous::Rendezvous;
use slot_states::SlotStates;

/// Runs a model in every order that loom can find.
///
/// A thread that loads what it then stores to hides from loom that another has loaded it
/// in between, so the one that only reads is the one that is spawned: it runs last at
/// first, and what it reads is put before one store after the other.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    explore_up_to(None, model);
}

/// The same for a model that has too many orders: only those in which a thread gives way
/// to another no more than so often before it has to.
fn explore_up_to(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = std::sync::Arc::clone(&runs);
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = preemptions;
    orders.check(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    assert!(runs.load(std::sync::atomic::Ordering::Relaxed) > 1, "no other order was found");
}

/// Opens a span as the hot path does.
fn enter<const N: usize>(stack: &InFlight<N>, start: u64, name: u32) -> u32 {
    stack.enter(start, name).unwrap_or_else(|| stack.enter_unlisted())
}

/// A frame that is not torn: the start is ten times the name.
fn is_whole(frame: (u64, u32)) -> bool {
    frame.0 == u64::from(frame.1) * 10
}

#[test]
fn a_snapshot_never_mixes_two_spans() {
    never_mixes(enter);
}

#[test]
fn a_snapshot_of_nested_spans_is_a_state_that_was() {
    is_a_state_that_was(enter);
}

/// As slices of `tracing` are opened, which know their place before they look at the clock.
#[cfg(feature = "tracing")]
#[test]
fn the_same_holds_for_spans_that_have_their_place_before_they_are_entered() {
    let enter: Enter = |stack, start, name| {
        let Some(room) = stack.room(name) else { return 9 };
        let place = room.place();
        room.enter(start);
        place
    };
    never_mixes(enter);
    is_a_state_that_was(enter);
}

type Enter = fn(&InFlight<2>, u64, u32) -> u32;

fn never_mixes(enter: Enter) {
    explore(move || {
        let stack = Arc::new(InFlight::<2>::new());
        let seen = Arc::clone(&stack);
        let reader = thread::spawn(move || {
            for frame in look(&seen, 1).1 {
                assert!(is_whole(frame) && frame.1 != 0, "{frame:?}");
            }
        });
        // Reuses frame 0 with another span: the case that could tear.
        for name in 1..=2 {
            let place = enter(&stack, u64::from(name) * 10, name);
            stack.leave(place);
        }
        enter(&stack, 30, 3);
        reader.join().unwrap();
        assert_eq!(listed(&stack), (1, vec![(30, 3)]));
    });
}

/// Looks so often at a stack that is in one of these states.
fn find_a_state(stack: &InFlight<2>, tries: u32, states: &[&[(u64, u32)]]) -> Vec<(u64, u32)> {
    let (found, frames) = look(stack, tries);
    let could_be = |state: &&[(u64, u32)]| {
        state.len() == found.depth as usize
            && if found.is_whole { **state == frames } else { state.starts_with(&frames) }
    };
    assert!(states.iter().any(could_be), "{found:?} {frames:?}");
    frames
}

fn is_a_state_that_was(enter: Enter) {
    explore(move || {
        let stack = Arc::new(InFlight::<2>::new());
        let outer = enter(&stack, 10, 1);
        let seen = Arc::clone(&stack);
        let reader = thread::spawn(move || {
            find_a_state(&seen, 1, &[&[(10, 1)], &[(10, 1), (20, 2)], &[], &[(30, 3)]]);
        });
        let inner = enter(&stack, 20, 2);
        stack.leave(inner);
        stack.leave(outer);
        enter(&stack, 30, 3);
        reader.join().unwrap();
    });
}

#[test]
fn a_span_that_stays_open_is_listed_however_fast_those_within_it_change() {
    explore_up_to(Some(3), || {
        let stack = Arc::new(InFlight::<2>::new());
        enter(&stack, 10, 1);
        let seen = Arc::clone(&stack);
        let reader = thread::spawn(move || {
            let states = [(20, 2), (30, 3), (40, 4)].map(|inner| [(10, 1), inner]);
            let frames = find_a_state(&seen, 2, &[&[(10, 1)], &states[0], &states[1], &states[2]]);
            assert_eq!(frames[0], (10, 1));
        });
        for name in 2..=4 {
            let inner = enter(&stack, u64::from(name) * 10, name);
            stack.leave(inner);
        }
        reader.join().unwrap();
    });
}

#[test]
fn what_two_torn_copies_agree_on_was_open_at_once() {
    explore_up_to(Some(3), || {
        let stack = Arc::new(InFlight::<2>::new());
        let outer = enter(&stack, 10, 1);
        let seen = Arc::clone(&stack);
        let reader = thread::spawn(move || {
            let last = [(30, 3), (40, 4)];
            find_a_state(&seen, 2, &[&[(10, 1)], &[], &[(20, 2)], &last[..1], &last]);
        });
        stack.leave(outer);
        let place = enter(&stack, 20, 2);
        stack.leave(place);
        enter(&stack, 30, 3);
        enter(&stack, 40, 4);
        reader.join().unwrap();
    });
}

#[test]
fn an_open_span_is_copied_whole_or_not_at_all() {
    explore(|| {
        let table = Arc::new(OpenSpans::<1>::new());
        let span = |id: u64| OpenSpanCopy { id, start: id * 10, name: id as u32, track: id as u32 };
        let seen = Arc::clone(&table);
        let reader = thread::spawn(move || {
            if let Some(copy) = seen.copy(0) {
                assert_eq!(copy, span(copy.id));
            }
        });
        for id in 1..=2 {
            if let Some(place) = table.open(span(id)) {
                table.close(place);
            }
        }
        reader.join().unwrap();
        assert_eq!(table.copy(0), None);
    });
}

#[test]
fn two_threads_never_get_the_same_place_for_an_open_span() {
    explore(|| {
        let table = Arc::new(OpenSpans::<2>::new());
        let span = |id: u64| OpenSpanCopy { id, start: id, name: 1, track: 1 };
        let other = Arc::clone(&table);
        // Two that begin to look at the same place.
        let second = thread::spawn(move || other.open(span(3)));
        let first = table.open(span(2));
        let second = second.join().unwrap();
        assert!(first.is_some() && second.is_some() && first != second);
    });
}

/// A snapshot and the frames that it lists.
fn look<const N: usize>(stack: &InFlight<N>, tries: u32) -> (Snapshot, Vec<(u64, u32)>) {
    // As the look before left them: with spans that may be taken for today's.
    let (mut frames, mut spare) = (Box::new([(20, 2); N]), Box::new([(20, 2); N]));
    let found = stack.snapshot(tries, &mut frames, &mut spare);
    (found, frames[..found.listed as usize].to_vec())
}

fn listed(stack: &InFlight<2>) -> (u32, Vec<(u64, u32)>) {
    let (found, frames) = look(stack, 1);
    assert!(found.is_whole, "nobody else writes");
    (found.depth, frames)
}

#[test]
fn spans_past_the_last_frame_are_counted_but_not_listed() {
    loom::model(|| {
        let stack = InFlight::<2>::new();
        let places: Vec<u32> = (0..5).map(|i| enter(&stack, i, 7)).collect();
        assert_eq!(listed(&stack), (5, vec![(0, 7), (1, 7)]));
        places.into_iter().rev().for_each(|place| stack.leave(place));
        assert_eq!(stack.depth(), 0);
    });
}

#[test]
fn a_forgotten_child_goes_with_its_parent() {
    loom::model(|| {
        let stack = InFlight::<2>::new();
        let outer = enter(&stack, 10, 1);
        enter(&stack, 20, 2);
        stack.leave(outer);
        assert_eq!(stack.depth(), 0);
    });
}

#[test]
fn a_span_that_outlives_its_parent_does_not_reopen_it() {
    loom::model(|| {
        let stack = InFlight::<2>::new();
        let outer = enter(&stack, 10, 1);
        let inner = enter(&stack, 20, 2);
        stack.leave(outer);
        stack.leave(inner);
        assert_eq!(stack.depth(), 0);
    });
}

#[test]
fn leaving_and_entering_again_changes_the_version() {
    loom::model(|| {
        let stack = InFlight::<2>::new();
        let place = enter(&stack, 10, 1);
        let before = stack.version();
        stack.leave(place);
        enter(&stack, 10, 1);
        assert_ne!(stack.version(), before);
    });
}

#[test]
fn a_full_table_of_open_spans_refuses_and_recovers() {
    loom::model(|| {
        let table = OpenSpans::<2>::new();
        let span = |id: u64| OpenSpanCopy { id, start: id, name: 1, track: 1 };
        let first = table.open(span(1)).expect("empty");
        assert!(table.open(span(2)).is_some());
        assert_eq!(table.open(span(3)), None);
        table.close(first);
        assert_eq!(table.open(span(4)), Some(first));
    });
}

/// A lane with what `Ownership` protects: loom reports any access that is not
/// ordered with the one before it.
struct Lane {
    ownership: Ownership,
    ring: UnsafeCell<u32>,
    owner: UnsafeCell<u32>,
}

// SAFETY: loom checks what `Ownership` promises.
unsafe impl Sync for Lane {}
// SAFETY: as above.
unsafe impl Send for Lane {}

impl Lane {
    fn record(&self) {
        // SAFETY: loom checks that nobody else has access.
        self.owner.with_mut(|owner| unsafe { *owner += 1 });
        self.ownership.settle();
        self.ownership.retire();
    }

    /// What the drain does with a lane: reads it, recycles it if its thread has gone.
    fn drain(&self) {
        match self.ownership.drain_view() {
            DrainView::Absent => {}
            view => {
                // SAFETY: loom checks that nobody else has access.
                self.ring.with_mut(|ring| unsafe { *ring += 1 });
                // SAFETY: loom checks that nobody writes meanwhile.
                self.owner.with(|owner| unsafe { *owner });
                if view == DrainView::Retired {
                    self.ownership.recycle();
                }
            }
        }
    }
}

#[test]
fn a_lane_has_one_holder_at_a_time_from_claim_to_recycling() {
    explore(|| {
        let lane = Arc::new(Lane {
            ownership: Ownership::new(),
            ring: UnsafeCell::new(0),
            owner: UnsafeCell::new(0),
        });
        let thread = |lane: &Arc<Lane>| {
            let lane = Arc::clone(lane);
            thread::spawn(move || {
                if lane.ownership.claim() {
                    // The claimant may replace the ring.
                    // SAFETY: loom checks that nobody else has access.
                    lane.ring.with_mut(|ring| unsafe { *ring = 0 });
                    lane.record();
                }
            })
        };
        let threads = [thread(&lane), thread(&lane)];
        lane.drain();
        lane.drain();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn an_answered_flush_has_seen_everything_recorded_before_it() {
    use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
    explore(|| {
        let shared = Arc::new((Rendezvous::new(), AtomicU32::new(0), AtomicU32::new(0)));
        let drain_side = Arc::clone(&shared);
        let drain = thread::spawn(move || {
            for _ in 0..2 {
                let (rendezvous, recorded, stored) = &*drain_side;
                let ticket = rendezvous.pending();
                stored.store(recorded.load(Relaxed), Relaxed);
                rendezvous.answer(ticket);
            }
        });
        let (rendezvous, recorded, stored) = &*shared;
        recorded.store(7, Relaxed);
        let ticket = rendezvous.ask();
        if rendezvous.is_done(ticket) {
            assert_eq!(stored.load(Relaxed), 7);
        }
        drain.join().unwrap();
    });
}

#[test]
fn a_refused_flush_was_refused_by_a_pass_that_had_seen_everything_recorded_before_it() {
    use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
    explore(|| {
        let shared = Arc::new((Rendezvous::new(), AtomicU32::new(0), AtomicU32::new(0)));
        let drain_side = Arc::clone(&shared);
        let drain = thread::spawn(move || {
            let (rendezvous, recorded, seen) = &*drain_side;
            for has_room in [false, true] {
                let ticket = rendezvous.pending();
                seen.store(recorded.load(Relaxed), Relaxed);
                if has_room { rendezvous.answer(ticket) } else { rendezvous.refuse(ticket) }
            }
        });
        let (rendezvous, recorded, seen) = &*shared;
        recorded.store(7, Relaxed);
        let ticket = rendezvous.ask();
        if rendezvous.is_refused(ticket) || rendezvous.is_done(ticket) {
            assert_eq!(seen.load(Relaxed), 7);
        }
        drain.join().unwrap();
    });
}

/// Slots whose bytes loom watches: it fails if both sides touch one at once.
struct Slots {
    states: SlotStates,
    bytes: Vec<UnsafeCell<u64>>,
}

// SAFETY: what is checked here is that the states keep the two sides apart.
unsafe impl Sync for Slots {}

#[test]
fn every_slot_is_sealed_once_and_in_order_and_never_while_it_is_filled() {
    const CHUNKS: u64 = 3;
    explore(|| {
        let bytes = (0..2).map(|_| UnsafeCell::new(0)).collect();
        let slots = Arc::new(Slots { states: SlotStates::new(2), bytes });
        let drain_side = Arc::clone(&slots);
        let drain = thread::spawn(move || {
            for chunk in 1..=CHUNKS {
                let (index, sequence) = loop {
                    match drain_side.states.take(|| chunk) {
                        Some(taken) => break taken,
                        None => thread::yield_now(),
                    }
                };
                // SAFETY: it is taken.
                drain_side.bytes[index].with_mut(|bytes| unsafe { *bytes = sequence * 10 });
                drain_side.states.hand_over(index);
            }
        });
        let mut sealed = 0;
        while sealed < CHUNKS {
            let Some(index) = slots.states.next_full() else {
                thread::yield_now();
                continue;
            };
            // SAFETY: it is full.
            let bytes = slots.bytes[index].with(|bytes| unsafe { *bytes });
            sealed += 1;
            assert_eq!(bytes, sealed * 10);
            slots.states.free(index);
        }
        drain.join().unwrap();
        assert_eq!((slots.states.next_full(), slots.states.full()), (None, 0));
    });
}

#[test]
fn what_is_recorded_before_the_end_is_sealed_by_then() {
    use loom::sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Release},
    };
    /// The steps of `recorder::finish`, between the three threads that take part.
    struct End {
        slots: Slots,
        recorded: UnsafeCell<u64>,
        stop_drain: AtomicBool,
        stop_sealer: AtomicBool,
    }
    // SAFETY: what is checked here is that the flags keep the sides apart.
    unsafe impl Sync for End {}
    explore_up_to(Some(3), || {
        let bytes = vec![UnsafeCell::new(0)];
        let end = Arc::new(End {
            slots: Slots { states: SlotStates::new(1), bytes },
            recorded: UnsafeCell::new(0),
            stop_drain: AtomicBool::new(false),
            stop_sealer: AtomicBool::new(false),
        });
        let drain_side = Arc::clone(&end);
        let drain = thread::spawn(move || {
            // Asked before the pass, which is the last one if so.
            while !drain_side.stop_drain.load(Acquire) {
                thread::yield_now();
            }
            // SAFETY: whoever asked does not record any more.
            let recorded = drain_side.recorded.with(|it| unsafe { *it });
            let (index, _) = drain_side.slots.states.take(|| 1).expect("the only one is free");
            // SAFETY: it is taken.
            drain_side.slots.bytes[index].with_mut(|bytes| unsafe { *bytes = recorded });
            drain_side.slots.states.hand_over(index);
        });
        let sealer_side = Arc::clone(&end);
        let sealer = thread::spawn(move || {
            let seal = || {
                let index = sealer_side.slots.states.next_full()?;
                // SAFETY: it is full.
                let bytes = sealer_side.slots.bytes[index].with(|bytes| unsafe { *bytes });
                sealer_side.slots.states.free(index);
                Some(bytes)
            };
            let mut sealed = None;
            while !sealer_side.stop_sealer.load(Acquire) {
                sealed = sealed.or_else(&seal);
                thread::yield_now();
            }
            // What the drain has left.
            sealed.or_else(seal)
        });
        // SAFETY: nobody looks before the drain is asked to stop.
        end.recorded.with_mut(|it| unsafe { *it = 7 });
        end.stop_drain.store(true, Release);
        drain.join().unwrap();
        end.stop_sealer.store(true, Release);
        assert_eq!(sealer.join().unwrap(), Some(7));
    });
}
