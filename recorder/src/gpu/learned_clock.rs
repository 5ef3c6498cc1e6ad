//! The clock of a device that cannot be read together with the host's, learned from its work.
//!
//! Every command buffer that is done says a little more of how the two clocks stand to each other
//! ([`ClockBounds`]), and is then recorded by what is known. The readings come from the
//! backend and nothing here asks a device, so that a [`SampleLog`] of a real run can be replayed
//! through the same code, with or without faults.

use std::mem::discriminant;

use super::{
    clock_bounds::{Bracket, ClockBounds, Narrowed},
    clock_map::{Moment, Pair},
    counter::DeviceCounter,
    sample::Sample,
    sample_log::{Entry, LoggedScope, Ran, SampleLog},
    source::Abilities,
    submissions::{Completion, Submissions},
};

/// Maps the readings of a device's counter to ticks of the host, by what that device has done.
#[derive(Debug)]
pub struct LearnedClock {
    counter: DeviceCounter,
    /// Length of the device's tick.
    tick_ns: f64,
    bounds: ClockBounds,
    log: Option<Log>,
}

#[derive(Debug)]
struct Log {
    /// Command buffers that are kept at most.
    most: usize,
    kept: usize,
    /// How many entries there were when the last of these was kept.
    full_at: usize,
    log: SampleLog,
}

impl LearnedClock {
    /// One that has learned nothing yet, of a counter whose tick has this length, on a host
    /// with so many ticks in a nanosecond.
    pub fn new(counter: DeviceCounter, tick_ns: f64, host_ticks_per_ns: f64) -> Self {
        let bounds = ClockBounds::new(counter, host_ticks_per_ns * tick_ns);
        Self { counter, tick_ns, bounds, log: None }
    }

    /// The host's rate is known better by now.
    pub fn set_host_rate(&mut self, host_ticks_per_ns: f64) {
        self.bounds.set_rate(host_ticks_per_ns * self.tick_ns);
        self.note(Entry::Rate(host_ticks_per_ns));
    }

    /// Learns from the samples, two each, of work that ran between these ticks of the host. What
    /// is not believed of them is left out.
    pub fn learn(&mut self, submitted: u64, done: u64, samples: &[u64]) {
        self.note_run(submitted, done, samples, Vec::new);
        self.learn_or_doubt(submitted, done, samples);
    }

    /// The device was seen at this tick to be done with a command buffer that sampled this:
    /// learns from it, and records its scopes. What it sampled are no times if it contradicts all
    /// that was learned: it may be what an earlier command buffer left there.
    pub fn complete(&mut self, submissions: &Submissions, id: u64, done: u64, samples: &[u64]) {
        let mut is_doubted = false;
        if let Some(submitted) = submissions.submitted_at(id) {
            let scopes = || submissions.scopes(id).iter().map(LoggedScope::from).collect();
            self.note_run(submitted, done, samples, scopes);
            is_doubted = self.learn_or_doubt(submitted, done, samples);
        }
        let completion = Completion { done, samples, whole: None };
        let at = |device| self.at(device).filter(|_| !is_doubted);
        submissions.complete(id, &completion, self.counter, at);
    }

    /// Learns from samples; returns whether they are doubted.
    fn learn_or_doubt(&mut self, submitted: u64, done: u64, samples: &[u64]) -> bool {
        let counter = self.counter;
        let is_before = |a: u64, b: u64| counter.between(a, b) > 0;
        let pairs = samples.chunks_exact(2).map(|pair| Sample { start: pair[0], end: pair[1] });
        let mut believed = pairs.filter_map(|sample| sample.believed(counter).ok());
        let Some(first) = believed.next() else { return false };
        let whole = believed.fold(first, |whole, next| Sample {
            start: if is_before(next.start, whole.start) { next.start } else { whole.start },
            end: if is_before(whole.end, next.end) { next.end } else { whole.end },
        });
        let Sample { start, end } = whole;
        let bracket = Bracket { not_before: submitted, start, end, not_after: done };
        self.bounds.narrow(bracket) == Narrowed::Doubted
    }

    /// When the counter said this; `None` before anything was learned.
    pub fn at(&self, device: u64) -> Option<Moment> {
        self.bounds.at(device)
    }

    /// What is known now, as the pair that a trace keeps.
    pub fn pair(&self) -> Option<Pair> {
        self.bounds.pair()
    }

    /// How often the device's clock jumped.
    pub fn jumps(&self) -> u32 {
        self.bounds.jumps()
    }

    /// Length of the device's tick, in nanoseconds.
    pub fn tick_ns(&self) -> f64 {
        self.tick_ns
    }

    /// From now on, keeps what is said of the first so many command buffers, before any of
    /// it is judged.
    pub fn keep_log(&mut self, most: usize, device: &str, abilities: Abilities) {
        let log = SampleLog {
            device: device.to_owned(),
            counter_bits: self.counter.bits(),
            tick_ns: self.tick_ns,
            abilities,
            entries: Vec::new(),
            left_out: 0,
        };
        self.log = Some(Log { most, kept: 0, full_at: 0, log });
    }

    /// What was kept, if that was asked for.
    pub fn log(&self) -> Option<&SampleLog> {
        self.log.as_ref().map(|log| &log.log)
    }

    /// Notes something in the log that is no command buffer. Behind the last command buffer that is
    /// kept there is only the newest of each kind: however long a run is, its log is not.
    pub fn note(&mut self, entry: Entry) {
        let Some(log) = &mut self.log else { return };
        let entries = &mut log.log.entries;
        if log.kept == log.most {
            let mut at = 0;
            entries.retain(|other| {
                at += 1;
                at <= log.full_at || discriminant(other) != discriminant(&entry)
            });
        }
        entries.push(entry);
    }

    fn note_run(
        &mut self,
        submitted: u64,
        done: u64,
        samples: &[u64],
        scopes: impl FnOnce() -> Vec<LoggedScope>,
    ) {
        let Some(log) = &mut self.log else { return };
        if log.kept == log.most {
            log.log.left_out += 1;
            return;
        }
        log.kept += 1;
        let samples = samples.to_vec();
        log.log.entries.push(Entry::Ran(Ran { submitted, done, samples, scopes: scopes() }));
        log.full_at = log.log.entries.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_first_and_last_of_a_command_buffer_bounds_the_clocks() {
        let mut clock = LearnedClock::new(DeviceCounter::FULL, 1.0, 3.0);
        assert_eq!(clock.at(1_000), None);
        clock.learn(30_000, 60_000, &[0, 0, 5_000, u64::MAX]);
        assert_eq!(clock.at(1_000), None, "nothing of it is a time");
        // Out of order, with a sample that is none: from 1,000 to 6,000.
        clock.learn(30_000, 60_000, &[3_000, 6_000, 0, 900, 1_000, 2_000]);
        assert_eq!(clock.at(1_000), Some(Moment { tick: 37_500, error: 7_500 }));
        assert_eq!(clock.pair(), Some(Pair { before: 30_000, after: 45_000, device: 1_000 }));
    }

    #[test]
    fn a_tick_of_another_length_is_another_rate() {
        // 24 MHz on 3 GHz: 125 ticks of the host in one of the device.
        let mut clock = LearnedClock::new(DeviceCounter::FULL, 1e9 / 24e6, 2.9);
        clock.set_host_rate(3.0);
        clock.learn(1_000, 2_000, &[100, 100]);
        let apart = clock.at(1_100).unwrap().tick - clock.at(100).unwrap().tick;
        assert_eq!(apart, 125_000);
    }

    #[test]
    fn a_log_keeps_the_first_and_counts_the_rest() {
        let mut clock = LearnedClock::new(DeviceCounter::of_bits(36), 2.0, 3.0);
        clock.learn(10, 20, &[1, 2]);
        assert_eq!(clock.log(), None, "nobody asked");
        clock.keep_log(2, "GPU 0", Abilities::default());
        for n in 1..=5 {
            clock.learn(n * 100, n * 100 + 50, &[n * 10, 0]);
        }
        clock.set_host_rate(3.5);
        let log = clock.log().unwrap();
        let ran = |n: u64| {
            let samples = vec![n * 10, 0];
            Entry::Ran(Ran { submitted: n * 100, done: n * 100 + 50, samples, scopes: vec![] })
        };
        assert_eq!(log.entries, [ran(1), ran(2), Entry::Rate(3.5)], "as it came");
        assert_eq!((log.left_out, log.counter_bits, log.tick_ns), (3, 36, 2.0));
    }

    #[test]
    fn a_log_that_is_full_grows_no_more() {
        let mut clock = LearnedClock::new(DeviceCounter::FULL, 1.0, 3.0);
        clock.keep_log(1, "GPU 0", Abilities::default());
        let host = |n: u64| Entry::Host { before: n, after: n + 1, mono_ns: n as i64 };
        for n in 0..3 {
            clock.note(host(n));
            clock.set_host_rate(3.0);
        }
        clock.learn(100, 150, &[10, 20]);
        for n in 3..10_000 {
            clock.note(host(n));
            clock.set_host_rate(3.0 + n as f64);
            clock.learn(n * 100, n * 100 + 50, &[n * 10, n * 10 + 5]);
        }
        let log = clock.log().unwrap();
        assert_eq!(log.entries.len(), 6 + 1 + 2, "as it came until then, and the newest");
        assert_eq!(log.entries[0], host(0));
        assert_eq!(log.entries[7..], [host(9_999), Entry::Rate(10_002.0)]);
        assert_eq!(log.left_out, 9_997);
    }
}
