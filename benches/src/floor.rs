//! The least that recording a span can cost: two counter reads and one plain
//! 32-byte store. Every ratio the benches print is over this.
//!
//! The store goes to a buffer that cycles inside the second-level cache, so the
//! floor pays for no cache miss; a ring that is drained by another core cannot
//! reach it exactly.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Instant;

use crate::counter::ticks;
use crate::quantile::median;

/// The shape of a ringscope record, so that the store is the same size.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
struct Record {
    start: u64,
    duration: u64,
    name: u32,
    track: u32,
    link: u32,
    kind: u32,
}

const BUFFER_BYTES: usize = 256 * 1024;
const RECORDS: usize = BUFFER_BYTES / size_of::<Record>();
const EMPTY: Record = Record { start: 0, duration: 0, name: 0, track: 0, link: 0, kind: 0 };

thread_local! {
    static BUFFER: RefCell<Box<[Record; RECORDS]>> = RefCell::new(Box::new([EMPTY; RECORDS]));
}

/// Takes `spans` floors on this thread.
pub(crate) fn burst(spans: u32) {
    BUFFER.with_borrow_mut(|buffer| {
        // Opaque, so that the store is of eight values as in a real recorder
        // and not of a constant.
        let (name, track) = black_box((7, 1));
        for i in 0..spans {
            let start = ticks();
            let duration = ticks().wrapping_sub(start);
            buffer[i as usize % RECORDS] =
                Record { start, duration, name, track, link: 0, kind: 1 };
        }
        black_box(&mut **buffer);
    });
}

/// The floor in nanoseconds on this thread, now: the median of 32 bursts.
pub(crate) fn measure_ns(spans: u32) -> f64 {
    burst(spans);
    let samples: Vec<f64> = (0..32)
        .map(|_| {
            let start = Instant::now();
            burst(spans);
            start.elapsed().as_nanos() as f64 / f64::from(spans)
        })
        .collect();
    median(&samples).unwrap_or(f64::NAN)
}
