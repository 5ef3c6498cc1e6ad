//! Leak suspects.
//!
//! A suspect is a group of allocations whose *floor* keeps rising: of each eighth of the
//! trace, the least bytes outstanding are never less than in the eighth before,
//! and are more at least four times. Work that comes and goes has a floor that
//! comes down again, and what is allocated once rises once.

/// Parts of the trace whose floors are compared.
const EIGHTHS: usize = 8;
/// How often the floor of a suspect rises.
const RISES: usize = 4;

/// The least bytes outstanding in each eighth of a time.
pub(super) struct Floors {
    range: (f64, f64),
    least: [f64; EIGHTHS],
    /// The eighth that it is, and what is outstanding.
    now: (usize, f64),
}

impl Floors {
    pub(super) fn new(range: (f64, f64)) -> Self {
        Self { range, least: [f64::INFINITY; EIGHTHS], now: (0, 0.0) }
    }

    /// From this time on so much is outstanding; times rise.
    pub(super) fn change(&mut self, time: f64, after: f64) {
        let (from, to) = self.range;
        let part = (time - from) / (to - from) * EIGHTHS as f64;
        let part = (part.max(0.0) as usize).min(EIGHTHS - 1);
        let (at, before) = self.now;
        // What was outstanding lasted until now.
        for least in &mut self.least[at.min(part)..=part] {
            *least = least.min(before);
        }
        self.least[part] = self.least[part].min(after);
        self.now = (part, after);
    }

    /// All of them, if nothing changes any more.
    pub(super) fn all(&self) -> [f64; EIGHTHS] {
        let (at, now) = self.now;
        let mut all = self.least;
        all[at..].iter_mut().for_each(|least| *least = least.min(now));
        all
    }
}

/// Whether these are the floors of a suspect.
pub(super) fn keep_rising(floors: &[f64]) -> bool {
    let pairs = || floors.windows(2);
    pairs().all(|pair| pair[1] >= pair[0])
        && pairs().filter(|pair| pair[1] > pair[0]).count() >= RISES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outstanding_lasts_until_it_changes() {
        let mut floors = Floors::new((0.0, 8.0));
        floors.change(1.5, 10.0);
        floors.change(3.5, 4.0);
        floors.change(3.6, 20.0);
        assert_eq!(floors.all(), [0.0, 0.0, 10.0, 4.0, 20.0, 20.0, 20.0, 20.0]);
        assert!(!keep_rising(&floors.all()));
        assert!(keep_rising(&[0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0]));
    }
}
