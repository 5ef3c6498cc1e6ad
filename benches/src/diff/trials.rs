//! Diffs of runs that are known to be of the same code, and of runs in which some
//! names are known to be slower.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ringscope_analyzer::diff::{NameSummary, Rule, RunSummary, Verdict, decide};

use super::literal;
use super::universe::{Dice, NAMES, Normal, Universe};

/// How much is tried.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) universes: u64,
    pub(crate) runs: usize,
    /// Diffs of identical code, by universe and design.
    pub(crate) diffs: usize,
    /// Diffs with slower names, by universe and design.
    pub(crate) slowed: usize,
    /// Times as many calls as usual.
    pub(crate) calls: usize,
}

/// How runs are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// As `analyze diff` does it.
    AsItIs,
    /// The same, with intervals within runs from all durations.
    AllDurations,
    /// By the rule that it started from.
    LiteralRule,
}

const WAYS: [Way; 3] = [Way::AsItIs, Way::AllDurations, Way::LiteralRule];

/// Runs of base and head; those with a goal first.
pub(crate) const DESIGNS: [(usize, usize); 7] =
    [(1, 1), (3, 3), (5, 5), (10, 10), (2, 2), (5, 1), (10, 1)];
/// Names that are made slower at once.
const SLOWED: usize = 10;
/// Quiet: a deviation of the median between runs of up to this.
const QUIET: f64 = 0.02;

/// A question of power: its key, runs a side, how much slower, and of which names.
pub(crate) const POWER: [(&str, usize, f64, bool); 10] = [
    ("5v5_quiet_10", 5, 1.10, true),
    ("10v10_quiet_10", 10, 1.10, true),
    ("1v1_50", 1, 1.50, false),
    ("3v3_quiet_10", 3, 1.10, true),
    ("3v3_10", 3, 1.10, false),
    ("5v5_10", 5, 1.10, false),
    ("10v10_10", 10, 1.10, false),
    ("1v1_20", 1, 1.20, false),
    ("3v3_20", 3, 1.20, false),
    ("5v5_20", 5, 1.20, false),
];

/// What came of one universe: of so many, so many.
#[derive(Clone, Copy, Default)]
pub(crate) struct Share {
    pub(crate) hits: u64,
    pub(crate) of: u64,
}

/// By way and key, a share for each universe.
pub(crate) type Outcome = BTreeMap<(Way, String), Vec<Share>>;

/// All that was found: false alarms by design, power by key.
pub(crate) struct Found {
    pub(crate) alarms: Outcome,
    pub(crate) power: Outcome,
    pub(crate) quiet_share: f64,
}

pub(crate) fn key(design: (usize, usize)) -> String {
    format!("{}v{}", design.0, design.1)
}

/// Makes every universe and tries everything in it.
pub(crate) fn run(plan: Plan, seed: u64) -> Found {
    let next = AtomicU64::new(0);
    let found = Mutex::new(Vec::new());
    let normal = Normal::new();
    let work = || loop {
        // Relaxed: nothing but the number is shared through it.
        let universe = next.fetch_add(1, Ordering::Relaxed);
        if universe >= plan.universes {
            return;
        }
        let mut dice = Dice::new(seed ^ universe.wrapping_mul(0xd6e8_feb8_6659_fd93), &normal);
        let one = try_universe(plan, &mut dice);
        let mut all = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.push((universe, one));
        if all.len().is_multiple_of(10) {
            eprintln!("diff: {} of {} universes", all.len(), plan.universes);
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        (0..workers).for_each(|_| drop(scope.spawn(work)));
    });
    let mut all = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    // The order in which workers were done must not matter to the bootstrap.
    all.sort_by_key(|(universe, _)| *universe);
    let mut sum = Found { alarms: Outcome::new(), power: Outcome::new(), quiet_share: 0.0 };
    for (_, one) in all {
        for (into, from) in [(&mut sum.alarms, one.alarms), (&mut sum.power, one.power)] {
            for (key, shares) in from {
                into.entry(key).or_default().extend(shares);
            }
        }
        sum.quiet_share += one.quiet_share / plan.universes as f64;
    }
    sum
}

/// Designs that are judged in all ways.
const WITH_GOALS: usize = 4;

fn try_universe(plan: Plan, dice: &mut Dice<'_>) -> Found {
    let universe = Universe::new(dice, plan.calls);
    let runs: Vec<(RunSummary, RunSummary)> = (0..plan.runs).map(|_| universe.run(dice)).collect();
    let quiet = quiet(&runs);
    let mut found = Found { alarms: Outcome::new(), power: Outcome::new(), quiet_share: 0.0 };
    for (number, design) in DESIGNS.into_iter().enumerate() {
        let ways = if number < WITH_GOALS { &WAYS[..] } else { &WAYS[..1] };
        for _ in 0..plan.diffs {
            let drawn = draw(&runs, design, dice);
            for &way in ways {
                let (base, head) = drawn.of(way);
                let share = share(&mut found.alarms, way, &key(design));
                share.of += 1;
                share.hits += u64::from(!flagged(way, &base, &head).is_empty());
            }
        }
    }
    for (key, side, factor, only_quiet) in POWER {
        let names: Vec<usize> = (0..NAMES).filter(|&at| !only_quiet || quiet[at]).collect();
        for _ in 0..plan.slowed {
            let drawn = draw(&runs, (side, side), dice);
            let slowed: Vec<usize> =
                dice.distinct(SLOWED, names.len()).into_iter().map(|at| names[at]).collect();
            for way in WAYS {
                let (base, head) = drawn.of(way);
                let head: Vec<RunSummary> =
                    head.iter().map(|run| slower(run, &slowed, factor)).collect();
                let flagged = flagged(way, &base, &head.iter().collect::<Vec<_>>());
                let share = share(&mut found.power, way, key);
                share.of += slowed.len() as u64;
                share.hits +=
                    slowed.iter().filter(|&&at| flagged.contains(&(at, true))).count() as u64;
            }
        }
    }
    found.quiet_share = quiet.iter().filter(|it| **it).count() as f64 / NAMES as f64;
    found
}

/// The share of this universe.
fn share<'a>(outcome: &'a mut Outcome, way: Way, key: &str) -> &'a mut Share {
    let shares = outcome.entry((way, key.to_owned())).or_insert_with(|| vec![Share::default()]);
    &mut shares[0]
}

/// Runs of both sides, each in the two forms that a run has.
struct Drawn<'a> {
    base: Vec<&'a (RunSummary, RunSummary)>,
    head: Vec<&'a (RunSummary, RunSummary)>,
}

impl<'a> Drawn<'a> {
    fn of(&self, way: Way) -> (Vec<&'a RunSummary>, Vec<&'a RunSummary>) {
        let form = |run: &&'a (RunSummary, RunSummary)| match way {
            Way::AsItIs => &run.0,
            Way::AllDurations | Way::LiteralRule => &run.1,
        };
        (self.base.iter().map(form).collect(), self.head.iter().map(form).collect())
    }
}

/// Different runs for both sides.
fn draw<'a>(
    runs: &'a [(RunSummary, RunSummary)],
    (base, head): (usize, usize),
    dice: &mut Dice<'_>,
) -> Drawn<'a> {
    let drawn: Vec<&(RunSummary, RunSummary)> =
        dice.distinct(base + head, runs.len()).into_iter().map(|at| &runs[at]).collect();
    let (base, head) = drawn.split_at(base);
    Drawn { base: base.to_vec(), head: head.to_vec() }
}

/// Names that changed, by their index, and whether for the worse.
fn flagged(way: Way, base: &[&RunSummary], head: &[&RunSummary]) -> Vec<(usize, bool)> {
    if way == Way::LiteralRule {
        return literal::slower(base, head).into_iter().map(|at| (at, true)).collect();
    }
    // Names are in order of their labels, here and there.
    let decision = decide(base, head, &Rule::default());
    let changed = decision.names.iter().enumerate().filter_map(|(at, it)| match it.verdict {
        Verdict::Regression => Some((at, true)),
        Verdict::Improvement => Some((at, false)),
        _ => None,
    });
    changed.collect()
}

fn slower(run: &RunSummary, names: &[usize], factor: f64) -> RunSummary {
    let mut run = run.clone();
    for &at in names {
        let NameSummary { total_ns, self_ns, mean, quantiles, .. } = &mut run.names[at];
        *total_ns *= factor;
        *self_ns *= factor;
        *mean = mean.scaled(factor);
        quantiles.iter_mut().for_each(|it| *it = it.scaled(factor));
    }
    run
}

/// Which names vary little from run to run, beside what all of them share.
fn quiet(runs: &[(RunSummary, RunSummary)]) -> Vec<bool> {
    let runs: Vec<&RunSummary> = runs.iter().map(|run| &run.0).collect();
    let log = |run: &RunSummary, at: usize| run.names[at].quantiles[0].value.ln();
    let n = runs.len() as f64;
    let means: Vec<f64> =
        (0..NAMES).map(|at| runs.iter().map(|run| log(run, at)).sum::<f64>() / n).collect();
    let shift = |run: &RunSummary| {
        let mut all: Vec<f64> = (0..NAMES).map(|at| log(run, at) - means[at]).collect();
        all.sort_by(f64::total_cmp);
        all[NAMES / 2]
    };
    let shifts: Vec<f64> = runs.iter().map(|run| shift(run)).collect();
    let deviation = |at: usize| {
        let square =
            |(run, shift): (&&RunSummary, &f64)| (log(run, at) - shift - means[at]).powi(2);
        (runs.iter().zip(&shifts).map(square).sum::<f64>() / (n - 1.0)).sqrt()
    };
    (0..NAMES).map(|at| deviation(at) <= QUIET).collect()
}
