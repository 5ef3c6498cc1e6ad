//! The kernel's own kill: a process that may use no more memory.

use std::{fs, io, path::Path, process, thread, time::Duration};

use ringscope::span;
use ringscope_format::RecordingState;

use crate::child::{Scene, child};

/// Enough for the recorder and the test, not for what the scenario asks for.
const LIMIT: u64 = 96 << 20;

/// Puts this process into a group of its own with that limit.
fn join_group(scene: &Scene) -> io::Result<()> {
    let (parent, limit) = if Path::new("/sys/fs/cgroup/memory").is_dir() {
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        ("/sys/fs/cgroup", "memory.max")
    };
    let group = Path::new(parent).join(format!("ringscope-test-{}", process::id()));
    fs::create_dir(&group)?;
    scene.say("group", group.display());
    fs::write(group.join(limit), LIMIT.to_string())?;
    // Pages go nowhere but to the limit; which file says so depends on the kernel.
    for swap in ["memory.swap.max", "memory.swappiness"] {
        let _ = fs::write(group.join(swap), "0");
    }
    fs::write(group.join("cgroup.procs"), process::id().to_string())
}

/// The kernel takes a moment to forget the last process.
fn remove_group(group: &str) {
    if group == "none" {
        return;
    }
    for _ in 0..100 {
        if fs::remove_dir(group).is_ok() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_process_killed_for_its_memory_leaves_a_file_that_opens() {
    let end = child(|scene| {
        scene.say("group", "none");
        if let Err(error) = join_group(scene) {
            return scene.lacks(format!("memory cannot be limited here: {error}"));
        }
        let recorder = scene.builder().start().unwrap();
        let _outer = span!("growing");
        let mut taken: Vec<Vec<u8>> = Vec::new();
        for i in 0_u64.. {
            drop(span!("megabyte", i = i));
            assert!(recorder.flush());
            scene.say("megabytes", i + 1);
            // Not zero: such pages cost nothing.
            taken.push(vec![1; 1 << 20]);
        }
    });
    let end = end.run();
    remove_group(&end.said("group"));
    if !end.had("cgroup", "a_process_killed_for_its_memory_leaves_a_file_that_opens") {
        return;
    }
    let end = end.died_of(libc::SIGKILL);
    let told = end.trace();
    assert_eq!(told.vitals().state, RecordingState::Recording);
    assert_eq!(told.vitals().total_lost(), 0);
    // Each was flushed before it was said.
    let (stored, said) = (told.named("megabyte").len() as u64, end.number("megabytes"));
    assert!(stored == said || stored == said + 1, "{stored} of {said}");
    assert!((8..LIMIT >> 20).contains(&said), "{said} MB");
    let this = "out_of_memory::a_process_killed_for_its_memory_leaves_a_file_that_opens";
    assert_eq!(told.open()[this], (1, vec!["growing".to_owned()]));
}
