//! A part of a series, evenly spread over it: every so many of its values, all of them
//! if there are few.

/// Between `most` and twice as many values of a series.
#[derive(Clone, Debug)]
pub(crate) struct Thinned<T> {
    pub(crate) kept: Vec<T>,
    /// For how many each of them stands.
    pub(crate) stride: u32,
    /// Values until the next one that is kept.
    skip: u32,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), stride: 1, skip: 0 }
    }
}

impl<T> Thinned<T> {
    /// The next value of the series.
    #[inline]
    pub(crate) fn see(&mut self, value: T, most: usize) {
        if self.skip == 0 {
            self.keep(value, most);
        } else {
            self.skip -= 1;
        }
    }

    /// Of twice as many as wanted, every second one is dropped.
    fn keep(&mut self, value: T, most: usize) {
        self.kept.push(value);
        // Also if this one is dropped right away: the next is as far from it as it was from the last.
        self.skip = self.stride - 1;
        if self.kept.len() >= 2 * most && self.stride < u32::MAX / 2 {
            let mut at = 0;
            self.kept.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_kept_all_and_many_evenly() {
        let thinned = |n: u32| {
            let mut thinned = Thinned::default();
            (0..n).for_each(|it| thinned.see(it, 4));
            (thinned.kept, thinned.stride)
        };
        assert_eq!(thinned(7), ((0..7).collect(), 1));
        assert_eq!(thinned(8), (vec![0, 2, 4, 6], 2));
        let (kept, stride) = thinned(1_000);
        assert!(
            (4..8).contains(&kept.len()) && kept.iter().zip(0..).all(|(it, at)| *it == at * stride),
            "{kept:?} {stride}"
        );
    }
}
