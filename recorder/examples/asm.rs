#![allow(unsafe_code)]
#![allow(missing_docs)]
#[inline(never)]
#[unsafe(no_mangle)]
pub fn one_span() { let _s = ringscope::span!("bench"); std::hint::black_box(()); }
#[inline(never)]
#[unsafe(no_mangle)]
pub fn one_handle(h: &ringscope::ThreadHandle) { let _s = ringscope::span!(in *h, "bench"); std::hint::black_box(()); }
fn main() { one_span(); one_handle(&ringscope::ThreadHandle::current()); }
