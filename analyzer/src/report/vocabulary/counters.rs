//! `counters`: what was counted and measured, the program's own readings first,
//! the recorder's apart. Names are held, and nothing that grows with the number of readings.

use std::collections::{HashMap, hash_map::Entry};

use ringscope_format::Kind;

use super::{
    Fold, Report,
    grouping::{GROUP, Sum},
    view::{Held, View, course_cell, hide_empty_columns, text},
};
use crate::{
    Result,
    events::{Event, Scope},
    output::{Cell, Column, Course, Floor, Part, Table, Unit},
};

pub(super) const REPORT: Report = Report {
    what: "counters",
    schema: "ringscope.counters/1",
    scope: Scope {
        kinds: |kind| matches!(kind, Kind::COUNTER | Kind::GAUGE),
        fields: false,
        ..Scope::NONE
    },
    fold: |view| Box::new(Counters::new(view, true)),
    nothing: "no counters in this trace; counter! and gauge! record them",
};

/// The program's own.
pub(super) const SECTION: Report =
    Report { fold: |view| Box::new(Counters::new(view, false)), ..REPORT };

/// Names that the recorder keeps for its own readings.
const RESERVED: [&str; 2] = ["process.", "recorder."];

fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|prefix| name.starts_with(prefix))
}

/// The readings of one name.
struct Readings {
    count: u64,
    values: Sum,
    /// When, and what it said.
    last: (f64, Option<f64>),
    course: Option<Course>,
}

struct Counters<'a> {
    view: &'a View<'a>,
    with_the_recorders: bool,
    /// By trace, name and kind.
    readings: HashMap<(usize, u32, Kind), Readings>,
    held: Held<'a>,
}

impl<'a> Counters<'a> {
    fn new(view: &'a View<'a>, with_the_recorders: bool) -> Self {
        let held = view.held("counters");
        Self { view, with_the_recorders, readings: HashMap::new(), held }
    }

    fn table(&self, key: &str, title: &str, is_in: impl Fn(&str) -> bool) -> Option<Part> {
        let mut columns = vec![
            Column::new("name", "name"),
            self.view.trace_column(),
            Column::new("kind", "kind"),
            Column::new("readings", "readings"),
            Column::new("sum", "sum"),
            Column::new("per_second", "per second"),
            Column::new("min", "min"),
            Column::new("mean", "mean"),
            Column::new("max", "max"),
            Column::new("last", "last"),
        ];
        columns.extend(self.view.course_column("over time"));
        let mut table = Table::new(key, title, columns);
        let mut order: Vec<_> = self.readings.keys().copied().collect();
        order.retain(|&(_, name, _)| is_in(self.view.name(name)));
        order.sort_by_key(|&(trace, name, kind)| {
            (self.view.name(name), self.view.label(trace), kind != Kind::COUNTER)
        });
        for (trace, name, kind) in order {
            table.rows.push(self.row(trace, name, kind));
        }
        hide_empty_columns(&mut table);
        (!table.rows.is_empty()).then_some(Part::Table(table))
    }

    /// What a counter counted is its sum; what a gauge says is its last value.
    fn row(&self, trace: usize, name: u32, kind: Kind) -> Vec<Cell> {
        let readings = &self.readings[&(trace, name, kind)];
        let name = self.view.name(name);
        let unit = Unit::of(name);
        let value = |it: Option<f64>| it.map_or(Cell::None, |number| unit.cell(number));
        let is_counter = kind == Kind::COUNTER;
        let sum = readings.values.total().filter(|_| is_counter);
        let mut cells = vec![
            Cell::from(name),
            self.view.trace_cell(trace),
            text(Some(&format!("{kind:?}"))),
            Cell::Count(readings.count),
            value(sum),
            sum.map_or(Cell::None, |sum| self.view.per_second(trace, sum)),
            value(readings.values.min()),
            value(readings.values.mean()),
            value(readings.values.max()),
            value(readings.last.1.filter(|_| !is_counter)),
        ];
        let floor = if is_counter { Floor::Zero } else { Floor::Least };
        cells.extend(course_cell(readings.course.as_ref(), floor));
        cells
    }
}

impl Fold for Counters<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        if !self.with_the_recorders && is_reserved(event.name()) {
            return Ok(());
        }
        let (time, value) = (event.start_ns(), event.value());
        let readings = match self.readings.entry((event.trace, event.name, event.kind)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let course = self.view.course(event.trace);
                self.held.take(2 * size_of::<Readings>() + self.view.course_bytes() + GROUP)?;
                new.insert(Readings {
                    count: 0,
                    values: Sum::default(),
                    last: (time, value),
                    course,
                })
            }
        };
        readings.count += 1;
        readings.values.add(value);
        if time >= readings.last.0 {
            readings.last = (time, value);
        }
        if let (Some(course), Some(value)) = (&mut readings.course, value) {
            match event.kind {
                Kind::COUNTER => course.count(time, value),
                _ => course.add(time, value),
            }
        }
        Ok(())
    }

    fn parts(self: Box<Self>) -> Vec<Part> {
        let own = self.table("counters", "Counters", |name| !is_reserved(name));
        let title = "The recorder's readings of the process and of itself";
        own.into_iter().chain(self.table("recorder", title, is_reserved)).collect()
    }
}
