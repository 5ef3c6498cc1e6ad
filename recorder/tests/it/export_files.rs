//! What the environment has exporters write: console, JSON lines, scripts. No file of anybody
//! else's is replaced.

use std::{fs, process::Command, thread, time::Duration};

use ringscope::{
    error, event,
    handlers::{ExportFilter, JsonlExporter},
    init_from_env, span,
    vocabulary::CallException,
};

use crate::{
    child::{Scene, child},
    exporters::notes,
};

fn program(scene: &Scene) {
    std::env::set_current_dir(scene.path("")).unwrap();
    let recorder = init_from_env().expect("it was asked for");
    {
        let _outer = span!("outer", size = 7_u64);
        event!("inner");
        thread::sleep(Duration::from_millis(2));
    }
    scene.say("summary", recorder.finish().unwrap());
}

#[test]
fn the_environment_attaches_console_and_json_lines() {
    let end = child(|scene: &Scene| program(scene))
        .environment("RINGSCOPE_CONSOLE", "1")
        .environment("RINGSCOPE_JSONL", "run.jsonl")
        .environment("RINGSCOPE_TRACE", "run.trace")
        .environment("RINGSCOPE_SLOW_MS", "1");
    let end = end.run().succeeded();
    let lines: Vec<&str> = end.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", end.stderr);
    assert!(lines[0].ends_with(" outer > inner") && lines[1].contains(" slow: outer "));
    let json = fs::read_to_string(end.path("run.jsonl")).unwrap();
    let json: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&json[0]["name"], &json[0]["path"][0]), (&"inner".into(), &"outer".into()));
    assert_eq!((&json[1]["kind"], &json[1]["fields"]["size"]), (&"span".into(), &7.into()));
    assert!(json[1]["dur_ns"].as_u64().unwrap() >= 2_000_000);
}

#[test]
fn slow_spans_are_warned_of_also_without_a_console() {
    let end = child(|scene: &Scene| program(scene))
        .environment("RINGSCOPE_TRACE", "run.trace")
        .environment("RINGSCOPE_SLOW_MS", "1");
    let end = end.run().succeeded();
    let lines: Vec<&str> = end.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{}", end.stderr);
    assert!(lines[0].contains(" slow: outer ") && lines[0].ends_with(" size=7"), "{}", lines[0]);
}

#[test]
fn a_warning_of_slow_spans_is_all_that_need_be_asked_for_and_the_file_is_named() {
    let end = child(|scene: &Scene| program(scene)).environment("RINGSCOPE_SLOW_MS", "1");
    let end = end.run().succeeded();
    let lines: Vec<&str> = end.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", end.stderr);
    assert!(lines[0].starts_with("ringscope: recording to "), "{}", lines[0]);
    assert!(lines[0].ends_with("; RINGSCOPE_TRACE says where instead"), "{}", lines[0]);
    assert!(lines[1].contains(" slow: outer "), "{}", lines[1]);
    assert_eq!(end.files(".trace").len(), 1);
}

#[test]
fn json_lines_that_cannot_be_written_are_a_warning_and_the_recording_goes_on() {
    let end = child(|scene: &Scene| program(scene))
        .environment("RINGSCOPE_TRACE", "run.trace")
        .environment("RINGSCOPE_JSONL", "no/such/directory/run.jsonl");
    let end = end.run().succeeded();
    let why = "no/such/directory/run.jsonl: cannot create: No such file or directory (os error 2)";
    assert_eq!(end.stderr, format!("ringscope: not exporting: {why}\n"));
    assert!(end.said("summary").contains(&format!("exporter {why}")), "{}", end.said("summary"));
    assert_eq!(end.trace().named("outer").len(), 1);
}

#[test]
fn json_lines_do_not_take_the_place_of_a_trace_under_whatever_name() {
    for jsonl in ["run.trace", "./run.trace", "link.jsonl"] {
        let program = child(|scene: &Scene| program(scene));
        std::os::unix::fs::symlink("run.trace", program.path("link.jsonl")).unwrap();
        let program = program.environment("RINGSCOPE_TRACE", "run.trace");
        let end = program.environment("RINGSCOPE_JSONL", jsonl).run().succeeded();
        let why = format!("{jsonl}: is a trace; give JSON lines a file of their own");
        assert_eq!(end.stderr, format!("ringscope: not exporting: {why}\n"));
        end.trace().is_finished_and_adds_up();
        assert_eq!(end.trace().named("outer").len(), 1);
    }
}

#[test]
fn json_lines_leave_a_file_alone_that_holds_something_else_and_say_so() {
    let program = child(|scene: &Scene| program(scene));
    fs::write(program.path("ringscope.toml"), "console = false\n").unwrap();
    let program = program.environment("RINGSCOPE_TRACE", "run.trace");
    let end = program.environment("RINGSCOPE_JSONL", "ringscope.toml").run().succeeded();
    let why = "ringscope.toml: holds something else, which is kept; \
               give JSON lines a file of their own";
    assert_eq!(end.stderr, format!("ringscope: not exporting: {why}\n"));
    assert!(end.said("summary").contains(&format!("exporter {why}")), "{}", end.said("summary"));
    let kept = fs::read_to_string(end.path("ringscope.toml")).unwrap();
    assert_eq!(kept, "console = false\n");
    assert_eq!(end.trace().named("outer").len(), 1);
}

#[test]
fn json_lines_leave_other_json_alone() {
    const PACKAGE: &str = "{\n  \"name\": \"app\"\n}\n";
    let program = child(|scene: &Scene| program(scene));
    fs::write(program.path("package.json"), PACKAGE).unwrap();
    let program = program.environment("RINGSCOPE_TRACE", "run.trace");
    let end = program.environment("RINGSCOPE_JSONL", "package.json").run().succeeded();
    let why = "package.json: holds something else, which is kept; \
               give JSON lines a file of their own";
    assert_eq!(end.stderr, format!("ringscope: not exporting: {why}\n"));
    assert_eq!(fs::read_to_string(end.path("package.json")).unwrap(), PACKAGE);
}

#[test]
fn json_lines_go_on_in_the_next_file_that_is_free() {
    let end = child(|scene: &Scene| {
        let jsonl = JsonlExporter::create(scene.path("run.jsonl")).unwrap().rotate_at(1);
        let recorder = scene.builder().start().unwrap();
        recorder.attach(jsonl, ExportFilter::all());
        (0..3).for_each(|_| drop(span!("token")));
        assert!(notes(&recorder.finish().unwrap()).is_empty());
    });
    fs::write(end.path("run.1.jsonl"), "{\"mine\": true}\n").unwrap();
    let end = end.run().succeeded();
    assert_eq!(end.files(".jsonl"), ["run.1.jsonl", "run.2.jsonl", "run.3.jsonl", "run.jsonl"]);
    assert_eq!(fs::read_to_string(end.path("run.1.jsonl")).unwrap(), "{\"mine\": true}\n");
}

#[test]
fn json_lines_replace_those_of_an_earlier_run_and_go_to_devices_too() {
    let first = child(|scene: &Scene| program(scene)).environment("RINGSCOPE_TRACE", "run.trace");
    let to_device = first.another().environment("RINGSCOPE_TRACE", "run.trace");
    let earlier = "{\"at\":\"2026-11-16T17:04:05.000000001Z\",\"kind\":\"span\"}\n".repeat(1_000);
    fs::write(first.path("run.jsonl"), earlier).unwrap();
    let end = first.environment("RINGSCOPE_JSONL", "run.jsonl").run().succeeded();
    let json = fs::read_to_string(end.path("run.jsonl")).unwrap();
    assert_eq!((end.stderr.as_str(), json.lines().count()), ("", 2));
    // Of a scenario, that is /dev/null.
    let end = to_device.environment("RINGSCOPE_JSONL", "/dev/stdout").run().succeeded();
    assert_eq!(end.stderr, "");
}

#[test]
fn json_lines_go_on_beside_their_first_file_wherever_the_program_goes() {
    let end = child(|scene: &Scene| {
        std::env::set_current_dir(scene.path("")).unwrap();
        let jsonl = JsonlExporter::create("run.jsonl").unwrap().rotate_at(1);
        fs::create_dir("elsewhere").unwrap();
        std::env::set_current_dir("elsewhere").unwrap();
        let recorder = scene.builder().start().unwrap();
        recorder.attach(jsonl, ExportFilter::all());
        (0..3).for_each(|_| drop(span!("token")));
        assert!(notes(&recorder.finish().unwrap()).is_empty());
    });
    let end = end.run().succeeded();
    assert_eq!(end.files(".jsonl"), ["run.1.jsonl", "run.2.jsonl", "run.jsonl"]);
}

#[test]
fn an_error_that_says_what_was_called_becomes_a_script_beside_the_trace() {
    let end = child(|scene: &Scene| {
        std::env::set_current_dir(scene.path("")).unwrap();
        let recorder = init_from_env().expect("it was asked for");
        let _outer = span!("outer");
        error!("no script can be made of this");
        let exception = CallException::new().kind("JSONDecodeError").payload("Expecting value");
        let exception = exception.library("json").function("loads");
        exception.arguments(r#"["[1, "]"#).record();
        exception.arguments("[1, ").record();
        exception.library("math").function("sqrt").arguments("[-1]").record();
        let summary = recorder.finish().unwrap();
        assert!(notes(&summary).is_empty(), "{summary}");
        let python = std::env::var_os("RINGSCOPE_PYTHON").unwrap_or_else(|| "python3".into());
        match Command::new(&python).arg("run.error-2.py").output() {
            Ok(python) => {
                scene.say("failed", !python.status.success());
                scene.say("stderr", String::from_utf8_lossy(&python.stderr));
            }
            Err(error) => scene.lacks(format!("{}: {error}", python.display())),
        }
    });
    let end = end.environment("RINGSCOPE_TRACE", "run.trace").environment("RINGSCOPE_REPRO", "1");
    let end = end.run().succeeded();
    assert_eq!(end.files(".py"), ["run.error-1.py", "run.error-2.py"]);
    let script = fs::read_to_string(end.path("run.error-1.py")).unwrap();
    let trace = end.path("run.trace");
    let begins =
        format!("# call.exception: JSONDecodeError\n# Expecting value\n# in {}, ", trace.display());
    assert!(script.contains(&begins), "{script}");
    assert!(script.contains("\n# within outer\n"), "{script}");
    let test = "an_error_that_says_what_was_called_becomes_a_script_beside_the_trace";
    if end.had("python", test) {
        let said = end.said("stderr");
        assert!(end.said("failed") == "true" && said.contains("ValueError"), "{said}");
    }
}

#[test]
fn that_there_are_no_more_scripts_is_said_when_the_first_is_left_out() {
    let end = child(|scene: &Scene| {
        let recorder = scene.builder().repro_scripts(true).start().unwrap();
        let exception = CallException::new().kind("ValueError").library("math").function("sqrt");
        let errors: u32 = scene.argument().parse().unwrap();
        (0..errors).for_each(|_| exception.arguments("[-1]").record());
        // Of this there would have been none anyway.
        error!("nothing was called");
        assert!(notes(&recorder.finish().unwrap()).is_empty());
    });
    let all = end.another().argument(100).run().succeeded();
    assert_eq!((all.files(".py").len(), all.stderr.as_str()), (100, ""));
    let end = end.argument(105).run().succeeded();
    let trace = end.path("run.trace");
    let said = format!(
        "ringscope: 100 scripts of errors are written, and no more will be; \
         `analyze repro {}` makes one of any error\n",
        trace.display()
    );
    assert_eq!((end.files(".py").len(), end.stderr.as_str()), (100, said.as_str()));
}

#[cfg(target_os = "linux")]
#[test]
fn json_lines_on_a_full_disk_end_their_exporter_with_a_note() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let jsonl = JsonlExporter::create("/dev/full").unwrap();
        recorder.attach(jsonl, ExportFilter::all());
        (0..10_000).for_each(|_| drop(span!("token")));
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (10_000, 0));
        let notes = notes(&summary);
        assert!(
            notes[0].starts_with("exporter JsonlExporter: No space left on device"),
            "{notes:?}"
        );
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}
