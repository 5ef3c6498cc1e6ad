//! Whether a name got slower: from summaries of runs to verdicts.
//!
//! Runs are the unit. Calls within a run share its episodes and its machine, so a test
//! over calls finds a difference between any two runs of the same code; what a run's
//! calls tell is only how sure its own figure is. The steps, per figure (mean and
//! percentiles):
//!
//! 1. Names with too few independent calls are left out and said to be.
//! 2. What moved all names alike is taken out of each run (`common_shift`).
//! 3. Each name's variance across runs is drawn towards what is usual (`moderation`),
//!    never below its own.
//! 4. The change is tested against the least that matters, and the share of false
//!    ones among all that are flagged is kept small (`multiple`).
//!
//! One run against one has no variance across runs. The spread of the changes of all
//! names stands in for it, with how unsure both runs leave the name, and the
//! least change that matters is larger.

use super::{
    Estimate,
    common_shift::{self, Line},
    matching::{Matched, matched},
    moderation::{Prior, Seen},
    multiple::discoveries,
    numerics::{median, t_above, t_exceeded_by},
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
/// Names that it takes to know the noise of a single pair.
const LEAST_NAMES_SINGLE: usize = 10;
/// Degrees of freedom of a single pair: its noise is long-tailed.
const DEGREES_SINGLE: f64 = 8.0;

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
    noise: Option<Noise>,
    /// Whether the change leads out of the intervals within the runs.
    is_clear: bool,
    /// Chances up to this would have been flagged.
    bound: f64,
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
    let metrics = base.iter().chain(head).next().map_or_else(Vec::new, |run| run.metrics());
    let names = matched(base, head);
    let runs = Runs { base: base.len(), head: head.len() };
    let design = runs.design();
    let mut tests: Vec<Vec<Test>> = vec![Vec::new(); names.len()];
    let mut common = Vec::new();
    for (at, &metric) in metrics.iter().enumerate() {
        common.push(of_metric(&names, at, metric, runs, rule, &mut tests));
    }
    flag(&mut tests, rule);
    let judge = |(name, tests): (Matched<'a>, Vec<Test>)| judged(name, tests, base.len(), &metrics);
    let names = names.into_iter().zip(tests).map(judge).collect();
    Decision { design, metrics, base_runs: base.len(), common, names }
}

/// How many runs there are.
#[derive(Clone, Copy)]
struct Runs {
    base: usize,
    head: usize,
}

impl Runs {
    fn design(self) -> Design {
        match (self.base, self.head) {
            (1, 1) => Design::SinglePair,
            (base, head) if base.min(head) >= RELAXED_FROM => Design::Relaxed,
            _ => Design::Strict,
        }
    }
}

/// Compares one figure of all names, and returns what they shared.
fn of_metric(
    names: &[Matched<'_>],
    at: usize,
    metric: Metric,
    runs: Runs,
    rule: &Rule,
    tests: &mut [Vec<Test>],
) -> Option<CommonShift> {
    let mut lines = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if name.sides(runs.base) != (true, true) {
            continue;
        }
        let estimates: Vec<_> =
            name.runs.iter().map(|run| run.and_then(|it| it.estimate(at))).collect();
        let present = || estimates.iter().flatten();
        let usable = present().all(|it| it.is_usable());
        let value = |it: &&Estimate| it.value.ln();
        let values: Vec<Option<f64>> =
            estimates.iter().map(|it| if usable { it.as_ref().map(value) } else { None }).collect();
        let n = present().count().max(1) as f64;
        let within = present().map(|it| it.log_error().powi(2)).sum::<f64>() / n;
        let (base_values, head_values) = sides(&values, runs.base);
        let relaxed = base_values.len().min(head_values.len()) >= RELAXED_FROM;
        let lacking = if usable {
            lacking(metric, present().map(|it| it.effective), relaxed, runs.design())
        } else {
            f64::INFINITY
        };
        let often = |side: &[f64], runs: usize| 2 * side.len() >= runs;
        let eligible = lacking <= 1.0
            && within.is_finite()
            && often(&base_values, runs.base)
            && often(&head_values, runs.head);
        let (base, head) = (mean(&base_values), mean(&head_values));
        tests[index].push(Test {
            metric: at,
            base: if usable { base.exp() } else { f64::NAN },
            head: if usable { head.exp() } else { f64::NAN },
            own: head - base,
            interval: (f64::NEG_INFINITY, f64::INFINITY),
            chance: 1.0,
            verdict: Verdict::InsufficientData,
            lacking,
            noise: None,
            is_clear: true,
            bound: 0.0,
        });
        if eligible {
            let fewest = base_values.len().min(head_values.len());
            let reaches = reaches(&estimates, runs.base, metric, fewest);
            lines.push(Line { name: index, values, within, reaches });
        }
    }
    let shifts = common_shift::of_runs(&lines, names, runs.base + runs.head);
    if let Some(shifts) = &shifts {
        for line in &mut lines {
            line.values.iter_mut().zip(shifts).for_each(|(value, shift)| {
                *value = value.map(|it| it - shift);
            });
        }
    }
    let noises = match runs.design() {
        Design::SinglePair => noise_of_a_pair(&lines),
        _ => noise_across_runs(&lines, runs.base),
    };
    let mut widths = Widths::default();
    for (line, noise) in lines.iter().zip(noises) {
        let Some(test) = tests[line.name].last_mut() else { continue };
        let (base, head) = sides(&line.values, runs.base);
        test.own = mean(&head) - mean(&base);
        let reach = if test.own > 0.0 { line.reaches.1 } else { line.reaches.0 };
        test.is_clear = test.own.abs() > reach;
        test.settle(noise, rule, &mut widths);
    }
    shifts.map(|shifts| CommonShift::of(&shifts, runs.base, rule))
}

/// How far a change downwards and one upwards have to lead to be out of the intervals
/// of both sides.
///
/// Where eight runs a side speak, what they say suffices, nearly. From five on the
/// narrow interval will do, but for a quantile beside a gap
/// between two modes: runs may happen to fall on one side of it, all of them, and look
/// steady. Such a gap shows in that the wide interval does not reach as far as the
/// narrow one lets expect.
fn reaches(
    estimates: &[Option<&Estimate>],
    base_runs: usize,
    metric: Metric,
    fewest: usize,
) -> (f64, f64) {
    let side = |side: &[Option<&Estimate>]| {
        let n = side.iter().flatten().count().max(1) as f64;
        let mean =
            |of: &dyn Fn(&Estimate) -> f64| side.iter().flatten().map(|it| of(it)).sum::<f64>() / n;
        let even = match metric {
            Metric::Mean => None,
            Metric::Percentile(percent) => Some(mean(&|it| it.even_ratio(percent / 100.0))),
        };
        let reach = |far: f64, near: f64| {
            let is_even = even.is_none_or(|even| EVEN.contains(&(far / near.max(1e-12) / even)));
            match fewest {
                MANY_RUNS.. => 0.5 * near,
                RELAXED_FROM.. if is_even => near,
                _ => far,
            }
        };
        let down = reach(mean(&|it| it.reaches().far.0), mean(&|it| it.reaches().near.0));
        let up = reach(mean(&|it| it.reaches().far.1), mean(&|it| it.reaches().near.1));
        (down, up)
    };
    let (base, head) = estimates.split_at(base_runs);
    let (base, head) = (side(base), side(head));
    // A change upwards leaves the base's interval by its upper end, and has the base
    // below the head's lower end.
    (base.0.max(head.1), base.1.max(head.0))
}

/// Runs a side that are not all on the wrong side of a gap.
const MANY_RUNS: usize = 8;
/// Ratios of the intervals, as parts of what even distances would give, that show no
/// gap.
const EVEN: std::ops::Range<f64> = 0.65..1.8;

/// By how much too few the independent calls are.
fn lacking(
    metric: Metric,
    effective: impl Iterator<Item = f64>,
    relaxed: bool,
    design: Design,
) -> f64 {
    let (mut least, mut sum, mut n) = (f64::INFINITY, 0.0, 0.0_f64);
    for it in effective {
        least = least.min(it);
        sum += it;
        n += 1.0;
    }
    let has = if relaxed { sum / n.max(1.0) } else { least };
    let wanted = match (metric.is_central(), relaxed) {
        (true, true) => 8.0,
        (true, false) => 32.0,
        (false, true) => 4.0 / metric.tail().max(1e-9),
        (false, false) => 16.0 / metric.tail().max(1e-9),
    };
    // A single run that happened to stay in one of its modes looks surer than it is.
    let times = if design == Design::SinglePair { 3.0 } else { 1.0 };
    times * wanted / has.max(1e-9)
}

/// The values of both sides.
fn sides(values: &[Option<f64>], base_runs: usize) -> (Vec<f64>, Vec<f64>) {
    let (base, head) = values.split_at(base_runs);
    (base.iter().flatten().copied().collect(), head.iter().flatten().copied().collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|it| (it - mean).powi(2)).sum()
}

/// The noise of each name, from runs of the same side.
fn noise_across_runs(lines: &[Line], base_runs: usize) -> Vec<Option<Noise>> {
    let seen = |line: &Line| {
        let (base, head) = sides(&line.values, base_runs);
        let degrees = (base.len() + head.len()) as f64 - 2.0;
        let variance = (squares(&base) + squares(&head)) / degrees.max(1.0);
        let relaxed = base.len().min(head.len()) >= RELAXED_FROM;
        let seen = Seen { variance, degrees, within: line.within };
        (seen, base.len(), head.len(), relaxed)
    };
    let all: Vec<_> = lines.iter().map(seen).collect();
    let prior = Prior::of(&all.iter().map(|it| it.0).collect::<Vec<_>>());
    let noise = |(seen, base, head, relaxed): &(Seen, usize, usize, bool)| {
        let (variance, degrees) = prior.moderated(seen);
        if degrees < 1.0 {
            return None;
        }
        let floor = if *relaxed { 0.0 } else { 0.5 * seen.within };
        let variance = variance.max(seen.variance).max(floor);
        Some(Noise {
            variance,
            prior: prior.degrees,
            degrees,
            runs: (*base as f64, *head as f64),
            single: false,
        })
    };
    all.iter().map(noise).collect()
}

/// The noise of each name of a single pair, from how far the changes of all names
/// are apart.
fn noise_of_a_pair(lines: &[Line]) -> Vec<Option<Noise>> {
    if lines.len() < LEAST_NAMES_SINGLE {
        return vec![None; lines.len()];
    }
    let change = |line: &Line| match line.values[..] {
        [Some(base), Some(head)] => head - base,
        _ => 0.0,
    };
    let changes: Vec<(f64, f64)> =
        lines.iter().map(|line| (change(line), 2.0 * line.within)).collect();
    // The median of a squared standard normal deviate.
    const MEDIAN_SQUARE: f64 = 0.454_936;
    let spread = |between: f64| {
        let square =
            |(change, within): &(f64, f64)| change * change / (between + within).max(1e-12);
        median(&mut changes.iter().map(square).collect::<Vec<_>>())
    };
    // What it takes beyond the uncertainty within runs to explain the spread.
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle: f64 = 0.5 * (low + high);
        if spread(middle) > MEDIAN_SQUARE { low = middle } else { high = middle }
    }
    let overall = median(&mut changes.iter().map(|it| it.0 * it.0).collect::<Vec<_>>());
    let overall = overall / MEDIAN_SQUARE;
    let noise = |(_, within): &(f64, f64)| {
        let variance = (high + within).max(PAIR_FLOOR * overall).max(1e-10);
        Some(Noise {
            variance: 0.5 * variance,
            prior: DEGREES_SINGLE,
            degrees: DEGREES_SINGLE,
            runs: (1.0, 1.0),
            single: true,
        })
    };
    changes.iter().map(noise).collect()
}

/// Names of a single pair are never taken for much steadier than the rest.
const PAIR_FLOOR: f64 = 1.0;

/// How many standard errors an interval of 95 % reaches, by degrees of freedom, of
/// which most names have the same.
#[derive(Default)]
struct Widths(Vec<(f64, f64)>);

impl Widths {
    fn of(&mut self, degrees: f64) -> f64 {
        if let Some((_, reach)) = self.0.iter().find(|it| it.0 == degrees) {
            return *reach;
        }
        let reach = t_exceeded_by(0.025, degrees);
        self.0.push((degrees, reach));
        reach
    }
}

impl Test {
    /// Works out the chance.
    fn settle(&mut self, noise: Option<Noise>, rule: &Rule, widths: &mut Widths) {
        self.noise = noise;
        let Some(noise) = noise else { return };
        let error = noise.error();
        let least = noise.least(rule);
        let beyond = |by: f64| t_above((self.own.abs() + by) / error, noise.degrees);
        self.chance = if self.is_clear { (beyond(-least) + beyond(least)).min(1.0) } else { 1.0 };
        let reach = widths.of(noise.degrees) * error;
        self.interval = (self.own - reach, self.own + reach);
        self.verdict = Verdict::Inconclusive;
    }

    /// The smallest slowdown that would likely have been found, as a part of the whole.
    pub fn detectable(&self, rule: &Rule) -> Option<f64> {
        Some(detectable(&self.noise?, self.bound, rule))
    }

    /// Runs a side that it would take to find a slowdown beyond what is tolerated.
    pub fn runs_needed(&self, rule: &Rule) -> Option<u32> {
        runs_needed(&self.noise?, self.bound, rule)
    }

    /// Whether there was enough to go by.
    pub fn is_decided(&self) -> bool {
        !matches!(self.verdict, Verdict::InsufficientData | Verdict::Inconclusive)
    }
}

/// Gives every test that could be made its verdict.
fn flag(tests: &mut [Vec<Test>], rule: &Rule) {
    let mut all: Vec<&mut Test> =
        tests.iter_mut().flatten().filter(|test| test.noise.is_some()).collect();
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

impl CommonShift {
    fn of(shifts: &[f64], base_runs: usize, rule: &Rule) -> Self {
        let (base, head) = shifts.split_at(base_runs);
        let change = mean(head) - mean(base);
        let degrees = shifts.len() as f64 - 2.0;
        if degrees < 2.0 {
            return Self { change, interval: None, chance: None };
        }
        let variance = ((squares(base) + squares(head)) / degrees).max(1e-10);
        let error = (variance * (1.0 / base.len() as f64 + 1.0 / head.len() as f64)).sqrt();
        let reach = t_exceeded_by(0.025, degrees) * error;
        let chance = t_above((change - rule.least_effect.ln_1p()) / error, degrees);
        Self { change, interval: Some((change - reach, change + reach)), chance: Some(chance) }
    }
}
