//! How the runs came about, where that speaks against comparing them: what was
//! lost, other machines and builds, and the order in which they were measured.

use globset::GlobSet;

use super::{
    provenance::{differences, on_both_sides, same_build},
    run_summary::RunSummary,
};
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

/// What is to be said about the runs, and whether they can be compared at all.
#[derive(Clone, Debug, Default)]
pub(super) struct Circumstances {
    /// What forbids to decide anything, in words.
    pub(super) forbids: Option<&'static str>,
    /// Everything that there is to say.
    pub(super) remarks: Vec<Remark>,
}

impl Circumstances {
    fn warn(&mut self, key: &'static str, text: String) {
        self.remarks.push(Remark { key, text, is_warning: true });
    }

    /// The first reason stays: what is missing is worse than another machine.
    fn forbid(&mut self, why: &'static str) {
        self.forbids.get_or_insert(why);
    }
}

/// Looks at the runs: at most `max_loss` of each may be missing, and the keys of
/// metadata that `may_differ` matches do not matter.
pub(super) fn circumstances(
    base: &[&RunSummary],
    head: &[&RunSummary],
    max_loss: f64,
    may_differ: &GlobSet,
) -> Circumstances {
    let mut found = Circumstances::default();
    of_losses(&mut found, base, head, max_loss);
    for difference in differences(base, head, may_differ) {
        if difference.is_machine {
            found.forbid("the sides are of different machines");
        }
        found.warn("metadata", difference.text);
    }
    if let Some((a, b)) = on_both_sides(base, head) {
        found.forbid("a run is on both sides");
        found.warn("same_run", format!("{} is the same run as {}", b.label, a.label));
    } else if let Some(text) = same_build(base, head) {
        found.remarks.push(Remark { key: "same_build", text, is_warning: false });
    }
    of_order(&mut found, base, head);
    found
}

fn of_losses(found: &mut Circumstances, base: &[&RunSummary], head: &[&RunSummary], max_loss: f64) {
    const TOO_MUCH: &str = "too many events are missing";
    let of = |side: &'static str| move |run: &&RunSummary| format!("{side} {}", run.label);
    let labels = base.iter().map(of("base")).chain(head.iter().map(of("head")));
    for (run, label) in base.iter().chain(head).zip(labels) {
        let share = run.missing_share();
        if share > max_loss {
            found.forbid(TOO_MUCH);
            let text = format!(
                "{label}: {} of {} events are missing ({:.2} %), more than the {} % of --max-loss; \
                 what is left cannot be compared",
                count(run.missing),
                count(run.missing.saturating_add(run.events)),
                100.0 * share,
                100.0 * max_loss,
            );
            found.warn("loss", text);
        } else if run.missing > 0 {
            let text = format!("{label}: {} events are missing", count(run.missing));
            found.warn("loss", text);
        }
        if run.missing_more {
            found.forbid(TOO_MUCH);
            let text = format!("{label}: damaged, and how much is missing is not known");
            found.warn("loss", text);
        } else if !run.finished {
            let text = format!("{label}: the recording did not end in good order");
            found.warn("unfinished", text);
        }
    }
}

fn of_order(found: &mut Circumstances, base: &[&RunSummary], head: &[&RunSummary]) {
    match Order::of(base, head) {
        Order::OneAfterTheOther => found.warn(
            "order",
            "one side was measured after the other: whatever else changed meanwhile reads as a \
             change of the code; measure base and head in turns"
                .to_owned(),
        ),
        Order::Unknown => found.warn(
            "order",
            "in which order the runs were made is not known; measure base and head in turns"
                .to_owned(),
        ),
        Order::Pair => found.warn(
            "order",
            "one run a side: only large changes can be told from noise; five a side, in turns, \
             tell 10 %"
                .to_owned(),
        ),
        Order::Interleaved => {}
    }
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
    fn loss_beyond_the_limit_is_too_much() {
        let lossy = RunSummary { missing: 1, ..run(1, &[]) };
        let whole = run(2, &[]);
        let forbids = |run, most| circumstances(&[run], &[&whole], most, &GlobSet::empty()).forbids;
        assert_eq!(forbids(&lossy, 0.001), None);
        assert_eq!(forbids(&lossy, 0.0009), Some("too many events are missing"));
        assert_eq!(forbids(&run(1, &[]), 0.0), None);
    }
}
