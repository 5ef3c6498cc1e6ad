//! Devices, pools and caches over time: what they say of themselves. Each reading is held.

use super::{View, hide_empty_columns, optional};
use crate::{
    Result,
    events::{Event, Key},
    output::{Cell, Column, Floor, Table, sparkline},
    report::{spans::percent, vocabulary::grouping::Groups},
};

/// The name of what says by how much a cache grew, and not how large it is.
const GROWTH: &str = "kv_cache.grow";
/// Keys of what is read.
const KEYS: [&str; 7] = ["allocated", "reserved", "free", "total", "used", "capacity", "bytes"];
/// Keys of whose it is.
const WHOSE: [&str; 3] = ["device", "pool", "cache"];

/// One line over time.
#[derive(Default)]
struct Use {
    /// When and how much, as they came.
    points: Vec<(f64, f64)>,
    /// Whether each says by how much it grew.
    adds: bool,
    /// When it was said last, and what.
    capacity: Option<(f64, f64)>,
}

pub(super) struct Uses<'a> {
    view: &'a View<'a>,
    whose: [Key; 3],
    keys: [Key; 7],
    /// By trace and what it is.
    groups: Groups<'a, usize, Use>,
}

impl<'a> Uses<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let traces = &view.context.traces;
        let groups = Groups::new(view.held("readings of devices, pools and caches"));
        Self { view, whose: Key::all(traces, WHOSE), keys: Key::all(traces, KEYS), groups }
    }

    pub(super) fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let whose = self.whose.iter().filter_map(|&key| event.label(key)).max().unwrap_or_default();
        let [allocated, reserved, free, total, used, capacity, bytes] =
            self.keys.map(|key| event.number(key));
        let label = |prefix: &str, suffix: &str| {
            let label = format!("{prefix} {whose} {suffix}");
            label.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        match event.name() {
            "memory.device" => {
                let in_use = total.zip(free).map(|(total, free)| total - free);
                self.reading(event, label("device", "allocated"), allocated, total)?;
                self.reading(event, label("device", "reserved"), reserved, total)?;
                self.reading(event, label("device", "in use"), in_use, total)
            }
            "memory.pool" => self.reading(event, label("pool", ""), used, capacity),
            _ => self.reading(event, label("kv cache", ""), bytes, None),
        }
    }

    fn reading(
        &mut self,
        event: &Event<'_>,
        label: String,
        value: Option<f64>,
        capacity: Option<f64>,
    ) -> Result<()> {
        let Some(value) = value else { return Ok(()) };
        let time = event.start_ns();
        let (of, held) = self
            .groups
            .at(event.trace, &label, || Use { adds: event.name() == GROWTH, ..Use::default() })?;
        // Twice, since a list grows by doubling.
        held.take(2 * size_of::<(f64, f64)>())?;
        of.points.push((time, value));
        let is_older = |known: &(f64, f64)| known.0 <= time;
        if let (Some(capacity), true) = (capacity, of.capacity.as_ref().is_none_or(is_older)) {
            of.capacity = Some((time, capacity));
        }
        Ok(())
    }

    pub(super) fn table(self) -> Option<Table> {
        let view = self.view;
        let mut columns = vec![
            Column::new("what", "what"),
            view.trace_column(),
            Column::hidden("readings", "readings"),
            Column::new("first_bytes", "first"),
            Column::new("last_bytes", "last"),
            Column::new("peak_bytes", "peak"),
            Column::new("peak_ns", "peak at"),
            Column::new("capacity_bytes", "of"),
            Column::new("peak_percent", "peak %"),
        ];
        columns.extend(view.course_column("over time"));
        let mut table = Table::new("use", "Devices, pools and caches", columns);
        let mut all = self.groups.into_list();
        all.sort_by(|(a_trace, a, _), (b_trace, b, _)| {
            a.cmp(b).then(view.label(*a_trace).cmp(view.label(*b_trace)))
        });
        for (trace, label, of) in all {
            let capacity = of.capacity.map(|(_, bytes)| bytes);
            let points = of.in_order();
            let Some((first, last)) = points.first().zip(points.last()) else { continue };
            let peak = points.iter().copied().fold((0.0, f64::NEG_INFINITY), |most, point| {
                if point.1 > most.1 { point } else { most }
            });
            let mut row = vec![
                Cell::from(&*label),
                view.trace_cell(trace),
                Cell::Count(points.len() as u64),
                Cell::Bytes(first.1),
                Cell::Bytes(last.1),
                Cell::Bytes(peak.1),
                Cell::Ns(peak.0),
                optional(capacity, Cell::Bytes),
                percent(peak.1, capacity.unwrap_or(0.0)),
            ];
            if let Some(width) = view.sparkline_width {
                let range = view.time_range(trace);
                row.push(Cell::from(sparkline(points, range, width, Floor::Zero)));
            }
            table.rows.push(row);
        }
        hide_empty_columns(&mut table);
        (!table.rows.is_empty()).then_some(table)
    }
}

impl Use {
    /// When and how much in all.
    fn in_order(self) -> Vec<(f64, f64)> {
        let mut points = self.points;
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if self.adds {
            let mut all = 0.0;
            for (_, bytes) in &mut points {
                all += *bytes;
                *bytes = all;
            }
        }
        points
    }
}
