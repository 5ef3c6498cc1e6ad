//! Devices, pools and caches over time: what they say of themselves.

use super::{Asking, hide_empty_columns, optional, text};
use crate::{
    Result,
    output::{Cell, Column, Floor, Table, sparkline},
    report::spans::percent,
};

pub(super) const READINGS: &str = "\
SELECT r.trace, r.name, r.start_ns, f.what, f.allocated, f.reserved, f.free, f.total,
       f.used, f.capacity, f.bytes
FROM records r
JOIN (SELECT record,
        MAX(CASE WHEN key IN ('device', 'pool', 'cache')
                 THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS what,
        MAX(CASE WHEN key = 'allocated' THEN number END) AS allocated,
        MAX(CASE WHEN key = 'reserved' THEN number END) AS reserved,
        MAX(CASE WHEN key = 'free' THEN number END) AS free,
        MAX(CASE WHEN key = 'total' THEN number END) AS total,
        MAX(CASE WHEN key = 'used' THEN number END) AS used,
        MAX(CASE WHEN key = 'capacity' THEN number END) AS capacity,
        MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes
      FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name IN ('memory.device', 'memory.pool', 'kv_cache.grow')
ORDER BY r.start_ns";

/// One line over time.
struct Course<'a> {
    trace: Option<&'a str>,
    label: String,
    points: Vec<(f64, f64)>,
    capacity: Option<f64>,
}

pub(super) fn table(asking: &Asking<'_>) -> Result<Option<Table>> {
    let answer = asking.ask(READINGS)?;
    let (traces, names, what) =
        (answer.texts("trace")?, answer.texts("name")?, answer.texts("what")?);
    let number = |column: &str| answer.numbers(column);
    let (times, allocated, reserved) =
        (number("start_ns")?, number("allocated")?, number("reserved")?);
    let (free, total, used) = (number("free")?, number("total")?, number("used")?);
    let (capacity, bytes) = (number("capacity")?, number("bytes")?);
    let mut courses: Vec<Course<'_>> = Vec::new();
    for at in 0..answer.rows() {
        let label = |prefix: &str, suffix: &str| {
            let label = format!("{prefix} {} {suffix}", what[at].unwrap_or_default());
            label.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let mut push = |label: String, value: Option<f64>, capacity: Option<f64>, adds: bool| {
            let Some(value) = value else { return };
            let same =
                |course: &&mut Course<'_>| course.trace == traces[at] && course.label == label;
            let course = match courses.iter_mut().find(same) {
                Some(course) => course,
                None => {
                    let points = Vec::new();
                    courses.push(Course { trace: traces[at], label, points, capacity: None });
                    let last = courses.len() - 1;
                    &mut courses[last]
                }
            };
            let before = course.points.last().map_or(0.0, |point| point.1);
            let value = if adds { before + value } else { value };
            course.points.push((times[at].unwrap_or(0.0), value));
            course.capacity = capacity.or(course.capacity);
        };
        match names[at] {
            Some("memory.device") => {
                let in_use = total[at].zip(free[at]).map(|(total, free)| total - free);
                push(label("device", "allocated"), allocated[at], total[at], false);
                push(label("device", "reserved"), reserved[at], total[at], false);
                push(label("device", "in use"), in_use, total[at], false);
            }
            Some("memory.pool") => push(label("pool", ""), used[at], capacity[at], false),
            _ => push(label("kv cache", ""), bytes[at], None, true),
        }
    }
    let mut columns = vec![
        Column::new("what", "what"),
        asking.trace_column(),
        Column::hidden("readings", "readings"),
        Column::new("first_bytes", "first"),
        Column::new("last_bytes", "last"),
        Column::new("peak_bytes", "peak"),
        Column::new("peak_ns", "peak at"),
        Column::new("capacity_bytes", "of"),
        Column::new("peak_percent", "peak %"),
    ];
    let width = asking.sparkline_width();
    if width.is_some() {
        columns.push(Column::new("course", "over time"));
    }
    let mut table = Table::new("use", "Devices, pools and caches", columns);
    courses.sort_by(|a, b| (&a.label, a.trace).cmp(&(&b.label, b.trace)));
    for course in courses {
        let peak = course.points.iter().copied().fold((0.0, f64::NEG_INFINITY), |most, point| {
            if point.1 > most.1 { point } else { most }
        });
        let ends = course.points.first().zip(course.points.last());
        let mut row = vec![
            Cell::from(course.label),
            text(course.trace),
            Cell::Count(course.points.len() as u64),
            optional(ends.map(|(first, _)| first.1), Cell::Bytes),
            optional(ends.map(|(_, last)| last.1), Cell::Bytes),
            Cell::Bytes(peak.1),
            Cell::Ns(peak.0),
            optional(course.capacity, Cell::Bytes),
            percent(peak.1, course.capacity.unwrap_or(0.0)),
        ];
        if let Some(width) = width {
            let range = asking.time_range(course.trace);
            row.push(Cell::from(sparkline(course.points, range, width, Floor::Zero)));
        }
        table.rows.push(row);
    }
    hide_empty_columns(&mut table);
    Ok((!table.rows.is_empty()).then_some(table))
}
