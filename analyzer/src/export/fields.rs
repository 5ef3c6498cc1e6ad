//! Fields of an event as JSON.
//!
//! Durations in ticks become nanoseconds, and their keys get `_ns`, as VOCABULARY.md
//! has it for times from elsewhere. Wide ids are texts in hex under `link.own`,
//! `link.parent`, `link.follows_from`, `link.request` and `link.other`. Numbers that
//! JSON has not, such as NaN, are texts. A key that repeats gets a number.

use ringscope_format::{EventDetails, LinkRole, OwnedValue};
use serde_json::{Map, Value};

use super::events::Source;
use crate::output::json_number;

/// All fields and links.
pub(super) fn object(
    source: &Source<'_>,
    trace: usize,
    details: &EventDetails,
) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in &details.fields {
        let mut key = source.name(trace, *key).to_owned();
        if matches!(value, OwnedValue::Ticks(_)) && !key.ends_with("_ns") {
            key.push_str("_ns");
        }
        insert(&mut all, key, json(source, trace, value));
    }
    for link in &details.links {
        insert(&mut all, link_key(link.role).to_owned(), format!("{:032x}", link.id).into());
    }
    all
}

fn insert(all: &mut Map<String, Value>, key: String, value: Value) {
    let numbered = (2..).map(|n| format!("{key} {n}"));
    let free = std::iter::once(key.clone()).chain(numbered).find(|key| !all.contains_key(key));
    all.insert(free.unwrap_or(key), value);
}

/// What an id is for.
pub(super) fn link_key(role: LinkRole) -> &'static str {
    match role {
        LinkRole::Own => "link.own",
        LinkRole::Parent => "link.parent",
        LinkRole::FollowsFrom => "link.follows_from",
        LinkRole::Request => "link.request",
        _ => "link.other",
    }
}

/// One value.
pub(super) fn json(source: &Source<'_>, trace: usize, value: &OwnedValue) -> Value {
    match value {
        OwnedValue::U64(n) => (*n).into(),
        OwnedValue::I64(n) => (*n).into(),
        OwnedValue::F64(n) if n.is_finite() => (*n).into(),
        OwnedValue::F64(n) => n.to_string().into(),
        OwnedValue::Bool(is) => (*is).into(),
        OwnedValue::Name(id) => source.name(trace, *id).into(),
        OwnedValue::Ticks(ticks) => json_number(source.length_ns(trace, *ticks)),
        OwnedValue::Text { text, cut: false } => text.as_str().into(),
        OwnedValue::Text { text, cut: true } => format!("{text}…").into(),
    }
}
