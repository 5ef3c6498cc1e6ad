//! From records to [`Event`]s: names for their numbers, time for ticks.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use ringscope_format::{
    ClockPair, Kind, LinkRole, LongTexts, OwnedValue, Record, Status, ValueType, parse_slots,
};

use super::{Began, Event, Field, feeding::Batch, filter::ExportFilter, paths::Enclosing};
use crate::{
    hot::{
        clock,
        homes::wanders,
        names::{self, Entry},
        queues,
    },
    vocabulary::CorrelationId,
};

/// What one exporter's thread knows of names, tracks and time.
#[derive(Debug)]
pub(super) struct Decoder {
    /// Texts by the numbers of names, and whether the filter takes them.
    names: Vec<(&'static str, bool)>,
    filter: ExportFilter,
    looked_at: u32,
    /// Names of queues, by track.
    queues: HashMap<u32, Arc<str>>,
    queues_known: u32,
    enclosing: Enclosing,
    places: Vec<usize>,
    /// Of the batch at hand.
    long_texts: LongTexts,
    first: ClockPair,
    now: ClockPair,
    nominal_ns_per_tick: f64,
    event: Event,
}

impl Decoder {
    pub(super) fn new(filter: ExportFilter, ticks_per_second: u64) -> Self {
        let first = clock::pair();
        Self {
            names: Vec::new(),
            filter,
            looked_at: 0,
            queues: HashMap::new(),
            queues_known: 0,
            enclosing: Enclosing::default(),
            places: Vec::new(),
            long_texts: LongTexts::default(),
            first,
            now: first,
            nominal_ns_per_tick: 1e9 / ticks_per_second.max(1) as f64,
            event: Event {
                name: "",
                kind: Kind::EVENT,
                status: Status::UNKNOWN,
                track: "".into(),
                track_id: 0,
                began_on: None,
                at: SystemTime::UNIX_EPOCH,
                duration: None,
                value: None,
                path: Vec::new(),
                fields: Vec::new(),
                request: None,
            },
        }
    }

    /// Hands every event to `take`, `None` for one that the filter leaves out, until that fails.
    pub(super) fn decode<E>(
        &mut self,
        batch: &Batch,
        mut take: impl FnMut(Option<&Event>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.look_at_new_names();
        self.long_texts.clear();
        self.long_texts.absorb(&batch.long_texts);
        self.now = clock::pair();
        let is_base = |(_, unit): &(usize, &Record)| unit.kind.is_base();
        self.places.clear();
        self.places.extend(batch.units.iter().enumerate().filter(is_base).map(|(at, _)| at));
        self.enclosing.read(&batch.units, &self.places, batch.track, &batch.open);
        for at in 0..self.places.len() {
            let place = self.places[at];
            let record = batch.units[place];
            let duration = record.duration().map(|ticks| self.time(ticks));
            let named = self.names.get(record.name as usize).is_none_or(|name| name.1);
            let (kind, status) = (record.kind, record.status);
            if !named || !self.filter.takes(kind, status, duration, batch.is_reading) {
                take(None)?;
                continue;
            }
            let end = self.places.get(at + 1).copied().unwrap_or(batch.units.len());
            self.fill(batch, &record, &batch.units[place + 1..end], duration, at);
            take(Some(&self.event))?;
        }
        Ok(())
    }

    fn fill(
        &mut self,
        batch: &Batch,
        record: &Record,
        slots: &[Record],
        duration: Option<Duration>,
        at: usize,
    ) {
        let mut details = parse_slots(slots);
        details.complete(&self.long_texts);
        let mut fields = std::mem::take(&mut self.event.fields);
        fields.clear();
        let given = details.fields.into_iter();
        fields.extend(given.map(|(key, value)| (self.name(key), self.field(value))));
        let mut path = std::mem::take(&mut self.event.path);
        path.clear();
        path.extend(self.enclosing.of(at).iter().map(|&id| self.name(id)));
        let number = match (record.kind.is_point(), record.value_type()) {
            (true, value_type) if value_type != ValueType::None => {
                OwnedValue::from_bits(value_type, record.value).map(|value| self.field(value))
            }
            _ => None,
        };
        let request = details.links.iter().find(|link| link.role == LinkRole::Request);
        let elsewhere = record.track != batch.track;
        let (track, track_id, began_on) = if !elsewhere {
            (Arc::clone(&batch.name), batch.track, None)
        } else if wanders(record.kind) {
            let home = batch.homes.get(&record.track).filter(|name| !name.is_empty());
            let began = |name| Began { track: Arc::clone(name), track_id: record.track };
            (Arc::clone(&batch.name), batch.track, home.map(began))
        } else {
            (self.queue(record.track), record.track, None)
        };
        self.event = Event {
            name: self.name(record.name),
            kind: record.kind,
            status: record.status,
            track,
            track_id,
            began_on,
            at: self.wall(record.start),
            duration,
            value: number,
            path,
            fields,
            request: request.map(|link| CorrelationId::from_u128(link.id)),
        };
    }

    fn field(&self, value: OwnedValue) -> Field {
        match value {
            OwnedValue::U64(n) => Field::U64(n),
            OwnedValue::I64(n) => Field::I64(n),
            OwnedValue::F64(n) => Field::F64(n),
            OwnedValue::Bool(is) => Field::Bool(is),
            OwnedValue::Name(id) => Field::Name(self.name(id)),
            OwnedValue::Ticks(ticks) => Field::Time(self.time(ticks)),
            // As `analyze` shows it.
            OwnedValue::Text { text, cut: true } => Field::Text(text + "…"),
            OwnedValue::Text { text, cut: false } => Field::Text(text),
        }
    }

    fn name(&self, id: u32) -> &'static str {
        self.names.get(id as usize).map_or("", |name| name.0)
    }

    fn queue(&mut self, track: u32) -> Arc<str> {
        if self.queues_known != queues::count() {
            self.queues_known = queues::count();
            let all = queues::all().into_iter();
            self.queues = all.map(|queue| (queue.track(), queue.name().into())).collect();
        }
        self.queues.get(&track).map_or_else(|| "".into(), Arc::clone)
    }

    fn look_at_new_names(&mut self) {
        if names::published() == self.looked_at {
            return;
        }
        let mut entries = Vec::new();
        names::copy_entries(self.looked_at, usize::MAX, &mut entries);
        self.looked_at += entries.len() as u32;
        for entry in entries {
            let Entry::Text { id, text } = entry else { continue };
            if self.names.len() <= id as usize {
                self.names.resize(id as usize + 1, ("", false));
            }
            self.names[id as usize] = (text, self.filter.takes_name(text));
        }
    }

    /// Measured as soon as that is better than the nominal frequency.
    fn ns_per_tick(&self) -> f64 {
        let ticks = self.now.tick_before.wrapping_sub(self.first.tick_before);
        let ns = self.now.mono_ns - self.first.mono_ns;
        if ns > 50_000_000 { ns as f64 / ticks.max(1) as f64 } else { self.nominal_ns_per_tick }
    }

    fn time(&self, ticks: u64) -> Duration {
        // Negative where the counter ran backwards.
        let ticks = (ticks as i64).max(0) as f64;
        Duration::from_nanos((ticks * self.ns_per_tick()).round() as u64)
    }

    fn wall(&self, tick: u64) -> SystemTime {
        let ago = self.now.tick_before.wrapping_sub(tick) as i64;
        let ns = self.now.wall_ns - (ago as f64 * self.ns_per_tick()) as i64;
        SystemTime::UNIX_EPOCH + Duration::from_nanos(ns.max(0) as u64)
    }
}
