//! How much each name's figure varies from run to run.

use super::{
    common_shift::Line,
    comparing::{sides, squares},
    decision::RELAXED_FROM,
    moderation::{Prior, Seen},
    numerics::median,
    sensitivity::Noise,
};

/// Names that it takes to know the noise of a single pair.
pub(super) const LEAST_NAMES_SINGLE: usize = 10;
/// Degrees of freedom of a single pair: its noise is long-tailed.
const DEGREES_SINGLE: f64 = 6.5;

/// Names of a single pair are never taken for much steadier than the rest.
const PAIR_FLOOR: f64 = 1.0;

/// The noise of each name, from runs of the same side.
pub(super) fn noise_across_runs(lines: &[Line], base_runs: usize) -> Vec<Option<Noise>> {
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
pub(super) fn noise_of_a_pair(lines: &[Line]) -> Vec<Option<Noise>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn line(change: f64, within: f64) -> Line {
        Line { name: 0, values: vec![Some(0.0), Some(change)], within, reaches: (0.0, 0.0) }
    }

    #[test]
    fn the_noise_of_a_pair_is_the_spread_of_all_names() {
        let few: Vec<Line> = (0..9).map(|_| line(0.01, 1e-6)).collect();
        assert!(noise_of_a_pair(&few).iter().all(Option::is_none));
        let many: Vec<Line> =
            (0..40).map(|at| line(if at % 2 == 0 { 0.02 } else { -0.02 }, 1e-8)).collect();
        let error = noise_of_a_pair(&many)[0].map(|noise| noise.error()).unwrap_or_default();
        // Half of all standard normal deviates are within 0.6745.
        assert!((error - 0.02 / 0.674_5).abs() < 1e-3, "{error}");
    }

    #[test]
    fn a_name_that_its_own_runs_leave_unsure_has_more_noise_than_the_rest() {
        let mut names: Vec<Line> =
            (0..40).map(|at| line(if at % 2 == 0 { 0.01 } else { -0.01 }, 1e-8)).collect();
        names.push(line(0.0, 0.04));
        let noises = noise_of_a_pair(&names);
        let error = |at: usize| noises[at].map_or(0.0, |noise: Noise| noise.error());
        assert!(error(40) > 0.28 && error(0) < 0.02, "{} {}", error(40), error(0));
    }

    #[test]
    fn runs_of_one_side_make_the_noise_and_it_is_never_below_a_names_own() {
        let quiet = |_| Line {
            name: 0,
            values: [0.0, 0.001, -0.001, 0.5, 0.501, 0.499].map(Some).to_vec(),
            within: 1e-8,
            reaches: (0.0, 0.0),
        };
        let mut names: Vec<Line> = (0..10).map(quiet).collect();
        let loud = [0.0, 0.3, -0.3, 0.0, 0.3, -0.3].map(Some).to_vec();
        names.push(Line { values: loud, ..quiet(0) });
        let noises = noise_across_runs(&names, 3);
        let variance = |at: usize| noises[at].map_or(0.0, |noise| noise.variance);
        assert!(variance(10) >= 0.09 - 1e-12, "{}", variance(10));
        // The step between the sides is no noise.
        assert!(variance(0) < 0.01, "{}", variance(0));
    }
}
