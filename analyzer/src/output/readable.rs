//! Numbers and names as people read them.

use std::borrow::Cow;

use super::Cell;

/// In which unit durations are shown to people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TimeUnit {
    /// Whatever suits each value
    #[default]
    Auto,
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
    /// Seconds
    S,
}

/// A duration with two decimals and a unit of two characters, so that a
/// right-aligned column of them has its decimal points in line.
pub fn duration(ns: f64, unit: TimeUnit) -> String {
    let size = ns.abs();
    let (divisor, name) = match unit {
        TimeUnit::Ns => (1.0, "ns"),
        TimeUnit::Us => (1e3, "us"),
        TimeUnit::Ms => (1e6, "ms"),
        TimeUnit::S => (1e9, " s"),
        // The bounds are where rounding to two decimals would show 1000.00.
        TimeUnit::Auto if size < 999.995 => (1.0, "ns"),
        TimeUnit::Auto if size < 999_995.0 => (1e3, "us"),
        TimeUnit::Auto if size < 999_995_000.0 => (1e6, "ms"),
        TimeUnit::Auto => (1e9, " s"),
    };
    format!("{} {name}", decimals(ns / divisor, 2))
}

/// Bytes with one decimal and a binary unit.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 6] = ["B  ", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value.abs() >= 1_023.95 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    format!("{} {}", decimals(value, 1), UNITS[unit])
}

/// A whole number with separators.
pub fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// A count and its noun: `1 event`, `2 events`.
pub fn number_of(n: u64, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(n))
}

/// A number with so many decimals and separators.
fn decimals(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", grouped(whole)),
        None => grouped(&text),
    }
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    text.push_str(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digit.is_ascii_digit() {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of any kind: whole ones whole, others with as many digits as they need.
fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return grouped(&format!("{value:.0}"));
    }
    let size = value.abs();
    if !(1e-4..1e9).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits = (3 - size.log10().floor() as i32).clamp(1, 8) as usize;
    decimals(value, digits)
}

/// A cell for people.
pub(super) fn cell(cell: &Cell, unit: TimeUnit) -> String {
    match cell {
        Cell::None => String::new(),
        Cell::Text(text) => shown(text).into_owned(),
        Cell::Count(n) => count(*n),
        Cell::Ns(ns) => duration(*ns, unit),
        Cell::Bytes(value) => bytes(*value),
        Cell::Percent(percent) => decimals(*percent, 1),
        Cell::Number(value) => number(*value),
        Cell::Json(value) => shown(&value.to_string()).into_owned(),
    }
}

/// A text that can do nothing to a terminal: control characters and marks that
/// change the direction of writing are written as escapes.
pub fn shown(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| {
        !(c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}'))
    };
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| {
        if harmless(c) { c.to_string() } else { c.escape_default().to_string() }
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Cuts the middle out of a text that is longer than `width` characters: names
/// differ at both ends.
pub fn shorten_middle(text: &str, width: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= width || width < 3 {
        return Cow::Borrowed(text);
    }
    let head = (width - 1).div_ceil(2);
    let tail = width - 1 - head;
    let front: String = text.chars().take(head).collect();
    let back: String = text.chars().skip(length - tail).collect();
    Cow::Owned(format!("{front}…{back}"))
}

/// A point of time, UTC, from nanoseconds since 1970.
pub fn date(wall_ns: i64) -> String {
    let seconds = wall_ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a civil date: counted in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_choose_a_unit_that_never_shows_a_thousand() {
        let auto = |ns| duration(ns, TimeUnit::Auto);
        assert_eq!(auto(0.0), "0.00 ns");
        assert_eq!(auto(999.99), "999.99 ns");
        assert_eq!(auto(999.996), "1.00 us");
        assert_eq!(auto(1_234_567.0), "1.23 ms");
        assert_eq!(auto(-5e9), "-5.00  s");
        assert_eq!(duration(1_234_567_890.0, TimeUnit::Us), "1,234,567.89 us");
    }

    #[test]
    fn bytes_and_counts_are_readable() {
        assert_eq!(bytes(0.0), "0.0 B  ");
        assert_eq!(bytes(1_536.0), "1.5 KiB");
        assert_eq!(bytes(-1_048_576.0), "-1.0 MiB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(number(0.5), "0.5000");
        assert_eq!(number(1e12), "1,000,000,000,000");
    }

    #[test]
    fn names_cannot_move_the_cursor_or_turn_the_text_around() {
        assert_eq!(shown("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(shown("größe"), "größe");
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shorten_middle("block_0123456789", 9), "bloc…6789");
        assert_eq!(shorten_middle("short", 9), "short");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(-1), "1969-12-31 23:59:59 UTC");
    }
}
