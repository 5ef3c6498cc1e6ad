//! Work of devices against naive computations over the same records.

use proptest::prelude::*;
use ringscope_analyzer::{
    budget::Budget,
    device::{
        self,
        categories::{Category, classify},
        groups::{self, Apart, GroupBy},
        names::{base_name, gist},
        timeline::{Idle, Interval, Timeline, timeline, usage},
    },
    load::Traces,
};
use ringscope_format::Kind;
use tempfile::TempDir;

use crate::device_traces::Made;

/// Tick by tick.
fn naive(work: &[Interval], kernel_wait: u64) -> Option<Timeline> {
    let first = work.iter().map(|it| it.start).min()?;
    let last = work.iter().map(|it| it.end).max()?;
    let mut all = Timeline { span: last - first, idle: Idle::default(), ..Timeline::default() };
    for tick in first..last {
        let running = || work.iter().filter(move |it| it.start <= tick && tick < it.end);
        let any = |category| u64::from(running().any(|it| it.category == category));
        let (computes, communicates) = (any(Category::Computation), any(Category::Communication));
        all.computation += computes;
        all.communication += communicates;
        all.hidden_communication += computes * communicates;
        all.busy += u64::from(running().count() > 0);
        all.overlap += u64::from(running().count() > 1);
        if running().count() > 0 {
            continue;
        }
        let dry_since = work.iter().filter(|it| it.start <= tick).map(|it| it.end).max()?;
        let next = work.iter().filter(|it| it.start > tick).map(|it| it.start).min()?;
        let launches = work.iter().filter(|it| it.start == next).filter_map(|it| it.launch);
        match launches.min() {
            Some(launch) if launch > dry_since => all.idle.host_bound += 1,
            Some(_) if next - dry_since < kernel_wait => all.idle.kernel_wait += 1,
            _ => all.idle.other += 1,
        }
    }
    Some(all)
}

fn intervals() -> impl Strategy<Value = Vec<Interval>> {
    let one = (0_u64..120, 0_u64..12, prop::option::of(0_u64..120), 0..3_usize);
    let interval = |(start, length, launch, category): (u64, u64, Option<u64>, usize)| {
        let category = Category::ALL[category];
        Interval { start, end: start + length, launch, category }
    };
    prop::collection::vec(one.prop_map(interval), 0..14)
}

/// A kernel of a random trace: name, queue, start, duration, launch.
type Random = (usize, usize, u64, u64, Option<u64>);

const NAMES: [&str; 3] = ["gemm<1>(int)", "gemm<2>(int)", "nccl_all"];
const QUEUES: [&str; 3] = ["GPU 0 a", "GPU 0 b", "GPU 1 a"];

fn percentile(values: &mut [i64], percentile: f64) -> Option<f64> {
    values.sort_unstable();
    let at = percentile / 100.0 * values.len().checked_sub(1)? as f64;
    let (below, above) = (values[at.floor() as usize] as f64, values[at.ceil() as usize] as f64);
    Some(below + (above - below) * (at - at.floor()))
}

proptest! {
    #[test]
    fn the_sweep_agrees_with_counting_ticks(work in intervals(), kernel_wait in 0_u64..20) {
        prop_assert_eq!(timeline(&mut work.clone(), kernel_wait), naive(&work, kernel_wait));
    }

    #[test]
    fn any_text_is_a_name(name in "([a-z<>():, #{}é-]|operator|(anonymous namespace)::| const){0,12}|.*") {
        let base = base_name(&name);
        prop_assert!(base == name || base.len() <= name.len());
        let class = classify(Kind::KERNEL, &gist(&name));
        prop_assert!(!class.kind.is_empty());
    }

    #[test]
    fn groups_and_devices_are_those_of_the_records(
        kernels in prop::collection::vec(
            (0..3_usize, 0..3_usize, 0_u64..300, 0_u64..40, prop::option::of(0_u64..300)),
            1..40,
        )
    ) {
        check_records(&kernels)?;
    }
}

fn check_records(kernels: &[Random]) -> std::result::Result<(), TestCaseError> {
    let folder = TempDir::new().unwrap();
    let mut made = Made::new(&folder, "random.trace");
    for (at, &(name, queue, start, length, launch)) in kernels.iter().enumerate() {
        // A link without a launch is what a launch that was lost leaves behind.
        let link = at as u32 + 1;
        if let Some(launch) = launch {
            made.launch(launch, link);
        }
        made.kernel(NAMES[name], QUEUES[queue], (start, length), link);
    }
    let traces = Traces::open(&[made.finish()]).unwrap();
    let work = device::load(&traces, &[], Budget::new(None)).unwrap().unwrap();

    for (by, apart) in
        [(GroupBy::Name, None), (GroupBy::Base, None), (GroupBy::Name, Some(Apart::Device))]
    {
        let summed = groups::sum(&traces, &work, by, apart);
        let mut counted = 0;
        for group in &summed.groups {
            let label = |name: usize| match by {
                GroupBy::Base => NAMES[name].split('<').next().unwrap(),
                _ => NAMES[name],
            };
            let device = |queue: usize| &QUEUES[queue][4..5];
            let is_here = |queue: usize| {
                apart.is_none()
                    || group
                        .queues
                        .iter()
                        .all(|&it| work.queues[it as usize].device == device(queue))
            };
            let members =
                || kernels.iter().filter(|it| label(it.0) == group.label && is_here(it.1));
            let mut lengths: Vec<i64> = members().map(|it| it.3 as i64).collect();
            let mut delays: Vec<i64> =
                members().filter_map(|it| Some(it.2 as i64 - it.4? as i64)).collect();
            counted += lengths.len();
            prop_assert_eq!(group.durations.count, lengths.len() as u64);
            prop_assert_eq!(group.durations.total, lengths.iter().sum::<i64>() as u128);
            prop_assert_eq!(group.launched(), delays.len() as u64);
            for wanted in [0.0, 50.0, 95.0, 100.0] {
                prop_assert_eq!(group.percentile(wanted), percentile(&mut lengths, wanted));
                prop_assert_eq!(group.delay_percentile(wanted), percentile(&mut delays, wanted));
            }
        }
        prop_assert_eq!(counted, kernels.len());
        let others = groups::Group::together(&summed.groups, String::new());
        let mut all: Vec<i64> = kernels.iter().map(|it| it.3 as i64).collect();
        prop_assert_eq!(others.percentile(95.0), percentile(&mut all, 95.0));
    }

    for row in usage(&traces, &work, 30.0) {
        let is_in = |queue: usize| match &row.queue {
            Some(name) => QUEUES[queue] == name,
            None => QUEUES[queue][4..5] == row.device,
        };
        let of = |it: &Random| Interval {
            start: it.2,
            end: it.2 + it.3,
            launch: it.4,
            category: if it.0 == 2 { Category::Communication } else { Category::Computation },
        };
        let mine: Vec<Interval> = kernels.iter().filter(|it| is_in(it.1)).map(of).collect();
        prop_assert_eq!(row.count, mine.len() as u64);
        prop_assert_eq!(Some(row.timeline), naive(&mine, 30));
    }
    Ok(())
}
