//! Starting, finishing, and being refused.

use std::{fs, io, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use ringscope::{Error, span};

use crate::{
    child::{Scene, child, wait_until},
    posix,
    told::Told,
};

fn refusal(scene: &Scene, path: &Path) {
    let error = scene.builder().path(path).start().expect_err("this path cannot be recorded to");
    scene.say("refusal", &error);
    assert!(!span!("not recorded").is_recording(), "a refused recorder records nothing");
}

#[test]
fn a_second_recorder_is_refused_while_the_first_one_runs() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let second = scene.builder().path(scene.path("second.trace")).start();
        assert!(matches!(second, Err(Error::AlreadyRecording { .. })));
        scene.say("refusal", second.unwrap_err());
        drop(span!("goes on"));
        assert_eq!(recorder.finish().unwrap().stored, 1);
    });
    let end = end.run().succeeded();
    let path = end.path("run.trace");
    assert_eq!(
        end.said("refusal"),
        format!(
            "{}: this process is already recording there; finish that recorder first",
            path.display()
        )
    );
    assert!(!end.path("second.trace").exists());
    end.trace().is_finished_and_adds_up();
}

#[test]
fn recorders_can_follow_one_another() {
    let end = child(|scene| {
        for run in 0..5 {
            let recorder =
                scene.builder().path(scene.path(&format!("{run}.trace"))).start().unwrap();
            assert!(recorder.path().ends_with(format!("{run}.trace")));
            (0..=run).for_each(|_| drop(span!("step")));
            if run % 2 == 0 {
                assert_eq!(recorder.finish().unwrap().stored, run + 1);
            } else {
                drop(recorder);
            }
            drop(span!("between"));
        }
    });
    let end = end.run().succeeded();
    for run in 0..5 {
        let told = Told::read(&end.path(&format!("{run}.trace")));
        told.is_finished_and_adds_up().losses_add_up();
        assert_eq!((told.events.len(), told.named("step").len()), (run + 1, run + 1));
    }
}

#[test]
fn a_program_that_forgets_its_recorder_has_it_finished_at_exit() {
    let end = child(|scene| {
        std::mem::forget(scene.builder().start().unwrap());
        (0..100).for_each(|_| drop(span!("step")));
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!(told.events.len(), 100);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_without_hard_links_will_do() {
    let end = child(|scene| {
        posix::no_hard_links();
        fs::write(scene.path("file"), "").unwrap();
        fs::hard_link(scene.path("file"), scene.path("link")).expect_err("no such links");
        for run in 0..2 {
            let recorder = scene.builder().start().unwrap();
            drop(span!("step"));
            assert_eq!(recorder.finish().unwrap().stored, 1, "run {run}");
        }
    });
    let end = end.run().succeeded();
    end.trace().is_finished_and_adds_up();
    assert!(!end.path("run.trace.starting").exists());
}

#[test]
fn a_directory_is_refused() {
    let end = child(|scene| refusal(scene, &scene.path(""))).run().succeeded();
    let path = end.path("");
    let expected = format!("{}: is a directory; give the name of a file in it", path.display());
    assert_eq!(end.said("refusal"), expected);
}

#[test]
fn a_path_in_a_directory_that_does_not_exist_is_refused() {
    let end = child(|scene| refusal(scene, &scene.path("no/such/run.trace"))).run().succeeded();
    let path = end.path("no/such/run.trace");
    assert_eq!(
        end.said("refusal"),
        format!(
            "{}: cannot create: No such file or directory (os error 2); create its directory first",
            path.display()
        )
    );
}

#[test]
fn a_path_that_may_not_be_written_is_refused() {
    let child = child(|scene| {
        posix::give_up_privileges();
        refusal(scene, &scene.path("locked/run.trace"));
    });
    fs::create_dir(child.path("locked")).unwrap();
    fs::set_permissions(child.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(child.path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    let end = child.run().succeeded();
    let path = end.path("locked/run.trace");
    assert_eq!(
        end.said("refusal"),
        format!(
            "{}: cannot create: Permission denied (os error 13); choose a path you may write to",
            path.display()
        )
    );
}

#[test]
fn a_name_that_no_file_can_have_is_refused() {
    let child = child(|scene| {
        let long = scene.path(&"a".repeat(300));
        let zero = scene.path("run\0.trace");
        for (what, path) in [("long", long), ("zero", zero)] {
            let error = scene.builder().path(path).start().expect_err("no such name");
            scene.say(what, error.to_string().replace('\0', "NUL"));
        }
    });
    let end = child.run().succeeded();
    let system = io::Error::from_raw_os_error(libc::ENAMETOOLONG);
    let long = format!(": cannot look at: {system}; choose a shorter name");
    assert!(end.said("long").ends_with(&long), "{}", end.said("long"));
    let zero = ": file name contained an unexpected NUL byte; choose another path";
    assert!(end.said("zero").ends_with(zero), "{}", end.said("zero"));
}

#[test]
fn a_process_that_may_open_no_further_file_is_told_which_limit_to_raise() {
    let end = child(|scene| {
        posix::limit_open_files(3);
        refusal(scene, &scene.trace());
    });
    let end = end.run().succeeded();
    assert_eq!(
        end.said("refusal"),
        format!(
            "{}: cannot create: Too many open files (os error 24); raise the limit on open files",
            end.path("run.trace").display()
        )
    );
}

#[test]
fn a_file_that_is_not_a_trace_is_refused_and_left_alone() {
    let child = child(|scene| refusal(scene, &scene.trace()));
    fs::write(child.path("run.trace"), "my thesis").unwrap();
    let end = child.run().succeeded();
    let path = end.path("run.trace");
    assert_eq!(
        end.said("refusal"),
        format!("{}: exists and is not a trace; remove it or choose another path", path.display())
    );
    assert_eq!(fs::read_to_string(path).unwrap(), "my thesis");
}

#[test]
fn something_that_is_not_a_file_is_refused() {
    let end = child(|scene| refusal(scene, Path::new("/dev/null"))).run().succeeded();
    assert_eq!(
        end.said("refusal"),
        "/dev/null: exists and is not a trace; remove it or choose another path"
    );
}

#[test]
fn a_link_that_leads_nowhere_is_refused_and_left_alone() {
    let child = child(|scene| refusal(scene, &scene.path("run.trace")));
    let link = child.path("run.trace");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let end = child.run().succeeded();
    assert_eq!(
        end.said("refusal"),
        format!("{}: exists and is not a trace; remove it or choose another path", link.display())
    );
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("nowhere"));
}

#[test]
fn a_trace_that_is_there_is_replaced() {
    let end = child(|scene| {
        for name in ["old", "new"] {
            let recorder = scene.builder().metadata("which", name).start().unwrap();
            drop(span!("step"));
            recorder.finish().unwrap();
        }
    });
    let told = end.run().succeeded().trace();
    assert_eq!(told.trace.metadata()["which"], "new");
}

#[test]
fn an_empty_file_is_replaced_as_mktemp_leaves_one_to_name_an_output() {
    let child = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        drop(span!("step"));
        recorder.finish().unwrap();
    });
    fs::write(child.path("run.trace"), "").unwrap();
    let end = child.run().succeeded();
    end.trace().is_finished_and_adds_up().only("step");
}

#[test]
fn a_start_that_fails_leaves_the_old_trace_in_its_place() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        drop(span!("old"));
        recorder.finish().unwrap();
        fs::create_dir(scene.path("run.trace.starting")).unwrap();
        refusal(scene, &scene.trace());
    });
    let end = end.run().succeeded();
    let path = end.path("run.trace");
    assert_eq!(
        end.said("refusal"),
        format!(
            "{}: cannot create: Is a directory (os error 21); remove the directory of that name \
             with `.starting` behind it, or choose another path",
            path.display()
        )
    );
    end.trace().is_finished_and_adds_up().only("old");
}

#[test]
fn a_trace_that_another_process_is_writing_is_refused() {
    let writer = child(|scene| {
        if scene.argument().is_empty() {
            let recorder = scene.builder().start().unwrap();
            scene.say("started", "");
            wait_until("the other has tried", || scene.path("tried").exists());
            drop(span!("mine"));
            assert_eq!(recorder.finish().unwrap().stored, 1);
        } else {
            refusal(scene, Path::new(&scene.argument()));
        }
    });
    let other = writer.another();
    let mut writer = writer.start();
    writer.wait_until_said("started");
    let path = writer.path("run.trace");
    let refused = other.argument(path.display()).run().succeeded();
    assert_eq!(
        refused.said("refusal"),
        format!("{}: another recorder is writing to it; choose another path", path.display())
    );
    fs::write(writer.path("tried"), "").unwrap();
    let end = writer.wait().succeeded();
    let told = end.trace();
    told.is_finished_and_adds_up();
    told.only("mine");
}

#[test]
fn the_file_of_a_killed_process_can_be_replaced() {
    let child = child(|scene| {
        if scene.argument().is_empty() {
            let recorder = scene.builder().start().unwrap();
            drop(span!("first"));
            assert!(recorder.flush());
            posix::raise(libc::SIGKILL);
        }
        let recorder = scene.builder().path(scene.argument()).start().unwrap();
        drop(span!("second"));
        recorder.finish().unwrap();
    });
    let other = child.another();
    let killed = child.run().died_of(libc::SIGKILL);
    killed.trace().only("first");
    other.argument(killed.path("run.trace").display()).run().succeeded();
    let told = killed.trace();
    told.is_finished_and_adds_up();
    told.only("second");
    assert_eq!(told.events.len(), 1);
}

#[test]
fn a_relative_path_means_the_directory_that_the_recording_began_in() {
    let end = child(|scene| {
        std::env::set_current_dir(scene.path("")).unwrap();
        let builder = scene.builder().path("run.trace").keep_last(Duration::from_secs(9), 4 << 20);
        let recorder = builder.start().unwrap();
        let other = scene.path("other");
        fs::create_dir(&other).unwrap();
        std::env::set_current_dir(&other).unwrap();
        drop(span!("step"));
        assert_eq!(recorder.dump().unwrap().parent(), scene.trace().parent());
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.problems.as_slice()), (1, &[][..]));
        assert_eq!(fs::read_dir(other).unwrap().count(), 0);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}
