//! Whose fault the end-to-end change is.
//!
//! End to end is the time of all outermost spans, which is the self time of all
//! names. A name's part of its change splits into what comes of being called more
//! often and what comes of each call taking longer; the parts of all names add up
//! to the whole, exactly. Names that may as well not have changed are one row: those
//! whose interval covers zero, where the intervals of all names hold at once with 95 %.
//! With an interval of 95 % for each, one name in twenty would be named for nothing.

use super::{
    decision::{Decision, Judged, Verdict},
    numerics::t_exceeded_by,
    run_summary::{NameSummary, What},
};

/// The change of one name's self time, in nanoseconds a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// From being called more or less often.
    pub by_count_ns: f64,
    /// From each call taking longer or shorter.
    pub by_call_ns: f64,
}

impl Part {
    /// Both together.
    pub fn total_ns(&self) -> f64 {
        self.by_count_ns + self.by_call_ns
    }
}

/// One name's part.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Index into [`Decision::names`].
    pub name: usize,
    /// Its part.
    pub part: Part,
    /// Calls a run on both sides.
    pub count: (f64, f64),
    /// Self time of a call on both sides, in nanoseconds.
    pub call_ns: (f64, f64),
}

/// How the change of everything of one kind comes about.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// Spans, or work of devices.
    pub what: What,
    /// Time a run of both sides, in nanoseconds.
    pub total_ns: (f64, f64),
    /// The interval of 95 % of its change, if there are runs enough.
    pub interval_ns: Option<(f64, f64)>,
    /// Names that changed, the largest part first.
    pub shares: Vec<Share>,
    /// All others together, and how many they are.
    pub noise: (usize, Part),
}

impl Attribution {
    /// The end-to-end change.
    pub fn change_ns(&self) -> f64 {
        self.shares.iter().map(|share| share.part.total_ns()).sum::<f64>() + self.noise.1.total_ns()
    }
}

/// Splits a change of self time: `count` and `total` of both sides.
pub fn split(count: (f64, f64), total: (f64, f64)) -> Part {
    let change = total.1 - total.0;
    let mean = |total: f64, count: f64| (count > 0.0).then(|| total / count);
    match (mean(total.0, count.0), mean(total.1, count.1)) {
        (Some(before), Some(after)) => {
            let by_call_ns = 0.5 * (count.0 + count.1) * (after - before);
            // Called as often is no part at all, however the sums are rounded.
            if count.0 == count.1 {
                return Part { by_count_ns: 0.0, by_call_ns: change };
            }
            Part { by_count_ns: change - by_call_ns, by_call_ns }
        }
        // Calls that are new or gone took what they took.
        _ => Part { by_count_ns: change, by_call_ns: 0.0 },
    }
}

/// The attribution of spans, and of work of devices if there is any.
pub fn attribute(decision: &Decision<'_>) -> Vec<Attribution> {
    [What::Span, What::Device].into_iter().filter_map(|what| of_kind(decision, what)).collect()
}

fn of_kind(decision: &Decision<'_>, what: What) -> Option<Attribution> {
    let mut sum = Attribution {
        what,
        total_ns: (0.0, 0.0),
        interval_ns: None,
        shares: vec![],
        noise: (0, Part::default()),
    };
    let names = decision.names.iter().filter(|it| it.name.what == what).count();
    let mut by_run: (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for (at, judged) in decision.names.iter().enumerate() {
        if judged.name.what != what {
            continue;
        }
        let side = |of: fn(&NameSummary) -> f64| sides(judged, decision.base_runs, of);
        let (base_own, head_own) = side(|it| it.self_ns);
        add(&mut by_run.0, &base_own);
        add(&mut by_run.1, &head_own);
        let (base_count, head_count) = side(|it| it.count as f64);
        let (count, total) =
            ((mean(&base_count), mean(&head_count)), (mean(&base_own), mean(&head_own)));
        sum.total_ns = (sum.total_ns.0 + total.0, sum.total_ns.1 + total.1);
        let part = split(count, total);
        if is_noise(judged, &base_own, &head_own, count, names) {
            sum.noise.0 += 1;
            sum.noise.1.by_count_ns += part.by_count_ns;
            sum.noise.1.by_call_ns += part.by_call_ns;
        } else {
            let call = |total: f64, count: f64| if count > 0.0 { total / count } else { 0.0 };
            let call_ns = (call(total.0, count.0), call(total.1, count.1));
            sum.shares.push(Share { name: at, part, count, call_ns });
        }
    }
    sum.shares.sort_by(|a, b| b.part.total_ns().abs().total_cmp(&a.part.total_ns().abs()));
    sum.interval_ns = interval(&by_run.0, &by_run.1, 0.05);
    (names > 0).then_some(sum)
}

/// Adds by run.
fn add(sums: &mut Vec<f64>, values: &[f64]) {
    sums.resize(values.len(), 0.0);
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// By run of each side; 0 where the name does not occur.
fn sides(
    judged: &Judged<'_>,
    base_runs: usize,
    of: fn(&NameSummary) -> f64,
) -> (Vec<f64>, Vec<f64>) {
    let all: Vec<f64> = judged.name.runs.iter().map(|run| run.map_or(0.0, of)).collect();
    let (base, head) = all.split_at(base_runs);
    (base.to_vec(), head.to_vec())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Counts that differ by less are taken for the same.
const SAME_COUNT: f64 = 0.005;

/// Whether the name's time, one of so many, may as well not have changed.
fn is_noise(
    judged: &Judged<'_>,
    base: &[f64],
    head: &[f64],
    count: (f64, f64),
    names: usize,
) -> bool {
    use Verdict::{Improvement, New, Regression, Removed};
    if matches!(judged.verdict, New | Removed | Regression | Improvement) {
        return false;
    }
    match interval(base, head, 0.05 / names.max(1) as f64) {
        Some((low, high)) => low <= 0.0 && high >= 0.0,
        None => (count.1 - count.0).abs() <= SAME_COUNT * count.0.max(count.1),
    }
}

/// Welch's interval of a change of means that misses it with this chance; none if a
/// side has one run.
fn interval(base: &[f64], head: &[f64], chance: f64) -> Option<(f64, f64)> {
    if base.len() < 2 || head.len() < 2 {
        return None;
    }
    let square = |side: &[f64]| {
        let mean = mean(side);
        let sum: f64 = side.iter().map(|it| (it - mean).powi(2)).sum();
        sum / (side.len() - 1) as f64 / side.len() as f64
    };
    let (a, b) = (square(base), square(head));
    let change = mean(head) - mean(base);
    if a + b <= 0.0 {
        return Some((change, change));
    }
    let degrees =
        (a + b).powi(2) / (a * a / (base.len() - 1) as f64 + b * b / (head.len() - 1) as f64);
    let reach = t_exceeded_by(0.5 * chance, degrees.max(1.0)) * (a + b).sqrt();
    Some((change - reach, change + reach))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_change_is_that_of_welch() {
        // 3 apart, a standard error of 0.7071, and 3.857 degrees of freedom, of which the
        // quantile is 2.82.
        let (low, high) = interval(&[10.0, 11.0, 9.0, 10.0], &[12.0, 14.0, 13.0], 0.05).unwrap();
        assert!((low - 1.008).abs() < 0.01 && (high - 4.992).abs() < 0.01, "{low} {high}");
        assert_eq!(interval(&[1.0], &[2.0, 3.0], 0.05), None);
        assert_eq!(interval(&[1.0, 1.0], &[3.0, 3.0], 0.05), Some((2.0, 2.0)));
    }
}
