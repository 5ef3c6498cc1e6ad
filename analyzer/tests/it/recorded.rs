//! What the recorder's vocabulary records is what the reports look for.

use std::time::Duration;

use ringscope::{
    CallSite, DeviceQueue, MetricEvent, counter, gauge, metric_kind, name, record_metric, span,
    structure_span, vocabulary::*,
};
use ringscope_format::{Kind, Record, ValueType};
use serde_json::{Value, json};

use crate::made::{Finished, MS, Made};

const US: Duration = Duration::from_micros(1);

fn row<'a>(rows: &'a Value, key: &str, is: &str) -> &'a Value {
    let found = rows.as_array().and_then(|rows| rows.iter().find(|row| row[key] == is));
    found.unwrap_or_else(|| panic!("{key} = {is}: {rows:#}"))
}

#[test]
fn memory_is_read_as_it_was_recorded() {
    let trace = Finished::recorded(|| {
        for id in 0..4_u64 {
            let allocate = Allocate::new().bytes(1 << 20).kind(name!("scratch")).device(0);
            allocate.id(id).record();
        }
        Release::new().id(3_u64).record();
        record_metric!(MetricEvent::DeviceMemory { device: 0, allocated: 3 << 20, total: 8 << 20 });
        MemoryPool::new().pool("arena").capacity(4_096).used(1_024).record();
        KvCacheGrow::new().bytes(512).cache("layer 0").record();
        MemoryPhase::new().phase(name!("prefill")).delta(-2_048).record();
        for block in 0..3 {
            let path = format!("model.blocks.{block}.q");
            WeightTensor::new().path(&path).bytes(64).dtype(name!("f16")).record();
        }
        let queue = DeviceQueue::named("GPU 0 queue 0");
        DeviceCopy::new().queue(queue).bytes(4_096).direction("h2d").duration(US).record();
    });
    let json = trace.json(&["memory"]);
    let sections = &json["sections"];
    let scratch = row(&json["rows"], "kind", "scratch");
    assert_eq!(scratch["outstanding_bytes"], json!(3 << 20), "{json:#}");
    assert_eq!((&scratch["allocations"], &scratch["releases"]), (&json!(4), &json!(1)));
    let uses = sections["use"].as_array().unwrap();
    let of = |what: &str| uses.iter().find(|row| row["what"].as_str().unwrap().contains(what));
    assert_eq!(of("device 0").unwrap()["last_bytes"], json!(3 << 20), "{json:#}");
    assert!(of("pool arena").is_some() && of("kv cache").is_some(), "{json:#}");
    let text = trace.output(&["memory"]);
    for expected in ["prefill", "-2.0 KiB", "0..2 (3)", "copy"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn calls_pools_and_errors_are_read_as_they_were_recorded() {
    let trace = Finished::recorded(|| {
        let mut call = Call::new().function("embed").span();
        call.set(|call| call.queue(2 * US).encode(US).run(4 * US).decode(US).result("done"));
        call.fail();
        drop(call);
        let exception = CallException::new().kind("ValueError").payload("shape [2] does not fit");
        exception.library("numpy").function("dot").arguments("[[1], [2]]").record();
        PoolDepth::new().depth(3).pool("python").record();
        PoolCheckout::new().pool("python").queue(5 * US).record();
        PoolCheckin::new().pool("python").busy(7 * US).record();
        PoolSize::new().pool("python").size(4).idle(1).busy(3).record();
        WorkerCrash::new().pool("python").reason("killed").record();
        CircuitOpened::new().pool("python").failures(5).record();
    });
    let calls = trace.json(&["calls"])["rows"].clone();
    let embed = row(&calls, "function", "embed");
    assert_eq!((&embed["count"], &embed["errors"]), (&json!(1), &json!(1)));
    assert_eq!((&embed["queue_ns"], &embed["run_ns"]), (&json!(2_000), &json!(4_000)));
    let pools = trace.json(&["pool"])["rows"].clone();
    let python = row(&pools, "pool", "python");
    assert_eq!((&python["wait_max_ns"], &python["busy_ns"]), (&json!(5_000), &json!(7_000)));
    assert_eq!((&python["size_max"], &python["depth_max"]), (&json!(4), &json!(3)));
    assert_eq!((&python["crashes"], &python["circuits_opened"]), (&json!(1), &json!(1)));
    let errors = trace.json(&["errors"])["rows"].clone();
    let exception = row(&errors, "name", "call.exception");
    assert_eq!(exception["kind"], "ValueError");
    let payload = exception["payload"].as_str().unwrap();
    assert!(payload.contains("payload=shape [2] does not fit"), "{payload}");
    row(&errors, "name", "call");
    row(&errors, "name", "worker.crash");
}

#[test]
fn training_and_caches_are_read_as_they_were_recorded() {
    let trace = Finished::recorded(|| {
        for step in 1..=8_u64 {
            let mut span = TrainingStep::new().step(step).steps(8).epoch(step / 5).span();
            span.set(|it| it.loss(4.0 / step as f64).learning_rate(1e-3).tokens(1_000));
        }
        TrainingEpoch::new().epoch(0).loss(0.5).record();
        drop(Checkpoint::new().path("a.safetensors").bytes(1 << 20).span());
        Evaluation::new().dataset("test").loss(0.25).record();
        DatasetLoad::new().dataset("train").samples(100).bytes(4_000).record();
        DatasetBatch::new().dataset("train").samples(10).record();
        Serialize::new().direction("write").format("gguf").bytes(64).record();
        drop(Inference::new().model("tiny").tokens(12).span());
        for hit in [true, true, true, false] {
            CacheAccess::new().cache(name!("kernels")).key("sdpa").hit(hit).bytes(64).record();
        }
        CacheHit::new().cache("prompts").record();
        CacheMiss::new().cache("prompts").record();
    });
    let training = trace.json(&["training"]);
    let steps = &training["rows"][0];
    assert_eq!((&steps["steps"], &steps["loss_last"]), (&json!(8), &json!(0.5)), "{training:#}");
    let beside = &training["sections"]["beside"];
    assert_eq!(row(beside, "name", "checkpoint")["bytes"], json!(1 << 20), "{training:#}");
    assert_eq!(row(beside, "name", "inference")["tokens"], 12);
    for name in ["training.epoch", "evaluation", "dataset.load", "dataset.batch", "serialize"] {
        row(beside, "name", name);
    }
    let caches = trace.json(&["caches"])["rows"].clone();
    assert_eq!(row(&caches, "cache", "kernels")["hit_percent"], 75.0);
    assert_eq!(row(&caches, "cache", "prompts")["hit_percent"], 50.0);
}

#[test]
fn kernels_are_read_as_they_were_recorded() {
    let trace = Finished::recorded(|| {
        let (sdpa, queue) = (CallSite::named("sdpa_f16"), DeviceQueue::named("GPU 0 queue 0"));
        for _ in 0..5 {
            let dispatched = KernelDispatched::new().kernel(sdpa).op("attention");
            let link = dispatched.groups([8, 4, 1]).threads([32, 1, 1]).record();
            std::thread::sleep(Duration::from_millis(1));
            let done = KernelCompleted::new().kernel(sdpa).queue(queue).link(link).device(0);
            done.duration(100 * US).source(name!("timestamps")).record();
        }
        DeviceFill::new().queue(queue).bytes(64).duration(US).record();
    });
    let rows = trace.json(&["kernels"])["rows"].clone();
    let sdpa = row(&rows, "name", "sdpa_f16");
    assert_eq!(sdpa["count"], 5, "{rows:#}");
    let mean = sdpa["mean_ns"].as_f64().unwrap();
    assert!((mean / 1e5 - 1.0).abs() < 0.01, "{mean}");
    if cfg!(not(feature = "sql")) {
        return;
    }
    // Launched a millisecond before it began, by the thread that recorded it.
    let query = "SELECT COUNT(*) AS n, MIN(queue_delay_ns) AS delay_ns, MIN(queue) AS queue \
                 FROM kernels WHERE launch_ns IS NOT NULL";
    let launched = trace.json(&["sql", query])["rows"][0].clone();
    assert_eq!((&launched["n"], &launched["queue"]), (&json!(5), &json!("GPU 0 queue 0")));
    assert!(launched["delay_ns"].as_f64().unwrap() >= 9e5, "{launched}");
}

metric_kind! {
    /// Of no report.
    struct ShardMoved<'a> = "shard.moved" {
        host: Label<'a> = "host",
        bytes: u64 = "bytes",
    }
}

#[test]
fn structure_counters_and_anything_else_are_in_the_overview() {
    let trace = Finished::recorded(|| {
        let run = CorrelationId::random();
        let _workflow = structure_span!(Structure::Workflow, "nightly", run);
        structure_span!(Structure::Stage, "tokenize", run).exception("IoError", "corpus.txt");
        drop(structure_span!(Structure::ForwardPass, "forward"));
        let _plain = span!("plain");
        TensorOp::new().op("matmul").elements(8).record();
        KernelCompiled::new().kernel("sdpa").time(US).hit(true).record();
        CommandBufferQueued::new().queue(US).record();
        drop(DeviceSync::new().device(0).span());
        ShardMoved::new().host("b7").bytes(7).record();
        ShardMoved::new().host("b8").bytes(8).record();
        counter!("tokens", 5_u64);
        gauge!("depth", 0.5);
    });
    let report = trace.json(&["report", "--all"]);
    let sections = &report["sections"];
    for name in ["nightly", "tokenize", "forward", "device.sync", "plain"] {
        row(&sections["spans"], "name", name);
    }
    assert_eq!(row(&sections["events"], "name", "shard.moved")["count"], 2, "{report:#}");
    for name in ["tensor.op", "kernel.compiled", "command_buffer.queued"] {
        assert_eq!(row(&sections["events"], "name", name)["count"], 1);
    }
    row(&sections["counters"], "name", "tokens");
    row(&sections["errors"], "name", "structure.exception");
    if cfg!(not(feature = "sql")) {
        return;
    }
    let structure = "SELECT r.name, f.text FROM records r JOIN fields f ON f.record = r.record \
                     WHERE f.key = 'structure' AND r.dur_ns IS NOT NULL";
    let rows = trace.json(&["sql", structure])["rows"].clone();
    assert_eq!(row(&rows, "name", "nightly")["text"], "workflow");
    assert_eq!(row(&rows, "name", "tokenize")["text"], "stage");
}

#[test]
fn kinds_of_a_newer_recorder_are_listed_and_summed() {
    let mut made = Made::new();
    for at in 0..3 {
        made.put(Record::timed(Kind(0x2A), 0, made.main, at * 10 * MS, MS), "newer.span", &[]);
        let point = Record::point(Kind(0x6A), 0, made.main, at * 10 * MS, (ValueType::U64, at + 1));
        made.put(point, "newer.point", &[]);
    }
    let trace = made.finish();
    let report = trace.json(&["report"]);
    let span = row(&report["sections"]["spans"], "name", "newer.span");
    assert_eq!((&span["count"], &span["total_ns"]), (&json!(3), &json!(3 * MS)), "{report:#}");
    let point = row(&report["sections"]["events"], "name", "newer.point");
    assert_eq!((&point["count"], &point["sum"]), (&json!(3), &json!(6)), "{report:#}");
}
