//! The section of `report` that says what the fields of events and spans hold, by name
//! and key: numbers by mean and range, anything else by its most common values.
//!
//! What other sections show is left out: counters, errors, memory, the times of devices'
//! work and of tasks, and of calls, pools, training and caches what their tables are made of.

use std::{cmp::Reverse, collections::HashMap};

use ringscope_format::Kind;
use serde_json::json;

use super::{Context, tasks, vocabulary};
use crate::{
    Result,
    device::{self, is_device_work},
    fields::{Common, Fields, Key, Numbers, Row, Sum, Values, sum_up},
    output::{Cell, Column, Part, Selection, Table, count, shorten_middle, shown},
};

/// Rows that people get unasked.
pub(super) const USUAL_ROWS: usize = 25;
/// Values that people get to see, and how many characters of each.
const VALUES: (usize, usize) = (3, 32);
/// Values that machines get.
const VALUES_FOR_MACHINES: usize = 20;
/// Whole numbers of which the sum says something. Steps, sizes and ids are not among them.
const ADDED_UP: [&str; 5] = ["tokens", "samples", "elements", "count", "failures"];

/// None if no field is left to show.
pub(super) fn section(context: &Context, limit: Option<usize>) -> Result<Option<Part>> {
    let Fields { mut rows, left_out } = sum_up(&context.traces, &context.sieves, is_shown);
    if rows.is_empty() {
        return Ok(None);
    }
    in_order(&mut rows, &context.traces.names);
    let for_machines = context.common.for_machines();
    let others = |kind: Kind| !matches!(kind, Kind::EVENT | Kind::SPAN);
    let columns = vec![
        Column::new("name", "name"),
        Column { shown: rows.iter().any(|row| others(row.kind)), ..Column::new("kind", "kind") },
        Column::new("field", "field"),
        Column::hidden("type", "type"),
        Column::new("count", "count"),
        Column::hidden("not_finite", "not finite"),
        Column::new("sum", "sum"),
        Column::new("mean", "mean"),
        Column::new("min", "min"),
        Column::new("max", "max"),
        Column::new("values", "most common"),
        Column::hidden("distinct", "distinct"),
        Column::hidden("distinct_is_exact", "all told apart"),
    ];
    let mut table = Table::new("fields", "Fields of events and spans", columns);
    let (mut before, mut partial) = (None, false);
    for row in &rows {
        let mut cells = cells(context, row, for_machines, &mut partial);
        // The eye finds where the next name begins.
        if !for_machines && before.replace((row.name, row.kind)) == Some((row.name, row.kind)) {
            (cells[0], cells[1]) = (Cell::None, Cell::None);
        }
        table.rows.push(cells);
    }
    for (at, column) in table.columns.iter_mut().enumerate() {
        column.shown &= table.rows.iter().any(|row| row[at] != Cell::None);
    }
    let mut notes = Vec::new();
    if partial {
        notes
            .push("  over: more values than are told apart, so others may be as common".to_owned());
    }
    if left_out > 0 {
        let n = count(left_out);
        notes.push(format!("  {n} fields are left out: too many different names and keys"));
    }
    table.note = notes.join("\n");
    table.cut(limit);
    Selection::default().choose_columns(&mut table, for_machines)?;
    Ok(Some(Part::Table(table)))
}

/// Whether another section of the report is about it.
fn is_shown(name: &str, kind: Kind, key: Option<&str>) -> bool {
    let Some(key) = key else { return has_a_section(kind) };
    match kind {
        _ if has_a_section(kind) || name == device::timing::UNTIMED => true,
        _ if vocabulary::is_read(name, kind, key) => true,
        Kind::LAUNCH => key.contains("grid_") || key.contains("block_") || key == "device",
        _ if is_device_work(kind) => device::is_read(key),
        _ if kind.is_life() => tasks::is_read(key),
        _ => false,
    }
}

fn has_a_section(kind: Kind) -> bool {
    matches!(kind, Kind::ERROR | Kind::COUNTER | Kind::GAUGE | Kind::SCOPE)
}

/// Events, then spans, then devices; of these the most frequent name first, and its fields
/// as they were met.
fn in_order(rows: &mut [Row], names: &[String]) {
    let mut most: HashMap<(Option<u32>, Kind), u64> = HashMap::new();
    for row in &*rows {
        let count = most.entry((row.name, row.kind)).or_default();
        *count = (*count).max(row.sum.count());
    }
    let class = |kind: Kind| match kind {
        kind if kind.is_point() => 0,
        Kind::LAUNCH => 2,
        kind if is_device_work(kind) => 2,
        _ => 1,
    };
    rows.sort_by_key(|row| {
        let often = Reverse(most[&(row.name, row.kind)]);
        (class(row.kind), often, row.name.map(|name| &names[name as usize]), row.kind.0)
    });
}

fn cells(context: &Context, row: &Row, for_machines: bool, partial: &mut bool) -> Vec<Cell> {
    let names = &context.traces.names;
    let key = match row.key {
        Key::Name(key) => names[key as usize].as_str(),
        Key::Request => "(request)",
    };
    let kind = format!("{:?}", row.kind);
    let name = row.name.map_or("(all)", |name| names[name as usize].as_str());
    let mut cells = vec![Cell::from(name), kind.into(), key.into()];
    let (unit, numbers) = match &row.sum {
        Sum::Words(values) => {
            cells.extend([Cell::from("words"), Cell::Count(values.count())]);
            cells.extend((0..5).map(|_| Cell::None));
            cells.extend(words(values, names, for_machines, partial));
            return cells;
        }
        Sum::Times(numbers) => (Unit::Time(1.0), numbers),
        Sum::Numbers(numbers) => (Unit::of(key), numbers),
    };
    let cell = |value: Option<f64>| value.map_or(Cell::None, |value| unit.cell(value));
    let is_sum = for_machines || !matches!(unit, Unit::None) || ADDED_UP.contains(&key);
    cells.extend([
        Cell::from(unit.name()),
        Cell::Count(numbers.count),
        Cell::Count(numbers.not_finite),
        cell(numbers.total().filter(|_| is_sum)),
        cell(numbers.mean()),
        cell(finite(numbers.min)),
        cell(finite(numbers.max)),
        said_of(numbers, for_machines),
        Cell::None,
        Cell::None,
    ]);
    cells
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

/// That some are in no figure.
fn said_of(numbers: &Numbers, for_machines: bool) -> Cell {
    match numbers.not_finite {
        0 => Cell::None,
        _ if for_machines => Cell::None,
        n => Cell::from(format!("{} not finite", count(n))),
    }
}

/// The most common values, how many different ones there are, and whether these are all.
fn words(values: &Values, names: &[String], for_machines: bool, partial: &mut bool) -> [Cell; 3] {
    let most = if for_machines { VALUES_FOR_MACHINES } else { VALUES.0 };
    let Common { top, distinct, is_partial } = values.common(most, names);
    *partial |= is_partial;
    let told = if for_machines {
        let value = |(value, count): &(String, u64)| json!({ "value": value, "count": count });
        Cell::Json(top.iter().map(value).collect())
    } else {
        let counts = distinct > 1 && top.first().is_some_and(|it| it.1 > 1);
        let value = |(value, n): &(String, u64)| {
            let value = shorten_middle(&shown(value), VALUES.1).into_owned();
            if counts { format!("{value} {}", count(*n)) } else { value }
        };
        let mut text = top.iter().map(value).collect::<Vec<String>>().join(", ");
        if distinct > top.len() || is_partial {
            let over = if is_partial { "over " } else { "" };
            let more = count((distinct - top.len()) as u64);
            text.push_str(&format!(" … and {over}{more} more"));
        }
        Cell::from(text)
    };
    [told, Cell::Count(distinct as u64), Cell::Json((!is_partial).into())]
}

/// What a number is one of, as far as its key says.
#[derive(Clone, Copy)]
enum Unit {
    None,
    Bytes,
    /// Nanoseconds in one of them.
    Time(f64),
}

impl Unit {
    fn of(key: &str) -> Self {
        match key.rsplit('_').next() {
            Some("bytes") => Unit::Bytes,
            Some("ns") => Unit::Time(1.0),
            Some("us") => Unit::Time(1e3),
            Some("ms") => Unit::Time(1e6),
            _ => Unit::None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::None => "number",
            Unit::Bytes => "bytes",
            Unit::Time(_) => "ns",
        }
    }

    fn cell(self, value: f64) -> Cell {
        match self {
            Unit::None => Cell::Number(value),
            Unit::Bytes => Cell::Bytes(value),
            Unit::Time(ns) => Cell::Ns(value * ns),
        }
    }
}
