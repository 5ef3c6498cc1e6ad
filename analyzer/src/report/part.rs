//! Which part of the traces the tables of a report are of, where filters leave something out.

use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::about::in_words;
use crate::{cli::Common, output::shown};

/// What was asked for: a key for machines, its value, and the same in words.
type Asked = (&'static str, Value, String);

fn asked(common: &Common) -> Vec<Asked> {
    let filters = &common.filters;
    let since = |ns: f64| match ns < 0.0 {
        true => format!("{} before the end", in_words(-ns)),
        false => in_words(ns),
    };
    let texts = |all: &[String]| {
        let all: Vec<String> = all.iter().map(|text| format!("`{}`", shown(text))).collect();
        all.join(", ")
    };
    let mut found: Vec<Asked> = Vec::new();
    let mut add = |key, value: Value, text: String| found.push((key, value, text));
    if let Some(ns) = filters.from {
        add("from_ns", ns.into(), format!("from {} on", since(ns)));
    }
    if let Some(ns) = filters.to {
        add("to_ns", ns.into(), format!("until {}", since(ns)));
    }
    if let Some(ns) = filters.last {
        add("last_ns", ns.into(), format!("the last {}", in_words(ns)));
    }
    if !filters.name.is_empty() {
        add("name", json!(filters.name), format!("names {}", texts(&filters.name)));
    }
    if !filters.track.is_empty() {
        add("track", json!(filters.track), format!("threads and queues {}", texts(&filters.track)));
    }
    if let Some(request) = &filters.request {
        add("request", request.to_string().into(), format!("request {request}"));
    }
    if let Some(category) = common.category.and_then(|it| it.to_possible_value()) {
        let name = category.get_name().to_owned();
        add("category", name.clone().into(), format!("category {name}"));
    }
    if let Some(ns) = common.min_duration {
        add("min_duration_ns", ns.into(), format!("durations of at least {}", in_words(ns)));
    }
    found
}

/// In a line, if it is not all.
pub(super) fn line(common: &Common) -> Option<String> {
    let texts: Vec<String> = asked(common).into_iter().map(|(_, _, text)| text).collect();
    (!texts.is_empty()).then(|| format!("tables are of a part only: {}", texts.join("; ")))
}

/// For machines, if it is not all.
pub(super) fn value(common: &Common) -> Option<Value> {
    let all: Map<String, Value> =
        asked(common).into_iter().map(|(key, value, _)| (key.to_owned(), value)).collect();
    (!all.is_empty()).then_some(Value::Object(all))
}
