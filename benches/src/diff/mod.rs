//! `diff`: how often `analyze diff` flags identical code, how often it finds what is
//! slower, and how long it takes.
//!
//! The first two come from the decision itself, driven with runs of programs that do
//! not exist (`universe`), of which it is known what changed. Diffs of one universe
//! share its runs, so intervals come from drawing universes, not diffs, anew.

mod figures;
mod literal;
mod timing;
mod trials;
mod universe;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::machine::Machine;
use crate::random::Random;
use trials::{Plan, Share};

pub(crate) use figures::{Figures, table};

/// What is asked on the command line.
#[derive(clap::Args)]
pub(crate) struct Asked {
    /// Repeat a run that printed this seed
    #[arg(long)]
    seed: Option<u64>,
    /// How many programs that do not exist [default: 110, 6 if quick]
    #[arg(long)]
    universes: Option<u64>,
    /// So many times as many calls of each name
    #[arg(long, default_value_t = 1)]
    calls: usize,
}

/// Measures everything.
pub(crate) fn run(asked: &Asked, quick: bool, scratch: &Path) -> Result<Figures> {
    let seed = asked.seed.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Random::new(now.as_nanos() as u64).next()
    });
    let calls = asked.calls.max(1);
    let mut plan = if quick {
        Plan { universes: 6, runs: 30, diffs: 40, slowed: 3, calls }
    } else {
        Plan { universes: 110, runs: 30, diffs: 30, slowed: 3, calls }
    };
    plan.universes = asked.universes.unwrap_or(plan.universes).max(1);
    let mut figures = Figures::new(Machine::describe(scratch), quick, seed, plan);
    eprintln!("diff: {} universes of {} runs, seed {seed}", plan.universes, plan.runs);
    let found = trials::run(plan, seed);
    let mut random = Random::new(seed);
    for ((way, key), shares) in &found.alarms {
        let runs: usize = key.split('v').filter_map(|it| it.parse::<usize>().ok()).sum();
        let disjoint = plan.universes * (plan.runs / runs.max(1)) as u64;
        let interval = interval(shares, disjoint, &mut random);
        figures.of(*way).alarm(key, sum(shares), interval);
    }
    for ((way, key), shares) in &found.power {
        figures.of(*way).power(key, sum(shares), interval(shares, 0, &mut random));
    }
    figures.quiet_share = figures::rounded(found.quiet_share);
    match timing::measure(quick, scratch) {
        Ok(timing) => figures.timing(timing),
        Err(error) => figures.omit("diff_over_report", format!("{error:#}")),
    }
    Ok(figures)
}

fn sum(shares: &[Share]) -> Share {
    shares
        .iter()
        .fold(Share::default(), |sum, it| Share { hits: sum.hits + it.hits, of: sum.of + it.of })
}

/// Times that universes are drawn anew.
const DRAWS: usize = 2_000;

/// The interval of 95 % over universes. Nothing at all in many diffs is bounded by what
/// diffs without a run in common allow to say.
fn interval(shares: &[Share], disjoint: u64, random: &mut Random) -> [f64; 2] {
    let mut rates: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn: Vec<Share> =
                shares.iter().map(|_| shares[random.below(shares.len() as u64) as usize]).collect();
            sum(&drawn).rate()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    let mut interval = [rates[DRAWS / 40], rates[DRAWS - 1 - DRAWS / 40]];
    if interval[1] == 0.0 && disjoint > 0 {
        interval[1] = 1.0 - 0.05_f64.powf(1.0 / disjoint as f64);
    }
    interval
}
