//! What a value says: a number, a text, or both.

use std::borrow::Cow;

use ringscope_format::{Batch, Kind, LinkRole, OwnedValue, ValueType};

use crate::load::{Loaded, Traces};

/// Integers beyond this are not all exact as floating-point numbers.
const EXACT: u64 = 1 << 53;

/// What wide ids are called where they stand among fields.
pub(crate) const LINK_KEYS: [&str; 5] =
    ["link.other", "link.own", "link.parent", "link.follows_from", "link.request"];

/// Which of [`LINK_KEYS`] is that of a role.
pub(crate) fn link_key(role: LinkRole) -> usize {
    match role {
        LinkRole::Own => 1,
        LinkRole::Parent => 2,
        LinkRole::FollowsFrom => 3,
        LinkRole::Request => 4,
        _ => 0,
    }
}

/// A field's value. Integers that no floating-point number is equal to have their digits as
/// a text as well.
pub(crate) struct Told<'a> {
    /// The number; 0 or 1 of a truth value; ticks as nanoseconds.
    pub(crate) number: Option<f64>,
    /// The text or name.
    pub(crate) text: Option<Cow<'a, str>>,
}

/// What the value of a field says, of an event of this trace.
pub(crate) fn told<'a>(value: &'a OwnedValue, loaded: &Loaded, traces: &'a Traces) -> Told<'a> {
    let number = |number: f64, is_far: bool, digits: &dyn ToString| Told {
        number: Some(number),
        text: is_far.then(|| digits.to_string().into()),
    };
    let words = |text: Cow<'a, str>| Told { number: None, text: Some(text) };
    match value {
        OwnedValue::U64(n) => number(*n as f64, *n > EXACT, n),
        OwnedValue::I64(n) => number(*n as f64, n.unsigned_abs() > EXACT, n),
        OwnedValue::F64(n) => number(*n, false, n),
        OwnedValue::Bool(is) => number(f64::from(u8::from(*is)), false, is),
        OwnedValue::Ticks(n) => number(*n as f64 * loaded.trace.clock().ns_per_tick(), false, n),
        OwnedValue::Name(id) => {
            words(traces.names[loaded.name_index(*id) as usize].as_str().into())
        }
        OwnedValue::Text { text, cut: false } => words(text.as_str().into()),
        OwnedValue::Text { text, cut: true } => words(format!("{text}…").into()),
    }
}

impl<'a> Told<'a> {
    /// What tells one from another: the text, or the whole part of the number.
    pub(crate) fn label(self) -> Option<Cow<'a, str>> {
        let (number, text) = (self.number, self.text);
        text.or_else(|| whole(number?).map(|digits| digits.to_string().into()))
    }
}

/// The whole part, if 64 bits hold it.
fn whole(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (-LIMIT..LIMIT).contains(&number).then_some(number as i64)
}

/// The number of an event without a duration.
pub(crate) fn number_of_point(loaded: &Loaded, batch: &Batch, at: usize) -> Option<f64> {
    if Kind(batch.kind[at]).is_timed() {
        return None;
    }
    let value_type = ValueType::from_bits(batch.shape[at] >> 5)?;
    Some(match OwnedValue::from_bits(value_type, batch.value[at])? {
        OwnedValue::U64(n) => n as f64,
        OwnedValue::I64(n) => n as f64,
        OwnedValue::F64(n) => n,
        OwnedValue::Bool(is) => f64::from(u8::from(is)),
        OwnedValue::Ticks(ticks) => ticks as f64 * loaded.trace.clock().ns_per_tick(),
        OwnedValue::Name(_) | OwnedValue::Text { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_text_is_told_apart_by_its_whole_number() {
        let label = |number| Told { number: Some(number), text: None }.label();
        assert_eq!(label(7.9).as_deref(), Some("7"));
        assert_eq!(label(-1.0).as_deref(), Some("-1"));
        assert_eq!(label(f64::NAN), None);
        assert_eq!(label(1e19), None);
        let both = Told { number: Some(1e19), text: Some("10000000000000000000".into()) };
        assert_eq!(both.label().as_deref(), Some("10000000000000000000"));
    }
}
