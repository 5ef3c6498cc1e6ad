//! What a file is, told by its content; and of what is none of ours, why not.

use super::{chrome, columnar, csv, json::Reader, jsonl, rocprof, rows};

/// A format that is read from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Chrome,
    Columnar,
    Csv,
    JsonRows,
    RocprofCsv,
    RocprofJson,
}

/// What to do about a file that is nothing of this.
const TAKEN: &str = "give a trace of ringscope, of Chrome, PyTorch, XLA, Nsight Systems (SQLite) or \
                     rocprofv3, or a table as CSV, JSON, Parquet or Arrow";

impl Format {
    /// What it is, or why it is nothing that can be read.
    pub(super) fn of(text: &[u8]) -> Result<Self, String> {
        Ok(if columnar::is_columnar(text) {
            Format::Columnar
        } else if rocprof::is_rocprof(text) {
            Format::RocprofJson
        } else if chrome::is_chrome(text) {
            Format::Chrome
        } else if jsonl::is_rows(text) {
            Format::JsonRows
        } else if csv::has_header(text, |header| rocprof::is_header(header.iter().copied())) {
            Format::RocprofCsv
        } else if csv::is_csv(text) {
            Format::Csv
        } else {
            return Err(why_not(text));
        })
    }
}

pub(super) fn is_sqlite(head: &[u8]) -> bool {
    head.starts_with(b"SQLite format 3\0")
}

fn why_not(text: &[u8]) -> String {
    let what = if text.iter().all(u8::is_ascii_whitespace) {
        "is empty"
    } else if matches!(text, [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]) {
        return "is UTF-16; make it UTF-8 first".to_owned();
    } else if let Some(way_out) = one_way(text) {
        return way_out.to_owned();
    } else if let Some(why) = no_table(text) {
        return why;
    } else if text.iter().take(4_096).any(|&byte| byte == 0) {
        "not a ringscope trace, nor of a profiler that is known"
    } else {
        "not of a profiler that is known"
    };
    format!("{what}; {TAKEN}")
}

/// Formats that are written by `export` and not read: they leave out too much.
fn one_way(text: &[u8]) -> Option<&'static str> {
    let first = String::from_utf8_lossy(&text[..text.len().min(4_096)]);
    let line = first.lines().next().unwrap_or_default();
    let is_stack = |line: &str| {
        let weight = line.rsplit_once(' ').map(|(_, weight)| weight.parse::<u64>());
        weight.is_some_and(|weight| weight.is_ok())
    };
    // A field 1 with a length: what traces of Perfetto and profiles of pprof begin with.
    if text.starts_with(&[0x0A]) && text.contains(&0) {
        Some(
            "looks like protobuf, as of Perfetto or pprof, which is written and not read; give the \
              trace that it was made of, or Chrome's JSON",
        )
    } else if first.trim_start().starts_with('{') && first.contains("\"resourceSpans\"") {
        Some("OTLP, which is written and not read; give the trace that it was made of")
    } else if line.starts_with("# HELP ") || line.starts_with("# TYPE ") {
        Some("OpenMetrics, which has sums and no events; give the trace that they were made of")
    } else if first.contains(';') && first.lines().take(8).all(is_stack) {
        Some("folded stacks, which have sums and no events; give the trace that they were made of")
    } else {
        None
    }
}

/// Of something like a table of events, which column is missing.
fn no_table(text: &[u8]) -> Option<String> {
    let (of, keys) = match Reader::new(text).peek() {
        Some(b'{' | b'[') => ("JSON, and its first object", jsonl::first_keys(text)?),
        _ => ("CSV, and its first line", csv::header(text)?),
    };
    let missing = rows::missing(keys.iter().map(String::as_str))?;
    let most = 12;
    let mut there: Vec<&str> = keys.iter().take(most).map(String::as_str).collect();
    if keys.len() > most {
        there.push("...");
    }
    Some(format!(
        "looks like {of} has no {missing} but {}; a table of events needs `name` and `start_ns`",
        there.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_is_told_why() {
        let why = |text: &[u8]| Format::of(text).unwrap_err();
        let say = [
            (&b" \n"[..], "is empty"),
            (b"\xFF\xFEa\0", "UTF-16"),
            (b"{\"resourceSpans\": []}", "OTLP"),
            (b"# TYPE a counter\na 1\n", "OpenMetrics"),
            (b"main;step;matmul 1234\n", "folded"),
            (b"\x0A\x10\0\x01", "protobuf"),
            (b"name,when,dur_ns\na,1,2\n", "has no `start_ns` but name, when, dur_ns"),
            (b"[{\"start_ns\": 1, \"dur_ns\": 5}]", "first object has no `name` but"),
            (b"[{\"id\": 1}, 7]", "first object has no `name` and `start_ns` but id"),
            (b"\x7FELF\0\0", "nor of a profiler"),
            (b"Dear all,\nthe build is slow.\n", "not of a profiler"),
        ];
        for (text, part) in say {
            let whole = why(text);
            assert!(whole.contains(part), "{part:?} in {whole:?}");
        }
    }
}
