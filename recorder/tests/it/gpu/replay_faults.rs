//! The real run again, with faults in what the device says and in when: each comes out as a coarser source or a
//! count, and nothing else of the run is touched.

use ringscope::gpu::{Entry, Ran, SampleLog};

use super::replay::{
    AS_IT_WAS, Match, Replayed, SCOPES, Stage, Truth, are_as_sampled, claims_hold, command_buffers,
    each_ran, play, real,
};
use crate::child::child;

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

/// Every fifth command buffer has the samples of the last that was done before it was submitted, and
/// the one after it has them once more; with the numbers of both.
fn stale() -> (SampleLog, Vec<usize>) {
    let (mut log, mut number) = (real(), 0);
    let mut done: Vec<(u64, Vec<u64>)> = Vec::new();
    let mut spoiled = Vec::new();
    let mut left: Option<Vec<u64>> = None;
    each_ran(&mut log, |ran| {
        if ran.scopes.is_empty() {
            return;
        }
        let own = (ran.done, ran.samples.clone());
        if number % 5 == 0 {
            let mut earlier = done.iter().rev().filter(|(at, _)| *at < ran.submitted);
            left = earlier.next().map(|(_, samples)| samples.clone());
        }
        if let Some(samples) = left.as_ref().filter(|_| number % 5 < 2) {
            ran.samples.clone_from(samples);
            spoiled.push(number);
        }
        done.push(own);
        number += 1;
    });
    (log, spoiled)
}

#[test]
fn samples_that_an_earlier_command_buffer_left_are_no_times() {
    let end = child(|scene| play(scene, &stale().0, AS_IT_WAS)).run();
    let (log, spoiled, replayed) = (real(), stale().1, Replayed::of(end));
    assert!(spoiled.len() > 10, "{spoiled:?}");
    let times = spoiled.len() * 4;
    assert_eq!(
        replayed.report,
        format!(
            "164 recorded, {times} of them with the times of their command buffer, \
             {times} timestamps not believed (clock not mapped)"
        ),
        "and the clock has not jumped"
    );
    let ((exact, coarse), truth) = (replayed.matches_and_coarse(&log), Truth::of(&log));
    assert_eq!((coarse, exact.len()), (spoiled, SCOPES - times));
    are_as_sampled(&exact, truth.rate());
    claims_hold(&exact, &truth);
}
