//! A run of the example's kernels, here and now, against what its device said.

use std::{path::Path, time::Duration};

use ringscope::gpu::{SampleLog, wgpu::GpuProfiler};

use super::{
    encode, open,
    replay::{AS_IT_WAS, Replayed, Truth, claims_hold, play},
    ticks,
};
use crate::child::{Scene, child};

const MINUTE: Duration = Duration::from_secs(60);
const STEPS: usize = 20;

/// Steps of which some are in flight at once, with what the device said of them.
fn run(scene: &Scene) {
    let Some((device, queue, work)) = open(scene, wgpu::Features::empty()) else { return };
    let recorder = scene.builder().start().unwrap();
    let profiler = GpuProfiler::builder(&device, &queue).log_samples(1_000).start();
    for step in 0..STEPS {
        let mut encoder = profiler.encoder("step");
        work.kernels.iter().for_each(|kernel| encode(&mut encoder, &work, kernel, 1));
        let mut copy = encoder.profile_blit("read back");
        copy.copy_buffer_to_buffer(&work.result, 0, &work.readback, 0, work.readback.size());
        drop(copy);
        profiler.submit([encoder.finish()]);
        if step % 4 == 0 {
            assert!(profiler.flush(MINUTE));
        }
    }
    assert!(profiler.flush(MINUTE));
    let log = profiler.sample_log().expect("it was asked for");
    std::fs::write(scene.path("run.samples"), log.to_string()).unwrap();
    scene.say("report", profiler.finish(MINUTE));
    recorder.finish().unwrap();
}

fn read(path: &Path) -> SampleLog {
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

#[test]
fn a_run_and_the_replay_of_what_its_device_said_are_the_same() {
    let scenario = child(|scene| match scene.argument().as_str() {
        "" => run(scene),
        path => play(scene, &read(Path::new(path)), AS_IT_WAS),
    });
    let replay = scenario.another();
    let end = scenario.run().succeeded();
    if !end.had("gpu", "a_run_and_the_replay_of_what_its_device_said_are_the_same") {
        return;
    }
    let path = end.path("run.samples");
    let replayed = Replayed::of(replay.argument(path.display()).run());
    let live = Replayed::live(&end);
    assert_eq!(live.report, format!("{} recorded", STEPS * 4));
    assert_eq!(live.report, replayed.report);
    let times = |of: &Replayed| -> Vec<_> {
        let events = of.events().into_iter();
        let time = |(event, source)| {
            let (queue, error) = (ticks(&event, "queue"), ticks(&event, "uncertainty"));
            (event.name, event.start, event.end, queue, error, source)
        };
        let mut times: Vec<_> = events.map(time).collect();
        // In the run two threads record, whoever sees first that something is done.
        times.sort_by_key(|it| it.1);
        times
    };
    assert_eq!(times(&live), times(&replayed), "to the tick");
    let log = read(&path);
    let matches = replayed.matches(&log);
    matches.iter().for_each(|one| one.lies_within());
    // Others have clocks of their own, of which the host knows nothing.
    if log.device.contains("llvmpipe") {
        claims_hold(&matches, &Truth::of(&log));
    }
}
