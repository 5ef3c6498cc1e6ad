//! Where in the tree a name's change lies: under which parents.
//!
//! Takes another look at the traces, in order and so not in parallel, and is asked
//! only when there is a change to explain.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
};

use super::folding::{Fold, folded};
use crate::{
    Result,
    budget::Budget,
    filter::Filter,
    load::Traces,
    report::collapse::alike,
    summary::{
        Scale,
        paths::{NO_PATH, PathQuestion, Roots, Step},
    },
};

/// The part of a change that the parents which are named account for.
const MOST: f64 = 0.9;

/// For each of `names`, the parents under which most of its change lies, in words;
/// nothing for names whose change is everywhere.
pub(super) fn places(
    base: &[PathBuf],
    head: &[PathBuf],
    names: &[&str],
    filter: &Filter,
    folds: &[Fold],
) -> Result<Vec<Option<String>>> {
    // Self time by name and parent: over the base's runs, and over the head's.
    let mut sums: Vec<BTreeMap<String, (f64, f64)>> = vec![BTreeMap::new(); names.len()];
    for (paths, of_base) in [(base, true), (head, false)] {
        for path in paths {
            let weight = 1.0 / paths.len() as f64;
            for (name, parent, ns) in self_times(path, names, filter, folds)? {
                let sum = sums[name].entry(parent).or_default();
                if of_base { sum.0 += weight * ns } else { sum.1 += weight * ns }
            }
        }
    }
    Ok(sums.iter().map(in_words).collect())
}

fn self_times(
    path: &PathBuf,
    names: &[&str],
    filter: &Filter,
    folds: &[Fold],
) -> Result<Vec<(usize, String, f64)>> {
    let traces = Traces::open(std::slice::from_ref(path))?;
    let sieves = filter.sieves(&traces, Budget::default())?;
    let question = PathQuestion { traces: &traces, sieves: &sieves, roots: Roots::Together };
    let found = question.answer();
    let scale = Scale::of(&traces);
    let wanted: HashMap<u32, usize> = traces
        .names
        .iter()
        .enumerate()
        .filter_map(|(at, name)| {
            let name = folded(name, folds);
            Some((at as u32, names.iter().position(|it| *it == name)?))
        })
        .collect();
    let mut times = Vec::new();
    for (node, sum) in found.paths.nodes.iter().zip(&found.sums) {
        let Step::Name(name) = node.step else { continue };
        let Some(&name) = wanted.get(&name) else { continue };
        let parent = match found.paths.nodes.get(node.parent as usize).map(|it| it.step) {
            Some(Step::Name(parent)) if node.parent != NO_PATH => {
                traces.names[parent as usize].clone()
            }
            _ => continue,
        };
        let own = sum.moments.total.saturating_sub(sum.children);
        times.push((name, parent, own as f64 * scale.unit_ns));
    }
    Ok(times)
}

fn in_words(by_parent: &BTreeMap<String, (f64, f64)>) -> Option<String> {
    let change: f64 = by_parent.values().map(|(base, head)| head - base).sum();
    let mut parents: Vec<(&str, f64)> = by_parent
        .iter()
        .map(|(parent, (base, head))| (parent.as_str(), (head - base) / change))
        .filter(|(_, part)| part.is_finite() && *part > 0.0)
        .collect();
    parents.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut sum = 0.0;
    let enough = parents.iter().position(|(_, part)| {
        sum += part;
        sum >= MOST
    });
    parents.truncate(enough? + 1);
    // Under all of several parents is nowhere in particular.
    if parents.len() > 1 && parents.len() == by_parent.len() {
        return None;
    }
    let names: Vec<&str> = parents.iter().map(|(name, _)| *name).collect();
    let mut labels: Vec<String> = alike(&names).into_iter().map(|it| it.label).collect();
    labels.sort();
    (labels.len() <= 3)
        .then(|| labels.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(parents: &[(&str, f64, f64)]) -> Option<String> {
        in_words(
            &parents
                .iter()
                .map(|(name, base, head)| ((*name).to_owned(), (*base, *head)))
                .collect(),
        )
    }

    #[test]
    fn the_parents_under_which_most_of_the_change_lies_are_named() {
        let blocks = [("block_0", 1.0, 1.0), ("block_1", 1.0, 1.5), ("block_2", 1.0, 1.5)];
        assert_eq!(words(&blocks).as_deref(), Some("`block_{1..2}`"));
        assert_eq!(words(&[("a", 1.0, 2.0), ("b", 1.0, 2.0)]), None);
        assert_eq!(words(&[("only", 1.0, 2.0)]).as_deref(), Some("`only`"));
        assert_eq!(words(&[]), None);
    }
}
