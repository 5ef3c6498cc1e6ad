//! Names of all runs side by side, and names that are likely the same under another
//! name.

use std::collections::BTreeMap;

use super::run_summary::{NameSummary, RunSummary, What};

/// One name over all runs.
#[derive(Clone, Debug)]
pub struct Matched<'a> {
    /// What it is.
    pub what: What,
    /// What it is called, on the head's side if that differs.
    pub name: &'a str,
    /// What it was likely called on the base's side, if that differs.
    pub renamed_from: Option<&'a str>,
    /// By run, those of the base first.
    pub runs: Vec<Option<&'a NameSummary>>,
}

impl Matched<'_> {
    /// Whether it occurs on the base's side, and on the head's.
    pub(super) fn sides(&self, base_runs: usize) -> (bool, bool) {
        let (base, head) = self.runs.split_at(base_runs);
        (base.iter().any(Option::is_some), head.iter().any(Option::is_some))
    }

    /// How much of its time is its own, between 0 and 1.
    pub(super) fn own_share(&self) -> f64 {
        let sum = |of: fn(&NameSummary) -> f64| self.runs.iter().flatten().map(|it| of(it)).sum();
        let (own, total): (f64, f64) = (sum(|it| it.self_ns), sum(|it| it.total_ns));
        if total > 0.0 { own / total } else { 0.0 }
    }
}

/// All names, in order of kind and name; renamed ones under their new name.
pub(super) fn matched<'a>(base: &[&'a RunSummary], head: &[&'a RunSummary]) -> Vec<Matched<'a>> {
    let runs = base.len() + head.len();
    let mut all: BTreeMap<(What, &str), Vec<Option<&NameSummary>>> = BTreeMap::new();
    for (at, run) in base.iter().chain(head).enumerate() {
        for name in &run.names {
            let row = all.entry((name.what, &name.name)).or_insert_with(|| vec![None; runs]);
            row[at] = Some(name);
        }
    }
    let of = |((what, name), runs)| Matched { what, name, renamed_from: None, runs };
    let mut all: Vec<Matched<'_>> = all.into_iter().map(of).collect();
    rename(&mut all, base.len());
    all
}

/// Most pairs of names that are tried: with more, nothing is taken for renamed.
const MOST_PAIRS: usize = 250_000;
/// How alike two names have to be, between 0 and 1.
const ALIKE: f64 = 0.6;
/// How far count and mean of a renamed name may be apart.
const COUNT_WITHIN: f64 = 1.1;
const MEAN_WITHIN: f64 = 2.0;

/// Puts a name that is gone and one that is new together, if each is the other's
/// best match: called about as often, taking about as long, and called alike.
fn rename(all: &mut Vec<Matched<'_>>, base_runs: usize) {
    let on = |sides: (bool, bool)| {
        let at = all.iter().enumerate().filter(|(_, it)| it.sides(base_runs) == sides);
        at.map(|(at, _)| at).collect::<Vec<usize>>()
    };
    let (gone, new) = (on((true, false)), on((false, true)));
    if gone.len() * new.len() > MOST_PAIRS {
        return;
    }
    let score = |gone: usize, new: usize| {
        let (gone, new) = (&all[gone], &all[new]);
        let (was, is) = (Figures::of(gone), Figures::of(new));
        let near = |a: f64, b: f64, within: f64| a <= b * within && b <= a * within;
        let fits = gone.what == new.what
            && near(was.count, is.count, COUNT_WITHIN)
            && near(was.mean, is.mean, MEAN_WITHIN);
        let score = if fits { likeness(gone.name, new.name) } else { 0.0 };
        (score >= ALIKE).then_some(score)
    };
    let best = |one: usize, others: &[usize], score: &dyn Fn(usize, usize) -> Option<f64>| {
        let scored = others.iter().filter_map(|&other| Some((score(one, other)?, other)));
        scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, other)| other)
    };
    let mut pairs = Vec::new();
    for &one in &gone {
        if let Some(other) = best(one, &new, &score)
            && best(other, &gone, &|new, gone| score(gone, new)) == Some(one)
        {
            pairs.push((one, other));
        }
    }
    for &(gone, new) in &pairs {
        let (was, runs) = (all[gone].name, all[gone].runs.clone());
        let row = &mut all[new];
        row.renamed_from = Some(was);
        row.runs.iter_mut().zip(runs).for_each(|(to, from)| *to = to.or(from));
    }
    let mut at = 0;
    all.retain(|_| {
        at += 1;
        !pairs.iter().any(|(gone, _)| *gone == at - 1)
    });
}

/// A name over the runs in which it occurs.
struct Figures {
    count: f64,
    mean: f64,
}

impl Figures {
    fn of(name: &Matched<'_>) -> Self {
        let runs: Vec<&NameSummary> = name.runs.iter().flatten().copied().collect();
        let n = runs.len().max(1) as f64;
        let mean = |of: fn(&NameSummary) -> f64| runs.iter().map(|it| of(it)).sum::<f64>() / n;
        Self { count: mean(|it| it.count as f64), mean: mean(|it| it.mean.value) }
    }
}

/// How alike two texts are, between 0 and 1: twice the neighbouring pairs of letters
/// that they share, of all pairs (Dice).
fn likeness(a: &str, b: &str) -> f64 {
    let pairs = |text: &str| {
        let letters: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
        let mut pairs: Vec<(char, char)> = letters.windows(2).map(|it| (it[0], it[1])).collect();
        pairs.sort_unstable();
        pairs
    };
    let (a, mut b) = (pairs(a), pairs(b));
    let all = a.len() + b.len();
    let mut shared = 0;
    for pair in a {
        if let Ok(at) = b.binary_search(&pair) {
            b.remove(at);
            shared += 1;
        }
    }
    if all == 0 { 0.0 } else { 2.0 * f64::from(shared) / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(names: &[(&str, usize, f64)]) -> RunSummary {
        let name = |&(name, count, duration): &(&str, usize, f64)| {
            NameSummary::of_durations(name, &vec![duration; count], &[50.0])
        };
        RunSummary { names: names.iter().map(name).collect(), ..RunSummary::default() }
    }

    #[test]
    fn a_name_that_is_gone_is_found_under_its_new_name() {
        let base = run(&[("gemm_f16_v1", 100, 5.0), ("load", 3, 9.0), ("old", 7, 1.0)]);
        let head = run(&[("gemm_f16_v2", 100, 5.5), ("load", 3, 9.0), ("new_thing", 7, 1.0)]);
        let all = matched(&[&base], &[&head]);
        let rows: Vec<(&str, Option<&str>)> =
            all.iter().map(|it| (it.name, it.renamed_from)).collect();
        let renamed = ("gemm_f16_v2", Some("gemm_f16_v1"));
        assert_eq!(rows, [renamed, ("load", None), ("new_thing", None), ("old", None)]);
        assert_eq!(all[0].sides(1), (true, true));
        assert_eq!(all[2].sides(1), (false, true));
    }

    #[test]
    fn names_that_are_called_differently_often_are_not_the_same() {
        let (base, head) = (run(&[("gemm_v1", 100, 5.0)]), run(&[("gemm_v2", 150, 5.0)]));
        assert_eq!(matched(&[&base], &[&head]).len(), 2);
    }

    #[test]
    fn likeness_is_one_of_equals_and_none_of_strangers() {
        assert_eq!(likeness("attention", "Attention"), 1.0);
        assert_eq!(likeness("abc", "xyz"), 0.0);
        assert_eq!(likeness("", "x"), 0.0);
    }
}
