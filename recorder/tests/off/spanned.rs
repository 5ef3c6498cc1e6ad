//! The same work with and without spans, for `tests/off/main.rs` to compare.

#![allow(missing_docs, unsafe_code)]

#[unsafe(no_mangle)]
pub fn bare(values: &[u64]) -> u64 {
    let mut sum = 0_u64;
    for &value in values {
        sum = sum.wrapping_mul(31).wrapping_add(value);
    }
    sum
}

#[inline(always)]
fn vocabulary(sum: u64) {
    use ringscope::{MetricEvent, name, record_metric, structure_span, vocabulary::*};
    let _working = CorrelationId::random().enter();
    let mut stage = structure_span!(Structure::Stage, "stage");
    stage.exception("none", "nothing");
    let mut call = Call::new().function(name!("f")).span();
    call.set(|call| call.result("done"));
    record_metric!(MetricEvent::Allocate { bytes: sum, kind: "scratch" });
    TrainingStep::new().step(sum).loss(0.5).record();
    let kernel = ringscope::CallSite::named("k");
    let link = KernelDispatched::new().kernel(kernel).record();
    KernelCompleted::new().kernel(kernel).link(link).record();
}

#[unsafe(no_mangle)]
pub fn spanned(values: &[u64]) -> u64 {
    let _span = ringscope::span!("sum", values = values.len(), scale = 1.5, text = "abc");
    let mut sum = 0_u64;
    for &value in values {
        let mut span = ringscope::span!("step");
        sum = sum.wrapping_mul(31).wrapping_add(value);
        ringscope::event!("added", value = value);
        ringscope::counter!("values", 1);
        ringscope::gauge!("sum", sum);
        span.succeed();
    }
    let request = ringscope::async_span!("request", size = 7);
    request.end();
    vocabulary(sum);
    sum
}
