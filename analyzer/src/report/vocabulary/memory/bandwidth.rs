//! How fast bytes were moved: by whatever has a duration and a field `bytes`. Nothing that
//! is held grows with the number of moves.

use std::collections::HashMap;

use ringscope_format::Kind;

use super::{View, optional, text};
use crate::{
    events::{Event, Key},
    output::{Cell, Column, Table},
    report::vocabulary::grouping::Sum,
};

#[derive(Default)]
struct Moved {
    bytes: Sum,
    ns: Sum,
    /// Bytes a nanosecond.
    rates: Sum,
}

pub(super) struct Bandwidth<'a> {
    view: &'a View<'a>,
    bytes: Key,
    /// By trace, name and kind.
    moved: HashMap<(usize, u32, Kind), Moved>,
}

impl<'a> Bandwidth<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let bytes = Key::of(&view.context.traces, "bytes");
        Self { view, bytes, moved: HashMap::new() }
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        let ns = event.dur_ns().filter(|ns| *ns > 0.0);
        let Some((bytes, ns)) = event.number(self.bytes).zip(ns) else { return };
        let moved = self.moved.entry((event.trace, event.name, event.kind)).or_default();
        moved.bytes.add(Some(bytes));
        moved.ns.add(Some(ns));
        moved.rates.add(Some(bytes / ns));
    }

    pub(super) fn table(self) -> Option<Table> {
        let columns = vec![
            Column::new("name", "name"),
            self.view.trace_column(),
            Column::new("kind", "kind"),
            Column::new("count", "count"),
            Column::new("bytes", "bytes"),
            Column::new("total_ns", "time"),
            Column::new("bytes_per_second", "per second"),
            Column::new("best_bytes_per_second", "best"),
        ];
        let mut table = Table::new("bandwidth", "Bytes moved", columns);
        let mut all: Vec<_> = self.moved.into_iter().collect();
        let total = |moved: &Moved| moved.bytes.total().unwrap_or(0.0);
        let which = |&(trace, name, kind): &(usize, u32, Kind)| {
            (self.view.name(name), self.view.label(trace), kind.0)
        };
        all.sort_by(|(a_key, a), (b_key, b)| {
            total(b).total_cmp(&total(a)).then_with(|| which(a_key).cmp(&which(b_key)))
        });
        for ((trace, name, kind), moved) in all {
            let rate = moved.bytes.total().zip(moved.ns.total());
            table.rows.push(vec![
                text(Some(self.view.name(name))),
                self.view.trace_cell(trace),
                text(Some(&format!("{kind:?}"))),
                Cell::Count(moved.bytes.count),
                optional(moved.bytes.total(), Cell::Bytes),
                optional(moved.ns.total(), Cell::Ns),
                optional(rate.map(|(bytes, ns)| (bytes / ns * 1e9).round()), Cell::Bytes),
                optional(moved.rates.max().map(|best| (best * 1e9).round()), Cell::Bytes),
            ]);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}
