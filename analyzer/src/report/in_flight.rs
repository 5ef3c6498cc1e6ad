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
            for (depth, (name, open_ns)) in frames.iter().take(SHOWN_FRAMES).enumerate() {
                let indent = if stack.track == 0 { 0 } else { depth };
                let open = about::in_words(*open_ns);
                lines.push(format!(
                    "  {:indent$}  {}, open for {open}",
                    "",
                    shown(name),
                    indent = 2 * indent
                ));
            }
            let listed = frames.len().min(SHOWN_FRAMES);
            let deeper = (stack.depth as usize).saturating_sub(listed);
            if deeper > 0 {
                lines.push(format!("    … and {deeper} inside"));
            }
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

fn name(context: &Context, loaded: &Loaded, id: u32) -> String {
    context.traces.names[loaded.name_index(id) as usize].clone()
}

/// How long a span had been open when the file was last written.
fn open_for(loaded: &Loaded, start: u64) -> f64 {
    let end =
        loaded.trace.vitals().map_or(loaded.last_tick, |vitals| vitals.tick.max(loaded.last_tick));
    loaded.trace.clock().ns(end.saturating_sub(start))
}
