//! The peers' part of a `record` run. A peer that fails is left out by name
//! and ends nothing.

use anyhow::Result;

use super::figures::{PeerLoss, rounded};
use super::hot_path::Samples;
use super::long_run::LongRun;
use super::plan::{Run, progress, thread_counts};
use super::subject::Subject;
use super::task::{Measure, Overrun};
use crate::quantile::median;

/// One pass over all peers, on one thread and on two.
pub(crate) fn hot_path_round(run: &mut Run<'_>) {
    let budget_ms = run.amounts.peer_hot_path_ms;
    for subject in run.peers.clone() {
        for &threads in thread_counts(&mut run.figures) {
            let key = format!("peers_ns.{}.{threads}", subject.name());
            if !run.affords(&key, 2.0 * budget_ms as f64 / 1_000.0) {
                continue;
            }
            if let Err(error) = run.hot_path(subject, threads, budget_ms) {
                run.figures.omit(&key, format!("{error:#}"));
            }
        }
    }
}

/// Medians of the rounds, then CPU, bytes and cost of being off.
pub(crate) fn rest(run: &mut Run<'_>) {
    for subject in run.peers.clone() {
        progress(subject.name());
        for &threads in thread_counts(&mut run.figures) {
            let Some(pool) = run.pool(subject, threads) else { continue };
            let Some((span, floor)) = medians(pool) else { continue };
            let lost = pool.lost();
            let (name, threads) = (subject.name(), threads.to_string());
            let figures = &mut run.figures;
            let over = rounded(span / floor);
            figures.peers_ns.entry(name).or_default().insert(threads.clone(), rounded(span));
            figures.peers_over_floor.entry(name).or_default().insert(threads, over);
            if let Some(lost) = lost {
                *figures.peers_lost.entry(name).or_default() += lost;
            }
        }
        let steps: [(&str, Step); 3] =
            [("peers_cpu_ns", long_run), ("peers_off_ns", off), ("peers_loss", loss)];
        for (key, step) in steps {
            let key = format!("{key}.{}", subject.name());
            if run.affords(&key, 3.0)
                && let Err(error) = step(run, subject)
            {
                run.figures.omit(&key, format!("{error:#}"));
            }
        }
    }
}

type Step = fn(&mut Run<'_>, &'static dyn Subject) -> Result<()>;

fn medians(samples: &Samples) -> Option<(f64, f64)> {
    median(&samples.span).zip(median(&samples.floor))
}

fn long_run(run: &mut Run<'_>, subject: &'static dyn Subject) -> Result<()> {
    let spans = subject.long_run_spans() / run.amounts.long_run_divisor;
    let answer = run.ask_and_keep::<LongRun>(subject, Measure::LongRun { spans })?;
    let result = answer.result;
    let bytes = result.outcome.file_bytes.or_else(|| subject.file_bytes_after(answer.dir.path()));
    let (name, figures) = (subject.name(), &mut run.figures);
    figures.peers_cpu_ns.insert(name, rounded(result.cpu_ns_per_span));
    let over = result.cpu_ns_per_span / result.floor_ns;
    figures.peers_cpu_over_floor.insert(name, rounded(over));
    if let Some(bytes) = bytes {
        figures.peers_bytes_per_span.insert(name, rounded(bytes as f64 / result.spans as f64));
    }
    Ok(())
}

fn off(run: &mut Run<'_>, subject: &'static dyn Subject) -> Result<()> {
    if subject.has_off() {
        let samples: Vec<f64> = run.ask(subject, Measure::Off { budget_ms: 200 })?;
        let off = median(&samples).map(rounded);
        run.figures.peers_off_ns.extend(off.map(|ns| (subject.name(), ns)));
    }
    Ok(())
}

fn loss(run: &mut Run<'_>, subject: &'static dyn Subject) -> Result<()> {
    if let Some(how) = subject.loses()
        && let Some(Overrun { given, kept }) = run.ask(subject, Measure::Overrun)?
    {
        run.figures.peers_loss.insert(subject.name(), PeerLoss { given, kept, how });
    }
    Ok(())
}
