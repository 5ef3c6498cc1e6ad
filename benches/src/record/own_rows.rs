//! Ringscope's part of a `record` run. Here a failure ends the run: a report
//! without them would be about the peers.

use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::figures::rounded;
use super::long_run::{LongRun, VariedBytes};
use super::plan::{Run, progress, thread_counts};
use super::stalls::{Disturbance, Longest};
use super::subject::Subject;
use super::subjects;
use super::sustained::{self, PacedRun};
use super::task::{Measure, Task};
use crate::child;
use crate::process_cost::Resident;
use crate::quantile::median;

/// Spans under disturbance, as many as the goal names.
const STALL_SPANS: u64 = 10_000_000;
/// Beside one: enough to see what another recording thread adds.
const MANY_THREADS: usize = 4;

/// One pass over ringscope's hot path, on one thread and on two.
pub(crate) fn hot_path_round(run: &mut Run<'_>) -> Result<()> {
    let budget_ms = run.amounts.own_hot_path_ms;
    for &threads in thread_counts(&mut run.figures) {
        run.hot_path(subjects::RINGSCOPE, threads, budget_ms).context("hot path")?;
    }
    Ok(())
}

/// Medians of the rounds, then everything that is measured once.
pub(crate) fn rest(run: &mut Run<'_>) -> Result<()> {
    hot_path_medians(run)?;
    let steps: &[(&str, f64, Step)] = &[
        ("cpu_over_floor", 5.0, long_run),
        ("off_ns", 1.0, off),
        ("memory_mib", 8.0, memory),
        ("plugin_span_over_floor", 5.0, plugin),
        ("bytes_per_varied_span", 0.0, varied_bytes),
        ("sustained_spans_per_s", 0.0, sustained_rate),
        ("worst_span_over_unrecorded", 0.0, worst_span),
    ];
    for (key, seconds, step) in steps {
        progress(key);
        if run.affords(key, *seconds) {
            step(run).with_context(|| (*key).to_owned())?;
        }
    }
    Ok(())
}

type Step = fn(&mut Run<'_>) -> Result<()>;

fn hot_path_medians(run: &mut Run<'_>) -> Result<()> {
    let mut lost = 0;
    for &threads in thread_counts(&mut run.figures) {
        let pool = run.pool(subjects::RINGSCOPE, threads).context("no hot path was measured")?;
        let (floor, span) =
            median(&pool.floor).zip(median(&pool.span)).context("the hot path has no samples")?;
        let handle = median(&pool.handle);
        // A recorder that does not say what it lost cannot claim to have kept
        // everything.
        lost += pool.lost().context("ringscope did not say what it stored")?;
        let key = threads.to_string();
        let figures = &mut run.figures;
        figures.floor_ns.insert(key.clone(), rounded(floor));
        figures.span_ns.insert(key.clone(), rounded(span));
        figures.span_over_floor.insert(key.clone(), rounded(span / floor));
        if let Some(handle) = handle {
            figures.handle_ns.insert(key, rounded(handle));
            if threads == 1 {
                figures.handle_over_floor = Some(rounded(handle / floor));
            }
        }
    }
    run.figures.span_lost = Some(lost);
    Ok(())
}

fn long_run(run: &mut Run<'_>) -> Result<()> {
    let subject = subjects::RINGSCOPE;
    let spans = subject.long_run_spans() / run.amounts.long_run_divisor;
    let result: LongRun = run.ask(subject, Measure::LongRun { spans })?;
    let bytes = result.outcome.file_bytes.context("ringscope left no file")?;
    let figures = &mut run.figures;
    figures.cpu_ns = Some(rounded(result.cpu_ns_per_span));
    figures.cpu_over_floor = Some(rounded(result.cpu_ns_per_span / result.floor_ns));
    figures.cpu_lost = result.outcome.lost;
    figures.bytes_per_span = Some(rounded(bytes as f64 / result.spans as f64));
    Ok(())
}

fn varied_bytes(run: &mut Run<'_>) -> Result<()> {
    let Some(spans) = run.amounts.varied_spans else {
        run.figures.omit("bytes_per_varied_span", "left out of quick runs");
        return Ok(());
    };
    let varied: VariedBytes = run.ask(subjects::RINGSCOPE, Measure::VariedBytes { spans })?;
    run.figures.bytes_per_varied_span = varied.bytes_per_span.map(rounded);
    run.figures.varied_lost = Some(varied.lost.context("ringscope did not say what it stored")?);
    Ok(())
}

fn off(run: &mut Run<'_>) -> Result<()> {
    let ns = |subject: &dyn Subject| -> Result<Option<f64>> {
        let samples: Vec<f64> = run.ask(subject, Measure::Off { budget_ms: 300 })?;
        Ok(median(&samples).map(rounded))
    };
    let (off, empty) = (ns(subjects::RINGSCOPE)?, ns(subjects::UNRECORDED)?);
    run.figures.off_ns = off;
    run.figures.empty_loop_ns = empty;
    Ok(())
}

fn memory(run: &mut Run<'_>) -> Result<()> {
    if Resident::now().is_none() {
        for key in ["memory_mib", "mapped_mib"] {
            run.figures.omit(key, "this system does not tell anonymous from mapped memory");
        }
        return Ok(());
    }
    let over = |threads: usize, length_ms: u64| -> Result<(f64, f64)> {
        let with: Resident =
            run.ask(subjects::RINGSCOPE, Measure::Memory { threads, length_ms })?;
        let without: Resident =
            run.ask(subjects::UNRECORDED, Measure::Memory { threads, length_ms })?;
        let mib = |with: u64, without: u64| (with as f64 - without as f64) / 1_024.0;
        Ok((
            mib(with.anonymous_kib, without.anonymous_kib),
            mib(with.mapped_kib, without.mapped_kib),
        ))
    };
    let short_ms = run.amounts.memory_ms;
    let (one, mapped) = over(1, short_ms)?;
    let (many, _) = over(MANY_THREADS, short_ms)?;
    let growth = match run.amounts.memory_long_ms {
        Some(long_ms) => Some(over(1, long_ms)?.0 - one),
        None => None,
    };
    let figures = &mut run.figures;
    figures.memory_mib = Some(rounded(one));
    figures.mapped_mib = Some(rounded(mapped));
    figures.memory_mib_by_threads.insert("1".to_owned(), rounded(one));
    figures.memory_mib_by_threads.insert(MANY_THREADS.to_string(), rounded(many));
    figures.memory_growth_mib = growth.map(rounded);
    if growth.is_none() {
        figures.omit("memory_growth_mib", "left out of quick runs");
    }
    Ok(())
}

/// Lets a recorder idle in a process of its own, beside whatever comes next.
pub(crate) fn start_idle(run: &Run<'_>) -> JoinHandle<Result<f64>> {
    let measure = Measure::Idle { length_ms: run.amounts.idle_ms };
    let task = Task { subject: subjects::RINGSCOPE.name().to_owned(), measure };
    let scratch = run.scratch.to_owned();
    thread::spawn(move || {
        let task = crate::Task::Record(task);
        Ok(child::run(&task, &[], |_| Vec::new(), &scratch)?.result)
    })
}

/// Waits for the idling recorder.
pub(crate) fn end_idle(run: &mut Run<'_>, idle: JoinHandle<Result<f64>>) -> Result<()> {
    let percent = idle.join().map_err(|_| anyhow!("the thread that waited panicked"))?;
    run.figures.idle_core_percent = Some(rounded(percent.context("idle_core_percent")?));
    Ok(())
}

fn plugin(run: &mut Run<'_>) -> Result<()> {
    if let Err(error) = super::plugin::build() {
        run.figures.omit("plugin_span_over_floor", format!("{error:#}"));
        return Ok(());
    }
    let budget_ms = run.amounts.own_hot_path_ms;
    run.hot_path(subjects::PLUGIN, 1, budget_ms)?;
    let pool = run.pool(subjects::PLUGIN, 1).context("no samples")?;
    let floor = median(&pool.floor).context("no samples")?;
    let over = |samples: &[f64]| median(samples).map(|ns| rounded(ns / floor));
    let (span, handle) = (over(&pool.span), over(&pool.handle));
    let lost = pool.lost().context("the library did not say what it stored")?;
    run.figures.plugin_span_over_floor = span;
    run.figures.plugin_handle_over_floor = handle;
    run.figures.plugin_lost = Some(lost);
    Ok(())
}

fn sustained_rate(run: &mut Run<'_>) -> Result<()> {
    let Some((probe_s, confirm_s)) = run.amounts.sustained else {
        run.figures.omit("sustained_spans_per_s", "left out of quick runs");
        run.figures.omit("sustained_lost", "left out of quick runs");
        return Ok(());
    };
    let paced = |per_second: f64, seconds: f64| -> Result<PacedRun> {
        let measure = Measure::Sustained { per_second, seconds };
        let paced: PacedRun = run.ask(subjects::RINGSCOPE, measure)?;
        progress(&format!(
            "{} spans of {:.1} million/s in {seconds} s, reached {:.2}, lost {}",
            paced.spans,
            paced.wanted_per_s / 1e6,
            paced.reached_per_s / 1e6,
            paced.lost
        ));
        Ok(paced)
    };
    let best = sustained::search(|rate| paced(rate, probe_s), |rate| paced(rate, confirm_s))?;
    let figures = &mut run.figures;
    figures.sustained_spans_per_s =
        Some(best.as_ref().map_or(0.0, |run| run.reached_per_s.round()));
    figures.sustained_lost = Some(best.map_or(0, |run| run.lost));
    figures.sustained_s = Some(confirm_s);
    Ok(())
}

fn worst_span(run: &mut Run<'_>) -> Result<()> {
    let Some(repetitions) = run.amounts.stalls else {
        run.figures.omit("worst_span_over_unrecorded", "left out of quick runs");
        return Ok(());
    };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut lost = 0;
    for _ in 0..repetitions {
        for (subject, into) in
            [(subjects::UNRECORDED, &mut without), (subjects::RINGSCOPE, &mut with)]
        {
            let dir = tempfile::tempdir_in(run.scratch)?;
            let task = Task {
                subject: subjects::UNRECORDED.name().to_owned(),
                measure: Measure::Disturb { dir: dir.path().to_owned() },
            };
            let disturbance = Disturbance::start(child::command(
                &crate::Task::Record(task),
                &[],
                &dir.path().join("result.json"),
            )?)?;
            // Past the page cache's first appetite, so that writeback is on.
            thread::sleep(Duration::from_millis(500));
            let longest: Longest = run.ask(subject, Measure::Longest { spans: STALL_SPANS })?;
            drop(disturbance);
            progress(&format!(
                "{}: longest {:.0} us, tenth {:.0} us, lost {:?}",
                subject.name(),
                longest.first / 1e3,
                longest.tenth / 1e3,
                longest.lost
            ));
            into.push(longest.tenth);
            lost += longest.lost.unwrap_or(0);
        }
    }
    let (with, without) = median(&with).zip(median(&without)).context("no repetition was made")?;
    let figures = &mut run.figures;
    figures.worst_span_lost = Some(lost);
    figures.worst_span_ns = Some(with.round());
    figures.worst_unrecorded_ns = Some(without.round());
    figures.worst_span_over_unrecorded = Some(rounded(with / without));
    Ok(())
}
