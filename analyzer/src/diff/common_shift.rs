//! What slowed everything down alike: another clock speed, a busy neighbour, a
//! build without optimisation.
//!
//! It is taken out of every name, so that it does not read as two hundred
//! regressions, and reported in a row of its own, never silently normalised away. A
//! name counts here only if most of its time is its own: parents move with their
//! children, and would make one slow leaf look like a shift of all.

use super::{matching::Matched, numerics::median};

/// With fewer names a shift of all cannot be told from their own.
pub(super) const LEAST_NAMES: usize = 8;
/// The part of a name's time that has to be its own.
const OWN: f64 = 0.5;

/// Logarithm of one figure of one name, by run, and how unsure each run leaves it.
pub(super) struct Line {
    /// Index of the name.
    pub(super) name: usize,
    /// By run; none where the name does not occur.
    pub(super) values: Vec<Option<f64>>,
    /// Mean variance within the runs.
    pub(super) within: f64,
    /// How far a change has to lead, downwards and upwards, to be out of the
    /// intervals of the runs.
    pub(super) reaches: (f64, f64),
}

/// The shift of each run against the mean of all, if there are enough names to tell.
pub(super) fn of_runs(lines: &[Line], names: &[Matched<'_>], runs: usize) -> Option<Vec<f64>> {
    let counts = |line: &&Line| {
        line.values.iter().all(Option::is_some) && names[line.name].own_share() >= OWN
    };
    let mut measured: Vec<&Line> = lines.iter().filter(counts).collect();
    if measured.len() < LEAST_NAMES {
        return None;
    }
    measured.sort_by(|a, b| a.within.total_cmp(&b.within));
    measured.truncate(measured.len().div_ceil(2).max(LEAST_NAMES));
    let mean = |line: &Line| line.values.iter().flatten().sum::<f64>() / runs as f64;
    let means: Vec<f64> = measured.iter().map(|line| mean(line)).collect();
    let of_run = |run: usize| {
        let distance = |(line, mean): (&&Line, &f64)| line.values[run].map(|it| it - mean);
        median(&mut measured.iter().zip(&means).filter_map(distance).collect::<Vec<f64>>())
    };
    Some((0..runs).map(of_run).collect())
}
