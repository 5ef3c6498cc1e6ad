//! What the fields of events say, summed up by name and key, whatever they are called:
//! kinds of the user's own and of later recorders as well as those of the vocabulary.
//!
//! Chunks are read in order and by one thread, so that sums of floating-point numbers
//! are the same in every run; chunks without slots are not read. What is held does not
//! grow with the number of events: there are bounds on names with keys and on distinct
//! values, and whatever is beyond them is counted and said.

mod values;

use std::{collections::HashMap, convert::Infallible};

use ringscope_format::{
    Batch, Columns, Kind, LinkRole, OwnedValue, Record, ValueType, parse_slots,
};

pub use self::values::{Common, Values};
use self::values::{Room, Word};
use crate::{
    device::is_device_work,
    filter::Sieve,
    load::{Loaded, Traces},
    scan::{Order, in_order},
};

/// Names with keys that are told apart.
const MOST_ROWS: usize = 10_000;

/// What is to be left out: what others show already.
/// Without a key it is about ids of requests.
pub type IsShown = fn(name: &str, kind: Kind, key: Option<&str>) -> bool;

/// The fields of one key of all events of one name and kind, of one sort of value.
#[derive(Debug)]
pub struct Row {
    /// Index into [`Traces::names`]; work of devices, which has many names and much the
    /// same fields, is together by kind.
    pub name: Option<u32>,
    /// What has the fields.
    pub kind: Kind,
    /// What the fields are called.
    pub key: Key,
    /// Their values.
    pub sum: Sum,
}

/// What a field is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// Index into [`Traces::names`].
    Name(u32),
    /// It is no field but the id of the request that an event serves.
    Request,
}

/// Values, summed up.
#[derive(Debug)]
pub enum Sum {
    /// Durations, in nanoseconds.
    Times(Numbers),
    /// Other numbers.
    Numbers(Numbers),
    /// Names, texts, truth values and ids.
    Words(Values),
}

/// Numbers, summed up. Those that are not finite are counted and in no figure.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// How many there are.
    pub count: u64,
    /// How many of them are infinite or not a number.
    pub not_finite: u64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// The whole ones together.
    whole: i128,
    /// The others together.
    rest: f64,
}

impl Default for Numbers {
    fn default() -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { count: 0, not_finite: 0, min, max, whole: 0, rest: 0.0 }
    }
}

impl Numbers {
    fn add(&mut self, value: f64) {
        self.count += 1;
        if value.is_finite() {
            self.rest += value;
            (self.min, self.max) = (self.min.min(value), self.max.max(value));
        } else {
            self.not_finite += 1;
        }
    }

    fn add_whole(&mut self, value: i128) {
        self.count += 1;
        // 2^64 events of 2^63 each are just in.
        self.whole = self.whole.saturating_add(value);
        let value = value as f64;
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
    }

    /// All of them together; `None` if none is finite.
    pub fn total(&self) -> Option<f64> {
        (self.count > self.not_finite).then_some(self.whole as f64 + self.rest)
    }

    /// Their mean; `None` if none is finite.
    pub fn mean(&self) -> Option<f64> {
        self.total().map(|total| total / (self.count - self.not_finite) as f64)
    }
}

impl Sum {
    /// How many values there are.
    pub fn count(&self) -> u64 {
        match self {
            Sum::Times(numbers) | Sum::Numbers(numbers) => numbers.count,
            Sum::Words(values) => values.count(),
        }
    }
}

/// The fields of all traces together.
#[derive(Debug, Default)]
pub struct Fields {
    /// In the order in which they were met.
    pub rows: Vec<Row>,
    /// Fields of names and keys beyond the bound, which are in no row.
    pub left_out: u64,
}

/// Sums up the fields of what passes the sieves, one for each trace.
pub fn sum_up(traces: &Traces, sieves: &[Sieve], is_shown: IsShown) -> Fields {
    if traces.list.iter().all(|loaded| loaded.trace.chunks().iter().all(|it| it.slots == 0)) {
        return Fields::default();
    }
    let mut columns = Columns::KIND | Columns::NAME | Columns::SHAPE | Columns::SLOTS;
    if !sieves.iter().all(Sieve::is_open) {
        columns = Columns::ALL;
    }
    let mut summing = Summing::new(traces, is_shown);
    let wants = |trace: usize, chunk: &ringscope_format::ChunkInfo| {
        chunk.slots > 0 && sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
    };
    let look = |trace: usize, _: usize, batch: &Batch| {
        let (loaded, sieve) = (&traces.list[trace], &sieves[trace]);
        for (at, slots) in batch.slot_ranges().enumerate() {
            if !slots.is_empty() && (sieve.is_open() || sieve.takes_record(batch, at)) {
                let slots = batch.slots.get(slots).unwrap_or_default();
                summing.event(trace, loaded, Kind(batch.kind[at]), batch.name[at], slots);
            }
        }
        Ok::<(), Infallible>(())
    };
    let Ok(()) = in_order(traces, columns, "reading fields", Order::Recorded, wants, look);
    summing.done
}

/// Sorts of values, which have rows of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Sort {
    Times,
    Numbers,
    Words,
}

/// Where the fields of a key of a name go.
#[derive(Clone, Copy)]
enum Place {
    Row(usize),
    /// Others show it.
    Nowhere,
    /// There are too many rows.
    LeftOut,
}

/// Kind, name and key as a trace has them, which trace, and the sort of the value.
type Which = (Kind, Option<u32>, Option<u32>, u32, Sort);

struct Summing<'a> {
    traces: &'a Traces,
    is_shown: IsShown,
    places: HashMap<Which, Place>,
    /// The same over all traces.
    rows: HashMap<(Option<u32>, Kind, Key, Sort), usize>,
    room: Room,
    done: Fields,
}

impl<'a> Summing<'a> {
    fn new(traces: &'a Traces, is_shown: IsShown) -> Self {
        let (places, rows) = (HashMap::new(), HashMap::new());
        Self { traces, is_shown, places, rows, room: Room::new(), done: Fields::default() }
    }

    fn event(&mut self, trace: usize, loaded: &Loaded, kind: Kind, name: u32, slots: &[Record]) {
        let name = (!is_device_work(kind)).then_some(name);
        for slot in slots.iter().filter(|slot| slot.kind == Kind::FIELDS) {
            let types = slot.status.0;
            let pairs =
                [(slot.name, types & 0x0F, slot.start), (slot.track, types >> 4, slot.value)];
            for (key, value_type, bits) in pairs {
                let value = ValueType::from_bits(value_type)
                    .and_then(|value_type| OwnedValue::from_bits(value_type, bits));
                if let Some(value) = value {
                    self.field(trace, loaded, (kind, name, key), value);
                }
            }
        }
        if slots.iter().all(|slot| slot.kind == Kind::FIELDS) {
            return;
        }
        let details = parse_slots(slots);
        for (key, value) in details.fields {
            if matches!(value, OwnedValue::Text { .. }) {
                self.field(trace, loaded, (kind, name, key), value);
            }
        }
        for link in details.links.iter().filter(|link| link.role == LinkRole::Request) {
            let which = (kind, name, None, trace as u32, Sort::Words);
            self.word(which, loaded, Word::Id(link.id));
        }
    }

    fn field(
        &mut self,
        trace: usize,
        loaded: &Loaded,
        (kind, name, key): (Kind, Option<u32>, u32),
        value: OwnedValue,
    ) {
        let which = |sort| (kind, name, Some(key), trace as u32, sort);
        match value {
            OwnedValue::Ticks(ticks) => {
                let ns = loaded.trace.clock().ns(ticks);
                self.number(which(Sort::Times), loaded, |numbers| numbers.add(ns));
            }
            OwnedValue::U64(n) => {
                self.number(which(Sort::Numbers), loaded, |it| it.add_whole(n.into()));
            }
            OwnedValue::I64(n) => {
                self.number(which(Sort::Numbers), loaded, |it| it.add_whole(n.into()));
            }
            OwnedValue::F64(n) => self.number(which(Sort::Numbers), loaded, |it| it.add(n)),
            OwnedValue::Bool(is) => self.word(which(Sort::Words), loaded, Word::Bool(is)),
            OwnedValue::Name(id) => {
                self.word(which(Sort::Words), loaded, Word::Name(loaded.name_index(id)));
            }
            OwnedValue::Text { text, cut } => {
                self.word(which(Sort::Words), loaded, Word::text(text, cut));
            }
        }
    }

    fn number(&mut self, which: Which, loaded: &Loaded, add: impl FnOnce(&mut Numbers)) {
        match self.row(which, loaded).map(|row| &mut row.sum) {
            Some(Sum::Times(numbers) | Sum::Numbers(numbers)) => add(numbers),
            Some(Sum::Words(_)) | None => {}
        }
    }

    fn word(&mut self, which: Which, loaded: &Loaded, word: Word) {
        let Place::Row(at) = self.place(which, loaded) else { return };
        if let Sum::Words(values) = &mut self.done.rows[at].sum {
            values.add(word, &mut self.room);
        }
    }

    fn row(&mut self, which: Which, loaded: &Loaded) -> Option<&mut Row> {
        match self.place(which, loaded) {
            Place::Row(at) => self.done.rows.get_mut(at),
            Place::Nowhere | Place::LeftOut => None,
        }
    }

    fn place(&mut self, which: Which, loaded: &Loaded) -> Place {
        let place = match self.places.get(&which) {
            Some(&place) => place,
            None => self.new_place(which, loaded),
        };
        self.done.left_out += u64::from(matches!(place, Place::LeftOut));
        place
    }

    fn new_place(&mut self, which: Which, loaded: &Loaded) -> Place {
        if self.places.len() >= MOST_ROWS {
            return Place::LeftOut;
        }
        let (kind, name, key, _, sort) = which;
        let name = name.map(|name| loaded.name_index(name));
        let key = key.map_or(Key::Request, |key| Key::Name(loaded.name_index(key)));
        let text = |name: u32| self.traces.names[name as usize].as_str();
        let key_text = if let Key::Name(key) = key { Some(text(key)) } else { None };
        let place = match (self.is_shown)(name.map_or("", text), kind, key_text) {
            true => Place::Nowhere,
            false => Place::Row(*self.rows.entry((name, kind, key, sort)).or_insert_with(|| {
                let sum = match sort {
                    Sort::Times => Sum::Times(Numbers::default()),
                    Sort::Numbers => Sum::Numbers(Numbers::default()),
                    Sort::Words => Sum::Words(Values::default()),
                };
                self.done.rows.push(Row { name, kind, key, sum });
                self.done.rows.len() - 1
            })),
        };
        self.places.insert(which, place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_finite_are_counted_and_in_no_figure() {
        let mut numbers = Numbers::default();
        numbers.add(f64::NAN);
        assert_eq!((numbers.total(), numbers.mean()), (None, None));
        numbers.add(f64::INFINITY);
        numbers.add_whole(-3);
        numbers.add(1.5);
        assert_eq!((numbers.count, numbers.not_finite), (4, 2));
        assert_eq!((numbers.min, numbers.max), (-3.0, 1.5));
        assert_eq!((numbers.total(), numbers.mean()), (Some(-1.5), Some(-0.75)));
    }

    #[test]
    fn whole_numbers_are_summed_exactly() {
        let mut numbers = Numbers::default();
        numbers.add_whole(u64::MAX.into());
        numbers.add_whole(1);
        numbers.add_whole(-i128::from(u64::MAX));
        assert_eq!(numbers.total(), Some(1.0));
    }
}
