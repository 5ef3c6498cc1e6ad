//! What the calling thread spends on a pass, by subject.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::subjects::{self, PASSES};
use crate::quantile::median;

/// Rounds that are not counted: pools fill, drivers warm up.
const WARM_UP: usize = 10;

/// Nanoseconds for a pass, by subject.
pub(super) type Costs = BTreeMap<&'static str, f64>;

pub(super) fn measure(device: &wgpu::Device, queue: &wgpu::Queue, rounds: usize) -> Result<Costs> {
    let mut subjects = subjects::all(device, queue)?;
    let mut samples: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for round in 0..WARM_UP + rounds {
        for subject in &mut subjects {
            let begun = Instant::now();
            subject.submit();
            let submitting = begun.elapsed();
            let timeout = Some(Duration::from_secs(60));
            device.poll(wgpu::PollType::Wait { submission_index: None, timeout })?;
            let begun = Instant::now();
            let timed = subject.read()?;
            let took = submitting + begun.elapsed();
            ensure!(timed == PASSES, "{}: {timed} of {PASSES} passes timed", subject.name());
            if round >= WARM_UP {
                let ns = took.as_nanos() as f64 / f64::from(PASSES);
                samples.entry(subject.name()).or_default().push(ns);
            }
        }
    }
    Ok(samples.iter().filter_map(|(name, samples)| Some((*name, median(samples)?))).collect())
}
