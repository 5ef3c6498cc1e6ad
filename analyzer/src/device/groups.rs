//! Work of devices summed up by group: exact, percentiles included.
//!
//! Durations are held, unlike those of spans; see [`super`]. Ticks of traces with
//! different clocks are brought to one unit first, as [`crate::summary`] does.

use std::collections::{BTreeSet, HashMap};

use super::{
    DeviceWork, Shape, Work,
    categories::{Class, classify},
    names::base_name,
};
use crate::{
    load::Traces,
    summary::{Moments, Scale, ranks},
};

/// What makes two pieces of work the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum GroupBy {
    /// The full name: what a kernel is instantiated with is most of what it does
    #[default]
    Name,
    /// The name without template arguments and parameters
    Base,
    /// The full name and the launch shape: grid and block
    Shape,
    /// What it does: gemm, attention, elementwise, all-reduce, copy
    Kind,
    /// Computation, communication or memory
    Category,
}

/// What is kept apart beside that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Apart {
    /// Traces: ranks, hosts or runs
    Trace,
    /// Devices of each trace
    Device,
    /// Queues of each device
    Queue,
}

/// Work that is the same. Units are those of [`Summed::unit_ns`].
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Its name, base name, kind or category.
    pub label: String,
    /// The shape, where it tells groups apart.
    pub shape: Option<Shape>,
    /// What it is, category and kind, where all of it is the same.
    pub category: Option<&'static str>,
    /// See `category`.
    pub kind: Option<&'static str>,
    /// Durations.
    pub durations: Moments,
    /// Bytes moved or set, where that is known of any.
    pub bytes: Option<u64>,
    /// Which queues it ran on.
    pub queues: BTreeSet<u32>,
    /// Sorted.
    lengths: Vec<u64>,
    /// From launch to start, of what has a known launch; sorted.
    delays: Vec<i64>,
}

/// All groups, the largest first.
#[derive(Clone, Debug, Default)]
pub struct Summed {
    /// By falling total, then by label.
    pub groups: Vec<Group>,
    /// Nanoseconds in a unit.
    pub unit_ns: f64,
}

impl Group {
    /// A percentile of the durations.
    pub fn percentile(&self, percentile: f64) -> Option<f64> {
        let at = |rank: u64| self.lengths.get(rank as usize).map(|&value| value as f64);
        interpolated(percentile, self.lengths.len(), at)
    }

    /// A percentile of the delays from launch to start.
    pub fn delay_percentile(&self, percentile: f64) -> Option<f64> {
        let at = |rank: u64| self.delays.get(rank as usize).map(|&value| value as f64);
        interpolated(percentile, self.delays.len(), at)
    }

    /// How much of it has a known launch.
    pub fn launched(&self) -> u64 {
        self.delays.len() as u64
    }

    /// How much of it starts before its launch.
    pub fn before_launch(&self) -> u64 {
        self.delays.partition_point(|&delay| delay < 0) as u64
    }

    /// The mean delay from launch to start.
    pub fn mean_delay(&self) -> Option<f64> {
        let total: i128 = self.delays.iter().map(|&delay| i128::from(delay)).sum();
        (!self.delays.is_empty()).then(|| total as f64 / self.delays.len() as f64)
    }

    /// Several as if they were one.
    pub fn together(groups: &[Group], label: String) -> Group {
        let mut all = Group { label, ..Group::default() };
        for (at, group) in groups.iter().enumerate() {
            all.durations.merge(&group.durations);
            all.lengths.extend(&group.lengths);
            all.delays.extend(&group.delays);
            all.queues.extend(&group.queues);
            all.add_bytes(group.bytes);
            all.add_class(at == 0, group.category, group.kind);
        }
        all.sort();
        all
    }

    fn add_bytes(&mut self, bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            self.bytes = Some(self.bytes.unwrap_or(0).saturating_add(bytes));
        }
    }

    fn add_class(
        &mut self,
        is_first: bool,
        category: Option<&'static str>,
        kind: Option<&'static str>,
    ) {
        if is_first {
            (self.category, self.kind) = (category, kind);
        }
        self.category = self.category.filter(|_| self.category == category);
        self.kind = self.kind.filter(|_| self.kind == kind);
    }

    fn sort(&mut self) {
        self.lengths.sort_unstable();
        self.delays.sort_unstable();
    }
}

fn interpolated(percentile: f64, count: usize, at: impl Fn(u64) -> Option<f64>) -> Option<f64> {
    if count == 0 {
        return None;
    }
    let (below, above, weight) = ranks(percentile, count as u64);
    let (below, above) = (at(below)?, at(above)?);
    Some(below + (above - below) * weight)
}

/// Sums up.
pub fn sum(traces: &Traces, all: &DeviceWork, by: GroupBy, apart: Option<Apart>) -> Summed {
    let scale = Scale::of(traces);
    let mut index: HashMap<(u32, u32, u32), usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut labels = Labels::new(traces, by);
    let place_of = places(all, apart);
    for work in &all.work {
        let (label, class) = labels.of(work);
        let shape = if by == GroupBy::Shape { work.shape } else { 0 };
        let key = (place_of[work.queue as usize], label, shape);
        let at = *index.entry(key).or_insert(groups.len());
        let is_new = at == groups.len();
        if is_new {
            let shape = (by == GroupBy::Shape).then(|| all.shapes[work.shape as usize].clone());
            let label = labels.texts[label as usize].clone();
            groups.push(Group { label, shape, ..Group::default() });
        }
        let trace = all.queues[work.queue as usize].trace;
        let group = &mut groups[at];
        let duration = scale.scale(trace, work.duration);
        group.durations.push(duration);
        group.lengths.push(duration);
        group.delays.extend(work.queue_delay().map(|delay| {
            let size = scale.scale(trace, delay.unsigned_abs()) as i64;
            if delay < 0 { -size } else { size }
        }));
        group.queues.insert(work.queue);
        group.add_bytes(work.bytes);
        group.add_class(is_new, Some(class.category.name()), Some(class.kind));
    }
    groups.iter_mut().for_each(Group::sort);
    groups.sort_by(|a, b| {
        let by_total = b.durations.total.cmp(&a.durations.total);
        by_total.then_with(|| a.label.cmp(&b.label)).then_with(|| a.queues.cmp(&b.queues))
    });
    Summed { groups, unit_ns: scale.unit_ns }
}

/// Which queues count as one place: a number by queue.
fn places(all: &DeviceWork, apart: Option<Apart>) -> Vec<u32> {
    let mut numbers: HashMap<(usize, &str), u32> = HashMap::new();
    let numbered = all.queues.iter().enumerate().map(|(at, queue)| {
        let next = numbers.len() as u32;
        match apart {
            None => 0,
            Some(Apart::Trace) => queue.trace as u32,
            Some(Apart::Device) => {
                *numbers.entry((queue.trace, queue.device.as_str())).or_insert(next)
            }
            Some(Apart::Queue) => at as u32,
        }
    });
    numbered.collect()
}

/// Labels of groups and classes of names, each found out once.
struct Labels<'a> {
    by: GroupBy,
    names: &'a [String],
    known: HashMap<(u32, u8), (u32, Class)>,
    numbers: HashMap<String, u32>,
    texts: Vec<String>,
}

impl<'a> Labels<'a> {
    fn new(traces: &'a Traces, by: GroupBy) -> Self {
        let (known, numbers) = (HashMap::new(), HashMap::new());
        Self { by, names: &traces.names, known, numbers, texts: Vec::new() }
    }

    fn of(&mut self, work: &Work) -> (u32, Class) {
        let key = (work.name, work.kind.0);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let name = &self.names[work.name as usize];
        let class = classify(work.kind, name);
        let label = match self.by {
            GroupBy::Name | GroupBy::Shape => name.clone(),
            GroupBy::Base => base_name(name),
            GroupBy::Kind => class.kind.to_owned(),
            GroupBy::Category => class.category.name().to_owned(),
        };
        let next = self.texts.len() as u32;
        let number = *self.numbers.entry(label.clone()).or_insert(next);
        if number == next {
            self.texts.push(label);
        }
        self.known.insert(key, (number, class));
        (number, class)
    }
}
