//! Allocations and releases by kind, device and scope.
//!
//! A release without `bytes`, `kind`, `device` or `scope` takes them from the
//! last allocation of the same `id` and device, or of the same `id` anywhere if it
//! names no device and nothing without one has that `id`. What was released without having
//! been allocated in this trace does not make the outstanding bytes negative.
//!
//! Each allocation and each release is held, without the fields that nobody asks for.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use super::{View, hide_empty_columns, text};
use crate::{
    Result,
    events::{Event, Key},
    output::{Cell, Column, Course, Floor, Table},
    report::vocabulary::{
        grouping::GROUP,
        memory::floors::{Floors, keep_rising},
        view::{Held, course_cell},
    },
};

/// An allocation or a release as it was recorded.
struct Change {
    trace: u32,
    is_release: bool,
    time: f64,
    bytes: Option<f64>,
    of: Which,
    id: Option<Id>,
}

/// Kind, device and scope, by their numbers among the texts.
type Which = [Option<u32>; 3];

/// What pairs a release with its allocation. Most are numbers, which take no room.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Id {
    Number(i64),
    Text(u32),
}

/// Bytes that it takes for an allocation to be found by its id.
const LIVE: usize = 4 * size_of::<(Which, f64)>() + 2 * size_of::<(u32, Id)>() + 64;

/// Every text once.
struct Texts<'a> {
    index: HashMap<Box<str>, u32>,
    all: Vec<Box<str>>,
    held: Held<'a>,
}

impl Texts<'_> {
    fn number(&mut self, text: &str) -> Result<u32> {
        if let Some(&known) = self.index.get(text) {
            return Ok(known);
        }
        // Twice each: in the list and in the index, which grow by doubling.
        self.held.take(2 * text.len() + 4 * size_of::<(Box<str>, u32)>())?;
        let new = self.all.len() as u32;
        self.all.push(text.into());
        self.index.insert(text.into(), new);
        Ok(new)
    }

    fn numbers(&mut self, texts: [Option<Cow<'_, str>>; 3]) -> Result<Which> {
        let mut numbers = [None; 3];
        for (number, text) in numbers.iter_mut().zip(texts) {
            *number = text.map(|text| self.number(&text)).transpose()?;
        }
        Ok(numbers)
    }

    fn id(&mut self, text: &str) -> Result<Id> {
        match text.parse::<i64>() {
            // Only as a number is written: `007` is a text.
            Ok(number) if number.to_string() == text => Ok(Id::Number(number)),
            _ => self.number(text).map(Id::Text),
        }
    }
}

pub(super) struct Allocations<'a> {
    view: &'a View<'a>,
    bytes: Key,
    kind: Key,
    device: Key,
    scope: Key,
    id: Key,
    changes: Vec<Change>,
    /// Of which there will be groups.
    which: HashSet<(u32, Which)>,
    texts: Texts<'a>,
}

impl<'a> Allocations<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let keys = ["bytes", "kind", "device", "scope", "id"];
        let [bytes, kind, device, scope, id] = Key::all(&view.context.traces, keys);
        let held = view.held("allocations");
        let texts = Texts { index: HashMap::new(), all: Vec::new(), held };
        let (changes, which) = (Vec::new(), HashSet::new());
        Self { view, bytes, kind, device, scope, id, changes, which, texts }
    }

    pub(super) fn event(&mut self, event: &Event<'_>, is_release: bool) -> Result<()> {
        // Twice, since a list grows by doubling.
        self.texts.held.take(2 * size_of::<Change>() + LIVE)?;
        let number = || event.number(self.id).map(|number| number.to_string().into());
        let id = event.label(self.id).or_else(number);
        let of = [event.text(self.kind), event.label(self.device), event.text(self.scope)];
        let (trace, of) = (event.trace as u32, self.texts.numbers(of)?);
        if self.which.insert((trace, of)) {
            let group = 2 * size_of::<Group>() + self.view.course_bytes() + GROUP;
            self.texts.held.take(group)?;
        }
        self.changes.push(Change {
            trace,
            is_release,
            time: event.start_ns(),
            bytes: event.number(self.bytes),
            of,
            id: id.map(|id| self.texts.id(&id)).transpose()?,
        });
        Ok(())
    }

    /// The groups, after all changes in the order of time.
    pub(super) fn in_order(self) -> Groups<'a> {
        let Self { view, mut changes, texts, .. } = self;
        changes.sort_by(|a, b| a.trace.cmp(&b.trace).then(a.time.total_cmp(&b.time)));
        let mut index: HashMap<(u32, Which), usize> = HashMap::new();
        let mut list: Vec<Group> = Vec::new();
        let mut live = Live::default();
        let traces = view.context.traces.list.len();
        // What all groups have outstanding, and the peak of that: bytes and when.
        let mut now = vec![(0.0, (0.0, 0.0)); traces];
        for change in changes {
            let Change { trace, mut of, time, is_release, .. } = change;
            let mut size = change.bytes.unwrap_or(0.0);
            if let Some(id) = change.id {
                if !is_release {
                    live.allocate((trace, id), of, size);
                } else if let Some((from, allocated)) = live.release((trace, id), of[1]) {
                    of = std::array::from_fn(|at| of[at].or(from[at]));
                    size = change.bytes.unwrap_or(allocated);
                }
            }
            let group = *index.entry((trace, of)).or_insert_with(|| {
                list.push(Group::new(view, trace as usize, of));
                list.len() - 1
            });
            let (all, peak) = &mut now[trace as usize];
            *all += list[group].change(time, size, is_release);
            if *all > peak.0 {
                *peak = (*all, time);
            }
        }
        let peaks = now.into_iter().map(|(_, peak)| peak).collect();
        let mut groups = Groups { view, texts: texts.all, list: Vec::new(), peaks };
        list.sort_by(|a, b| {
            let by_size = b.outstanding.total_cmp(&a.outstanding);
            let which = |group: &Group| (groups.kind(group), groups.device(group));
            by_size.then(b.peak.total_cmp(&a.peak)).then_with(|| which(a).cmp(&which(b)))
        });
        groups.list = list;
        groups
    }
}

/// Allocations that can be released by their id, with their sizes: one on each
/// device, the last one last.
#[derive(Default)]
struct Live(HashMap<(u32, Id), Vec<(Which, f64)>>);

impl Live {
    fn allocate(&mut self, id: (u32, Id), of: Which, bytes: f64) {
        let same_id = self.0.entry(id).or_default();
        same_id.retain(|(it, _)| it[1] != of[1]);
        same_id.push((of, bytes));
    }

    fn release(&mut self, id: (u32, Id), device: Option<u32>) -> Option<(Which, f64)> {
        let same_id = self.0.get_mut(&id)?;
        let here = same_id.iter().position(|(it, _)| it[1] == device);
        let anywhere = || device.is_none().then(|| same_id.len() - 1);
        let released = same_id.remove(here.or_else(anywhere)?);
        if same_id.is_empty() {
            self.0.remove(&id);
        }
        Some(released)
    }
}

/// What was allocated of one kind, on one device, in one scope.
pub(super) struct Group {
    pub(super) trace: usize,
    of: Which,
    allocations: u64,
    releases: u64,
    allocated: f64,
    released: f64,
    pub(super) outstanding: f64,
    peak: f64,
    peak_ns: f64,
    floors: Floors,
    course: Option<Course>,
}

impl Group {
    fn new(view: &View<'_>, trace: usize, of: Which) -> Self {
        Self {
            trace,
            of,
            allocations: 0,
            releases: 0,
            allocated: 0.0,
            released: 0.0,
            outstanding: 0.0,
            peak: 0.0,
            peak_ns: 0.0,
            floors: Floors::new(view.time_range(trace)),
            course: view.course(trace),
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
        self.floors.change(time, self.outstanding);
        if let Some(course) = &mut self.course {
            course.add(time, self.outstanding);
        }
        self.outstanding - before
    }
}

/// The groups, largest outstanding first, and the most that was outstanding of
/// all of them together, by trace.
pub(super) struct Groups<'a> {
    view: &'a View<'a>,
    texts: Vec<Box<str>>,
    pub(super) list: Vec<Group>,
    /// Bytes and when.
    peaks: Vec<(f64, f64)>,
}

impl Groups<'_> {
    fn text(&self, number: Option<u32>) -> Option<&str> {
        number.map(|number| &*self.texts[number as usize])
    }

    pub(super) fn kind(&self, group: &Group) -> Option<&str> {
        self.text(group.of[0])
    }

    pub(super) fn device(&self, group: &Group) -> Option<&str> {
        self.text(group.of[1])
    }

    pub(super) fn table(&self) -> Option<Table> {
        if self.list.is_empty() {
            return None;
        }
        let mut columns = vec![
            Column::new("kind", "kind"),
            self.view.trace_column(),
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
        columns.extend(self.view.course_column("outstanding over time"));
        let mut table = Table::new("allocations", "Allocations", columns);
        let mut suspects = 0;
        for group in &self.list {
            let floors = group.floors.all();
            let is_suspect = keep_rising(&floors);
            suspects += usize::from(is_suspect);
            table.rows.push(self.row(group, &floors, is_suspect));
        }
        for at in [11, 12] {
            table.columns[at].shown = suspects > 0;
        }
        // What is all of several processes would be nobody's.
        if let ([peak], false) = (&self.peaks[..], self.view.context.common.for_machines()) {
            let mut footer = self.sums(*peak);
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

    fn row(&self, group: &Group, floors: &[f64], is_suspect: bool) -> Vec<Cell> {
        let (from, to) = self.view.time_range(group.trace);
        let growth = (floors[floors.len() - 1] - floors[0]) / (to - from) * 1e9;
        let mut row = vec![
            text(self.kind(group)),
            self.view.trace_cell(group.trace),
            text(self.device(group)),
            text(self.text(group.of[2])),
            Cell::Count(group.allocations),
            Cell::Count(group.releases),
            Cell::Bytes(group.allocated),
            Cell::Bytes(group.released),
            Cell::Bytes(group.outstanding),
            Cell::Bytes(group.peak),
            Cell::Ns(group.peak_ns),
            Cell::Bytes(growth.round()),
            text(is_suspect.then_some("suspect")),
        ];
        row.extend(course_cell(group.course.as_ref(), Floor::Zero));
        row
    }

    fn sums(&self, (peak, peak_ns): (f64, f64)) -> Vec<Cell> {
        let sum = |of: fn(&Group) -> f64| self.list.iter().map(of).sum::<f64>();
        let count = |of: fn(&Group) -> u64| self.list.iter().map(of).sum::<u64>();
        vec![
            Cell::from("all"),
            Cell::None,
            Cell::None,
            Cell::None,
            Cell::Count(count(|group| group.allocations)),
            Cell::Count(count(|group| group.releases)),
            Cell::Bytes(sum(|group| group.allocated)),
            Cell::Bytes(sum(|group| group.released)),
            Cell::Bytes(sum(|group| group.outstanding)),
            Cell::Bytes(peak),
            Cell::Ns(peak_ns),
        ]
    }
}
