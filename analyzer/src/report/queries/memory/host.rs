//! The process's memory as the system sees it: what it was when recording began,
//! and what of its growth nothing in the trace accounts for.
//!
//! Accounted for are allocations outstanding on the host, whose device is `cpu`,
//! `host` or not given, and weights on the host, unless allocations of kind
//! `weights` are recorded as well. The baseline is the first reading.

use std::collections::HashMap;

use super::{Asking, allocations::Groups, optional, text};
use crate::{
    Result,
    output::{Cell, Column, Floor, Table, sparkline},
};

pub(super) const READINGS: &str = "\
SELECT trace, name, start_ns, value
FROM counters
WHERE name IN ('process.resident_bytes', 'process.anonymous_bytes', 'process.peak_resident_bytes')
ORDER BY start_ns";

/// Whether memory of this device is the host's.
pub(super) fn is_host(device: Option<&str>) -> bool {
    device.is_none_or(|device| matches!(device, "" | "cpu" | "host"))
}

/// Readings of one process.
#[derive(Default)]
struct Process {
    resident: Vec<(f64, f64)>,
    anonymous: Option<f64>,
    peak: f64,
}

pub(super) fn table(
    asking: &Asking<'_>,
    groups: &Groups<'_>,
    weights: &HashMap<String, f64>,
) -> Result<Option<Table>> {
    let answer = asking.ask(READINGS)?;
    let (traces, names) = (answer.texts("trace")?, answer.texts("name")?);
    let (times, values) = (answer.numbers("start_ns")?, answer.numbers("value")?);
    let mut processes: HashMap<Option<&str>, Process> = HashMap::new();
    for at in 0..answer.rows() {
        let process = processes.entry(traces[at]).or_default();
        let Some((time, value)) = times[at].zip(values[at]) else { continue };
        match names[at] {
            Some("process.resident_bytes") => process.resident.push((time, value)),
            Some("process.anonymous_bytes") => process.anonymous = Some(value),
            _ => process.peak = process.peak.max(value),
        }
    }
    let mut columns = vec![
        asking.trace_column(),
        Column::new("baseline_bytes", "baseline"),
        Column::new("last_bytes", "last"),
        Column::new("peak_bytes", "peak"),
        Column::new("anonymous_bytes", "anonymous"),
        Column::new("growth_bytes", "growth"),
        Column::new("accounted_bytes", "accounted for"),
        Column::new("unaccounted_bytes", "not accounted for"),
    ];
    let width = asking.sparkline_width();
    if width.is_some() {
        columns.push(Column::new("course", "resident over time"));
    }
    let mut table = Table::new("host", "Host memory of the process", columns);
    for loaded in &asking.context.traces.list {
        let trace = Some(loaded.label.as_str());
        let Some(process) = processes.remove(&trace) else { continue };
        let Some((&first, &last)) = process.resident.first().zip(process.resident.last()) else {
            continue;
        };
        let of_process = || groups.list.iter().filter(|group| group.trace == trace);
        let host = of_process().filter(|group| is_host(group.device));
        let outstanding: f64 = host.map(|group| group.outstanding).sum();
        let has_weights = of_process().any(|group| group.kind == Some("weights"));
        let weights = weights.get(&loaded.label).filter(|_| !has_weights).copied();
        let accounted = outstanding + weights.unwrap_or(0.0);
        let growth = last.1 - first.1;
        let highest = process.resident.iter().map(|point| point.1).fold(process.peak, f64::max);
        let mut row = vec![
            text(trace),
            Cell::Bytes(first.1),
            Cell::Bytes(last.1),
            Cell::Bytes(highest),
            optional(process.anonymous, Cell::Bytes),
            Cell::Bytes(growth),
            Cell::Bytes(accounted),
            Cell::Bytes((growth - accounted).max(0.0)),
        ];
        if let Some(width) = width {
            let range = asking.time_range(trace);
            row.push(Cell::from(sparkline(process.resident, range, width, Floor::Zero)));
        }
        table.rows.push(row);
    }
    table.note = "  growth since the first reading; accounted for: allocations and weights of \
                  the host that are outstanding at the end"
        .to_owned();
    Ok((!table.rows.is_empty()).then_some(table))
}
