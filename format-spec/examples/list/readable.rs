//! Numbers, names and tables as people read them.

use ringscope_format::{Kind, Names};
use std::io::{self, Write};

/// Longer names are shortened in the middle on a terminal.
const NAME_WIDTH: usize = 44;

/// Prints rows under a heading: words to the left, numbers to the right.
pub(crate) fn print_table(
    out: &mut impl Write,
    head: &[&str],
    rows: Vec<Vec<String>>,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let used: Vec<usize> = (0..head.len())
        .filter(|at| *at < 3 || rows.iter().any(|row| !row[*at].trim().is_empty()))
        .collect();
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.chain([head[at].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |out: &mut dyn Write, cells: &[&str]| {
        let mut text = String::new();
        for at in &used {
            let width = widths[*at];
            match at {
                0 | 1 => text.push_str(&format!("{:<width$}  ", cells[*at])),
                _ => text.push_str(&format!("{:>width$}  ", cells[*at])),
            }
        }
        writeln!(out, "{}", text.trim_end())
    };
    writeln!(out)?;
    line(out, head)?;
    for row in &rows {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        line(out, &cells)?;
    }
    Ok(())
}

pub(crate) fn kind_name(kind: Kind) -> String {
    kind.name().map_or_else(|| format!("{:#04x}", kind.0), str::to_owned)
}

pub(crate) fn name_of(names: &Names, id: u32, short: bool) -> String {
    let name = match names.get(id) {
        Some("") => "(empty)".to_owned(),
        Some(name) => printable(name),
        None if id == 0 => "(none)".to_owned(),
        None => format!("name {id}"),
    };
    let characters: Vec<char> = name.chars().collect();
    if !short || characters.len() <= NAME_WIDTH {
        return name;
    }
    let (head, tail) = (NAME_WIDTH / 2, NAME_WIDTH - NAME_WIDTH / 2 - 1);
    let start: String = characters[..head].iter().collect();
    let end: String = characters[characters.len() - tail..].iter().collect();
    format!("{start}\u{2026}{end}")
}

/// Text from a file, without what would move a terminal's cursor.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// A duration in the unit that fits it. All of one column have the point in line.
pub(crate) fn duration(ns: f64) -> String {
    let units = [(1e9, "s "), (1e6, "ms"), (1e3, "\u{B5}s"), (0.0, "ns")];
    let unit = units.iter().find(|(least, _)| ns >= *least).unwrap_or(&units[3]);
    let scale = if unit.0 == 0.0 { 1.0 } else { unit.0 };
    format!("{:.2} {}", ns / scale, unit.1)
}

/// A number as it was given, as far as that is readable.
pub(crate) fn plain(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", grouped(value.abs() as u64))
    } else if (1e-3..1e9).contains(&value.abs()) {
        format!("{value:.3}")
    } else {
        format!("{value:.3e}")
    }
}

/// A number and what it is of.
pub(crate) fn counted(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Nanoseconds since the Unix epoch as a date, by the civil calendar.
pub(crate) fn date(ns: i64) -> String {
    let seconds = ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March end with the leap day: the months before it are regular.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day_of_month:02} {hour:02}:{minute:02}:{second:02} UTC")
}
