//! Allocations and releases by kind, device and scope.
//!
//! A release without `bytes`, `kind`, `device` or `scope` takes them from the
//! last allocation of the same `id` and device, or of the same `id` anywhere if it
//! names no device and nothing without one has that `id`. What was released without having
//! been allocated in this trace does not make the outstanding bytes negative.
//!
//! A leak suspect is a group whose *floor* keeps rising: of each eighth of the
//! trace, the least bytes outstanding are never less than in the eighth before,
//! and are more at least four times. Work that comes and goes has a floor that
//! comes down again, and what is allocated once rises once.

use std::collections::HashMap;

use super::{Asking, counted, hide_empty_columns, text};
use crate::{
    Result,
    output::{Cell, Column, Floor, Table, sparkline},
    query::Answer,
};

pub(super) const EVENTS: &str = "\
SELECT r.trace, r.name, r.start_ns, f.bytes, f.kind, f.device, f.scope, f.id
FROM records r
LEFT JOIN (SELECT record,
             MAX(CASE WHEN key = 'bytes' THEN number END) AS bytes,
             MAX(CASE WHEN key = 'kind' THEN text END) AS kind,
             MAX(CASE WHEN key = 'device' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR)) END) AS device,
             MAX(CASE WHEN key = 'scope' THEN text END) AS scope,
             MAX(CASE WHEN key = 'id' THEN COALESCE(text, CAST(TRY_CAST(number AS BIGINT) AS VARCHAR), CAST(number AS VARCHAR)) END) AS id
           FROM fields GROUP BY record) f ON f.record = r.record
WHERE r.name IN ('memory.allocate', 'memory.release')
ORDER BY r.trace, r.start_ns, r.record";

/// Parts of the trace whose floors are compared.
const EIGHTHS: usize = 8;
/// How often the floor of a suspect rises.
const RISES: usize = 4;

/// What was allocated of one kind, on one device, in one scope.
pub(super) struct Group<'a> {
    pub(super) trace: Option<&'a str>,
    pub(super) kind: Option<&'a str>,
    pub(super) device: Option<&'a str>,
    scope: Option<&'a str>,
    allocations: u64,
    releases: u64,
    allocated: f64,
    released: f64,
    pub(super) outstanding: f64,
    peak: f64,
    peak_ns: f64,
    /// Time and bytes outstanding.
    course: Vec<(f64, f64)>,
}

/// Kind, device and scope.
type Key<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);

/// The groups, largest outstanding first, and the most that was outstanding of
/// all of them together, by trace.
pub(super) struct Groups<'a> {
    pub(super) list: Vec<Group<'a>>,
    /// Bytes and when.
    peaks: Vec<(f64, f64)>,
}

impl<'a> Group<'a> {
    fn new(trace: Option<&'a str>, (kind, device, scope): Key<'a>) -> Self {
        Self {
            trace,
            kind,
            device,
            scope,
            allocations: 0,
            releases: 0,
            allocated: 0.0,
            released: 0.0,
            outstanding: 0.0,
            peak: 0.0,
            peak_ns: 0.0,
            course: Vec::new(),
        }
    }

    /// By how much that changed what is outstanding.
    fn change(&mut self, time: f64, bytes: f64, is_release: bool) -> f64 {
        let before = self.outstanding;
        if is_release {
            self.releases += 1;
            self.released += bytes;
            self.outstanding = (before - bytes).max(0.0);
        } else {
            self.allocations += 1;
            self.allocated += bytes;
            self.outstanding = before + bytes;
        }
        if self.outstanding > self.peak {
            (self.peak, self.peak_ns) = (self.outstanding, time);
        }
        self.course.push((time, self.outstanding));
        self.outstanding - before
    }

    /// The least bytes outstanding in each eighth of the time.
    fn floors(&self, (from, to): (f64, f64)) -> [f64; EIGHTHS] {
        let mut floors = [f64::INFINITY; EIGHTHS];
        let mut now = 0.0;
        let mut at = 0;
        for &(time, after) in &self.course {
            let part =
                (((time - from) / (to - from) * EIGHTHS as f64).max(0.0) as usize).min(EIGHTHS - 1);
            // What was outstanding lasted until now.
            while at < part {
                floors[at] = floors[at].min(now);
                at += 1;
            }
            floors[part] = floors[part].min(now).min(after);
            now = after;
        }
        floors[at..].iter_mut().for_each(|floor| *floor = floor.min(now));
        floors
    }
}

/// Trace and id.
type Id<'a> = (Option<&'a str>, &'a str);

/// Allocations that can be released by their id, with their sizes: one on each
/// device, the last one last.
#[derive(Default)]
struct Live<'a>(HashMap<Id<'a>, Vec<(Key<'a>, f64)>>);

impl<'a> Live<'a> {
    fn allocate(&mut self, id: Id<'a>, key: Key<'a>, bytes: f64) {
        let same_id = self.0.entry(id).or_default();
        same_id.retain(|(it, _)| it.1 != key.1);
        same_id.push((key, bytes));
    }

    fn release(&mut self, id: Id<'a>, device: Option<&str>) -> Option<(Key<'a>, f64)> {
        let same_id = self.0.get_mut(&id)?;
        let here = same_id.iter().position(|(it, _)| it.1 == device);
        let anywhere = || device.is_none().then(|| same_id.len() - 1);
        let released = same_id.remove(here.or_else(anywhere)?);
        if same_id.is_empty() {
            self.0.remove(&id);
        }
        Some(released)
    }
}

fn keep_rising(floors: &[f64]) -> bool {
    let pairs = || floors.windows(2);
    pairs().all(|pair| pair[1] >= pair[0])
        && pairs().filter(|pair| pair[1] > pair[0]).count() >= RISES
}

pub(super) fn groups<'a>(asking: &Asking<'_>, events: &'a Answer) -> Result<Groups<'a>> {
    let (traces, names) = (events.texts("trace")?, events.texts("name")?);
    let (times, bytes) = (events.numbers("start_ns")?, events.numbers("bytes")?);
    let (kinds, devices) = (events.texts("kind")?, events.texts("device")?);
    let (scopes, ids) = (events.texts("scope")?, events.texts("id")?);
    let mut index: HashMap<(Option<&str>, Key<'_>), usize> = HashMap::new();
    let mut list: Vec<Group<'_>> = Vec::new();
    let mut live = Live::default();
    let mut now: HashMap<Option<&str>, (f64, (f64, f64))> = HashMap::new();
    for at in 0..events.rows() {
        let (trace, time) = (traces[at], times[at].unwrap_or(0.0));
        let mut key = (kinds[at], devices[at], scopes[at]);
        let mut size = bytes[at].unwrap_or(0.0);
        let is_release = names[at] == Some("memory.release");
        if let Some(id) = ids[at] {
            if is_release {
                if let Some((of, allocated)) = live.release((trace, id), key.1) {
                    key = (key.0.or(of.0), key.1.or(of.1), key.2.or(of.2));
                    size = bytes[at].unwrap_or(allocated);
                }
            } else {
                live.allocate((trace, id), key, size);
            }
        }
        let group = *index.entry((trace, key)).or_insert_with(|| {
            list.push(Group::new(trace, key));
            list.len() - 1
        });
        let changed = list[group].change(time, size, is_release);
        let (all, peak) = now.entry(trace).or_default();
        *all += changed;
        if *all > peak.0 {
            *peak = (*all, time);
        }
    }
    list.sort_by(|a, b| {
        let by_size = b.outstanding.total_cmp(&a.outstanding);
        by_size.then(b.peak.total_cmp(&a.peak)).then((a.kind, a.device).cmp(&(b.kind, b.device)))
    });
    let of_trace = |loaded: &crate::load::Loaded| {
        now.get(&Some(loaded.label.as_str())).map_or((0.0, 0.0), |(_, peak)| *peak)
    };
    let peaks = asking.context.traces.list.iter().map(of_trace).collect();
    Ok(Groups { list, peaks })
}

pub(super) fn table(asking: &Asking<'_>, groups: &Groups<'_>) -> Option<Table> {
    if groups.list.is_empty() {
        return None;
    }
    let mut columns = vec![
        Column::new("kind", "kind"),
        asking.trace_column(),
        Column::new("device", "device"),
        Column::new("scope", "scope"),
        Column::new("allocations", "allocations"),
        Column::new("releases", "releases"),
        Column::new("allocated_bytes", "allocated"),
        Column::hidden("released_bytes", "released"),
        Column::new("outstanding_bytes", "outstanding"),
        Column::new("peak_bytes", "peak"),
        Column::new("peak_ns", "peak at"),
        Column::hidden("growth_bytes_per_second", "growth/s"),
        Column::new("leak", "leak"),
    ];
    let width = asking.sparkline_width();
    if width.is_some() {
        columns.push(Column::new("course", "outstanding over time"));
    }
    let mut table = Table::new("allocations", "Allocations", columns);
    let mut suspects = 0;
    for group in &groups.list {
        let range = asking.time_range(group.trace);
        let floors = group.floors(range);
        let suspect = keep_rising(&floors);
        suspects += usize::from(suspect);
        let growth = (floors[EIGHTHS - 1] - floors[0]) / (range.1 - range.0) * 1e9;
        let mut row = vec![
            text(group.kind),
            text(group.trace),
            text(group.device),
            text(group.scope),
            Cell::Count(group.allocations),
            Cell::Count(group.releases),
            Cell::Bytes(group.allocated),
            Cell::Bytes(group.released),
            Cell::Bytes(group.outstanding),
            Cell::Bytes(group.peak),
            Cell::Ns(group.peak_ns),
            Cell::Bytes(growth.round()),
            text(suspect.then_some("suspect")),
        ];
        if let Some(width) = width {
            let course = group.course.iter().copied();
            row.push(Cell::from(sparkline(course, range, width, Floor::Zero)));
        }
        table.rows.push(row);
    }
    for at in [11, 12] {
        table.columns[at].shown = suspects > 0;
    }
    // What is all of several processes would be nobody's.
    if let ([(peak, peak_ns)], false) = (&groups.peaks[..], asking.context.common.for_machines()) {
        let sum = |of: fn(&Group<'_>) -> f64| groups.list.iter().map(of).sum::<f64>();
        let mut footer = vec![
            Cell::from("all"),
            Cell::None,
            Cell::None,
            Cell::None,
            counted(Some(sum(|group| group.allocations as f64))),
            counted(Some(sum(|group| group.releases as f64))),
            Cell::Bytes(sum(|group| group.allocated)),
            Cell::Bytes(sum(|group| group.released)),
            Cell::Bytes(sum(|group| group.outstanding)),
            Cell::Bytes(*peak),
            Cell::Ns(*peak_ns),
            Cell::None,
            Cell::None,
        ];
        footer.resize(table.columns.len(), Cell::None);
        table.footer = Some(footer);
    }
    hide_empty_columns(&mut table);
    if suspects > 0 {
        table.note = "  suspect: in each eighth of the trace the least outstanding is never \
                      less than before, and more at least 4 times"
            .to_owned();
    }
    Some(table)
}
