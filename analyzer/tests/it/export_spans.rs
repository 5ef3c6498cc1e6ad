//! Exports of single spans: rows, and OpenTelemetry's spans.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    export_made::{Seen, everything, export, made_spans},
    nested_traces::{make, steps},
};

/// All spans of all requests.
fn otlp_spans(text: &str) -> Vec<Value> {
    let mut spans = Vec::new();
    for line in text.lines() {
        let request: Value = serde_json::from_str(line).unwrap();
        let [resource] = &request["resourceSpans"].as_array().unwrap()[..] else { panic!() };
        let [scope] = &resource["scopeSpans"].as_array().unwrap()[..] else { panic!() };
        let of_request = scope["spans"].as_array().unwrap();
        assert!((1..=512).contains(&of_request.len()));
        spans.extend(of_request.iter().cloned());
    }
    spans
}

fn attribute<'a>(span: &'a Value, key: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    all.iter().find(|it| it["key"] == key).map_or(&Value::Null, |it| &it["value"])
}

#[test]
fn otlp_has_ids_parents_times_attributes_and_status() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    let run = analyze(dir.path(), &["export", "run.trace", "--to", "otlp-json"]);
    assert_eq!(
        run.stderr,
        "analyze: 3 readings of counters and gauges are no spans and were left out; \
         jsonl has them\n"
    );
    let again = analyze(dir.path(), &["export", "run.trace", "--to", "otlp-json"]);
    assert_eq!(run.stdout, again.stdout);
    let spans = otlp_spans(&run.stdout);
    let named = |name: &str| spans.iter().find(|it| it["name"] == name).unwrap();
    let step = named("step \"1\"\u{1b}");
    assert_eq!(
        *step,
        json!({
            "traceId": "616e616c797a65722773207465737473",
            "spanId": step["spanId"],
            "name": "step \"1\"\u{1b}",
            "kind": 1,
            "startTimeUnixNano": "1700000000000001000",
            "endTimeUnixNano": "1700000000000001200",
            "attributes": [
                { "key": "thread.name", "value": { "stringValue": "main" } },
                { "key": "thread.id", "value": { "intValue": "7" } },
                { "key": "ringscope.kind", "value": { "stringValue": "span" } },
                { "key": "count", "value": { "stringValue": "18446744073709551615" } },
                { "key": "delta", "value": { "intValue": "-2" } },
                { "key": "rate", "value": { "doubleValue": 0.5 } },
                { "key": "odd", "value": { "doubleValue": "NaN" } },
                { "key": "on", "value": { "boolValue": true } },
                { "key": "op", "value": { "stringValue": "gemm" } },
                { "key": "wait_ns", "value": { "doubleValue": 40.0 } },
                { "key": "note", "value": { "stringValue": "a \"b\",\nc" } },
            ],
            "status": { "code": 1 },
        })
    );
    assert_eq!(named("launch")["parentSpanId"], step["spanId"]);
    assert_eq!(named("oops")["parentSpanId"], named("request")["spanId"]);
    assert_eq!(named("oops")["status"], json!({ "code": 2 }));
    assert_eq!(named("fetch")["status"], json!({ "code": 2 }));
    assert_eq!(*attribute(named("request"), "ringscope.open"), json!({ "boolValue": true }));
    assert_eq!(named("request")["endTimeUnixNano"], "1700000000000001300");
    assert!(named("gemm").get("parentSpanId").is_none());
    assert_eq!(*attribute(named("gemm"), "ringscope.link"), json!({ "intValue": "5" }));
    assert_eq!(spans.len(), 7);
}

/// Track, path, start and end of all spans, and that ids are good.
fn otlp_seen(text: &str) -> Vec<Seen> {
    let spans = otlp_spans(text);
    let id = |span: &Value| span["spanId"].as_str().unwrap().to_owned();
    let by_id: BTreeMap<String, &Value> = spans.iter().map(|span| (id(span), span)).collect();
    assert_eq!(by_id.len(), spans.len());
    let is_id = |id: &String| id.len() == 16 && *id != "0".repeat(16);
    assert!(by_id.keys().all(is_id));
    let ns = |value: &Value| value.as_str().unwrap().parse::<u64>().unwrap();
    let first = spans.iter().map(|it| ns(&it["startTimeUnixNano"])).min().unwrap_or(0);
    let parent = |span: &&Value| span["parentSpanId"].as_str().map(|id| by_id[id]);
    let seen = |span| {
        let up = std::iter::successors(Some(by_id[&id(span)]), parent);
        let mut path: Vec<String> = up.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        path.reverse();
        let track = attribute(span, "thread.name")["stringValue"].as_str().unwrap();
        let (start, end) = (ns(&span["startTimeUnixNano"]), ns(&span["endTimeUnixNano"]));
        (track.to_owned(), path, start - first, end - first)
    };
    let mut all: Vec<Seen> = spans.iter().map(seen).collect();
    all.sort();
    all
}

#[test]
fn parents_that_the_filter_leaves_out_are_not_referred_to() {
    let dir = tempdir().unwrap();
    crate::making::tokens(&dir.path().join("run.trace"));
    let arguments = ["export", "run.trace", "--to", "otlp-json", "--name", "decode"];
    let spans = otlp_spans(&analyze(dir.path(), &arguments).clean());
    assert_eq!(spans.len(), 2);
    assert!(spans.iter().all(|span| span.get("parentSpanId").is_none()));
    let ids: HashSet<&str> = spans.iter().map(|it| it["spanId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
}

/// Cells of one row, which may go over several lines.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn parents_of_spans_are_those_around_them(steps in steps(120), loses in any::<bool>()) {
        let made = make(&steps, loses);
        let text = String::from_utf8(export(&made, "otlp-json")).unwrap();
        prop_assert_eq!(otlp_seen(&text), made_spans(&made));
    }

    #[test]
    fn rows_are_the_spans_in_the_order_of_their_ends(steps in steps(120), loses in any::<bool>()) {
        let made = make(&steps, loses);
        let csv = csv_rows(&String::from_utf8(export(&made, "csv")).unwrap());
        let jsonl = String::from_utf8(export(&made, "jsonl")).unwrap();
        let mut found = Vec::new();
        for (row, line) in csv[1..].iter().zip(jsonl.lines()) {
            let object: Value = serde_json::from_str(line).unwrap();
            for (key, cell) in csv[0].iter().zip(row) {
                let value = &object[key];
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                prop_assert_eq!(if value.is_null() { "" } else { &text }, cell);
            }
            let number = |key: &str| object[key].as_u64().unwrap();
            let (start, end) = (number("start_ns"), number("start_ns") + number("dur_ns"));
            let text = |key: &str| object[key].as_str().unwrap().to_owned();
            found.push((text("track"), text("name"), start, end, number("depth")));
        }
        prop_assert_eq!(csv.len() - 1, jsonl.lines().count());
        prop_assert!(found.is_sorted_by_key(|row| row.3));
        let first = made.stored().map(|(_, span)| span.start).min().unwrap_or(0);
        let mut expected: Vec<_> = made
            .stored()
            .map(|(_, span)| {
                let (track, name) = (format!("t{}", span.track), format!("n{}", span.name));
                (track, name, span.start - first, span.end - first, span.depth.min(255) as u64)
            })
            .collect();
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn names_and_texts_of_any_kind_come_back_from_csv_and_json(name in "\\PC{0,20}|[\0-\u{7f}]{0,20}") {
        let dir = tempdir().unwrap();
        crate::making::trace(&dir.path().join("run.trace"), |writer| {
            let track = writer.track(crate::making::THREAD, 1, &name);
            let (id, key) = (writer.name(&name), writer.name("text"));
            let text = ringscope_format::Value::Text(&name);
            writer.event(crate::making::span(id, track, 5, 10), &[(key, text)], &[]).unwrap();
        });
        let export = |to| analyze(dir.path(), &["export", "run.trace", "--to", to]).clean();
        let rows = csv_rows(&export("csv"));
        prop_assert_eq!(&rows[1][0], &name);
        let fields: Value = serde_json::from_str(&rows[1][12]).unwrap();
        prop_assert_eq!(&fields["text"], &name);
        let jsonl = export("jsonl");
        prop_assert_eq!(jsonl.matches('\n').count(), 1);
        prop_assert_eq!(&serde_json::from_str::<Value>(&jsonl).unwrap()["name"], &name);
        let chrome: Value = serde_json::from_str(&export("chrome")).unwrap();
        let last = chrome["traceEvents"].as_array().unwrap().last().unwrap();
        prop_assert_eq!(&last["name"], &name);
        let spans = otlp_spans(&export("otlp-json"));
        prop_assert_eq!(&spans[0]["name"], &name);
    }
}
