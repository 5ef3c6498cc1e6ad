//! The figures, for machines and for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::{host::Costs, throughput::Rounds};
use crate::machine::{Machine, crate_version};
use crate::quantile::median;

/// What a profiled pass may cost the calling thread, over one with bare timestamps.
const MOST_OVER_BARE: f64 = 1.5;

#[derive(Serialize)]
pub(crate) struct Figures {
    machine: Machine,
    quick: bool,
    adapter: String,
    wgpu: Option<&'static str>,
    wgpu_profiler: Option<&'static str>,
    /// Of the calling thread, over a pass with bare timestamps.
    host_cost_over_bare: Option<f64>,
    wgpu_profiler_over_bare: Option<f64>,
    /// Of the calling thread for a pass, all in all.
    host_ns: BTreeMap<&'static str, f64>,
    throughput_lost_percent: Option<f64>,
    /// Of a kernel in that comparison, without the profiler.
    kernel_us: Option<f64>,
    lost: u64,
    omitted: Vec<String>,
}

fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

impl Figures {
    pub(super) fn new(machine: Machine, quick: bool, adapter: &wgpu::AdapterInfo) -> Self {
        Figures {
            machine,
            quick,
            adapter: format!("{} ({:?}, {})", adapter.name, adapter.backend, adapter.driver_info),
            wgpu: crate_version("wgpu"),
            wgpu_profiler: crate_version("wgpu-profiler"),
            host_cost_over_bare: None,
            wgpu_profiler_over_bare: None,
            host_ns: BTreeMap::new(),
            throughput_lost_percent: None,
            kernel_us: None,
            lost: 0,
            omitted: Vec::new(),
        }
    }

    pub(super) fn host(&mut self, costs: &Costs) {
        let over_bare = |name: &str| Some(rounded(costs.get(name)? / costs.get("bare")?));
        self.host_cost_over_bare = over_bare("ringscope");
        self.wgpu_profiler_over_bare = over_bare("wgpu-profiler");
        if self.wgpu_profiler_over_bare.is_none() {
            self.omitted.push("wgpu_profiler_over_bare: built without peers".to_owned());
        }
        self.host_ns = costs.iter().map(|(name, ns)| (*name, rounded(*ns))).collect();
    }

    pub(super) fn device(&mut self, rounds: &Rounds) {
        let lost: Vec<f64> =
            rounds.pairs.iter().map(|(with, without)| (1.0 - without / with) * 100.0).collect();
        let without: Vec<f64> = rounds.pairs.iter().map(|pair| pair.1).collect();
        self.throughput_lost_percent = median(&lost).map(rounded);
        self.kernel_us = median(&without).map(|it| rounded(it * 1e6 / rounds.kernels as f64));
    }

    pub(super) fn lost(&mut self, events: u64) {
        self.lost = events;
    }

    /// What a figure takes for granted and was not so.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let lost = (self.lost > 0).then(|| format!("{} events were lost", self.lost));
        let cost = self.host_cost_over_bare.filter(|&cost| cost > MOST_OVER_BARE);
        let cost = cost.map(|cost| {
            format!("a pass costs {cost} times one with bare timestamps, past {MOST_OVER_BARE}")
        });
        lost.into_iter().chain(cost).collect()
    }
}

/// The figures for people.
pub(crate) fn table(figures: &Figures) -> String {
    let mut text = figures.machine.heading();
    let say = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
    let _ = writeln!(text, "{}\n", figures.adapter);
    let _ = writeln!(text, "on the host, a pass:");
    for (name, ns) in &figures.host_ns {
        let _ = writeln!(text, "  {name:<14} {ns:>8.0} ns");
    }
    let _ = writeln!(text, "over bare timestamps:");
    let _ = writeln!(text, "  ringscope      {}", say(figures.host_cost_over_bare));
    let _ = writeln!(text, "  wgpu-profiler  {}", say(figures.wgpu_profiler_over_bare));
    let _ = writeln!(
        text,
        "throughput lost to profiling, with kernels of {} us: {} %",
        say(figures.kernel_us),
        say(figures.throughput_lost_percent)
    );
    text
}
