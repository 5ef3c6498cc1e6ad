//! The real run again, with faults in what the device says: each comes out as a coarser source or a
//! count, and nothing else of the run is touched.

use ringscope::gpu::{Entry, Ran, SampleLog};

use super::{
    replay::{
        AS_IT_WAS, Match, Replayed, Stage, Truth, claims_hold, command_buffers, each_ran, play,
        real,
    },
    ticks,
};
use crate::child::child;

const SCOPES: usize = 164;
const COMMAND_BUFFERS: usize = 41;

/// Every fifth pair of samples is changed, at most one in a command buffer: 33 in all.
fn spoiled(fault: fn(&mut [u64])) -> SampleLog {
    let mut log = real();
    let mut number = 0;
    each_ran(&mut log, |ran| {
        for pair in ran.samples.chunks_exact_mut(2).filter(|_| !ran.scopes.is_empty()) {
            if number % 5 == 0 {
                fault(pair);
            }
            number += 1;
        }
    });
    assert_eq!(number, SCOPES);
    log
}

/// Those that were spoiled have the time of their submission, the others are as they were.
#[track_caller]
fn the_rest_is_as_it_was(replayed: &Replayed, why: &str) {
    assert_eq!(
        replayed.report,
        format!(
            "{SCOPES} recorded, 33 of them with the times of their command buffer, \
             33 timestamps not believed ({why})"
        )
    );
    let log = real();
    let (matches, truth) = (replayed.matches(&log), Truth::of(&log));
    let (coarse, exact): (Vec<_>, Vec<_>) =
        matches.into_iter().enumerate().partition(|(number, _)| number % 5 == 0);
    for (_, one) in coarse {
        assert_eq!(one.source, "submit to done", "{}", one.event.name);
        assert_eq!((one.event.start, one.event.end), (one.ran.submitted, one.ran.done));
    }
    let exact: Vec<Match<'_>> = exact.into_iter().map(|(_, one)| one).collect();
    are_as_sampled(&exact, truth.rate());
    claims_hold(&exact, &truth);
}

/// Each lies within its submission and lasts as long as its samples say.
#[track_caller]
fn are_as_sampled(matches: &[Match<'_>], rate: f64) {
    assert!(!matches.is_empty());
    for one in matches {
        one.lies_within();
        assert_ne!(one.source, "submit to done", "{}", one.event.name);
        let (off, sampled) = (one.took() as f64 - one.sampled_ticks(rate), one.sampled_ticks(rate));
        assert!(off.abs() <= 1.0 + sampled * 20e-6, "{}: off by {off}", one.event.name);
    }
}

#[test]
fn zeros_among_real_samples_are_no_times() {
    let end = child(|scene| play(scene, &spoiled(|pair| pair.fill(0)), AS_IT_WAS)).run();
    the_rest_is_as_it_was(&Replayed::of(end), "sample is zero");
}

#[test]
fn an_end_that_is_zero_after_a_real_start_is_no_time() {
    let end = child(|scene| play(scene, &spoiled(|pair| pair[1] = 0), AS_IT_WAS)).run();
    the_rest_is_as_it_was(&Replayed::of(end), "sample is zero");
}

#[test]
fn error_values_among_real_samples_are_no_times() {
    let end = child(|scene| play(scene, &spoiled(|pair| pair[1] = u64::MAX), AS_IT_WAS)).run();
    the_rest_is_as_it_was(&Replayed::of(end), "sample is an error value");
}

#[test]
fn ends_before_their_starts_among_real_samples_are_no_times() {
    let end = child(|scene| play(scene, &spoiled(|pair| pair.swap(0, 1)), AS_IT_WAS)).run();
    the_rest_is_as_it_was(&Replayed::of(end), "end before start");
}

#[test]
fn a_device_that_samples_nothing_has_the_times_of_submissions() {
    fn silent() -> SampleLog {
        let mut log = real();
        each_ran(&mut log, |ran| ran.samples.fill(0));
        log
    }
    let end = child(|scene| play(scene, &silent(), AS_IT_WAS)).run();
    let replayed = Replayed::of(end);
    assert!(replayed.report.starts_with("164 recorded, 164 of them with the times"));
    let (events, log) = (replayed.events(), real());
    assert_eq!(events.len(), COMMAND_BUFFERS, "one record for each command buffer");
    for ((event, source), ran) in events.iter().zip(command_buffers(&log)) {
        assert_eq!((event.name, source.as_str()), ("matmul + 3 more", "submit to done"));
        assert_eq!((event.start, event.end), (ran.submitted, ran.done));
    }
}

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
fn a_counter_that_begins_again_unannounced_costs_one_kernel_its_time() {
    // As wgpu has it, which does not tell how many bits count.
    let end = child(|scene| play(scene, &wrapped(32), AS_IT_WAS)).run();
    let (log, replayed) = (real(), Replayed::of(end));
    assert_eq!(
        replayed.report,
        "164 recorded, 1 of them with the times of their command buffer, \
         1 timestamps not believed (end before start), 1 jumps of the device's clock"
    );
    let (matches, truth) = (replayed.matches(&log), Truth::of(&log));
    let (coarse, exact): (Vec<_>, Vec<_>) =
        matches.into_iter().partition(|one| one.source == "submit to done");
    assert_eq!((coarse.len(), coarse[0].event.name), (1, "matmul"));
    assert!(std::ptr::eq(coarse[0].ran, command_buffers(&log).nth(20).unwrap()));
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

/// The device's clock is so much too fast.
fn drifting(by: f64) -> SampleLog {
    let mut log = real();
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
    let end = child(|scene| play(scene, &drifting(190e-6), AS_IT_WAS)).run();
    let (log, fast, replayed) = (real(), drifting(190e-6), Replayed::of(end));
    assert_eq!(replayed.report, "164 recorded");
    let truth = Truth::of(&log);
    are_as_sampled(&replayed.matches(&fast), truth.rate());
    // Where they are is what the real clock says.
    claims_hold(&replayed.matches(&log), &truth);
}

#[test]
fn a_clock_that_runs_away_is_begun_anew_and_its_work_stays_where_it_can_have_been() {
    let end = child(|scene| play(scene, &drifting(0.01), AS_IT_WAS)).run();
    let (fast, replayed) = (drifting(0.01), Replayed::of(end));
    assert!(replayed.report.contains(" jumps of the device's clock"), "{}", replayed.report);
    are_as_sampled(&replayed.matches(&fast), Truth::of(&fast).rate());
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
    assert_eq!(replayed.report, "164 recorded, 1 jumps of the device's clock");
    let (matches, truth) = (replayed.matches(&log), Truth::of(&log));
    are_as_sampled(&matches, truth.rate());
    claims_hold(&matches, &truth);
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

#[test]
fn completions_of_a_real_run_come_in_any_order() {
    /// Every six command buffers that were seen to be done are seen in the opposite order.
    fn shuffled() -> SampleLog {
        let mut log = real();
        let is_work = |entry: &Entry| matches!(entry, Entry::Ran(ran) if !ran.scopes.is_empty());
        let places: Vec<usize> =
            (0..log.entries.len()).filter(|&at| is_work(&log.entries[at])).collect();
        for six in places.chunks(6) {
            for at in 0..six.len() / 2 {
                log.entries.swap(six[at], six[six.len() - 1 - at]);
            }
        }
        log
    }
    let end = child(|scene| play(scene, &shuffled(), AS_IT_WAS)).run();
    let (log, replayed) = (shuffled(), Replayed::of(end));
    assert_eq!(replayed.report, "164 recorded");
    let (mut matches, truth) = (replayed.matches(&log), Truth::of(&log));
    assert!(!matches.is_sorted_by_key(|one| one.ran.submitted));
    are_as_sampled(&matches, truth.rate());
    claims_hold(&matches, &truth);
    matches.sort_by_key(|one| (one.ran.submitted, one.start));
    assert!(matches.is_sorted_by_key(|one| one.event.start), "the device's order is not lost");
}

#[test]
fn what_of_a_real_run_never_completes_is_counted_and_the_rest_is_timed() {
    fn most(number: usize) -> bool {
        number % 10 != 3
    }
    let end = child(|scene| play(scene, &real(), Stage { completes: most, ..AS_IT_WAS })).run();
    let replayed = Replayed::of(end);
    // Numbers 3, 13, 23 and 33.
    assert_eq!(replayed.report, "148 recorded, 16 not completed");
    assert_eq!(replayed.told.only("kernel.untimed").number("count"), 16);
    let mut log = real();
    let mut number = 0;
    log.entries.retain(|entry| match entry {
        Entry::Ran(Ran { scopes, .. }) if !scopes.is_empty() => {
            number += 1;
            most(number - 1)
        }
        _ => true,
    });
    let (matches, truth) = (replayed.matches(&log), Truth::of(&log));
    are_as_sampled(&matches, truth.rate());
    claims_hold(&matches, &truth);
}

#[test]
fn a_device_that_is_lost_in_a_real_run_takes_what_was_in_flight() {
    let end = child(|scene| play(scene, &real(), Stage { lost_after: 15, ..AS_IT_WAS })).run();
    let (log, replayed) = (real(), Replayed::of(end));
    // Those that were submitted before the sixteenth was done, and completed after it was lost.
    let sixteenth = command_buffers(&log).nth(15).unwrap();
    let in_flight =
        command_buffers(&log).skip(15).filter(|it| it.submitted <= sixteenth.done).count();
    assert!(in_flight > 1, "several were in flight");
    assert_eq!(
        replayed.report,
        format!(
            "60 recorded, 104 lost with the device, {in_flight} completions of nothing in flight"
        )
    );
    let untimed = replayed.told.named("kernel.untimed");
    let counts: Vec<u64> = untimed.iter().map(|event| event.number("count")).collect();
    assert_eq!(counts[0], in_flight as u64 * 4);
    assert_eq!(counts.iter().sum::<u64>(), 104);
    assert_eq!(replayed.events().len(), 60);
}

#[test]
fn with_fewer_slots_than_a_real_run_had_in_flight_some_are_coarse() {
    let end = child(|scene| play(scene, &real(), Stage { blocks: 2, ..AS_IT_WAS })).run();
    let replayed = Replayed::of(end);
    let events = replayed.events();
    let coarse = events.iter().filter(|(event, _)| event.name == "matmul + 3 more").count();
    let exact = events.iter().filter(|(_, source)| source != "submit to done").count();
    assert!((1..20).contains(&coarse), "{coarse} found no slot");
    assert_eq!((events.len(), exact), (coarse + exact, SCOPES - coarse * 4));
    let times = coarse * 4;
    assert_eq!(
        replayed.report,
        format!(
            "164 recorded, {times} of them with the times of their command buffer, \
             {coarse} without a slot for timestamps"
        )
    );
}

#[test]
fn a_device_that_can_sample_less_has_coarser_sources() {
    fn passes_only() -> SampleLog {
        let mut log = real();
        (log.abilities.inside_encoder, log.abilities.inside_pass) = (false, false);
        log
    }
    let end = child(|scene| play(scene, &passes_only(), AS_IT_WAS)).run();
    let (log, replayed) = (real(), Replayed::of(end));
    assert_eq!(replayed.report, "164 recorded, 41 of them with the times of their command buffer");
    let (copies, kernels): (Vec<_>, Vec<_>) =
        replayed.matches(&log).into_iter().partition(|one| one.event.name == "read back");
    assert_eq!(copies.len(), COMMAND_BUFFERS);
    assert!(copies.iter().all(|one| one.source == "submit to done"));
    assert!(kernels.iter().all(|one| one.source == "pass boundary"));
    are_as_sampled(&kernels, Truth::of(&log).rate());
}
