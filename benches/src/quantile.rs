//! Medians and percentiles of small samples, exact (nearest rank).

/// The middle of the samples, or `None` of nothing.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    percentile(samples, 50.0)
}

/// The smallest sample that at least `percent` of all samples do not exceed.
pub(crate) fn percentile(samples: &[f64], percent: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}
