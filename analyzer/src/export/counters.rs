//! What counters stand at, worked out backwards.
//!
//! A counter's record says by how much it grew; viewers want to know what it came to.
//! Events are exported last first, so the totals are found in a look ahead, and each
//! record is then taken off again. Each track has its own total: only along one track
//! are records in order of time. Whole numbers stay exact.

use std::collections::{HashMap, HashSet};

use ringscope_format::{Columns, Kind, OwnedValue, ValueType};

use super::events::{Event, Source};
use crate::scan::{Order, in_order};

/// A sum of whole and other numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    whole: i128,
    other: f64,
}

/// A number as a viewer takes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading {
    Whole(i64),
    Other(f64),
}

impl Sum {
    fn of(value: &OwnedValue, source: &Source<'_>, trace: usize) -> Option<Self> {
        let whole = |whole: i128| Some(Self { whole, other: 0.0 });
        match *value {
            OwnedValue::U64(n) => whole(n.into()),
            OwnedValue::I64(n) => whole(n.into()),
            OwnedValue::Bool(is) => whole(is.into()),
            OwnedValue::F64(other) => other.is_finite().then_some(Self { whole: 0, other }),
            OwnedValue::Ticks(ticks) => {
                Some(Self { whole: 0, other: source.length_ns(trace, ticks) })
            }
            OwnedValue::Name(_) | OwnedValue::Text { .. } => None,
        }
    }

    fn reading(self) -> Reading {
        match i64::try_from(self.whole) {
            Ok(whole) if self.other == 0.0 => Reading::Whole(whole),
            _ => Reading::Other(self.whole as f64 + self.other),
        }
    }
}

/// Totals by trace, name and track.
pub(super) struct Counters {
    left: HashMap<(usize, u32, u32), Sum>,
    /// By trace and name: on more than one track.
    shared: HashSet<(usize, u32)>,
}

impl Counters {
    /// Looks ahead.
    pub(super) fn of(source: &Source<'_>) -> Self {
        let mut left: HashMap<(usize, u32, u32), Sum> = HashMap::new();
        let sieves = &source.context.sieves;
        let columns = sieves.iter().fold(
            Columns::KIND | Columns::NAME | Columns::TRACK | Columns::VALUE | Columns::SHAPE,
            |columns, sieve| columns | sieve.columns(),
        );
        let wants = |trace: usize, chunk: &ringscope_format::ChunkInfo| {
            sieves[trace].can_start_in(chunk.first_tick, chunk.last_tick)
        };
        let look = |trace: usize, _: usize, batch: &ringscope_format::Batch| {
            for at in (0..batch.events).filter(|&at| Kind(batch.kind[at]) == Kind::COUNTER) {
                let value = ValueType::from_bits(batch.shape[at] >> 5)
                    .and_then(|value_type| OwnedValue::from_bits(value_type, batch.value[at]))
                    .and_then(|value| Sum::of(&value, source, trace));
                if let Some(value) = value
                    && sieves[trace].takes_record(batch, at)
                {
                    let sum = left.entry((trace, batch.name[at], batch.track[at])).or_default();
                    sum.whole += value.whole;
                    sum.other += value.other;
                }
            }
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = in_order(source.traces(), columns, "counters", Order::Recorded, wants, look);
        let (mut seen, mut shared) = (HashSet::new(), HashSet::new());
        for &(trace, name, _) in left.keys() {
            if !seen.insert((trace, name)) {
                shared.insert((trace, name));
            }
        }
        Self { left, shared }
    }

    /// What a counter or gauge stands at with this event, and what it is called. `None`
    /// of other events, and of a value that is no number.
    pub(super) fn at(
        &mut self,
        source: &Source<'_>,
        event: &Event<'_>,
    ) -> Option<(String, Reading)> {
        let (trace, record) = (event.trace, &event.record);
        let value = Sum::of(&event.value()?, source, trace)?;
        let name = event.name().to_owned();
        match record.kind {
            Kind::GAUGE => Some((name, value.reading())),
            Kind::COUNTER => {
                let sum = self.left.entry((trace, record.name, record.track)).or_default();
                let reading = sum.reading();
                sum.whole -= value.whole;
                sum.other -= value.other;
                let shared = self.shared.contains(&(trace, record.name));
                let name = if shared { format!("{name} ({})", event.track()) } else { name };
                Some((name, reading))
            }
            _ => None,
        }
    }
}
