//! The rows of a tree: paths put together where siblings are alike, in order,
//! and cut where they are too small to matter.

use std::collections::BTreeMap;

use super::collapse::alike;
use crate::{
    load::Traces,
    summary::paths::{Found, NO_PATH, Step, Sum},
};

/// One row.
pub(super) struct Branch {
    pub(super) parent: Option<usize>,
    /// How many names are above it.
    pub(super) depth: usize,
    pub(super) label: String,
    /// Set on rows that stand for a trace or a track, and on none below them.
    pub(super) place: Option<Step>,
    /// Its paths.
    paths: Vec<u32>,
    pub(super) sum: Sum,
    /// Its own time, or that of its children if they take more, as they do of a
    /// row that the filter leaves out.
    pub(super) weight: u128,
    /// Whether anything in it or below it counts.
    counts: bool,
    /// Of rows that stand for several names.
    pub(super) members: Option<Members>,
}

/// What a row of several names is made of.
#[derive(Clone, Debug)]
pub(super) struct Members {
    pub(super) count: u64,
    pub(super) least: u128,
    pub(super) most: u128,
    pub(super) fastest: String,
    pub(super) slowest: String,
}

/// All rows, children after their parents.
pub(super) struct Branches {
    pub(super) rows: Vec<Branch>,
    /// By path.
    pub(super) row_of: Vec<u32>,
    /// What the outermost rows that count come to.
    pub(super) whole: u128,
}

/// What is not shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hidden {
    /// Rows below the depth asked for.
    pub(super) deeper: usize,
    /// Branches that are too small, and what they come to.
    pub(super) small: usize,
    pub(super) small_total: u128,
    /// Rows past the limit.
    pub(super) past_limit: usize,
}

impl Branches {
    pub(super) fn new(traces: &Traces, found: &mut Found, collapse: bool) -> Self {
        let paths = found.paths.nodes.len();
        let mut below: Vec<Vec<u32>> = vec![Vec::new(); paths];
        let mut outermost = Vec::new();
        for (path, node) in found.paths.nodes.iter().enumerate() {
            match node.parent {
                NO_PATH => outermost.push(path as u32),
                parent => below[parent as usize].push(path as u32),
            }
        }
        let mut branches = Self { rows: Vec::new(), row_of: vec![NO_PATH; paths], whole: 0 };
        branches.add(traces, found, None, outermost, collapse);
        let mut at = 0;
        while let Some(row) = branches.rows.get(at) {
            let children = row.paths.iter().flat_map(|&it| std::mem::take(&mut below[it as usize]));
            let children = children.collect();
            branches.add(traces, found, Some(at), children, collapse);
            at += 1;
        }
        branches.weigh();
        branches
    }

    /// Makes rows of sibling paths.
    fn add(
        &mut self,
        traces: &Traces,
        found: &mut Found,
        parent: Option<usize>,
        siblings: Vec<u32>,
        collapse: bool,
    ) {
        let mut by_step: BTreeMap<Step, Vec<u32>> = BTreeMap::new();
        for path in siblings {
            by_step.entry(found.paths.nodes[path as usize].step).or_default().push(path);
        }
        let above = parent.map(|parent| &self.rows[parent]);
        let depth = above.map_or(0, |above| above.depth + usize::from(above.place.is_none()));
        let mut rows = Vec::new();
        let mut named: Vec<(&str, Vec<u32>)> = Vec::new();
        for (step, paths) in by_step {
            match step {
                Step::Name(name) => named.push((&traces.names[name as usize], paths)),
                Step::Beyond => rows.push(("(further paths)".to_owned(), None, vec![paths])),
                Step::Trace(trace) => {
                    let label = traces.list[trace as usize].label.clone();
                    rows.push((label, Some(step), vec![paths]));
                }
                Step::Track(trace, track) => {
                    let loaded = &traces.list[trace as usize];
                    let mut label = loaded.track_name(track);
                    if traces.list.len() > 1 {
                        label = format!("{} of {}", label, loaded.label);
                    }
                    rows.push((label, Some(step), vec![paths]));
                }
            }
        }
        let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
        if collapse {
            for row in alike(&names) {
                let members = row.members.iter().map(|&at| std::mem::take(&mut named[at].1));
                rows.push((row.label, None, members.collect()));
            }
        } else {
            let each = named.into_iter().map(|(name, paths)| (name.to_owned(), None, vec![paths]));
            rows.extend(each);
        }
        for (label, place, members) in rows {
            let (mut sum, mut each) = (Sum::default(), Vec::new());
            for paths in &members {
                let before = sum.moments.total;
                for &path in paths {
                    sum.merge(std::mem::take(&mut found.sums[path as usize]));
                    self.row_of[path as usize] = self.rows.len() as u32;
                }
                each.push((sum.moments.total - before, paths[0]));
            }
            let paths = members.into_iter().flatten().collect();
            let members = (each.len() > 1).then(|| Members::of(traces, found, &each));
            let weight = sum.moments.total;
            let counts = sum.moments.count > 0;
            self.rows.push(Branch {
                parent,
                depth,
                label,
                place,
                paths,
                sum,
                weight,
                counts,
                members,
            });
        }
    }

    fn weigh(&mut self) {
        let mut of_children = vec![0; self.rows.len()];
        for at in (0..self.rows.len()).rev() {
            let row = &mut self.rows[at];
            row.weight = row.weight.max(of_children[at]);
            let (parent, weight, counts) = (row.parent, row.weight, row.counts);
            if let Some(parent) = parent {
                of_children[parent] += weight;
                self.rows[parent].counts |= counts;
            }
        }
        let mut counts_above = vec![false; self.rows.len()];
        for at in 0..self.rows.len() {
            let row = &self.rows[at];
            let above = row.parent.is_some_and(|parent| counts_above[parent]);
            let counts = row.sum.moments.count > 0;
            if counts && !above {
                self.whole += row.sum.moments.total;
            }
            counts_above[at] = above || counts;
        }
    }

    /// Every row in which anything counts below its parent, the heaviest first.
    pub(super) fn in_order(&self) -> Vec<usize> {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.rows.len()];
        let mut open = Vec::new();
        for (at, row) in self.rows.iter().enumerate().filter(|(_, row)| row.counts) {
            row.parent.map_or(&mut open, |parent| &mut children[parent]).push(at);
        }
        // What is taken from the end comes first.
        let lightest_first = |siblings: &mut Vec<usize>| {
            siblings.sort_by(|&a, &b| {
                let (a, b) = (&self.rows[a], &self.rows[b]);
                a.weight.cmp(&b.weight).then_with(|| b.label.cmp(&a.label))
            });
        };
        lightest_first(&mut open);
        let mut order = Vec::with_capacity(self.rows.len());
        while let Some(at) = open.pop() {
            order.push(at);
            lightest_first(&mut children[at]);
            open.append(&mut children[at]);
        }
        order
    }

    /// Rows in order, less those that are too deep, too light or too many.
    pub(super) fn shown(
        &self,
        depth: Option<usize>,
        least_percent: f64,
        limit: Option<usize>,
    ) -> (Vec<usize>, Hidden) {
        let mut hidden = Hidden::default();
        let least = self.whole as f64 * least_percent / 100.0;
        let mut is_small = vec![false; self.rows.len()];
        let mut order = self.in_order();
        order.retain(|&at| {
            let row = &self.rows[at];
            let below_small = row.parent.is_some_and(|parent| is_small[parent]);
            let is_deep = depth.is_some_and(|depth| row.depth >= depth && row.place.is_none());
            is_small[at] = below_small || (row.weight as f64) < least;
            if is_small[at] && !below_small && !is_deep {
                hidden.small += 1;
                hidden.small_total += row.weight;
            }
            hidden.deeper += usize::from(is_deep && !is_small[at]);
            !is_small[at] && !is_deep
        });
        if let Some(limit) = limit.filter(|&limit| limit < order.len()) {
            // A parent weighs no less than its child and comes before it, so what
            // is kept hangs together.
            let mut heaviest: Vec<usize> = (0..order.len()).collect();
            heaviest.sort_by_key(|&at| (std::cmp::Reverse(self.rows[order[at]].weight), at));
            heaviest.truncate(limit);
            heaviest.sort_unstable();
            hidden.past_limit = order.len() - limit;
            order = heaviest.into_iter().map(|at| order[at]).collect();
        }
        (order, hidden)
    }

    /// A row and those above it, outermost first.
    pub(super) fn lineage(&self, row: usize) -> Vec<usize> {
        let mut rows: Vec<usize> =
            std::iter::successors(Some(row), |&at| self.rows[at].parent).collect();
        rows.reverse();
        rows
    }
}

impl Members {
    /// Of totals and a path of each.
    fn of(traces: &Traces, found: &Found, each: &[(u128, u32)]) -> Self {
        let name = |path: u32| match found.paths.nodes[path as usize].step {
            Step::Name(name) => traces.names[name as usize].clone(),
            _ => String::new(),
        };
        let least = each.iter().min_by_key(|(total, _)| *total).copied().unwrap_or_default();
        let most = each.iter().max_by_key(|(total, _)| *total).copied().unwrap_or_default();
        Self {
            count: each.len() as u64,
            least: least.0,
            most: most.0,
            fastest: name(least.1),
            slowest: name(most.1),
        }
    }
}
