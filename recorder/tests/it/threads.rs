//! Threads come and go; rings are few and are handed on.

use std::{
    cell::RefCell,
    sync::{Barrier, Mutex},
    thread,
    time::Duration,
};

use ringscope::{
    LostCause, Span, async_span, counter, event, name, record_metric, span, vocabulary::MetricEvent,
};
use ringscope_format::OwnedValue;

use crate::{
    child::{child, wait_until},
    posix,
    told::{Told, stored},
};

#[test]
#[cfg(target_os = "linux")]
fn a_thread_for_whose_ring_there_is_no_memory_has_its_events_counted() {
    const THREADS: usize = 24;
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let [are_there, may_begin] = [const { Barrier::new(THREADS + 1) }; 2];
        let have_rings = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    are_there.wait();
                    may_begin.wait();
                    (0..100).for_each(|_| drop(span!("step")));
                    have_rings.wait(); // or one thread's ring might be the next one's
                });
            }
            are_there.wait();
            posix::limit_more_memory(Some(20 << 20));
            may_begin.wait();
        });
        posix::limit_more_memory(None);
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.produced(), 100 * THREADS as u64);
        assert!(summary.stored > 0 && summary.lost_to(LostCause::NoRing) > 0, "{summary}");
    });
    // What glibc keeps for each thread would be room for rings.
    let end = end.environment("MALLOC_ARENA_MAX", 1).run().succeeded();
    end.trace().is_finished_and_adds_up().losses_add_up();
}

#[test]
fn ten_thousand_threads_two_hundred_alive_at_once_lose_nothing() {
    const ROUNDS: usize = 50;
    const ALIVE: usize = 200;
    let end = child(|scene| {
        // Rings of 512 KiB: as many as there may be, however late the drain comes.
        let builder = scene.builder().ring_records(16_384);
        let recorder = builder.readings(Some(Duration::from_millis(20))).start().unwrap();
        for _ in 0..ROUNDS {
            let all_there = Barrier::new(ALIVE);
            thread::scope(|scope| {
                for _ in 0..ALIVE {
                    let short = || {
                        let _span = span!("thread");
                        all_there.wait();
                        drop(span!("work"));
                    };
                    thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, short).unwrap();
                }
            });
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (2 * (ROUNDS * ALIVE) as u64, 0));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let rings = told.own.iter().filter(|event| event.name == "recorder.rings");
    let most = rings.map(|event| match event.value {
        Some(OwnedValue::U64(rings)) => rings,
        ref other => panic!("{other:?}"),
    });
    // Those alive, those of a few rounds whose rings are not drained yet, and the recorder's own.
    let most = most.max().unwrap();
    assert!(most <= 5 * ALIVE as u64 + 1, "{most} rings");
    let mut tracks: Vec<u32> = told.named("thread").iter().map(|event| event.track).collect();
    tracks.sort_unstable();
    tracks.dedup();
    assert_eq!(tracks.len(), ROUNDS * ALIVE, "each has a track of its own");
    assert!(told.open().is_empty());
}

/// Compression is not to go before what is measured.
#[cfg(target_os = "linux")]
#[test]
fn the_recorders_threads_are_as_nice_as_their_program() {
    let end = child(|scene| {
        crate::posix::be_nice(7);
        let recorder = scene.builder().start().unwrap();
        drop(span!("step"));
        recorder.flush();
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let task = task.unwrap().path();
            let read = |file| std::fs::read_to_string(task.join(file)).unwrap();
            let name = read("comm");
            if name.starts_with("ringscope") {
                let stat = read("stat");
                let (_, fields) = stat.rsplit_once(") ").unwrap();
                // The nineteenth field of all, and the seventeenth behind the name.
                scene.say(name.trim(), fields.split(' ').nth(16).unwrap());
            }
        }
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    assert_eq!((end.number("ringscope-drain"), end.number("ringscope-seal")), (7, 7));
}

/// The drain dozes when there is nothing to do, and wakes for whoever begins to record.
#[test]
fn a_new_thread_ends_the_drains_doze_and_an_endless_tick_does_not_kill_it() {
    let end = child(|scene| {
        let builder = scene.builder().ticks(Duration::from_micros(200), Duration::MAX);
        // One burst fits into the ring, and two do not.
        let recorder = builder.ring_records(61_440).start().unwrap();
        thread::sleep(Duration::from_millis(900));
        let work = || {
            assert!(ringscope::register_thread());
            (0..50_000).for_each(|_| drop(span!("step")));
            wait_until("the drain has come", || stored(&scene.trace()) == 50_000);
            (0..50_000).for_each(|_| drop(span!("step")));
        };
        thread::scope(|scope| scope.spawn(work).join().unwrap());
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (100_000, 0));
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn a_thread_that_gets_no_ring_has_its_events_counted_as_lost() {
    const RING: usize = 1_024;
    let end = child(|scene| {
        // Room for the recorder's own ring and two more.
        let budget = 3 * 32 * RING as u64;
        let recorder = scene.builder().ring_records(RING).ring_budget(budget).start().unwrap();
        let (got, done) = (Mutex::new(0), Barrier::new(6));
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let first = span!("first");
                    *got.lock().unwrap() += u64::from(first.is_recording());
                    drop(first);
                    (0..9).for_each(|_| drop(span!("more", x = 1_u8)));
                    done.wait();
                });
            }
        });
        assert_eq!(*got.lock().unwrap(), 2);
        // Those who come when the others have gone get theirs.
        wait_until("a ring is free", || thread::spawn(ringscope::register_thread).join().unwrap());
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost_to(LostCause::NoRing)), (20, 40));
        assert_eq!(summary.lost, 40);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!(told.lost(0, LostCause::NoRing), 40);
    assert_eq!(told.vitals().lost_slots[LostCause::NoRing as usize], 36);
}

#[test]
fn an_event_without_a_ring_loses_as_many_slots_as_it_has_with_one() {
    fn one_of_each() {
        drop(span!("span", a = 1_u8, b = 2_u8, c = "text"));
        event!("event", a = 1_u8, b = 2_u8, c = 3_u8);
        async_span!("async", a = 1_u8).end();
        record_metric!(MetricEvent::Allocate { bytes: 1, kind: name!("scratch"), device: 0 });
    }
    let end = child(|scene| {
        let recorder =
            scene.builder().ring_records(1_024).ring_budget(2 * 32 * 1_024).start().unwrap();
        one_of_each();
        thread::spawn(one_of_each).join().unwrap();
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost_to(LostCause::NoRing)), (4, 4));
        // What one recording lost is not told again by the next.
        let recorder = scene.builder().path(scene.path("next.trace")).start().unwrap();
        thread::spawn(one_of_each).join().unwrap();
        assert_eq!(recorder.finish().unwrap().lost, 0);
    });
    let end = end.run().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up().losses_add_up();
    let slots = told.vitals().stored_slots;
    assert_eq!((slots > 6, told.vitals().lost_slots[LostCause::NoRing as usize]), (true, slots));
    Told::read(&end.path("next.trace")).is_finished_and_adds_up().losses_add_up();
}

#[test]
fn what_tracing_tells_without_a_ring_loses_as_many_slots_as_it_has_with_one() {
    fn one_of_each() {
        tracing::info!(a = 1, b = "a text that takes a slot of its own", "happened");
        tracing::error!(code = 7, "went wrong");
        drop(tracing::info_span!("never entered", size = 3));
    }
    let end = child(|scene| {
        let recorder =
            scene.builder().ring_records(1_024).ring_budget(2 * 32 * 1_024).start().unwrap();
        ringscope::tracing::Subscriber::new().install().unwrap();
        one_of_each();
        thread::spawn(one_of_each).join().unwrap();
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost_to(LostCause::NoRing)), (3, 3));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let slots = told.vitals().stored_slots;
    assert_eq!((slots > 6, told.vitals().lost_slots[LostCause::NoRing as usize]), (true, slots));
}

#[test]
fn a_budget_below_one_ring_still_gives_one_to_the_program() {
    let end = child(|scene| {
        let builder = scene.builder().ring_budget(1).readings(Some(Duration::from_millis(10)));
        let recorder = builder.start().unwrap();
        (0..100).for_each(|_| drop(span!("step")));
        thread::sleep(Duration::from_millis(50));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (100, 0));
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn a_thread_without_a_ring_asks_again_and_gets_one() {
    let end = child(|scene| {
        let recorder =
            scene.builder().ring_records(8_192).ring_budget(2 * 32 * 8_192).start().unwrap();
        let mut tried = 0_u64;
        let (taken, leave) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                counter!("holder", 1_u64);
                taken.wait();
                leave.wait();
            });
            let waiting = scope.spawn(|| {
                taken.wait();
                assert!(!ringscope::register_thread());
                leave.wait();
                let mut tried = 0;
                while !ringscope::register_thread() {
                    counter!("waiting", 1_u64);
                    tried += 1;
                    if tried % 256 == 0 {
                        thread::sleep(Duration::from_millis(1));
                    }
                }
                tried
            });
            tried = waiting.join().unwrap();
        });
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.produced(), 1 + tried);
        assert!(summary.lost_to(LostCause::NoRing) >= tried - 1);
    });
    end.run().succeeded().trace().is_finished_and_adds_up().losses_add_up();
}

/// Records a span when its thread ends.
struct RecordsAtExit(&'static str);

impl Drop for RecordsAtExit {
    fn drop(&mut self) {
        match self.0 {
            "before us" => drop(span!("before us")),
            _ => drop(span!("after us", x = 1_u8)),
        }
    }
}

thread_local! {
    static FIRST_USED: RecordsAtExit = const { RecordsAtExit("after us") };
    static LAST_USED: RecordsAtExit = const { RecordsAtExit("before us") };
    static KEPT: RefCell<Vec<Span>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn spans_recorded_while_a_thread_exits_are_stored_or_counted() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        for _ in 0..10 {
            let thread = thread::spawn(|| {
                // Destructors run in the reverse order of first use.
                FIRST_USED.with(|_| ());
                drop(span!("while alive"));
                LAST_USED.with(|_| ());
            });
            thread.join().unwrap();
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost_to(LostCause::ThreadExit)), (20, 10));
        assert_eq!(summary.lost, 10);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!((told.named("while alive").len(), told.named("before us").len()), (10, 10));
    assert_eq!(told.vitals().lost_slots[LostCause::ThreadExit as usize], 10);
}

#[test]
fn a_guard_that_outlives_its_threads_ring_is_counted_and_harms_nobody() {
    let end = child(|scene| {
        // One ring for all of them: the next thread has it when the guard drops.
        let recorder = scene.builder().ring_records(512).ring_budget(2 * 32 * 512).start().unwrap();
        for _ in 0..20 {
            let thread = thread::spawn(|| {
                KEPT.with_borrow_mut(Vec::clear);
                let kept = span!("kept");
                assert!(kept.is_recording());
                drop(span!("inner"));
                KEPT.with_borrow_mut(|spans| spans.push(kept));
            });
            thread.join().unwrap();
            // Its ring is back before the next thread comes.
            assert!(recorder.flush());
            wait_until("the ring is free again", || {
                thread::spawn(ringscope::register_thread).join().unwrap()
            });
            assert!(recorder.flush());
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost_to(LostCause::ThreadExit)), (20, 20));
        assert_eq!(summary.lost, 20);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert!(told.named("inner").iter().all(|inner| inner.depth == 1));
    assert!(told.open().is_empty(), "the stack went with the thread");
}

#[test]
fn threads_that_share_a_ring_one_after_the_other_keep_their_tracks_apart() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        for i in 0..30_u64 {
            let work = move || (0..100).for_each(|_| drop(span!("work", owner = i)));
            thread::Builder::new().name(format!("worker {i}")).spawn(work).unwrap().join().unwrap();
        }
        assert_eq!(recorder.finish().unwrap().stored, 3_000);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    for event in &told.events {
        assert_eq!(told.thread_of(event), format!("worker {}", event.number("owner")));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_recorder_threads_that_follow_one_another_share_a_ring() {
    let anonymous = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let end = child(|_| {
        let begun = anonymous();
        for _ in 0..100 {
            thread::spawn(|| {
                let thread = ringscope::ThreadHandle::current();
                assert!(!span!(in thread, "not recorded").is_recording());
            })
            .join()
            .unwrap();
        }
        let grown = (anonymous() - begun) / 1_024;
        assert!(grown < 32, "100 threads took {grown} MiB");
    });
    end.run().succeeded();
}
