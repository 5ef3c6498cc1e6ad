//! What the drain decides, pass by pass, without its thread.

use std::{
    env,
    process::Command,
    sync::mpsc::{self, Sender},
};

use ringscope_format::{Kind, Layout, LostCause, Record, TrackKind};

use super::*;
use crate::{
    cold::sealing,
    config::Builder,
    hot::ring_pool::{MAX_LANES, attach_as, configure},
};

/// Runs a test in a process of its own: there is one drain in each, and what it makes ready once
/// is there for all tests.
fn alone<F: FnOnce()>(test: F) {
    const ALONE: &str = "RINGSCOPE_TEST_ALONE";
    if env::var_os(ALONE).is_some() {
        return test();
    }
    // `ringscope::module::test::{{closure}}` is `module::test` to the harness.
    let closure = std::any::type_name::<F>();
    let name = closure.trim_end_matches("::{{closure}}").split_once("::").unwrap().1;
    let mut again = Command::new(env::current_exe().unwrap());
    let output = again.args([name, "--exact", "--nocapture"]).env(ALONE, "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// A drain, its file in a directory that goes with it, and threads that have a ring each.
struct Scene {
    drain: Drain,
    /// Ends with its sender.
    threads: Vec<(&'static Lane, Sender<()>, thread::JoinHandle<()>)>,
    _dir: tempfile::TempDir,
}

fn scene(slots: u32, threads: usize, ring_records: usize) -> Scene {
    configure(Some(ring_records), 1 << 30);
    let ticks_per_second = clock::nominal_hz(clock::counter());
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::live((MAX_LANES + ASYNC_ENTRIES) as u32, slots, 16_384, 0);
    let file = Arc::new(TraceFile::for_a_test(&dir, layout));
    let sealing = Arc::new(Mutex::new(Sealing::new(Arc::clone(&file)).unwrap()));
    let shared = Arc::new(Shared::new(Builder::default().config, ticks_per_second));
    let drain = Drain::new(shared, sealing, file, 0);
    let begin = |_| {
        let (tell, told) = mpsc::channel();
        let (end, ends) = mpsc::channel();
        let thread = thread::spawn(move || {
            tell.send(attach_as(false).unwrap()).unwrap();
            ends.recv().unwrap_err();
        });
        (told.recv().unwrap(), end, thread)
    };
    Scene { drain, threads: (0..threads).map(begin).collect(), _dir: dir }
}

impl Scene {
    /// In the name of that thread, which does nothing by itself.
    fn record(&self, thread: usize, events: usize) {
        let lane = self.threads[thread].0;
        (0..events as u64)
            .for_each(|at| lane.push(Record::timed(Kind::SPAN, 1, lane.track(), at, 9)));
    }

    /// What is in the ring of that thread.
    fn left(&self, thread: usize) -> usize {
        self.threads[thread].0.consumer().slots()
    }

    fn end_threads(&mut self) {
        for (_, end, thread) in self.threads.drain(..) {
            drop(end);
            thread.join().unwrap();
        }
    }

    fn is_sealed(&self) -> bool {
        sealing::lock(&self.drain.sealing).sealed().is_some()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end_threads();
    }
}

#[test]
fn where_slots_are_scarce_every_full_ring_has_its_turn() {
    alone(|| {
        const RING: usize = 20_000; // more than a slot holds
        let mut scene = scene(1, 3, RING);
        let mut turns = [0; 3];
        for _ in 0..9 {
            (0..3).for_each(|thread| scene.record(thread, RING - scene.left(thread)));
            assert!(scene.drain.pass(true).blocked);
            (0..3).for_each(|thread| turns[thread] += usize::from(scene.left(thread) < RING));
            let mut sealing = sealing::lock(&scene.drain.sealing);
            assert!(sealing.finish().unwrap().is_some());
            sealing.written(|| ());
        }
        assert!(turns.iter().all(|turns| *turns >= 3), "{turns:?}");
    });
}

#[test]
fn what_was_lost_and_found_no_room_is_untold_until_a_table_has_it() {
    alone(|| {
        const RING: usize = 20_000; // more than a slot holds
        let mut scene = scene(1, 1, RING);
        scene.record(0, RING + 7);
        assert!(scene.drain.pass(true).blocked);
        let vitals = scene.drain.vitals;
        let full = LostCause::RingFull as usize;
        assert_eq!((vitals.lost[full], vitals.untold), (7, 7));
        // The next file of a rotation would tell it.
        let left = scene.drain.without_untold(vitals);
        assert_eq!((left.lost[full], left.untold, left.stored), (0, 0, vitals.stored));
        let make_room = |scene: &Scene| {
            let mut sealing = sealing::lock(&scene.drain.sealing);
            assert!(sealing.finish().unwrap().is_some());
            sealing.written(|| ());
        };
        make_room(&scene);
        assert!(!scene.drain.pass(true).blocked);
        assert_eq!((scene.drain.vitals.lost[full], scene.drain.vitals.untold), (7, 0));
        assert_eq!(scene.drain.without_untold(scene.drain.vitals).lost[full], 7);
        // What is given up is in no table, whatever comes later.
        scene.record(0, RING + 5);
        assert!(scene.drain.pass(true).blocked);
        let left = scene.left(0) as u64;
        scene.drain.give_up_the_rest();
        let file = LostCause::File as usize;
        let vitals = scene.drain.vitals;
        assert_eq!((vitals.lost[file], vitals.untold), (left, left + 5));
        make_room(&scene);
        assert!(!scene.drain.pass(true).blocked);
        assert_eq!(scene.drain.vitals.untold, left);
        assert_eq!(scene.drain.without_untold(scene.drain.vitals).untold, left);
    });
}

#[test]
fn a_span_that_began_on_a_thread_of_the_recorder_says_so() {
    alone(|| {
        let mut scene = scene(1, 1, 64);
        let kinds = [(false, TrackKind::Thread), (true, TrackKind::Recorder)];
        for (is_recorder, kind) in kinds {
            let (tell, told) = mpsc::channel();
            let (end, ends) = mpsc::channel::<()>();
            let thread = thread::spawn(move || {
                tell.send(attach_as(is_recorder).unwrap()).unwrap();
                ends.recv().unwrap_err();
            });
            // One that the drain has not met.
            let track = told.recv().unwrap().track();
            let mut bytes = Vec::new();
            assert!(scene.drain.push_home(&mut bytes, track));
            let mut found = None;
            ringscope_format::parse_tracks(&bytes, |track| found = Some((track.id, track.kind)));
            assert_eq!(found, Some((track, kind)));
            drop(end);
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_slot_that_is_closed_on_request_has_all_that_is_in_the_rings() {
    alone(|| {
        let mut scene = scene(4, 1, 100_000);
        scene.record(0, 20_000);
        assert!(scene.drain.pass(false).stretched);
        scene.drain.shared.close_slot.store(true, Ordering::Release);
        assert!(!scene.drain.pass(false).stretched);
        assert_eq!(scene.left(0), 0);
        assert_eq!(lock(&scene.drain.shared.at_last_close).0.stored, 20_000);
    });
}

/// How often the calling thread has let go of its core.
#[cfg(target_os = "linux")]
fn let_go() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

#[test]
#[cfg(target_os = "linux")] // which tells of pauses
fn between_two_stretches_there_is_a_pause() {
    alone(|| {
        let mut scene = scene(4, 1, 200_000);
        // What is stored to for the first time may have to be waited for as well.
        scene.record(0, 20_000);
        scene.drain.pass(true);
        scene.record(0, 30_000);
        let before = let_go();
        let (_, pass) = scene.drain.tick();
        assert!(let_go() - before >= 3);
        assert_eq!((pass.found.units, pass.stretched, scene.left(0)), (30_000, false, 0));
    });
}

#[test]
#[cfg(target_os = "linux")] // which tells of pauses
fn sealing_has_pauses_for_somebody_who_waits_for_the_core_unless_others_wait_for_the_drain() {
    alone(|| {
        let mut scene = scene(8, 1, 400_000);
        scene.record(0, 5 * 16_384);
        scene.drain.pass(true);
        let mut pauses = |stopping| {
            scene.drain.shared.stop_drain.store(stopping, Ordering::Release);
            let before = let_go();
            while !scene.is_sealed() {
                scene.drain.seal_a_little(Found::default());
            }
            let pauses = let_go() - before;
            sealing::lock(&scene.drain.sealing).written(|| ());
            pauses
        };
        let (with, without) = (pauses(false), pauses(true));
        // Whatever else a thread may have to wait for.
        assert!(with >= 4 && without < with / 2, "{with} and {without}");
    });
}

#[test]
fn a_clock_that_has_gone_back_is_compared_at_once_and_nothing_is_due_before_it_was_begun() {
    alone(|| {
        let mut scene = scene(2, 0, 64);
        scene.drain.pass(true);
        let pairs = scene.drain.pairs_taken;
        let later = clock::ticks() + scene.drain.shared.ticks(Duration::from_secs(1_000_000));
        let drain = &mut scene.drain;
        (drain.started, drain.slot_since, drain.last_pass, drain.next_pair) =
            (later, later, later, later);
        drain.dying_since = Some(later);
        drain.pass(true);
        let now = clock::ticks();
        let times = [drain.started, drain.slot_since, drain.last_pass, drain.dying_since.unwrap()];
        assert!(times.iter().all(|time| *time <= now), "{times:?}, at {now}");
        assert_eq!(drain.pairs_taken, pairs + 1);
        assert!(drain.next_pair <= now + drain.shared.ticks(Duration::from_secs(1)));
    });
}

#[test]
fn the_drain_leaves_sealing_to_the_sealer_while_rings_fill_up_or_nothing_can_be_written() {
    alone(|| {
        let mut scene = scene(4, 1, 100_000);
        scene.record(0, 20_000);
        scene.end_threads(); // who has gone does not wait for a core
        scene.drain.pass(true);
        assert_eq!(scene.drain.file.full_slots(), 1);
        let seal = |scene: &mut Scene, fill, most: u32| {
            for _ in 0..most {
                scene.drain.seal_a_little(Found { units: 0, fill });
                if scene.is_sealed() {
                    break;
                }
            }
            let hurries = scene.drain.shared.hurry.swap(false, Ordering::AcqRel);
            (scene.is_sealed(), hurries)
        };
        assert_eq!(seal(&mut scene, 0.2, 1_000), (false, true));
        scene.drain.shared.cannot_write.store(true, Ordering::Release);
        assert_eq!(seal(&mut scene, 0.2, 1_000), (false, false));
        assert_eq!(seal(&mut scene, 0.1, 1_000), (false, false));
        scene.drain.shared.cannot_write.store(false, Ordering::Release);
        assert_eq!(seal(&mut scene, 0.1, 1_000), (true, false));
    });
}

#[test]
fn who_waits_for_a_pass_or_for_slots_is_not_kept_waiting_by_pauses() {
    alone(|| {
        let scene = scene(1, 0, 64);
        let shared = &scene.drain.shared;
        let is_awaited = || raw_slot::is_awaited(shared);
        rendezvous_everyone();
        for asked in [&shared.hurry, &shared.stop_drain] {
            assert!(!is_awaited());
            asked.store(true, Ordering::Release);
            assert!(is_awaited());
            asked.store(false, Ordering::Release);
        }
        assert!(!is_awaited());
        let ticket = last_words::rendezvous().ask();
        assert!(is_awaited());
        last_words::rendezvous().answer(ticket);
        assert!(!is_awaited());
    });
}

#[test]
fn the_core_that_the_drain_has_left_is_known_until_it_is_back_and_nobody_waits() {
    alone(|| {
        let mut scene = scene(1, 0, 64);
        let drain = &mut scene.drain;
        let asked = drain.asked();
        let mut make_way = |waited| {
            drain.waited = waited;
            drain.behind(&asked, Pass::default());
            assert_eq!(drain.waited, None, "each tick begins anew");
            drain.shared.hot_core()
        };
        assert_eq!(make_way(Some(true)), None);
        let left = make_way(Some(true));
        let cores = thread::available_parallelism().unwrap().get();
        assert!(left.is_some() || cores == 1 || cfg!(not(target_os = "linux")));
        assert_eq!(make_way(None), left);
        // Where that is the system's to say.
        let shared = Arc::clone(&scene.drain.shared);
        let is_known = |_| {
            shared.set_hot_core(scheduling::core());
            scene.drain.waited = Some(false);
            scene.drain.behind(&asked, Pass::default());
            shared.hot_core().is_some()
        };
        assert!(!(0..1_000).all(is_known) || scheduling::core().is_none());
    });
}
