//! What people may write for a setting, in the environment and in the file alike.

use std::{path::PathBuf, time::Duration};

use crate::{Rules, rules::parse_duration};

/// How much of what `tracing` tells is recorded; what the macros of this
/// crate record has no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing at all, of anything.
    Off,
    /// Errors.
    Error,
    /// And warnings.
    Warn,
    /// And what is worth knowing.
    Info,
    /// And what helps to find a mistake.
    Debug,
    /// Everything.
    Trace,
}

/// What is kept of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Full,
    KeepLast { window: Duration, cap_bytes: u64 },
}

type Taken<T> = Result<T, String>;

/// What is to be said of a value that was taken, but not as it was written.
pub(super) type Note = Option<String>;

/// The longest duration that is taken: clocks overflow with those that a typo makes.
const A_YEAR: Duration = Duration::from_secs(365 * 86_400);

fn a_year_at_most(duration: Duration, note: &mut Note) -> Duration {
    if duration > A_YEAR {
        *note = Some("longer than a year; a year is taken".to_owned());
    }
    duration.min(A_YEAR)
}

pub(super) fn path(text: &str) -> Taken<PathBuf> {
    match text {
        "" => Err("is empty; give the name of a file".to_owned()),
        path => Ok(path.into()),
    }
}

pub(super) fn level(text: &str) -> Taken<Level> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "off" | "none" => Level::Off,
        "error" => Level::Error,
        "warn" | "warning" => Level::Warn,
        "info" => Level::Info,
        "debug" => Level::Debug,
        "trace" => Level::Trace,
        _ => return Err("not a level; write off, error, warn, info, debug or trace".to_owned()),
    })
}

pub(super) fn rules(text: &str) -> Taken<Rules> {
    text.parse().map_err(|error: crate::RuleError| error.to_string())
}

/// `1/100`, `0.01` or `1 %`: one in a hundred. Other shares become the nearest of these.
pub(super) fn sample(text: &str, note: &mut Note) -> Taken<u32> {
    let not = || "not a share; write `1/100` or `0.01`, up to 1 for everything".to_owned();
    if let Some(n) = text.strip_prefix("1/") {
        return n.trim().parse().ok().filter(|&n| n > 0).ok_or_else(not);
    }
    let (number, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim(), 100.0),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().map_err(|_| not())? / whole;
    if !(share > 0.0 && share <= 1.0) {
        return Err(not());
    }
    let one_in = (1.0 / share).round() as u32;
    if (1.0 / f64::from(one_in) - share).abs() > share / 100.0 {
        *note = Some(format!("one in a whole number is recorded; 1/{one_in} is taken"));
    }
    Ok(one_in)
}

/// `full`, `keep-last:30s` or `keep-last:30s:128MiB`.
pub(super) fn mode(text: &str, usual_cap: u64, note: &mut Note) -> Taken<Mode> {
    let not = || "not a mode; write `full`, `keep-last:30s` or `keep-last:30s:128MiB`".to_owned();
    if text == "full" {
        return Ok(Mode::Full);
    }
    let rest = text.strip_prefix("keep-last:").ok_or_else(not)?;
    let (window, cap) = rest.split_once(':').map_or((rest, None), |(w, cap)| (w, Some(cap)));
    let window = parse_duration(window).filter(|window| !window.is_zero()).ok_or_else(not)?;
    let cap_bytes = cap.map_or(Some(usual_cap), bytes).ok_or_else(not)?;
    Ok(Mode::KeepLast { window: a_year_at_most(window, note), cap_bytes })
}

/// `1048576`, `64MiB`, `64MB`, `1GiB`.
fn bytes(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "kB" | "KB" => 1_000,
        "MiB" => 1 << 20,
        "MB" => 1_000_000,
        "GiB" => 1 << 30,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

pub(super) fn yes_or_no(text: &str) -> Taken<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" | "" => Ok(false),
        _ => Err("neither yes nor no; write 1 or 0".to_owned()),
    }
}

/// A number of units of so many seconds, or a duration with its unit.
pub(super) fn duration(text: &str, unit: f64, note: &mut Note) -> Taken<Duration> {
    let plain = text.parse::<f64>().ok().map(|number| number * unit);
    let plain = plain.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let found = plain.or_else(|| parse_duration(text)).map(|found| a_year_at_most(found, note));
    let unit = if unit == 1.0 { "10s" } else { "200ms" };
    found.ok_or_else(|| format!("not a duration; write `{unit}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &str) -> Taken<u32> {
        super::sample(text, &mut None)
    }

    fn mode(text: &str, usual_cap: u64) -> Taken<Mode> {
        super::mode(text, usual_cap, &mut None)
    }

    fn duration(text: &str, unit: f64) -> Taken<Duration> {
        super::duration(text, unit, &mut None)
    }

    #[test]
    fn a_sample_is_a_fraction_or_a_share() {
        assert_eq!((sample("1/100"), sample("0.01"), sample("1 %")), (Ok(100), Ok(100), Ok(100)));
        assert_eq!((sample("1"), sample("1/1")), (Ok(1), Ok(1)));
        for wrong in ["", "0", "2", "-1", "1/0", "1/x", "NaN", "inf", "half"] {
            assert!(sample(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mode_has_a_window_and_may_have_a_size() {
        let keep = |seconds, cap_bytes| {
            Ok(Mode::KeepLast { window: Duration::from_secs(seconds), cap_bytes })
        };
        assert_eq!(mode("full", 7), Ok(Mode::Full));
        assert_eq!(mode("keep-last:30s", 7), keep(30, 7));
        assert_eq!(mode("keep-last:2m:128MiB", 7), keep(120, 128 << 20));
        for wrong in
            ["", "keep-last", "keep-last:", "keep-last:30", "keep-last:0s", "keep-last:1s:9XB"]
        {
            assert!(mode(wrong, 7).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_may_be_plain_numbers_of_the_settings_unit() {
        assert_eq!(duration("250", 1e-3), Ok(Duration::from_millis(250)));
        assert_eq!(duration("1.5s", 1e-3), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("10", 1.0), Ok(Duration::from_secs(10)));
        for wrong in ["", "soon", "-1", "NaN", "1e30", "10 parsecs"] {
            assert!(duration(wrong, 1.0).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_duration_of_more_than_a_year_is_a_year_and_said() {
        for text in ["1e19", "31536001", "600000m"] {
            let mut note = None;
            assert_eq!(super::duration(text, 1.0, &mut note), Ok(A_YEAR), "{text}");
            assert_eq!(note.as_deref(), Some("longer than a year; a year is taken"), "{text}");
        }
        let mut note = None;
        let keeps = super::mode("keep-last:600000m", 7, &mut note);
        assert_eq!(keeps, Ok(Mode::KeepLast { window: A_YEAR, cap_bytes: 7 }));
        assert!(note.is_some());
        let mut note = None;
        assert_eq!(super::duration("31536000", 1.0, &mut note), Ok(A_YEAR));
        assert_eq!(note, None);
    }

    #[test]
    fn a_share_that_is_not_one_in_a_whole_number_is_the_nearest_and_said() {
        for (text, one_in) in [("0.7", 1), ("0.3", 3), ("67 %", 1), ("1e-12", u32::MAX)] {
            let mut note = None;
            assert_eq!(super::sample(text, &mut note), Ok(one_in), "{text}");
            let expected = format!("one in a whole number is recorded; 1/{one_in} is taken");
            assert_eq!(note, Some(expected), "{text}");
        }
        for text in ["1", "0.5", "0.333", "1/7", "1 %", "0.001"] {
            let mut note = None;
            super::sample(text, &mut note).unwrap();
            assert_eq!(note, None, "{text}");
        }
    }
}
