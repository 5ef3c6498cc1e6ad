//! What an exporter costs the thread that records: bursts of `span!` with one attached
//! and with none, in turns, in one process.
//!
//! An exporter is attached before a burst and detached after it, which waits until it has
//! seen everything, so nobody is timed while another exporter is still at work. The one that is
//! attached works while the burst runs, as it does in a program.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use ringscope::handlers::{ChannelExporter, ConsoleExporter, ExportFilter, JsonlExporter};
use ringscope::{Recorder, span};

use crate::record::hot_path::{BURST, let_others_finish};

/// What is attached; nothing comes first.
pub(crate) const NONE: &str = "none";
const VARIANTS: [&str; 4] = [NONE, "console", "jsonl", "channel"];
const WARM_UP_ROUNDS: usize = 2;
const LEAST_ROUNDS: usize = 7;
/// Events that may wait in the channel, whose receiver takes them as they come.
const CHANNEL: usize = 1_024;

/// Nanoseconds a span, one sample a burst, by what was attached.
pub(crate) fn measure(budget: Duration, dir: &Path) -> Result<BTreeMap<String, Vec<f64>>> {
    let recorder = Recorder::builder().path(dir.join("bench.trace")).start()?;
    let mut samples: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let begun = Instant::now();
    let mut round = 0;
    while round < WARM_UP_ROUNDS + LEAST_ROUNDS || begun.elapsed() < budget {
        for turn in 0..VARIANTS.len() {
            let variant = VARIANTS[(round + turn) % VARIANTS.len()];
            let ns = burst_with(&recorder, variant, dir)?;
            if round >= WARM_UP_ROUNDS {
                samples.entry(variant.to_owned()).or_default().push(ns);
            }
        }
        round += 1;
    }
    let summary = recorder.finish()?;
    anyhow::ensure!(summary.lost == 0, "{} spans were lost", summary.lost);
    Ok(samples)
}

fn burst_with(recorder: &Recorder, variant: &str, dir: &Path) -> Result<f64> {
    let all = ExportFilter::all();
    let attached = match variant {
        "console" => {
            let console = ConsoleExporter::to(File::create(dir.join("console"))?);
            Some(recorder.attach(console, all))
        }
        "jsonl" => Some(recorder.attach(JsonlExporter::create(dir.join("events.jsonl"))?, all)),
        "channel" => {
            let (channel, events) = ChannelExporter::new(CHANNEL);
            thread::spawn(move || events.iter().count()); // ends with the exporter
            Some(recorder.attach(channel, all))
        }
        _ => None,
    };
    recorder.flush();
    let_others_finish();
    let start = Instant::now();
    for _ in 0..BURST {
        let _span = span!("span");
    }
    let ns = start.elapsed().as_nanos() as f64 / f64::from(BURST);
    recorder.flush();
    if let Some(id) = attached {
        recorder.detach(id);
    }
    Ok(ns)
}
