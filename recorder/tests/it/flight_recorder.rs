//! Keep-last mode: the newest data, capped in bytes.

use std::{fs, time::Duration};

use ringscope::{Error, Problem, Recorder, span};
use ringscope_format::Mode;

use crate::{
    child::{child, wait_until},
    load::{Load, unbroken},
};

const CAP: u64 = 4 << 20;
const HOUR: Duration = Duration::from_secs(3_600);

fn record(recorder: &Recorder, load: &mut Load, events: u64) {
    for _ in 0..events / 500 {
        load.record(500);
        assert!(recorder.flush());
    }
}

#[test]
fn the_file_stays_capped_and_the_newest_events_are_in_it() {
    let end = child(|scene| {
        let recorder = scene.builder().keep_last(HOUR, CAP).start().unwrap();
        let mut load = Load::new(1);
        record(&recorder, &mut load, 4_000);
        let early = fs::metadata(scene.trace()).unwrap().len();
        record(&recorder, &mut load, 76_000);
        let late = fs::metadata(scene.trace()).unwrap().len();
        // Names and metadata grow outside the ring, and there are hardly any new ones.
        assert!(late - early < 4_096, "{early} to {late}");
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (80_000, 0));
        assert!(summary.overwritten > 20_000, "{}", summary.overwritten);
        assert!(summary.bytes > CAP);
        scene.say("overwritten", summary.overwritten);
    });
    let end = end.run().succeeded();
    let told = end.trace();
    assert_eq!(told.trace.header().mode, Mode::KeepLast);
    told.is_finished_and_adds_up();
    let steps = unbroken(&told.events);
    assert_eq!(steps, end.number("overwritten")..80_000, "the oldest went first");
    let layout = told.trace.header().layout;
    let length = fs::metadata(end.path("run.trace")).unwrap().len();
    assert!(length <= layout.mapped_length() + CAP + (64 << 10), "{length}");
}

#[test]
fn a_recording_that_keeps_everything_has_no_dumps() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let refused = recorder.dump();
        assert!(matches!(refused, Err(Error::NotAFlightRecorder)));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "no dump: this recording keeps everything; set `keep_last` to make it a flight recorder"
        );
        recorder.finish().unwrap();
    });
    end.run().succeeded();
}

#[test]
fn a_recording_that_keeps_everything_says_so_to_whoever_writes_dump_into_its_control_file() {
    const WHY: &str =
        "no dump: this recording keeps everything; set `keep_last` to make it a flight recorder";
    let child = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let answer = scene.path("run.trace.control.rejected");
        wait_until("the command is answered", || answer.exists());
        // The lines after it are carried out all the same.
        wait_until("rules are changed", || !span!("probe").is_recording());
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.problems, [Problem::ControlFile(WHY.to_owned())]);
    });
    fs::write(child.path("run.trace.control"), "dump\nprobe=off\n").unwrap();
    let end = child.run().succeeded();
    let rejected = fs::read_to_string(end.path("run.trace.control.rejected")).unwrap();
    assert_eq!(rejected, format!("dump: {WHY}\n"));
    assert_eq!(end.files(".trace"), ["run.trace"]);
}

#[test]
fn a_killed_flight_recorder_leaves_its_last_events() {
    let end = child(|scene| {
        let recorder = scene.builder().keep_last(HOUR, CAP).start().unwrap();
        let mut load = Load::new(1);
        record(&recorder, &mut load, 60_000);
        let _open = span!("at the end");
        assert!(recorder.flush());
        crate::posix::raise(libc::SIGKILL);
    });
    let told = end.run().died_of(libc::SIGKILL).trace();
    let steps = unbroken(&told.events);
    assert!(steps.start > 0 && steps.end == 60_000, "{steps:?}");
    let open: Vec<_> = told.open().into_values().collect();
    assert_eq!(open, [(1, vec!["at the end".to_owned()])]);
}
