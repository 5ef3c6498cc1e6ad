//! Reports over vocabularies: made traces, whole outputs.

use std::collections::BTreeMap;

use ringscope_format::{Kind, Record, Status, Value, ValueType};

use crate::made::{Finished, MS, Made};

/// Leading and trailing line breaks are for the eye.
fn assert_prints(trace: &Finished, arguments: &[&str], expected: &str) {
    let output = trace.output(arguments);
    assert_eq!(output.trim_end(), expected.trim_matches('\n').trim_end(), "\n{output}");
}

pub(crate) fn memory_trace() -> Finished {
    let mut made = Made::new();
    let mib = 1_u64 << 20;
    made.reading(Kind::GAUGE, "process.resident_bytes", 0, 100 * mib);
    for (block, bytes) in [(0, 4), (1, 4), (2, 4)] {
        let path = format!("model.blocks.{block}.attention");
        let fields = [
            ("path", Value::Text(&path)),
            ("bytes", Value::U64(bytes * mib)),
            ("dtype", Value::Text("f16")),
        ];
        made.event("memory.weights", 1, &fields);
    }
    let embed = [("path", Value::Text("model.embed")), ("bytes", Value::U64(20 * mib))];
    made.event("memory.weights", 2, &embed);
    for step in 0..16_u64 {
        let at = step * MS + 10;
        let scratch = [
            ("bytes", Value::U64(8 * mib)),
            ("kind", Value::Text("scratch")),
            ("device", Value::U64(0)),
            ("id", Value::U64(step)),
        ];
        made.event("memory.allocate", at, &scratch);
        let kept = [
            ("bytes", Value::U64(mib)),
            ("kind", Value::Text("tensor")),
            ("device", Value::Text("cpu")),
            ("scope", Value::Text("request")),
        ];
        made.event("memory.allocate", at + 1, &kept);
        made.event("kv_cache.grow", at + 2, &[("bytes", Value::U64(mib / 2))]);
        let device = [
            ("device", Value::U64(0)),
            ("allocated", Value::U64((8 + step) * mib)),
            ("total", Value::U64(64 * mib)),
        ];
        made.event("memory.device", at + 3, &device);
        let pool = [
            ("pool", Value::Text("arena")),
            ("used", Value::U64((step % 4) * mib)),
            ("capacity", Value::U64(4 * mib)),
        ];
        made.event("memory.pool", at + 4, &pool);
        made.event("memory.release", at + MS / 2, &[("id", Value::U64(step))]);
    }
    let phase = [("phase", Value::Text("prefill")), ("delta", Value::I64(-(mib as i64)))];
    made.event("memory.phase", 15 * MS, &phase);
    let mut copy = Record::timed(Kind::COPY, 0, made.queue, 15 * MS, MS);
    copy.link = 1;
    made.put(copy, "host to device", &[("bytes", Value::U64(10 * mib))]);
    made.reading(Kind::GAUGE, "process.resident_bytes", 16 * MS, 180 * mib);
    made.reading(Kind::GAUGE, "process.anonymous_bytes", 16 * MS, 150 * mib);
    made.finish()
}

#[test]
fn memory_tells_what_is_outstanding_and_what_nothing_accounts_for() {
    assert_prints(&memory_trace(), &["memory"], "
Allocations
  kind     device  scope    allocations  releases  allocated  outstanding      peak   peak at   growth/s  leak     outstanding over time
  tensor   cpu     request           16         0   16.0 MiB     16.0 MiB  16.0 MiB  15.00 ms  875.0 MiB  suspect  ▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇█████
  scratch  0                         16        16  128.0 MiB      0.0 B     8.0 MiB  10.00 ns    0.0 B             ██▁██▁██▁██▁██▁██▁██▁██▁
  all                                32        16  144.0 MiB     16.0 MiB  24.0 MiB  15.00 ms
  suspect: in each eighth of the trace the least outstanding is never less than before, and more at least 4 times

Devices, pools and caches
  what                    first      last      peak   peak at        of  peak %  over time
  device 0 allocated    8.0 MiB  23.0 MiB  23.0 MiB  15.00 ms  64.0 MiB    35.9  ▃▄▄▄▄▄▅▅▅▅▆▆▆▆▆▇▇▇▇█████
  kv cache            512.0 KiB   8.0 MiB   8.0 MiB  15.00 ms                    ▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇█████
  pool arena            0.0 B     3.0 MiB   3.0 MiB   3.00 ms   4.0 MiB    75.0  ▁▃▃▆██▁▃▃▆██▁▃▃▆██▁▃▃▆██

Host memory of the process
   baseline       last       peak  anonymous    growth  accounted for  not accounted for  resident over time
  100.0 MiB  180.0 MiB  180.0 MiB  150.0 MiB  80.0 MiB       48.0 MiB           32.0 MiB  ▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅█
  growth since the first reading; accounted for: allocations and weights of the host that are outstanding at the end

Change by phase
  phase    count    change   largest
  prefill      1  -1.0 MiB  -1.0 MiB

Weights
  part                  bytes      %  tensors  types
  all                32.0 MiB  100.0        4  f16
    model            32.0 MiB  100.0        4  f16
      embed          20.0 MiB   62.5        1
      blocks         12.0 MiB   37.5        3  f16
        0..2 (3)     12.0 MiB   37.5        3  f16
          attention  12.0 MiB   37.5        3  f16

Bytes moved
  name            kind  count     bytes     time  per second     best
  host to device  copy      1  10.0 MiB  1.00 ms     9.8 GiB  9.8 GiB
");
}

pub(crate) fn error_trace() -> Finished {
    let mut made = Made::new();
    for at in 1..=3 {
        let error = Record::point(Kind::ERROR, 0, made.main, at * MS, (ValueType::None, 0));
        let fields = [
            ("kind", Value::Text("ValueError")),
            ("attempt", Value::U64(at)),
            ("payload", Value::Text("shape [2, 3] does not fit")),
        ];
        made.put(error, "call.exception", &fields);
    }
    made.span("load", 0, MS, Status::OK, &[]);
    made.span("load", 4 * MS, MS, Status::ERROR, &[]);
    made.finish()
}

#[test]
fn errors_are_counted_by_kind_and_failed_spans_are_among_them() {
    assert_prints(&error_trace(), &["errors"], "
Errors
  name            kind        what   count  first at  last at  the last one said
  call.exception  ValueError  error      3   1.00 ms  3.00 ms  attempt=3  payload=shape [2, 3] does not fit
  load                        span       1   4.00 ms  4.00 ms
");
}

pub(crate) fn counter_trace() -> Finished {
    let mut made = Made::new();
    for step in 0..10 {
        made.reading(Kind::COUNTER, "tokens", step * 100 * MS, 5);
        made.reading(Kind::GAUGE, "queue_bytes", step * 100 * MS + 1, 1_024 * (step % 3));
        made.reading(Kind::GAUGE, "recorder.rings", step * 100 * MS + 2, 1);
    }
    made.span("end", 0, 1_000 * MS, Status::OK, &[]);
    made.finish()
}

#[test]
fn counters_of_the_program_come_before_the_recorders_own() {
    assert_prints(&counter_trace(), &["counters"], "
Counters
  name         kind     readings  sum  per second      min       mean      max     last  over time
  queue_bytes  gauge          10                   0.0 B    921.6 B    2.0 KiB  0.0 B    ▁▁▅▅███▁▁▅▅▅██▁▁▅▅▅██▁▁▁
  tokens       counter        10   50          50        5          5        5           █▁█▁█▁▁█▁█▁▁█▁█▁█▁▁█▁█▁▁

The recorder's readings of the process and of itself
  name            kind   readings  min  mean  max  last  over time
  recorder.rings  gauge        10    1     1    1     1  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
");
}

pub(crate) fn call_trace() -> Finished {
    let mut made = Made::new();
    for at in 0..4_u64 {
        let fields = [
            ("function", Value::Text(if at == 3 { "embed" } else { "generate" })),
            ("queue", Value::Ticks(MS)),
            ("encode", Value::Ticks(MS / 2)),
            ("run", Value::Ticks(6 * MS)),
            ("decode", Value::Ticks(MS / 2)),
        ];
        let status = if at == 0 { Status::ERROR } else { Status::OK };
        made.span("call", at * 20 * MS, 10 * MS, status, &fields);
    }
    made.finish()
}

#[test]
fn calls_are_split_into_queue_encode_run_and_decode() {
    assert_prints(&call_trace(), &["calls"], "
Calls
  function  count  errors     total      mean       p50       p95       p99       max  queue %  encode %  run %  decode %  other %
  generate      3       1  30.00 ms  10.00 ms  10.00 ms  10.00 ms  10.00 ms  10.00 ms     10.0       5.0   60.0       5.0     20.0
  embed         1       0  10.00 ms  10.00 ms  10.00 ms  10.00 ms  10.00 ms  10.00 ms     10.0       5.0   60.0       5.0     20.0
");
}

/// Some of them told when they were over.
pub(crate) fn told_calls_trace() -> Finished {
    let mut made = Made::new();
    for at in 0..4_u64 {
        let fields = [
            ("function", Value::Text("generate")),
            ("queue_ns", Value::U64(at * MS)),
            ("run", Value::Ticks(4 * MS)),
        ];
        made.event("call", at * 20 * MS, &fields);
    }
    let fields = [("function", Value::Text("generate")), ("run", Value::Ticks(6 * MS))];
    made.span("call", 100 * MS, 10 * MS, Status::ERROR, &fields);
    made.event("call", 120 * MS, &[("function", Value::Text("untimed"))]);
    // Neither of these is one.
    made.reading(Kind::COUNTER, "call", 130 * MS, 1);
    made.reading(Kind::ERROR, "call", 140 * MS, 1);
    made.finish()
}

#[test]
fn calls_that_are_told_when_they_are_over_took_as_long_as_their_parts() {
    assert_prints(
        &told_calls_trace(),
        &["calls", "--percentiles", "50"],
        "
Calls
  function  count  errors     total     mean      p50       max  queue %  run %  other %
  generate      5       1  32.00 ms  6.40 ms  6.00 ms  10.00 ms     18.8   68.8     12.5
  untimed       1       0
",
    );
}

#[test]
fn a_call_is_the_same_to_the_report_however_the_recorder_was_told() {
    use ringscope::{MetricEvent, record_metric, vocabulary::Call};
    let part = std::time::Duration::from_millis;
    let trace = Finished::recorded(|| {
        Call::new().function("short").queue(part(1)).run(part(3)).record();
        record_metric!(MetricEvent::Call { function: "short", run: part(2) });
        Call::new().function("span").span().succeed();
    });
    let rows = trace.json(&["calls"])["rows"].clone();
    let of = |name: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.find(|row| row["function"] == name).unwrap().clone()
    };
    assert_eq!((&of("short")["count"], &of("span")["count"]), (&2.into(), &1.into()));
    assert_eq!(of("short")["total_ns"].as_f64(), Some(6e6));
}

pub(crate) fn pool_trace() -> Finished {
    let mut made = Made::new();
    for at in 0..8_u64 {
        let pool = ("pool", Value::Text("python"));
        let record = Record::point(Kind::GAUGE, 0, made.main, at * MS, (ValueType::U64, at % 4));
        made.put(record, "pool.depth", &[pool]);
        made.event("pool.checkout", at * MS + 1, &[pool, ("queue", Value::Ticks(at * 1_000))]);
        made.event("pool.checkin", at * MS + 2, &[pool, ("busy", Value::Ticks(MS / 2))]);
    }
    let size = [
        ("pool", Value::Text("python")),
        ("size", Value::U64(4)),
        ("idle", Value::U64(1)),
        ("busy", Value::U64(3)),
    ];
    made.event("pool.size", 8 * MS, &size);
    made.event("worker.crash", 8 * MS, &[("pool", Value::Text("python"))]);
    made.finish()
}

#[test]
fn pools_tell_how_long_work_waited() {
    assert_prints(&pool_trace(), &["pool"], "
Worker pools
  pool    checkouts  wait mean      p50      p95      p99      max  check-ins     busy  busy %  size  depth  crashes  depth over time
  python          8    3.50 us  3.50 us  6.65 us  6.93 us  7.00 us          8  4.00 ms    75.0     4      3        1  ▁▁▁▃▃▃▆▆▆███▁▁▁▃▃▃▆▆▆███
  waits are those of checkouts; size, depth: the largest
");
}

fn training_trace() -> Finished {
    let mut made = Made::new();
    for step in 0..8_u64 {
        let fields = [
            ("step", Value::U64(step + 1)),
            ("steps", Value::U64(100)),
            ("epoch", Value::U64(step / 4)),
            ("loss", Value::F64(4.0 / (step + 1) as f64)),
            ("learning_rate", Value::F64(0.001)),
            ("tokens", Value::U64(1_000)),
        ];
        made.span("training.step", step * 100 * MS, 100 * MS, Status::OK, &fields);
    }
    made.span("checkpoint", 800 * MS, 50 * MS, Status::OK, &[("bytes", Value::U64(1 << 20))]);
    made.finish()
}

#[test]
fn training_tells_loss_and_tokens_a_second_by_epoch() {
    assert_prints(
        &training_trace(),
        &["training"],
        "
Training
  steps  step   of  loss first    last   least      rate     a step  tokens/s  loss over time
      8     8  100           4  0.5000  0.5000  0.001000  100.00 ms    10,000  █▄▂▂▁▁▁▁

By epoch
  epoch  steps  step   of  loss first    last   least      rate     a step  tokens/s  loss over time
      0      4     4  100           4       1       1  0.001000  100.00 ms    10,000  █▃▁▁
      1      4     8  100      0.8000  0.5000  0.5000  0.001000  100.00 ms    10,000  █▅▂▁

Around training
  name        count     total      mean       max    bytes
  checkpoint      1  50.00 ms  50.00 ms  50.00 ms  1.0 MiB
",
    );
}

pub(crate) fn cache_trace() -> Finished {
    let mut made = Made::new();
    for at in 0..10_u64 {
        let name = if at < 3 { "cache.miss" } else { "cache.hit" };
        made.event(name, at * MS, &[("cache", Value::Text("kernels"))]);
    }
    let access =
        [("cache", Value::Text("prompts")), ("hit", Value::Bool(true)), ("bytes", Value::U64(512))];
    made.event("cache.access", 5 * MS, &access);
    made.finish()
}

#[test]
fn caches_tell_their_rate_of_hits() {
    assert_prints(
        &cache_trace(),
        &["caches"],
        "
Caches
  cache    accesses  hits  misses  hit %  hit bytes  miss bytes  hit % over time
  kernels        10     7       3   70.0                         ▁▁▁▁▁▁▁▁████████████████
  prompts         1     1       0  100.0  512.0 B                             ███████████
",
    );
}

pub(crate) const REPORTS: [&str; 7] =
    ["memory", "counters", "errors", "calls", "pool", "training", "caches"];

#[test]
fn a_trace_without_the_vocabulary_is_no_error_and_says_what_would_record_it() {
    let mut made = Made::new();
    made.span("work", 0, MS, Status::OK, &[]);
    let trace = made.finish();
    for report in REPORTS {
        let output = trace.output(&[report]);
        assert_eq!(output.lines().count(), 1, "{output}");
        assert!(output.contains("in this trace; "), "{output}");
        assert_eq!(trace.json(&[report])["rows"], serde_json::json!([]));
    }
}

#[test]
fn percentiles_filters_and_columns_are_those_asked_for() {
    let rows = call_trace().json(&["calls", "--percentiles", "99.9", "--to", "50ms"]);
    assert_eq!(rows["rows"].as_array().unwrap().len(), 1);
    assert_eq!(rows["rows"][0]["p99.9_ns"], serde_json::json!(10 * MS));
    assert_eq!(rows["rows"][0]["run_ns"], serde_json::json!(18 * MS));
    let csv = call_trace().output(&["calls", "--format", "csv", "--columns", "function,count"]);
    assert_eq!(csv, "function,count\ngenerate,3\nembed,1\n");
}

#[test]
fn several_traces_are_told_apart() {
    let (one, other) = (cache_trace(), cache_trace());
    let rows = one.json(&["caches", other.path.to_str().unwrap()])["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 4);
    let table = one.output(&["caches", other.path.to_str().unwrap()]);
    assert!(table.lines().nth(1).unwrap().contains("trace"), "{table}");
}

#[test]
fn what_is_released_by_its_id_needs_nothing_else() {
    let rows = memory_trace().json(&["memory"])["rows"].clone();
    let scratch = rows.as_array().unwrap().iter().find(|row| row["kind"] == "scratch").unwrap();
    assert_eq!(scratch["releases"], 16);
    assert_eq!(scratch["outstanding_bytes"], 0);
    assert_eq!(scratch["leak"], serde_json::Value::Null);
}

#[test]
fn ids_are_those_of_a_device_unless_a_release_names_none() {
    let mut made = Made::new();
    let id = ("id", Value::U64(7));
    let on = |device: u64| ("device", Value::U64(device));
    let kind = ("kind", Value::Text("tensor"));
    for (at, bytes) in [(0, 100), (1, 200), (2, 400)] {
        made.event("memory.allocate", at, &[id, on(at), kind, ("bytes", Value::U64(bytes))]);
    }
    made.event("memory.release", 10, &[id, on(0)]);
    // The last one that is left.
    made.event("memory.release", 11, &[id]);
    // Was released already, so its size is not known.
    made.event("memory.release", 12, &[id, on(2), kind]);
    let json = made.finish().json(&["memory"]);
    let rows = json["rows"].as_array().unwrap();
    let figures: BTreeMap<&str, [u64; 3]> = rows
        .iter()
        .map(|row| {
            let keys = ["released_bytes", "outstanding_bytes", "releases"];
            (row["device"].as_str().unwrap(), keys.map(|key| row[key].as_u64().unwrap()))
        })
        .collect();
    let expected = [("0", [100, 0, 1]), ("1", [0, 200, 0]), ("2", [400, 0, 2])];
    assert_eq!(figures, BTreeMap::from(expected), "{json}");
}

#[test]
fn what_is_allocated_once_or_comes_and_goes_is_no_leak() {
    let mut made = Made::new();
    for step in 0..64_u64 {
        let bytes = |bytes| [("bytes", Value::U64(bytes)), ("kind", Value::Text("once"))];
        if step == 3 {
            made.event("memory.allocate", step * MS, &bytes(1 << 20));
        }
        let wave = [("bytes", Value::U64(1_024)), ("kind", Value::Text("wave"))];
        let name = if step % 32 < 16 { "memory.allocate" } else { "memory.release" };
        made.event(name, step * MS, &wave);
    }
    let rows = made.finish().json(&["memory"])["rows"].clone();
    assert!(rows.as_array().unwrap().iter().all(|row| row["leak"].is_null()), "{rows}");
}

#[test]
fn sections_of_the_overview_hold_what_there_is_and_hints_say_what_stands_out() {
    let overview = |trace: &Finished| trace.json(&["report"])["sections"].clone();
    let has = |trace: &Finished| {
        let report = overview(trace);
        ["allocations", "use", "counters", "errors"].map(|key| report.get(key).is_some())
    };
    assert_eq!(has(&memory_trace()), [true, true, false, false]);
    assert_eq!(has(&counter_trace()), [false, false, true, false]);
    assert_eq!(has(&error_trace()), [false, false, false, true]);

    let hints = |trace: &Finished| -> Vec<String> {
        let hints = overview(trace)["hints"].as_array().cloned().unwrap_or_default();
        hints.iter().map(|hint| hint["text"].as_str().unwrap().to_owned()).collect()
    };
    assert!(hints(&memory_trace()).contains(
        &"memory of `tensor, cpu, request` keeps growing, by 875.0 MiB a second: 16.0 MiB outstanding at the end".to_owned()
    ), "{:?}", hints(&memory_trace()));
    assert!(
        hints(&error_trace())
            .contains(&"error `call.exception` happened 3 times, last 3.00 ms in".to_owned()),
        "{:?}",
        hints(&error_trace())
    );
}

#[test]
fn a_counters_rate_is_that_of_the_time_asked_about() {
    let mut made = Made::new();
    for at in 0..=10 {
        made.reading(Kind::COUNTER, "tokens", at * 100 * MS, 10);
    }
    let trace = made.finish();
    let rate = |arguments: &[&str]| {
        let json = trace.json(&[&["counters"], arguments].concat());
        json["rows"][0]["per_second"].as_f64().unwrap()
    };
    assert_eq!(rate(&[]), 110.0);
    assert_eq!(rate(&["--from", "500ms"]), 120.0);
}

#[test]
fn what_is_numbered_is_told_apart_like_what_is_named() {
    let mut made = Made::new();
    let mib = 1_u64 << 20;
    made.reading(Kind::GAUGE, "process.resident_bytes", 0, 100 * mib);
    let weights =
        [("path", Value::Text("a")), ("bytes", Value::U64(mib)), ("device", Value::U64(0))];
    made.event("memory.weights", 1, &weights);
    for cache in 0..2 {
        made.event("cache.access", 2, &[("cache", Value::U64(cache)), ("hit", Value::U64(1))]);
    }
    made.reading(Kind::GAUGE, "process.resident_bytes", MS, 102 * mib);
    let trace = made.finish();
    let host = &trace.json(&["memory"])["sections"]["host"][0];
    assert_eq!(host["accounted_bytes"], 0, "{host}");
    let caches = trace.json(&["caches"]);
    let names: Vec<_> =
        caches["rows"].as_array().unwrap().iter().map(|row| &row["cache"]).collect();
    assert_eq!(names, ["0", "1"]);
}
