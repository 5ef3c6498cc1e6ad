//! What the reports over a vocabulary are made from, and the columns that they have in
//! common.

use std::cell::Cell as Shared;

use super::{Context, percentile_key};
use crate::{
    Result,
    budget::Budget,
    output::{Cell, Column, Course, Floor, Table},
};

/// What is asked about, and how much memory has been taken for the answer.
pub(super) struct View<'a> {
    pub(super) context: &'a Context,
    /// Characters of a sparkline, few enough that a table need not cut it to fit;
    /// machines get none.
    pub(super) sparkline_width: Option<usize>,
    budget: Budget,
    /// By all folds together.
    taken: Shared<u64>,
}

impl<'a> View<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        let common = &context.common;
        let is_narrow = common.style().width.is_some_and(|width| width < 140);
        let width = if is_narrow { 12 } else { 24 };
        Self {
            context,
            sparkline_width: (!common.for_machines()).then_some(width),
            budget: common.budget(),
            taken: Shared::new(0),
        }
    }

    pub(super) fn label(&self, trace: usize) -> &'a str {
        &self.context.traces.list[trace].label
    }

    pub(super) fn name(&self, name: u32) -> &'a str {
        &self.context.traces.names[name as usize]
    }

    /// Traces are processes: figures of several are told apart.
    pub(super) fn trace_column(&self) -> Column {
        Column { shown: self.context.traces.list.len() > 1, ..Column::new("trace", "trace") }
    }

    pub(super) fn trace_cell(&self, trace: usize) -> Cell {
        text(Some(self.label(trace)))
    }

    /// Columns of percentiles.
    pub(super) fn percentile_columns(&self) -> impl Iterator<Item = Column> {
        let percentiles = &self.context.common.percentiles;
        percentiles.iter().map(|it| Column::new(percentile_key(*it), format!("p{it}")))
    }

    /// The time that is asked about, since the first event of a trace.
    pub(super) fn time_range(&self, trace: usize) -> (f64, f64) {
        let length = self.context.traces.list[trace].length_ns().max(1.0);
        let filter = &self.context.filter;
        let at = |ns: f64| if ns < 0.0 { (length + ns).max(0.0) } else { ns.min(length) };
        let from = filter.from_ns.map_or(0.0, at);
        let from = from.max(filter.last_ns.map_or(0.0, |last| (length - last).max(0.0)));
        (from, filter.to_ns.map_or(length, at).max(from + 1.0))
    }

    /// So many in the time that is asked about, to two digits.
    pub(super) fn per_second(&self, trace: usize, number: f64) -> Cell {
        let (from, to) = self.time_range(trace);
        Cell::Number((number / ((to - from) / 1e9) * 100.0).round() / 100.0)
    }

    /// A course of all the time that is asked about, if it will be shown.
    pub(super) fn course(&self, trace: usize) -> Option<Course> {
        self.sparkline_width.map(|width| Course::new(self.time_range(trace), width))
    }

    /// Bytes that such a course takes.
    pub(super) fn course_bytes(&self) -> usize {
        self.sparkline_width.map_or(0, Course::bytes)
    }

    /// A column for courses, if they are shown.
    pub(super) fn course_column(&self, title: &str) -> Option<Column> {
        self.sparkline_width.map(|_| Column::new("course", title))
    }

    /// For what grows with the number of events; these are what takes the room.
    pub(super) fn held(&'a self, what: &'static str) -> Held<'a> {
        Held { view: self, what, bytes: 0 }
    }
}

/// Memory that a fold has taken, until it is dropped.
pub(super) struct Held<'a> {
    pub(super) view: &'a View<'a>,
    what: &'static str,
    bytes: u64,
}

impl Held<'_> {
    /// Takes room for more, an error if there is not so much.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        let bytes = bytes as u64;
        let taken = self.view.taken.get().saturating_add(bytes);
        self.view.taken.set(taken);
        self.bytes = self.bytes.saturating_add(bytes);
        self.view.budget.require(
            taken,
            || format!("the {} that were read so far", self.what),
            "ask about a part with --from, --to, --last, --name, --track or --min-duration",
        )
    }

    pub(super) fn give_back(&mut self, bytes: usize) {
        let bytes = (bytes as u64).min(self.bytes);
        self.bytes -= bytes;
        self.view.taken.set(self.view.taken.get().saturating_sub(bytes));
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.view.taken.set(self.view.taken.get().saturating_sub(self.bytes));
    }
}

/// A cell of a course, if there is one.
pub(super) fn course_cell(course: Option<&Course>, floor: Floor) -> Option<Cell> {
    course.map(|course| Cell::from(course.line(floor)))
}

/// Does not show a column in which there is nothing.
pub(super) fn hide_empty_columns(table: &mut Table) {
    for (at, column) in table.columns.iter_mut().enumerate() {
        column.shown &= table.rows.iter().any(|row| row[at] != Cell::None);
    }
}

/// A number if there is one.
pub(super) fn optional(number: Option<f64>, cell: fn(f64) -> Cell) -> Cell {
    number.map_or(Cell::None, cell)
}

/// A text if there is one.
pub(super) fn text(text: Option<&str>) -> Cell {
    text.filter(|text| !text.is_empty()).map_or(Cell::None, Cell::from)
}
