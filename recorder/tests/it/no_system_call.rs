//! Nothing on the hot path asks the system for anything: a thread that may not any more
//! goes on recording.

#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use ringscope::{CallSite, ThreadHandle, register_thread};

use crate::{child::child, no_allocation::everything, posix, told::stored_by};

const TURNS: u64 = 2_000;
/// What `everything` records in one turn.
const EVENTS: u64 = 11;
const ALL: u64 = (TURNS + 1) * EVENTS;

#[test]
fn a_thread_that_may_make_no_system_call_records_all_the_same() {
    let end = child(|scene| {
        let recorder = scene.builder().ring_records(1 << 18).start().unwrap();
        std::mem::forget(recorder);
        assert!(register_thread());
        let (thread, named) = (ThreadHandle::current(), CallSite::named("named"));
        // The first use of a call site is cold.
        everything(&thread, named, 0);
        let vitals = posix::map_vitals(&scene.trace());
        posix::no_more_system_calls();
        (0..TURNS).for_each(|i| everything(&thread, named, i));
        // The drain may, and takes what is there; the clock is read without a call.
        let begun = Instant::now();
        while stored_by(&vitals()) < ALL && begun.elapsed() < Duration::from_secs(20) {
            std::hint::spin_loop();
        }
        posix::exit_at_once(0);
    });
    let told = end.run().exited_with(0).trace();
    assert_eq!(told.vitals().produced(), ALL);
    assert_eq!(told.vitals().total_lost(), 0);
}

#[test]
fn one_that_makes_a_system_call_after_that_is_killed() {
    let end = child(|_| {
        posix::no_more_system_calls();
        std::thread::yield_now();
    });
    end.run().died_of(libc::SIGSYS);
}
