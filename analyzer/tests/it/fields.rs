//! What events and spans carry, in `report`: any name and key, whoever made them up.

use ringscope_format::{Kind, Link, LinkRole, Record, Status, TrackKind, Value, ValueType};

use crate::{
    analyze::{analyze, analyze_piped},
    made::{Finished, MS, Made},
    making,
};

const SECTION: [&str; 3] = ["report", "--section", "fields"];

/// One of each kind that has no section of its own, and one that nobody has heard of.
fn vocabulary() -> Finished {
    let mut made = Made::new();
    for at in 0..4_u64 {
        let compiled = [
            ("kernel", Value::Text(if at < 3 { "matmul" } else { "softmax" })),
            ("time", Value::Ticks((at + 1) * MS)),
            ("hit", Value::Bool(at == 3)),
        ];
        made.event("kernel.compiled", at * MS, &compiled);
    }
    for at in 0..3_u64 {
        let queued = [("queue", Value::Ticks(1_000 + at)), ("schedule", Value::Ticks(250))];
        made.event("command_buffer.queued", at * MS, &queued);
    }
    let op = [
        ("op", Value::Text("add")),
        ("shapes", Value::Text("[2, 3], [2, 3]")),
        ("dtype", Value::Text("f16")),
        ("elements", Value::U64(6)),
    ];
    made.event("tensor.op", 5, &op);
    made.event("tensor.op", 6, &op);
    let inference = [
        ("model", Value::Text("qwen2")),
        ("batch", Value::U64(8)),
        ("tokens_per_second", Value::F64(123.5)),
    ];
    made.event("inference", 7, &inference);
    let own = [("pages_bytes", Value::U64(4_096)), ("lag_ms", Value::F64(2.5))];
    made.event("my.own", 8, &own);
    made.span("serialize", 9, 5, Status::OK, &[("format", Value::Text("safetensors"))]);
    // Others show these.
    made.event("memory.allocate", 10, &[("bytes", Value::U64(1))]);
    made.put(
        Record::point(Kind::GAUGE, 0, made.main, 11, (ValueType::U64, 1)),
        "device.power_watts",
        &[("device", Value::Text("0"))],
    );
    let work = Record::timed(Kind::KERNEL, 0, made.queue, 12, 5);
    made.put(work, "matmul", &[("device", Value::U64(0)), ("backend", Value::Text("wgpu"))]);
    made.finish()
}

#[test]
fn every_kind_of_event_says_what_it_carries() {
    let said = vocabulary().output(&SECTION);
    let expected = "\
Fields of events and spans
  name                   kind    field              count        sum       mean        min        max  most common
  kernel.compiled        event   time                   4   10.00 ms    2.50 ms    1.00 ms    4.00 ms
                                 hit                    4                                              false 3, true 1
                                 kernel                 4                                              matmul 3, softmax 1
  command_buffer.queued  event   queue                  3    3.00 us    1.00 us    1.00 us    1.00 us
                                 schedule               3  750.00 ns  250.00 ns  250.00 ns  250.00 ns
  tensor.op              event   elements               2         12          6          6          6
                                 op                     2                                              add
                                 shapes                 2                                              [2, 3], [2, 3]
                                 dtype                  2                                              f16
  inference              event   batch                  1                     8          8          8
                                 tokens_per_second      1                 123.5      123.5      123.5
                                 model                  1                                              qwen2
  my.own                 event   pages_bytes            1    4.0 KiB    4.0 KiB    4.0 KiB    4.0 KiB
                                 lag_ms                 1    2.50 ms    2.50 ms    2.50 ms    2.50 ms
  serialize              span    format                 1                                              safetensors
  (all)                  kernel  backend                1                                              wgpu
";
    assert_eq!(said, expected, "{said}");
}

#[test]
fn machines_get_types_sums_and_values() {
    let json = vocabulary().json(&SECTION);
    let rows = json["sections"]["fields"].as_array().or(json["rows"].as_array()).unwrap();
    let row = |name: &str, field: &str| {
        let found = rows.iter().find(|row| row["name"] == name && row["field"] == field);
        found.unwrap_or_else(|| panic!("{name} {field}: {json}"))
    };
    let time = row("kernel.compiled", "time");
    assert_eq!(
        (&time["type"], &time["sum"], &time["max"]),
        (&"ns".into(), &10_000_000.into(), &4_000_000.into())
    );
    let hit = row("kernel.compiled", "hit");
    assert_eq!(hit["values"][0], serde_json::json!({ "value": "false", "count": 3 }));
    assert_eq!((&hit["distinct"], &hit["distinct_is_exact"]), (&2.into(), &true.into()));
    assert_eq!(row("my.own", "pages_bytes")["type"], "bytes");
    assert_eq!(
        (&row("my.own", "lag_ms")["type"], &row("my.own", "lag_ms")["mean"]),
        (&"ns".into(), &2_500_000.into())
    );
    assert_eq!(row("tensor.op", "elements")["sum"], 12);
}

#[test]
fn kinds_of_later_recorders_and_ids_of_requests_are_told() {
    let dir = tempfile::tempdir().unwrap();
    making::trace(&dir.path().join("run.trace"), |writer| {
        let (main, name) = (writer.track(TrackKind::Thread, 1, "main"), writer.name("later"));
        let key = writer.name("depth");
        for at in 0..6_u64 {
            let event = Record::point(Kind(0x4F), name, main, at, (ValueType::None, 0));
            let request =
                Link { id: 0xabc + u128::from(at / 3), track: 0, role: LinkRole::Request };
            writer.event(event, &[(key, Value::I64(-(at as i64)))], &[request]).unwrap();
        }
    });
    let said = analyze_piped(dir.path(), &["report", "run.trace", "--section", "fields"]).clean();
    let expected = "\
Fields of events and spans
  name   kind       field      count    mean  min  max  most common
  later  kind 0x4f  depth          6  -2.500   -5    0
                    (request)      6                    00000000000000000000000000000abc 3, 00000000000000000000000000000abd 3
";
    assert_eq!(said, expected, "{said}");
}

#[test]
fn numbers_that_are_not_finite_and_values_without_end_are_told() {
    let mut made = Made::new();
    for at in 0..3_000_u64 {
        let path = format!("/data/{at:04}");
        let loss = if at == 7 { f64::NAN } else { 1.0 };
        made.event("read", at, &[("path", Value::Text(&path)), ("loss", Value::F64(loss))]);
    }
    let made = made.finish();
    let said = made.output(&SECTION);
    assert!(said.contains("1 not finite"), "{said}");
    assert!(said.contains("/data/0000, /data/0001, /data/0002 … and over 997 more"), "{said}");
    assert!(said.contains("others may be as common"), "{said}");
    let json = made.json(&SECTION);
    let rows = json["rows"].as_array().unwrap();
    let path = rows.iter().find(|row| row["field"] == "path").unwrap();
    assert_eq!((&path["count"], &path["distinct_is_exact"]), (&3_000.into(), &false.into()));
    let loss = rows.iter().find(|row| row["field"] == "loss").unwrap();
    assert_eq!((&loss["mean"], &loss["not_finite"]), (&1.into(), &1.into()));
}

#[test]
fn filters_choose_and_more_rows_are_counted() {
    let mut made = Made::new();
    for at in 0..40_u64 {
        let name = format!("event.{at:02}");
        made.event(&name, at * MS, &[("at", Value::U64(at))]);
    }
    let made = made.finish();
    let said = made.output(&SECTION);
    assert!(said.contains("event.24") && !said.contains("event.25"), "{said}");
    assert!(said.contains("… 15 more rows: --limit 0"), "{said}");
    let all = made.output(&[&SECTION[..], &["--all"]].concat());
    assert!(all.contains("event.39"), "{all}");
    let few = made.output(&[&SECTION[..], &["--from", "38500us"]].concat());
    assert!(few.contains("event.39") && !few.contains("event.38"), "{few}");
}

#[test]
fn traces_without_fields_have_no_such_section() {
    let dir = tempfile::tempdir().unwrap();
    making::tokens(&dir.path().join("run.trace"));
    let report = analyze(dir.path(), &["report", "run.trace"]).clean();
    assert!(!report.contains("Fields"), "{report}");
    let json = analyze(dir.path(), &["report", "run.trace", "--format", "json"]).json();
    assert!(json["sections"]["fields"].is_null(), "{json}");
}
