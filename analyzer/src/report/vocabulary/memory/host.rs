//! The process's memory as the system sees it: what it was when recording began,
//! and what of its growth nothing in the trace accounts for.
//!
//! Accounted for are allocations outstanding on the host, whose device is `cpu`,
//! `host` or not given, and weights on the host, unless allocations of kind
//! `weights` are recorded as well. The baseline is the first reading.

use super::{View, allocations::Groups, is_host, optional, weights::Weights};
use crate::{
    Result,
    events::Event,
    output::{Cell, Column, Floor, Table},
    report::vocabulary::view::course_cell,
};

/// Readings of one process: when and what. Nothing here grows with their number.
#[derive(Default)]
struct Process {
    first: Option<(f64, f64)>,
    last: Option<(f64, f64)>,
    anonymous: Option<(f64, f64)>,
    peak: f64,
    course: Option<crate::output::Course>,
}

pub(super) struct Host<'a> {
    view: &'a View<'a>,
    /// By trace.
    processes: Vec<Process>,
}

/// The later one of two readings; of two at the same time, the new one.
fn later(before: Option<(f64, f64)>, new: (f64, f64)) -> Option<(f64, f64)> {
    before.filter(|before| before.0 > new.0).or(Some(new))
}

impl<'a> Host<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let of_trace = |trace| Process { course: view.course(trace), ..Process::default() };
        Self { view, processes: (0..view.context.traces.list.len()).map(of_trace).collect() }
    }

    pub(super) fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let process = &mut self.processes[event.trace];
        let Some(value) = event.value() else { return Ok(()) };
        let reading = (event.start_ns(), value);
        match event.name() {
            "process.resident_bytes" => {
                process.first = process.first.filter(|it| it.0 <= reading.0).or(Some(reading));
                process.last = later(process.last, reading);
                process.peak = process.peak.max(value);
                if let Some(course) = &mut process.course {
                    course.add(reading.0, value);
                }
            }
            "process.anonymous_bytes" => process.anonymous = later(process.anonymous, reading),
            _ => process.peak = process.peak.max(value),
        }
        Ok(())
    }

    pub(super) fn table(self, groups: &Groups<'_>, weights: &Weights<'_>) -> Option<Table> {
        let mut columns = vec![
            self.view.trace_column(),
            Column::new("baseline_bytes", "baseline"),
            Column::new("last_bytes", "last"),
            Column::new("peak_bytes", "peak"),
            Column::new("anonymous_bytes", "anonymous"),
            Column::new("growth_bytes", "growth"),
            Column::new("accounted_bytes", "accounted for"),
            Column::new("unaccounted_bytes", "not accounted for"),
        ];
        columns.extend(self.view.course_column("resident over time"));
        let mut table = Table::new("host", "Host memory of the process", columns);
        for (trace, process) in self.processes.into_iter().enumerate() {
            let Some((first, last)) = process.first.zip(process.last) else { continue };
            let of_process = || groups.list.iter().filter(|group| group.trace == trace);
            let host = of_process().filter(|group| is_host(groups.device(group)));
            let outstanding: f64 = host.map(|group| group.outstanding).sum();
            let has_weights = of_process().any(|group| groups.kind(group) == Some("weights"));
            let of_weights = if has_weights { 0.0 } else { weights.on_host(trace) };
            let accounted = outstanding + of_weights;
            let growth = last.1 - first.1;
            let mut row = vec![
                self.view.trace_cell(trace),
                Cell::Bytes(first.1),
                Cell::Bytes(last.1),
                Cell::Bytes(process.peak),
                optional(process.anonymous.map(|(_, bytes)| bytes), Cell::Bytes),
                Cell::Bytes(growth),
                Cell::Bytes(accounted),
                Cell::Bytes((growth - accounted).max(0.0)),
            ];
            row.extend(course_cell(process.course.as_ref(), Floor::Zero));
            table.rows.push(row);
        }
        table.note = "  growth since the first reading; accounted for: allocations and weights of \
                      the host that are outstanding at the end"
            .to_owned();
        (!table.rows.is_empty()).then_some(table)
    }
}
