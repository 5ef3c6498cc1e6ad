//! `tree`: spans under the spans that they ran in.
//!
//! Only spans that nest on their track have a place in the tree; asynchronous
//! spans and the work of devices have none. Percentages are of what all outermost
//! spans come to together. Memory grows with the number of distinct paths.

use super::{
    Context, about,
    branches::{Branches, Hidden},
    spans::{percent, percentile_key},
};
use crate::{
    Result,
    cli::Common,
    output::{Cell, Column, Document, Part, Table, count, shown},
    summary::{
        Group, Scale,
        paths::{PathQuestion, Roots, Step},
    },
};

/// Rows that people get unasked.
const USUAL_ROWS: usize = 40;
/// Lines about the members of rows that stand for several names.
const USUAL_SPREADS: usize = 6;

/// Options of `tree`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Keep traces, or threads, apart
    #[arg(long, value_enum)]
    by: Option<Apart>,
    /// Only so many levels
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// Hide branches below this percentage of everything
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_percent: f64,
    /// Siblings that differ only in a number as one row [default for people]
    #[arg(long, overrides_with = "no_collapse")]
    collapse: bool,
    /// Every sibling as a row of its own [default for machines]
    #[arg(long, overrides_with = "collapse")]
    no_collapse: bool,
}

/// What is kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Apart {
    /// Traces: ranks, hosts or runs
    Trace,
    /// Threads
    Track,
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let context = Context::open(args.common.clone())?;
    let table = tree(&context, &args)?;
    let document = context.document("ringscope.tree/1", vec![Part::Table(table)]);
    Ok((context.common, document))
}

fn tree(context: &Context, args: &Args) -> Result<Table> {
    let common = &context.common;
    let question = PathQuestion {
        traces: &context.traces,
        sieves: &context.sieves,
        roots: match args.by {
            None => Roots::Together,
            Some(Apart::Trace) => Roots::ByTrace,
            Some(Apart::Track) => Roots::ByTrack,
        },
    };
    let mut found = question.answer();
    let collapse = args.collapse || !(args.no_collapse || common.for_machines());
    let mut branches = Branches::new(&context.traces, &mut found, collapse);
    let mut sums: Vec<_> =
        branches.rows.iter_mut().map(|row| std::mem::take(&mut row.sum)).collect();
    let percentiles =
        question.percentiles(&mut found.paths, &branches.row_of, &mut sums, &common.percentiles);
    let unit_ns = Scale::of(&context.traces).unit_ns;
    let groups: Vec<Group> = sums
        .iter()
        .zip(percentiles)
        .map(|(sum, them)| Group::of(&sum.moments, Some(sum.children), them, unit_ns))
        .collect();

    // An order of one's own takes the tree apart, and rows tell their whole path.
    let is_flat = common.sort.is_some();
    let limit = common.limit(USUAL_ROWS);
    let (shown_rows, hidden) =
        branches.shown(args.depth, args.min_percent, limit.filter(|_| !is_flat));
    let rows =
        Rows { context, branches: &branches, groups: &groups, unit_ns, is_flat, by: args.by };
    let mut table = Table::new("tree", "Tree", rows.columns());
    let for_machines = common.for_machines();
    for &at in &shown_rows {
        let is_record = groups[at].count > 0;
        if is_record || !(for_machines || is_flat) {
            table.rows.push(rows.row(at));
        }
    }
    let is_empty = table.rows.is_empty();
    let mut table = context.arrange(table, limit.filter(|_| is_flat))?;
    let mut notes = if is_empty {
        vec![
            "  no spans here that nest, or none that pass the filters; `span!` records them"
                .to_owned(),
        ]
    } else {
        rows.notes(&shown_rows, &hidden)
    };
    if found.elsewhere > 0 {
        notes.push(format!(
            "  {} asynchronous spans have no place in a tree: analyze spans",
            count(found.elsewhere)
        ));
    }
    if !table.note.is_empty() {
        notes.push(table.note);
    }
    table.note = notes.join("\n");
    Ok(table)
}

/// From branches to cells.
struct Rows<'a> {
    context: &'a Context,
    branches: &'a Branches,
    /// By row.
    groups: &'a [Group],
    unit_ns: f64,
    is_flat: bool,
    by: Option<Apart>,
}

impl Rows<'_> {
    fn columns(&self) -> Vec<Column> {
        let mut columns = vec![Column::new("name", "name")];
        if self.by.is_some() {
            columns.push(Column::hidden("trace", "trace"));
            columns.push(Column::hidden("track", "track"));
        }
        columns.extend([
            Column::new("total_ns", "total"),
            Column::new("total_percent", "%"),
            Column::new("self_ns", "self"),
            Column::new("count", "count"),
            Column::new("mean_ns", "mean"),
        ]);
        for percentile in &self.context.common.percentiles {
            columns.push(Column::new(percentile_key(*percentile), format!("p{percentile}")));
        }
        columns.extend([
            Column::hidden("min_ns", "min"),
            Column::hidden("max_ns", "max"),
            Column::hidden("std_ns", "std"),
            Column::hidden("errors", "errors"),
            Column::hidden("depth", "depth"),
            Column::hidden("path", "path"),
            Column::hidden("members", "members"),
            Column::hidden("member_min_ns", "least member"),
            Column::hidden("member_max_ns", "most member"),
            Column::hidden("slowest_member", "slowest member"),
        ]);
        if self.by.is_some() && self.is_flat {
            columns[1..=2].iter_mut().for_each(|column| column.shown = true);
        }
        columns
    }

    fn row(&self, at: usize) -> Vec<Cell> {
        let branch = &self.branches.rows[at];
        let lineage = self.branches.lineage(at);
        let names = || {
            let below = lineage.iter().map(|&at| &self.branches.rows[at]);
            below.filter(|row| row.place.is_none()).map(|row| row.label.as_str())
        };
        let place = lineage.iter().find_map(|&at| self.branches.rows[at].place);
        let name = if self.context.common.for_machines() {
            branch.label.clone()
        } else if self.is_flat {
            names().collect::<Vec<_>>().join(" > ")
        } else {
            format!("{}{}", "  ".repeat(lineage.len() - 1), branch.label)
        };
        let mut row = vec![Cell::Text(name)];
        if self.by.is_some() {
            let traces = &self.context.traces.list;
            let (trace, track) = match place {
                Some(Step::Track(trace, track)) => {
                    let loaded = &traces[trace as usize];
                    (Cell::from(loaded.label.as_str()), Cell::from(loaded.track_name(track)))
                }
                Some(Step::Trace(trace)) => {
                    (Cell::from(traces[trace as usize].label.as_str()), Cell::None)
                }
                _ => (Cell::None, Cell::None),
            };
            row.extend([trace, track]);
        }
        let group = &self.groups[at];
        let ns = |units: u128| Cell::Ns(units as f64 * self.unit_ns);
        // A row that the filter leaves out only shows where the others belong.
        let is_record = group.count > 0;
        let if_record = |cell: Cell| if is_record { cell } else { Cell::None };
        let whole = self.branches.whole as f64 * self.unit_ns;
        // One that stands for a trace or a track has the time of what is in it.
        let total_ns = match branch.place {
            Some(_) => Some(branch.weight as f64 * self.unit_ns),
            None => is_record.then_some(group.total_ns),
        };
        row.extend([
            total_ns.map_or(Cell::None, Cell::Ns),
            total_ns.map_or(Cell::None, |total_ns| percent(total_ns, whole)),
            if_record(group.self_ns.map_or(Cell::None, Cell::Ns)),
            if_record(Cell::Count(group.count)),
            if_record(Cell::Ns(group.mean_ns)),
        ]);
        for at in 0..self.context.common.percentiles.len() {
            row.push(group.percentiles_ns.get(at).map_or(Cell::None, |&ns| Cell::Ns(ns)));
        }
        let members = branch.members.as_ref();
        row.extend([
            if_record(Cell::Ns(group.min_ns)),
            if_record(Cell::Ns(group.max_ns)),
            if_record(Cell::Ns(group.std_ns)),
            if_record(Cell::Count(group.errors)),
            Cell::Count(branch.depth as u64),
            Cell::Json(names().collect()),
            Cell::Count(members.map_or(1, |members| members.count)),
            members.map_or(Cell::None, |members| ns(members.least)),
            members.map_or(Cell::None, |members| ns(members.most)),
            members.map_or(Cell::None, |members| Cell::from(members.slowest.as_str())),
        ]);
        row
    }

    /// What there is to say below the table.
    fn notes(&self, shown_rows: &[usize], hidden: &Hidden) -> Vec<String> {
        let ns = |units: u128| about::in_words(units as f64 * self.unit_ns);
        let mut notes = Vec::new();
        let spread = |&at: &usize| {
            let branch = &self.branches.rows[at];
            let members = branch.members.as_ref().filter(|_| self.groups[at].count > 0)?;
            Some(format!(
                "  {}: {} of them, {} ({}) to {} ({})",
                shown(&branch.label),
                members.count,
                ns(members.least),
                shown(&members.fastest),
                ns(members.most),
                shown(&members.slowest),
            ))
        };
        let spreads: Vec<String> = shown_rows.iter().filter_map(spread).collect();
        notes.extend(spreads.iter().take(USUAL_SPREADS).cloned());
        if spreads.len() > USUAL_SPREADS {
            notes.push("  more such rows: --columns +members,+slowest_member".to_owned());
        }
        notes.push(format!("  % is of all outermost spans together, {}", ns(self.branches.whole)));
        if hidden.small > 0 {
            let percent = 100.0 * hidden.small_total as f64 / self.branches.whole.max(1) as f64;
            notes.push(format!(
                "  {} small branches hidden, {} together ({percent:.1} %)",
                count(hidden.small as u64),
                ns(hidden.small_total),
            ));
        }
        if hidden.deeper > 0 {
            notes.push(format!("  {} deeper rows: --depth", count(hidden.deeper as u64)));
        }
        if hidden.past_limit > 0 {
            let more = count(hidden.past_limit as u64);
            notes.push(format!("  … {more} smaller rows: --limit 0"));
        }
        notes
    }
}
