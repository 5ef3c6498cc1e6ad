//! How the runs came about, where that speaks against comparing them: what was
//! lost, other machines and builds, and the order in which they were measured.

use std::collections::BTreeSet;

use super::run_summary::RunSummary;
use crate::output::count;

/// Something to be said about the runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Remark {
    /// For machines.
    pub(super) key: &'static str,
    /// For people.
    pub(super) text: String,
    /// Whether it makes the answer doubtful.
    pub(super) is_warning: bool,
}

/// In which order the sides were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// In turns, or nearly.
    Interleaved,
    /// One side after the other.
    OneAfterTheOther,
    /// One run each.
    Pair,
    /// The runs do not say when they began.
    Unknown,
}

impl Order {
    /// For machines.
    pub(super) fn key(self) -> &'static str {
        match self {
            Order::Interleaved => "interleaved",
            Order::OneAfterTheOther => "one_after_the_other",
            Order::Pair => "pair",
            Order::Unknown => "unknown",
        }
    }

    /// From when the runs began.
    pub(super) fn of(base: &[&RunSummary], head: &[&RunSummary]) -> Order {
        if base.len() == 1 && head.len() == 1 {
            return Order::Pair;
        }
        let begun = |side: &[&RunSummary]| -> Option<Vec<i64>> {
            side.iter().map(|run| run.begun_unix_ns).collect()
        };
        let (Some(base), Some(head)) = (begun(base), begun(head)) else { return Order::Unknown };
        let pairs = (base.len() * head.len()) as f64;
        let earlier =
            base.iter().map(|at| head.iter().filter(|it| at < *it).count()).sum::<usize>();
        let same = base.iter().map(|at| head.iter().filter(|it| at == *it).count()).sum::<usize>();
        if same as f64 == pairs {
            return Order::Unknown;
        }
        // Taken in turns, about half of all pairs have the base first.
        let share = (earlier as f64 + 0.5 * same as f64) / pairs;
        if (0.2..=0.8).contains(&share) { Order::Interleaved } else { Order::OneAfterTheOther }
    }
}

/// Everything that there is to say. The first is whether too much was lost.
pub(super) fn remarks(
    base: &[&RunSummary],
    head: &[&RunSummary],
    max_loss: f64,
) -> (bool, Vec<Remark>) {
    let mut remarks = Vec::new();
    let mut warn = |key, text| remarks.push(Remark { key, text, is_warning: true });
    let mut lost_too_much = false;
    for run in base.iter().chain(head) {
        let share = run.missing_share();
        if share > max_loss {
            lost_too_much = true;
            let text = format!(
                "{}: {} of {} events are missing ({:.2} %), more than the {} % of --max-loss; \
                 what is left cannot be compared",
                run.label,
                count(run.missing),
                count(run.missing + run.events),
                100.0 * share,
                100.0 * max_loss,
            );
            warn("loss", text);
        } else if run.missing > 0 {
            warn("loss", format!("{}: {} events are missing", run.label, count(run.missing)));
        }
        if run.missing_more {
            lost_too_much = true;
            warn("loss", format!("{}: damaged, and how much is missing is not known", run.label));
        } else if !run.finished {
            warn("unfinished", format!("{}: the recording did not end in good order", run.label));
        }
    }
    for text in differences(base, head) {
        warn("metadata", text);
    }
    match Order::of(base, head) {
        Order::OneAfterTheOther => warn(
            "order",
            "one side was measured after the other: whatever else changed meanwhile reads as a \
             change of the code; measure base and head in turns"
                .to_owned(),
        ),
        Order::Unknown => warn(
            "order",
            "in which order the runs were made is not known; measure base and head in turns"
                .to_owned(),
        ),
        Order::Pair => warn(
            "order",
            "one run a side: only large changes can be told from noise; five a side, in turns, \
             tell 10 %"
                .to_owned(),
        ),
        Order::Interleaved => {}
    }
    (lost_too_much, remarks)
}

/// What the sides say about machine and build and do not agree on.
fn differences(base: &[&RunSummary], head: &[&RunSummary]) -> Vec<String> {
    let keys: BTreeSet<&String> =
        base.iter().chain(head).flat_map(|run| run.metadata.keys()).collect();
    let values = |side: &[&RunSummary], key: &String| -> BTreeSet<Option<String>> {
        side.iter().map(|run| run.metadata.get(key).cloned()).collect()
    };
    let mut found = Vec::new();
    for key in keys {
        let (base, head) = (values(base, key), values(head, key));
        let is_machine = key.starts_with("host.");
        // What differs from run to run anyway, such as a seed, tells nothing.
        let varies = |side: &BTreeSet<Option<String>>| side.len() > 1;
        if base == head || (!is_machine && (varies(&base) || varies(&head))) {
            continue;
        }
        let list = |side: &BTreeSet<Option<String>>| {
            let each = side.iter().map(|it| it.as_deref().unwrap_or("not said"));
            each.collect::<Vec<_>>().join(" or ")
        };
        let what = if is_machine { "machine" } else { "build or run" };
        found.push(format!(
            "{what} differs: {key} is {} in base, {} in head",
            list(&base),
            list(&head)
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(begun: i64, pairs: &[(&str, &str)]) -> RunSummary {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        RunSummary {
            label: format!("run {begun}"),
            begun_unix_ns: Some(begun),
            events: 999,
            finished: true,
            metadata: pairs.iter().map(pair).collect(),
            ..RunSummary::default()
        }
    }

    fn order(base: &[i64], head: &[i64]) -> Order {
        let runs = |side: &[i64]| side.iter().map(|&at| run(at, &[])).collect::<Vec<_>>();
        let (base, head) = (runs(base), runs(head));
        Order::of(&base.iter().collect::<Vec<_>>(), &head.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_order_is_told_from_when_runs_began() {
        assert_eq!(order(&[1, 3, 5], &[2, 4, 6]), Order::Interleaved);
        assert_eq!(order(&[1, 4, 5], &[2, 3, 6]), Order::Interleaved);
        assert_eq!(order(&[1, 2, 3], &[4, 5, 6]), Order::OneAfterTheOther);
        assert_eq!(order(&[4, 5, 6], &[1, 2, 3]), Order::OneAfterTheOther);
        assert_eq!(order(&[1], &[2]), Order::Pair);
        assert_eq!(order(&[7, 7], &[7, 7]), Order::Unknown);
    }

    #[test]
    fn other_machines_and_builds_are_said_and_what_varies_anyway_is_not() {
        let a = run(1, &[("host.cpus", "2"), ("seed", "1"), ("commit", "aa")]);
        let b = run(3, &[("host.cpus", "2"), ("seed", "2"), ("commit", "aa")]);
        let c = run(2, &[("host.cpus", "8"), ("seed", "3"), ("commit", "bb")]);
        let found = differences(&[&a, &b], &[&c]);
        assert_eq!(
            found,
            [
                "build or run differs: commit is aa in base, bb in head",
                "machine differs: host.cpus is 2 in base, 8 in head"
            ]
        );
    }

    #[test]
    fn loss_beyond_the_limit_is_too_much() {
        let lossy = RunSummary { missing: 1, ..run(1, &[]) };
        let whole = run(2, &[]);
        assert!(!remarks(&[&lossy], &[&whole], 0.001).0);
        assert!(remarks(&[&lossy], &[&whole], 0.0009).0);
        assert!(!remarks(&[&whole], &[&whole], 0.0).0);
    }
}
