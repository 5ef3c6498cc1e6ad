//! Whether a name got slower: from summaries of runs to verdicts.
//!
//! Runs are the unit. Calls within a run share its episodes and its machine, so a test
//! over calls finds a difference between any two runs of the same code; what a run's
//! calls tell is only how sure its own figure is. The steps, per figure (mean and
//! percentiles):
//!
//! 1. Names with too few independent calls are left out and said to be (`comparing`).
//! 2. What moved all names alike is taken out of each run (`common_shift`).
//! 3. Each name's variance across runs is drawn towards what is usual (`moderation`),
//!    never below its own (`noise`).
//! 4. A change of a percentile has to lead out of the intervals within the runs, or be
//!    confirmed by another figure of the name (`clearance`).
//! 5. It is tested against the least that matters, and the share of false ones among
//!    all that are flagged is kept small (`multiple`).
//!
//! One run against one has no variance across runs. The spread of the changes of all
//! names stands in for it, with how unsure both runs leave the name, and the
//! least change that matters is larger.

use super::{
    clearance::{CONFIRMING_CHANCE, confirm},
    comparing::{Runs, Shared, compare},
    matching::{Matched, matched},
    multiple::discoveries,
    run_summary::{Metric, RunSummary},
    sensitivity::{Noise, detectable, runs_needed},
};

/// What is asked of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The least change that matters, as a part of the whole.
    pub least_effect: f64,
    /// The same for one run against one.
    pub least_effect_single: f64,
    /// Share of false ones among the changes that are flagged.
    pub false_share: f64,
    /// A name is fine if a slowdown beyond this can be excluded.
    pub tolerance: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Self { least_effect: 0.02, least_effect_single: 0.05, false_share: 0.01, tolerance: 0.10 }
    }
}

/// How much the runs allow to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// One run a side.
    SinglePair,
    /// Few runs on one side: every run must be sure of itself.
    Strict,
    /// Five runs a side and more.
    Relaxed,
}

/// Runs a side from which on the runs speak for themselves.
pub(super) const RELAXED_FROM: usize = 5;
/// What came out about a name, or about one figure of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Slower, and sure of it.
    Regression,
    /// Faster, and sure of it.
    Improvement,
    /// No slower than what is tolerated, and sure of it.
    Ok,
    /// Nothing found, but a slowdown that matters could have been missed.
    Inconclusive,
    /// Too few independent calls or names to say anything.
    InsufficientData,
    /// Only on the head's side.
    New,
    /// Only on the base's side.
    Removed,
}

/// One figure of one name.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Which figure, an index into [`Decision::metrics`].
    pub metric: usize,
    /// Geometric mean over the base's runs.
    pub base: f64,
    /// The same of the head's.
    pub head: f64,
    /// Logarithm of the change beyond the common shift.
    pub own: f64,
    /// Its interval of 95 %.
    pub interval: (f64, f64),
    /// How likely such a change is by chance.
    pub chance: f64,
    /// What came out.
    pub verdict: Verdict,
    /// By how much too few the independent calls a run are; 1 or less if they do.
    pub lacking: f64,
    pub(super) noise: Option<Noise>,
    /// Whether the change leads out of the intervals within the runs.
    pub(super) is_clear: bool,
    /// How far a slowdown has to lead for that, as a logarithm.
    pub(super) reach: f64,
    /// How much the steadiest of the name's other figures varies, which could confirm it.
    pub(super) confirming: Option<Noise>,
    /// Chances up to this would have been flagged.
    pub(super) bound: f64,
}

/// What all names shared.
#[derive(Clone, Copy, Debug)]
pub struct CommonShift {
    /// Logarithm of the change.
    pub change: f64,
    /// Its interval of 95 %, if there are runs enough.
    pub interval: Option<(f64, f64)>,
    /// How likely a slowdown like that is by chance.
    pub chance: Option<f64>,
}

/// One name.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// The name and its figures in all runs.
    pub name: Matched<'a>,
    /// What came out.
    pub verdict: Verdict,
    /// By metric.
    pub tests: Vec<Test>,
    /// Which of them is the most telling one.
    pub telling: Option<usize>,
}

/// What came out of a comparison.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// How much could be asked.
    pub design: Design,
    /// What was compared of each name.
    pub metrics: Vec<Metric>,
    /// Runs of the base.
    pub base_runs: usize,
    /// By metric; none where there were too few names to tell.
    pub common: Vec<Option<CommonShift>>,
    /// Every name.
    pub names: Vec<Judged<'a>>,
}

/// Compares runs of two sides, of which neither is empty and all have the same
/// percentiles.
pub fn decide<'a>(base: &[&'a RunSummary], head: &[&'a RunSummary], rule: &Rule) -> Decision<'a> {
    decide_also(base, head, rule, &|_, _| false)
}

/// The same, also by the figures of whole runs that are asked for, name by name. Each
/// of those is a family of tests of its own: whoever asks is told no less about the
/// others.
pub(super) fn decide_also<'a>(
    base: &[&'a RunSummary],
    head: &[&'a RunSummary],
    rule: &Rule,
    asks: &dyn Fn(&str, Metric) -> bool,
) -> Decision<'a> {
    let mut metrics = base.iter().chain(head).next().map_or_else(Vec::new, |run| run.metrics());
    let names = matched(base, head);
    let runs = Runs { base: base.len(), head: head.len() };
    let mut tests: Vec<Vec<Test>> = vec![Vec::new(); names.len()];
    let mut common = Vec::new();
    let mut of_mean = None;
    for (at, &metric) in metrics.iter().enumerate() {
        let shifts = compare(&names, (at, metric), runs, rule, Shared::Own, &mut tests);
        common.push(shifts.as_ref().map(|shifts| CommonShift::of(shifts, runs.base, rule)));
        if metric == Metric::Mean {
            of_mean = shifts;
        }
    }
    confirm(&mut tests, &metrics);
    flag(&mut tests, rule, |test| test.metric < metrics.len());
    for metric in [Metric::Total, Metric::Count] {
        let is_asked: Vec<bool> = names.iter().map(|it| asks(it.name, metric)).collect();
        if !is_asked.contains(&true) {
            continue;
        }
        // A slower machine makes all calls longer, and none of them more.
        let shared = if metric == Metric::Count { None } else { of_mean.as_deref() };
        let at = metrics.len();
        // What is usual comes from all names, asked for or not.
        compare(&names, (at, metric), runs, rule, Shared::Known(shared), &mut tests);
        for (tests, is_asked) in tests.iter_mut().zip(is_asked) {
            tests.retain(|test| is_asked || test.metric != at);
        }
        flag(&mut tests, rule, |test| test.metric == at);
        metrics.push(metric);
        common.push(None);
    }
    let judge = |(name, tests): (Matched<'a>, Vec<Test>)| judged(name, tests, base.len(), &metrics);
    let names = names.into_iter().zip(tests).map(judge).collect();
    Decision { design: runs.design(), metrics, base_runs: base.len(), common, names }
}

impl Test {
    /// The smallest slowdown that would likely have been found, as a part of the whole.
    pub fn detectable(&self, rule: &Rule) -> Option<f64> {
        let reach = self.reach.exp_m1();
        let confirming = self.confirming.filter(|noise| !noise.single);
        let confirmed = confirming.map(|noise| detectable(&noise, CONFIRMING_CHANCE, rule));
        let clear = confirmed.map_or(reach, |it| it.min(reach));
        Some(detectable(&self.noise?, self.bound, rule).max(clear))
    }

    /// Runs a side that it would take to find a slowdown beyond what is tolerated.
    pub fn runs_needed(&self, rule: &Rule) -> Option<u32> {
        let needed = runs_needed(&self.noise?, self.bound, rule)?;
        if self.reach <= rule.tolerance.ln_1p() {
            return Some(needed);
        }
        // However many runs there are, each of them alone leaves as much in doubt.
        Some(needed.max(runs_needed(&self.confirming?, CONFIRMING_CHANCE, rule)?))
    }

    /// Whether there was enough to go by.
    pub fn is_decided(&self) -> bool {
        !matches!(self.verdict, Verdict::InsufficientData | Verdict::Inconclusive)
    }
}

/// Gives every test of a family that could be made its verdict.
pub(super) fn flag(tests: &mut [Vec<Test>], rule: &Rule, is_in: impl Fn(&Test) -> bool) {
    let tests = tests.iter_mut().flatten();
    let mut all: Vec<&mut Test> =
        tests.filter(|test| test.noise.is_some() && is_in(test)).collect();
    let chances: Vec<f64> = all.iter().map(|test| test.chance).collect();
    let (flagged, bound) = discoveries(&chances, rule.false_share);
    for (test, flagged) in all.iter_mut().zip(flagged) {
        test.verdict = if flagged && test.own > 0.0 {
            Verdict::Regression
        } else if flagged {
            Verdict::Improvement
        } else if test.interval.1 <= rule.tolerance.ln_1p() {
            Verdict::Ok
        } else {
            Verdict::Inconclusive
        };
        test.bound = bound;
    }
}

fn judged<'a>(
    name: Matched<'a>,
    tests: Vec<Test>,
    base_runs: usize,
    metrics: &[Metric],
) -> Judged<'a> {
    let verdict = match name.sides(base_runs) {
        (false, _) => Some(Verdict::New),
        (_, false) => Some(Verdict::Removed),
        _ => None,
    };
    let telling = telling(&tests, metrics);
    let found = || telling.map_or(Verdict::InsufficientData, |at| tests[at].verdict);
    Judged { verdict: verdict.unwrap_or_else(found), telling, tests, name }
}

/// A regression, or an improvement, or what is known: of several figures the median
/// or the mean rather than a tail, since that is what people look at first.
fn telling(tests: &[Test], metrics: &[Metric]) -> Option<usize> {
    let those = |verdict: Verdict| {
        let found = || (0..tests.len()).filter(move |&at| tests[at].verdict == verdict);
        let central = found().find(|&at| metrics[tests[at].metric].is_central());
        central.or_else(|| found().min_by(|&a, &b| tests[a].chance.total_cmp(&tests[b].chance)))
    };
    let order = [Verdict::Regression, Verdict::Improvement, Verdict::Ok, Verdict::Inconclusive];
    order.into_iter().find_map(those)
}
