//! Many tests at once: Benjamini and Hochberg's way to keep the share of false ones
//! among those that are flagged.

/// Which of these chances are small enough that at most `rate` of them are false.
/// Also the chance up to which one would have been.
pub(super) fn discoveries(chances: &[f64], rate: f64) -> (Vec<bool>, f64) {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&a, &b| chances[a].total_cmp(&chances[b]));
    let bound = |found: usize| rate * found as f64 / chances.len().max(1) as f64;
    let found = (1..=order.len()).rev().find(|&rank| chances[order[rank - 1]] <= bound(rank));
    let found = found.unwrap_or(0);
    let mut flagged = vec![false; chances.len()];
    order[..found].iter().for_each(|&at| flagged[at] = true);
    (flagged, bound((found + 1).min(chances.len().max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Benjamini and Hochberg (1995), section 3.2: four of fifteen.
    #[test]
    fn the_published_example_gives_the_published_four() {
        let chances = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let (flagged, bound) = discoveries(&chances, 0.05);
        assert_eq!(flagged.iter().filter(|it| **it).count(), 4);
        assert!((bound - 0.05 * 5.0 / 15.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert_eq!(discoveries(&[], 0.01).0, Vec::<bool>::new());
        assert_eq!(discoveries(&[0.5, 0.9], 0.01), (vec![false, false], 0.005));
    }
}
