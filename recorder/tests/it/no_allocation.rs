//! Nothing on the hot path allocates.

#![allow(unsafe_code)] // an allocator that counts

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    time::Duration,
};

use ringscope::{
    CallSite, DeviceQueue, MetricEvent, Rules, ThreadHandle, async_span, counter, error, event,
    gauge, name, record_metric, register_thread, span, structure_span,
    vocabulary::{
        Call, CallException, CorrelationId, KernelCompleted, KernelDispatched, PoolDepth, Structure,
    },
};

use crate::child::child;

struct Counting;

thread_local! {
    /// Calls of this thread into the allocator. Has no destructor and needs no memory.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    // Fails while a thread is going; nobody counts then.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: passes everything on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// Everything that can stand in a loop, once.
pub(crate) fn everything(thread: &ThreadHandle, named: &'static CallSite, i: u64) {
    let _plain = span!("plain");
    let _fields = span!("fields", i = i, half = 0.5, text = "some text that takes a few slots");
    let _handle = span!(in thread, "handle");
    let _both = span!(in thread, "handle and fields", i = i);
    let _named = span!(site: named);
    let mut request = async_span!("request", i = i);
    request.fail();
    event!("event");
    event!("event with fields", a = 1_u8, b = -1, c = true, d = Duration::from_micros(3));
    error!("error", reason = "none");
    counter!("counter", 1_u64);
    gauge!("gauge", 0.25, i = i);
}

/// Each way of recording the vocabulary, once: 9 events, and the scope of their request.
fn vocabulary(kernel: &'static CallSite, queue: &'static DeviceQueue, i: u64) {
    let request = CorrelationId::random();
    let _working = request.enter();
    let _workflow = structure_span!(Structure::Workflow, "workflow", request);
    let mut stage = structure_span!(Structure::Stage, "stage");
    stage.exception("IoError", "a payload of several slots: no such file or directory");
    let mut call = Call::new().function(name!("embed")).span();
    call.set(|call| call.queue(Duration::from_nanos(i)).result("done"));
    record_metric!(MetricEvent::Allocate { bytes: i, kind: name!("scratch"), device: 0 });
    CallException::new().kind("ValueError").arguments("[1, 2, 3]").record();
    PoolDepth::new().depth(i).pool("python").record();
    let link = KernelDispatched::new().kernel(kernel).groups([8, 8, 1]).record();
    KernelCompleted::new().kernel(kernel).queue(queue).link(link).backend(name!("cpu")).record();
}

#[test]
fn recording_the_vocabulary_does_not_allocate() {
    let end = child(|scene| {
        let (kernel, queue) = (CallSite::named("sdpa"), DeviceQueue::named("GPU 0 queue 0"));
        does_not_allocate("no recorder yet", |i| vocabulary(kernel, queue, i));
        let recorder = scene.builder().start().unwrap();
        does_not_allocate("vocabulary", |i| vocabulary(kernel, queue, i));
        for rules in ["*=off", "*=1/100", "*=1s"] {
            recorder.set_rules(rules.parse::<Rules>().unwrap());
            does_not_allocate(rules, |i| vocabulary(kernel, queue, i));
        }
        assert_eq!(recorder.finish().unwrap().produced(), 4 * 2_000 * 10);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[track_caller]
pub(crate) fn does_not_allocate(what: &str, mut f: impl FnMut(u64)) {
    f(0); // the first use of a call site is cold
    let before = CALLS.get();
    (1..2_000).for_each(&mut f);
    assert_eq!(CALLS.get() - before, 0, "calls into the allocator: {what}");
}

#[test]
fn recording_does_not_allocate() {
    let end = child(|scene| {
        let named = CallSite::named("named");
        let recorder = scene.builder().start().unwrap();
        assert!(register_thread());
        let thread = ThreadHandle::current();
        does_not_allocate("everything", |i| everything(&thread, named, i));
        assert_eq!(recorder.finish().unwrap().produced(), 2_000 * 11);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn of_long_texts_only_those_of_errors_allocate() {
    let end = child(|scene| {
        let recorder = scene.builder().start().unwrap();
        let long = "l".repeat(50_000);
        does_not_allocate("long texts", |_| {
            drop(span!("span", text = &long));
            event!("event", text = &long);
            error!("as much as fits", text = &long[..31 * 24]);
        });
        let summary = recorder.finish().unwrap();
        assert_eq!((summary.produced(), summary.long_texts, summary.texts_cut), (6_000, 0, 0));
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn losing_does_not_allocate() {
    let end = child(|scene| {
        let named = CallSite::named("named");
        let hour = Duration::from_secs(3_600);
        let recorder = scene.builder().ring_records(8).ticks(hour, hour).start().unwrap();
        let thread = ThreadHandle::current();
        does_not_allocate("everything, lost", |i| everything(&thread, named, i));
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.produced(), 2_000 * 11);
        assert!(summary.lost > 20_000);
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn skipping_and_recording_nothing_do_not_allocate() {
    let end = child(|scene| {
        let named = CallSite::named("named");
        let thread = ThreadHandle::current();
        does_not_allocate("no recorder yet", |i| everything(&thread, named, i));
        let recorder = scene.builder().start().unwrap();
        for rules in ["*=off", "*=1/100", "*=1s"] {
            recorder.set_rules(rules.parse::<Rules>().unwrap());
            does_not_allocate(rules, |i| everything(&thread, named, i));
        }
        let summary = recorder.finish().unwrap();
        assert_eq!(summary.produced(), 3 * 2_000 * 11);
        does_not_allocate("no recorder any more", |i| everything(&thread, named, i));
    });
    end.run().succeeded().trace().is_finished_and_adds_up();
}

#[test]
fn the_counter_counts() {
    let before = CALLS.get();
    drop(std::hint::black_box(vec![1_u8; 100]));
    assert_eq!(CALLS.get() - before, 2);
}
