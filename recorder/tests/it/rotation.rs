//! One recording in several files.

use std::{thread, time::Duration};

use ringscope::{CallSite, event, span};
use ringscope_format::RecordingState;

use crate::{
    child::child,
    load::{Load, unbroken},
    told::Told,
};

#[test]
fn each_file_opens_alone_and_together_they_have_everything_once() {
    let end = child(|scene| {
        let builder = scene.builder().rotate_at(1 << 20).metadata("run", "7");
        let recorder = builder.readings(Some(Duration::from_millis(20))).start().unwrap();
        let mut load = Load::new(1);
        let _open = span!("open throughout");
        event!("before", first = 1_u8);
        while load.produced() < 80_000 {
            load.record(500);
            let round = CallSite::named(&format!("round {}", load.produced()));
            drop(span!(site: round));
            assert!(recorder.flush());
            thread::sleep(Duration::from_millis(3)); // gives the sealer time to keep up
        }
        drop(_open);
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (80_162, 0));
        assert_eq!(summary.problems, []);
        scene.say("last", summary.path.file_name().unwrap().to_string_lossy());
    });
    let end = end.run().succeeded();
    let count = end.files(".trace").len();
    assert!(count >= 3, "{count} files");
    assert_eq!(end.said("last"), format!("run.{}.trace", count - 1));
    let mut all = Vec::new();
    let mut first = None;
    for number in 0..count {
        let name = if number == 0 { "run.trace".into() } else { format!("run.{number}.trace") };
        let path = end.path(&name);
        let told = Told::read(&path);
        let header = told.trace.header();
        let recording = *first.get_or_insert(header.recording);
        assert_eq!((header.file_number as usize, header.recording), (number, recording));
        let last = number + 1 == count;
        let expected = if last { RecordingState::Finished } else { RecordingState::Continued };
        assert_eq!(told.vitals().state, expected);
        assert_eq!(told.trace.metadata()["run"], "7");
        assert!(told.trace.clock().pairs() >= 1);
        assert!(told.open().is_empty() || !last);
        if !last {
            let length = std::fs::metadata(&path).unwrap().len();
            // What waits to be sealed when the next file is begun still goes into this one.
            assert!(((1 << 20)..(5 << 20)).contains(&length), "{name} has {length} bytes");
        }
        all.extend(told.events);
    }
    assert_eq!(unbroken(&all), 0..80_000);
    assert_eq!(all.len(), 80_162);
    assert_eq!(all.iter().filter(|event| event.name.starts_with("round ")).count(), 160);
    assert!(all.iter().any(|event| event.name == "open throughout"));
}

#[test]
fn a_rotation_that_cannot_go_on_stays_in_its_file() {
    let end = child(|scene| {
        // Not a trace, so it is not ours to replace.
        std::fs::write(scene.path("run.1.trace"), "my thesis").unwrap();
        let recorder = scene.builder().rotate_at(1 << 20).start().unwrap();
        let mut load = Load::new(1);
        while load.produced() < 20_000 {
            load.record(500);
            assert!(recorder.flush());
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (20_000, 0));
        let [problem] = summary.problems.as_slice() else { panic!("{:?}", summary.problems) };
        scene.say("problem", problem);
    });
    let end = end.run().succeeded();
    let other = end.path("run.1.trace");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "my thesis");
    assert_eq!(
        end.said("problem"),
        format!(
            "the next file could not be created: {}: exists and is not a trace; \
             remove it or choose another path",
            other.display()
        )
    );
    let told = end.trace();
    told.is_finished_and_adds_up();
    assert_eq!(unbroken(&told.events), 0..20_000);
}
