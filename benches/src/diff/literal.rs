//! The rule that `analyze diff` started from, to the letter, so that both can be held
//! against the same runs.
//!
//! Per run, name and figure the logarithm of a quantile or the mean. A name takes part
//! if its effective calls suffice: strictly in every run, or in the mean from five runs a
//! side on. What the better-measured half of the names shares is taken out of each run.
//! Variances across runs are drawn towards the usual one (limma), never below the
//! name's own, and strictly never below half of that within the runs. A one-sided test
//! against the least slowdown that matters, then Benjamini and Hochberg at 1 %. One run
//! against one takes the spread of the changes of all names for the noise, with eight
//! degrees of freedom.
//!
//! It looks for slowdowns alone, where `analyze diff` also flags what is faster.

use ringscope_analyzer::diff::numerics::{digamma, median, t_above, trigamma, trigamma_inverse};
use ringscope_analyzer::diff::{Metric, RunSummary};

const LEAST_EFFECT: f64 = 0.02;
const LEAST_EFFECT_SINGLE: f64 = 0.05;
const FALSE_SHARE: f64 = 0.01;
const RELAXED_FROM: usize = 5;
const LEAST_NAMES_SINGLE: usize = 10;
const DEGREES_SINGLE: f64 = 8.0;

/// One figure of one name: logarithms by run, the base's first.
struct Line {
    name: usize,
    values: Vec<f64>,
    within: f64,
}

/// Names that are slower, by their index.
pub(crate) fn slower(base: &[&RunSummary], head: &[&RunSummary]) -> Vec<usize> {
    let runs: Vec<&RunSummary> = base.iter().chain(head).copied().collect();
    let mut chances = Vec::new();
    // It knew of no lower quartile.
    let is_known = |it: &(usize, Metric)| it.1 != Metric::Percentile(25.0);
    for (at, metric) in runs[0].metrics().into_iter().enumerate().filter(is_known) {
        let mut lines = eligible(&runs, at, metric, base.len().min(head.len()));
        take_out_what_is_shared(&mut lines, runs.len());
        chances.extend(if runs.len() == 2 {
            chances_of_a_pair(&lines)
        } else {
            chances_across_runs(&lines, base.len(), head.len())
        });
    }
    chances.sort_by(|a, b| a.1.total_cmp(&b.1));
    let bound = |rank: usize| FALSE_SHARE * rank as f64 / chances.len() as f64;
    let found = (1..=chances.len()).rev().find(|&rank| chances[rank - 1].1 <= bound(rank));
    chances[..found.unwrap_or(0)].iter().map(|it| it.0).collect()
}

fn eligible(runs: &[&RunSummary], at: usize, metric: Metric, fewest: usize) -> Vec<Line> {
    let (tail, is_central) = match metric {
        Metric::Percentile(percent) => (1.0 - percent / 100.0, percent == 50.0),
        Metric::Mean | Metric::Total | Metric::Count => (1.0, true),
    };
    let mut lines = Vec::new();
    for name in 0..runs[0].names.len() {
        let all: Vec<_> =
            runs.iter().filter_map(|run| run.names[name].estimate(metric, at)).collect();
        let effective = all.iter().map(|it| it.effective);
        let n = all.len() as f64;
        let is_enough = if fewest >= RELAXED_FROM {
            let mean = effective.sum::<f64>() / n;
            if is_central { mean >= 8.0 } else { mean * tail >= 4.0 }
        } else {
            let least = effective.fold(f64::INFINITY, f64::min);
            if is_central { least >= 32.0 } else { least * tail >= 16.0 }
        };
        let within = all.iter().map(|it| it.log_error().powi(2)).sum::<f64>() / n;
        if is_enough && within.is_finite() {
            let values = all.iter().map(|it| it.value.ln()).collect();
            lines.push(Line { name, values, within });
        }
    }
    lines
}

fn take_out_what_is_shared(lines: &mut [Line], runs: usize) {
    let mut best: Vec<&Line> = lines.iter().collect();
    best.sort_by(|a, b| a.within.total_cmp(&b.within));
    best.truncate(best.len().div_ceil(2));
    let shift = |run: usize| {
        let distance = |line: &&Line| line.values[run] - mean(&line.values);
        median(&mut best.iter().map(distance).collect::<Vec<f64>>())
    };
    let shifts: Vec<f64> = (0..runs).map(shift).collect();
    for line in lines {
        line.values.iter_mut().zip(&shifts).for_each(|(value, shift)| *value -= shift);
    }
}

fn chances_of_a_pair(lines: &[Line]) -> Vec<(usize, f64)> {
    if lines.len() < LEAST_NAMES_SINGLE {
        return Vec::new();
    }
    let change = |line: &Line| line.values[1] - line.values[0];
    let middle = median(&mut lines.iter().map(change).collect::<Vec<_>>());
    let distance = |line: &Line| (change(line) - middle).abs();
    // The median distance of normal deviates is 0.6745 standard deviations.
    let scale = 1.4826 * median(&mut lines.iter().map(distance).collect::<Vec<_>>());
    let least = LEAST_EFFECT_SINGLE.ln_1p();
    let chance = |line: &Line| t_above((change(line) - least) / scale.max(1e-5), DEGREES_SINGLE);
    lines.iter().map(|line| (line.name, chance(line))).collect()
}

fn chances_across_runs(lines: &[Line], base: usize, head: usize) -> Vec<(usize, f64)> {
    let degrees = (base + head) as f64 - 2.0;
    let variance = |line: &Line| {
        let (base, head) = line.values.split_at(base);
        ((squares(base) + squares(head)) / degrees).max(1e-10)
    };
    let variances: Vec<f64> = lines.iter().map(variance).collect();
    let (prior, prior_degrees) = prior(&variances, degrees);
    let is_strict = base.min(head) < RELAXED_FROM;
    let chance = |(line, &own): (&Line, &f64)| {
        let shrunk = if prior_degrees.is_finite() {
            (prior_degrees * prior + degrees * own) / (prior_degrees + degrees)
        } else {
            prior
        };
        let floor = if is_strict { 0.5 * line.within } else { 0.0 };
        let variance = shrunk.max(own).max(floor);
        let error = (variance * (1.0 / base as f64 + 1.0 / head as f64)).sqrt();
        let (base, head) = line.values.split_at(base);
        let beyond = mean(head) - mean(base) - LEAST_EFFECT.ln_1p();
        (line.name, t_above(beyond / error, prior_degrees + degrees))
    };
    lines.iter().zip(&variances).map(chance).collect()
}

/// Smyth's (2004) fit of what variances have in common: the usual one, and the degrees
/// of freedom that it counts for.
fn prior(variances: &[f64], degrees: f64) -> (f64, f64) {
    let half = 0.5 * degrees;
    let levels: Vec<f64> = variances.iter().map(|it| it.ln() - digamma(half) + half.ln()).collect();
    let level = mean(&levels);
    let beyond_chance = squares(&levels) / (levels.len() as f64 - 1.0).max(1.0) - trigamma(half);
    if beyond_chance <= 0.0 {
        return (level.exp(), f64::INFINITY);
    }
    let prior_degrees = 2.0 * trigamma_inverse(beyond_chance);
    let shift = digamma(0.5 * prior_degrees) - (0.5 * prior_degrees).ln();
    ((level + shift).exp(), prior_degrees)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|it| (it - mean).powi(2)).sum()
}
