//! `pool`: worker pools: how long work waited for a worker, how long workers were
//! busy, how deep the queue was. Pools are held, and each wait.

use super::{
    Fold, Report,
    grouping::{Durations, Groups, Sum},
    view::{View, course_cell, hide_empty_columns, optional, text},
};
use crate::{
    Result,
    events::{Event, Key, Scope},
    output::{Cell, Column, Course, Floor, Part, Table},
};

pub(super) const REPORT: Report = Report {
    what: "worker pools",
    schema: "ringscope.pool/1",
    scope: Scope { names: &NAMES, ..Scope::NONE },
    fold: |view| Box::new(Pools::new(view)),
    nothing: "no worker pools in this trace; pool.checkout, pool.checkin, pool.depth and \
              pool.size record them (format-spec/VOCABULARY.md)",
};

const NAMES: [&str; 6] =
    ["pool.depth", "pool.checkout", "pool.checkin", "pool.size", "worker.crash", "circuit.opened"];

/// Whether the table says what a field of this key holds.
pub(super) fn is_read(key: &str) -> bool {
    matches!(key, "pool" | "queue" | "queue_ns" | "busy" | "busy_ns" | "size")
}

struct Pool {
    checkouts: u64,
    waits: Durations,
    checkins: u64,
    busy: Sum,
    depth: Sum,
    course: Option<Course>,
    size: Sum,
    busy_percent: Sum,
    crashes: u64,
    opened: u64,
}

struct Pools<'a> {
    view: &'a View<'a>,
    pool: Key,
    size: Key,
    queue: [Key; 2],
    busy: [Key; 2],
    /// By trace and pool.
    groups: Groups<'a, usize, Pool>,
}

impl<'a> Pools<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let traces = &view.context.traces;
        let [pool, size] = Key::all(traces, ["pool", "size"]);
        let (queue, busy) = (Key::time(traces, "queue"), Key::time(traces, "busy"));
        Self { view, pool, size, queue, busy, groups: Groups::new(view.held("waits for workers")) }
    }
}

impl Fold for Pools<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        // Events without a field `pool` belong to one pool without a name.
        let pool = event.label(self.pool).unwrap_or("(unnamed)".into());
        let (pool, held) = self.groups.at(event.trace, &pool, || Pool {
            checkouts: 0,
            waits: Durations::default(),
            checkins: 0,
            busy: Sum::default(),
            depth: Sum::default(),
            course: self.view.course(event.trace),
            size: Sum::default(),
            busy_percent: Sum::default(),
            crashes: 0,
            opened: 0,
        })?;
        pool.size.add(event.number(self.size));
        pool.waits.add(event.time(self.queue), self.view, held)?;
        match event.name() {
            "pool.checkout" => pool.checkouts += 1,
            "pool.checkin" => {
                pool.checkins += 1;
                pool.busy.add(event.time(self.busy));
            }
            "pool.depth" => {
                let depth = event.value();
                pool.depth.add(depth);
                if let (Some(course), Some(depth)) = (&mut pool.course, depth) {
                    course.add(event.start_ns(), depth);
                }
            }
            "pool.size" => {
                let workers = event.time(self.busy).zip(event.number(self.size));
                pool.busy_percent.add(workers.map(|(busy, all)| 100.0 * busy / all));
            }
            "worker.crash" => pool.crashes += 1,
            _ => pool.opened += 1,
        }
        Ok(())
    }

    fn parts(self: Box<Self>) -> Vec<Part> {
        let view = self.view;
        let mut all = self.groups.into_list();
        if all.is_empty() {
            return Vec::new();
        }
        all.sort_by(|(a_trace, a, _), (b_trace, b, _)| {
            a.cmp(b).then(view.label(*a_trace).cmp(view.label(*b_trace)))
        });
        let mut columns = vec![
            Column::new("pool", "pool"),
            view.trace_column(),
            Column::new("checkouts", "checkouts"),
            Column::new("wait_mean_ns", "wait mean"),
        ];
        columns.extend(view.percentile_columns());
        let shown_if =
            |any: bool, key: &str, title: &str| Column { shown: any, ..Column::new(key, title) };
        columns.extend([
            Column::new("wait_max_ns", "max"),
            Column::new("checkins", "check-ins"),
            Column::new("busy_ns", "busy"),
            Column::new("busy_percent", "busy %"),
            Column::new("size_max", "size"),
            Column::hidden("depth_mean", "depth mean"),
            Column::new("depth_max", "depth"),
            shown_if(all.iter().any(|(.., pool)| pool.crashes > 0), "crashes", "crashes"),
            shown_if(all.iter().any(|(.., pool)| pool.opened > 0), "circuits_opened", "opened"),
        ]);
        columns.extend(view.course_column("depth over time"));
        let mut table = Table::new("pools", "Worker pools", columns);
        for (trace, name, mut pool) in all {
            let mut cells = vec![
                text(Some(&name)),
                view.trace_cell(trace),
                Cell::Count(pool.checkouts),
                optional(pool.waits.sum.mean(), Cell::Ns),
            ];
            cells.append(&mut pool.waits.percentiles(view));
            cells.extend([
                optional(pool.waits.sum.max(), Cell::Ns),
                Cell::Count(pool.checkins),
                optional(pool.busy.total(), Cell::Ns),
                optional(pool.busy_percent.mean(), Cell::Percent),
                optional(pool.size.max(), Cell::Number),
                optional(pool.depth.mean(), Cell::Number),
                optional(pool.depth.max(), Cell::Number),
                Cell::Count(pool.crashes),
                Cell::Count(pool.opened),
            ]);
            let course = course_cell(pool.course.as_ref(), Floor::Zero);
            cells.extend(course.map(|it| if pool.depth.count > 0 { it } else { Cell::None }));
            table.rows.push(cells);
        }
        hide_empty_columns(&mut table);
        table.note = "  waits are those of checkouts".to_owned();
        let is_shown = |key: &str| table.columns.iter().any(|it| it.shown && it.key == key);
        if is_shown("size_max") || is_shown("depth_max") {
            table.note.push_str("; size, depth: the largest");
        }
        vec![Part::Table(table)]
    }
}
