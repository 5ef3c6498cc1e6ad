//! What a device said in a real run, as text: before any of it was judged, in the order in which it
//! came.
//!
//! For a report of times that look wrong, and for tests: what is here is all that
//! a [`LearnedClock`](super::LearnedClock) is told, so that a run on a device that is elsewhere can be
//! looked into, and had again with other faults.
//!
//! # Format
//!
//! ```text
//! ringscope gpu samples 1
//! device GPU 0 llvmpipe (LLVM 15.0.6, 256 bits)
//! counter 64 bits of 1 ns
//! can pass-boundary inside-pass inside-encoder
//! host 81000 81060 at 27000 ns
//! rate 3 ticks in a ns
//! ran 90000 to 99000
//!   30200 30210
//! ran 120000 to 150000
//!   41000 42000 kernel pass-boundary matmul
//!   42100 42300 copy inside-encoder read back
//!   - - kernel submit-to-done softmax
//! left out 7
//! ```
//!
//! `host` is a reading of the host's monotonic clock between two ticks, `rate` the host's from
//! there on. Each `ran` is a command buffer, in the order in which they were seen to be
//! done: the tick at which it was submitted, that at which it was seen, and a line for
//! each two samples, in readings of the device's counter. What they are of follows; samples
//! without are the profiler's own, or of what is not recorded. Empty lines, and lines that
//! begin with `#`, say nothing.
//!
//! **Limits.** How much was copied is left out, and line ends in names are blanks. What failed, or
//! never completed, is not in it.

use std::{fmt, str::FromStr};

use super::{
    recording::Work,
    source::{Abilities, TimingSource},
    submissions::Scope,
};

const TITLE: &str = "ringscope gpu samples 1";

/// What a device said in a run; printed, it is the text.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleLog {
    /// Its name, and the name of its queue.
    pub device: String,
    /// How many bits of its counter count.
    pub counter_bits: u32,
    /// Length of its tick, in nanoseconds.
    pub tick_ns: f64,
    /// What it can sample.
    pub abilities: Abilities,
    /// In the order in which it came.
    pub entries: Vec<Entry>,
    /// Command buffers past the limit of the log.
    pub left_out: u64,
}

/// One thing that was said.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A reading of the host's monotonic clock, in nanoseconds, between two ticks.
    Host {
        /// Tick before.
        before: u64,
        /// Tick after.
        after: u64,
        /// What the clock said.
        mono_ns: i64,
    },
    /// Ticks of the host in a nanosecond, from here on.
    Rate(f64),
    /// A command buffer that is done.
    Ran(Ran),
}

/// A command buffer that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Tick of the host at which it was submitted.
    pub submitted: u64,
    /// Tick at which it was seen to be done.
    pub done: u64,
    /// Its samples, two for each scope that has any.
    pub samples: Vec<u64>,
    /// What they are of; none for the profiler's own.
    pub scopes: Vec<LoggedScope>,
}

/// A scope of a command buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedScope {
    /// What it is called.
    pub name: String,
    /// What it is around; how much is not kept.
    pub work: Work,
    /// Where in [`Ran::samples`] its two begin, and how they were taken.
    pub sampled: Option<(u32, TimingSource)>,
}

impl From<&Scope> for LoggedScope {
    fn from(scope: &Scope) -> Self {
        let work = match scope.work {
            Work::Kernel => Work::Kernel,
            Work::Copy { .. } => Work::COPY,
            Work::Fill { .. } => Work::Fill { bytes: None },
        };
        let name = scope.launched.name().replace(['\n', '\r'], " ");
        Self { name, work, sampled: scope.sampled }
    }
}

impl fmt::Display for SampleLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}")?;
        writeln!(f, "device {}", self.device.replace(['\n', '\r'], " "))?;
        writeln!(f, "counter {} bits of {} ns", self.counter_bits, self.tick_ns)?;
        f.write_str("can")?;
        let timed = TimingSource::ALL.into_iter().filter(|&it| it != TimingSource::SubmitToDone);
        let mut can = timed.filter(|&source| self.abilities.has(source));
        can.try_for_each(|source| write!(f, " {}", word(source)))?;
        writeln!(f)?;
        for entry in &self.entries {
            match entry {
                Entry::Host { before, after, mono_ns } => {
                    writeln!(f, "host {before} {after} at {mono_ns} ns")?;
                }
                Entry::Rate(rate) => writeln!(f, "rate {rate} ticks in a ns")?,
                Entry::Ran(ran) => ran.fmt(f)?,
            }
        }
        if self.left_out > 0 {
            writeln!(f, "left out {}", self.left_out)?;
        }
        Ok(())
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ran {} to {}", self.submitted, self.done)?;
        for (at, pair) in self.samples.chunks(2).enumerate() {
            write!(f, "  {} {}", pair[0], pair.get(1).copied().unwrap_or(0))?;
            let of = |scope: &&LoggedScope| scope.sampled.is_some_and(|it| it.0 == at as u32 * 2);
            match self.scopes.iter().find(of) {
                Some(scope) => writeln!(f, " {scope}")?,
                None => writeln!(f)?,
            }
        }
        let mut unsampled = self.scopes.iter().filter(|scope| scope.sampled.is_none());
        unsampled.try_for_each(|scope| writeln!(f, "  - - {scope}"))
    }
}

impl fmt::Display for LoggedScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.work {
            Work::Kernel => "kernel",
            Work::Copy { .. } => "copy",
            Work::Fill { .. } => "fill",
        };
        let source = self.sampled.map_or(TimingSource::SubmitToDone, |it| it.1);
        write!(f, "{kind} {} {}", word(source), self.name)
    }
}

/// What a line of a log should have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleLogError {
    line: usize,
    expected: &'static str,
}

impl fmt::Display for SampleLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}", self.line, self.expected)
    }
}

impl std::error::Error for SampleLogError {}

impl FromStr for SampleLog {
    type Err = SampleLogError;

    fn from_str(text: &str) -> Result<Self, SampleLogError> {
        let mut log = Self {
            device: String::new(),
            counter_bits: 0,
            tick_ns: 0.0,
            abilities: Abilities::default(),
            entries: Vec::new(),
            left_out: 0,
        };
        let mut has_title = false;
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let read = match std::mem::replace(&mut has_title, true) {
                true => log.read_line(line),
                false => (line == TITLE).then_some(()).ok_or(TITLE),
            };
            read.map_err(|expected| SampleLogError { line: at + 1, expected })?;
        }
        if log.counter_bits == 0 {
            return Err(SampleLogError { line: text.lines().count() + 1, expected: COUNTER });
        }
        Ok(log)
    }
}

const COUNTER: &str = "counter BITS bits of LENGTH ns";
const SCOPE: &str = "START END, and perhaps KIND SOURCE NAME, below a command buffer";

impl SampleLog {
    /// Takes one line; if it cannot, what should have been there.
    fn read_line(&mut self, line: &str) -> Result<(), &'static str> {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split(' ').collect();
        match (key, &words[..]) {
            ("device", _) => self.device = rest.to_owned(),
            ("counter", [bits, "bits", "of", tick_ns, "ns"]) => {
                self.counter_bits =
                    number(bits).filter(|it| (1..=64).contains(it)).ok_or(COUNTER)?;
                self.tick_ns = number(tick_ns).filter(|&it| it > 0.0).ok_or(COUNTER)?;
            }
            ("can", _) => {
                for can in rest.split_whitespace() {
                    let source = source(can).filter(|&it| it != TimingSource::SubmitToDone);
                    let source = source.ok_or("can, and what it can sample")?;
                    self.abilities = self.abilities.with(source);
                }
            }
            ("host", [before, after, "at", mono_ns, "ns"]) => {
                let read = || Some((number(before)?, number(after)?, number(mono_ns)?));
                let (before, after, mono_ns) = read().ok_or("host TICK TICK at TIME ns")?;
                self.entries.push(Entry::Host { before, after, mono_ns });
            }
            ("rate", [rate, "ticks", "in", "a", "ns"]) => {
                let rate = number(rate).filter(|&it| it > 0.0);
                self.entries.push(Entry::Rate(rate.ok_or("rate TICKS ticks in a ns")?));
            }
            ("ran", [submitted, "to", done]) => {
                let read = || Some((number(submitted)?, number(done)?));
                let (submitted, done) = read().ok_or("ran TICK to TICK")?;
                let (samples, scopes) = Default::default();
                self.entries.push(Entry::Ran(Ran { submitted, done, samples, scopes }));
            }
            ("", ["", start, end, of @ ..]) => match self.entries.last_mut() {
                Some(Entry::Ran(ran)) => ran.read_scope(start, end, of).ok_or(SCOPE)?,
                _ => return Err(SCOPE),
            },
            ("", _) => return Err(SCOPE),
            ("left", ["out", count]) => self.left_out = number(count).ok_or("left out COUNT")?,
            _ => return Err("counter, can, host, rate, ran, left out, or two samples"),
        }
        Ok(())
    }
}

impl Ran {
    fn read_scope(&mut self, start: &str, end: &str, of: &[&str]) -> Option<()> {
        let is_sampled = (start, end) != ("-", "-");
        let first = self.samples.len() as u32;
        if is_sampled {
            self.samples.extend([number::<u64>(start)?, number(end)?]);
        }
        let [kind, from, name @ ..] = of else {
            return (of.is_empty() && is_sampled).then_some(());
        };
        let work = match *kind {
            "kernel" => Work::Kernel,
            "copy" => Work::COPY,
            "fill" => Work::Fill { bytes: None },
            _ => return None,
        };
        let source = source(from).filter(|&it| is_sampled == (it != TimingSource::SubmitToDone))?;
        let sampled = is_sampled.then_some((first, source));
        self.scopes.push(LoggedScope { name: name.join(" "), work, sampled });
        Some(())
    }
}

fn number<T: FromStr>(word: &str) -> Option<T> {
    word.parse().ok()
}

/// A source in one word.
fn word(source: TimingSource) -> String {
    source.name().replace(' ', "-")
}

fn source(text: &str) -> Option<TimingSource> {
    TimingSource::ALL.into_iter().find(|&source| word(source) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That of the documents above.
    fn example() -> String {
        let text = include_str!("sample_log.rs").lines();
        let text = text.skip_while(|line| *line != "//! ```text").skip(1);
        let text = text.take_while(|line| *line != "//! ```");
        text.map(|line| format!("{}\n", &line["//! ".len()..])).collect()
    }

    #[test]
    fn the_example_of_the_documents_is_read_and_written_as_it_is() {
        let log: SampleLog = example().parse().unwrap();
        assert_eq!(log.to_string(), example());
        assert_eq!((log.counter_bits, log.tick_ns, log.left_out), (64, 1.0, 7));
        assert_eq!(log.device, "GPU 0 llvmpipe (LLVM 15.0.6, 256 bits)");
        let can = Abilities {
            pass_boundary: true,
            inside_pass: true,
            inside_encoder: true,
            ..Abilities::default()
        };
        assert_eq!(log.abilities, can);
        assert_eq!(log.entries[0], Entry::Host { before: 81_000, after: 81_060, mono_ns: 27_000 });
        assert_eq!(log.entries[1], Entry::Rate(3.0));
        let own =
            Ran { submitted: 90_000, done: 99_000, samples: vec![30_200, 30_210], scopes: vec![] };
        assert_eq!(log.entries[2], Entry::Ran(own));
        let scope =
            |name: &str, work, sampled| LoggedScope { name: name.to_owned(), work, sampled };
        let ran = Ran {
            submitted: 120_000,
            done: 150_000,
            samples: vec![41_000, 42_000, 42_100, 42_300],
            scopes: vec![
                scope("matmul", Work::Kernel, Some((0, TimingSource::PassBoundary))),
                scope("read back", Work::COPY, Some((2, TimingSource::InsideEncoder))),
                scope("softmax", Work::Kernel, None),
            ],
        };
        assert_eq!(log.entries[3..], [Entry::Ran(ran)]);
    }

    #[test]
    fn a_rate_and_the_largest_numbers_come_back_as_they_were() {
        let mut log: SampleLog = example().parse().unwrap();
        let rate = 2.099_999_987_654_321;
        let ran = Ran { submitted: 0, done: u64::MAX, samples: vec![0, u64::MAX], scopes: vec![] };
        log.entries = vec![Entry::Rate(rate), Entry::Ran(ran)];
        (log.tick_ns, log.counter_bits, log.left_out) = (1e9 / 19.2e6, 36, 0);
        assert_eq!(log.to_string().parse(), Ok(log));
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let said = |text: &str| text.parse::<SampleLog>().unwrap_err().to_string();
        assert_eq!(said(""), "line 1: expected counter BITS bits of LENGTH ns");
        assert_eq!(said("# a note\n\ncounter"), "line 3: expected ringscope gpu samples 1");
        let with = |line: &str| said(&format!("{}{line}\n", example()));
        assert_eq!(with("ran 5 to x"), "line 14: expected ran TICK to TICK");
        let of_nothing = with("rate 1 ticks in a ns\n  5 6");
        assert_eq!(of_nothing, format!("line 15: expected {SCOPE}"));
        for line in [
            "  5",
            "  5 x",
            "  - -",
            "  - - kernel pass-boundary it",
            "  5 6 kernel submit-to-done it",
            "  5 6 kernel",
        ] {
            let text = format!("ran 1 to 2\n{line}");
            assert_eq!(with(&text), format!("line 15: expected {SCOPE}"), "{line}");
        }
        for line in [
            "counter 65 bits of 1 ns",
            "counter 64 bits of 0 ns",
            "rate -1 ticks in a ns",
            "host 1 2 at x ns",
            "can fly",
            "can submit-to-done",
            "left out",
            "jumped",
        ] {
            assert!(with(line).starts_with("line 14: expected "), "{line}");
        }
    }
}
