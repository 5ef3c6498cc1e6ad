//! Latencies by the path of a span, and by its name.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use super::rolling::{Calendar, Durations, Rolling};
use crate::{Kind, handlers::Event};

/// Different paths that are told apart.
const MOST_PATHS: usize = 4_096;
const OTHER: &str = "(other)";

/// What a row of latencies is of. Things of one name are in different rows if they
/// are different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LatencyOf {
    /// Spans, and each time that a span of `tracing` was entered and left.
    Calls,
    /// Spans of `tracing` that were left and entered again before they ended, as futures
    /// are: from creation to close. Spans that are kept to be entered for every call have
    /// no such row; how long a program keeps them says nothing.
    Tasks,
    /// The host's calls that launched work of a device.
    Launches,
    /// Kernels, copies and fills, by the device's time.
    Work,
}

impl LatencyOf {
    fn of_kind(kind: Kind) -> Option<Self> {
        Some(match kind {
            // Neither is work: the slices are, and whatever is in the scope.
            Kind::REUSED | Kind::SCOPE => return None,
            Kind::TASK => Self::Tasks,
            Kind::LAUNCH => Self::Launches,
            Kind::KERNEL | Kind::COPY | Kind::FILL => Self::Work,
            _ => Self::Calls,
        })
    }

    /// As rows in files have it.
    #[cfg(not(feature = "off"))]
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Tasks => "tasks",
            Self::Launches => "launches",
            Self::Work => "work",
        }
    }
}

/// How long something took in the window.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LatencyRow {
    /// Names from the outermost span to this one; one name in rows by name.
    pub path: Vec<String>,
    /// What it is of.
    pub of: LatencyOf,
    /// How often, in the window.
    pub count: u64,
    /// How often, since the beginning.
    pub total_count: u64,
    /// All of them together, in the window.
    pub sum: Duration,
    /// Their mean.
    pub mean: Duration,
    /// Half of them took no longer.
    pub p50: Duration,
    /// 95 % of them took no longer.
    pub p95: Duration,
    /// 99 % of them took no longer.
    pub p99: Duration,
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl LatencyRow {
    fn new(path: Vec<String>, of: LatencyOf, durations: &Durations, total_count: u64) -> Self {
        let time = Duration::from_nanos;
        let at = |percentile| time(durations.percentile(percentile));
        let sum = u64::try_from(durations.sum).unwrap_or(u64::MAX);
        Self {
            path,
            of,
            count: durations.count,
            total_count,
            sum: time(sum),
            mean: time((durations.sum / u128::from(durations.count.max(1))) as u64),
            p50: at(50.0),
            p95: at(95.0),
            p99: at(99.0),
            min: time(durations.min),
            max: time(durations.max),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Latencies {
    calendar: Calendar,
    by_path: BTreeMap<Key, Rolling>,
    /// To look a path up without making texts of it.
    key: Key,
}

/// In this order: a path comes before what it is the beginning of.
type Key = (Vec<String>, LatencyOf);

impl Latencies {
    pub(super) fn new(window: Duration) -> Self {
        let key = (Vec::new(), LatencyOf::Calls);
        Self { calendar: Calendar::new(window), by_path: BTreeMap::new(), key }
    }

    pub(super) fn take(&mut self, event: &Event, now: Instant) {
        let Some(duration) = event.duration else { return };
        let Some(of) = LatencyOf::of_kind(event.kind) else { return };
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.key.1 = of;
        write_path(&mut self.key.0, event, of);
        let rolling = match self.by_path.get_mut(&self.key) {
            Some(rolling) => rolling,
            None => {
                let room = self.by_path.len() < MOST_PATHS;
                let path = if room { self.key.0.clone() } else { vec![OTHER.to_owned()] };
                self.by_path.entry((path, of)).or_insert_with(Rolling::new)
            }
        };
        rolling.record(ns, &self.calendar, now);
    }

    /// Begins a new interval: only what comes from now on is in it.
    #[cfg(not(feature = "off"))]
    pub(super) fn clear(&mut self) {
        self.by_path.values_mut().for_each(Rolling::clear);
    }

    pub(super) fn by_path(&self, now: Instant) -> Vec<LatencyRow> {
        let row = |((path, of), rolling): (&Key, &Rolling)| {
            let durations = rolling.window(&self.calendar, now)?;
            Some(LatencyRow::new(path.clone(), *of, &durations, rolling.total))
        };
        self.by_path.iter().filter_map(row).collect()
    }

    pub(super) fn by_name(&self, now: Instant) -> Vec<LatencyRow> {
        let mut by_name: HashMap<(&str, LatencyOf), (Option<Durations>, u64)> = HashMap::new();
        for ((path, of), rolling) in &self.by_path {
            let name = (path.last().map_or("", String::as_str), *of);
            let (all, total) = by_name.entry(name).or_default();
            // Also of a path that is not in the window: a total never goes down.
            *total += rolling.total;
            let Some(durations) = rolling.window(&self.calendar, now) else { continue };
            match all {
                Some(all) => all.add(&durations),
                None => *all = Some(durations),
            }
        }
        let row = |((name, of), (durations, total)): ((&str, _), (Option<Durations>, u64))| {
            Some(LatencyRow::new(vec![name.to_owned()], of, &durations?, total))
        };
        let mut rows: Vec<LatencyRow> = by_name.into_iter().filter_map(row).collect();
        rows.sort_by(|a, b| b.sum.cmp(&a.sum).then_with(|| (&a.path, a.of).cmp(&(&b.path, b.of))));
        rows
    }
}

/// Work of devices has no spans around it: its queue stands for them.
fn write_path(path: &mut Vec<String>, event: &Event, of: LatencyOf) {
    let device = event.path.is_empty() && of == LatencyOf::Work;
    let queue: &str = &event.track;
    let names = device.then_some(queue).into_iter();
    let names = names.chain(event.path.iter().copied()).chain([event.name]);
    let mut length = 0;
    for name in names {
        match path.get_mut(length) {
            Some(text) => {
                text.clear();
                text.push_str(name);
            }
            None => path.push(name.to_owned()),
        }
        length += 1;
    }
    path.truncate(length);
}
