//! What an exporter costs the thread that records while the exporter is at work.
//!
//! One thread records small bursts of `span!`, each timed, at a steady pace: slow enough that
//! an exporter keeps up, and for long enough that the drain hands it events all the time. Such a block
//! with an exporter attached and one with none are a pair, each first in turn. An exporter is
//! detached after its block, which waits until it has seen everything, so none is at work in
//! the blocks of others; and a block in which it had not taken most of the events before the last
//! burst was timed is no measurement.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ringscope::handlers::{
    ChannelExporter, ConsoleExporter, ExportFilter, ExporterId, JsonlExporter,
};
use ringscope::{Recorder, span};

use crate::record::hot_path::let_others_finish;

const EXPORTERS: [&str; 3] = ["console", "jsonl", "channel"];
/// Spans that are timed together: 3 us.
const BURST: u32 = 128;
/// From one burst to the next; half a million spans a second.
const PACE: Duration = Duration::from_micros(250);
/// Bursts before the first that counts: the drain wakes up, and the exporter begins.
const WARM_UP_BURSTS: u32 = 40;
const BURSTS: u32 = 200;
const WARM_UP_ROUNDS: usize = 1;
const LEAST_ROUNDS: usize = 7;
/// Events that may wait in the channel, whose receiver takes them as they come.
const CHANNEL: usize = 1_024;

/// Nanoseconds a span, with none attached and with one, a pair of blocks each, by exporter.
pub(crate) type Pairs = BTreeMap<String, Vec<[f64; 2]>>;

pub(crate) fn measure(budget: Duration, dir: &Path) -> Result<Pairs> {
    let recorder = Recorder::builder().path(dir.join("bench.trace")).start()?;
    let mut pairs = Pairs::new();
    let begun = Instant::now();
    let mut round = 0;
    while round < WARM_UP_ROUNDS + LEAST_ROUNDS || begun.elapsed() < budget {
        for exporter in EXPORTERS {
            let mut pair = [0.0; 2];
            for turn in [round % 2, 1 - round % 2] {
                pair[turn] = block(&recorder, (turn == 1).then_some(exporter), dir)?;
            }
            if round >= WARM_UP_ROUNDS {
                pairs.entry(exporter.to_owned()).or_default().push(pair);
            }
        }
        round += 1;
    }
    let summary = recorder.finish()?;
    ensure!(summary.lost == 0, "{} spans were lost", summary.lost);
    Ok(pairs)
}

/// Nanoseconds a span in one block.
fn block(recorder: &Recorder, exporter: Option<&str>, dir: &Path) -> Result<f64> {
    let attached = exporter.map(|exporter| attach(recorder, exporter, dir)).transpose()?;
    recorder.flush();
    let_others_finish();
    let mut samples = Vec::with_capacity(BURSTS as usize);
    let mut next = Instant::now();
    for burst in 0..WARM_UP_BURSTS + BURSTS {
        while Instant::now() < next {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        for _ in 0..BURST {
            let _span = span!("span");
        }
        let took = start.elapsed();
        // Late ones do not catch up: the pace is what the exporter can follow.
        next = start + PACE;
        if burst >= WARM_UP_BURSTS {
            samples.push(took.as_nanos() as f64 / f64::from(BURST));
        }
    }
    if let Some((id, exporter)) = attached.zip(exporter) {
        // Before anybody waits for it: what it has taken, it took while bursts were timed.
        let taken = recorder.export_report(id).map_or(0, |report| report.exported);
        let all = u64::from(BURST * (WARM_UP_BURSTS + BURSTS));
        ensure!(taken > all / 2, "{exporter} took {taken} of {all} events while they were timed");
        recorder.detach(id);
    }
    recorder.flush();
    Ok(mean_of_most(samples))
}

/// The mean without the longest twentieth. In those the system had something else for this
/// core to do; a median would also hide what an exporter costs now and then.
fn mean_of_most(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let most = &samples[..samples.len() * 19 / 20];
    most.iter().sum::<f64>() / most.len() as f64
}

fn attach(recorder: &Recorder, exporter: &str, dir: &Path) -> Result<ExporterId> {
    let all = ExportFilter::all();
    Ok(match exporter {
        "console" => {
            let console = ConsoleExporter::to(File::create(dir.join("console"))?);
            recorder.attach(console, all)
        }
        "jsonl" => recorder.attach(JsonlExporter::create(dir.join("events.jsonl"))?, all),
        _ => {
            let (channel, events) = ChannelExporter::new(CHANNEL);
            thread::spawn(move || events.iter().count()); // ends with the exporter
            recorder.attach(channel, all)
        }
    })
}
