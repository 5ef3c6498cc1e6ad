//! What stands out, like a good colleague would say it: each hint with its
//! evidence and the command that shows more. The last section of `report`.

use ringscope_format::LostCause;
use serde_json::{Value, json};

use super::{Context, about, spans::Labels};
use crate::{
    load::{Account, Loaded},
    output::{Cell, Part, Table, bytes, count, shown},
    summary::{Answer, Group},
};

/// A hint needs at least this many durations behind it.
const ENOUGH: u64 = 100;
/// A name stands out if it takes this share of all self time.
const LARGE_SHARE: f64 = 0.3;
/// A tail is long if its p99 is so many times its p50.
const LONG_TAIL: f64 = 5.0;
/// Only names with this share of all time are worth a hint about their tail.
const WORTH_A_LOOK: f64 = 0.02;
/// About what a span costs the thread that records it; see `benches/README.md`.
const COST_OF_A_SPAN_NS: f64 = 26.0;
/// Spans shorter than so many times that are mostly the recorder.
const TOO_SHORT: f64 = 4.0;
/// A device that waits for the host for this share of its time stands out.
const IDLE_SHARE: f64 = 0.2;
/// A device or pool with this share in use has little room left.
const NEARLY_FULL: f64 = 0.9;
/// More hints than these are noise; more long tails than these are one fact told often.
const MOST: usize = 8;
const MOST_TAILS: usize = 3;

/// What the records are called that say for which request a thread worked.
const SCOPE: &str = "request.scope";

struct Hint {
    text: String,
    command: String,
}

/// What hints are about, asked for or not.
const PERCENTILES: [f64; 2] = [50.0, 99.0];

/// The percentiles that are asked for, and then what else the hints need.
pub(super) fn percentiles(context: &Context) -> Vec<f64> {
    let mut all = context.common.percentiles.clone();
    all.extend(PERCENTILES.iter().filter(|it| !context.common.percentiles.contains(it)));
    all
}

/// What hints are made from.
pub(super) struct Evidence<'a> {
    pub(super) labels: &'a Labels,
    /// About spans, with [`percentiles`].
    pub(super) answer: &'a Answer,
    /// The whole name of the first kernel.
    pub(super) top_kernel: Option<String>,
    /// What the report says about kernels, devices, memory and errors.
    pub(super) parts: Vec<Part>,
}

/// The hints, if there are any.
pub(super) fn section(context: &Context, evidence: &Evidence<'_>) -> Option<Part> {
    let mut hints: Vec<Hint> = Vec::new();
    let parts = &evidence.parts;
    let files = files(context);
    context.traces.list.iter().for_each(|loaded| about_the_trace(loaded, &mut hints));
    about_errors(parts, &files, &mut hints);
    about_memory(parts, &files, &mut hints);
    about_devices(parts, evidence.top_kernel.as_deref(), &files, &mut hints);
    about_spans(context, evidence.labels, evidence.answer, &files, &mut hints);
    if context.traces.names.iter().any(|name| name == SCOPE) {
        hints.push(Hint {
            text: "what was done for which request is known; the longest requests:".to_owned(),
            command: format!("analyze requests {files}"),
        });
    }
    if hints.is_empty() {
        return None;
    }
    hints.truncate(MOST);
    let mut lines = Vec::new();
    for hint in &hints {
        lines.push(format!("  - {}", hint.text));
        if !hint.command.is_empty() {
            lines.push(format!("      {}", hint.command));
        }
    }
    let value = |hint: &Hint| json!({ "text": hint.text, "command": hint.command });
    Some(Part::Text {
        key: "hints".to_owned(),
        title: "What stands out".to_owned(),
        lines,
        value: Value::Array(hints.iter().map(value).collect()),
    })
}

fn about_the_trace(loaded: &Loaded, hints: &mut Vec<Hint>) {
    let path = word(&loaded.path.display().to_string());
    if let Some(Account { own, scope, .. }) = loaded.account()
        && own.total_lost() > 0
    {
        let (share, of) = (own.percent_lost(), about::of_the_recording(scope));
        let most = (1..8).max_by_key(|&cause| own.lost[usize::from(cause)]);
        let remedy = match most.and_then(LostCause::from_byte) {
            Some(LostCause::RingFull) => {
                ": take larger rings (`ring_records`), record fewer (`1/N` rules), or, if bursts come \
                 after pauses, look at them more often (`ticks`)"
            }
            Some(LostCause::File) => ": the disk was full, or the file at its limit",
            Some(LostCause::NoRing) => ": let rings take more memory (`ring_budget`)",
            _ => "",
        };
        hints.push(Hint {
            text: format!("{share:.2} % of the events{of} are missing ({}){remedy}", own.causes()),
            command: format!("analyze info {path}"),
        });
    }
    if !loaded.trace.damage().is_empty() {
        hints.push(Hint {
            text: format!("{} parts of the file are damaged", loaded.trace.damage().len()),
            command: format!("analyze check {path}"),
        });
    }
    let clock = loaded.trace.clock();
    if !clock.jumps().is_empty() {
        hints.push(Hint {
            text: format!(
                "the clock jumped {} times: durations across a jump are wrong",
                clock.jumps().len()
            ),
            command: format!("analyze check {path}"),
        });
    }
}

/// The traces as arguments for a shell.
fn files(context: &Context) -> String {
    let paths = context.traces.list.iter().map(|it| word(&it.path.display().to_string()));
    paths.collect::<Vec<_>>().join(" ")
}

fn table<'a>(parts: &'a [Part], key: &str) -> Option<&'a Table> {
    parts.iter().find_map(|part| match part {
        Part::Table(table) if table.key == key => Some(table),
        _ => None,
    })
}

fn about_errors(parts: &[Part], files: &str, hints: &mut Vec<Hint>) {
    let Some(errors) = table(parts, "errors") else { return };
    // Failed spans are told with their names.
    let is_error = |row: &&Vec<Cell>| text(errors, row, "what") == Some("error");
    let Some(row) = errors.rows.iter().find(is_error) else { return };
    let (Some(name), Some(times), Some(last)) =
        (text(errors, row, "name"), number(errors, row, "count"), number(errors, row, "last_ns"))
    else {
        return;
    };
    let how_often = match times as u64 {
        1 => "once".to_owned(),
        times => format!("{} times", count(times)),
    };
    hints.push(Hint {
        text: format!(
            "error `{}` happened {how_often}, last {} in",
            shown(name),
            about::in_words(last)
        ),
        command: format!("analyze errors {files}"),
    });
}

fn about_memory(parts: &[Part], files: &str, hints: &mut Vec<Hint>) {
    let command = || format!("analyze memory {files}");
    if let Some(allocations) = table(parts, "allocations")
        && let Some(row) =
            allocations.rows.iter().find(|row| text(allocations, row, "leak").is_some())
    {
        let what = ["kind", "device", "scope"].map(|key| text(allocations, row, key));
        let what: Vec<_> = what.into_iter().flatten().map(shown).collect();
        let number = |key| number(allocations, row, key).unwrap_or(0.0);
        hints.push(Hint {
            text: format!(
                "memory of `{}` keeps growing, by {} a second: {} outstanding at the end",
                what.join(", "),
                bytes(number("growth_bytes_per_second")).trim(),
                bytes(number("outstanding_bytes")).trim(),
            ),
            command: command(),
        });
    }
    let Some(uses) = table(parts, "use") else { return };
    for row in &uses.rows {
        if let (Some(what), Some(share)) =
            (text(uses, row, "what"), number(uses, row, "peak_percent"))
            && share >= 100.0 * NEARLY_FULL
        {
            hints.push(Hint {
                text: format!("{} was {share:.0} % full at its peak", shown(what)),
                command: command(),
            });
        }
    }
}

fn about_devices(parts: &[Part], top: Option<&str>, files: &str, hints: &mut Vec<Hint>) {
    if let Some(kernels) = table(parts, "kernels")
        && let Some(row) = kernels.rows.first()
        && let (Some(name), Some(share)) = (top, number(kernels, row, "time_percent"))
        && share > 100.0 * LARGE_SHARE
    {
        let (p50, p99) = (number(kernels, row, "p50_ns"), number(kernels, row, "p99_ns"));
        let tail = match (p50, p99) {
            (Some(p50), Some(p99)) if p50 > 0.0 && p99 >= 2.0 * p50 => {
                format!(" and its p99 is {:.0}x its p50", p99 / p50)
            }
            _ => String::new(),
        };
        hints.push(Hint {
            text: format!("`{}` takes {share:.0} % of device time{tail}", shown(name)),
            command: format!("analyze slow --name {} {files}", word(&pattern_of(name))),
        });
    }
    let Some(devices) = table(parts, "devices") else { return };
    for row in &devices.rows {
        let (device, queue) = (text(devices, row, "device"), text(devices, row, "queue"));
        let idle = number(devices, row, "idle_percent");
        let host_bound = number(devices, row, "host_bound_percent");
        if let (Some(device), Some("all"), Some(idle), Some(host_bound)) =
            (device, queue, idle, host_bound)
            && host_bound > 100.0 * IDLE_SHARE
        {
            hints.push(Hint {
                text: format!(
                    "device {} is idle {idle:.0} % of the time, {host_bound:.0} % waiting for the host to launch work",
                    shown(device)
                ),
                command: format!("analyze kernels {files}"),
            });
        }
    }
}

fn number(table: &Table, row: &[Cell], key: &str) -> Option<f64> {
    match row.get(table.column(key)?)? {
        Cell::Count(n) => Some(*n as f64),
        Cell::Ns(value) | Cell::Percent(value) | Cell::Number(value) | Cell::Bytes(value) => {
            Some(*value)
        }
        _ => None,
    }
}

fn text<'a>(table: &Table, row: &'a [Cell], key: &str) -> Option<&'a str> {
    match row.get(table.column(key)?)? {
        Cell::Text(text) => Some(text),
        _ => None,
    }
}

fn about_spans(
    context: &Context,
    labels: &Labels,
    answer: &Answer,
    files: &str,
    hints: &mut Vec<Hint>,
) {
    let whole: f64 = answer.groups.iter().filter_map(|group| group.self_ns).sum();
    let mut order: Vec<usize> =
        (0..answer.groups.len()).filter(|&at| answer.groups[at].count > 0).collect();
    let own = |at: usize| answer.groups[at].self_ns.unwrap_or(0.0);
    order.sort_by(|&a, &b| own(b).total_cmp(&own(a)));
    let percentiles = percentiles(context);
    let percentile = |group: &Group, wanted: f64| {
        let at = percentiles.iter().position(|&it| it == wanted)?;
        group.percentiles_ns.get(at).copied()
    };

    if let Some(&at) = order.first()
        && order.len() > 1
        && own(at) > LARGE_SHARE * whole
    {
        let name = &labels.names[at];
        hints.push(Hint {
            text: format!(
                "`{}` takes {:.0} % of all self time",
                shown(name),
                100.0 * own(at) / whole
            ),
            command: format!("analyze slow --name {} {files}", word(&pattern_of(name))),
        });
    }
    for &at in &order {
        let group = &answer.groups[at];
        if group.errors > 0 {
            let name = &labels.names[at];
            hints.push(Hint {
                text: format!(
                    "`{}` failed {} of {} times",
                    shown(name),
                    count(group.errors),
                    count(group.count)
                ),
                command: format!("analyze errors {files}"),
            });
        }
    }
    let mut tails = 0;
    for &at in &order {
        let group = &answer.groups[at];
        let (Some(p50), Some(p99)) = (percentile(group, 50.0), percentile(group, 99.0)) else {
            continue;
        };
        let is_long = p99 > 0.0 && p99 >= LONG_TAIL * p50;
        let is_worth_it = group.count >= ENOUGH && group.total_ns > WORTH_A_LOOK * whole;
        if is_long && is_worth_it && tails < MOST_TAILS {
            tails += 1;
            let name = &labels.names[at];
            let times = if p50 > 0.0 {
                format!("{:.0}x its p50", p99 / p50)
            } else {
                "far above its p50".to_owned()
            };
            hints.push(Hint {
                text: format!("`{}` has a p99 of {}, {times}", shown(name), about::in_words(p99)),
                command: format!("analyze hist {} {files}", word(&pattern_of(name))),
            });
        }
    }
    for &at in &order {
        let group = &answer.groups[at];
        if group.count >= 100_000 && group.mean_ns < TOO_SHORT * COST_OF_A_SPAN_NS {
            let name = &labels.names[at];
            hints.push(Hint {
                text: format!(
                    "`{}` lasts {} on average, and recording it costs about {COST_OF_A_SPAN_NS:.0} ns: its figures are partly the recorder's; the rule `{}=1/100` would record fewer",
                    shown(name),
                    about::in_words(group.mean_ns),
                    shown(name),
                ),
                command: String::new(),
            });
        }
    }
}

/// A pattern that matches this name and, but for control characters, no other.
fn pattern_of(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len() + 2);
    for (at, c) in name.chars().enumerate() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\') || (at == 0 && c == '!') {
            pattern.push('\\');
        }
        pattern.push(if c.is_control() { '?' } else { c });
    }
    pattern
}

/// A text as one word for a shell.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('-') {
        return text.to_owned();
    }
    format!("'{}'", shown(text).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::{pattern_of, word};

    #[test]
    fn names_are_quoted_so_that_a_shell_and_a_pattern_take_them_as_they_are() {
        let quoted = |name| word(&pattern_of(name));
        assert_eq!(quoted("block_17"), "block_17");
        assert_eq!(quoted("a b*"), "'a b\\*'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("!x"), "'\\!x'");
        assert_eq!(quoted("a\nb"), "'a?b'");
        assert_eq!(word("my traces/a.trace"), "'my traces/a.trace'");
    }
}
