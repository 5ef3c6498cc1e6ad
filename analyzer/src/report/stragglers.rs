//! Which of several traces, ranks of one job as a rule, is behind the others.
//!
//! Per name, the totals of the traces that have it are compared with their median
//! (the middle of the two in the middle, if their number is even). Mind that the
//! ranks which wait for a straggler spend *more* time in what they wait with.

use super::{
    Context,
    spans::{Labels, is_span, percent},
};
use crate::{
    Result,
    output::{Cell, Column, Table},
    summary::Question,
};

/// Rows that people get unasked.
const USUAL_ROWS: usize = 15;
/// With more traces than this, people have to ask for the totals of each.
const USUAL_TRACES: usize = 4;

/// For each name the traces' totals, which of them is slowest, and by how much.
/// `None` of a single trace.
pub(crate) fn stragglers(context: &Context) -> Result<Option<Table>> {
    let traces = &context.traces;
    if traces.list.len() < 2 {
        return Ok(None);
    }
    let labels = Labels::by_name(context, true);
    let question = labels.question(context, is_span, None);
    let answer =
        Question { percentiles: Vec::new(), self_time: false, bounds_ns: Vec::new(), ..question }
            .answer()?;
    let mut columns = vec![
        Column::new("name", "name"),
        Column::new("slowest_trace", "slowest"),
        Column::new("excess_ns", "over median"),
        Column::new("excess_percent", "over %"),
        Column::new("slowest_total_ns", "its total"),
        Column::new("median_total_ns", "median total"),
        Column::hidden("traces", "traces"),
    ];
    for loaded in &traces.list {
        let mut column = Column::new(format!("total_ns:{}", loaded.label), loaded.label.as_str());
        column.shown = traces.list.len() <= USUAL_TRACES;
        columns.push(column);
    }
    let mut rows: Vec<(f64, Vec<Cell>)> = Vec::new();
    for (at, name) in traces.names.iter().enumerate() {
        let group = |trace: usize| answer.groups.get(trace * traces.names.len() + at);
        let totals: Vec<Option<f64>> = (0..traces.list.len())
            .map(|trace| group(trace).filter(|group| group.count > 0).map(|group| group.total_ns))
            .collect();
        let mut known: Vec<f64> = totals.iter().flatten().copied().collect();
        if known.len() < 2 {
            continue;
        }
        known.sort_by(f64::total_cmp);
        let median = (known[(known.len() - 1) / 2] + known[known.len() / 2]) / 2.0;
        let most = known[known.len() - 1];
        let slowest = totals.iter().position(|total| *total == Some(most)).unwrap_or_default();
        let excess = most - median;
        let mut row = vec![
            Cell::from(name.as_str()),
            if excess > 0.0 { Cell::from(traces.list[slowest].label.as_str()) } else { Cell::None },
            Cell::Ns(excess),
            percent(excess, median),
            Cell::Ns(most),
            Cell::Ns(median),
            Cell::Count(known.len() as u64),
        ];
        row.extend(totals.into_iter().map(|total| total.map_or(Cell::None, Cell::Ns)));
        rows.push((excess, row));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut table = Table::new("stragglers", "Stragglers", columns);
    table.rows = rows.into_iter().map(|(_, row)| row).collect();
    if table.rows.is_empty() {
        table.note = "  no name is in two of the traces".to_owned();
    }
    // `--columns` and `--sort` are about the table that was asked for.
    table.cut(context.common.limit(USUAL_ROWS));
    let for_machines = context.common.for_machines();
    crate::output::Selection::default().choose_columns(&mut table, for_machines)?;
    Ok(Some(table))
}
