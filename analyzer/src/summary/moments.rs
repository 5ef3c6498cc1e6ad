//! Count, sum, extremes and spread of durations, as they come.

/// What is known of a group of durations without sorting them. Unit: that of
/// what was pushed.
///
/// One cache line, since a group's is fetched for every record.
#[derive(Clone, Debug, Default, PartialEq)]
#[repr(align(64))]
pub struct Moments {
    /// How many.
    pub count: u64,
    /// Their sum, exact.
    pub total: u128,
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// How many of them failed.
    pub errors: u64,
    /// The first one. Spread is summed up relative to it, so that durations which
    /// are long and nearly equal keep their digits.
    pivot: u64,
    /// Sum of the squares of the distances to the pivot.
    squares: f64,
}

impl Moments {
    /// Adds one.
    #[inline(always)]
    pub fn push(&mut self, value: u64) {
        if self.count == 0 {
            self.pivot = value;
            self.min = value;
        }
        self.count += 1;
        self.total += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let distance = value.abs_diff(self.pivot) as f64;
        self.squares += distance * distance;
    }

    /// Adds those of another group.
    pub fn merge(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            self.clone_from(other);
            return;
        }
        // The other's sums, as seen from our pivot.
        let shift = other.pivot as f64 - self.pivot as f64;
        let n = other.count as f64;
        self.squares += other.squares + 2.0 * shift * other.distance() + n * shift * shift;
        self.count += other.count;
        self.total += other.total;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.errors += other.errors;
    }

    /// The sum of the distances to the pivot.
    fn distance(&self) -> f64 {
        let pivots = u128::from(self.pivot) * u128::from(self.count);
        if self.total >= pivots {
            (self.total - pivots) as f64
        } else {
            -((pivots - self.total) as f64)
        }
    }

    /// The mean; 0 of nothing.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }

    /// The sample standard deviation; 0 of fewer than two.
    pub fn std(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let n = self.count as f64;
        let around_mean = self.squares - self.distance().powi(2) / n;
        (around_mean / (n - 1.0)).max(0.0).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|&value| moments.push(value));
        moments
    }

    #[test]
    fn long_and_nearly_equal_durations_keep_their_spread() {
        let base = 1_u64 << 52;
        let moments = of(&[base, base + 1, base + 2]);
        assert!((moments.std() - 1.0).abs() < 1e-9, "{}", moments.std());
        assert_eq!(moments.total, 3 * u128::from(base) + 3);
    }

    #[test]
    fn merging_is_the_same_as_pushing_all() {
        let all = of(&[5, 900, 33, 7, 12_000_000, 4]);
        let mut merged = of(&[5, 900]);
        merged.merge(&of(&[33, 7, 12_000_000, 4]));
        assert_eq!(
            (merged.count, merged.total, merged.min, merged.max),
            (6, all.total, 4, 12_000_000)
        );
        assert!((merged.std() / all.std() - 1.0).abs() < 1e-12);
        merged.merge(&Moments::default());
        assert_eq!(merged.count, 6);
    }
}
