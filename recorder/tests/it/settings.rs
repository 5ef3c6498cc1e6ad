//! What the environment and `ringscope.toml` say is done, and what they say wrong is
//! said and does no harm.

use std::{env, ffi::OsStr, fs, os::unix::ffi::OsStrExt, thread, time::Duration};

use ringscope::{
    Builder, CallSite, DeviceQueue, Error, Kind, Level, Recorder, init_from_env, span,
    vocabulary::{KernelCompleted, KernelDispatched},
};

use crate::{
    child::{Child, Scene, child, wait_until},
    posix,
    told::Told,
};

/// A program with that one line in it, in a directory of its own.
fn program(scene: &Scene) {
    env::set_current_dir(scene.path("")).unwrap();
    let recorder = init_from_env();
    scene.say("recording", recorder.is_some());
    scene.say("latency", ringscope::gpu_latency());
    for _ in 0..100 {
        let _span = span!("token");
    }
    let _load = span!("load");
    let kernel = CallSite::named("sdpa");
    let link = KernelDispatched::new().kernel(kernel).record();
    let queue = DeviceQueue::named("GPU 0");
    let done = KernelCompleted::new().kernel(kernel).queue(queue).link(link);
    done.duration(Duration::from_micros(5)).record();
}

/// In the test's own name: that is what its process is told to run.
macro_rules! program {
    () => {
        child(|scene: &Scene| program(scene))
    };
}

#[test]
fn a_program_records_if_the_environment_says_where_to() {
    let program = program!();
    let path = program.path("run.trace");
    let end = program.environment("RINGSCOPE_TRACE", path.display()).run().succeeded();
    let told = end.trace();
    assert_eq!((told.named("token").len(), told.named("sdpa").len()), (100, 2));
    assert_eq!(end.stderr, "");
}

#[test]
fn a_program_that_nobody_wants_recorded_is_not() {
    let end = program!().run().succeeded();
    assert_eq!((end.said("recording").as_str(), end.stderr.as_str()), ("false", ""));
    assert!(end.files(".trace").is_empty());
    let off = program!().environment("RINGSCOPE_TRACE", "run.trace");
    let end = off.environment("RINGSCOPE_LEVEL", "off").run().succeeded();
    assert_eq!(end.said("recording"), "false");
    assert!(end.files(".trace").is_empty());
}

fn with_all_settings(program: Child) -> Child {
    program
        .environment("RINGSCOPE_TRACE", "run.trace")
        .environment("RINGSCOPE_LEVEL", "debug")
        .environment("RINGSCOPE_FILTER", "load=on")
        .environment("RINGSCOPE_SAMPLE", "1/10")
        .environment("RINGSCOPE_MODE", "keep-last:30s")
        .environment("RINGSCOPE_GPU_LATENCY", "0")
}

#[test]
fn every_variable_has_its_effect() {
    let end = with_all_settings(program!()).run().succeeded();
    assert_eq!(end.stderr, "");
    let told = end.trace();
    assert_eq!((told.named("token").len(), told.named("load").len()), (10, 1));
    assert_eq!(told.trace.header().mode, ringscope_format::Mode::KeepLast);
    // The first of ten launches, and the kernel with it.
    assert_eq!(told.named("sdpa").len(), 2);
}

#[test]
fn throughput_mode_records_the_work_of_devices_all_the_same() {
    for variable in ["RINGSCOPE_GPU_LATENCY", "METALLIC_EMIT_LATENCY"] {
        let program = program!().environment("RINGSCOPE_TRACE", "run.trace");
        let end = program.environment(variable, "0").run().succeeded();
        let told = end.trace();
        told.is_finished_and_adds_up();
        let kinds: Vec<Kind> = told.named("sdpa").iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [Kind::LAUNCH, Kind::KERNEL], "{variable}");
        assert_eq!(end.said("latency"), "false", "{variable}");
    }
}

#[test]
fn a_typo_is_a_warning_and_the_default() {
    let wrong = program!()
        .environment("RINGSCOPE_TRACE", "run.trace")
        .environment("RINGSCOPE_LEVEL", "verbose")
        .environment("RINGSCOPE_FILTER", "token=sometimes")
        .environment("RINGSCOPE_SAMPLE", "0")
        .environment("RINGSCOPE_MODE", "keep-lats:30s")
        .environment("RINGSCOPE_CONSOLE", "maybe")
        .environment("RINGSCOPE_JSONL_INTERVAL", "often")
        .environment("RINGSCOPE_SLOW_MS", "-1")
        .environment("RINGSCOPE_GPU_LATENCY", "?");
    let end = wrong.run().succeeded();
    assert_eq!(end.trace().named("token").len(), 100);
    let warnings: Vec<&str> = end.stderr.lines().collect();
    assert_eq!(warnings.len(), 8, "{}", end.stderr);
    for (warning, name) in warnings.iter().zip([
        "LEVEL = `verbose`: not a level; write off, error, warn, info, debug or trace; ",
        "FILTER = `token=sometimes`: rule `token=sometimes`: not understood; write `NAME=on`, ",
        "SAMPLE = `0`: not a share; write `1/100` or `0.01`, up to 1 for everything; ",
        "MODE = `keep-lats:30s`: not a mode; write `full`, `keep-last:30s` or ",
        "CONSOLE = `maybe`: neither yes nor no; write 1 or 0; ",
        "JSONL_INTERVAL = `often`: not a duration; write `10s`; ",
        "SLOW_MS = `-1`: not a duration; write `200ms`; ",
        "GPU_LATENCY = `?`: neither yes nor no; write 1 or 0; ",
    ]) {
        assert!(warning.starts_with(&format!("ringscope: RINGSCOPE_{name}")), "{warning}");
        assert!(warning.ends_with("; it is left as it was"), "{warning}");
    }
}

#[test]
fn an_interval_that_no_clock_can_tell_is_a_year_and_hangs_nothing() {
    let program = program!()
        .environment("RINGSCOPE_TRACE", "run.trace")
        .environment("RINGSCOPE_JSONL", "run.jsonl")
        .environment("RINGSCOPE_JSONL_INTERVAL", "1e19");
    let end = program.run().succeeded();
    let name = "RINGSCOPE_JSONL_INTERVAL";
    let said = format!("ringscope: {name} = `1e19`: longer than a year; a year is taken\n");
    assert_eq!(end.stderr, said);
    assert_eq!(end.trace().named("token").len(), 100);
}

#[test]
fn an_interval_that_no_clock_can_tell_has_rows_written_at_the_end() {
    let end = child(|scene: &Scene| {
        let builder = scene.builder().jsonl(scene.path("run.jsonl"));
        let recorder = builder.jsonl_interval(Duration::MAX).start().unwrap();
        drop(span!("token"));
        assert!(recorder.finish().unwrap().problems.is_empty());
    });
    let end = end.run().succeeded();
    let files = end.files(".jsonl");
    let latency = files.iter().find(|name| name.starts_with("run.latency-")).unwrap();
    assert_eq!(fs::read_to_string(end.path(latency)).unwrap().lines().count(), 1);
}

#[test]
fn an_exporter_that_is_slow_to_open_its_file_holds_up_nobody_else() {
    child(|scene: &Scene| {
        let (fifo, trace) = (scene.path("run.jsonl"), scene.trace());
        posix::make_fifo(&fifo);
        let builder = scene.builder().jsonl(&fifo);
        let starting = thread::spawn(move || builder.start().unwrap());
        wait_until("the recording to begin", || span!("token").is_recording());
        let other = Recorder::builder().path(scene.path("other.trace")).start();
        assert!(matches!(other, Err(Error::AlreadyRecording { path }) if path == trace));
        let reader = fs::File::open(&fifo).unwrap();
        let recorder = starting.join().unwrap();
        drop(reader);
        recorder.finish().unwrap();
    })
    .run()
    .succeeded();
}

#[test]
fn settings_that_start_no_recording_say_so() {
    for (name, value, said) in [
        ("RINGSCOPE_LEVEL", "info", "level"),
        ("METALLIC_LOG_LEVEL", "info", "level"),
        ("RINGSCOPE_FILTER", "load=on", "filter"),
        ("RINGSCOPE_SAMPLE", "1/10", "sample"),
        ("RINGSCOPE_GPU_LATENCY", "0", "gpu_latency"),
        ("RINGSCOPE_GPU_LATENCY", "1", "gpu_latency"),
        ("RINGSCOPE_REPRO", "1", "repro"),
        ("RINGSCOPE_MODE", "keep-last:30s", "mode"),
        ("RINGSCOPE_JSONL_INTERVAL", "10s", "jsonl_interval"),
    ] {
        let end = program!().environment(name, value).run().succeeded();
        let expected =
            format!("not recording: {said} is set, but no file; give RINGSCOPE_TRACE one");
        assert_eq!(end.stderr, format!("ringscope: {expected}\n"));
        let off = program!().environment(name, value).environment("RINGSCOPE_LEVEL", "off");
        assert_eq!(off.run().succeeded().stderr, "", "{name}");
    }
    let off = program!().environment("RINGSCOPE_REPRO", "0").environment("RINGSCOPE_CONSOLE", "0");
    assert_eq!(off.run().succeeded().stderr, "");
}

#[test]
fn what_is_not_utf8_is_a_path_or_a_warning() {
    let program = program!()
        .environment_bytes("RINGSCOPE_TRACE", b"run\xFF.trace")
        .environment_bytes("RINGSCOPE_JSONL", b"lines\xFF.jsonl")
        .environment_bytes("RINGSCOPE_CLOCK", b"os\xFF")
        .environment_bytes("RINGSCOPE_MODE", b"full\xFF")
        .environment_bytes("METRICS_LOG_ENABLED", b"\xFF");
    let end = program.run().succeeded();
    let warnings = "ringscope: RINGSCOPE_MODE: is not UTF-8; it is left as it was\n\
                    ringscope: METRICS_LOG_ENABLED: is not UTF-8; it is left as it was\n\
                    ringscope: RINGSCOPE_CLOCK: is not UTF-8; it is left as it was\n";
    assert_eq!(end.stderr, warnings);
    let at = |name: &[u8]| end.path("").join(OsStr::from_bytes(name));
    let told = Told::read(&at(b"run\xFF.trace"));
    let usual = program!().environment("RINGSCOPE_TRACE", "run.trace").run().succeeded();
    let usual = usual.trace().trace.header().counter;
    assert_eq!((told.named("token").len(), told.trace.header().counter), (100, usual));
    let lines = fs::read_to_string(at(b"lines\xFF.jsonl")).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("\"name\":\"token\"")).count(), 100);
    assert_eq!(end.said("recording"), "true");
}

#[test]
fn a_trace_that_cannot_be_written_is_a_warning_and_the_program_goes_on() {
    let program = program!().environment("RINGSCOPE_TRACE", "no/such/directory/run.trace");
    let end = program.run().succeeded();
    assert_eq!(end.said("recording"), "false");
    assert!(end.stderr.starts_with("ringscope: not recording: /"), "{}", end.stderr);
    assert!(end.stderr.contains("/no/such/directory/run.trace: cannot"), "{}", end.stderr);
    assert_eq!(end.stderr.lines().count(), 1, "{}", end.stderr);
}

#[test]
fn the_file_says_what_the_environment_does_not() {
    let program =
        with_file(program!(), "trace = 'run.trace'\nsample = '1/10'\n[metadata]\nmodel = 'tiny'\n");
    let end = program.environment("RINGSCOPE_SAMPLE", "1/50").run().succeeded();
    let told = end.trace();
    assert_eq!(told.named("token").len(), 2);
    assert_eq!(told.trace.metadata()["model"], "tiny");
    assert_eq!(end.stderr, "");
}

/// A program with such a `ringscope.toml`.
fn with_file(program: Child, text: &str) -> Child {
    fs::write(program.path("ringscope.toml"), text).unwrap();
    program
}

#[test]
fn a_file_that_is_not_toml_is_a_warning_and_left_out() {
    for (text, said) in [
        ("trace = ", "ringscope.toml: line 1: "),
        ("trace = 'run.trace'\n[[[", "ringscope.toml: line 2: "),
        (
            "trace = 'run.trace'\nmode = 3\nnonsense = true\n",
            "ringscope.toml: line 2: mode = `3`: ",
        ),
    ] {
        let end = with_file(program!(), text).run().succeeded();
        assert!(end.stderr.starts_with(&format!("ringscope: {said}")), "{}", end.stderr);
    }
    let end = program!().environment("RINGSCOPE_CONFIG", "gone.toml").run().succeeded();
    assert!(end.stderr.starts_with("ringscope: gone.toml: No such file"), "{}", end.stderr);
    let program = program!();
    fs::write(program.path("ringscope.toml"), b"trace = '\xFF'").unwrap();
    let end = program.run().succeeded();
    assert!(
        end.stderr.starts_with("ringscope: ringscope.toml: stream did not contain valid UTF-8")
    );
}

#[test]
fn a_file_of_settings_that_never_ends_or_never_begins_is_a_warning_and_left_out() {
    let not_a_file = "not a regular file";
    for (config, said) in [
        ("/dev/zero", not_a_file),
        ("pipe", not_a_file),
        (".", not_a_file),
        ("large.toml", "larger than a file of settings can be"),
    ] {
        let program = program!().environment("RINGSCOPE_CONFIG", config);
        posix::make_fifo(&program.path("pipe"));
        fs::write(program.path("large.toml"), "#é".repeat(1 << 19)).unwrap();
        let end = program.run().succeeded();
        assert_eq!(end.stderr, format!("ringscope: {config}: {said}; it is left out\n"));
        assert_eq!(end.said("recording"), "false");
    }
}

#[test]
fn a_file_of_settings_is_taken_up_to_a_mebibyte_and_dev_null_is_an_empty_one() {
    let mut text = b"trace = 'run.trace'\n".to_vec();
    text.resize(1 << 20, b'#');
    let program = with_file(program!(), std::str::from_utf8(&text).unwrap());
    let none = program.another().environment("RINGSCOPE_CONFIG", "/dev/null");
    let end = program.run().succeeded();
    assert_eq!((end.stderr.as_str(), end.files(".trace").len()), ("", 1));
    let end = with_file(none, "trace = 'run.trace'").run().succeeded();
    assert_eq!((end.stderr.as_str(), end.said("recording").as_str()), ("", "false"));
}

#[test]
fn what_code_says_goes_before_all() {
    let end = child(|scene: &Scene| {
        env::set_current_dir(scene.path("")).unwrap();
        let recorder = Builder::from_env().path("run.trace").start().unwrap();
        drop(span!("token"));
        recorder.finish().unwrap();
    });
    let end = end.environment("RINGSCOPE_TRACE", "other.trace").run().succeeded();
    assert_eq!(
        (end.files(".trace"), end.trace().named("token").len()),
        (vec!["run.trace".into()], 1)
    );
}

#[test]
fn off_is_nothing_of_anything_also_for_a_builder() {
    let end = child(|scene: &Scene| {
        env::set_current_dir(scene.path("")).unwrap();
        let recorder = Builder::from_env().keep_last(Duration::from_secs(5), 4 << 20);
        let recorder = recorder.start().unwrap();
        assert_eq!(recorder.level(), Level::Off);
        assert!(!span!("token").is_recording());
        assert!(recorder.flush());
        assert!(matches!(recorder.dump(), Err(Error::NotAFlightRecorder)));
        let statistics = recorder.statistics(Duration::from_secs(1));
        // Nor is it in the way of one that records, or the other way round.
        let other = Recorder::builder().path("run.trace").start().unwrap();
        recorder.set_rules("token=off".parse().unwrap());
        drop(span!("token"));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.problems.len()), (0, 0));
        drop(span!("token"));
        assert!(statistics.by_name().is_empty());
        assert_eq!(other.finish().unwrap().stored, 2);
    });
    let end = end.environment("RINGSCOPE_LEVEL", "off").environment("RINGSCOPE_CONSOLE", "1");
    let end = end.environment("RINGSCOPE_TRACE", "none.trace").run().succeeded();
    assert_eq!((end.files(".trace"), end.stderr.as_str()), (vec!["run.trace".into()], ""));
    assert_eq!(end.trace().named("token").len(), 2);
}

#[test]
fn the_level_that_code_says_goes_before_that_of_the_environment() {
    let end = child(|scene: &Scene| {
        env::set_current_dir(scene.path("")).unwrap();
        let off = Builder::from_env().path("off.trace").level(Level::Off).start().unwrap();
        assert!(!span!("token").is_recording());
        drop(off);
        let recorder = Builder::from_env().path("run.trace").level(Level::Warn).start().unwrap();
        let subscriber = ringscope::tracing::Subscriber::new();
        subscriber.with_filter(recorder.level()).install().unwrap();
        tracing::info_span!("told too little of").in_scope(|| ());
        tracing::warn_span!("warned of").in_scope(|| drop(span!("token")));
        recorder.finish().unwrap();
    });
    for level in ["off", "debug"] {
        let end = end.another().environment("RINGSCOPE_LEVEL", level).run().succeeded();
        assert_eq!(end.files(".trace"), ["run.trace"], "{level}");
        let told = end.trace();
        let count = |name: &str| told.named(name).len();
        let found = (count("token"), count("warned of"), count("told too little of"));
        assert_eq!(found, (1, 1, 0), "{level}");
    }
}
