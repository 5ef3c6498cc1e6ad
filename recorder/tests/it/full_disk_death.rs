//! A process dies while its file cannot be written: the file knows what it had no room for.

use std::{thread, time::Duration};

use ringscope::LostCause;
use ringscope_format::RecordingState;

use crate::{child::child, load::Load, posix};

/// More than the file and its raw slots can take.
const EVENTS: u64 = 60_000;
/// A record and the slots of its sixteen fields.
const UNITS: u64 = 9;

/// Records until nothing fits into the file any more, and the rings hold the rest.
fn record_more_than_fits() {
    let mut load = Load::new(1);
    while load.produced() < EVENTS {
        load.record(300);
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_handled_death_counts_what_the_rings_still_held() {
    let end = child(|scene| {
        posix::limit_file_size(14 << 20);
        std::mem::forget(scene.builder().start().unwrap());
        record_more_than_fits();
        std::process::abort();
    });
    let told = end.run().died_of(libc::SIGABRT).trace();
    told.adds_up();
    let vitals = told.vitals();
    assert_eq!(vitals.state, RecordingState::FatalSignal);
    assert_eq!(vitals.produced(), EVENTS);
    assert!(vitals.lost[LostCause::File as usize] > 0, "{vitals:?}");
    assert_eq!(vitals.waiting, 0);
}

#[test]
fn a_kill_leaves_the_number_of_what_waited_in_the_rings() {
    let end = child(|scene| {
        posix::limit_file_size(14 << 20);
        std::mem::forget(scene.builder().start().unwrap());
        record_more_than_fits();
        // A few ticks more, so that the last one has seen everything.
        thread::sleep(Duration::from_millis(300));
        posix::raise(libc::SIGKILL);
    });
    let told = end.run().died_of(libc::SIGKILL).trace();
    let vitals = told.vitals();
    assert_eq!(vitals.state, RecordingState::Recording);
    assert!(vitals.waiting > 0);
    // The recorder's own readings wait as well, a unit each.
    let of_the_program = vitals.waiting / UNITS;
    let missing = EVENTS - vitals.produced();
    assert!((missing..missing + 20).contains(&of_the_program), "{missing} of {vitals:?}");
}
