//! `crash`: a child that records on four threads is killed at a random instant,
//! over and over; its trace must open, hold everything but the last moments
//! once, and show what each thread was in the middle of.
//!
//! The signal is SIGKILL: the child cannot react. This is about the death of a
//! process, not of the machine.

mod account;
mod load;
mod trace;
mod verdict;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::child;
use crate::counter::TickRate;
use crate::machine::Machine;
use crate::quantile::{median, percentile};
use crate::random::Random;
use account::Account;
use verdict::Verdict;

pub(crate) use load::{Load, run as be_killed};

/// Milliseconds of recording before the end: at least, and how many more.
const LIFE_MS: (u64, u64) = (20, 280);
/// `--quick` promises 45 s.
const QUICK: Duration = Duration::from_secs(35);
/// What a trial must reach for its result to be about a busy recorder.
const BUSY_SPANS_PER_S: f64 = 1e6;
/// What a kill may cost, in milliseconds.
const PROMISED_MS: f64 = 10.0;

#[derive(Serialize)]
pub(crate) struct Figures {
    machine: Machine,
    quick: bool,
    seed: u64,
    trials: u64,
    opened: u64,
    doubled: u64,
    p95_lost_ms: f64,
    max_lost_ms: f64,
    /// Trials in which every thread's stack was one that it held.
    in_flight_matched: u64,
    in_flight_max_age_ms: f64,
    /// Open spans that the traces show, a trial.
    in_flight_spans: f64,
    /// Spans that are missing although a later one of their thread is there,
    holes: u64,
    /// of which so many were counted as lost, for want of room in a ring.
    lost_counted: u64,
    spans_checked: u64,
    median_spans_per_s: f64,
    omitted: Vec<String>,
    #[serde(skip)]
    faults: Vec<String>,
}

/// Runs the trials, as many as fit in a quick run.
pub(crate) fn run(quick: bool, trials: u64, seed: Option<u64>, scratch: &Path) -> Result<Figures> {
    let seed = seed.unwrap_or_else(|| {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        now.as_nanos() as u64 & 0xffff_ffff
    });
    let begin = Instant::now();
    let rate = TickRate::measure();
    let mut random = Random::new(seed);
    let mut verdicts = Vec::new();
    let (mut opened, mut faults) = (0, Vec::new());
    let mut made = 0;
    while made < trials && !(quick && begin.elapsed() > QUICK) {
        made += 1;
        if made % 20 == 0 {
            eprintln!("crash: {made} of {trials}");
        }
        let verdict = trial(&mut random, rate, scratch);
        match verdict.with_context(|| format!("trial {made}"))? {
            Ok(verdict) => {
                opened += 1;
                faults.extend(verdict.faults.iter().map(|fault| format!("trial {made}: {fault}")));
                verdicts.push(verdict);
            }
            Err(error) => faults.push(format!("trial {made}: the trace did not open: {error:#}")),
        }
    }

    let lost: Vec<f64> = verdicts.iter().map(|verdict| verdict.lost_ms).collect();
    let rates: Vec<f64> = verdicts.iter().map(|verdict| verdict.spans_per_s).collect();
    let most = |of: fn(&Verdict) -> f64| verdicts.iter().map(of).fold(0.0, f64::max);
    let shown: u64 = verdicts.iter().map(|verdict| verdict.open_shown).sum();
    let omitted = (made < trials).then(|| format!("{} of {trials} trials", trials - made));
    Ok(Figures {
        machine: Machine::describe(scratch),
        quick,
        seed,
        trials: made,
        opened,
        doubled: verdicts.iter().map(|verdict| verdict.doubled).sum(),
        p95_lost_ms: percentile(&lost, 95.0).unwrap_or(0.0),
        max_lost_ms: most(|verdict| verdict.lost_ms),
        in_flight_matched: verdicts.iter().filter(|verdict| verdict.stacks_wrong == 0).count()
            as u64,
        in_flight_max_age_ms: most(|verdict| verdict.stack_age_ms),
        in_flight_spans: shown as f64 / verdicts.len().max(1) as f64,
        holes: verdicts.iter().map(|verdict| verdict.holes).sum(),
        lost_counted: verdicts.iter().map(|verdict| verdict.admitted).sum(),
        spans_checked: verdicts.iter().map(|verdict| verdict.spans).sum(),
        median_spans_per_s: median(&rates).unwrap_or(0.0).round(),
        omitted: omitted.into_iter().collect(),
        faults,
    })
}

/// One child's life and death. The inner error is the trace's, the outer one
/// that of the trial itself.
fn trial(random: &mut Random, rate: TickRate, scratch: &Path) -> Result<Result<Verdict>> {
    let dir = tempfile::tempdir_in(scratch)?;
    let account = Account::create(dir.path())?;
    let load = Load {
        trace: dir.path().join("crash.trace"),
        account: account.path().to_owned(),
        seed: random.next(),
    };
    let task = crate::Task::Crash(load);
    let mut command = child::command(&task, &[], &dir.path().join("result.json"))?;
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("no pipe to the child")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let life = Duration::from_micros(1_000 * LIFE_MS.0 + random.below(1_000 * LIFE_MS.1));
    if !line.is_empty() {
        thread::sleep(life);
    }
    child.kill()?;
    child.wait()?;
    anyhow::ensure!(!line.is_empty(), "the child did not get as far as recording");
    let crate::Task::Crash(load) = task else { unreachable!("made above") };
    Ok(trace::read(&load.trace).map(|trace| verdict::judge(&account, &trace, rate)))
}

impl Figures {
    /// What went wrong, in words; empty after a good run.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.faults.iter().take(10).cloned().collect();
        if self.faults.len() > complaints.len() {
            complaints.push(format!("and {} more", self.faults.len() - complaints.len()));
        }
        if self.p95_lost_ms > PROMISED_MS {
            complaints.push(format!(
                "one trial in twenty lost more than the last {PROMISED_MS} ms: {:.2} ms",
                self.p95_lost_ms
            ));
        } else if self.max_lost_ms > PROMISED_MS {
            complaints.push(format!(
                "one trial lost more than the last {PROMISED_MS} ms: {:.2} ms; if others were at \
                 work on this machine, run again",
                self.max_lost_ms
            ));
        }
        if self.median_spans_per_s < BUSY_SPANS_PER_S {
            complaints.push(format!(
                "the child reached {:.1} million spans/s, not one: too little for the figures to \
                 mean anything; run again on a quieter machine",
                self.median_spans_per_s / 1e6
            ));
        }
        complaints
    }
}

/// The figures for people.
pub(crate) fn table(figures: &Figures) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(["killed while recording", "", "goal"]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let trials = figures.trials;
    let rows = [
        ("trials", trials.to_string(), "200"),
        ("traces that opened", figures.opened.to_string(), "all"),
        ("spans there twice", figures.doubled.to_string(), "0"),
        ("spans missing in between", figures.holes.to_string(), "0"),
        ("spans counted as lost", figures.lost_counted.to_string(), "0"),
        ("last moments lost, 95 % of trials", format!("{:.2} ms", figures.p95_lost_ms), "10"),
        ("last moments lost, at most", format!("{:.2} ms", figures.max_lost_ms), "10"),
        ("trials whose stacks were held", figures.in_flight_matched.to_string(), "all"),
        ("open spans shown a trial", format!("{:.1}", figures.in_flight_spans), ""),
        ("age of those stacks, at most", format!("{:.2} ms", figures.in_flight_max_age_ms), "10"),
        (
            "rate, 4 threads together",
            format!("{:.2} million/s", figures.median_spans_per_s / 1e6),
            "1",
        ),
        ("spans checked", figures.spans_checked.to_string(), ""),
    ];
    for (what, value, goal) in rows {
        table.add_row([what.to_owned(), value, goal.to_owned()]);
    }
    let machine = &figures.machine;
    let mut text = format!(
        "{}, {} cores, {}, traces on {}\n{}, {}, seed {}\n\n{table}\n",
        machine.processor,
        machine.cores,
        machine.system,
        machine.file_system,
        machine.rustc,
        machine.date,
        figures.seed
    );
    for omitted in &figures.omitted {
        text.push_str(&format!("\nnot made: {omitted}\n"));
    }
    text
}
