//! What is read back is what was recorded.

use std::{thread, time::Duration};

use ringscope::{
    CallSite, Kind, ThreadHandle, async_span, counter, error, event, gauge, register_thread, span,
};
use ringscope_format::{LinkRole, OwnedValue, TrackKind};

use crate::child::child;

fn in_thread<R: Send>(name: &str, f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        thread::Builder::new().name(name.into()).spawn_scoped(scope, f).unwrap().join().unwrap()
    })
}

#[test]
fn spans_fields_and_points_read_back_as_a_tree() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        in_thread("model", || {
            for token in 0..2_u32 {
                let _span = span!("forward", token = token);
                {
                    let _span = span!("attention");
                    event!("cache miss", key = "w.7", bytes = 4_096_u64);
                }
                let mut mlp = span!("mlp");
                mlp.fail();
            }
            counter!("tokens", 2_u64);
        });
        in_thread("tokenizer", || {
            let mut span = span!("split", text = "häß");
            span.succeed();
            gauge!("queue", -3);
            gauge!("rate", 0.25, unit = "1/s");
            error!("no such token", id = 17_u8);
        });
        let mut span = span!("dropped");
        span.cancel();
        drop(span);
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up().losses_add_up();
    assert_eq!(
        told.tree(),
        "\
model
  forward token=0u
    attention
      event cache miss bytes=4096u key=\"w.7\"
    mlp [error]
  forward token=1u
    attention
      event cache miss bytes=4096u key=\"w.7\"
    mlp [error]
  counter tokens 2u
tokenizer
  split text=\"häß\" [ok]
    gauge queue -3i
    gauge rate 0.25 unit=\"1/s\"
    error no such token id=17u [error]
values::spans_fields_and_points_read_back_as_a_tree
  dropped [cancelled]
"
    );
}

#[test]
fn children_lie_within_their_parents_in_time() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let outer = span!("outer");
        for _ in 0..3 {
            let _inner = span!("inner");
            thread::sleep(Duration::from_millis(2));
        }
        drop(outer);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let outer = told.only("outer");
    let clock = told.trace.clock();
    let mut before = outer.start;
    for inner in told.named("inner") {
        assert!(inner.start >= before && inner.end <= outer.end);
        assert!(clock.ns(inner.end - inner.start) >= 2e6);
        before = inner.end;
    }
    assert!(clock.ns(outer.end - outer.start) >= 6e6);
}

#[test]
fn every_type_of_value_keeps_its_type_and_value() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let owned = String::from("owned");
        event!(
            "all",
            a = u8::MAX,
            b = u16::MAX,
            c = u32::MAX,
            d = u64::MAX,
            e = usize::MAX,
            f = i8::MIN,
            g = i16::MIN,
            h = i32::MIN,
            i = i64::MIN,
            j = isize::MIN,
            k = 0.1_f32,
            l = f64::MIN_POSITIVE,
            m = true,
            n = false,
            o = Duration::from_millis(3),
            p = "text",
            q = &owned,
            r = "",
            s = ringscope::Value::Ticks(5),
        );
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let text = |text: &str| OwnedValue::Text { text: text.into(), cut: false };
    // Numbers come first, two to a slot; texts behind them.
    let expected = [
        ("a", OwnedValue::U64(255)),
        ("b", OwnedValue::U64(65_535)),
        ("c", OwnedValue::U64(u32::MAX.into())),
        ("d", OwnedValue::U64(u64::MAX)),
        ("e", OwnedValue::U64(usize::MAX as u64)),
        ("f", OwnedValue::I64(-128)),
        ("g", OwnedValue::I64(-32_768)),
        ("h", OwnedValue::I64(i32::MIN.into())),
        ("i", OwnedValue::I64(i64::MIN)),
        ("j", OwnedValue::I64(isize::MIN as i64)),
        ("k", OwnedValue::F64(0.1_f32.into())),
        ("l", OwnedValue::F64(f64::MIN_POSITIVE)),
        ("m", OwnedValue::Bool(true)),
        ("n", OwnedValue::Bool(false)),
        ("o", OwnedValue::U64(3_000_000)),
        ("s", OwnedValue::Ticks(5)),
        ("p", text("text")),
        ("q", text("owned")),
        ("r", text("")),
    ];
    assert_eq!(told.only("all").fields, expected);
}

#[test]
fn a_long_text_is_cut_at_a_character_and_says_so() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let long = format!("x{}", "é".repeat(2_000));
        event!("cut", text = &long);
        let exact = "y".repeat(31 * 24);
        event!("fits", text = &exact);
        let _span = span!("both", first = "short", second = &long);
        drop(_span);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let text = |event: &str, key: &str| match told.only(event).field(key) {
        Some(OwnedValue::Text { text, cut }) => (text.clone(), *cut),
        other => panic!("{other:?}"),
    };
    // 31 slots of 24 bytes are 744: one `x` and 371 times two bytes.
    assert_eq!(text("cut", "text"), (format!("x{}", "é".repeat(371)), true));
    assert_eq!(text("fits", "text"), ("y".repeat(744), false));
    assert_eq!(text("both", "first"), ("short".into(), false));
    assert_eq!(text("both", "second"), (format!("x{}", "é".repeat(359)), true));
    told.is_finished_and_adds_up();
}

#[test]
fn an_asynchronous_span_ends_on_another_thread() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (first, mut second) = in_thread("front", || {
            let first = async_span!("request", size = 17_u32, path = "/v1");
            let second = async_span!("request", size = 18_u32, path = "/v2");
            (first, second)
        });
        scene.say("first", first.id());
        scene.say("second", second.id());
        in_thread("back", move || {
            second.fail();
            drop(second);
            thread::sleep(Duration::from_millis(3));
            first.end();
        });
        assert_eq!(recorder.finish().unwrap().stored, 2);
    });
    let end = end.run().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up();
    let requests = told.named("request");
    assert_eq!(requests.len(), 2);
    for (request, id, size) in
        [(requests[1], end.number("first"), 17), (requests[0], end.number("second"), 18)]
    {
        assert_eq!((request.kind, request.number("size")), (Kind::ASYNC_SPAN, size));
        assert_eq!(told.thread_of(request), "front");
        let [link] = request.links.as_slice() else { panic!("{:?}", request.links) };
        assert_eq!((link.id, link.role), (id.into(), LinkRole::Own));
        assert_eq!(told.tracks[&link.track], "back");
    }
    let clock = told.trace.clock();
    assert!(clock.ns(requests[1].end - requests[1].start) >= 3e6);
    assert!(requests[1].start <= requests[0].start && requests[0].end <= requests[1].end);
    assert_eq!(format!("{:?}", requests[0].status), "error");
}

#[test]
fn a_name_made_at_run_time_is_one_site_however_often_it_is_asked_for() {
    let end = child(|scene| {
        let before = CallSite::named("block_3");
        let recorder = scene.builder().start().unwrap();
        for block in 0..4 {
            let site = CallSite::named(&format!("block_{block}"));
            let _outer = span!(site: site);
            let _static = span!("block_1");
        }
        assert!(std::ptr::eq(before, CallSite::named("block_3")));
        assert_eq!(before.name(), "block_3");
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let tree = told.tree();
    let (_, below) = tree.split_once('\n').unwrap();
    assert_eq!(
        below,
        "  block_0\n    block_1\n  block_1\n    block_1\n  block_2\n    block_1\n  block_3\n    block_1\n"
    );
    // A static name and one made at run time are the same name if they read the same.
    assert_eq!(told.trace.names().iter().filter(|(_, text)| *text == "block_1").count(), 1);
}

#[test]
fn a_handle_and_a_registered_thread_record_on_their_own_track() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        in_thread("handle", || {
            let thread = ThreadHandle::current();
            for i in 0..3_u64 {
                let _span = span!(in thread, "outer", i = i);
                let _span = span!(in thread, "inner");
                let _plain = span!("innermost");
            }
        });
        in_thread("registered", || {
            assert!(register_thread());
            assert!(register_thread(), "twice is once");
        });
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let three = |i| format!("  outer i={i}u\n    inner\n      innermost\n");
    assert_eq!(told.tree(), format!("handle\n{}{}{}", three(0), three(1), three(2)));
}

#[test]
fn a_handle_made_before_the_recording_records_into_it() {
    let end = child(|scene| {
        let thread = ThreadHandle::current();
        drop(span!(in thread, "too early"));
        let recorder = scene.builder().start().unwrap();
        drop(span!(in thread, "in time"));
        recorder.finish().unwrap();
        drop(span!(in thread, "too late"));
    });
    let told = end.run().succeeded().trace();
    assert_eq!(told.events.len(), 1);
    // Timed by the clock of the recording, though the handle is older.
    assert!(told.only("in time").start >= told.trace.header().created_tick);
}

#[test]
fn the_file_says_where_it_was_recorded_and_where_in_the_source() {
    let end = child(|scene| {
        let builder = scene.builder().metadata("model", "llama").metadata("model", "qwen");
        let recorder = builder.metadata("commit", "4f2a91c").start().unwrap();
        in_thread("worker", || drop(span!("here")));
        scene.say("line", line!() - 1);
        scene.say("pid", std::process::id());
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = end.trace();
    let metadata = told.trace.metadata();
    assert_eq!((metadata["model"].as_str(), metadata["commit"].as_str()), ("qwen", "4f2a91c"));
    assert_eq!(metadata["host.os"], std::env::consts::OS);
    if let Ok(text) = std::fs::read_to_string("/proc/cpuinfo") {
        assert!(text.contains(&metadata["host.cpu"]), "{}", metadata["host.cpu"]);
    }
    assert!(metadata["process.command"].contains("values::the_file_says_where"));
    assert_eq!(u64::from(told.trace.header().pid), end.number("pid"));
    let names = told.trace.names();
    let (id, _) = names.iter().find(|(_, text)| *text == "here").unwrap();
    let [site] = names.call_sites(id) else { panic!("{:?}", names.call_sites(id)) };
    assert_eq!(u64::from(site.line), end.number("line"));
    assert_eq!(names.get(site.module), Some("it::values"));
    assert!(names.get(site.file).unwrap().ends_with("values.rs"));
    let worker = told.trace.tracks().iter().find(|track| track.name == "worker").unwrap();
    assert_eq!(worker.kind, TrackKind::Thread);
    assert!(![0, end.number("pid")].contains(&worker.os_id));
}
