//! Where the durations of a run lie: values at ranks, between which intervals around a
//! figure are interpolated.
//!
//! They come from 1,024 to 2,048 durations of a name; the figures themselves are exact.
//! Of 3,300 diffs of each design, as many were false alarms as with all durations but
//! for one, and what was found differs by 0.2 % at most: `all_durations` of the bench
//! `diff`.

/// Ranks between which intervals around the quantiles are interpolated, in percent,
/// rising: finer where a quantile is near.
pub(super) fn ladder_ranks(percentiles: &[f64]) -> Vec<f64> {
    let mut ranks = vec![0.0, 100.0];
    for &percentile in percentiles {
        let tail = percentile.min(100.0 - percentile);
        ranks.push(percentile);
        for step in [0.04, 0.1, 0.25, 0.5, 0.8] {
            ranks.extend([percentile - step * tail, percentile + step * tail]);
        }
        for step in [1.5, 3.0] {
            ranks.extend([percentile - step * tail, percentile + step * tail]);
        }
    }
    ranks.retain(|rank| (0.0..=100.0).contains(rank));
    ranks.sort_unstable_by(f64::total_cmp);
    ranks.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    ranks
}

/// Values at ranks, both rising: the exact ones where they are known, by percent, and
/// between them what a part of the durations shows, which is all of them if there are
/// few. Samples rise, each with how many it stands for.
pub(super) fn ladder(
    ranks: &[f64],
    samples: &[(f64, f64)],
    exact: &[(f64, f64)],
) -> Vec<(f64, f64)> {
    let whole: f64 = samples.iter().map(|it| it.1).sum();
    let mut found = Vec::with_capacity(ranks.len());
    let (mut at, mut before) = (0, 0.0);
    for &rank in ranks {
        while at + 1 < samples.len() && before + samples[at].1 < rank / 100.0 * whole {
            before += samples[at].1;
            at += 1;
        }
        let known = exact.iter().find(|it| (it.0 - rank).abs() < 1e-9).map(|it| it.1);
        if let Some(value) = known.or(samples.get(at).map(|it| it.0)) {
            found.push((rank / 100.0, value));
        }
    }
    // A sample may lie on the wrong side of a value that is known.
    for &(percent, value) in exact {
        for step in &mut found {
            let is_below = step.0 < percent / 100.0;
            step.1 = if is_below { step.1.min(value) } else { step.1.max(value) };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_is_finer_where_a_quantile_is_near() {
        let ranks = ladder_ranks(&[50.0, 99.0]);
        assert!(ranks.is_sorted() && ranks.contains(&50.0) && ranks.contains(&99.1));
        assert_eq!((ranks[0], *ranks.last().unwrap()), (0.0, 100.0));
    }

    #[test]
    fn what_is_known_holds_the_samples_in_order() {
        let samples = [(1.0, 2.0), (5.0, 2.0), (9.0, 2.0)];
        let found = ladder(&[0.0, 40.0, 50.0, 60.0, 100.0], &samples, &[(50.0, 4.0)]);
        assert_eq!(found, [(0.0, 1.0), (0.4, 4.0), (0.5, 4.0), (0.6, 5.0), (1.0, 9.0)]);
    }
}
