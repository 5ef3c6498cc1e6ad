//! The vocabulary, recorded and read back: names, keys and types are those of the document.

use std::{collections::BTreeSet, thread, time::Duration};

use ringscope::{
    CallSite, DeviceQueue, Kind, MetricEvent, Name, counter, metric_kind, name, record_metric,
    span, structure_span, vocabulary::*,
};
use ringscope_format::{LinkRole, OwnedValue, Status, TrackKind};

use crate::child::child;

const MICROSECOND: Duration = Duration::from_micros(1);

/// Every kind, with every field.
fn everything() {
    let (kernel, queue) = (CallSite::named("sdpa"), DeviceQueue::named("GPU 0 queue 0"));
    record_metric!(MetricEvent::KernelCompiled { kernel: "sdpa", time: MICROSECOND, hit: false });
    drop(DeviceSync::new().device(0).span());
    let queued = CommandBufferQueued::new().device(0).buffer(7).queue(MICROSECOND);
    record_metric!(MetricEvent::from(queued.schedule(MICROSECOND)));
    DeviceError::new().device(0).kind("command buffer").payload("timeout").record();
    let dispatched = KernelDispatched::new().kernel(kernel).op("attention").device(0);
    let link = dispatched.groups([8, 4, 1]).threads([32, 1, 1]).record();
    let completed = KernelCompleted::new().kernel(kernel).queue(queue).link(link).op("attention");
    let completed = completed.backend(name!("metal")).source(name!("timestamps")).parent("block");
    completed.device(0).duration(40 * MICROSECOND).ago(MICROSECOND).record();
    let copy = DeviceCopy::new().queue(queue).bytes(4_096).direction("h2d").device(0);
    copy.duration(MICROSECOND).record();
    KernelUntimed::new().device(0).count(2).reason("device lost").record();
    DeviceFill::new().queue(queue).bytes(64).device(0).duration(MICROSECOND).record();
    let found = DeviceFound::new().device("Apple M4").backend("metal").family("Apple 9");
    found.unified(true).total(1_u64 << 34).record();
    let state = DeviceState::new().device("Apple M4").utilization_percent(87.0).memory_in_use(9);
    let state = state.power_watts(12.5).temperature_celsius(61.0).thermal_state(1).resets(0);
    state.low_power(false).record();

    let mut call = Call::new().function("embed").span();
    call.set(|call| call.queue(MICROSECOND).encode(MICROSECOND).run(MICROSECOND));
    call.set(|call| call.decode(MICROSECOND).result("done"));
    call.succeed();
    drop(call);
    let exception =
        CallException::new().kind("ValueError").payload("no").stack("at f").library("np");
    exception.function("f").module("m").arguments("[1]").record();
    PoolDepth::new().depth(3).pool("python").record();
    PoolCheckout::new().pool("python").queue(MICROSECOND).worker(1).record();
    PoolCheckin::new().pool("python").busy(MICROSECOND).worker(1).record();
    PoolSize::new().pool("python").size(4).idle(1).busy(3).record();
    WorkerCrash::new().pool("python").worker(1).reason("killed").record();
    CircuitOpened::new().pool("python").failures(5).record();

    let allocate = Allocate::new().bytes(1_024).kind("scratch").device("cpu").scope("request");
    allocate.id(7_u64).record();
    let release = Release::new().bytes(1_024).kind("scratch").device("cpu").scope("request");
    release.id(7_u64).record();
    DeviceMemory::new().device(0).allocated(1).reserved(2).free(3).total(5).record();
    MemoryPool::new().pool("arena").capacity(2).used(1).record();
    KvCacheGrow::new().bytes(512).cache("layer 0").record();
    MemoryPhase::new().phase("prefill").delta(-512).record();
    let path = format!("model.blocks.{}.q", 0);
    WeightTensor::new().path(&path).bytes(64_usize).dtype("f16").device("cpu").record();

    let op = TensorOp::new().op("matmul").shapes("[2, 3] [3, 4]").dtype("f32").device("cpu");
    op.elements(8).record();
    drop(Inference::new().model("tiny").batch(1).tokens(12).tokens_per_second(3.5).span());
    let step = TrainingStep::new().step(1).steps(2).epoch(0).loss(0.5).learning_rate(1e-3_f32);
    step.gradient_norm(1.5).tokens(128).samples(4).record();
    TrainingEpoch::new().epoch(0).loss(0.5).record();
    Checkpoint::new().path("a.safetensors").bytes(64).step(1).record();
    Evaluation::new().dataset("test").loss(0.25).step(1).record();
    DatasetLoad::new().dataset("train").samples(100).bytes(4_000).record();
    DatasetBatch::new().dataset("train").samples(10).bytes(400).record();
    Serialize::new().direction("write").format("gguf").bytes(64).record();

    CacheAccess::new().cache("kernels").key("sdpa").hit(true).bytes(64).record();
    CacheHit::new().cache("kernels").key("sdpa").bytes(64).record();
    CacheMiss::new().cache("kernels").key("sdpa").bytes(64).record();

    for what in [Structure::Workflow, Structure::ForwardPass, Structure::Block, Structure::Phase] {
        drop(structure_span!(what, "part", CorrelationId::random()));
    }
    structure_span!(Structure::Stage, "part").exception("IoError", "no such file");
    let run = CorrelationId::random();
    let (structure, name) = (Structure::Workflow, "nightly");
    record_metric!(MetricEvent::StructureStarted { structure: structure, name: name, run: run });
    StructureException::new().structure(structure).name(name).kind("E").payload("no").record();
    StructureStopped::new().structure(structure).name(name).result("failed").run(run).record();
}

const DOCUMENT: &str = include_str!("../../../format-spec/VOCABULARY.md");

#[test]
fn every_name_and_key_is_in_the_document_and_every_name_of_the_document_is_recorded() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        everything();
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let own = ["sdpa", "part", "copy", "fill"];
    let mut names = BTreeSet::new();
    for event in &told.events {
        let documented = DOCUMENT.contains(&format!("`{}`", event.name));
        assert!(own.contains(&event.name) || documented, "{}", event.name);
        names.insert(event.name);
        for (key, _) in &event.fields {
            let bare = key.strip_suffix("_ns").unwrap_or(key);
            let known = [*key, bare].iter().any(|key| DOCUMENT.contains(&format!("`{key}`")));
            assert!(known, "{key} of {}", event.name);
        }
    }
    // Names stand in the first column of tables whose second is the kind of record.
    let documented = DOCUMENT.lines().filter(|line| {
        let second = line.split('|').nth(2).unwrap_or_default().trim();
        ["event", "span", "gauge", "error"].iter().any(|kind| second.starts_with(kind))
    });
    for line in documented {
        let first = line.split('|').nth(1).unwrap_or_default();
        for name in first.split('`').skip(1).step_by(2) {
            assert!(names.contains(name), "{name} is documented and cannot be recorded");
        }
    }
    assert_eq!(told.events.len(), 53, "{names:?}");
}

#[test]
fn parts_of_a_program_that_end_elsewhere_are_told_by_events_of_their_run() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (run, other) = (CorrelationId::random(), CorrelationId::random());
        scene.say("run", run);
        scene.say("other", other);
        StructureStarted::new().structure(Structure::Stage).name("tokenize").run(run).record();
        let _working = other.enter();
        // Of its own run, and not of the one that the thread works for; that is so afterwards.
        StructureStopped::new().structure(Structure::Stage).name("tokenize").run(run).record();
        StructureException::new().kind("IoError").payload("no such file").record();
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = end.trace();
    let run_of = |name: &str| format!("{:032x}", told.only(name).links[0].id);
    assert_eq!(run_of("structure.started"), end.said("run"));
    assert_eq!(run_of("structure.stopped"), end.said("run"));
    assert_eq!(run_of("structure.exception"), end.said("other"));
    let Some(&OwnedValue::Name(stage)) = told.only("structure.started").field("structure") else {
        panic!("no structure")
    };
    assert_eq!(told.trace.names().get(stage), Some("stage"));
    assert_eq!(told.only("structure.exception").kind, Kind::ERROR);
}

#[test]
fn a_metric_can_be_named_by_any_path() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        use ringscope::vocabulary;
        record_metric!(ringscope::MetricEvent::Allocate { bytes: 1, kind: "scratch" });
        record_metric!(::ringscope::MetricEvent::Allocate { bytes: 2 });
        record_metric!(vocabulary::MetricEvent::Allocate { bytes: 3 });
        record_metric!(::ringscope::vocabulary::MetricEvent::PoolDepth { depth: 4 });
        let metric = vocabulary::CacheHit::new().bytes(5);
        record_metric!(metric);
        record_metric!(ringscope::vocabulary::CacheMiss::new().bytes(6));
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let bytes: Vec<u64> =
        told.named("memory.allocate").iter().map(|it| it.number("bytes")).collect();
    assert_eq!((bytes, told.events.len()), (vec![1, 2, 3], 6));
}

#[test]
fn values_have_their_types_and_what_is_not_given_is_not_there() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let given: Option<u64> = None;
        Allocate::new().bytes(-5).kind(name!("scratch")).id(given).device(2).record();
        MemoryPhase::new().phase(Name::of("prefill")).delta(-512).record();
        TrainingStep::new().loss(f64::NAN).record();
        let long = "x".repeat(2_000);
        CallException::new().kind("E").payload(&long).arguments("[1]").record();
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let allocate = told.only("memory.allocate");
    assert_eq!(allocate.field("bytes"), Some(&OwnedValue::U64(0)));
    assert_eq!(allocate.field("device"), Some(&OwnedValue::U64(2)));
    assert_eq!(allocate.field("id"), None);
    let Some(OwnedValue::Name(kind)) = allocate.field("kind") else { panic!("{allocate:?}") };
    assert_eq!(told.trace.names().get(*kind), Some("scratch"));
    assert_eq!(told.only("memory.phase").field("delta"), Some(&OwnedValue::I64(-512)));
    let loss = told.only("training.step").field("loss");
    assert!(matches!(loss, Some(OwnedValue::F64(loss)) if loss.is_nan()), "{loss:?}");
    let error = told.only("call.exception");
    assert_eq!((error.kind, error.status), (Kind::ERROR, Status::ERROR));
    let payload = error.field("payload");
    let long = OwnedValue::Text { text: "x".repeat(2_000), cut: false };
    assert_eq!(payload, Some(&long));
    assert!(matches!(error.field("arguments"), Some(OwnedValue::Text { cut: false, .. })));
}

#[test]
fn the_state_of_a_device_is_a_gauge_for_every_figure_that_is_known() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let power: Option<f64> = None;
        let state = DeviceState::new().device(name!("Apple M4")).utilization_percent(87.5);
        state.power_watts(power).low_power(true).record();
        DeviceState::new().thermal_state(2).record();
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let names: Vec<&str> = told.events.iter().map(|event| event.name).collect();
    let expected = ["device.utilization_percent", "device.low_power", "device.thermal_state"];
    assert_eq!(names, expected);
    assert!(told.events.iter().all(|event| event.kind == Kind::GAUGE));
    let [utilization, low_power, thermal] = &told.events[..] else { panic!("three of them") };
    assert_eq!(utilization.value, Some(OwnedValue::F64(87.5)));
    assert_eq!(low_power.value, Some(OwnedValue::U64(1)));
    assert_eq!(thermal.value, Some(OwnedValue::U64(2)));
    assert!(matches!(utilization.field("device"), Some(OwnedValue::Name(_))));
    assert_eq!(thermal.field("device"), None);
}

#[test]
fn a_request_is_followed_across_threads_and_left_behind_with_its_guard() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let request = CorrelationId::random();
        scene.say("request", request);
        let work = move |key: &'static str| {
            let working = request.enter();
            assert_eq!(CorrelationId::current(), Some(request));
            CacheHit::new().key(key).record();
            drop(Call::new().function(key).span());
            drop(working);
            assert_eq!(CorrelationId::current(), None);
            CacheMiss::new().key(key).record();
        };
        work("here");
        thread::spawn(move || work("there")).join().unwrap();
        recorder.finish().unwrap();
    });
    let end = end.run().succeeded();
    let told = end.trace();
    for event in &told.events {
        let ids: Vec<String> = event.links.iter().map(|link| format!("{:032x}", link.id)).collect();
        if event.name == "cache.miss" {
            assert!(ids.is_empty());
        } else {
            assert_eq!(ids, [end.said("request")], "{event:?}");
            assert_eq!(event.links[0].role, LinkRole::Request);
        }
    }
    let tracks: BTreeSet<u32> = told.named("call").iter().map(|call| call.track).collect();
    assert_eq!(tracks.len(), 2);
}

#[test]
fn ids_are_random_and_never_counted_up() {
    child(|_| {
        let draw = || (0..1_000).map(|_| CorrelationId::random().as_u128()).collect::<Vec<_>>();
        let mut all = draw();
        all.extend(thread::spawn(draw).join().unwrap());
        let steps: BTreeSet<u128> =
            all.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        assert_eq!(steps.len(), all.len() - 1, "the same step twice");
        // Of 2,000 random ids each bit is set in about half.
        for bit in 0..128 {
            let set = all.iter().filter(|id| *id >> bit & 1 == 1).count();
            assert!((800..1_200).contains(&set), "bit {bit} is set in {set}");
        }
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    })
    .run()
    .succeeded();
}

#[test]
fn work_of_devices_is_on_their_own_line_of_time_and_tied_to_its_launch() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let (kernel, queue) = (CallSite::named("sdpa"), DeviceQueue::named("GPU 0 queue 0"));
        assert!(std::ptr::eq(queue, DeviceQueue::named("GPU 0 queue 0")));
        let _span = span!("forward");
        let link = KernelDispatched::new().kernel(kernel).groups([8, 4, 1]).record();
        thread::sleep(Duration::from_millis(2));
        let done = KernelCompleted::new().kernel(kernel).queue(queue).link(link);
        done.duration(Duration::from_millis(1)).record();
        // One that is met only later is described where it is used.
        assert!(recorder.flush());
        let later = DeviceQueue::named("GPU 1 queue 0");
        KernelCompleted::new().kernel(kernel).queue(later).record();
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    let [launch, kernel, later] = told.named("sdpa")[..] else { panic!("three of them") };
    assert_eq!((launch.kind, kernel.kind), (Kind::LAUNCH, Kind::KERNEL));
    assert_eq!(launch.number("grid_x"), 8);
    assert_eq!(told.thread_of(kernel), "GPU 0 queue 0");
    assert_eq!(told.thread_of(later), "GPU 1 queue 0");
    let kinds = |track| told.trace.tracks().iter().find(|it| it.id == track).map(|it| it.kind);
    assert_eq!(kinds(kernel.track), Some(TrackKind::GpuQueue));
    assert!(launch.start < kernel.start && kernel.depth == 0 && launch.depth == 1);
    let took = told.trace.clock().ns(kernel.end - kernel.start);
    assert!((took / 1e6 - 1.0).abs() < 0.01, "{took} ns");
}

metric_kind! {
    /// A kind that nobody has heard of.
    struct ShardMoved<'a> = "shard.moved" {
        host: Label<'a> = "host",
        waited: Duration = "waited_ns",
    }
}

#[test]
fn kinds_of_ones_own_record_like_the_others() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        record_metric!(ShardMoved::new().host("b7").waited(MICROSECOND));
        let mut moving = ShardMoved::new().span();
        moving.set(|shard| shard.host("b8"));
        moving.fail();
        drop(moving);
        counter!("shards", 1_u64);
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    let [point, span] = told.named("shard.moved")[..] else { panic!("two of them") };
    assert_eq!(point.number("waited_ns"), 1_000);
    assert_eq!((span.kind, span.status), (Kind::SPAN, Status::ERROR));
    assert!(matches!(span.field("host"), Some(OwnedValue::Text { text, .. }) if text == "b8"));
}
