//! What makes the times of devices' work less than exact: how they were taken, where
//! that is not around each piece of work alone, and work of which there is no time.

use super::{Context, spans::percent};
use crate::{
    Result,
    device::{
        DeviceWork,
        timing::{Timed, Untimed, in_words},
    },
    output::{Cell, Column, Part, Selection, Table, count},
};

/// Rows that people get to see.
const LISTED: usize = 12;

fn is_coarse(timed: &&Timed) -> bool {
    timed.is_of_the_work_alone() == Some(false)
}

/// A heading that says how much of what stands below it is coarse, and what is missing.
pub(super) fn heading(title: &str, work: &DeviceWork, untimed: &[Untimed]) -> String {
    let mut text = title.to_owned();
    let total: f64 = work.timed.iter().map(|it| it.total_ns).sum();
    let coarse: f64 = work.timed.iter().filter(is_coarse).map(|it| it.total_ns).sum();
    if work.timed.iter().any(|it| is_coarse(&it)) {
        let share = if total > 0.0 { 100.0 * coarse / total } else { 0.0 };
        text.push_str(&format!("; {share:.1} % of the time is not of single ones, see Timing"));
    }
    if !untimed.is_empty() {
        let n = untimed.iter().fold(0_u64, |sum, it| sum.saturating_add(it.count));
        text.push_str(&format!("; {} more have NO TIME: {}", count(n), in_words(untimed)));
    }
    text
}

/// Tables about both, where there is something to say; machines get the first
/// wherever work says how it was timed.
pub(super) fn parts(context: &Context, work: &DeviceWork, lost: &[Untimed]) -> Result<Vec<Part>> {
    let (timed, for_machines) = (&work.timed, context.common.for_machines());
    let mut tables = Vec::new();
    let is_told = timed.iter().any(|it| it.source.is_some());
    if timed.iter().any(|it| is_coarse(&it)) || (for_machines && is_told) {
        tables.push(sources(timed, for_machines));
    }
    if !lost.is_empty() {
        tables.push(without_a_time(context, lost));
    }
    let arranged = |mut table: Table| {
        table.cut((!for_machines).then_some(LISTED));
        Selection::default().choose_columns(&mut table, for_machines)?;
        Ok(Part::Table(table))
    };
    tables.into_iter().map(arranged).collect()
}

fn sources(timed: &[Timed], for_machines: bool) -> Table {
    let mut columns = vec![
        Column::new("source", "source"),
        Column::new("of_the_work_alone", "of it alone"),
        Column::new("count", "count"),
        Column::new("count_percent", "count %"),
        Column::new("total_ns", "total"),
        Column::new("time_percent", "time %"),
        Column::new("uncertainty_ns", "off by at most"),
    ];
    columns[6].shown = timed.iter().any(|it| it.uncertainty_ns.is_some());
    let mut table = Table::new("timing", "Timing of device work", columns);
    let all: u64 = timed.iter().map(|it| it.count).sum();
    let total: f64 = timed.iter().map(|it| it.total_ns).sum();
    for it in timed {
        let source = match &it.source {
            None if for_machines => Cell::None,
            None => Cell::from("(not told)"),
            Some(source) => Cell::from(source.as_str()),
        };
        let alone = match it.is_of_the_work_alone() {
            None => Cell::None,
            Some(is) if for_machines => Cell::Json(is.into()),
            Some(is) => Cell::from(if is { "yes" } else { "no" }),
        };
        table.rows.push(vec![
            source,
            alone,
            Cell::Count(it.count),
            percent(it.count as f64, all as f64),
            Cell::Ns(it.total_ns),
            percent(it.total_ns, total),
            it.uncertainty_ns.map_or(Cell::None, Cell::Ns),
        ]);
    }
    let has = |source: &str| timed.iter().any(|it| it.source.as_deref() == Some(source));
    let meanings = [
        ("command buffer", "the device's times around all that was submitted together"),
        ("submit to done", "the host's, from handing that in to hearing that it is done"),
    ];
    let meanings = meanings.iter().filter(|(source, _)| has(source));
    let said: Vec<String> = meanings.map(|(source, what)| format!("{source}: {what}")).collect();
    if !said.is_empty() {
        table.note = format!("  {}", said.join("; "));
    }
    table
}

fn without_a_time(context: &Context, untimed: &[Untimed]) -> Table {
    let mut columns = vec![
        Column::new("trace", "trace"),
        Column::new("device", "device"),
        Column::new("reason", "reason"),
        Column::new("count", "count"),
    ];
    columns[0].shown = context.traces.list.len() > 1;
    let title = "Device work without a time, which is in no figure";
    let mut table = Table::new("untimed", title, columns);
    let text = |text: &str| if text.is_empty() { Cell::None } else { Cell::from(text) };
    for it in untimed {
        table.rows.push(vec![
            Cell::from(context.traces.list[it.trace].label.as_str()),
            text(&it.device),
            text(&it.reason),
            Cell::Count(it.count),
        ]);
    }
    table
}
