//! One figure of all names, compared: the chance and the interval of each change.

use super::{
    clearance::reaches,
    common_shift::{self, Line},
    decision::{CommonShift, Design, RELAXED_FROM, Rule, Test, Verdict},
    estimate::Estimate,
    matching::Matched,
    noise::{noise_across_runs, noise_of_a_pair},
    numerics::{t_above, t_exceeded_by},
    run_summary::Metric,
    sensitivity::Noise,
};

/// How many runs there are.
#[derive(Clone, Copy)]
pub(super) struct Runs {
    pub(super) base: usize,
    pub(super) head: usize,
}

impl Runs {
    pub(super) fn design(self) -> Design {
        match (self.base, self.head) {
            (1, 1) => Design::SinglePair,
            (base, head) if base.min(head) >= RELAXED_FROM => Design::Relaxed,
            _ => Design::Strict,
        }
    }
}

/// What of a figure is taken out as shared by all names.
pub(super) enum Shared<'a> {
    /// What moved all of them alike.
    Own,
    /// What was found for another figure, by run.
    Known(Option<&'a [f64]>),
}

/// Compares one figure of all names, and returns what they shared, by run.
pub(super) fn compare(
    names: &[Matched<'_>],
    (at, metric): (usize, Metric),
    runs: Runs,
    rule: &Rule,
    shared: Shared<'_>,
    tests: &mut [Vec<Test>],
) -> Option<Vec<f64>> {
    let mut lines = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if name.sides(runs.base) != (true, true) {
            continue;
        }
        let estimates: Vec<_> =
            name.runs.iter().map(|run| run.and_then(|it| it.estimate(metric, at))).collect();
        let present = || estimates.iter().flatten();
        let usable = present().all(|it| it.is_usable());
        let value = |it: &Estimate| it.value.ln();
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
        let nothing = Test { base: f64::NAN, head: f64::NAN, ..Test::between(&[], &[]) };
        let test = if usable { Test::between(&base_values, &head_values) } else { nothing };
        tests[index].push(Test { metric: at, lacking, ..test });
        if eligible {
            let reaches = reaches(&estimates, runs.base, metric);
            lines.push(Line { name: index, values, within, reaches });
        }
    }
    let shifts = match shared {
        Shared::Own => common_shift::of_runs(&lines, names, runs.base + runs.head),
        Shared::Known(shifts) => shifts.map(<[f64]>::to_vec),
    };
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
        test.reach = line.reaches.1;
        test.settle(noise, rule, &mut widths);
    }
    shifts
}

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
pub(super) fn sides(values: &[Option<f64>], base_runs: usize) -> (Vec<f64>, Vec<f64>) {
    let (base, head) = values.split_at(base_runs);
    (base.iter().flatten().copied().collect(), head.iter().flatten().copied().collect())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

pub(super) fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|it| (it - mean).powi(2)).sum()
}

/// How many standard errors an interval of 95 % reaches, by degrees of freedom, of
/// which most names have the same.
#[derive(Default)]
pub(super) struct Widths(Vec<(f64, f64)>);

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
    /// Not made yet, of logarithms by run.
    pub(super) fn between(base: &[f64], head: &[f64]) -> Self {
        let (base, head) = (mean(base), mean(head));
        Self {
            metric: 0,
            base: base.exp(),
            head: head.exp(),
            own: head - base,
            interval: (f64::NEG_INFINITY, f64::INFINITY),
            chance: 1.0,
            verdict: Verdict::InsufficientData,
            lacking: 1.0,
            noise: None,
            is_clear: true,
            reach: 0.0,
            confirming: None,
            bound: 0.0,
        }
    }

    /// Works out the chance.
    pub(super) fn settle(&mut self, noise: Option<Noise>, rule: &Rule, widths: &mut Widths) {
        self.noise = noise;
        let Some(noise) = noise else { return };
        let error = noise.error();
        let least = noise.least(rule);
        let beyond = |by: f64| t_above((self.own.abs() + by) / error, noise.degrees);
        self.chance = (beyond(-least) + beyond(least)).min(1.0);
        let reach = widths.of(noise.degrees) * error;
        self.interval = (self.own - reach, self.own + reach);
        self.verdict = Verdict::Inconclusive;
    }
}

impl CommonShift {
    pub(super) fn of(shifts: &[f64], base_runs: usize, rule: &Rule) -> Self {
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
