//! The parent's side of a `record` run: how much of each measurement fits, in
//! which order, and what is left out when time is short.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::de::DeserializeOwned;

use super::figures::Figures;
use super::hot_path::Samples;
use super::own_rows;
use super::subject::Subject;
use super::task::{Measure, Task};
use super::{peer_rows, subjects};
use crate::child::{self, Answer};
use crate::machine::{Machine, crate_version};

/// `--quick` promises 45 s; the rest is for starting up and printing.
const QUICK: Duration = Duration::from_secs(42);

/// How much of everything to do.
pub(crate) struct Amounts {
    /// Passes over all subjects for the hot path.
    pub(crate) rounds: usize,
    pub(crate) own_hot_path_ms: u64,
    pub(crate) peer_hot_path_ms: u64,
    /// A long run has a subject's own number of spans divided by this.
    pub(crate) long_run_divisor: u64,
    pub(crate) varied_spans: Option<u64>,
    pub(crate) memory_ms: u64,
    pub(crate) memory_long_ms: Option<u64>,
    pub(crate) idle_ms: u64,
    /// Repetitions, with and without recording.
    pub(crate) stalls: Option<usize>,
    /// Seconds of a probe and of the confirmation.
    pub(crate) sustained: Option<(f64, f64)>,
}

impl Amounts {
    fn new(quick: bool) -> Self {
        if quick {
            Amounts {
                rounds: 1,
                own_hot_path_ms: 2_500,
                peer_hot_path_ms: 500,
                long_run_divisor: 8,
                varied_spans: None,
                memory_ms: 1_000,
                memory_long_ms: None,
                idle_ms: 10_000,
                stalls: None,
                sustained: None,
            }
        } else {
            Amounts {
                rounds: 3,
                own_hot_path_ms: 3_000,
                peer_hot_path_ms: 1_500,
                long_run_divisor: 1,
                varied_spans: Some(1_000_000),
                memory_ms: 3_000,
                memory_long_ms: Some(15_000),
                idle_ms: 15_000,
                // The unrecorded loop alone varies twentyfold from one to the next.
                stalls: Some(15),
                sustained: Some((4.0, 20.0)),
            }
        }
    }
}

/// A run under way.
pub(crate) struct Run<'a> {
    pub(crate) figures: Figures,
    pub(crate) amounts: Amounts,
    pub(crate) scratch: &'a Path,
    /// Those that can be measured here.
    pub(crate) peers: Vec<&'static dyn Subject>,
    deadline: Option<Instant>,
    pools: BTreeMap<(&'static str, usize), Samples>,
}

/// Takes every figure that this build and this machine can give.
pub(crate) fn run(quick: bool, scratch: &Path) -> Result<Figures> {
    let mut run = Run {
        figures: Figures::new(Machine::describe(scratch), quick),
        amounts: Amounts::new(quick),
        scratch,
        peers: Vec::new(),
        deadline: quick.then(|| Instant::now() + QUICK),
        pools: BTreeMap::new(),
    };
    for subject in subjects::PEERS {
        let name = subject.name();
        match subject.missing() {
            Some(why) => run.figures.omit(&format!("peers_ns.{name}"), why),
            None => {
                run.figures.peers_setup.insert(name, subject.setup());
                let version = subject.version();
                run.figures.versions.extend(version.map(|version| (name.to_owned(), version)));
                run.peers.push(*subject);
            }
        }
    }
    if let Some(version) = crate_version("ringscope") {
        run.figures.versions.insert("ringscope".to_owned(), version.to_owned());
    }

    // In a quick run ringscope's own rows come first: if time runs out, it is
    // the peers that are left out.
    for round in 0..run.amounts.rounds {
        progress(&format!("hot path, round {} of {}", round + 1, run.amounts.rounds));
        own_rows::hot_path_round(&mut run)?;
        if !quick {
            peer_rows::hot_path_round(&mut run);
        }
    }
    own_rows::rest(&mut run)?;
    // An idle recorder is asleep, so it may sleep beside the peers.
    let idle = own_rows::start_idle(&run);
    if quick {
        peer_rows::hot_path_round(&mut run);
    }
    peer_rows::rest(&mut run);
    own_rows::end_idle(&mut run, idle)?;
    Ok(run.figures)
}

impl Run<'_> {
    /// Has a child measure and waits for its answer.
    pub(crate) fn ask<R: DeserializeOwned>(
        &self,
        subject: &dyn Subject,
        measure: Measure,
    ) -> Result<R> {
        Ok(self.ask_and_keep(subject, measure)?.result)
    }

    /// The same, with the child's files.
    pub(crate) fn ask_and_keep<R: DeserializeOwned>(
        &self,
        subject: &dyn Subject,
        measure: Measure,
    ) -> Result<Answer<R>> {
        let task = Task { subject: subject.name().to_owned(), measure };
        let task = crate::Task::Record(task);
        child::run(&task, subject.environment(), |dir| subject.launcher(dir), self.scratch)
    }

    /// Whether `seconds` are left; if not, `key` is omitted.
    pub(crate) fn affords(&mut self, key: &str, seconds: f64) -> bool {
        let left = self.deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let enough = left.is_none_or(|left| left.as_secs_f64() >= seconds);
        if !enough {
            self.figures.omit(key, "no time left in a quick run");
        }
        enough
    }

    /// Measures a subject's hot path once and pools it with earlier rounds.
    pub(crate) fn hot_path(
        &mut self,
        subject: &'static dyn Subject,
        threads: usize,
        budget_ms: u64,
    ) -> Result<()> {
        let new: Samples = self.ask(subject, Measure::HotPath { threads, budget_ms })?;
        let key = (subject.name(), threads);
        match self.pools.get_mut(&key) {
            Some(pool) => pool.append(new),
            None => {
                self.pools.insert(key, new);
            }
        }
        Ok(())
    }

    /// All rounds of a subject's hot path so far.
    pub(crate) fn pool(&self, subject: &dyn Subject, threads: usize) -> Option<&Samples> {
        self.pools.get(&(subject.name(), threads))
    }
}

/// Thread counts that this machine can run at once.
pub(crate) fn thread_counts(figures: &mut Figures) -> &'static [usize] {
    if figures.machine.cores < 2 {
        figures.omit("2 threads", "this machine has one core");
        &[1]
    } else {
        &[1, 2]
    }
}

pub(crate) fn progress(what: &str) {
    eprintln!("record: {what}");
}
