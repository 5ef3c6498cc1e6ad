//! By how much memory changed in each phase.

use super::{View, optional, text};
use crate::{
    Result,
    events::{Event, Key},
    output::{Cell, Column, Table},
    report::vocabulary::grouping::{Groups, Sum},
};

pub(super) struct Phases<'a> {
    view: &'a View<'a>,
    phase: Key,
    delta: Key,
    /// By trace and phase: how often, and the changes.
    groups: Groups<'a, usize, (u64, Sum)>,
}

impl<'a> Phases<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let [phase, delta] = Key::all(&view.context.traces, ["phase", "delta"]);
        Self { view, phase, delta, groups: Groups::new(view.held("phases")) }
    }

    pub(super) fn event(&mut self, event: &Event<'_>) -> Result<()> {
        if !event.has_fields() {
            return Ok(());
        }
        let phase = event.text(self.phase).unwrap_or_default();
        let ((count, changes), _) = self.groups.at(event.trace, &phase, Default::default)?;
        *count += 1;
        changes.add(event.number(self.delta));
        Ok(())
    }

    pub(super) fn table(self) -> Option<Table> {
        let columns = vec![
            Column::new("phase", "phase"),
            self.view.trace_column(),
            Column::new("count", "count"),
            Column::new("delta_bytes", "change"),
            Column::new("max_bytes", "largest"),
        ];
        let mut table = Table::new("phases", "Change by phase", columns);
        let mut all = self.groups.into_list();
        let total = |changes: &Sum| changes.total().unwrap_or(0.0);
        all.sort_by(|(a_trace, a_phase, (_, a)), (b_trace, b_phase, (_, b))| {
            let by_size = total(b).total_cmp(&total(a));
            by_size.then((a_phase, a_trace).cmp(&(b_phase, b_trace)))
        });
        for (trace, phase, (count, changes)) in all {
            table.rows.push(vec![
                text(Some(&phase)),
                self.view.trace_cell(trace),
                Cell::Count(count),
                optional(changes.total(), Cell::Bytes),
                optional(changes.max(), Cell::Bytes),
            ]);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}
