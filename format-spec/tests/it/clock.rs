//! Clocks of whole files.

use crate::build::*;
use ringscope_format::*;

/// A file with pairs of a counter at 2 ticks a nanosecond, read at these seconds, by when it
/// has leaped ahead by so many.
fn file_with_pairs(seconds_and_leaps: &[(i64, i64)]) -> TraceFile {
    let mut content = spans(1, 10, 1_000);
    for (second, leap) in seconds_and_leaps {
        let tick = (10_000 + second + leap) as u64 * 2_000_000_000;
        let ns = second * 1_000_000_000;
        let pair = ClockPair {
            tick_before: tick,
            tick_after: tick,
            mono_ns: ns,
            wall_ns: ns,
            boot_ns: ns,
            ..ClockPair::default()
        };
        content.clocks.extend_from_slice(bytemuck::bytes_of(&pair));
    }
    let mut file = TraceFile::finished();
    file.append_data(&content);
    file.finish(10);
    file
}

#[test]
fn durations_are_right_in_a_trace_whose_counter_leaped_ahead() {
    for pairs in [&[(0, 0), (5, 0), (6, 60), (20, 60)][..], &[(0, 0), (20, 60)]] {
        let file = file_with_pairs(pairs);
        let trace = file.open();
        assert_eq!((trace.clock().ns(2_000), trace.clock().jumps().len()), (1_000.0, 1));
    }
}

#[test]
fn trace_without_its_header_takes_the_ratio_of_two_pairs_and_sees_no_jump() {
    let file = file_with_pairs(&[(0, 0), (20, 0)]);
    let trace = Trace::open_by_chunks(file.bytes.as_slice()).unwrap();
    assert_eq!((trace.clock().ns(2_000), trace.clock().jumps().len()), (1_000.0, 0));
}
