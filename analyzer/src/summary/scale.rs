//! One unit for the durations of all traces.

use crate::load::Traces;

/// Ticks of traces with different clocks are brought to one unit before they are
/// compared: a picosecond. A single clock's ticks stay as they are.
pub(crate) struct Scale {
    pub(crate) unit_ns: f64,
    per_tick: Vec<Option<f64>>,
}

impl Scale {
    pub(crate) fn of(traces: &Traces) -> Self {
        let ratios: Vec<f64> =
            traces.list.iter().map(|loaded| loaded.trace.clock().ns_per_tick()).collect();
        match ratios.split_first() {
            Some((first, rest)) if rest.iter().any(|ratio| ratio != first) => Self {
                unit_ns: 1e-3,
                per_tick: ratios.iter().map(|ratio| Some(ratio * 1e3)).collect(),
            },
            first => Self {
                unit_ns: first.map_or(1.0, |(first, _)| *first),
                per_tick: vec![None; ratios.len()],
            },
        }
    }

    /// Whether this trace's ticks stay as they are.
    pub(crate) fn keeps(&self, trace: usize) -> bool {
        self.per_tick[trace].is_none()
    }

    #[inline(always)]
    pub(crate) fn scale(&self, trace: usize, ticks: u64) -> u64 {
        match self.per_tick[trace] {
            None => ticks,
            Some(per_tick) => (ticks as f64 * per_tick).round() as u64,
        }
    }

    /// The same of a sum of ticks.
    pub(crate) fn scale_sum(&self, trace: usize, ticks: u128) -> u128 {
        match self.per_tick[trace] {
            None => ticks,
            Some(per_tick) => (ticks as f64 * per_tick).round() as u128,
        }
    }

    /// Bounds in nanoseconds as the least value above each.
    pub(crate) fn units(&self, bounds_ns: &[f64]) -> Vec<u64> {
        bounds_ns.iter().map(|ns| (ns / self.unit_ns).ceil() as u64).collect()
    }
}
