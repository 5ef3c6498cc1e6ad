//! What people may write for a setting, in the environment and in the file alike.

use std::{path::PathBuf, time::Duration};

use crate::{
    Rules,
    config::{LARGEST_CAP, SMALLEST_CAP},
    rules::parse_duration,
};

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

/// Rows are looked after once a second.
const A_SECOND: Duration = Duration::from_secs(1);

fn a_year_at_most(duration: Duration, note: &mut Note) -> Duration {
    if duration > A_YEAR {
        add("longer than a year; a year is taken", note);
    }
    duration.min(A_YEAR)
}

/// One value may have several parts that are not taken as they were written.
fn add(what: &str, note: &mut Note) {
    *note = Some(match note.take() {
        Some(before) => format!("{before}; {what}"),
        None => what.to_owned(),
    });
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
    let cap = cap.map(|cap| bytes(cap).ok_or_else(not)).transpose()?;
    let window = a_year_at_most(window, note);
    let cap_bytes = cap.map_or(usual_cap, |cap| within_the_caps(cap, note));
    Ok(Mode::KeepLast { window, cap_bytes })
}

fn within_the_caps(cap: u64, note: &mut Note) -> u64 {
    if cap < SMALLEST_CAP {
        add("less than 4 MiB; 4 MiB is taken", note);
    } else if cap > LARGEST_CAP {
        add("more than 1 TiB; 1 TiB is taken", note);
    }
    cap.clamp(SMALLEST_CAP, LARGEST_CAP)
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

/// Whether it is the operating system's clock that is to be read.
pub(super) fn clock(text: &str) -> Taken<()> {
    match text.eq_ignore_ascii_case("os") {
        true => Ok(()),
        false => Err("not a clock to choose; write `os`".to_owned()),
    }
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

/// A duration of so many seconds or with its unit, of a second at least.
pub(super) fn interval(text: &str, note: &mut Note) -> Taken<Duration> {
    let found = duration(text, 1.0, note)?;
    if found < A_SECOND {
        add("shorter than a second; a second is taken", note);
    }
    Ok(found.max(A_SECOND))
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
        assert_eq!(
            (mode("keep-last:5min", 7), mode("keep-last:1h", 7)),
            (keep(300, 7), keep(3_600, 7))
        );
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
    fn what_a_flight_recorder_cannot_keep_is_the_nearest_that_it_can_and_said() {
        let (too_little, too_much) =
            ("less than 4 MiB; 4 MiB is taken", "more than 1 TiB; 1 TiB is taken");
        for (cap, taken, said) in [
            ("0", SMALLEST_CAP, Some(too_little)),
            ("1", SMALLEST_CAP, Some(too_little)),
            ("1MiB", SMALLEST_CAP, Some(too_little)),
            ("4MB", SMALLEST_CAP, Some(too_little)),
            ("4MiB", SMALLEST_CAP, None),
            ("1024GiB", LARGEST_CAP, None),
            ("1025GiB", LARGEST_CAP, Some(too_much)),
        ] {
            let mut note = None;
            let keeps = super::mode(&format!("keep-last:30s:{cap}"), 7, &mut note);
            let window = Duration::from_secs(30);
            assert_eq!(keeps, Ok(Mode::KeepLast { window, cap_bytes: taken }), "{cap}");
            assert_eq!(note.as_deref(), said, "{cap}");
        }
        let mut note = None;
        super::mode("keep-last:600000m:1", 7, &mut note).unwrap();
        let both = format!("longer than a year; a year is taken; {too_little}");
        assert_eq!(note, Some(both));
    }

    #[test]
    fn an_interval_of_less_than_a_second_is_a_second_and_said() {
        for text in ["0", "0s", "10ms", "0.999"] {
            let mut note = None;
            assert_eq!(interval(text, &mut note), Ok(A_SECOND), "{text}");
            let said = "shorter than a second; a second is taken";
            assert_eq!(note.as_deref(), Some(said), "{text}");
        }
        let mut note = None;
        assert_eq!(interval("1", &mut note), Ok(A_SECOND));
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
