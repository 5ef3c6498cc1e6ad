//! Busy and idle time of a device, by a sweep over its work: exact, in ticks.
//!
//! - *Busy* is the time in which anything ran on any queue, *overlap* that in
//!   which two or more did.
//! - *Idle* is what is left between the first start and the last end. A stretch of
//!   it ends with the start of some work, and the launch of that work tells why the
//!   device had nothing to do, as Holistic Trace Analysis defines it:
//!   *host-bound* if the launch came after the device had run dry, *kernel-wait*
//!   if the work was queued by then and the stretch is shorter than
//!   [`KERNEL_WAIT_NS`], *other* if it was queued and still waited longer, for
//!   another queue as a rule, or if the launch is not known.
//!
//! The same sweep over the work of one queue gives that tool's figures for a
//! stream. Of work that starts at the same tick the earliest launch counts.
//! Before the first and after the last work nothing is known, so nothing is idle.

use std::{collections::HashMap, ops::Range};

use super::{
    DeviceWork, Queue, Work,
    categories::{Category, classify},
};
use crate::load::Traces;

/// Idle stretches shorter than this, before work that was queued, are what a
/// device takes from one kernel to the next. Holistic Trace Analysis uses 30 ns;
/// where kernels are microseconds apart, ask for more with `--kernel-wait`.
pub const KERNEL_WAIT_NS: f64 = 30.0;

/// Some work of a device, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// When it started.
    pub start: u64,
    /// When it ended; not before the start.
    pub end: u64,
    /// When the call that launched it started, if that is known.
    pub launch: Option<u64>,
    /// What it is.
    pub category: Category,
}

/// Idle time by cause, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// The host was late.
    pub host_bound: u64,
    /// From one kernel to the next.
    pub kernel_wait: u64,
    /// Anything else.
    pub other: u64,
}

impl Idle {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.host_bound + self.kernel_wait + self.other
    }
}

/// What a device did, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// From the first start to the last end.
    pub span: u64,
    /// In which anything ran.
    pub busy: u64,
    /// In which two or more ran.
    pub overlap: u64,
    /// In which nothing ran.
    pub idle: Idle,
    /// In which communication ran.
    pub communication: u64,
    /// In which computation ran.
    pub computation: u64,
    /// In which both ran.
    pub hidden_communication: u64,
}

/// Sweeps over `work`, which is put in order. `None` of nothing.
pub fn timeline(work: &mut [Interval], kernel_wait: u64) -> Option<Timeline> {
    work.sort_unstable_by_key(|it| it.start);
    let (first, last) = (work.first()?.start, work.iter().map(|it| it.end).max()?);
    let mut timeline = Timeline { span: last - first, ..Timeline::default() };
    timeline.idle = idle(work, kernel_wait);
    running(work, &mut timeline);
    Some(timeline)
}

/// What one device, or one of its queues, did.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Which trace.
    pub trace: usize,
    /// Which device.
    pub device: String,
    /// Which queue; `None` for all of the device together.
    pub queue: Option<String>,
    /// How many pieces of work.
    pub count: u64,
    /// In ticks of its trace.
    pub timeline: Timeline,
}

/// A row for each device, and after it one for each of its queues if it has
/// several.
pub fn usage(traces: &Traces, all: &DeviceWork, kernel_wait_ns: f64) -> Vec<Usage> {
    let mut category_of: HashMap<(u32, u8), Category> = HashMap::new();
    let mut rows = Vec::new();
    let mut add = |queue: Option<&Queue>, queues: Range<usize>| {
        let Queue { trace, device, .. } = &all.queues[queues.start];
        // A gap is a whole number of ticks: below the bound is below it rounded up.
        let ns_per_tick = traces.list[*trace].trace.clock().ns_per_tick();
        let kernel_wait = (kernel_wait_ns / ns_per_tick).ceil() as u64;
        let before = |queue: usize| all.work.partition_point(|it| (it.queue as usize) < queue);
        let work = &all.work[before(queues.start)..before(queues.end)];
        let interval = |work: &Work| Interval {
            start: work.start,
            end: work.end(),
            launch: work.launch,
            category: *category_of
                .entry((work.name, work.kind.0))
                .or_insert_with(|| classify(work.kind, &traces.names[work.name as usize]).category),
        };
        let mut intervals: Vec<Interval> = work.iter().map(interval).collect();
        rows.extend(timeline(&mut intervals, kernel_wait).map(|timeline| Usage {
            trace: *trace,
            device: device.clone(),
            queue: queue.map(|queue| queue.name.clone()),
            count: work.len() as u64,
            timeline,
        }));
    };
    let mut next = 0;
    for device in all.queues.chunk_by(|a, b| (a.trace, &a.device) == (b.trace, &b.device)) {
        let first = next;
        next += device.len();
        add(None, first..next);
        if device.len() > 1 {
            for (at, queue) in device.iter().enumerate() {
                add(Some(queue), first + at..first + at + 1);
            }
        }
    }
    rows
}

/// `work` by rising start.
fn idle(work: &[Interval], kernel_wait: u64) -> Idle {
    let mut idle = Idle::default();
    let mut dry_since = work.first().map_or(0, |it| it.start);
    for together in work.chunk_by(|a, b| a.start == b.start) {
        let start = together[0].start;
        if start > dry_since {
            let gap = start - dry_since;
            let launch = together.iter().filter_map(|it| it.launch).min();
            *match launch {
                Some(launch) if launch > dry_since => &mut idle.host_bound,
                Some(_) if gap < kernel_wait => &mut idle.kernel_wait,
                _ => &mut idle.other,
            } += gap;
        }
        dry_since = together.iter().map(|it| it.end).fold(dry_since, u64::max);
    }
    idle
}

fn running(work: &[Interval], timeline: &mut Timeline) {
    let edge = |tick: u64, change: i64, it: &Interval| (tick, change, it.category);
    let mut edges: Vec<(u64, i64, Category)> =
        work.iter().flat_map(|it| [edge(it.start, 1, it), edge(it.end, -1, it)]).collect();
    edges.sort_unstable_by_key(|edge| edge.0);
    let (mut all, mut communicating, mut computing) = (0, 0, 0);
    let mut since = 0;
    for (tick, change, category) in edges {
        let length = tick - since;
        since = tick;
        let add = |holds: bool, sum: &mut u64| *sum += if holds { length } else { 0 };
        add(all > 0, &mut timeline.busy);
        add(all > 1, &mut timeline.overlap);
        add(communicating > 0, &mut timeline.communication);
        add(computing > 0, &mut timeline.computation);
        add(communicating > 0 && computing > 0, &mut timeline.hidden_communication);
        all += change;
        match category {
            Category::Communication => communicating += change,
            Category::Computation => computing += change,
            Category::Memory => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(start: u64, end: u64, launch: Option<u64>) -> Interval {
        Interval { start, end, launch, category: Category::Computation }
    }

    fn idle_of(work: &[Interval]) -> (u64, u64, u64) {
        let idle = timeline(&mut work.to_vec(), 30).unwrap().idle;
        (idle.host_bound, idle.kernel_wait, idle.other)
    }

    #[test]
    fn the_launch_of_what_ends_a_gap_tells_its_cause() {
        let first = kernel(0, 100, Some(0));
        assert_eq!(idle_of(&[first, kernel(150, 200, Some(101))]), (50, 0, 0));
        assert_eq!(idle_of(&[first, kernel(129, 200, Some(100))]), (0, 29, 0));
        assert_eq!(idle_of(&[first, kernel(130, 200, Some(100))]), (0, 0, 30));
        assert_eq!(idle_of(&[first, kernel(110, 200, None)]), (0, 0, 10));
    }

    #[test]
    fn work_of_another_queue_ends_a_gap_too() {
        let long = kernel(0, 300, Some(0));
        assert_eq!(idle_of(&[long, kernel(10, 20, None), kernel(320, 400, Some(5))]), (0, 20, 0));
        let together = [kernel(0, 10, None), kernel(50, 60, Some(40)), kernel(50, 70, Some(5))];
        assert_eq!(idle_of(&together), (0, 0, 40));
    }

    #[test]
    fn work_that_takes_no_time_splits_a_gap_and_is_never_busy() {
        let work = [kernel(0, 10, None), kernel(50, 50, Some(30)), kernel(60, 60, Some(0))];
        assert_eq!(idle_of(&work), (40, 10, 0));
        let all = timeline(&mut work.to_vec(), 30).unwrap();
        assert_eq!((all.span, all.busy, all.overlap), (60, 10, 0));
        assert_eq!(timeline(&mut [], 30), None);
    }

    #[test]
    fn communication_is_hidden_where_computation_runs_beside_it() {
        let mut work = [
            Interval { category: Category::Communication, ..kernel(0, 100, None) },
            Interval { category: Category::Memory, ..kernel(0, 100, None) },
            kernel(90, 95, None),
            kernel(92, 130, None),
        ];
        let all = timeline(&mut work, 30).unwrap();
        assert_eq!((all.communication, all.computation, all.hidden_communication), (100, 40, 10));
        assert_eq!((all.busy, all.overlap, all.idle.total()), (130, 100, 0));
    }
}
