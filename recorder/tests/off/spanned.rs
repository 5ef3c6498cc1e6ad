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
    sum
}
