//! Exports for viewers: Chrome's trace events and Perfetto's protobuf.
//!
//! Perfetto's is read back as its trace processor does it: packets in order of their
//! timestamps, equal ones as they are in the file, and a stack for each track.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::{
    analyze::analyze,
    export_made::{Seen, everything, export, made_spans},
    making,
    nested_traces::{make, run, steps},
    protobuf::Message,
};

#[test]
fn chrome_has_spans_instants_counters_flows_and_what_is_open() {
    let dir = tempdir().unwrap();
    everything(&dir.path().join("run.trace"));
    let text = analyze(dir.path(), &["export", "run.trace", "--to", "chrome"]).clean();
    let expected = r#"{"displayTimeUnit":"ns","otherData":{"recorder":"ringscope","first_unix_ns":"1700000000000001000"},"traceEvents":[
{"name":"process_name","ph":"M","pid":42,"args":{"name":"run.trace"}},
{"name":"thread_name","ph":"M","pid":42,"tid":1,"args":{"name":"main","track":1,"kind":"thread"}},
{"name":"thread_sort_index","ph":"M","pid":42,"tid":1,"args":{"sort_index":1}},
{"name":"request","cat":"span","ph":"B","pid":42,"tid":1,"ts":0.240},
{"name":"thread_name","ph":"M","pid":42,"tid":3,"args":{"name":"main (2)","track":1,"kind":"thread"}},
{"name":"thread_sort_index","ph":"M","pid":42,"tid":3,"args":{"sort_index":1}},
{"name":"fetch","cat":"async span","ph":"X","pid":42,"tid":3,"args":{"link.own":"000000000000000000000000000000ab","link.request":"000000000000000000000000000000cd","status":"error"},"ts":0.150,"dur":0.150},
{"name":"oops","cat":"error","ph":"i","pid":42,"tid":1,"s":"t","ts":0.290},
{"name":"tokens","ph":"C","pid":42,"args":{"value":8},"ts":0.280},
{"name":"tokens","ph":"C","pid":42,"args":{"value":3},"ts":0.270},
{"name":"pool.depth","ph":"C","pid":42,"args":{"value":4},"ts":0.260},
{"name":"thread_name","ph":"M","pid":42,"tid":2,"args":{"name":"gpu 0 stream 1","track":2,"kind":"queue"}},
{"name":"thread_sort_index","ph":"M","pid":42,"tid":2,"args":{"sort_index":2}},
{"name":"copy","cat":"copy","ph":"X","pid":42,"tid":2,"ts":0.200,"dur":0.050},
{"name":"thread_name","ph":"M","pid":42,"tid":4,"args":{"name":"gpu 0 stream 1 (2)","track":2,"kind":"queue"}},
{"name":"thread_sort_index","ph":"M","pid":42,"tid":4,"args":{"sort_index":2}},
{"name":"gemm","cat":"kernel","ph":"X","pid":42,"tid":4,"args":{"device":"cuda:0","correlation":5},"ts":0.130,"dur":0.100},
{"name":"launch","cat":"launch","ph":"f","id":5,"pid":42,"tid":4,"bp":"e","ts":0.130},
{"name":"step \"1\"\u001b","cat":"span","ph":"X","pid":42,"tid":1,"args":{"count":18446744073709551615,"delta":-2,"rate":0.5,"odd":"NaN","on":true,"op":"gemm","wait_ns":40,"note":"a \"b\",\nc","status":"ok"},"ts":0.000,"dur":0.200},
{"name":"launch","cat":"launch","ph":"X","pid":42,"tid":1,"args":{"correlation":5},"ts":0.100,"dur":0.020},
{"name":"launch","cat":"launch","ph":"s","id":5,"pid":42,"tid":1,"ts":0.100}
]}
"#;
    assert_eq!(text, expected);
    serde_json::from_str::<Value>(&text).unwrap();
}

/// What a viewer shows of a Perfetto trace.
#[derive(Debug, Default)]
struct Shown {
    /// Track, path from the outermost, start and end; open ones have no end.
    slices: Vec<(String, Vec<String>, u64, Option<u64>)>,
    instants: Vec<(String, String, u64)>,
    counters: Vec<(String, u64, u64)>,
    /// Slices by the flows that leave them and that end in them.
    flows: BTreeMap<u64, (Vec<String>, Vec<String>)>,
}

fn shown(bytes: &[u8]) -> Shown {
    let packets = Message::parse(bytes).messages(1);
    let mut tracks: BTreeMap<u64, String> = BTreeMap::new();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    let mut events: Vec<(u64, Message)> = Vec::new();
    for (at, packet) in packets.iter().enumerate() {
        assert_eq!(packet.number(10), Some(1));
        assert_eq!(packet.number(13), Some(if at == 0 { 1 } else { 2 }));
        if let Some(track) = packet.message(60) {
            let process = track.message(3).and_then(|it| it.text(6));
            let thread = track.message(4).and_then(|it| it.text(5));
            let name = track.text(2).or(thread).or(process).unwrap();
            assert!(tracks.insert(track.number(1).unwrap(), name).is_none());
            assert!(track.number(5).is_none_or(|parent| tracks.contains_key(&parent)));
        }
        for name in packet.message(12).iter().flat_map(|it| it.messages(2)) {
            names.insert(name.number(1).unwrap(), name.text(2).unwrap());
        }
        if let Some(event) = packet.message(11) {
            let has_name = event.number(10).is_none_or(|iid| names.contains_key(&iid));
            assert!(has_name && tracks.contains_key(&event.number(11).unwrap()));
            events.push((packet.number(8).unwrap(), event));
        }
    }
    events.sort_by_key(|(timestamp, _)| *timestamp);
    let mut shown = Shown::default();
    let mut stacks: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    let path = |stack: &[(String, u64)]| stack.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    for (at, event) in &events {
        let uuid = event.number(11).unwrap();
        let track = tracks[&uuid].clone();
        let name = event.number(10).map(|iid| names[&iid].clone()).unwrap_or_default();
        let stack = stacks.entry(uuid).or_default();
        match event.number(9).unwrap() {
            1 => {
                stack.push((name.clone(), *at));
                if let Some(flow) = event.number(47) {
                    shown.flows.entry(flow).or_default().0.push(name.clone());
                }
                if let Some(flow) = event.number(48) {
                    shown.flows.entry(flow).or_default().1.push(name);
                }
            }
            2 => {
                let path = path(stack);
                let (_, start) = stack.pop().expect("something to end");
                shown.slices.push((track, path, start, Some(*at)));
            }
            3 => shown.instants.push((track, name, *at)),
            4 => shown.counters.push((track, *at, event.number(30).unwrap())),
            other => panic!("type {other}"),
        }
    }
    for (uuid, stack) in &stacks {
        for depth in 0..stack.len() {
            let path = path(&stack[..=depth]);
            shown.slices.push((tracks[uuid].clone(), path, stack[depth].1, None));
        }
    }
    shown
}

fn shown_of(made: &crate::nested_traces::Made) -> Vec<Seen> {
    let slices = shown(&export(made, "perfetto")).slices;
    let closed = |(track, path, start, end): (String, Vec<String>, u64, Option<u64>)| {
        (track, path, start, end.expect("an end"))
    };
    let mut all: Vec<Seen> = slices.into_iter().map(closed).collect();
    all.sort();
    all
}

#[test]
fn perfetto_has_slices_instants_counters_flows_and_what_is_open() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    everything(&path);
    let bytes = run(&["export", path.to_str().unwrap(), "--to", "perfetto"]).stdout;
    let mut shown = shown(&bytes);
    shown.slices.sort();
    let slice = |track: &str, path: &[&str], start, end| {
        (track.to_owned(), path.iter().map(|&it| it.to_owned()).collect::<Vec<_>>(), start, end)
    };
    let step = "step \"1\"\u{1b}";
    assert_eq!(
        shown.slices,
        [
            slice("gpu 0 stream 1", &["copy"], 200, Some(250)),
            slice("gpu 0 stream 1 (2)", &["gemm"], 130, Some(230)),
            slice("main", &["request"], 240, None),
            slice("main", &[step], 0, Some(200)),
            slice("main", &[step, "launch"], 100, Some(120)),
            slice("main (2)", &["fetch"], 150, Some(300)),
        ]
    );
    assert_eq!(shown.instants, [("main".to_owned(), "oops".to_owned(), 290)]);
    let counter = |name: &str, at, value| (name.to_owned(), at, value);
    assert_eq!(
        shown.counters,
        [counter("pool.depth", 260, 4), counter("tokens", 270, 3), counter("tokens", 280, 8)]
    );
    let flow = (vec!["launch".to_owned()], vec!["gemm".to_owned()]);
    assert_eq!(shown.flows, BTreeMap::from([(5, flow)]));
    let packets = Message::parse(&bytes).messages(1);
    let snapshot = packets.iter().find_map(|packet| packet.message(6)).unwrap();
    let clocks: Vec<_> =
        snapshot.messages(1).iter().map(|it| (it.number(1), it.number(2))).collect();
    let unix = 1_700_000_000_000_001_000;
    assert_eq!(clocks, [(Some(6), Some(0)), (Some(1), Some(unix))]);
}

#[test]
fn debug_annotations_carry_fields_with_their_types() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    everything(&path);
    let arguments = ["export", path.to_str().unwrap(), "--to", "perfetto", "--name", "step*"];
    let packets = Message::parse(&run(&arguments).stdout).messages(1);
    let begin = packets
        .iter()
        .filter_map(|packet| packet.message(11))
        .find(|event| event.number(9) == Some(1))
        .unwrap();
    let notes = begin.messages(4);
    let note = |key: &str| notes.iter().find(|it| it.text(10).as_deref() == Some(key)).unwrap();
    assert_eq!(note("on").number(2), Some(1));
    assert_eq!(note("count").number(3), Some(u64::MAX));
    assert_eq!(note("delta").number(4), Some(-2_i64 as u64));
    assert_eq!(note("rate").number(5), Some(0.5_f64.to_bits()));
    assert_eq!(note("wait_ns").number(5), Some(40_f64.to_bits()));
    assert_eq!(note("op").text(6).as_deref(), Some("gemm"));
    assert_eq!(note("note").text(6).as_deref(), Some("a \"b\",\nc"));
    assert_eq!(note("status").text(6).as_deref(), Some("ok"));
}

#[test]
fn a_killed_process_leaves_begins_without_ends() {
    let killed = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/killed.trace");
    let shown = shown(&run(&["export", killed, "--to", "perfetto"]).stdout);
    let open: Vec<Vec<String>> =
        shown.slices.iter().filter(|it| it.3.is_none()).map(|it| it.1.clone()).collect();
    let path = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
    assert_eq!(open, [path(&["token"]), path(&["token", "decode"]), path(&["late"])]);
    assert_eq!(shown.slices.len() - open.len(), 21);
    let chrome: Value =
        serde_json::from_slice(&run(&["export", killed, "--to", "chrome"]).stdout).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap();
    let begins: Vec<&Value> =
        events.iter().filter(|it| it["ph"] == "B").map(|it| &it["name"]).collect();
    assert_eq!(begins, [&json!("token"), &json!("decode"), &json!("late")]);
    assert!(!events.iter().any(|it| it["ph"] == "E"));
}

#[test]
fn spans_that_touch_and_spans_without_length_end_where_they_should() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    making::trace(&path, |writer| {
        let track = writer.track(making::THREAD, 1, "t");
        // Children at both edges, a neighbour that begins where the last one ended, all
        // in one nanosecond, in order of their ends.
        let spans = [
            ("empty before", 0, 100, 100),
            ("empty first", 1, 100, 100),
            ("first", 1, 100, 150),
            ("last", 1, 150, 200),
            ("empty last", 1, 200, 200),
            ("outer", 0, 100, 200),
            ("empty inner", 1, 200, 200),
            ("empty outer", 0, 200, 200),
            ("next", 0, 200, 300),
        ];
        for (name, depth, start, end) in spans {
            let name = writer.name(name);
            let record = making::span(name, track, start, end - start);
            writer.event(ringscope_format::Record { depth, ..record }, &[], &[]).unwrap();
        }
    });
    let mut slices = shown(&run(&["export", path.to_str().unwrap(), "--to", "perfetto"]).stdout)
        .slices
        .into_iter()
        .map(|(_, path, start, end)| (path.join("/"), start, end.unwrap()))
        .collect::<Vec<_>>();
    slices.sort();
    let expected = [
        ("empty before", 0, 0),
        ("empty outer", 100, 100),
        ("empty outer/empty inner", 100, 100),
        ("next", 100, 200),
        ("outer", 0, 100),
        ("outer/empty first", 0, 0),
        ("outer/empty last", 100, 100),
        ("outer/first", 0, 50),
        ("outer/last", 50, 100),
    ];
    assert_eq!(slices, expected.map(|(path, start, end)| (path.to_owned(), start, end)));
}

#[test]
fn counters_of_several_threads_each_add_up() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("run.trace");
    making::trace(&path, |writer| {
        use ringscope_format::{Kind, Record, ValueType};
        let name = writer.name("bytes");
        let tracks = [writer.track(making::THREAD, 1, "a"), writer.track(making::THREAD, 2, "b")];
        for at in 0..6_u64 {
            let track = tracks[at as usize % 2];
            let record = Record::point(Kind::COUNTER, name, track, at, (ValueType::U64, 1 + at));
            writer.event(record, &[], &[]).unwrap();
        }
    });
    let shown = shown(&run(&["export", path.to_str().unwrap(), "--to", "perfetto"]).stdout);
    let of = |track: &str| {
        let of_track = shown.counters.iter().filter(|it| it.0 == track);
        of_track.map(|it| (it.1, it.2)).collect::<Vec<_>>()
    };
    assert_eq!(of("bytes (a)"), [(0, 1), (2, 4), (4, 9)]);
    assert_eq!(of("bytes (b)"), [(1, 2), (3, 6), (5, 12)]);
}

/// Spans of a Chrome trace, by track: name, start and end.
fn chrome_spans(bytes: &[u8]) -> Vec<(String, String, u64, u64)> {
    let trace: Value = serde_json::from_slice(bytes).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let is_thread = |event: &&Value| event["name"] == "thread_name";
    let threads: BTreeMap<u64, String> = events
        .iter()
        .filter(is_thread)
        .map(|it| (it["tid"].as_u64().unwrap(), it["args"]["name"].as_str().unwrap().to_owned()))
        .collect();
    let ns = |value: &Value| (value.as_f64().unwrap() * 1_000.0).round() as u64;
    let span = |event: &Value| {
        let (start, track) = (ns(&event["ts"]), threads[&event["tid"].as_u64().unwrap()].clone());
        let name = event["name"].as_str().unwrap().to_owned();
        (track, name, start, start + ns(&event["dur"]))
    };
    let mut spans: Vec<_> = events.iter().filter(|it| it["ph"] == "X").map(span).collect();
    spans.sort();
    spans
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn slices_nest_as_the_spans_did(steps in steps(120), loses in any::<bool>()) {
        let made = make(&steps, loses);
        prop_assert_eq!(shown_of(&made), made_spans(&made));
    }

    #[test]
    fn trace_events_are_the_spans(steps in steps(80), loses in any::<bool>()) {
        let made = make(&steps, loses);
        let expected = made_spans(&made).into_iter();
        let mut expected: Vec<_> = expected
            .map(|(track, path, start, end)| (track, path.last().unwrap().clone(), start, end))
            .collect();
        expected.sort();
        prop_assert_eq!(chrome_spans(&export(&made, "chrome")), expected);
    }

    /// Kernels that cross on a queue, in any order of recording.
    #[test]
    fn slices_of_a_queue_never_cross(work in prop::collection::vec((0_u64..60, 0_u64..30), 1..60)) {
        let dir = tempdir().unwrap();
        let path = dir.path().join("run.trace");
        let first = work.iter().map(|it| it.0).min().unwrap_or(0);
        making::trace(&path, |writer| {
            use ringscope_format::{Kind, Record, TrackKind};
            let queue = writer.track(TrackKind::GpuQueue, 1, "queue");
            let name = writer.name("k");
            for &(start, duration) in &work {
                let record = Record::timed(Kind::KERNEL, name, queue, start, duration);
                writer.event(record, &[], &[]).unwrap();
            }
        });
        let shown = shown(&run(&["export", path.to_str().unwrap(), "--to", "perfetto"]).stdout);
        let mut found: Vec<(u64, u64)> = Vec::new();
        for (_, path, start, end) in shown.slices {
            prop_assert_eq!(path.len(), 1);
            found.push((start, end.unwrap()));
        }
        let mut expected: Vec<(u64, u64)> =
            work.iter().map(|&(start, duration)| (start - first, start - first + duration)).collect();
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}
