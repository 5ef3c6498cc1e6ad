//! `merge` takes the files of one recording for one account.

use std::{fs, path::Path, time::Duration};

use ringscope::{Recorder, event, span};
use ringscope_format::Trace;
use tempfile::tempdir;

use crate::{accounts::rotation, analyze::analyze, making::RECORDING};

fn merged(dir: &Path, files: &[&str]) -> Trace<Vec<u8>> {
    let mut arguments = vec!["merge", "-o", "all.trace"];
    arguments.extend(files);
    let run = analyze(dir, &arguments);
    assert_eq!(run.code, 0, "{}", run.stderr);
    Trace::open(fs::read(dir.join("all.trace")).unwrap()).unwrap()
}

#[test]
fn merged_files_of_one_recording_are_one_account() {
    let dir = tempdir().unwrap();
    rotation(dir.path());
    let counts = |files: &[&str]| {
        let trace = merged(dir.path(), files);
        let vitals = *trace.vitals().unwrap();
        let said = trace.metadata().iter().filter(|(key, _)| key.ends_with("source.account"));
        let said: Vec<String> = said.map(|(key, value)| format!("{key}: {value}")).collect();
        (vitals.stored, vitals.total_lost(), vitals.produced(), said.join("\n"))
    };
    let (one, two, three) = ("run.trace", "run.1.trace", "run.2.trace");
    assert_eq!(counts(&[one, two, three]), (300, 45, 345, String::new()));
    assert_eq!(counts(&[three, one, two]), (300, 45, 345, String::new()));
    assert_eq!(counts(&[one, two]), (200, 40, 240, String::new()));
    let said = "run.2.trace/source.account: in what is not here of its recording, 40 of 140 events \
                were lost (40 ring full)";
    assert_eq!(counts(&[two, three]), (200, 5, 205, said.to_owned()));
    assert_eq!(counts(&[one, three]), (200, 45, 245, String::new()));
    let report = analyze(dir.path(), &["report", "all.trace", "--section", "header"]).stdout;
    assert!(report.contains("LOST 45 of 245 events (18.37 %): 45 ring full\n"), "{report}");
    merged(dir.path(), &[two, three]);
    let report = analyze(dir.path(), &["report", "all.trace", "--section", "header"]).stdout;
    let said = "  LOST 5 of 205 events (2.44 %): 5 ring full\n  run.2.trace: in what is not here of its \
                recording, 40 of 140 events were lost (40 ring full)\n";
    assert!(report.contains(said), "{report}");
    let run = analyze(dir.path(), &["scrub", "all.trace", "-o", "shown.trace"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let report = analyze(dir.path(), &["report", "shown.trace", "--section", "header"]).stdout;
    let said =
        ": in what is not here of its recording, 40 of 140 events were lost (40 ring full)\n";
    assert!(report.contains(said) && !report.contains("run.2"), "{report}");
}

#[test]
fn the_same_events_are_not_merged_twice() {
    let dir = tempdir().unwrap();
    rotation(dir.path());
    fs::copy(dir.path().join("run.trace"), dir.path().join("copy.trace")).unwrap();
    let run = analyze(dir.path(), &["merge", "-o", "all.trace", "run.trace", "copy.trace"]);
    let said = "analyze: copy.trace: has events that run.trace has too: both are of one recording; \
                give one of them\n";
    assert_eq!((run.code, run.stderr.as_str()), (2, said));
    assert!(!dir.path().join("all.trace").exists());
}

#[test]
fn files_of_a_recorded_rotation_add_up_to_what_was_recorded() {
    let dir = tempdir().unwrap();
    let _one_at_a_time = RECORDING.lock();
    let builder = Recorder::builder().path(dir.path().join("run.trace")).ring_records(4_096);
    let recorder = builder.rotate_at(1 << 20).start().unwrap();
    let record = || {
        let mut state = 1_u64;
        for n in 0..400_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n | 1);
            event!("noise", state = state);
            // Now and then the drain has time, and then again none.
            if n % 1_000 == 0 && n % 100_000 > 20_000 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    std::thread::spawn(record).join().unwrap();
    let summary = recorder.finish().unwrap();
    let mut files: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".trace"))
        .collect();
    files.sort();
    assert!(files.len() > 1, "{summary:?}");
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let vitals = *merged(dir.path(), &names).vitals().unwrap();
    assert_eq!(vitals.produced(), 400_000, "{summary:?}");
    assert!(vitals.total_lost() > 0, "{summary:?}");
    let mut sum = [0, 0];
    for file in &files {
        let json = analyze(dir.path(), &["info", file, "--format", "json"]).json();
        for (sum, key) in sum.iter_mut().zip(["stored", "lost"]) {
            *sum += json["loss"][key].as_u64().unwrap();
        }
    }
    assert_eq!(sum, [vitals.stored, vitals.total_lost()], "{summary:?}");
}

#[test]
fn a_dump_is_not_merged_with_the_trace_that_it_is_a_copy_of() {
    let dir = tempdir().unwrap();
    let _one_at_a_time = RECORDING.lock();
    let builder = Recorder::builder().path(dir.path().join("run.trace"));
    let recorder = builder.keep_last(Duration::from_secs(30), 4 << 20).start().unwrap();
    (0..100).for_each(|_| drop(span!("step")));
    let dump = recorder.dump().unwrap();
    recorder.finish().unwrap();
    let dump = dump.file_name().unwrap().to_str().unwrap();
    for files in [["run.trace", dump], [dump, "run.trace"]] {
        let run = analyze(dir.path(), &["merge", "-o", "all.trace", files[0], files[1]]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        let said = "both are of one recording; give one of them";
        assert!(run.stderr.contains(said), "{}", run.stderr);
    }
}
