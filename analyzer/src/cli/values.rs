//! What the values of options mean: times, sizes, percentiles.

use std::result::Result;

pub(crate) fn parse_percentile(text: &str) -> Result<f64, String> {
    let text = text.trim().trim_start_matches(['p', 'P']);
    let percentile: f64 = text.parse().map_err(|_| "not a number, such as 99.9".to_owned())?;
    if (0.0..=100.0).contains(&percentile) {
        Ok(percentile)
    } else {
        Err("a percentile lies between 0 and 100".to_owned())
    }
}

/// A length of time in nanoseconds: a number and a unit.
pub(crate) fn parse_length(text: &str) -> Result<f64, String> {
    let length = parse_time(text)?;
    if length < 0.0 { Err("must not be negative".to_owned()) } else { Ok(length) }
}

pub(crate) fn parse_time(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_alphabetic() || c == 'µ').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let ns_in_unit = match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        "" if number.parse() == Ok(0.0) => 1.0,
        "" => return Err("needs a unit: ns, us, ms, s, min or h".to_owned()),
        _ => return Err(format!("unknown unit {unit:?}; use ns, us, ms, s, min or h")),
    };
    let number: f64 =
        number.trim().parse().map_err(|_| "not a time, such as 1.5s or 200ms".to_owned())?;
    let ns = number * ns_in_unit;
    if ns.is_finite() { Ok(ns) } else { Err("not a finite time".to_owned()) }
}

/// A number of bytes with an optional binary unit.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let shift = match unit.trim_end_matches(['b', 'B']).trim_end_matches('i') {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        "t" | "T" => 40,
        _ => return Err(format!("unknown unit {unit:?}; use K, M, G or T")),
    };
    let number: f64 = number.trim().parse().map_err(|_| "not a size, such as 4G".to_owned())?;
    let bytes = number * (1_u64 << shift) as f64;
    if (0.0..1e19).contains(&bytes) { Ok(bytes as u64) } else { Err("out of range".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_units() {
        assert_eq!(parse_time("1.5s"), Ok(1.5e9));
        assert_eq!(parse_time("-200ms"), Ok(-2e8));
        assert_eq!(parse_time("3 µs"), Ok(3e3));
        assert_eq!(parse_time("0"), Ok(0.0));
        assert!(parse_time("15").unwrap_err().contains("unit"));
        assert!(parse_time("inf s").is_err());
        assert!(parse_length("-1s").is_err());
    }
}
