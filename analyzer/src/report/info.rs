//! `info`: what the file is and where it comes from.

use ringscope_format::{Counter, Place};
use serde_json::Value;

use super::{Context, about};
use crate::{
    Result,
    cli::Common,
    load::Loaded,
    output::{Document, Part, bytes, count, date, shown},
};

/// Options of `info`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: Args) -> Result<(Common, Document)> {
    let context = Context::open(args.common)?;
    let parts = context.traces.list.iter().map(|loaded| Part::Text {
        key: loaded.label.clone(),
        title: shown(&loaded.path.display().to_string()).into_owned(),
        lines: lines(loaded),
        value: Value::Null,
    });
    let document = context.document("ringscope.info/1", parts.collect());
    Ok((context.common, document))
}

/// What there is to know without reading a record.
pub(super) fn lines(loaded: &Loaded) -> Vec<String> {
    let (trace, header) = (&loaded.trace, loaded.trace.header());
    let clock = trace.clock();
    let mut lines = Vec::new();
    let mut say = |what: &str, text: String| lines.push(format!("  {what:<10} {text}"));
    let recording: String = header.recording.iter().map(|byte| format!("{byte:02x}")).collect();
    say(
        "recording",
        format!("{recording}, file {}, {}", header.file_number, about::mode(header.mode)),
    );
    say("begun", format!("{}, process {}", date(header.created_wall_ns), header.pid));
    say("state", about::state(trace.vitals()));
    let raw =
        trace.chunks().iter().filter(|chunk| matches!(chunk.place, Place::Raw { .. })).count();
    let not_sealed = if raw > 0 { format!(" ({raw} not sealed yet)") } else { String::new() };
    say(
        "events",
        format!(
            "{} over {}, {} chunks{not_sealed}, {} names, {} tracks",
            count(loaded.events),
            about::in_words(loaded.length_ns()),
            count(trace.chunks().len() as u64),
            count(trace.names().len() as u64),
            count(trace.tracks().len() as u64),
        ),
    );
    let sealed: u64 = trace
        .chunks()
        .iter()
        .map(|chunk| match chunk.place {
            Place::Sealed { length, .. } => u64::from(length),
            Place::Raw { .. } => 0,
        })
        .sum();
    let sealed_events: u64 = trace
        .chunks()
        .iter()
        .filter(|chunk| matches!(chunk.place, Place::Sealed { .. }))
        .map(|chunk| u64::from(chunk.events))
        .sum();
    if sealed_events > 0 {
        let each = sealed as f64 / sealed_events as f64;
        say("size", format!("{} sealed, {each:.2} bytes an event", bytes(sealed as f64).trim()));
    }
    let counter = match header.counter {
        Counter::X86Tsc => "time-stamp counter",
        Counter::Aarch64Cntvct => "virtual counter",
        Counter::MonotonicNs => "monotonic clock",
    };
    let mut text = format!(
        "{counter}, {:.4} ns a tick, fitted over {} pairs, error at most {}",
        clock.ns_per_tick(),
        clock.pairs(),
        about::in_words(clock.error_ns()),
    );
    for (what, n) in [
        ("jump", clock.jumps().len()),
        ("suspend", clock.suspends().len()),
        ("step of the wall clock", clock.wall_steps().len()),
    ] {
        if n > 0 {
            text.push_str(&format!(", {n} {what}{}", if n > 1 { "s" } else { "" }));
        }
    }
    say("clock", text);
    if let Some(vitals) = trace.vitals() {
        let mut text =
            format!("{} produced, {} stored", count(vitals.produced()), count(vitals.stored));
        match vitals.total_lost() {
            0 => text.push_str(", none lost"),
            lost => text.push_str(&format!(", {} lost ({})", count(lost), about::causes(vitals))),
        }
        if vitals.total_skipped() > 0 {
            text.push_str(&format!(
                ", {} skipped ({})",
                count(vitals.total_skipped()),
                about::skips(vitals)
            ));
        }
        if vitals.overwritten > 0 {
            text.push_str(&format!(", {} overwritten by newer ones", count(vitals.overwritten)));
        }
        say("account", text);
    }
    for (key, value) in trace.metadata() {
        lines.push(format!("  {:<20} {}", shown(key), shown(value)));
    }
    lines
}
