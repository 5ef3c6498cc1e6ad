//! The real run again, on devices whose clocks are not as good: they begin again, drift, jump, count
//! in another unit, or are looked at late.

use ringscope::gpu::{Entry, Ran, SampleLog};

use super::{
    replay::{
        AS_IT_WAS, Replayed, SCOPES, Truth, are_as_sampled, claims_hold, command_buffers, each_ran,
        play, real,
    },
    ticks,
};
use crate::child::child;

#[test]
fn without_the_passes_at_the_start_the_clock_is_learned_from_the_work() {
    fn uncalibrated() -> SampleLog {
        let mut log = real();
        let is_own = |entry: &Entry| matches!(entry, Entry::Ran(ran) if ran.scopes.is_empty());
        log.entries.retain(|entry| !is_own(entry));
        log
    }
    let end = child(|scene| play(scene, &uncalibrated(), AS_IT_WAS)).run();
    let (log, replayed) = (real(), Replayed::of(end));
    assert_eq!(replayed.report, "164 recorded");
    let (matches, truth) = (replayed.matches(&log), Truth::of(&log));
    are_as_sampled(&matches, truth.rate());
    claims_hold(&matches, &truth);
}

/// The counter has so many bits, and begins again in the middle of a matmul.
fn wrapped(bits: u32) -> SampleLog {
    let mut log = real();
    let matmul = command_buffers(&log).nth(20).unwrap().samples[..2].to_vec();
    let turn = matmul[0].midpoint(matmul[1]);
    let mask = (1_u64 << bits) - 1;
    let wrap = |sample: &mut u64| *sample = sample.wrapping_sub(turn) & mask;
    each_ran(&mut log, |ran| ran.samples.iter_mut().for_each(wrap));
    log
}

#[test]
fn a_real_run_on_a_counter_that_begins_again_is_the_same_run() {
    let end = child(|scene| {
        let mut log = wrapped(32);
        log.counter_bits = 32;
        play(scene, &log, AS_IT_WAS);
    });
    let wrapped = Replayed::of(end.run());
    let log = real();
    assert_eq!(wrapped.report, "164 recorded", "nothing rejected, no jump");
    let (matches, truth) = (wrapped.matches(&log), Truth::of(&log));
    are_as_sampled(&matches, truth.rate());
    claims_hold(&matches, &truth);
    assert!(matches.is_sorted_by_key(|one| one.event.start));
}

#[test]
fn a_counter_that_begins_again_unannounced_costs_one_command_buffer_its_times() {
    // As wgpu has it, which does not tell how many bits count.
    let end = child(|scene| play(scene, &wrapped(32), AS_IT_WAS)).run();
    let (log, replayed) = (real(), Replayed::of(end));
    assert_eq!(
        replayed.report,
        "164 recorded, 4 of them with the times of their command buffer, \
         1 timestamps not believed (end before start), 3 timestamps not believed (clock not \
         mapped), 1 jumps of the device's clock"
    );
    let ((exact, coarse), truth) = (replayed.matches_and_coarse(&log), Truth::of(&log));
    assert_eq!((coarse.as_slice(), exact.len()), (&[20][..], SCOPES - 4));
    are_as_sampled(&exact, truth.rate());
    claims_hold(&exact, &truth);
}

/// The same run on a counter of 19.2 MHz.
fn at_19_2_mhz() -> SampleLog {
    let mut log = real();
    let slower = |sample: &mut u64| *sample = (u128::from(*sample) * 192 / 10_000) as u64;
    each_ran(&mut log, |ran| ran.samples.iter_mut().for_each(slower));
    log.tick_ns = 1e9 / 19.2e6;
    log
}

#[test]
fn a_real_run_on_a_counter_of_another_period_is_the_same_run() {
    let end = child(|scene| play(scene, &at_19_2_mhz(), AS_IT_WAS)).run();
    let (log, slower, replayed) = (real(), at_19_2_mhz(), Replayed::of(end));
    assert_eq!(replayed.report, "164 recorded");
    let truth = Truth::of(&log);
    are_as_sampled(&replayed.matches(&slower), truth.rate() * slower.tick_ns);
    // And as the real one says, to a tick of the slower clock at each end.
    let tick = truth.rate() * slower.tick_ns;
    for one in replayed.matches(&log) {
        let off = one.took() as f64 - one.sampled_ticks(truth.rate());
        assert!(off.abs() <= tick + 2.0 + one.took() as f64 * 20e-6, "{}: {off}", one.event.name);
    }
}

#[test]
fn a_period_that_is_wrong_is_noticed() {
    let end = child(|scene| {
        let mut log = real();
        log.tick_ns = 1.1;
        play(scene, &log, AS_IT_WAS);
    });
    let (log, replayed) = (real(), Replayed::of(end.run()));
    for (event, _) in replayed.events() {
        let submitted = event.start - ticks(&event, "queue");
        let ran = command_buffers(&log).find(|ran| ran.submitted == submitted);
        assert!(event.end <= ran.expect("a submission").done, "{event:?}");
    }
    // Either its samples do not fit into the submission, or they contradict the ones before.
    for noticed in ["timestamps not believed (outside of its submission)", "jumps of the device"] {
        assert!(replayed.report.contains(noticed), "{}", replayed.report);
    }
}

/// The run so many times over, half a second apart: long enough for clocks to part.
fn lasting(times: u64) -> SampleLog {
    const APART_NS: u64 = 500_000_000;
    let mut log = real();
    let rate = Truth::of(&log).rate();
    let rans = log.entries.iter().filter(|entry| matches!(entry, Entry::Ran(_)));
    let once: Vec<Entry> = rans.cloned().collect();
    for time in 1..times {
        let later_ns = time * APART_NS;
        let later = (later_ns as f64 * rate).round() as u64;
        log.entries.extend(once.iter().cloned().map(|entry| match entry {
            Entry::Ran(Ran { submitted, done, samples, scopes }) => Entry::Ran(Ran {
                submitted: submitted + later,
                done: done + later,
                samples: samples.into_iter().map(|sample| sample + later_ns).collect(),
                scopes,
            }),
            other => other,
        }));
    }
    log
}

/// The device's clock is so much too fast.
fn drifting(mut log: SampleLog, by: f64) -> SampleLog {
    let mut first = None;
    each_ran(&mut log, |ran| {
        for sample in &mut ran.samples {
            let since = *sample - *first.get_or_insert(*sample);
            *sample += (since as f64 * by).round() as u64;
        }
    });
    log
}

#[test]
fn a_clock_that_drifts_as_far_as_clocks_may_is_followed() {
    // Ten seconds: the clocks part by two milliseconds, which is more than any bracket leaves open.
    let end = child(|scene| play(scene, &drifting(lasting(20), 190e-6), AS_IT_WAS)).run();
    let (log, replayed) = (lasting(20), Replayed::of(end));
    assert_eq!(replayed.report, format!("{} recorded", 20 * SCOPES), "no jump");
    let truth = Truth::of(&log);
    are_as_sampled(&replayed.matches(&drifting(lasting(20), 190e-6)), truth.rate());
    // Where they are is what the real clock says.
    claims_hold(&replayed.matches(&log), &truth);
}

#[test]
fn a_clock_that_runs_away_is_begun_anew_and_its_work_stays_where_it_can_have_been() {
    let end = child(|scene| play(scene, &drifting(real(), 0.01), AS_IT_WAS)).run();
    let (fast, replayed) = (drifting(real(), 0.01), Replayed::of(end));
    assert!(replayed.report.contains(" jumps of the device's clock"), "{}", replayed.report);
    let (exact, coarse) = replayed.matches_and_coarse(&fast);
    are_as_sampled(&exact, Truth::of(&fast).rate());
    assert!(exact.len() >= SCOPES / 2, "but {} command buffers", coarse.len());
}

#[test]
fn a_device_that_is_reset_half_way_is_found_again() {
    fn reset() -> SampleLog {
        let mut log = real();
        let at = command_buffers(&log).nth(20).unwrap().samples[0];
        let begin_again = |sample: &mut u64| {
            if *sample >= at {
                *sample -= at - 1_000;
            }
        };
        each_ran(&mut log, |ran| ran.samples.iter_mut().for_each(begin_again));
        log
    }
    let end = child(|scene| play(scene, &reset(), AS_IT_WAS)).run();
    let (log, replayed) = (real(), Replayed::of(end));
    // The first of them after the reset has only its successor to speak for it.
    assert_eq!(
        replayed.report,
        "164 recorded, 4 of them with the times of their command buffer, \
         4 timestamps not believed (clock not mapped), 1 jumps of the device's clock"
    );
    let ((exact, coarse), truth) = (replayed.matches_and_coarse(&log), Truth::of(&log));
    assert_eq!((coarse.as_slice(), exact.len()), (&[20][..], SCOPES - 4));
    are_as_sampled(&exact, truth.rate());
    claims_hold(&exact, &truth);
}

#[test]
fn whoever_looks_late_learns_less_and_claims_no_more() {
    fn late() -> SampleLog {
        let mut log = real();
        // From 0 to 10 ms, at 2.6 GHz.
        let mut number = 0;
        each_ran(&mut log, |ran| {
            ran.done += number * 7_919 % 26_000 * 1_000;
            number += 1;
        });
        log
    }
    let end = child(|scene| play(scene, &late(), AS_IT_WAS)).run();
    let (log, replayed) = (late(), Replayed::of(end));
    assert_eq!(replayed.report, "164 recorded");
    let (matches, truth) = (replayed.matches(&log), Truth::of(&log));
    are_as_sampled(&matches, truth.rate());
    claims_hold(&matches, &truth);
}
