//! What is known of one run: all that a decision takes, and small enough to be kept
//! instead of the trace.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{
    estimate::{Cell, Estimate, Series},
    ladder::{ladder, ladder_ranks},
};
use crate::summary::{cells::SAMPLES, thinned::Thinned};

/// What is compared of each name unasked, besides the mean. On a busy machine calls are
/// interrupted, which makes them longer and never shorter: the lower quartile is of calls
/// that were not, and is the steadiest of all. The median, which is what people look at,
/// comes first.
pub const USUAL_PERCENTILES: [f64; 4] = [50.0, 95.0, 99.0, 25.0];

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSummary {
    /// What tells it from others: its file's name.
    pub label: String,
    /// When it began, in nanoseconds since 1970, if that is known.
    pub begun_unix_ns: Option<i64>,
    /// From its first event to the end of its last.
    pub length_ns: f64,
    /// Events that could be read.
    pub events: u64,
    /// Events that were lost or could not be read.
    pub missing: u64,
    /// Whether parts are missing of which it is not known how much they held.
    pub missing_more: bool,
    /// Whether it ended in good order.
    pub finished: bool,
    /// What the recording says about machine and build.
    pub metadata: BTreeMap<String, String>,
    /// Which percentiles the names have.
    pub percentiles: Vec<f64>,
    /// Spans and work of devices by name, in order of kind and name.
    pub names: Vec<NameSummary>,
    /// Counters and gauges by name, in order.
    #[serde(default)]
    pub counters: Vec<CounterSummary>,
}

/// All calls of one name in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameSummary {
    /// As it is after folding.
    pub name: String,
    /// What ran.
    pub what: What,
    /// How many calls.
    pub count: u64,
    /// Their durations together.
    pub total_ns: f64,
    /// The same less what their children took.
    pub self_ns: f64,
    /// Mean duration.
    pub mean: Estimate,
    /// As many as the run has percentiles.
    pub quantiles: Vec<Estimate>,
}

/// All values of one counter or gauge in one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterSummary {
    /// Its name.
    pub name: String,
    /// How many values were recorded.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The largest.
    pub max: f64,
    /// Whether values add up, as a counter's do and a gauge's do not.
    pub adds_up: bool,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// A span, or anything with a duration that is no work of a device.
    Span,
    /// A kernel, a copy or a fill on a device.
    Device,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            What::Span => "span",
            What::Device => "device",
        })
    }
}

/// A figure of a name that is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// The mean.
    Mean,
    /// A percentile, in percent.
    Percentile(f64),
    /// All calls of a run together.
    Total,
    /// How many calls a run has.
    Count,
}

impl Metric {
    /// The share of calls that lie beyond it, for a percentile above the median.
    pub(super) fn tail(self) -> f64 {
        match self {
            Metric::Mean | Metric::Total | Metric::Count => 1.0,
            Metric::Percentile(percent) => (1.0 - percent / 100.0).min(percent / 100.0),
        }
    }

    /// Whether it is in the middle, and so takes fewer calls.
    pub(super) fn is_central(self) -> bool {
        self.tail() > 0.25
    }

    /// Whether it is about a call, and so compared unasked.
    pub(super) fn is_of_a_call(self) -> bool {
        !matches!(self, Metric::Total | Metric::Count)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::Mean => f.write_str("mean"),
            Metric::Percentile(percent) => write!(f, "p{percent}"),
            Metric::Total => f.write_str("total"),
            Metric::Count => f.write_str("count"),
        }
    }
}

impl RunSummary {
    /// The mean and all percentiles.
    pub fn metrics(&self) -> Vec<Metric> {
        let quantiles = self.percentiles.iter().map(|&percent| Metric::Percentile(percent));
        quantiles.chain([Metric::Mean]).collect()
    }

    /// The share of events that are known to be missing.
    pub fn missing_share(&self) -> f64 {
        self.missing as f64 / (self.events.saturating_add(self.missing) as f64).max(1.0)
    }
}

impl NameSummary {
    /// The figure, of which `at` is the index in [`RunSummary::metrics`] if it is there.
    pub fn estimate(&self, metric: Metric, at: usize) -> Option<Estimate> {
        match metric {
            Metric::Percentile(_) => self.quantiles.get(at).copied(),
            Metric::Mean => Some(self.mean),
            // The number of calls is known; what is not sure is what each takes.
            Metric::Total => Some(self.mean.scaled(self.count as f64)),
            Metric::Count => Some(Estimate::exactly(self.count as f64)),
        }
    }

    /// From durations in the order of the calls, which must not be none; none of
    /// them is anybody's child. As if read from a trace: intervals come from a part of
    /// the durations, if they are many.
    pub fn of_durations(name: &str, durations: &[f64], percentiles: &[f64]) -> Self {
        Self::of_thinned_durations(name, durations, percentiles, SAMPLES)
    }

    /// The same with intervals from up to twice as many durations as `most`.
    pub fn of_thinned_durations(
        name: &str,
        durations: &[f64],
        percentiles: &[f64],
        most: usize,
    ) -> Self {
        let mut thinned = Thinned::default();
        durations.iter().for_each(|&it| thinned.see(it, most));
        let stride = f64::from(thinned.stride);
        let mut samples: Vec<(f64, f64)> =
            thinned.kept.into_iter().map(|it| (it, stride)).collect();
        samples.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut sorted = durations.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        let at = |percent: f64| {
            let rank = (percent / 100.0).clamp(0.0, 1.0) * last as f64;
            let value = |rank: f64| sorted.get(rank as usize).copied().unwrap_or(0.0);
            let (low, high) = (value(rank.floor()), value(rank.ceil()));
            low + (high - low) * rank.fract()
        };
        let bounds: Vec<f64> = percentiles.iter().map(|&percent| at(percent)).collect();
        let exact: Vec<(f64, f64)> =
            percentiles.iter().copied().zip(bounds.iter().copied()).collect();
        let ladder = ladder(&ladder_ranks(percentiles), &samples, &exact);
        let length = durations.len().div_ceil(CELLS);
        let cell = |calls: &[f64]| Cell {
            count: calls.len() as u64,
            sum: calls.iter().sum(),
            below: bounds
                .iter()
                .map(|bound| calls.iter().filter(|call| *call <= bound).count() as u64)
                .collect(),
        };
        let cells: Vec<Cell> = durations.chunks(length.max(1)).map(cell).collect();
        let n = durations.len() as f64;
        let total: f64 = durations.iter().sum();
        let mean = total / n;
        let squares: f64 = durations.iter().map(|it| (it - mean).powi(2)).sum();
        let std = (squares / (n - 1.0).max(1.0)).sqrt();
        let series =
            Series { cells: &cells, count: durations.len() as u64, mean, std, ladder: &ladder };
        Self::of_series(name.to_owned(), What::Span, total, total, percentiles, &series)
    }

    pub(super) fn of_series(
        name: String,
        what: What,
        total_ns: f64,
        self_ns: f64,
        percentiles: &[f64],
        series: &Series<'_>,
    ) -> Self {
        let quantile = |(at, percent): (usize, &f64)| series.quantile(at, percent / 100.0);
        Self {
            name,
            what,
            count: series.count,
            total_ns,
            self_ns,
            mean: series.mean(),
            quantiles: percentiles.iter().enumerate().map(quantile).collect(),
        }
    }
}

/// Into how many cells the calls of a name are added up, at most twice as many.
pub(super) const CELLS: usize = 512;
