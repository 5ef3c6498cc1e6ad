//! Events on their way out, one by one, with names and times in place of ids and ticks.

use ringscope_format::{
    Batch, Columns, EventDetails, Kind, OwnedValue, Record, Status, TrackKind, ValueType,
};

use crate::{
    Error, Result,
    filter::Sieve,
    load::{Loaded, Traces},
    report::Context,
    scan::{Order, in_order},
};

/// What is exported: traces, and what of them is in.
pub(super) struct Source<'a> {
    pub(super) context: &'a Context,
    /// By trace.
    times: Vec<Times>,
}

/// Ticks of one trace as nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    first_tick: u64,
    ns_per_tick: f64,
    /// The wall clock at the first event. All of a trace is told from there: a wall
    /// clock that is set meanwhile would tear spans apart.
    first_unix_ns: i64,
}

impl Times {
    fn of(loaded: &Loaded) -> Self {
        let clock = loaded.trace.clock();
        Self {
            first_tick: loaded.first_tick,
            ns_per_tick: clock.ns_per_tick(),
            first_unix_ns: clock.wall_ns(loaded.first_tick),
        }
    }

    /// Past what 64 bits hold, which only a broken clock gets to, it is the most they do.
    fn ns(&self, tick: u64) -> i64 {
        let ticks = i128::from(tick) - i128::from(self.first_tick);
        // A tick that is a nanosecond stays exact however large it is.
        if self.ns_per_tick == 1.0 {
            ticks.clamp(i64::MIN.into(), i64::MAX.into()) as i64
        } else {
            (ticks as f64 * self.ns_per_tick).round() as i64
        }
    }
}

/// One event.
pub(super) struct Event<'a> {
    source: &'a Source<'a>,
    pub(super) trace: usize,
    /// Unlike that of any other event of its recording.
    pub(super) number: u64,
    pub(super) record: Record,
    slots: &'a [Record],
    batch: &'a Batch,
    /// Since the trace's first event.
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
}

/// A span that was open at the end.
#[derive(Clone, Debug)]
pub(super) struct StillOpen {
    pub(super) trace: usize,
    pub(super) track: u32,
    pub(super) name: u32,
    /// `None` of an asynchronous one, which is in no stack.
    pub(super) depth: Option<u32>,
    pub(super) start: u64,
    /// Since the trace's first event; negative if it began before that.
    pub(super) start_ns: i64,
    /// When it was last known to be open.
    pub(super) seen_ns: i64,
}

/// Chunks have no more events than this; see the limits of the format.
const EVENTS_IN_A_CHUNK: u64 = 1 << 20;

impl<'a> Source<'a> {
    pub(super) fn new(context: &'a Context) -> Self {
        Self { context, times: context.traces.list.iter().map(Times::of).collect() }
    }

    pub(super) fn traces(&self) -> &'a Traces {
        &self.context.traces
    }

    pub(super) fn sieve(&self, trace: usize) -> &'a Sieve {
        &self.context.sieves[trace]
    }

    /// Shows every event that is in, of one trace after the other.
    pub(super) fn each(
        &self,
        order: Order,
        mut show: impl FnMut(&Event<'_>) -> Result<()>,
    ) -> Result<()> {
        let sieves = &self.context.sieves;
        let wants = |trace: usize, chunk: &ringscope_format::ChunkInfo| {
            sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
        };
        let columns = Columns::ALL | Columns::LONG_TEXTS;
        in_order(self.traces(), columns, "exporting", order, wants, |trace, at, batch| {
            let sequence = self.traces().list[trace].trace.chunks()[at].sequence;
            let sieve = &sieves[trace];
            let mut show = |at: usize, record: Record, slots: &[Record]| {
                if !sieve.is_open() && !sieve.takes_record(batch, at) {
                    return Ok(());
                }
                let number = sequence.wrapping_mul(EVENTS_IN_A_CHUNK).wrapping_add(at as u64);
                let (start_ns, end_ns) =
                    (self.ns(trace, record.start), self.ns(trace, record.end()));
                show(&Event { source: self, trace, number, record, slots, batch, start_ns, end_ns })
            };
            match order {
                Order::Recorded => batch
                    .records()
                    .enumerate()
                    .try_for_each(|(at, (record, slots))| show(at, record, slots)),
                Order::LastFirst => {
                    let all: Vec<(Record, &[Record])> = batch.records().collect();
                    let mut each = all.into_iter().enumerate().rev();
                    each.try_for_each(|(at, (record, slots))| show(at, record, slots))
                }
            }
        })
    }

    /// Spans that were open at the end, outermost first. They have no duration, so
    /// they are not asked about it.
    pub(super) fn still_open(&self) -> Result<Vec<StillOpen>> {
        let mut all = Vec::new();
        for (trace, loaded) in self.traces().list.iter().enumerate() {
            let sieve = self.sieve(trace);
            let stacks =
                loaded.trace.in_flight().map_err(|error| Error::of(&loaded.path, error))?;
            let written = loaded.trace.vitals().map_or(0, |vitals| vitals.tick);
            let seen = self.ns(trace, loaded.last_tick.max(written));
            for stack in stacks {
                for (depth, span) in stack.spans.iter().enumerate() {
                    if !sieve.takes_open(span) {
                        continue;
                    }
                    let start_ns = self.ns(trace, span.start);
                    all.push(StillOpen {
                        trace,
                        track: span.track,
                        name: span.name,
                        depth: (stack.track != 0).then_some(depth as u32),
                        start: span.start,
                        start_ns,
                        seen_ns: seen.max(start_ns),
                    });
                }
            }
        }
        Ok(all)
    }

    /// Nanoseconds since the trace's first event.
    pub(super) fn ns(&self, trace: usize, tick: u64) -> i64 {
        self.times[trace].ns(tick)
    }

    /// Nanoseconds since the Unix epoch of a time since the first event.
    pub(super) fn unix_ns(&self, trace: usize, ns: i64) -> i64 {
        self.times[trace].first_unix_ns.saturating_add(ns)
    }

    /// How many nanoseconds to add to the times of each trace, so that all are on one
    /// line of time and none is negative.
    pub(super) fn offsets(&self, open: &[StillOpen]) -> Vec<i64> {
        let has_events = |trace: &usize| self.traces().list[*trace].events > 0;
        let begun = (0..self.times.len()).filter(has_events).map(|it| self.unix_ns(it, 0));
        let opened = open.iter().map(|it| self.unix_ns(it.trace, it.start_ns));
        let first = begun.chain(opened).min().unwrap_or(0);
        (0..self.times.len()).map(|it| self.unix_ns(it, 0).saturating_sub(first)).collect()
    }

    pub(super) fn name(&self, trace: usize, id: u32) -> &'a str {
        let traces = self.traces();
        &traces.names[traces.list[trace].name_index(id) as usize]
    }

    pub(super) fn track(&self, trace: usize, id: u32) -> String {
        self.traces().list[trace].track_name(id)
    }

    /// As far as reports tell kinds apart.
    pub(super) fn track_kind(&self, trace: usize, id: u32) -> TrackKind {
        match self.traces().list[trace].tracks.get(&id) {
            Some(label) if label.is_recorder => TrackKind::Recorder,
            Some(label) if label.is_queue => TrackKind::GpuQueue,
            _ => TrackKind::Thread,
        }
    }

    /// A process id for each trace, unlike that of the others.
    pub(super) fn process_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = Vec::new();
        for loaded in &self.traces().list {
            // Process ids are signed where they go.
            let own = loaded.trace.header().pid & 0x7FFF_FFFF;
            let free = (1..).find(|id| !ids.contains(id)).unwrap_or(1);
            ids.push(if own == 0 || ids.contains(&own) { free } else { own });
        }
        ids
    }

    /// What a duration in ticks is in nanoseconds.
    pub(super) fn length_ns(&self, trace: usize, ticks: u64) -> f64 {
        ticks as f64 * self.times[trace].ns_per_tick
    }
}

impl Event<'_> {
    pub(super) fn name(&self) -> &str {
        self.source.name(self.trace, self.record.name)
    }

    pub(super) fn track(&self) -> String {
        self.source.track(self.trace, self.record.track)
    }

    pub(super) fn details(&self) -> EventDetails {
        if self.slots.is_empty() { EventDetails::default() } else { self.batch.details(self.slots) }
    }

    /// How long it took, of what takes time.
    pub(super) fn dur_ns(&self) -> Option<i64> {
        self.record.kind.is_timed().then(|| self.end_ns.saturating_sub(self.start_ns))
    }

    pub(super) fn unix_ns(&self) -> i64 {
        self.source.unix_ns(self.trace, self.start_ns)
    }

    /// The number that a point carries.
    pub(super) fn value(&self) -> Option<OwnedValue> {
        let value_type = self.record.value_type();
        let is_point = self.record.kind.is_point() && value_type != ValueType::None;
        is_point.then(|| OwnedValue::from_bits(value_type, self.record.value)).flatten()
    }

    pub(super) fn kind(&self) -> String {
        kind_text(self.record.kind)
    }

    pub(super) fn status(&self) -> String {
        format!("{:?}", self.record.status)
    }

    pub(super) fn failed(&self) -> bool {
        self.record.status.0 & 0x0F == Status::ERROR.0 || self.record.kind == Kind::ERROR
    }
}

impl StillOpen {
    pub(super) fn kind(&self) -> String {
        kind_text(if self.depth.is_some() { Kind::SPAN } else { Kind::ASYNC_SPAN })
    }
}

pub(super) fn kind_text(kind: Kind) -> String {
    format!("{kind:?}")
}

/// What a track is, as its column has it.
pub(super) fn track_kind_text(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Thread => "thread",
        TrackKind::GpuQueue => "queue",
        TrackKind::Recorder => "recorder",
        _ => "other",
    }
}
