//! Exporters that are attached: each with a queue, a thread and its counts.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError},
    },
    thread::{self, ThreadId},
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
    /// Those that detached themselves and may not have come to their end yet.
    leaving: Mutex<Vec<Arc<Attached>>>,
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
    /// Its thread, once that runs.
    thread: OnceLock<ThreadId>,
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
    /// One that is fed to `queue` and says to `done` that it has ended.
    fn new(id: ExporterId, name: String, queue: Sender<Arc<Batch>>, done: Receiver<()>) -> Self {
        Self {
            id,
            name,
            queue: Mutex::new(Some(queue)),
            done: Mutex::new(done),
            thread: OnceLock::new(),
            queued_units: AtomicU64::new(0),
            fed: AtomicU64::new(0),
            exported: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            busy_since: AtomicU64::new(0),
            begun: Instant::now(),
            is_dropped: AtomicBool::new(false),
            dropped: Mutex::new(None),
        }
    }

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

    /// Whether it is the exporter itself that asks.
    fn is_this_thread(&self) -> bool {
        self.thread.get() == Some(&thread::current().id())
    }

    fn has_ended(&self) -> bool {
        lock(&self.done).try_recv() != Err(TryRecvError::Empty)
    }

    /// Ends it: what is queued is still taken, for [`END_AT_MOST`] since `asked`. Its own thread
    /// does not wait for itself.
    fn end(&self, asked: Instant) -> ExportReport {
        lock(&self.queue).take();
        let waits = !self.is_dropped.load(Ordering::Acquire) && !self.is_this_thread();
        let at_most = END_AT_MOST.saturating_sub(asked.elapsed());
        if waits && lock(&self.done).recv_timeout(at_most).is_err() {
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
        let name = guarded(|| exporter.name());
        let name = name.unwrap_or_else(|_| "exporter".to_owned());
        let attached = Arc::new(Attached::new(id, name, queue, done));
        let its = Arc::clone(&attached);
        let run = move || {
            let _ = its.thread.set(thread::current().id());
            last_words::panics_here_are_not_recorded();
            // Its own events are told apart, and never exported.
            ring_pool::attach_as(true);
            let mut decoder = Decoder::new(filter, ticks_per_second);
            let ran = guarded(|| export_all(&its, &batches, &mut exporter, &mut decoder));
            match ran {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    its.drop_because(text_of(&error));
                    let _ = guarded(|| drop(error));
                }
                Err(said) => its.drop_because(format!("panicked: {said}")),
            }
            let _ = guarded(|| drop(exporter));
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

    /// Whether it is this exporter that asks; `None` if it is not attached.
    pub(crate) fn is_called_by(&self, id: ExporterId) -> Option<bool> {
        let list = lock(&self.list);
        list.iter().find(|attached| attached.id == id).map(|attached| attached.is_this_thread())
    }

    pub(crate) fn detach(&self, id: ExporterId) -> Option<ExportReport> {
        let attached = {
            let mut list = lock(&self.list);
            let at = list.iter().position(|attached| attached.id == id)?;
            let attached = list.remove(at);
            self.watched.store(!list.is_empty(), Ordering::Relaxed);
            attached
        };
        let report = attached.end(Instant::now());
        if attached.is_this_thread() {
            self.leave(attached);
        } else {
            self.note(&attached);
        }
        Some(report)
    }

    /// What is to be noted of one that detached itself is known when it has ended.
    fn leave(&self, attached: Arc<Attached>) {
        let mut leaving = lock(&self.leaving);
        leaving.retain(|earlier| {
            let has_ended = earlier.has_ended();
            if has_ended {
                self.note(earlier);
            }
            !has_ended
        });
        leaving.push(attached);
    }

    pub(crate) fn report(&self, id: ExporterId) -> Option<ExportReport> {
        let list = lock(&self.list);
        list.iter().find(|attached| attached.id == id).map(|attached| attached.report())
    }

    /// Ends all of them. Returns the notes of the whole recording.
    pub(crate) fn end(&self) -> Vec<String> {
        let mut list = std::mem::take(&mut *lock(&self.list));
        list.append(&mut lock(&self.leaving));
        self.watched.store(false, Ordering::Relaxed);
        // All at once, so that they end beside each other, each with all of the time.
        list.iter().for_each(|attached| drop(lock(&attached.queue).take()));
        let asked = Instant::now();
        for attached in list {
            attached.end(asked);
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

/// Runs what is somebody else's. Of a panic nothing comes out but what it said.
fn guarded<T>(theirs: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(theirs)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let said = text.unwrap_or("(not a text)").to_owned();
        // What a panic carries may panic when it is dropped, and so may what that carries.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(another);
        }
        said
    })
}

fn text_of(error: &ExportError) -> String {
    let text = guarded(|| error.to_string());
    text.unwrap_or_else(|said| format!("failed, and panicked when asked why: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(units: u64) -> Arc<Batch> {
        let units = vec![bytemuck::Zeroable::zeroed(); units as usize];
        let (long_texts, open, homes) = (Vec::new(), Vec::new(), Default::default());
        let (track, name, is_reading, events) = (1, "main".into(), false, 1);
        Arc::new(Batch { track, name, is_reading, units, long_texts, open, homes, events })
    }

    /// One that has been at its first event since it began, and whether it stays attached when it
    /// is offered another after so long.
    fn stays(queued: u64, after: Duration) -> (bool, ExportReport) {
        let ((queue, _batches), (_tell, done)) = (mpsc::channel(), mpsc::channel());
        let attached = Attached::new(ExporterId(1), "blocks".to_owned(), queue, done);
        attached.busy_since.store(1, Ordering::Relaxed);
        assert!(attached.offer(&batch(queued), attached.begun));
        let stays = attached.offer(&batch(1), attached.begun + after);
        (stays, attached.report())
    }

    #[test]
    fn one_that_blocks_has_half_a_minute_while_there_is_room_in_its_queue() {
        let (room, second) = (MOST_UNITS - 1, Duration::from_secs(1));
        let (does, report) = stays(room, BLOCKED_WITH_ROOM_AFTER - second);
        assert_eq!((does, report.lost, report.dropped), (true, 0, None));
        let (does, report) = stays(room, BLOCKED_WITH_ROOM_AFTER + second);
        let why = report.dropped.as_deref();
        assert_eq!((does, report.lost, why), (false, 2, Some("blocked for more than 30s")));
    }

    #[test]
    fn one_that_blocks_with_a_full_queue_has_two_seconds() {
        let second = Duration::from_secs(1);
        let (does, report) = stays(MOST_UNITS, BLOCKED_AFTER - second);
        assert_eq!((does, report.lost, report.dropped), (true, 1, None));
        let (does, report) = stays(MOST_UNITS, BLOCKED_AFTER + second);
        let why = report.dropped.as_deref();
        assert_eq!((does, report.lost, why), (false, 2, Some("blocked for more than 2s")));
    }
}
