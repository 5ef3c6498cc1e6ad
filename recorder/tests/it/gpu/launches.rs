//! What a launch decides for its work: whether rules let it be recorded, and for which request.

use std::thread;

use ringscope::{
    Kind, SkipCause,
    gpu::{KernelName, Launch, Scope, TimingSource, Work},
    vocabulary::CorrelationId,
};

use super::submissions::{complete, kernels, scope, submissions, submit};
use crate::{
    child::child,
    told::{Event, Told},
};

fn launches<'a>(told: &'a Told, name: &str) -> Vec<&'a Event> {
    told.named(name).into_iter().filter(|event| event.kind == Kind::LAUNCH).collect()
}

fn requests(event: &Event) -> Vec<u128> {
    event.links.iter().map(|link| link.id).collect()
}

#[test]
fn work_is_for_the_request_of_its_launch_and_not_of_who_records_it() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(8);
        let of_request = |id: u128, name: &str| {
            let _working = CorrelationId::from_u128(id).enter();
            submit(&submissions, &[name])
        };
        let entered = [of_request(11, "first"), of_request(22, "second")];
        let nobodys = submit(&submissions, &["nobody's"]);
        // Some other request's thread is the one that learns of their end.
        thread::scope(|scope| {
            scope.spawn(|| {
                let _working = CorrelationId::from_u128(33).enter();
                for (id, submitted) in entered.into_iter().chain([nobodys]) {
                    let base = submitted / 2 + 5;
                    complete(&submissions, id, submitted + 1_000, &[base, base + 50]);
                }
            });
        });
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    for (name, expected) in [("first", vec![11]), ("second", vec![22]), ("nobody's", vec![])] {
        let [launch, kernel] = told.named(name)[..] else { panic!("a launch and a kernel") };
        assert_eq!((requests(launch), requests(kernel)), (expected.clone(), expected), "{name}");
    }
}

#[test]
fn work_that_is_one_record_is_for_a_request_if_all_of_it_is() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let submissions = submissions(8);
        for (names, ids) in [(["a", "b"], [7_u128, 7]), (["c", "d"], [7, 8])] {
            let mut batch = submissions.begin().unwrap();
            for (name, id) in names.into_iter().zip(ids) {
                let _working = CorrelationId::from_u128(id).enter();
                batch.push(scope(name, None));
            }
            let id = batch.enter().unwrap();
            let submitted = submissions.submitted_at(id).unwrap();
            complete(&submissions, id, submitted + 100, &[]);
        }
        recorder.finish().unwrap();
    });
    let told = end.run().succeeded().trace();
    assert_eq!(requests(told.only("a + 1 more")), [7]);
    assert_eq!(requests(told.only("c + 1 more")), [] as [u128; 0]);
}

#[test]
fn a_rule_keeps_launch_and_work_together() {
    let end = child(|scene| {
        let rules = "sdpa=1/2".parse().unwrap();
        let recorder = scene.builder().rules(rules).start().unwrap();
        let submissions = submissions(8);
        for _ in 0..1_000 {
            let launch = Launch::begin(KernelName::from("sdpa"));
            let Some(launched) = launch.end() else { continue };
            let mut batch = submissions.begin().unwrap();
            let sampled = Some((0, TimingSource::PassBoundary));
            batch.push(Scope { launched, work: Work::Kernel, sampled });
            let id = batch.enter().unwrap();
            let submitted = submissions.submitted_at(id).unwrap();
            let base = submitted / 2 + 5;
            complete(&submissions, id, submitted + 1_000, &[base, base + 50]);
        }
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.lost), (1_000, 0));
        assert_eq!(summary.skipped_as(SkipCause::Sampled), 500);
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up().losses_add_up();
    let links = |events: Vec<&Event>| events.iter().map(|it| it.link).collect::<Vec<_>>();
    assert_eq!(launches(&told, "sdpa").len(), 500);
    assert_eq!(links(launches(&told, "sdpa")), links(kernels(&told)));
}

#[test]
fn work_that_is_one_record_is_not_judged_a_second_time() {
    let end = child(|scene| {
        let rules = "*more=1/10".parse().unwrap();
        let recorder = scene.builder().rules(rules).start().unwrap();
        let submissions = submissions(8);
        for _ in 0..100 {
            let mut batch = submissions.begin().unwrap();
            batch.push(scope("matmul", None));
            batch.push(scope("softmax", None));
            let id = batch.enter().unwrap();
            let submitted = submissions.submitted_at(id).unwrap();
            complete(&submissions, id, submitted + 100, &[]);
        }
        let report = "200 recorded, 200 of them with the times of their command buffer";
        assert_eq!(submissions.report().to_string(), report);
        let (late, submitted) = submit(&submissions, &["late"]);
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.stored, summary.skipped), (100 * 3 + 1, 0));
        complete(&submissions, late, submitted + 100, &[]);
        let report = submissions.report();
        assert_eq!((report.recorded, report.coarse), (200, 200), "the recording had ended");
    });
    let told = end.run().succeeded().trace();
    told.is_finished_and_adds_up();
    assert_eq!(told.named("matmul + 1 more").len(), 100);
    assert_eq!(told.named("matmul").len(), 100, "launches");
}
