//! What a trace is and what is missing from it: said at the top of a report, in
//! every JSON document, and on standard error where figures would mislead.

use ringscope_format::{LostCause, Mode, RecordingState, SkipCause, Vitals};
use serde_json::{Map, Value, json};

use super::Context;
use crate::{
    load::{Account, Counts, Loaded, Scope, Traces},
    output::{TimeUnit, count, date, duration, shown},
};

/// A duration in a sentence.
pub(crate) fn in_words(ns: f64) -> String {
    duration(ns, TimeUnit::Auto).replace("  ", " ")
}

/// How far the clock may be off; of several traces in one, each of theirs.
pub(crate) fn clock_error(loaded: &Loaded) -> String {
    let error = match loaded.trace.clock().error_ns() {
        Some(error) => format!("error at most {}", in_words(error)),
        None => "error not known".to_owned(),
    };
    match between_sources(loaded) {
        None => error,
        Some(None) => format!("{error} within each source, not known between them"),
        Some(Some(between)) => format!(
            "{error} within each source; shared events are off by at most {} between them",
            in_words(between)
        ),
    }
}

/// Of a merged trace: by how much at most events that the sources share were apart when these
/// had been aligned by them; `None` if they were not.
fn between_sources(loaded: &Loaded) -> Option<Option<f64>> {
    let is_merged = loaded.edits().any(|edit| edit == "merge");
    let metadata = loaded.trace.metadata();
    let residuals = metadata.iter().filter(|(key, _)| key.ends_with("/merge.residual_ns"));
    let residuals = residuals.filter_map(|(_, value)| value.parse().ok());
    is_merged.then(|| residuals.reduce(f64::max))
}

/// Says what makes the figures less than the whole truth.
pub(super) fn warn(context: &Context) {
    for loaded in &context.traces.list {
        warn_damage_of(loaded);
        let path = shown(&loaded.path.display().to_string()).into_owned();
        // Of what was just converted it has been said.
        if let Some(source) = loaded.source_state().filter(|_| !loaded.is_converted) {
            eprintln!("analyze: {path}: of its source: {}; figures are of the rest", shown(source));
        }
        let account = missing(loaded);
        if let Some(Account { own, scope, .. }) = account
            && own.total_lost() > 0
        {
            eprintln!(
                "analyze: {path}: {} of {} events{} were lost ({:.2} %): {}; figures are of what was stored",
                count(own.total_lost()),
                count(own.produced()),
                of_the_recording(scope),
                own.percent_lost(),
                own.causes(),
            );
        }
        if let Some((vitals, account)) = loaded.trace.vitals().zip(account)
            && vitals.texts_cut > 0
        {
            eprintln!(
                "analyze: {path}: {} of {} long texts of errors{} were cut: too many at once, or too much of one error",
                count(vitals.texts_cut),
                count(vitals.texts_cut.saturating_add(vitals.long_texts)),
                texts_of(account.scope),
            );
        }
        if let Some(Account { own, scope, .. }) = account
            && own.total_skipped() > 0
        {
            let rules =
                loaded.trace.metadata().get("rules").filter(|rules| !rules.trim().is_empty());
            let rules = rules.map(|rules| format!(", last by the rules {}", shown(rules)));
            eprintln!(
                "analyze: {path}: {} of {} events{} were skipped on request{}; counts and totals are \
                 of what was recorded",
                count(own.total_skipped()),
                count(own.produced()),
                of_the_recording(scope),
                rules.unwrap_or_default(),
            );
        }
    }
}

/// The account of a trace whose recording lost, skipped or cut anything: that of a part takes a
/// look at its chunks.
fn missing(loaded: &Loaded) -> Option<Account> {
    let vitals = loaded.trace.vitals()?;
    let counted = [vitals.total_lost(), vitals.total_skipped(), vitals.texts_cut];
    // Vitals may be older than what was written before them.
    let is_any = counted != [0; 3] || !loaded.losses().is_empty();
    is_any.then(|| loaded.account()).flatten()
}

/// What has become of stored events that are not in the file: a recording may still have what its
/// dump does not.
pub(super) fn left_out(loaded: &Loaded) -> &'static str {
    match loaded.trace.header().mode {
        Mode::Dump => "not in this dump",
        _ => "overwritten",
    }
}

/// What is said after a number of events that is not this file's.
pub(super) fn of_the_recording(scope: Scope) -> &'static str {
    if scope == Scope::Recording { " of the whole recording" } else { "" }
}

/// What is said after a number of long texts, which are counted for the whole recording only.
pub(super) fn texts_of(scope: Scope) -> &'static str {
    if scope == Scope::All { "" } else { " in the whole recording" }
}

/// `2 tracks`, or `2 of 7 tracks` if nothing was recorded on the others.
pub(super) fn tracks(loaded: &Loaded) -> String {
    let (known, in_use) = (loaded.trace.tracks().len() as u64, loaded.tracks_in_use() as u64);
    match in_use < known {
        true => format!("{} of {} tracks", count(in_use), count(known)),
        false => format!("{} tracks", count(in_use)),
    }
}

/// Whether there is anything to say of long texts.
pub(super) fn has_long_texts(vitals: &Vitals) -> bool {
    vitals.long_texts > 0 || vitals.texts_cut > 0
}

/// Texts of errors that are longer than an event holds, in words.
pub(super) fn long_texts(vitals: &Vitals) -> String {
    match vitals.texts_cut {
        0 => format!("{} stored", count(vitals.long_texts)),
        cut => format!(
            "{} stored, {} cut: too many at once, or too much of one error",
            count(vitals.long_texts),
            count(cut)
        ),
    }
}

/// Says what is damaged, so far as opening the traces has shown.
pub(crate) fn warn_damage(traces: &Traces) {
    traces.list.iter().for_each(warn_damage_of);
}

fn warn_damage_of(loaded: &Loaded) {
    let path = loaded.path.display().to_string();
    for damage in loaded.trace.damage() {
        eprintln!("analyze: {}: {damage}", shown(&path));
    }
}

/// Says which chunks turned out to be damaged when they were read.
pub(crate) fn warn_unreadable(traces: &Traces) {
    for lost in traces.unreadable() {
        let path = traces.list[lost.trace].path.display().to_string();
        let missing = match lost.events {
            0 => "its long texts are cut".to_owned(),
            events => format!("{} events are missing", count(events)),
        };
        eprintln!("analyze: {}: {}; {missing}", shown(&path), lost.message);
    }
}

/// How the recording ended, in words, and what it was made of if that ended too early.
pub(crate) fn state(loaded: &Loaded) -> String {
    let state = recording_state(loaded);
    match loaded.source_state() {
        Some(source) => format!("{state}; of its source: {}", shown(source)),
        None => state,
    }
}

/// How the recording of this very file ended, in words.
pub(crate) fn recording_state(loaded: &Loaded) -> String {
    let Some(vitals) = loaded.trace.vitals() else {
        return "unknown: its vitals are damaged".to_owned();
    };
    match vitals.state {
        RecordingState::Finished => "finished".to_owned(),
        RecordingState::FatalSignal => format!("died of signal {}", vitals.signal),
        RecordingState::Continued => "goes on in the next file".to_owned(),
        RecordingState::GivenUp => "given up: the file could not be written".to_owned(),
        RecordingState::Recording => {
            let why = match loaded.is_being_written() {
                Some(true) => "still being recorded",
                Some(false) => "killed, or copied while it was recorded",
                None => "still being recorded, or killed",
            };
            let undrained = match vitals.waiting {
                0 => "what was not drained is unknown, at most one tick".to_owned(),
                waiting => format!(
                    "{} records and slots waited in the rings for room in the file; what came after \
                     them is unknown, at most one tick",
                    count(waiting)
                ),
            };
            format!("not finished: {why}; {undrained}")
        }
        RecordingState::Unknown(byte) => format!("unknown state {byte}"),
    }
}

/// What kind of file it is, in words.
pub(super) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Full => "full recording",
        Mode::KeepLast => "flight recorder",
        Mode::Dump => "dump of a flight recorder",
        Mode::Converted => "converted",
    }
}

/// What is known of a flight recorder, or of a dump of one.
struct Flight<'a> {
    /// Why the dump was made.
    reason: Option<&'a str>,
    /// How much was to be kept.
    window_ns: Option<f64>,
    /// How much there is; not of what was made of such a file.
    covers_ns: Option<f64>,
}

impl<'a> Flight<'a> {
    fn of(loaded: &'a Loaded) -> Option<Self> {
        let metadata = loaded.trace.metadata();
        let number = |key: &str| metadata.get(key).and_then(|text| text.parse().ok());
        let reason = metadata.get("dump.reason").map(String::as_str);
        let mode = loaded.trace.header().mode;
        let covers_ns = match mode {
            Mode::Dump => number("dump.covers_ns"),
            Mode::KeepLast => Some(loaded.length_ns()),
            Mode::Converted if reason.is_some() => None,
            Mode::Converted | Mode::Full => return None,
        };
        Some(Self { reason, window_ns: number("keep_last.window_ns"), covers_ns })
    }
}

/// That a trace is a flight recorder's, why it was made and how much it covers.
pub(super) fn flight(loaded: &Loaded) -> Option<String> {
    let flight = Flight::of(loaded)?;
    let mut text = match loaded.trace.header().mode {
        Mode::Converted => format!("made of a {}", mode(Mode::Dump)),
        of_file => mode(of_file).to_owned(),
    };
    if let Some(reason) = flight.reason {
        text.push_str(&format!(", {}", shown(reason)));
    }
    match (flight.covers_ns.map(in_words), flight.window_ns.map(in_words)) {
        (Some(covers), Some(window)) => {
            text.push_str(&format!("; covers {covers}, asked to keep the last {window}"));
        }
        (Some(covers), None) => text.push_str(&format!("; covers {covers}")),
        (None, Some(window)) => text.push_str(&format!("; asked to keep the last {window}")),
        (None, None) => {}
    }
    Some(text)
}

/// When it began, if that is known.
pub(super) fn begun(loaded: &Loaded) -> Option<String> {
    loaded.trace.header().begun_wall_ns().map(date)
}

/// The process it is of, in words, if that is known.
pub(super) fn process(loaded: &Loaded) -> String {
    match loaded.trace.header().pid {
        0 => String::new(),
        pid => format!(", process {pid}"),
    }
}

/// What the traces are, for machines: an object, or a list of them.
pub fn trace_json(traces: &Traces) -> Value {
    one_or_many(traces.list.iter().map(one_trace_json).collect())
}

pub(super) fn one_trace_json(loaded: &Loaded) -> Value {
    let (trace, header) = (&loaded.trace, loaded.trace.header());
    let clock = trace.clock();
    let recording: String = header.recording.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut value = json!({
        "path": loaded.path.display().to_string(),
        "label": loaded.label,
        "recording": recording,
        "file_number": header.file_number,
        "mode": mode(header.mode),
        "state": trace.vitals().map(|vitals| match (vitals.state, loaded.is_being_written()) {
            (RecordingState::Recording, Some(false)) => "killed",
            (state, _) => state_key(state),
        }),
        "signal": trace.vitals().map(|vitals| vitals.signal).filter(|&signal| signal > 0),
        "pid": header.pid,
        "begun": begun(loaded),
        "begun_unix_ns": header.begun_wall_ns(),
        "length_ns": loaded.length_ns(),
        "events": loaded.events,
        "names": trace.names().len(),
        "tracks": trace.tracks().len(),
        "clock_error_ns": clock.error_ns(),
        "clock_jumps": clock.jumps().len(),
        "clock_suspends": clock.suspends().len(),
        "damaged_parts": trace.damage().len(),
        "metadata": trace.metadata(),
    });
    if let (Some(flight), Some(object)) = (Flight::of(loaded), value.as_object_mut()) {
        let flight = json!({
            "dump_reason": flight.reason,
            "window_ns": flight.window_ns,
            "covers_ns": flight.covers_ns,
        });
        object.insert("flight_recorder".to_owned(), flight);
    }
    if let (Some(between), Some(object)) = (between_sources(loaded), value.as_object_mut()) {
        object.insert("shared_events_apart_ns".to_owned(), between.into());
    }
    value
}

fn state_key(state: RecordingState) -> &'static str {
    match state {
        RecordingState::Finished => "finished",
        RecordingState::FatalSignal => "fatal_signal",
        RecordingState::Continued => "continued",
        RecordingState::GivenUp => "given_up",
        RecordingState::Recording => "recording",
        RecordingState::Unknown(_) => "unknown",
    }
}

/// What is missing from the traces, for machines.
pub fn loss_json(traces: &Traces) -> Value {
    let of = |(at, loaded)| one_loss_json(loaded, traces.events_unreadable(at));
    one_or_many(traces.list.iter().enumerate().map(of).collect())
}

fn one_loss_json(loaded: &Loaded, unreadable: u64) -> Value {
    let (Some(vitals), Some(account)) = (loaded.trace.vitals(), loaded.account()) else {
        return Value::Null;
    };
    let mut value = counts_json(&account.own);
    let rest = json!({
        "overwritten": vitals.overwritten,
        "texts_cut": vitals.texts_cut,
        "texts_cut_of": if account.scope == Scope::All { "file" } else { "recording" },
        "unreadable": events_missing(loaded, unreadable),
        "exact": is_exact(loaded),
        "of": if account.scope == Scope::Recording { "recording" } else { "file" },
    });
    let Value::Object(rest) = rest else { return value };
    if let Some(object) = value.as_object_mut() {
        object.extend(rest);
        if account.scope == Scope::Part {
            object.insert("before".to_owned(), counts_json(&account.before));
        }
    }
    value
}

fn counts_json(counts: &Counts) -> Value {
    let by_cause = |counts: &[u64; 8], key: fn(u8) -> String| -> Map<String, Value> {
        let known = (1..8_u8).filter(|&byte| counts[usize::from(byte)] > 0);
        known.map(|byte| (key(byte), counts[usize::from(byte)].into())).collect()
    };
    let lost_key = |byte| {
        LostCause::from_byte(byte)
            .map_or_else(|| format!("cause {byte}"), |it| it.describe().to_owned())
    };
    let skip_key = |byte| {
        SkipCause::from_byte(byte)
            .map_or_else(|| format!("cause {byte}"), |it| it.describe().to_owned())
    };
    json!({
        "produced": counts.produced(),
        "stored": counts.stored,
        "lost": counts.total_lost(),
        "lost_by_cause": by_cause(&counts.lost, lost_key),
        "skipped": counts.total_skipped(),
        "skipped_by_cause": by_cause(&counts.skipped, skip_key),
    })
}

/// Whether all that was lost was counted.
pub(crate) fn is_exact(loaded: &Loaded) -> bool {
    let is_counted = |vitals: &Vitals| {
        vitals.state.file_is_complete() || vitals.state == RecordingState::FatalSignal
    };
    loaded.trace.vitals().is_some_and(is_counted) && loaded.source_state().is_none()
}

/// Events that are missing because parts could not be read, when the file was opened
/// or since; `None` if that is not known.
pub(super) fn events_missing(loaded: &Loaded, unreadable: u64) -> Option<u64> {
    match (loaded.trace.events_missing(), unreadable) {
        (None, 0) => None,
        (missing, unreadable) => Some(missing.unwrap_or(0).saturating_add(unreadable)),
    }
}

fn one_or_many(mut values: Vec<Value>) -> Value {
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}
