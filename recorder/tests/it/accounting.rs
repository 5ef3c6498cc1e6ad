//! produced = stored + lost + skipped, to the event.

use std::{sync::Barrier, thread, time::Duration};

use ringscope::{LostCause, Recorder, Summary, counter, event, span};
use ringscope_format::Trace;

#[cfg(target_os = "linux")]
use crate::{child::wait_until, posix};
use crate::{
    child::{Scene, child},
    told::Told,
};

/// A drain so slow that a small ring is full long before it comes.
const SLOW: Duration = Duration::from_millis(30);

fn finish(scene: &Scene, recorder: Recorder) -> Summary {
    let summary = recorder.finish().unwrap();
    scene.say("stored", summary.stored);
    scene.say("lost", summary.lost);
    scene.say("produced", summary.produced());
    assert_eq!(summary.problems, []);
    summary
}

#[test]
fn a_recording_that_keeps_up_stores_everything() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 0..5_000_u64 {
                        let _span = span!("outer", i = i);
                        let _span = span!("inner");
                        if i % 1_000 == 999 {
                            thread::sleep(Duration::from_millis(5));
                        }
                    }
                });
            }
        });
        let summary = finish(scene, recorder);
        assert_eq!((summary.stored, summary.lost, summary.skipped), (40_000, 0, 0));
        assert_eq!(
            summary.to_string(),
            format!(
                "{}: 40000 events stored, 0 lost, 0 skipped, {} bytes",
                scene.trace().display(),
                summary.bytes
            )
        );
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!(told.events.len(), 40_000);
}

#[test]
fn what_a_burst_loses_is_counted_by_thread_and_cause() {
    const EACH: u64 = 20_000;
    let end = child(|scene| {
        let builder = scene.builder().ring_records(64).ticks(SLOW, SLOW);
        let recorder = builder.start().unwrap();
        thread::scope(|scope| {
            for name in ["one", "two", "three"] {
                let burst = || (0..EACH).for_each(|i| drop(span!("step", i = i)));
                thread::Builder::new().name(name.into()).spawn_scoped(scope, burst).unwrap();
            }
        });
        let summary = finish(scene, recorder);
        assert_eq!(summary.produced(), 3 * EACH);
        assert_eq!(summary.lost_to(LostCause::RingFull), summary.lost);
        assert!(summary.lost > 0, "a ring of 64 cannot hold the burst");
    });
    let end = end.run().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!(told.events.len() as u64, end.number("stored"));
    assert_eq!(told.vitals().lost_slots[LostCause::RingFull as usize], end.number("lost"));
    for thread in ["one", "two", "three"] {
        let track = told.track_of(thread);
        let mine: Vec<_> = told.events.iter().filter(|event| event.track == track).collect();
        assert_eq!(mine.len() as u64 + told.lost(track, LostCause::RingFull), EACH);
        // The newest are lost: what is stored comes in order.
        assert!(mine.is_sorted_by(|a, b| a.number("i") < b.number("i")));
        let totals: Vec<u64> = told
            .trace
            .losses()
            .iter()
            .filter(|loss| loss.track == track)
            .scan(0, |sum, loss| {
                *sum += loss.events;
                assert_eq!(loss.total, *sum, "totals run along a track");
                Some(*sum)
            })
            .collect();
        assert!(!totals.is_empty());
    }
}

#[test]
fn a_loss_says_when_it_happened() {
    let end = child(|scene| {
        let tick = Duration::from_millis(5);
        let recorder = scene.builder().ring_records(64).ticks(tick, tick).start().unwrap();
        let (before, after) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            // Marks on a ring of their own, which is never full.
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                event!("quiet");
                assert!(recorder.flush());
                thread::sleep(Duration::from_millis(50));
                event!("burst begins");
                before.wait();
                after.wait();
                event!("burst is over");
            });
            scope.spawn(|| {
                before.wait();
                for _ in 0..10_000 {
                    counter!("burst", 1_u64);
                }
                after.wait();
            });
        });
        thread::sleep(Duration::from_millis(50));
        finish(scene, recorder);
    });
    let end = end.run().succeeded();
    let told = end.trace();
    assert!(end.number("lost") > 0);
    let (begin, over) = (told.only("burst begins").start, told.only("burst is over").start);
    for loss in told.trace.losses() {
        assert!(loss.not_after >= begin && loss.not_before <= over, "{loss:?}: {begin} to {over}");
        assert!(loss.not_before >= told.only("quiet").start, "{loss:?}");
    }
}

#[test]
#[cfg(target_os = "linux")] // for where the file is mapped
fn what_is_lost_while_the_drain_is_held_up_in_a_tick_is_noted_up_to_when_it_was_counted() {
    const PAGE: u64 = 4_096;
    let end = child(|scene| {
        let recorder = scene.builder().ring_records(512).ticks(SLOW, SLOW).start().unwrap();
        // More than a page of the slot: its first is stored to also where there is nothing new.
        (0..256).for_each(|_| event!("before"));
        assert!(recorder.flush());
        let layout = Told::read(&scene.trace()).trace.header().layout;
        let held = posix::hold_stores(&scene.trace(), layout.raw_offset + PAGE);
        event!("found by the tick");
        wait_until("the drain is held up", || held.one_waits());
        event!("while it is held up");
        (0..1_000).for_each(|_| event!("too many"));
        held.let_go();
        assert!(finish(scene, recorder).lost > 0);
    });
    let end = end.run().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up().losses_add_up();
    let begin = told.only("while it is held up").start;
    let losses = told.trace.losses();
    assert!(!losses.is_empty() && losses.iter().all(|loss| loss.not_after >= begin), "{losses:?}");
}

#[test]
fn a_ring_of_one_record_loses_most_and_counts_all() {
    let end = child(|scene| {
        let builder = scene.builder().ring_records(1).readings(Some(Duration::from_millis(10)));
        let recorder = builder.start().unwrap();
        for i in 0..3_000_u64 {
            let _outer = span!("outer");
            let _wide = span!("wide", i = i);
        }
        thread::sleep(Duration::from_millis(50));
        let summary = finish(scene, recorder);
        // The recorder's own readings have no room either, and are nobody's loss.
        assert_eq!(summary.produced(), 6_000);
        assert_eq!(summary.lost_to(LostCause::TooWide), 3_000);
        assert!(summary.stored > 0);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn an_event_wider_than_the_format_allows_is_lost_as_too_wide() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        macro_rules! wide {
            ($($key:ident)*) => { event!("wide", $($key = 1_u8),*) };
        }
        wide!(a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 c0 c1 c2 c3 c4 c5 c6 c7 c8 c9
              d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 f0 f1 f2 f3 f4 f5 f6 f7 f8 f9
              g0 g1);
        wide!(a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 c0 c1 c2 c3 c4 c5 c6 c7 c8 c9
              d0 d1 d2 d3 d4 d5 d6 d7 d8 d9 e0 e1 e2 e3 e4 e5 e6 e7 e8 e9 f0 f1 f2 f3 f4 f5 f6 f7 f8 f9
              g0 g1 g2);
        let summary = finish(scene, recorder);
        assert_eq!((summary.stored, summary.lost_to(LostCause::TooWide)), (1, 1));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!(told.only("wide").fields.len(), 62, "two to a slot");
}

#[test]
fn a_flush_puts_everything_so_far_where_others_can_read_it() {
    let end = child(|scene| {
        let hour = Duration::from_secs(3_600);
        // Nothing but the flush makes this drain look.
        let recorder = scene.builder().ticks(hour, hour).start().unwrap();
        for round in 1..=20_usize {
            (0..1_000).for_each(|_| drop(span!("step")));
            assert!(recorder.flush());
            let told = Told::read(&scene.trace());
            assert_eq!(told.events.len(), round * 1_000);
        }
        // The drain sleeps for an hour; finishing wakes it.
        drop(span!("last"));
        assert_eq!(finish(scene, recorder).stored, 20_001);
    });
    end.run().succeeded().trace().is_finished_and_adds_up().losses_add_up();
}

#[test]
fn a_file_can_be_read_while_it_is_written() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut last = 0;
                for _ in 0..15 {
                    let trace = Trace::open(std::fs::File::open(scene.trace()).unwrap()).unwrap();
                    assert_eq!(trace.damage(), []);
                    let events: u64 = trace.chunks().iter().map(|chunk| chunk.events as u64).sum();
                    assert!(events >= last, "{events} after {last}");
                    last = events;
                    thread::sleep(Duration::from_millis(5));
                }
                done.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                (0..2_000_u64).for_each(|i| drop(span!("step", i = i)));
                thread::sleep(Duration::from_millis(1));
            }
        });
        finish(scene, recorder);
    });
    end.run().succeeded().trace().is_finished_and_adds_up().losses_add_up();
}

#[test]
fn a_second_recording_starts_its_counts_and_its_file_afresh() {
    let end = child(|scene| {
        let small = || scene.builder().ring_records(16).ticks(SLOW, SLOW);
        let recorder = small().start().unwrap();
        (0..500).for_each(|_| drop(span!("first")));
        assert!(finish(scene, recorder).lost > 0);
        drop(span!("between"));
        let recorder = small().start().unwrap();
        drop(span!("second"));
        let summary = finish(scene, recorder);
        assert_eq!((summary.stored, summary.lost), (1, 0));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!(told.events.len(), 1);
    told.only("second");
}
