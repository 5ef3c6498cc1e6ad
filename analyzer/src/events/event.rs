//! One event, with names and times in place of ids and ticks.

use std::{borrow::Cow, cell::OnceCell, rc::Rc};

use ringscope_format::{Batch, EventDetails, Kind, Record};

use super::{Told, is_failure, number_of_point, told};
use crate::load::{Loaded, Traces};

/// The key of a field, looked up once: none if no trace has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(Option<u32>);

impl Key {
    pub(crate) fn of(traces: &Traces, key: &str) -> Self {
        Self(traces.names.iter().position(|name| name == key).map(|at| at as u32))
    }

    /// The keys of a time: in ticks, and in nanoseconds.
    pub(crate) fn time(traces: &Traces, key: &str) -> [Self; 2] {
        [Self::of(traces, key), Self::of(traces, &format!("{key}_ns"))]
    }

    pub(crate) fn all<const N: usize>(traces: &Traces, keys: [&str; N]) -> [Self; N] {
        keys.map(|key| Self::of(traces, key))
    }
}

/// One event. What its fields say is taken apart when it is asked for.
pub(crate) struct Event<'a> {
    traces: &'a Traces,
    loaded: &'a Loaded,
    batch: &'a Batch,
    at: usize,
    slots: &'a [Record],
    details: OnceCell<Rc<EventDetails>>,
    /// Which trace.
    pub(crate) trace: usize,
    pub(crate) kind: Kind,
    /// Index into [`Traces::names`].
    pub(crate) name: u32,
}

impl<'a> Event<'a> {
    pub(super) fn new(
        traces: &'a Traces,
        trace: usize,
        batch: &'a Batch,
        at: usize,
        slots: &'a [Record],
    ) -> Self {
        let loaded = &traces.list[trace];
        Self {
            traces,
            loaded,
            batch,
            at,
            slots,
            details: OnceCell::new(),
            trace,
            kind: Kind(batch.kind[at]),
            name: loaded.name_index(batch.name[at]),
        }
    }

    pub(crate) fn name(&self) -> &'a str {
        &self.traces.names[self.name as usize]
    }

    /// Since the trace's first event, to the nanosecond.
    pub(crate) fn start_ns(&self) -> f64 {
        self.loaded.since_start_ns(self.batch.start[self.at]).round()
    }

    /// How long it took, of what takes time.
    pub(crate) fn dur_ns(&self) -> Option<f64> {
        let ticks = (self.batch.value[self.at] as i64).max(0) as u64;
        self.kind.is_timed().then(|| self.loaded.trace.clock().ns(ticks))
    }

    /// The number that it carries, of what happens at an instant.
    pub(crate) fn value(&self) -> Option<f64> {
        number_of_point(self.loaded, self.batch, self.at)
    }

    pub(crate) fn failed(&self) -> bool {
        is_failure(self.batch.status[self.at])
    }

    pub(crate) fn has_fields(&self) -> bool {
        !self.details().fields.is_empty() || !self.details().links.is_empty()
    }

    /// Everything that it carries.
    pub(crate) fn details(&self) -> &Rc<EventDetails> {
        self.details.get_or_init(|| match self.slots {
            [] => Rc::default(),
            slots => self.batch.details(slots).into(),
        })
    }

    fn fields(&self, Key(wanted): Key) -> impl Iterator<Item = Told<'_>> {
        let fields = wanted.map(|_| self.details().fields.iter());
        let is_it = move |key: u32| Some(self.loaded.name_index(key)) == wanted;
        let of_key = fields.into_iter().flatten().filter(move |(key, _)| is_it(*key));
        of_key.map(|(_, value)| told(value, self.loaded, self.traces))
    }

    /// The number of a field; if it has several of the key, the largest.
    pub(crate) fn number(&self, key: Key) -> Option<f64> {
        self.fields(key).filter_map(|field| field.number).reduce(f64::max)
    }

    /// The same of a time, which has another key if it is not in ticks.
    pub(crate) fn time(&self, [ticks, ns]: [Key; 2]) -> Option<f64> {
        self.number(ticks).into_iter().chain(self.number(ns)).reduce(f64::max)
    }

    /// The text of a field; if it has several of the key, the last by letters.
    pub(crate) fn text(&self, key: Key) -> Option<Cow<'_, str>> {
        self.fields(key).filter_map(|field| field.text).max()
    }

    /// The same, and if it is a number, the digits of that.
    pub(crate) fn label(&self, key: Key) -> Option<Cow<'_, str>> {
        self.fields(key).filter_map(Told::label).max()
    }
}
