//! What every thread was inside of when the recording ended: a section of `report`.

use serde_json::{Value, json};

use super::{Context, about};
use crate::{
    Error, Result,
    load::Loaded,
    output::{Part, shown},
};

/// Frames of a stack that people get to see.
const SHOWN_FRAMES: usize = 12;

/// The stacks, if anything was open.
pub(super) fn section(context: &Context) -> Result<Option<Part>> {
    let mut lines = Vec::new();
    let mut values = Vec::new();
    let several = context.traces.list.len() > 1;
    for loaded in &context.traces.list {
        let stacks = loaded.trace.in_flight().map_err(|error| Error::of(&loaded.path, error))?;
        for stack in stacks {
            let track = match stack.track {
                0 => "asynchronous".to_owned(),
                track => loaded.track_name(track),
            };
            let track = if several { format!("{}: {track}", loaded.label) } else { track };
            lines.push(format!("  {}", shown(&track)));
            let frames: Vec<(String, f64)> = stack
                .spans
                .iter()
                .map(|span| (name(context, loaded, span.name), open_for(loaded, span.start)))
                .collect();
            let depth = stack.depth as usize;
            lines.extend(if stack.track == 0 { set(&frames, depth) } else { nest(&frames, depth) });
            let frame =
                |(name, open_ns): &(String, f64)| json!({ "name": name, "open_ns": open_ns });
            values.push(json!({
                "trace": loaded.label,
                "track": track,
                "depth": stack.depth,
                "spans": frames.iter().map(frame).collect::<Vec<_>>(),
            }));
        }
    }
    if lines.is_empty() {
        return Ok(None);
    }
    Ok(Some(Part::Text {
        key: "in_flight".to_owned(),
        title: "Open at the end".to_owned(),
        lines,
        value: Value::Array(values),
    }))
}

/// Spans one inside of the other, of which there are `depth`.
fn nest(frames: &[(String, f64)], depth: usize) -> Vec<String> {
    let listed = frames.iter().take(SHOWN_FRAMES).enumerate();
    let mut lines: Vec<String> = listed
        .map(|(at, (name, ns))| {
            format!("  {:1$}  {2}, open for {3}", "", 2 * at, shown(name), about::in_words(*ns))
        })
        .collect();
    let inside = depth.saturating_sub(lines.len());
    if inside > 0 {
        lines.push(format!("    … and {inside} inside"));
    }
    lines
}

/// Spans that have nothing to do with one another: a line a name, those that have been open for
/// longest first.
fn set(frames: &[(String, f64)], count: usize) -> Vec<String> {
    let mut by_name: Vec<(&str, usize, f64)> = Vec::new();
    for (name, ns) in frames {
        match by_name.iter_mut().find(|(known, ..)| known == name) {
            Some((_, count, longest)) => (*count, *longest) = (*count + 1, longest.max(*ns)),
            None => by_name.push((name, 1, *ns)),
        }
    }
    by_name.sort_by(|a, b| b.2.total_cmp(&a.2).then_with(|| a.0.cmp(b.0)));
    let mut told = 0;
    let line = |(name, count, longest): &(&str, usize, f64)| {
        told += count;
        let (name, open) = (shown(name), about::in_words(*longest));
        match count {
            1 => format!("    {name}, open for {open}"),
            _ => format!("    {count} x {name}, open for up to {open}"),
        }
    };
    let mut lines: Vec<String> = by_name.iter().take(SHOWN_FRAMES).map(line).collect();
    let more = count.saturating_sub(told);
    if more > 0 {
        lines.push(format!("    … and {more} more"));
    }
    lines
}

fn name(context: &Context, loaded: &Loaded, id: u32) -> String {
    context.traces.names[loaded.name_index(id) as usize].clone()
}

/// How long a span had been open when the file was last written.
fn open_for(loaded: &Loaded, start: u64) -> f64 {
    let end =
        loaded.trace.vitals().map_or(loaded.last_tick, |vitals| vitals.tick.max(loaded.last_tick));
    loaded.trace.clock().ns(end.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(given: &[(&str, f64)]) -> Vec<(String, f64)> {
        given.iter().map(|&(name, ns)| (name.to_owned(), ns)).collect()
    }

    #[test]
    fn a_stack_is_indented_and_says_how_many_are_not_listed() {
        let lines = nest(&frames(&[("outer", 2e6), ("inner", 1e3)]), 5);
        assert_eq!(
            lines,
            ["    outer, open for 2.00 ms", "      inner, open for 1.00 us", "    … and 3 inside"]
        );
    }

    #[test]
    fn a_set_has_a_line_a_name_and_the_oldest_first() {
        let open = frames(&[("query", 1e6), ("request", 2e6), ("query", 3e6), ("query", 2e6)]);
        let lines = ["    3 x query, open for up to 3.00 ms", "    request, open for 2.00 ms"];
        assert_eq!(set(&open, 4), lines);
        assert_eq!(set(&open, 6)[2], "    … and 2 more");
    }
}
