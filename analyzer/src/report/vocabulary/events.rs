//! The section of the overview that lists what happened at an instant, by name:
//! events of any vocabulary, and kinds of points that only a later version knows.
//! Counters, gauges and errors have sections of their own. Nothing that is held grows with
//! the number of events.

use std::{cmp::Reverse, collections::HashMap};

use ringscope_format::Kind;

use super::{
    Fold, Report,
    grouping::Sum,
    view::{View, hide_empty_columns, optional, text},
};
use crate::{
    Result,
    events::{Event, Scope},
    output::{Cell, Column, Part, Table},
};

pub(super) const SECTION: Report = Report {
    what: "events",
    schema: "ringscope.events/1",
    scope: Scope {
        kinds: |kind| kind.is_point() && !matches!(kind, Kind::COUNTER | Kind::GAUGE | Kind::ERROR),
        fields: false,
        ..Scope::NONE
    },
    fold: |view| Box::new(Events { view, by_name: HashMap::new() }),
    nothing: "no events at an instant in this trace; event! records them",
};

#[derive(Default)]
struct OfName {
    times: Sum,
    /// Numbers that an event carries are added up: what they are, its author knows.
    values: Sum,
}

struct Events<'a> {
    view: &'a View<'a>,
    /// By trace, name and kind.
    by_name: HashMap<(usize, u32, Kind), OfName>,
}

impl Fold for Events<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        let of = self.by_name.entry((event.trace, event.name, event.kind)).or_default();
        of.times.add(Some(event.start_ns()));
        of.values.add(event.value());
        Ok(())
    }

    fn parts(self: Box<Self>) -> Vec<Part> {
        if self.by_name.is_empty() {
            return Vec::new();
        }
        let view = self.view;
        let mut columns = vec![
            Column::new("name", "name"),
            view.trace_column(),
            Column::new("kind", "kind"),
            Column::new("count", "count"),
            Column::new("per_second", "per second"),
            Column::new("sum", "sum"),
            Column::new("first_ns", "first at"),
            Column::new("last_ns", "last at"),
        ];
        columns[2].shown = self.by_name.keys().any(|(_, _, kind)| *kind != Kind::EVENT);
        let mut table = Table::new("events", "Events", columns);
        let mut all: Vec<_> = self.by_name.into_iter().collect();
        all.sort_by_key(|&((trace, name, kind), ref of)| {
            (Reverse(of.times.count), view.name(name), view.label(trace), format!("{kind:?}"))
        });
        for ((trace, name, kind), of) in all {
            // A sum of zeros says no more than none.
            let sum = of.values.total().filter(|sum| *sum != 0.0);
            table.rows.push(vec![
                text(Some(view.name(name))),
                view.trace_cell(trace),
                text(Some(&format!("{kind:?}"))),
                Cell::Count(of.times.count),
                view.per_second(trace, of.times.count as f64),
                optional(sum, Cell::Number),
                optional(of.times.min(), Cell::Ns),
                optional(of.times.max(), Cell::Ns),
            ]);
        }
        hide_empty_columns(&mut table);
        vec![Part::Table(table)]
    }
}
