//! Exporters that are attached: each with a queue, a thread and its counts.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    Batch, ExportError, ExportFilter, ExportReport, ExporterId, MetricExporter, Missed,
    decoding::Decoder,
};
use crate::{
    cold::shared::lock,
    hot::{call_site, ring_pool},
    last_words,
};

/// Records that may wait for one exporter: 4 MiB. One tick of one thread may be more.
const MOST_UNITS: u64 = 131_072;
/// An exporter that is at the same event for so long while its queue is full blocks.
const BLOCKED_AFTER: Duration = Duration::from_secs(2);
/// The same while there is room in its queue: it may wait for a network.
const BLOCKED_WITH_ROOM_AFTER: Duration = Duration::from_secs(30);
/// How long the end waits for an exporter to take what is queued.
const END_AT_MOST: Duration = Duration::from_secs(2);
/// How long a pause has to be for a flush.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest time without a flush.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// All exporters of a recording.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    /// Whether there are any: all that the drain asks if there are none.
    watched: AtomicBool,
    list: Mutex<Vec<Arc<Attached>>>,
    last_id: AtomicU64,
    /// About those that were dropped, or lost something.
    notes: Mutex<Vec<String>>,
}

/// One exporter, as everyone but its own thread sees it; its counts outlast it.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(super) id: ExporterId,
    name: String,
    /// `None` once it is to end, and then nothing is fed to it any more.
    queue: Mutex<Option<Sender<Arc<Batch>>>>,
    done: Mutex<Receiver<()>>,
    queued_units: AtomicU64,
    /// Events that were offered to it; changes under the queue's lock.
    fed: AtomicU64,
    exported: AtomicU64,
    filtered: AtomicU64,
    /// As long as it lives: those that found its queue full, or that it missed.
    lost: AtomicU64,
    /// When it began with the event it is at, in microseconds since `begun`; 0 if it waits.
    busy_since: AtomicU64,
    begun: Instant,
    is_dropped: AtomicBool,
    /// How it went until it was dropped; what its thread still comes to is not counted.
    dropped: Mutex<Option<ExportReport>>,
}

impl Attached {
    pub(crate) fn report(&self) -> ExportReport {
        let dropped = lock(&self.dropped).clone();
        dropped.unwrap_or_else(|| ExportReport {
            exported: self.exported.load(Ordering::Acquire),
            filtered: self.filtered.load(Ordering::Acquire),
            lost: self.lost.load(Ordering::Acquire),
            dropped: None,
        })
    }

    fn is_blocked_for(&self, limit: Duration, now: Instant) -> bool {
        let since = self.busy_since.load(Ordering::Relaxed);
        let elapsed = now.saturating_duration_since(self.begun);
        since != 0 && elapsed.saturating_sub(Duration::from_micros(since)) > limit
    }

    /// Drain only: queues a batch, or counts it as lost. Returns whether it is still attached.
    fn offer(&self, batch: &Arc<Batch>, now: Instant) -> bool {
        let queue = lock(&self.queue);
        let Some(sender) = queue.as_ref() else { return false };
        self.fed.fetch_add(batch.events, Ordering::Relaxed);
        let (queued, units) = (self.queued_units.load(Ordering::Acquire), batch.weight());
        let full = queued > 0 && queued + units > MOST_UNITS;
        let limit = if full { BLOCKED_AFTER } else { BLOCKED_WITH_ROOM_AFTER };
        let why = if self.is_blocked_for(limit, now) {
            format!("blocked for more than {limit:?}")
        } else if full {
            self.lost.fetch_add(batch.events, Ordering::Relaxed);
            return true;
        } else {
            self.queued_units.fetch_add(units, Ordering::AcqRel);
            if sender.send(Arc::clone(batch)).is_ok() {
                return true;
            }
            "its thread is gone".to_owned()
        };
        drop(queue);
        self.drop_because(why);
        false
    }

    /// Gives it up, for the first reason there is. All that it was fed and did not take is lost.
    fn drop_because(&self, why: String) {
        // Held, so that nothing is fed to it beside the counting.
        let mut queue = lock(&self.queue);
        queue.take();
        let mut dropped = lock(&self.dropped);
        if dropped.is_none() {
            self.is_dropped.store(true, Ordering::Release);
            let exported = self.exported.load(Ordering::Acquire);
            let filtered = self.filtered.load(Ordering::Acquire);
            let lost = self.fed.load(Ordering::Acquire).saturating_sub(exported + filtered);
            *dropped = Some(ExportReport { exported, filtered, lost, dropped: Some(why) });
        }
    }

    /// Ends it: what is queued is still taken, within a time.
    fn end(&self) -> ExportReport {
        lock(&self.queue).take();
        let is_dropped = self.is_dropped.load(Ordering::Acquire);
        if !is_dropped && lock(&self.done).recv_timeout(END_AT_MOST).is_err() {
            // A thread that ended without saying so has noted why.
            self.drop_because(format!("did not come to its end within {END_AT_MOST:?}"));
        }
        self.report()
    }

    /// For its own thread: fails once it was given up.
    fn goes_on(&self) -> Result<(), ExportError> {
        match self.is_dropped.load(Ordering::Acquire) {
            true => Err("was given up".into()),
            false => Ok(()),
        }
    }
}

impl Handlers {
    #[inline]
    pub(crate) fn are_watching(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Drain only: offers a batch to everyone. Never waits for any of them.
    pub(crate) fn send(&self, batch: Arc<Batch>, now: Instant) {
        let mut list = lock(&self.list);
        list.retain(|attached| {
            let stays = attached.offer(&batch, now);
            if !stays {
                self.note(attached);
            }
            stays
        });
        self.watched.store(!list.is_empty(), Ordering::Relaxed);
    }

    pub(crate) fn attach(
        &self,
        mut exporter: impl MetricExporter,
        filter: ExportFilter,
        ticks_per_second: u64,
    ) -> Arc<Attached> {
        let id = ExporterId(self.last_id.fetch_add(1, Ordering::Relaxed) + 1);
        let (queue, batches) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        let name = catch_unwind(AssertUnwindSafe(|| exporter.name()));
        let attached = Arc::new(Attached {
            id,
            name: name.unwrap_or_else(|_| "exporter".to_owned()),
            queue: Mutex::new(Some(queue)),
            done: Mutex::new(done),
            queued_units: AtomicU64::new(0),
            fed: AtomicU64::new(0),
            exported: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            busy_since: AtomicU64::new(0),
            begun: Instant::now(),
            is_dropped: AtomicBool::new(false),
            dropped: Mutex::new(None),
        });
        let its = Arc::clone(&attached);
        let run = move || {
            last_words::panics_here_are_not_recorded();
            // Its own events are told apart, and never exported.
            ring_pool::attach_as(true);
            let mut decoder = Decoder::new(filter, ticks_per_second);
            let ran = catch_unwind(AssertUnwindSafe(|| {
                export_all(&its, &batches, &mut exporter, &mut decoder)
            }));
            let why = match ran {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(panic) => Some(format!("panicked: {}", said(&*panic))),
            };
            if let Some(why) = why {
                its.drop_because(why);
            }
            // Dropping it may panic too.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(exporter)));
            its.busy_since.store(0, Ordering::Relaxed);
            let _ = tell.send(());
        };
        let thread = thread::Builder::new().name("ringscope-export".into()).spawn(run);
        if let Err(error) = thread {
            attached.drop_because(format!("has no thread: {error}"));
        }
        let mut list = lock(&self.list);
        list.push(Arc::clone(&attached));
        self.watched.store(true, Ordering::Relaxed);
        attached
    }

    pub(crate) fn detach(&self, id: ExporterId) -> Option<ExportReport> {
        let attached = {
            let mut list = lock(&self.list);
            let at = list.iter().position(|attached| attached.id == id)?;
            let attached = list.remove(at);
            self.watched.store(!list.is_empty(), Ordering::Relaxed);
            attached
        };
        let report = attached.end();
        self.note(&attached);
        Some(report)
    }

    pub(crate) fn report(&self, id: ExporterId) -> Option<ExportReport> {
        let list = lock(&self.list);
        list.iter().find(|attached| attached.id == id).map(|attached| attached.report())
    }

    /// Ends all of them. Returns the notes of the whole recording.
    pub(crate) fn end(&self) -> Vec<String> {
        let list = std::mem::take(&mut *lock(&self.list));
        self.watched.store(false, Ordering::Relaxed);
        // All at once, so that they end beside each other.
        list.iter().for_each(|attached| drop(lock(&attached.queue).take()));
        for attached in list {
            attached.end();
            self.note(&attached);
        }
        std::mem::take(&mut *lock(&self.notes))
    }

    fn note(&self, attached: &Attached) {
        let report = attached.report();
        let (name, lost) = (&attached.name, report.lost);
        let mut notes = lock(&self.notes);
        let counted = match report.dropped {
            Some(why) => {
                notes.push(format!("{name}: {why}; it was dropped"));
                format!("{name}: events lost: {lost}")
            }
            None => format!("{name}: too slow for {lost} events"),
        };
        if lost > 0 {
            notes.push(counted);
        }
    }
}

/// An exporter's thread: everything that is queued, until the queue is closed or it is given up.
fn export_all(
    its: &Attached,
    batches: &Receiver<Arc<Batch>>,
    exporter: &mut impl MetricExporter,
    decoder: &mut Decoder,
) -> Result<(), ExportError> {
    let busy = |yes: bool| {
        let since = if yes { its.begun.elapsed().as_micros().max(1) as u64 } else { 0 };
        its.busy_since.store(since, Ordering::Relaxed);
    };
    let mut flushed = Instant::now();
    let mut unflushed = false;
    loop {
        let batch = match batches.recv_timeout(PAUSE) {
            Ok(batch) => Some(batch),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                its.goes_on()?;
                busy(true);
                return exporter.end();
            }
        };
        // The child of a fork has no drain; its copy of this thread does not exist either.
        if call_site::is_forked() {
            return Ok(());
        }
        if let Some(batch) = &batch {
            // Counted one by one, since any of them may be the last.
            decoder.decode(batch, |event| {
                let Some(event) = event else {
                    its.filtered.fetch_add(1, Ordering::AcqRel);
                    return Ok(());
                };
                its.goes_on()?;
                busy(true);
                let count = match exporter.export(event) {
                    Ok(()) => &its.exported,
                    Err(error) if error.is::<Missed>() => &its.lost,
                    Err(error) => return Err(error),
                };
                count.fetch_add(1, Ordering::AcqRel);
                unflushed = true;
                Ok(())
            })?;
            its.queued_units.fetch_sub(batch.weight(), Ordering::AcqRel);
        }
        // Also without events: what works at an interval is woken by this.
        if (batch.is_none() && unflushed) || flushed.elapsed() >= FLUSH_EVERY {
            its.goes_on()?;
            busy(true);
            exporter.flush()?;
            (flushed, unflushed) = (Instant::now(), false);
        }
        busy(false);
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(not a text)")
}
