//! `info`: what the file is and where it comes from.

use ringscope_format::{Counter, Place};
use serde_json::{Value, json};

use super::{Context, about};
use crate::{
    Result,
    cli::Common,
    load::{Loaded, Scope},
    output::{Document, Part, bytes, count, shown},
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
        value: value(loaded),
    });
    let document = context.document("ringscope.info/1", parts.collect());
    Ok((context.common, document))
}

/// Chunks that are sealed: how many, their bytes and events; and how many are not.
struct Chunks {
    sealed: u64,
    bytes: u64,
    events: u64,
    not_sealed: u64,
}

impl Chunks {
    fn of(loaded: &Loaded) -> Self {
        let mut sum = Self { sealed: 0, bytes: 0, events: 0, not_sealed: 0 };
        for chunk in loaded.trace.chunks() {
            match chunk.place {
                Place::Sealed { length, .. } => {
                    sum.sealed += 1;
                    sum.bytes += u64::from(length);
                    sum.events += u64::from(chunk.events);
                }
                Place::Raw { .. } => sum.not_sealed += 1,
            }
        }
        sum
    }
}

/// What is not in every document anyway.
fn value(loaded: &Loaded) -> Value {
    let (clock, chunks) = (loaded.trace.clock(), Chunks::of(loaded));
    json!({
        "chunks": chunks.sealed + chunks.not_sealed,
        "chunks_not_sealed": chunks.not_sealed,
        "sealed_bytes": chunks.bytes,
        "sealed_events": chunks.events,
        "tracks_in_use": loaded.tracks_in_use(),
        "counter": counter(loaded),
        "ns_per_tick": clock.ns_per_tick(),
        "clock_pairs": clock.pairs(),
        "clock_error_ns": clock.error_ns(),
        "clock_wall_steps": clock.wall_steps().len(),
    })
}

fn counter(loaded: &Loaded) -> &'static str {
    match loaded.trace.header().counter {
        Counter::X86Tsc => "time-stamp counter",
        Counter::Aarch64Cntvct => "virtual counter",
        Counter::MonotonicNs => "monotonic clock",
    }
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
    let begun = about::begun(loaded).unwrap_or_else(|| "unknown".to_owned());
    say("begun", begun + &about::process(loaded));
    say("state", about::state(loaded));
    let chunks = Chunks::of(loaded);
    let not_sealed = match chunks.not_sealed {
        0 => String::new(),
        raw => format!(" ({raw} not sealed yet)"),
    };
    say(
        "events",
        format!(
            "{} over {}, {} chunks{not_sealed}, {} names, {}",
            count(loaded.events),
            about::in_words(loaded.length_ns()),
            count(trace.chunks().len() as u64),
            count(trace.names().len() as u64),
            about::tracks(loaded),
        ),
    );
    if chunks.events > 0 {
        let (all, each) = (chunks.bytes as f64, chunks.bytes as f64 / chunks.events as f64);
        say("size", format!("{} sealed, {each:.2} bytes an event", bytes(all).trim()));
    }
    let counter = counter(loaded);
    let mut text = format!(
        "{counter}, {:.4} ns a tick, fitted over {} pairs, {}",
        clock.ns_per_tick(),
        clock.pairs(),
        about::clock_error(loaded),
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
    if let (Some(vitals), Some(account)) = (trace.vitals(), loaded.account()) {
        let own = &account.own;
        let of = about::of_the_recording(account.scope);
        let mut text =
            format!("{} produced{of}, {} stored", count(own.produced()), count(own.stored));
        match own.total_lost() {
            0 => text.push_str(", none lost"),
            lost => text.push_str(&format!(", {} lost ({})", count(lost), own.causes())),
        }
        if own.total_skipped() > 0 {
            text.push_str(&format!(", {} skipped ({})", count(own.total_skipped()), own.skips()));
        }
        if vitals.overwritten > 0 {
            let left_out = about::left_out(loaded);
            text.push_str(&format!(", {} older ones {left_out}", count(vitals.overwritten)));
        }
        say("account", text);
        // What a copy says of its source is in its metadata, below.
        if let Some(said) = account.elsewhere(loaded).filter(|_| account.scope != Scope::All) {
            say("", said);
        }
        if about::has_long_texts(vitals) {
            say("long texts", about::long_texts(vitals) + about::texts_of(account.scope));
        }
    }
    for (key, value) in trace.metadata() {
        lines.push(format!("  {:<20} {}", shown(key), shown(value)));
    }
    lines
}
