//! `spans`: spans by name.

use ringscope_format::Kind;

use super::{Context, stragglers::stragglers, tasks};
use crate::{
    Result,
    cli::Common,
    device::is_device_work,
    output::{Cell, Column, Document, Part, Table, count},
    summary::{Answer, Group, Key, NO_GROUP, Question},
};

/// Rows that people get unasked.
const USUAL_ROWS: usize = 30;

/// Options of `spans`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    by: By,
}

/// What one row stands for.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct By {
    /// A row for each name in each trace, instead of one over all traces
    #[arg(long, value_enum)]
    pub by: Option<Apart>,
}

/// What is kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Apart {
    /// Traces: ranks, hosts or runs
    Trace,
}

/// Spans and everything else with a duration that is not a device's work. What has
/// slices is in by those.
pub(super) fn is_span(kind: Kind) -> bool {
    kind.is_timed() && !is_device_work(kind) && !kind.is_overlay()
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let context = Context::open(args.common)?;
    let limit = context.common.limit(USUAL_ROWS);
    let by_trace = args.by.by == Some(Apart::Trace);
    let mut parts = vec![Part::Table(spans(&context, by_trace, limit, None)?.0)];
    if by_trace {
        parts.extend(stragglers(&context)?.map(Part::Table));
    } else {
        parts.extend(tasks::section(&context, limit)?.map(Part::Table));
    }
    let document = context.document("ringscope.spans/1", parts);
    Ok((context.common, document))
}

/// The table, arranged as asked for, and what it was made from: with these
/// percentiles, of which the table shows the first, or with those that it shows.
pub(super) fn spans(
    context: &Context,
    by_trace: bool,
    limit: Option<usize>,
    percentiles: Option<Vec<f64>>,
) -> Result<(Table, Answer, Labels)> {
    let labels = Labels::by_name(context, by_trace);
    let mut question = labels.question(context, is_span, limit);
    question.percentiles = percentiles.unwrap_or(question.percentiles);
    let answer = question.answer()?;
    let mut table = group_table("spans", "Spans", context, &labels, &answer);
    if table.rows.is_empty() {
        table.note = "  no spans, or none that pass the filters".to_owned();
    }
    add_others(&mut table, context, &answer, limit);
    let table = context.arrange(table, limit)?;
    Ok((table, answer, labels))
}

/// What the groups of a question are called.
pub(super) struct Labels {
    /// By group.
    pub(super) names: Vec<String>,
    /// By group, if traces are kept apart.
    pub(super) traces: Option<Vec<String>>,
    pub(super) key: Key,
    pub(super) group_of: Vec<Vec<u32>>,
}

impl Labels {
    /// A group for each name, or for each name in each trace.
    pub(super) fn by_name(context: &Context, by_trace: bool) -> Self {
        let traces = &context.traces;
        let names = traces.names.len();
        let offset = |trace: usize| if by_trace { trace * names } else { 0 };
        let group_of = traces.list.iter().enumerate().map(|(at, loaded)| {
            let ids = 0..=loaded.name_of.len() as u32;
            ids.map(|id| loaded.name_index(id) + offset(at) as u32).collect()
        });
        let group_of = group_of.collect();
        if !by_trace {
            return Self { names: traces.names.clone(), traces: None, key: Key::Name, group_of };
        }
        let each = || {
            traces
                .list
                .iter()
                .flat_map(|loaded| traces.names.iter().map(move |name| (loaded, name)))
        };
        Self {
            names: each().map(|(_, name)| name.clone()).collect(),
            traces: Some(each().map(|(loaded, _)| loaded.label.clone()).collect()),
            key: Key::Name,
            group_of,
        }
    }

    /// The usual question about these groups.
    pub(super) fn question<'a>(
        &self,
        context: &'a Context,
        kinds: fn(Kind) -> bool,
        top: Option<usize>,
    ) -> Question<'a> {
        debug_assert!(
            self.group_of
                .iter()
                .flatten()
                .all(|&group| group == NO_GROUP || (group as usize) < self.names.len())
        );
        let (common, percentiles) = (&context.common, &context.common.percentiles);
        Question {
            traces: &context.traces,
            sieves: context.sieves.clone(),
            kinds,
            key: self.key,
            group_of: self.group_of.clone(),
            groups: self.names.len(),
            percentiles: if percentiles.iter().any(|&it| common.needs(&percentile_key(it))) {
                percentiles.clone()
            } else {
                Vec::new()
            },
            self_time: common.needs("self_ns") || common.needs("self_percent"),
            top,
            bounds_ns: common.bounds.clone(),
        }
    }
}

/// The key of a percentile's column: `p95_ns`, `p99.9_ns`.
pub(super) fn percentile_key(percentile: f64) -> String {
    format!("p{percentile}_ns")
}

/// A row for each group that is not empty, by total time.
pub(super) fn group_table(
    key: &str,
    title: &str,
    context: &Context,
    labels: &Labels,
    answer: &Answer,
) -> Table {
    let mut columns = vec![Column::new("name", "name")];
    if labels.traces.is_some() {
        columns.push(Column::new("trace", "trace"));
    }
    columns.extend([
        Column::new("count", "count"),
        Column::new("total_ns", "total"),
        Column::new("self_ns", "self"),
        Column::new("self_percent", "self %"),
        Column::new("mean_ns", "mean"),
    ]);
    for percentile in &context.common.percentiles {
        columns.push(Column::new(percentile_key(*percentile), format!("p{percentile}")));
    }
    columns.extend([
        Column::hidden("min_ns", "min"),
        Column::new("max_ns", "max"),
        Column::hidden("std_ns", "std"),
        Column::hidden("rsd_percent", "rsd %"),
        Column::hidden("errors", "errors"),
    ]);
    if let Some(column) = columns.last_mut() {
        column.shown = answer.groups.iter().any(|group| group.errors > 0);
    }
    let mut table = Table::new(key, title, columns);
    let whole: f64 = answer.groups.iter().filter_map(|group| group.self_ns).sum();
    let mut order: Vec<usize> =
        (0..answer.groups.len()).filter(|&at| answer.groups[at].count > 0).collect();
    order.sort_by(|&a, &b| {
        let by_total = answer.groups[b].total_ns.total_cmp(&answer.groups[a].total_ns);
        by_total.then_with(|| a.cmp(&b))
    });
    for at in order {
        let trace = labels.traces.as_ref().map(|traces| traces[at].as_str());
        table.rows.push(group_row(&labels.names[at], trace, &answer.groups[at], whole, context));
    }
    table
}

pub(super) fn group_row(
    name: &str,
    trace: Option<&str>,
    group: &Group,
    whole: f64,
    context: &Context,
) -> Vec<Cell> {
    let self_ns = group.self_ns.unwrap_or(group.total_ns);
    let mut row = vec![Cell::from(name)];
    row.extend(trace.map(Cell::from));
    row.extend([
        Cell::Count(group.count),
        Cell::Ns(group.total_ns),
        Cell::Ns(self_ns),
        percent(self_ns, whole),
        Cell::Ns(group.mean_ns),
    ]);
    for at in 0..context.common.percentiles.len() {
        row.push(group.percentiles_ns.get(at).map_or(Cell::None, |&ns| Cell::Ns(ns)));
    }
    row.extend([
        Cell::Ns(group.min_ns),
        Cell::Ns(group.max_ns),
        Cell::Ns(group.std_ns),
        percent(group.std_ns, group.mean_ns),
        Cell::Count(group.errors),
    ]);
    row
}

/// A share in percent, if there is a whole.
pub(super) fn percent(part: f64, whole: f64) -> Cell {
    if whole > 0.0 { Cell::Percent(100.0 * part / whole) } else { Cell::None }
}

/// What the limit leaves out, as one row that adds up: only where the order is
/// the usual one, since only then are these the groups that are left out.
pub(super) fn add_others(
    table: &mut Table,
    context: &Context,
    answer: &Answer,
    limit: Option<usize>,
) {
    let usual_order = context.common.sort.is_none();
    let (Some(others), Some(_), true) = (&answer.others, limit, usual_order) else { return };
    let whole: f64 = answer.groups.iter().filter_map(|group| group.self_ns).sum();
    let name = format!("({} others)", count(others.groups.len() as u64));
    let trace = table.column("trace").map(|_| "");
    table.footer = Some(group_row(&name, trace, &others.all, whole, context));
    table.note = "  all of them: --limit 0".to_owned();
}
