//! Times from their decimal text, exact to the nanosecond: a timestamp of today in
//! microseconds has more digits than a floating-point number keeps.

/// Digits that are looked at; 10^38 is the largest power that fits.
const DIGITS: u32 = 38;

/// A time that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exact {
    /// The nearest nanosecond.
    pub(super) ns: i64,
    /// Whether the text says more than that.
    pub(super) is_finer: bool,
}

/// A number in units of `10^exponent` ns, or `None` of what is no number and of
/// what lies outside of 292 years.
pub(super) fn nanoseconds(text: &str, exponent: i32) -> Option<Exact> {
    let text = text.trim();
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (number, power) = match digits.find(['e', 'E']) {
        Some(at) => (&digits[..at], digits[at + 1..].parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut mantissa, mut scale) = (0_u128, i64::from(exponent) + i64::from(power));
    let mut is_finer = false;
    for (is_fraction, part) in [(false, whole), (true, fraction)] {
        for byte in part.bytes() {
            if !byte.is_ascii_digit() {
                return None;
            }
            if mantissa >= 10_u128.pow(DIGITS - 1) {
                is_finer |= byte != b'0';
                scale += i64::from(!is_fraction);
            } else {
                mantissa = mantissa * 10 + u128::from(byte - b'0');
                scale -= i64::from(is_fraction);
            }
        }
    }
    let mut magnitude = mantissa;
    if scale > 0 && mantissa > 0 {
        let factor = u32::try_from(scale).ok().filter(|&it| it < DIGITS)?;
        magnitude = mantissa.checked_mul(10_u128.pow(factor))?;
    } else if scale < 0 {
        match u32::try_from(-scale).ok().filter(|&it| it < DIGITS) {
            None => {
                is_finer |= mantissa > 0;
                magnitude = 0;
            }
            Some(places) => {
                let unit = 10_u128.pow(places);
                let rest = mantissa % unit;
                is_finer |= rest > 0;
                magnitude = mantissa / unit + u128::from(rest * 2 >= unit);
            }
        }
    }
    let magnitude = i64::try_from(magnitude).ok()?;
    Some(Exact { ns: if is_negative { -magnitude } else { magnitude }, is_finer })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microseconds.
    fn us(text: &str) -> Option<(i64, bool)> {
        nanoseconds(text, 3).map(|it| (it.ns, it.is_finer))
    }

    #[test]
    fn every_digit_of_a_timestamp_counts() {
        assert_eq!(us("4458676522690.655"), Some((4_458_676_522_690_655, false)));
        assert_eq!(us("1711964646000000.001"), Some((1_711_964_646_000_000_001, false)));
        assert_eq!(us("-0.5"), Some((-500, false)));
        assert_eq!(us("1.5e3"), Some((1_500_000, false)));
        assert_eq!(us("25E-1"), Some((2_500, false)));
        assert_eq!(us(".25"), Some((250, false)));
        assert_eq!(us("0e400"), Some((0, false)));
        assert_eq!(nanoseconds("9223372036854775807", 0).unwrap().ns, i64::MAX);
    }

    #[test]
    fn what_is_finer_than_a_nanosecond_is_rounded_and_said() {
        assert_eq!(us("1.0005"), Some((1_001, true)));
        assert_eq!(us("1.000499999"), Some((1_000, true)));
        assert_eq!(us("1.00000000000000000000000000000000000000000001"), Some((1_000, true)));
        assert_eq!(us("1e-400"), Some((0, true)));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in ["", "-", ".", "NaN", "1e400", "1e", "0x10", "1 2", "9223372036854775.808"] {
            assert_eq!(us(text), None, "{text}");
        }
    }
}
