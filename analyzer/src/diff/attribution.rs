//! Whose fault the end-to-end change is.
//!
//! End to end is the time of all outermost spans, which is the self time of all
//! names. A name's part of its change splits into what comes of being called more
//! often and what comes of each call taking longer; the parts of all names add up
//! to the whole, exactly. Names that may as well not have changed are one row.

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
    let mut sum =
        Attribution { what, total_ns: (0.0, 0.0), shares: vec![], noise: (0, Part::default()) };
    let mut any = false;
    for (at, judged) in decision.names.iter().enumerate() {
        if judged.name.what != what {
            continue;
        }
        any = true;
        let side = |of: fn(&NameSummary) -> f64| sides(judged, decision.base_runs, of);
        let (base_own, head_own) = side(|it| it.self_ns);
        let (base_count, head_count) = side(|it| it.count as f64);
        let (count, total) =
            ((mean(&base_count), mean(&head_count)), (mean(&base_own), mean(&head_own)));
        sum.total_ns = (sum.total_ns.0 + total.0, sum.total_ns.1 + total.1);
        let part = split(count, total);
        if is_noise(judged, &base_own, &head_own, count) {
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
    any.then_some(sum)
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

/// Whether the name's time may as well not have changed.
fn is_noise(judged: &Judged<'_>, base: &[f64], head: &[f64], count: (f64, f64)) -> bool {
    if matches!(judged.verdict, Verdict::New | Verdict::Removed) {
        return false;
    }
    if base.len() < 2 || head.len() < 2 {
        let same_count = (count.1 - count.0).abs() <= SAME_COUNT * count.0.max(count.1);
        let changed = matches!(judged.verdict, Verdict::Regression | Verdict::Improvement);
        return same_count && !changed;
    }
    let square = |side: &[f64]| {
        let mean = mean(side);
        let sum: f64 = side.iter().map(|it| (it - mean).powi(2)).sum();
        sum / (side.len() - 1) as f64 / side.len() as f64
    };
    let (a, b) = (square(base), square(head));
    let change = mean(head) - mean(base);
    if a + b <= 0.0 {
        return change == 0.0;
    }
    // Welch's interval of 95 %.
    let degrees =
        (a + b).powi(2) / (a * a / (base.len() - 1) as f64 + b * b / (head.len() - 1) as f64);
    change.abs() <= t_exceeded_by(0.025, degrees.max(1.0)) * (a + b).sqrt()
}
