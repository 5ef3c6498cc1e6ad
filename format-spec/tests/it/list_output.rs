//! The arithmetic of the `list` example's output.

#[allow(dead_code)]
#[path = "../../examples/list/readable.rs"]
mod readable;

use readable::{date, duration, grouped, plain};

#[test]
fn dates_are_those_of_the_civil_calendar() {
    let seconds = |seconds: i64| date(seconds * 1_000_000_000);
    assert_eq!(seconds(0), "1970-01-01 00:00:00 UTC");
    assert_eq!(seconds(951_782_400), "2000-02-29 00:00:00 UTC");
    assert_eq!(seconds(1_700_000_000), "2023-11-14 22:13:20 UTC");
    assert_eq!(seconds(4_107_542_399), "2100-02-28 23:59:59 UTC");
    assert_eq!(seconds(4_107_542_400), "2100-03-01 00:00:00 UTC");
    assert_eq!(date(-1), "1969-12-31 23:59:59 UTC");
    assert_eq!(date(i64::MIN), "1677-09-21 00:12:43 UTC");
    assert_eq!(date(i64::MAX), "2262-04-11 23:47:16 UTC");
}

#[test]
fn durations_take_the_unit_that_fits_and_keep_two_decimals() {
    let made = [0.0, 1.0, 999.0, 1_000.0, 12_345_678.0, 1e9, 3.6e12].map(duration);
    let expected =
        ["0.00 ns", "1.00 ns", "999.00 ns", "1.00 \u{B5}s", "12.35 ms", "1.00 s ", "3600.00 s "];
    assert_eq!(made, expected);
    assert_eq!(duration(f64::NAN), "NaN ns");
}

#[test]
fn numbers_are_grouped_and_small_ones_keep_their_digits() {
    assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!(
        [-1234.0, 0.5, 0.000_012, 1e300].map(plain),
        ["-1,234", "0.500", "1.200e-5", "1.000e300"]
    );
}
